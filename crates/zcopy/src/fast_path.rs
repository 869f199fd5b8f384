//! The fast path: a small file of which nothing particular is wanted, read and written before there is an engine.
//!
//! What an engine is made of costs as much as the calls that move a kilobyte. The fast path makes the very calls
//! that [`Strategy::Buffered`] would, and hands over to it where one of them answers anything but all.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use crate::buffer::Buffer;
use crate::call_error::{CallError, Cause};
use crate::classify::{classify, is_particular_enough, unclassifiable};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::{Options, SkipErrors, SyncData};
use crate::plan;
use crate::preflight;
use crate::report::{Attempt, Report};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel};

mod whole_file;

/// The largest read of the fast path. The allocator asks the kernel for larger buffers each time, and touching fresh pages takes longer
/// than two more calls for every 64 KiB.
const MOST_AT_ONCE: usize = 64 << 10;

/// What transfers into one sink leave to each other.
#[derive(Default)]
pub(crate) struct SeriesState {
    /// What the sink was when it was last looked at. Its kind, its identity and its mode do not change as long as
    /// it is open; the fast path asks for no more, but for flags of which its calls would complain.
    sink: Cell<Option<FdInfo>>,
    /// Memory, and nothing in it that anybody still waits for.
    buffer: Cell<Buffer>,
}

/// Where the fast path led.
pub(crate) enum FastPath {
    /// To the end.
    Done(Report),
    /// Nowhere, or not to the end: source and sink as they were found just now.
    Continue(FdInfo, FdInfo, Partial),
}

/// How far the fast path led.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// What was read and is not in the sink.
    pub(crate) buffer: Buffer,
    /// Bytes that the sink has accepted.
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    /// The answer that ended it, which the engine takes for that of its first step.
    pub(crate) first_step: Option<Result<Step, CallError>>,
}

/// Looks at both ends, and goes nowhere.
///
/// # Errors
///
/// An end that cannot be examined.
pub(crate) fn classify_both<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
) -> Result<FastPath, RunError> {
    let from = classify(kernel, Side::Source, source)?;
    let to = classify(kernel, Side::Sink, sink)?;
    Ok(FastPath::Continue(from, to, Partial::default()))
}

/// Looks at both ends, and takes the fast path if it can serve them. A whole file that is to share its blocks is cloned at once.
///
/// # Errors
///
/// Before anything has moved: an end that cannot be examined, or is refused.
pub(crate) fn try_fast_path<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
    series_state: Option<&SeriesState>,
) -> Result<FastPath, RunError> {
    if let Some(report) = whole_file::clone_whole_file(kernel, source, sink, options) {
        return Ok(FastPath::Done(report));
    }
    let known = series_state.and_then(|series_state| series_state.sink.get());
    let mut from = match known {
        // Of a small file no flag matters that its reads would not complain of.
        Some(sink) => FdInfo::of_small_file(kernel, source, small_into(&sink))
            .map_err(|error| unclassifiable(Side::Source, error))?,
        None => classify(kernel, Side::Source, source)?,
    };
    let to = match known {
        Some(known) => known,
        None => classify(kernel, Side::Sink, sink)?,
    };
    let mut partial = Partial::default();
    if is_open(kernel, source, &mut from, &to, options) {
        preflight::check(&from, &to, options)?;
        partial.buffer =
            series_state.map_or_else(Buffer::default, |series_state| series_state.buffer.take());
        let is_whole = partial.go(kernel, source, sink, from.size.unwrap_or(0));
        if let Some(series_state) = series_state.filter(|_| is_whole) {
            series_state.sink.set(Some(to));
            series_state.buffer.set(std::mem::take(&mut partial.buffer));
        }
        if is_whole {
            return Ok(FastPath::Done(Report::of(partial.attempt())));
        }
    }
    // Flags and size may have changed since. What could be examined once can be so again; should that fail, the
    // calls that follow will say why.
    let to = match known {
        Some(known) => {
            from = classify(kernel, Side::Source, source).unwrap_or(from);
            partial.doubt();
            classify(kernel, Side::Sink, sink).unwrap_or(known)
        }
        None => to,
    };
    Ok(FastPath::Continue(from, to, partial))
}

/// Whether the fast path can serve a transfer: its source a file that is [small](is_small), its options none that
/// ask for more than read and write, and nobody looking on. It names every option, so that a new one does not compile
/// until it is decided here.
fn is_open<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    source: &mut FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> bool {
    let Options {
        limit,
        source_offset,
        sink_offset,
        skip_errors,
        sync_data,
        buffer_size,
        rate_limit,
        tick,
        records,
        watch_readers,
        inspected,
        observed,
        // `is_particular_enough` decides these.
        stable: _,
        strategy: _,
        reflink: _,
        sparse: _,
        cache: _,
        // Read and write enlarge no pipe for a small file.
        grow_pipes: _,
        pipe_size: _,
    } = options;
    // Blocks are gathered, and messages have a length.
    let is_particular = source.direct || sink.direct || sink.kind == Kind::Datagram;
    let is_bounded =
        limit.is_some() || source_offset.is_some() || sink_offset.is_some() || rate_limit.is_some();
    let is_watched =
        tick.is_some() || *watch_readers || *observed || *inspected || records.is_wanted();
    let is_asked_for_more = buffer_size.is_some()
        || *skip_errors != SkipErrors::Never
        || *sync_data != SyncData::Never
        || is_particular_enough(source, sink, options);
    !(is_particular || is_bounded || is_watched || is_asked_for_more)
        && is_small(kernel, fd, source, sink, options)
}

/// The largest size that a small file may have which goes to this sink.
fn small_into(sink: &FdInfo) -> u64 {
    match sink.kind {
        Kind::Regular => plan::SHORT,
        Kind::Null => plan::SMALL_FILE,
        _ => plan::SMALL,
    }
}

/// Whether a file claims at most 32 KiB, or has no holes and claims no more than the plan would read and write too.
fn is_small<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    source: &mut FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> bool {
    match source.size {
        Some(size) if source.kind != Kind::Regular || size > small_into(sink) => false,
        Some(size) if size <= plan::SMALL => true,
        Some(size) if !source.has_holes() => {
            source.classify_file_system(kernel, fd);
            size <= plan::small_file(source, sink, options)
        }
        _ => false,
    }
}

impl Partial {
    /// Takes the fast path with the memory of this buffer, which is empty. True if it led to the end, which a read
    /// of 0 tells: what was appended while the sink was written to is not lost.
    fn go<K: Kernel>(
        &mut self,
        kernel: &K,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        size: u64,
    ) -> bool {
        // One more than it has, so that the end does not look like a full buffer.
        self.buffer
            .reserve_exactly((size as usize + 1).min(MOST_AT_ONCE));
        loop {
            self.calls += 1;
            let room = self.buffer.spare_mut(usize::MAX);
            match kernel.read(source, None, room, Blocking::MaySleep) {
                Ok(0) => return true,
                Ok(n) => self.buffer.fill(n),
                Err(errno) => {
                    self.first_step = Some(buffered::stopped("read", Side::Source, errno));
                    return false;
                }
            }
            self.calls += 1;
            match kernel.write(sink, None, self.buffer.pending(), Blocking::MaySleep) {
                Ok(0) => {
                    self.first_step = Some(Err(CallError {
                        call: "write",
                        side: Side::Sink,
                        cause: Cause::WriteZero,
                    }));
                    return false;
                }
                Ok(n) => {
                    self.buffer.consume(n);
                    self.bytes += n as u64;
                }
                Err(errno) => {
                    self.first_step = Some(buffered::stopped("write", Side::Sink, errno));
                    return false;
                }
            }
            let has_grown = self.buffer.was_filled() && self.bytes > size;
            if !self.buffer.is_empty() || has_grown {
                return false;
            }
        }
    }

    /// Forgets an answer that may be the flags' fault, of which the source was not asked: it is open in another way, or wants
    /// blocks. The same call, made again by who knows them, will tell.
    fn doubt(&mut self) {
        let is_doubtful = |error: &CallError| {
            error.side == Side::Source
                && matches!(error.cause, Cause::Errno(Errno::BADF | Errno::INVAL))
        };
        self.first_step = self
            .first_step
            .take()
            .filter(|first_step| !first_step.as_ref().is_err_and(is_doubtful));
    }

    /// What was done so far, as a strategy's doing.
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt {
            bytes: self.bytes,
            calls: self.calls,
            ..Attempt::new(Strategy::Buffered)
        }
    }
}
