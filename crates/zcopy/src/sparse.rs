//! Holes: finding them in the source, and making them in the sink.

use crate::endpoint::Endpoint;
use crate::fd_info::FdInfo;
use crate::options::Sparse;

mod extents;
mod holes;

pub(crate) use extents::{Extents, Segment};
pub(crate) use holes::Holes;

/// The length of the blocks that are tested for zeros: the block size of nearly every file system.
const BLOCK: usize = 4096;

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// How the sink gets blocks of zeros that were read from the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ZeroBlocks {
    /// They are written, as other bytes are.
    #[default]
    Written,
    /// They become holes (`Sparse::Detect`).
    Holes,
}

/// Whether anyone sees the zeros of holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ShownTo {
    #[default]
    Nobody,
    /// The caller's inspector.
    Inspector,
}

impl Sparse {
    /// The smallest file, in bytes, that is searched for allocated blocks that were never written.
    /// Reading 1 MiB takes a hundred times longer than the search.
    const SEARCHED: u64 = 1 << 20;

    /// Whether the source is searched for holes.
    pub(crate) fn searches(self, source: &FdInfo) -> bool {
        match self {
            Self::Fill => false,
            Self::Keep | Self::Detect => source.has_holes(),
            Self::KeepUnwritten => {
                source.has_holes() || source.size.is_some_and(|size| size >= Self::SEARCHED)
            }
        }
    }
}

/// The beginning of the buffer: whole blocks of zeros, or other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Zeros(usize),
    Data(usize),
}

/// Returns the longest run at the start of `bytes` that is all zero blocks, or that has none.
///
/// Blocks are aligned to positions in the sink, so that a hole covers whole blocks of it.
pub(crate) fn leading_run(bytes: &[u8], holes: &Holes, sink: &Endpoint<'_>) -> Run {
    let (ZeroBlocks::Holes, Some(position)) = (holes.zero_blocks, sink.position()) else {
        return Run::Data(bytes.len());
    };
    let to_boundary = (BLOCK - position as usize % BLOCK) % BLOCK;
    if to_boundary > 0 {
        return Run::Data(to_boundary.min(bytes.len()));
    }
    let mut blocks = bytes.chunks(BLOCK).map(is_zero_block);
    let is_zero = blocks.next().unwrap_or(false);
    let same = 1 + blocks.take_while(|next| *next == is_zero).count();
    let len = (same * BLOCK).min(bytes.len());
    if is_zero {
        Run::Zeros(len)
    } else {
        Run::Data(len)
    }
}

/// Whether a whole block is zero. False for a shorter one at the end of the buffer.
fn is_zero_block(block: &[u8]) -> bool {
    block == ZEROS
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::sys::Linux;

    fn run_at(position: u64, bytes: &[u8]) -> Run {
        let null = std::fs::File::open("/dev/null").unwrap();
        let info = FdInfo::of(&Linux, null.as_fd()).unwrap();
        let sink = Endpoint::new(null.as_fd(), info, Some(position));
        let holes = Holes::new(&info, ZeroBlocks::Holes, ShownTo::Nobody);
        leading_run(bytes, &holes, &sink)
    }

    #[test]
    fn zero_blocks_end_where_data_begins() {
        let mut bytes = vec![0; 4 * BLOCK];
        bytes[2 * BLOCK] = 1;
        assert_eq!(run_at(0, &bytes), Run::Zeros(2 * BLOCK));
        assert_eq!(run_at(0, &bytes[2 * BLOCK..]), Run::Data(BLOCK));
    }

    #[test]
    fn blocks_are_aligned_to_the_sink() {
        let bytes = vec![0; 2 * BLOCK];
        assert_eq!(run_at(100, &bytes), Run::Data(BLOCK - 100));
        assert_eq!(run_at(BLOCK as u64, &bytes), Run::Zeros(2 * BLOCK));
    }

    #[test]
    fn a_partial_block_of_zeros_is_written() {
        assert_eq!(run_at(0, &[0; BLOCK - 1]), Run::Data(BLOCK - 1));
        assert_eq!(run_at(0, &vec![0; BLOCK + 1]), Run::Zeros(BLOCK));
    }
}
