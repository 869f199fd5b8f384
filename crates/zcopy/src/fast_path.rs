//! The fast path: a small file of which nothing particular is wanted, read and written before there is an engine.
//!
//! What an engine is made of costs as much as the calls that move a kilobyte. The fast path makes the very calls
//! that [`Strategy::Buffered`] would, and hands over to it where one of them answers anything but all.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use crate::buffer::Buffer;
use crate::call_error::{CallError, Cause};
use crate::classify::{Shortcuts, classify, unclassifiable};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
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
    let shortcuts = Shortcuts::allowed_by(options);
    if shortcuts.whole_clone
        && let Some(report) = whole_file::clone_whole_file(kernel, source, sink)
    {
        return Ok(FastPath::Done(report));
    }
    let known = series_state.and_then(|series_state| series_state.sink.get());
    let (mut from, mut to) = match known {
        Some(to) => {
            // Of a small file no flag matters that its reads would not complain of.
            let from = FdInfo::of_small_file(kernel, source, small_into(&to))
                .map_err(|error| unclassifiable(Side::Source, error))?;
            (from, to)
        }
        None => (
            classify(kernel, Side::Source, source)?,
            classify(kernel, Side::Sink, sink)?,
        ),
    };
    let mut partial = Partial::default();
    // Blocks are gathered, and messages have a length.
    let is_particular = from.direct || to.direct || to.kind == Kind::Datagram || from.is_same(&to);
    if shortcuts.fast_path && !is_particular && is_small(kernel, source, &mut from, &to, options) {
        preflight::check(&from, &to, options)?;
        partial.buffer =
            series_state.map_or_else(Buffer::default, |series_state| series_state.buffer.take());
        if partial.read_and_write(kernel, source, sink, from.size.unwrap_or(0)) {
            if let Some(series_state) = series_state {
                series_state.sink.set(Some(to));
                series_state.buffer.set(std::mem::take(&mut partial.buffer));
            }
            return Ok(FastPath::Done(Report::of(partial.attempt())));
        }
    }
    if known.is_some() {
        // Flags and size may have changed since. What could be examined once can be so again; should
        // that fail, the calls that follow will say why.
        from = classify(kernel, Side::Source, source).unwrap_or(from);
        to = classify(kernel, Side::Sink, sink).unwrap_or(to);
        partial.discard_doubtful_error();
    }
    Ok(FastPath::Continue(from, to, partial))
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
    fn read_and_write<K: Kernel>(
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
                Err(errno) => return self.stop(buffered::stopped("read", Side::Source, errno)),
            }
            self.calls += 1;
            match kernel.write(sink, None, self.buffer.pending(), Blocking::MaySleep) {
                Ok(0) => {
                    return self.stop(Err(CallError {
                        call: "write",
                        side: Side::Sink,
                        cause: Cause::WriteZero,
                    }));
                }
                Ok(n) => {
                    self.buffer.consume(n);
                    self.bytes += n as u64;
                }
                Err(errno) => return self.stop(buffered::stopped("write", Side::Sink, errno)),
            }
            let has_grown = self.buffer.was_filled() && self.bytes > size;
            if !self.buffer.is_empty() || has_grown {
                return false;
            }
        }
    }

    /// Leaves the rest to an engine. Returns false.
    fn stop(&mut self, first_step: Result<Step, CallError>) -> bool {
        self.first_step = Some(first_step);
        false
    }

    /// Forgets an answer that may be the flags' fault, of which the source was not asked: it is open in another way, or wants
    /// blocks. The same call, made again by who knows them, will tell.
    fn discard_doubtful_error(&mut self) {
        let is_doubtful = |error: &CallError| {
            error.side == Side::Source
                && matches!(error.cause, Cause::Errno(Errno::BADF | Errno::INVAL))
        };
        if matches!(&self.first_step, Some(Err(error)) if is_doubtful(error)) {
            self.first_step = None;
        }
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
