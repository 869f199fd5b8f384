//! The data and the holes of a source.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::ShownTo;
use crate::endpoint::Endpoint;
use crate::sys::{Errno, Kernel, OFlags, Result, SeekFrom, retried};

/// The length of the first piece of a hole: the longest step over data between files. Each later
/// piece is twice as long. So an observer is soon called for the first time, and the longest
/// possible hole has 37 pieces.
pub(super) const FIRST_PIECE: u64 = 64 << 20;

/// The next segment of a source that has holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Data of this length.
    Data(u64),
    /// A hole of this length, which may be a piece of a longer one.
    Hole(u64),
    /// The end of the file.
    End,
    /// The file system does not support the search.
    Unknown,
    /// The file cannot be opened a second time, for this reason. The search would move the caller's
    /// cursor.
    NotOpened(Errno),
}

/// The data and the holes of a source, one extent at a time.
///
/// Extents may change while they are copied. So each is searched for when its turn comes, and every
/// result makes progress.
///
/// `SEEK_DATA` and `SEEK_HOLE` move the cursor, which other threads and processes may use. So the
/// search uses a second open file description of the same file.
#[derive(Debug)]
pub(crate) struct Extents {
    /// The second descriptor, opened for the first search.
    own: Option<OwnedFd>,
    /// The end of the data that is being moved.
    data_end: u64,
    /// The longest length of the next piece of a hole.
    piece: u64,
    /// An inspector sees the zeros of a hole, in a time that depends on their number. So all pieces
    /// are short then.
    shown_to: ShownTo,
}

impl Extents {
    pub(crate) fn new(shown_to: ShownTo) -> Self {
        Self {
            own: None,
            data_end: 0,
            piece: FIRST_PIECE,
            shown_to,
        }
    }

    /// Returns the segment at the source's position. Does not move the source's cursor.
    ///
    /// # Errors
    ///
    /// Every errno of `lseek(2)` and `fstat(2)`, except: `EINVAL` and `EOPNOTSUPP` mean
    /// [`Segment::Unknown`], and `ENXIO` from `SEEK_DATA` means a hole up to the end.
    pub(crate) fn next<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) -> Result<Segment> {
        let Some(position) = source.position() else {
            return Ok(Segment::Unknown);
        };
        if position < self.data_end {
            return Ok(Segment::Data(self.data_end - position));
        }
        let own = match &mut self.own {
            Some(own) => own,
            none => match open(kernel, source) {
                Ok(own) => none.insert(own),
                Err(errno) => return Ok(Segment::NotOpened(errno)),
            },
        };
        let segment = find(kernel, own.as_fd(), position)?;
        Ok(self.piece_of(position, segment))
    }

    /// Returns the segment, or the next piece of it if it is a hole.
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

/// Opens the source a second time, with a cursor of its own.
fn open<K: Kernel>(kernel: &K, source: &Endpoint<'_>) -> Result<OwnedFd> {
    let own = retried(|| kernel.reopen(source.fd, OFlags::RDONLY))?;
    let status = kernel.fstat(own.as_fd())?;
    if (status.device, status.inode) == source.info.identity {
        Ok(own)
    } else {
        Err(Errno::STALE)
    }
}

/// Returns the segment at `position`.
///
/// # Kernel notes
///
/// `ENXIO` from `SEEK_DATA` means that there is no data from here to the end *at the time of that
/// call*. The size that is read afterwards may include data that another process has appended
/// meanwhile. So the size is read before, too, and the hole ends at the smaller one. One race
/// remains: if a process truncates the file right before the search, and a process extends it right
/// after, both sizes include bytes that were not there during the search. Data that is written
/// there then counts as a part of the hole. No single call returns both the size and the next data.
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
    match kernel.seek(fd, SeekFrom::Hole(position)) {
        Ok(hole) if hole > position => Ok(Segment::Data(hole - position)),
        Ok(_) | Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Segment::Unknown),
        // The file was truncated between the two calls.
        Err(Errno::NXIO) => Ok(Segment::End),
        Err(errno) => Err(errno),
    }
}
