//! Bad blocks of a source: what is known of the one at hand, and what to do about it next. Pure; the
//! calls are made by read and write ([`crate::step::buffered`]).

use std::ops::Range;

use crate::buffer::FULL;
use crate::options::SkipErrors;
use crate::report::BadRange;
use crate::sys::Errno;

#[cfg(test)]
mod tests;

/// Whoever is told of what is skipped.
pub(crate) type OnSkip<'a> = Box<dyn FnMut(&BadRange) + 'a>;

/// So many pieces in a row may fail before it is asked how far the bad block reaches, rather than read
/// through: 64 KiB in pieces of 4 KiB. On a disk each failing read takes seconds.
pub(crate) const IN_A_ROW: u32 = 16;

/// Whether an errno speaks of one place in the source, so that another place may be read.
///
/// A read through the page cache says `EIO` whatever happened. With `O_DIRECT` the block layer's own
/// answer is seen (`blk_errors` in `block/blk-core.c`):
/// - `ENODATA`: the medium is bad; `EILSEQ`: a checksum of the disk's; `EREMOTEIO`: the target failed;
/// - `ETIMEDOUT`, `ETIME`: the disk tried too long.
///
/// File systems whose own blocks are damaged say `EUCLEAN` or `EBADMSG`. Everything else is the same
/// everywhere: `ENXIO`, `ENODEV` and `ENOLINK` mean that the disk or the way to it has gone, `ESTALE`
/// that the file has; and `EBADF`, `EFAULT`, `EINVAL`, `EISDIR` speak of the call.
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

/// What is to be done about bad blocks, and what is known of the one at hand.
///
/// All positions are the source's own, so that pieces are what the source reads at once.
pub(crate) struct BadBlocks<'a> {
    policy: SkipErrors,
    on_skip: Option<OnSkip<'a>>,
    pieces: Pieces,
    scan: Scan,
    /// The smallest piece that may be readable where its neighbour is not, in bytes: a power of 2.
    granularity: Option<u64>,
    /// Where the source, or what is wanted of it, ended when a read last failed.
    end: u64,
    /// Pieces that have failed since the last that did not.
    in_a_row: u32,
    errno: Errno,
    /// Bytes that are to be delivered as zeros before anything more is read.
    zeros: u64,
    /// Where in the source they stand.
    zeros_at: u64,
    /// What the sink has accepted of the whole transfer.
    pub(crate) delivered: u64,
    /// Bytes that have been read and wait for the sink.
    pub(crate) waiting: u64,
    /// What was skipped last, in one stretch or several that touch, counted from where the transfer began.
    last: Range<u64>,
    /// Bytes skipped before that. The sink has them, or waits for what completes a block with them.
    before: u64,
}

/// Whether a read or write may take a part of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    Divisible,
    /// Pieces are read, or written, whole or not at all (`O_DIRECT`).
    Whole,
}

/// What a probe of a piece found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probed {
    /// It can be read.
    Good,
    /// It cannot.
    Bad,
}

/// How the source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scan {
    /// As much at once as there is room for.
    None,
    /// At most so many bytes, up to a boundary of the granularity.
    Reading(u64),
    /// It is bad at `from`, where the transfer stands, and was before; is it at `far`?
    Expanding { from: u64, far: u64 },
    /// It is bad from `from`, where the transfer stands, to `bad`, and good (or ends) at `good`.
    Bisecting { from: u64, bad: u64, good: u64 },
}

/// What to do before the next read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Read at most so many bytes, up to a boundary of the granularity.
    Read(u64),
    /// Deliver so many zeros.
    Zeros(u64),
    /// Find out whether a piece can be read here.
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
            last: 0..0,
            before: 0,
        }
    }

    /// Whether this error is one to get past.
    pub(crate) fn skips(&self, errno: Errno) -> bool {
        self.policy != SkipErrors::Never && is_of_a_block(errno)
    }

    /// The granularity, asked for once.
    pub(crate) fn granularity_or(&mut self, ask: impl FnOnce() -> u64) -> u64 {
        *self.granularity.get_or_insert_with(ask)
    }

    /// Whether a read comes next, rather than what the bad block at hand still asks for.
    pub(crate) fn is_passed(&self) -> bool {
        matches!(self.next(), Next::Read(_))
    }

    /// What to do now.
    pub(crate) fn next(&self) -> Next {
        match self.scan {
            _ if self.zeros > 0 => Next::Zeros(self.zeros),
            Scan::None => Next::Read(u64::MAX),
            Scan::Reading(bound) => Next::Read(bound),
            Scan::Expanding { far, .. } => Next::Probe(far),
            Scan::Bisecting { bad, good, .. } => Next::Probe(self.middle(bad, good)),
        }
    }

    /// The most to read at `position`, so that a bounded read ends at a boundary of the granularity.
    pub(crate) fn piece(&self, position: u64, bound: u64) -> u64 {
        bound.saturating_sub(position % self.granularity())
    }

    /// Whether a read of so many bytes that comes next is one of a single piece, because others nearby may be bad.
    pub(crate) fn is_single(&self, len: u64) -> bool {
        self.scan == Scan::Reading(self.granularity()) && len <= self.granularity()
    }

    /// So many zeros are on their way.
    pub(crate) fn filled(&mut self, n: u64) {
        self.zeros -= n;
        self.zeros_at += n;
    }

    /// A read brought something: the next may be longer.
    pub(crate) fn could_read(&mut self) {
        self.in_a_row = 0;
        self.scan = match self.scan {
            Scan::Reading(bound) if bound < FULL as u64 / 2 => Scan::Reading(bound * 2),
            _ => Scan::None,
        };
    }

    /// A read of `len` bytes at `position` failed, and the source, or what is wanted of it, ends at
    /// `end`. The piece is skipped if the read was one of that piece alone. Otherwise the first piece is read by itself next.
    pub(crate) fn could_not_read(&mut self, position: u64, len: u64, end: u64, errno: Errno) {
        let granularity = self.granularity();
        let first = position - position % granularity;
        let next = first.saturating_add(granularity);
        // The kernel may have read more than was asked for, and failed there.
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

    /// Notes whether a piece at `position` could be read. Nothing was taken.
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

    /// Whether it is bad at `far` too, or, as a source is as good as readable at its end, how far before
    /// that. None if no other piece is left.
    fn expanding(&self, from: u64, far: u64) -> Option<Scan> {
        let far = far - far % self.granularity();
        if far < self.end {
            Some(Scan::Expanding { from, far })
        } else {
            self.bisecting(from, from, self.end)
        }
    }

    /// Where between the two it ends. None if nothing lies between.
    fn bisecting(&self, from: u64, bad: u64, good: u64) -> Option<Scan> {
        let lies_between = self.middle(bad, good) < good;
        lies_between.then_some(Scan::Bisecting { from, bad, good })
    }

    /// Asks next in the middle, or skips what is bad.
    fn bisect(&mut self, from: u64, bad: u64, good: u64) {
        match self.bisecting(from, bad, good) {
            Some(scan) => self.scan = scan,
            None => self.skip(from, good),
        }
    }

    /// The piece in the middle, neither that at `bad` nor before it; `good` or more if there is none.
    fn middle(&self, bad: u64, good: u64) -> u64 {
        let granularity = self.granularity();
        let after = (bad - bad % granularity).saturating_add(granularity);
        let middle = bad + good.saturating_sub(bad) / 2;
        (middle - middle % granularity).max(after)
    }

    /// Has zeros delivered up to `to`, and pieces read from there.
    fn skip(&mut self, from: u64, to: u64) {
        self.zeros = to.min(self.end).saturating_sub(from);
        self.zeros_at = from;
        self.scan = Scan::Reading(self.granularity());
        let offset = self.delivered + self.waiting;
        if offset != self.last.end {
            self.before += self.last.end - self.last.start;
            self.last.start = offset;
        }
        self.last.end = offset + self.zeros;
        let skipped = BadRange {
            offset,
            bytes: self.zeros,
            errno: self.errno,
        };
        if let Some(on_skip) = &mut self.on_skip {
            on_skip(&skipped);
        }
    }

    /// Where in the source the zeros stand that are to be delivered.
    pub(crate) fn zeros_at(&self) -> u64 {
        self.zeros_at
    }

    /// Forgets the current bad block, because another reader of the same cursor has passed it.
    pub(crate) fn forget(&mut self) {
        self.last.end -= self.zeros;
        self.zeros = 0;
        self.scan = Scan::None;
    }

    /// What the sink has accepted of what was skipped.
    pub(crate) fn bytes(&self) -> u64 {
        let delivered = self.delivered.min(self.last.end);
        self.before + delivered.saturating_sub(self.last.start)
    }

    fn granularity(&self) -> u64 {
        self.granularity.unwrap_or(1)
    }

    /// Takes a granularity twice as large, as the kernel refuses this one. Pieces of that are read next.
    pub(crate) fn double_granularity(&mut self) {
        let granularity = self.granularity() * 2;
        self.granularity = Some(granularity);
        self.scan = Scan::Reading(granularity);
    }
}
