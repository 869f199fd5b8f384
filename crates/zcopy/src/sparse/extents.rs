//! The data and the holes of a source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::ShownTo;
use crate::endpoint::Endpoint;
use crate::sys::{Errno, Kernel, OFlags, Result, SeekFrom, retried};

/// The first piece of a hole, as long as the longest step over data between files. Each piece after it is
/// twice as long: whoever watches hears of the first at once, and the longest hole there is takes 37.
pub(super) const FIRST_PIECE: u64 = 64 << 20;

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
    /// The file cannot be opened a second time, for this reason, and the caller's cursor is not moved to ask.
    NotOpened(Errno),
}

/// The data and the holes of a source, one extent at a time.
///
/// Extents may move while they are copied; each is asked for when its turn comes, and every answer
/// makes progress.
///
/// `SEEK_DATA` and `SEEK_HOLE` move the cursor, and other threads and processes may read by the
/// caller's. So the questions go to an opening of the same file that is the transfer's own.
#[derive(Debug)]
pub(crate) struct Extents {
    /// The transfer's own opening of the source, made for the first question.
    opening: Option<OwnedFd>,
    /// Where the data that is being moved ends.
    data_end: u64,
    /// The longest that the next piece of a hole may be.
    piece: u64,
    /// Where an inspector sees the zeros of a hole, the time that a piece takes depends on its
    /// length, so that all pieces are short.
    shown_to: ShownTo,
}

impl Extents {
    pub(crate) fn new(shown_to: ShownTo) -> Self {
        Self {
            opening: None,
            data_end: 0,
            piece: FIRST_PIECE,
            shown_to,
        }
    }

    /// What comes next at the source's position. The source's cursor stays where it is.
    ///
    /// # Errors
    ///
    /// `EINVAL` from `SEEK_DATA` is [`Segment::Unknown`]; `ENXIO` is a hole up to the end. Every
    /// other errno of `lseek` and `fstat` is final.
    pub(crate) fn next<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) -> Result<Segment> {
        let Some(position) = source.position() else {
            return Ok(Segment::Unknown);
        };
        if position < self.data_end {
            return Ok(Segment::Data(self.data_end - position));
        }
        let opening = match self.opening.take() {
            Some(opening) => opening,
            None => match open(kernel, source) {
                Ok(opening) => opening,
                Err(errno) => return Ok(Segment::NotOpened(errno)),
            },
        };
        let found = find(kernel, opening.as_fd(), position);
        self.opening = Some(opening);
        found.map(|segment| self.piece_of(position, segment))
    }

    /// The segment, or the next piece of it if it is a hole.
    fn piece_of(&mut self, position: u64, segment: Segment) -> Segment {
        if let Segment::Data(len) = segment {
            self.data_end = position + len;
        }
        let Segment::Hole(len) = segment else {
            self.piece = FIRST_PIECE;
            return segment;
        };
        let piece = len.min(self.piece);
        if self.shown_to == ShownTo::Nobody {
            self.piece = self.piece.saturating_mul(2);
        }
        Segment::Hole(piece)
    }
}

/// Opens the source a second time, for a cursor that nobody else moves.
fn open<K: Kernel>(kernel: &K, source: &Endpoint<'_>) -> Result<OwnedFd> {
    let opening = retried(|| kernel.reopen(source.fd, OFlags::RDONLY))?;
    let status = kernel.fstat(opening.as_fd())?;
    if (status.device, status.inode) == source.info.identity {
        Ok(opening)
    } else {
        Err(Errno::STALE)
    }
}

/// What is at this position.
///
/// # Kernel notes
///
/// `ENXIO` from `SEEK_DATA` says that there is no data from here to the end *as of that call*. The size that is
/// asked for afterwards may include what somebody appended meanwhile, which is data. So the size is
/// taken before, too, and the hole reaches no further than both sizes. If somebody cuts the file off right before the search, and
/// somebody lengthens it again right behind it, both sizes include what was not there when it was searched: then data that is
/// written there is taken for a part of the hole. No call answers both questions at once.
fn find<K: Kernel>(kernel: &K, fd: BorrowedFd<'_>, position: u64) -> Result<Segment> {
    let size_before = kernel.fstat(fd)?.size;
    let data = match kernel.seek(fd, SeekFrom::Data(position)) {
        Ok(data) => data,
        Err(Errno::NXIO) => {
            let size = size_before.min(kernel.fstat(fd)?.size);
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
    let hole = match kernel.seek(fd, SeekFrom::Hole(position)) {
        Ok(hole) => hole,
        // It was truncated between the two questions.
        Err(Errno::NXIO) => return Ok(Segment::End),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Segment::Unknown),
        Err(errno) => return Err(errno),
    };
    if hole <= position {
        return Ok(Segment::Unknown);
    }
    Ok(Segment::Data(hole - position))
}
