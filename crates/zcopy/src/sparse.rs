//! Holes: found in the source, made in the sink.

use crate::end::End;
use crate::sys::{Errno, Kernel, Result, SeekFrom, retried};

/// The grain in which zeros are looked for: the block size of nearly every file system.
const BLOCK: usize = 4096;

/// So long may holes at the front of a sink be counted on before they are given a length: should that
/// fail, no more than this has to be taken back.
const TAIL: u64 = 1 << 20;

/// The first piece of a hole, as long as the longest step over data between files. Each piece after it is
/// twice as long: whoever watches hears of the first at once, and the longest hole there is takes 37.
const FIRST_PIECE: u64 = 64 << 20;

/// What comes next in a source that has holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// This many bytes of data.
    Data(u64),
    /// This many bytes that were never written, which may be a piece of a longer hole.
    Hole(u64),
    /// The file ends here.
    End,
    /// The file system does not tell.
    Unknown,
}

/// The data and the holes of a source, one extent at a time.
///
/// Extents may move while they are copied; each is asked for when its turn comes, and every answer
/// makes progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    /// Where the data that is being moved ends.
    data_end: u64,
    /// The longest that the next piece of a hole may be.
    piece: u64,
}

impl Default for Extents {
    fn default() -> Self {
        Self {
            data_end: 0,
            piece: FIRST_PIECE,
        }
    }
}

impl Extents {
    /// What comes next at the source's position. Asking puts the cursor back where it was.
    ///
    /// # Errors
    ///
    /// `EINVAL` from `SEEK_DATA` is [`Segment::Unknown`]; `ENXIO` is a hole up to the end. Every
    /// other errno is final.
    pub(crate) fn next<K: Kernel>(&mut self, kernel: &K, source: &End<'_>) -> Result<Segment> {
        let Some(position) = source.position() else {
            return Ok(Segment::Unknown);
        };
        if position < self.data_end {
            return Ok(Segment::Data(self.data_end - position));
        }
        let cursor = kernel.seek(source.fd, SeekFrom::Current(0))?;
        let found = self.find(kernel, source, position);
        kernel.seek(source.fd, SeekFrom::Start(cursor))?;
        found.map(|segment| self.piece_of(segment))
    }

    /// The segment, or the next piece of it if it is a hole.
    fn piece_of(&mut self, segment: Segment) -> Segment {
        let Segment::Hole(len) = segment else {
            self.piece = FIRST_PIECE;
            return segment;
        };
        let piece = len.min(self.piece);
        self.piece = self.piece.saturating_mul(2);
        Segment::Hole(piece)
    }

    fn find<K: Kernel>(&mut self, kernel: &K, source: &End<'_>, position: u64) -> Result<Segment> {
        let data = match kernel.seek(source.fd, SeekFrom::Data(position)) {
            Ok(data) => data,
            Err(Errno::NXIO) => {
                let size = kernel.fstat(source.fd)?.size;
                return Ok(match size.saturating_sub(position) {
                    0 => Segment::End,
                    hole => Segment::Hole(hole),
                });
            }
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Segment::Unknown),
            Err(errno) => return Err(errno),
        };
        if data > position {
            return Ok(Segment::Hole(data - position));
        }
        let hole = match kernel.seek(source.fd, SeekFrom::Hole(position)) {
            Ok(hole) => hole,
            // It was truncated between the two questions.
            Err(Errno::NXIO) => return Ok(Segment::End),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Segment::Unknown),
            Err(errno) => return Err(errno),
        };
        if hole <= position {
            return Ok(Segment::Unknown);
        }
        self.data_end = hole;
        Ok(Segment::Data(hole - position))
    }
}

/// The holes made in a sink.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holes {
    /// Whether blocks of zeros become holes (`Sparse::Detect`).
    pub(crate) detect: bool,
    /// The sink's size, while holes can be made in it.
    sink_size: Option<u64>,
    /// Bytes left as holes so far.
    pub(crate) bytes: u64,
    /// The stretch of holes at the front that no write and no truncation has given a length yet.
    tail: (u64, u64),
}

impl Holes {
    /// Holes in a sink that has `sink_size` bytes.
    pub(crate) fn new(sink_size: u64, detect: bool) -> Self {
        Self {
            detect,
            sink_size: Some(sink_size),
            bytes: 0,
            tail: (0, 0),
        }
    }

    /// Leaves the next `len` bytes of the sink as a hole. False if this sink cannot have one there:
    /// the bytes must then be written as zeros.
    ///
    /// What the sink already holds there is punched out; past its end there is nothing to do but to
    /// step over.
    ///
    /// # Errors
    ///
    /// `EINTR` before anything changed; anything else is final.
    pub(crate) fn make<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut End<'_>,
        len: u64,
    ) -> Result<bool> {
        let Some(size) = self.sink_size else {
            return Ok(false);
        };
        let Some((position, end)) = reserve(kernel, sink, len) else {
            self.sink_size = None;
            return Ok(false);
        };
        if position < size {
            let inside = end.min(size) - position;
            match kernel.punch_hole(sink.fd, position, inside) {
                Ok(()) => {}
                Err(Errno::INTR) => return Err(Errno::INTR),
                Err(_) => {
                    self.sink_size = None;
                    return Ok(false);
                }
            }
        }
        let start = if self.tail.1 == position {
            self.tail.0
        } else {
            position
        };
        if end - start >= TAIL {
            give_length(kernel, sink, end)?;
        }
        sink.advance(len);
        self.tail = if end - start >= TAIL {
            (end, end)
        } else {
            (start, end)
        };
        self.bytes += len;
        Ok(true)
    }

    /// Gives the sink its length if it ends in a hole, which no write has done.
    pub(crate) fn finish<K: Kernel>(&self, kernel: &K, sink: &End<'_>) -> Result<()> {
        let Some(position) = sink.position().filter(|_| self.bytes > 0) else {
            return Ok(());
        };
        give_length(kernel, sink, position)
    }
}

/// The next `len` bytes of the sink, for a hole. `None` if it cannot be that long, or an earlier reservation of fewer bytes
/// has to be filled first: the bytes are then written.
fn reserve<K: Kernel>(kernel: &K, sink: &mut End<'_>, len: u64) -> Option<(u64, u64)> {
    let is_reserved = sink.reserve_to_write(kernel, len).ok()? == len;
    let start = sink.position().filter(|_| is_reserved)?;
    let end = start.checked_add(len)?;
    i64::try_from(end).is_ok().then_some((start, end))
}

/// Makes the sink at least `len` bytes long.
fn give_length<K: Kernel>(kernel: &K, sink: &End<'_>, len: u64) -> Result<()> {
    if kernel.fstat(sink.fd)?.size >= len {
        return Ok(());
    }
    retried(|| kernel.truncate(sink.fd, len))
}

/// What the next bytes of the buffer are: whole blocks of zeros, or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Zeros(usize),
    Data(usize),
}

/// The longest run at the front of `bytes` that is all zero blocks, or that holds none.
///
/// Blocks are counted from the start of the sink, so that a hole covers whole blocks of it.
pub(crate) fn leading_run(bytes: &[u8], holes: &Holes, sink: &End<'_>) -> Run {
    let (true, Some(position)) = (holes.detect, sink.position()) else {
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

/// Whether a whole block is zero. The last, shorter one of a buffer is not taken for one.
fn is_zero_block(block: &[u8]) -> bool {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    block == ZEROS
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::sys::Linux;

    fn run_at(position: u64, bytes: &[u8]) -> Run {
        let null = std::fs::File::open("/dev/null").unwrap();
        let endpoint = Endpoint::of(&Linux, null.as_fd()).unwrap();
        let sink = End::new(null.as_fd(), endpoint, Some(position));
        leading_run(bytes, &Holes::new(0, true), &sink)
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
