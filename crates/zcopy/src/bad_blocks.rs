//! Bad blocks of a source: the state of the current one, and what to do next. Pure; read and write
//! ([`crate::step::buffered`]) make the calls.

use std::ops::Range;

use crate::buffer::DEFAULT_CAPACITY;
use crate::options::SkipErrors;
use crate::report::BadRange;
use crate::sys::Errno;

#[cfg(test)]
mod tests;

/// The caller's callback for skipped ranges.
pub(crate) type OnSkip<'a> = Box<dyn FnMut(&BadRange) + Send + 'a>;

/// How many pieces in a row may fail before the end of the bad block is searched for by probes: 64
/// KiB in pieces of 4 KiB. On a disk each failing read takes seconds.
pub(crate) const IN_A_ROW: u32 = 16;

/// Whether an errno concerns one place in the source, so that another place may be readable.
///
/// A read through the page cache returns `EIO` for every cause. With `O_DIRECT` a read returns the
/// error of the block layer (`blk_errors` in `block/blk-core.c`):
/// - `ENODATA`: the medium is bad; `EILSEQ`: a checksum of the disk's; `EREMOTEIO`: the target
///   failed;
/// - `ETIMEDOUT`, `ETIME`: the disk tried too long.
///
/// File systems with damaged metadata return `EUCLEAN` or `EBADMSG`. The others are the same at
/// every place: `ENXIO`, `ENODEV` and `ENOLINK` mean that the disk or its connection is gone,
/// `ESTALE` that the file is gone; `EBADF`, `EFAULT`, `EINVAL` and `EISDIR` concern the call.
pub(crate) fn is_of_a_block(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::IO
            | Errno::NODATA
            | Errno::ILSEQ
            | Errno::REMOTEIO
            | Errno::TIMEDOUT
            | Errno::TIME
            | Errno::UCLEAN
            | Errno::BADMSG
    )
}

/// The policy for bad blocks, and the state of the current one.
///
/// All positions are positions in the source, so that pieces are aligned as the source reads them.
pub(crate) struct BadBlocks<'a> {
    policy: SkipErrors,
    on_skip: Option<OnSkip<'a>>,
    pieces: Pieces,
    scan: Scan,
    /// The smallest piece that may be readable next to an unreadable one, in bytes: a power of 2.
    granularity: Option<u64>,
    /// The end of the source, or of the part to be read, at the last failed read.
    end: u64,
    /// The number of pieces that have failed since the last successful read.
    in_a_row: u32,
    errno: Errno,
    /// The number of zeros to deliver before the next read.
    zeros: u64,
    /// The position of these zeros in the source.
    zeros_at: u64,
    /// The number of bytes that the sink has accepted in the whole transfer.
    pub(crate) delivered: u64,
    /// The number of bytes that have been read and wait for the sink.
    pub(crate) waiting: u64,
    /// The last skipped range, with those that it touches, as offsets from the start of the
    /// transfer.
    last_skipped: Range<u64>,
    /// The number of bytes skipped before that range. The sink has them, or they wait to complete a
    /// block.
    skipped_before: u64,
}

/// Whether a read or write may cover a part of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    Divisible,
    /// The kernel reads and writes only whole pieces (`O_DIRECT`).
    Whole,
}

/// The result of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// The piece can be read.
    Good,
    /// The piece cannot be read.
    Bad,
}

/// How the next read or probe is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// The next read is limited by the buffer alone.
    None,
    /// The next read is limited to this many bytes, up to a boundary of the granularity.
    Reading(u64),
    /// The pieces up to `from`, the current position, are bad. The next probe is at `far`.
    Expanding { from: u64, far: u64 },
    /// The pieces between `from`, the current position, and `bad` are bad. The piece at `good` is
    /// good, or it is the end. The next probe is between `bad` and `good`.
    Bisecting { from: u64, bad: u64, good: u64 },
}

/// What to do before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read at most this many bytes, up to a boundary of the granularity.
    Read(u64),
    /// Deliver this many zeros.
    Zeros(u64),
    /// Test whether the piece at this position can be read.
    Probe(u64),
}

impl Default for BadBlocks<'_> {
    fn default() -> Self {
        Self::new(SkipErrors::Never, None, Pieces::Divisible)
    }
}

impl<'a> BadBlocks<'a> {
    pub(crate) fn new(policy: SkipErrors, on_skip: Option<OnSkip<'a>>, pieces: Pieces) -> Self {
        Self {
            policy,
            on_skip,
            pieces,
            scan: Scan::None,
            granularity: None,
            end: 0,
            in_a_row: 0,
            errno: Errno::IO,
            zeros: 0,
            zeros_at: 0,
            delivered: 0,
            waiting: 0,
            last_skipped: 0..0,
            skipped_before: 0,
        }
    }

    /// Whether a read that failed with this errno is skipped.
    pub(crate) fn skips(&self, errno: Errno) -> bool {
        self.policy != SkipErrors::Never && is_of_a_block(errno)
    }

    /// Returns the granularity, after asking for it the first time.
    pub(crate) fn granularity_or(&mut self, ask: impl FnOnce() -> u64) -> u64 {
        *self.granularity.get_or_insert_with(ask)
    }

    /// Whether the next action is a read.
    pub(crate) fn is_passed(&self) -> bool {
        matches!(self.next(), Next::Read(_))
    }

    /// Returns the next action.
    pub(crate) fn next(&self) -> Next {
        match self.scan {
            _ if self.zeros > 0 => Next::Zeros(self.zeros),
            Scan::None => Next::Read(u64::MAX),
            Scan::Reading(bound) => Next::Read(bound),
            Scan::Expanding { far, .. } => Next::Probe(far),
            Scan::Bisecting { bad, good, .. } => Next::Probe(self.middle(bad, good)),
        }
    }

    /// Returns the length of a read of at most `bound` bytes at `position` that ends at a boundary
    /// of the granularity.
    pub(crate) fn piece(&self, position: u64, bound: u64) -> u64 {
        bound.saturating_sub(position % self.granularity())
    }

    /// Whether the next read, of `len` bytes, is a read of one piece, because pieces nearby may be
    /// bad.
    pub(crate) fn is_single(&self, len: u64) -> bool {
        self.scan == Scan::Reading(self.granularity()) && len <= self.granularity()
    }

    /// Records that `n` of the zeros are on their way to the sink.
    pub(crate) fn filled(&mut self, n: u64) {
        self.zeros -= n;
        self.zeros_at += n;
    }

    /// Records a successful read: the next one may be longer.
    pub(crate) fn could_read(&mut self) {
        self.in_a_row = 0;
        self.scan = match self.scan {
            Scan::Reading(bound) if bound < DEFAULT_CAPACITY as u64 / 2 => Scan::Reading(bound * 2),
            _ => Scan::None,
        };
    }

    /// Records that a read of `len` bytes at `position` failed, in a source that ends at `end`.
    /// Skips the piece if the read covered this piece alone. Otherwise the next read covers the
    /// first piece alone.
    pub(crate) fn could_not_read(&mut self, position: u64, len: u64, end: u64, errno: Errno) {
        let granularity = self.granularity();
        let first = position - position % granularity;
        let next = first.saturating_add(granularity);
        // The kernel may have read more than the piece, and failed after it.
        let is_single = self.scan == Scan::Reading(granularity);
        if !is_single || position.saturating_add(len) > next {
            self.scan = Scan::Reading(granularity);
            return;
        }
        (self.errno, self.end) = (errno, end);
        self.in_a_row = self.in_a_row.saturating_add(1);
        match self.policy {
            SkipErrors::Block(block) => {
                let block = match self.pieces {
                    Pieces::Whole => block
                        .get()
                        .checked_next_multiple_of(granularity)
                        .unwrap_or(granularity),
                    Pieces::Divisible => block.get(),
                };
                let to = (position / block + 1).saturating_mul(block);
                self.skip(position, to);
            }
            _ if self.in_a_row <= IN_A_ROW => self.skip(position, next),
            _ => match self.expanding(position, next.saturating_add(granularity)) {
                Some(scan) => self.scan = scan,
                None => self.skip(position, end),
            },
        }
    }

    /// Records the result of a probe at `position`.
    pub(crate) fn probed(&mut self, position: u64, found: Probed) {
        match (self.scan, found) {
            (Scan::Expanding { from, far }, Probed::Good) => self.bisect(from, from, far),
            (Scan::Expanding { from, far }, Probed::Bad) => {
                let longer = (far - from).saturating_mul(2);
                match self.expanding(far, far.saturating_add(longer)) {
                    Some(scan) => {
                        self.skip(from, far);
                        self.scan = scan;
                    }
                    None => self.skip(from, self.end),
                }
            }
            (Scan::Bisecting { from, bad, .. }, Probed::Good) => self.bisect(from, bad, position),
            (Scan::Bisecting { from, good, .. }, Probed::Bad) => self.bisect(from, position, good),
            (Scan::None | Scan::Reading(_), _) => {}
        }
    }

    /// Returns the scan that probes `far` next, or one before the end if `far` is not before it:
    /// the end counts as good. `None` if there is no other piece.
    fn expanding(&self, from: u64, far: u64) -> Option<Scan> {
        let far = far - far % self.granularity();
        if far < self.end {
            Some(Scan::Expanding { from, far })
        } else {
            self.bisecting(from, from, self.end)
        }
    }

    /// Returns the scan that searches between `bad` and `good`. `None` if there is no piece between
    /// them.
    fn bisecting(&self, from: u64, bad: u64, good: u64) -> Option<Scan> {
        let lies_between = self.middle(bad, good) < good;
        lies_between.then_some(Scan::Bisecting { from, bad, good })
    }

    /// Continues with the piece in the middle, or skips up to `good` if there is none.
    fn bisect(&mut self, from: u64, bad: u64, good: u64) {
        match self.bisecting(from, bad, good) {
            Some(scan) => self.scan = scan,
            None => self.skip(from, good),
        }
    }

    /// Returns the piece in the middle, after the piece at `bad`; `good` or more if there is none.
    fn middle(&self, bad: u64, good: u64) -> u64 {
        let granularity = self.granularity();
        let after = (bad - bad % granularity).saturating_add(granularity);
        let middle = bad + good.saturating_sub(bad) / 2;
        (middle - middle % granularity).max(after)
    }

    /// Skips `from..to`: zeros are delivered in its place, and the next read is of one piece.
    fn skip(&mut self, from: u64, to: u64) {
        self.zeros = to.min(self.end).saturating_sub(from);
        self.zeros_at = from;
        self.scan = Scan::Reading(self.granularity());
        let offset = self.delivered + self.waiting;
        if offset != self.last_skipped.end {
            self.skipped_before += self.last_skipped.end - self.last_skipped.start;
            self.last_skipped.start = offset;
        }
        self.last_skipped.end = offset + self.zeros;
        let skipped = BadRange {
            offset,
            bytes: self.zeros,
            errno: self.errno,
        };
        if let Some(on_skip) = &mut self.on_skip {
            on_skip(&skipped);
        }
    }

    /// Returns the position in the source of the zeros to be delivered.
    pub(crate) fn zeros_at(&self) -> u64 {
        self.zeros_at
    }

    /// Forgets the current bad block, because another reader of the same cursor has passed it.
    pub(crate) fn forget(&mut self) {
        self.last_skipped.end -= self.zeros;
        self.zeros = 0;
        self.scan = Scan::None;
    }

    /// Returns the number of skipped bytes that the sink has accepted.
    pub(crate) fn bytes(&self) -> u64 {
        let delivered = self.delivered.min(self.last_skipped.end);
        self.skipped_before + delivered.saturating_sub(self.last_skipped.start)
    }

    fn granularity(&self) -> u64 {
        self.granularity.unwrap_or(1)
    }

    /// Doubles the granularity, because the kernel refuses reads of this one. The next read is of
    /// one piece.
    pub(crate) fn double_granularity(&mut self) {
        let granularity = self.granularity() * 2;
        self.granularity = Some(granularity);
        self.scan = Scan::Reading(granularity);
    }
}
