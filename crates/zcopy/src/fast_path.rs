//! The fast path: reads and writes a small file without an engine, if no option needs one.
//!
//! Building an engine takes as long as the calls that move a kilobyte. The fast path makes the
//! calls that [`Strategy::Buffered`] would make. If one of them fails or moves only a part, an
//! engine continues.

use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::time::Duration;

use crate::buffer::{Alignment, Buffer};
use crate::call_error::{CallError, Cause};
use crate::classify::{Shortcuts, classify, unclassifiable};
use crate::error::RunError;
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::plan;
use crate::preflight;
use crate::report::{Attempt, Report};
use crate::side::Side;
use crate::step::Step;
use crate::step::buffered::on_errno;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel};

#[cfg(test)]
mod tests;
mod whole_file;

/// The largest read of the fast path, in bytes. A process that makes one transfer after the other
/// copies 256 KiB faster with a larger buffer. For its first transfer it pays a page fault for every
/// 4 KiB. Into a file on ext4, writes of 96 and 120 KiB are slower than those of 64 and 128 KiB.
const MAX_READ: usize = 128 << 10;

/// The state that transfers of one series, into one sink, pass on.
///
/// A transfer that finds the state in use by another thread does without it.
#[derive(Default)]
pub(crate) struct SeriesState(Mutex<Passed>);

/// The facts and the buffer that one transfer of a series passes on to the next.
#[derive(Default)]
struct Passed {
    /// The sink's facts from its last classification. Kind, identity and access mode do not change
    /// while a descriptor is open. The other flags may, and the fast path does not depend on them:
    /// its calls fail if they are wrong.
    sink: Option<FdInfo>,
    /// An empty buffer, whose memory the next transfer uses again.
    buffer: Buffer,
}

impl SeriesState {
    /// Returns the facts about the sink.
    fn sink(&self) -> Option<FdInfo> {
        self.0.try_lock().ok()?.sink
    }

    fn take_buffer(&self) -> Buffer {
        let passed = self.0.try_lock();
        passed.map_or_else(
            |_| Buffer::default(),
            |mut passed| std::mem::take(&mut passed.buffer),
        )
    }

    /// Leaves the facts and the buffer to the next transfer.
    fn put(&self, sink: FdInfo, buffer: Buffer) {
        if let Ok(mut passed) = self.0.try_lock() {
            *passed = Passed {
                sink: Some(sink),
                buffer,
            };
        }
    }
}

/// The result of the fast path.
#[expect(
    clippy::large_enum_variant,
    reason = "a box would cost a small file an allocation"
)]
pub(crate) enum FastPath {
    /// The transfer is complete.
    Done(Report),
    /// An engine must continue, with these facts about source and sink.
    Continue(FdInfo, FdInfo, Partial),
}

/// The part of a transfer that the fast path has done.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// When the transfer began.
    pub(crate) started: Duration,
    /// The bytes that were read and that the sink has not accepted.
    pub(crate) buffer: Buffer,
    /// The number of bytes that the sink has accepted.
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    /// The result of the call that ended the fast path. The engine uses it as the result of its
    /// first step.
    pub(crate) first_step: Option<Result<Step, CallError>>,
}

/// Classifies both descriptors, and moves a small file if no option needs an engine. Clones a whole
/// file at once if [`Reflink::Always`](crate::Reflink::Always) asks for no more than that.
///
/// # Errors
///
/// Fails before any byte has moved, if a descriptor cannot be classified or is refused.
pub(crate) fn try_fast_path<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    options: &Options,
    series_state: Option<&SeriesState>,
) -> Result<FastPath, RunError> {
    let started = kernel.now();
    let done = |report| {
        FastPath::Done(Report {
            elapsed: kernel.now().saturating_sub(started),
            ..report
        })
    };
    let shortcuts = Shortcuts::allowed_by(options);
    if shortcuts.whole_clone
        && let Some(report) = whole_file::clone_whole_file(kernel, source, sink)
    {
        return Ok(done(report));
    }
    let series_state = series_state.filter(|_| shortcuts.fast_path);
    let known = series_state.and_then(SeriesState::sink);
    let found = known.map_or_else(|| classify(kernel, Side::Sink, sink), Ok);
    // Skips `F_GETFL` for a small source: a wrong access mode makes the read fail. That of the sink
    // has to be right before anything is read.
    let small = match &found {
        Ok(to) if shortcuts.fast_path => max_offload_above(to),
        _ => 0,
    };
    let mut from = FdInfo::of_small_file(kernel, source, small)
        .map_err(|error| unclassifiable(Side::Source, error))?;
    let mut to = found?;
    let lacks_flags = from.kind == Kind::Regular && from.size.is_some_and(|size| size <= small);
    let mut partial = Partial {
        started,
        ..Partial::default()
    };
    // Only an engine gathers whole blocks for `O_DIRECT` and keeps messages apart.
    let is_particular = from.direct || to.direct || to.kind == Kind::Datagram || from.is_same(&to);
    if shortcuts.fast_path && !is_particular && is_small(kernel, source, &mut from, &to, options) {
        preflight::check(&from, &to, options)?;
        partial.buffer = series_state.map_or_else(Buffer::default, SeriesState::take_buffer);
        if partial.read_and_write(kernel, source, sink, from.size.unwrap_or(0)) {
            if let Some(series_state) = series_state {
                series_state.put(to, std::mem::take(&mut partial.buffer));
            }
            return Ok(done(Report::of(partial.attempt())));
        }
    }
    // If a classification that succeeded before fails now, the calls that follow report why.
    if lacks_flags && partial.calls == 0 {
        from.classify_flags(kernel, source);
    } else if lacks_flags {
        let found = from;
        from = classify(kernel, Side::Source, source).unwrap_or(found);
        from.keep_file_system(&found);
        partial.discard_doubtful_error();
    }
    if known.is_some() {
        to = classify(kernel, Side::Sink, sink).unwrap_or(to);
    }
    Ok(FastPath::Continue(from, to, partial))
}

/// Returns the most that [`plan::offload_above`] returns for this sink, whatever the source is.
fn max_offload_above(sink: &FdInfo) -> u64 {
    match sink.kind {
        Kind::Regular => plan::PRIVATE_PIPE_ABOVE,
        Kind::Null => plan::FILE_OFFLOAD_ABOVE,
        Kind::Pipe => plan::FILE_TO_PIPE_OFFLOAD_ABOVE,
        _ => plan::OFFLOAD_ABOVE,
    }
}

/// Returns whether the source is a file of at most 32 KiB (12 KiB into a pipe), or a file without
/// holes of at most the size that the plan would read and write too.
fn is_small<K: Kernel>(
    kernel: &K,
    fd: BorrowedFd<'_>,
    source: &mut FdInfo,
    sink: &FdInfo,
    options: &Options,
) -> bool {
    match source.size {
        Some(size) if source.kind != Kind::Regular || size > max_offload_above(sink) => false,
        Some(size) if size <= plan::OFFLOAD_ABOVE => true,
        Some(size) if !source.has_holes() => {
            source.classify_file_system(kernel, fd);
            size <= plan::offload_above(source, sink, options)
        }
        _ => false,
    }
}

impl Partial {
    /// Reads and writes until the end of the source. Returns false if an engine must continue.
    ///
    /// Only a read of 0 bytes counts as the end, so that bytes appended meanwhile are not lost.
    fn read_and_write<K: Kernel>(
        &mut self,
        kernel: &K,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        size: u64,
    ) -> bool {
        // One byte more than the file has, because a full buffer means that the source may have
        // more.
        let len = (size as usize + 1).min(MAX_READ);
        if let Err(errno) = self.buffer.reserve_exactly(len, Alignment::CacheLine) {
            return self.stop(Err(CallError::no_memory(errno)));
        }
        let accepts_nothing = || CallError::new("write", Side::Sink, Cause::ReturnedZero);
        loop {
            self.calls += 1;
            let room = self.buffer.spare(usize::MAX);
            match kernel.read_into(source, None, room) {
                Ok(0) => return true,
                Ok(n) => self.buffer.fill(n),
                Err(errno) => return self.stop(on_errno("read", Side::Source, errno)),
            }
            self.calls += 1;
            match kernel.write(sink, None, self.buffer.pending(), Blocking::MaySleep) {
                Ok(0) => return self.stop(Err(accepts_nothing())),
                Ok(n) => {
                    self.buffer.consume(n);
                    self.bytes += n as u64;
                }
                Err(errno) => return self.stop(on_errno("write", Side::Sink, errno)),
            }
            let has_grown = self.buffer.was_filled() && self.bytes > size;
            if !self.buffer.is_empty() || has_grown {
                return false;
            }
        }
    }

    /// Leaves the result of a call to an engine. Returns false, as [`Self::read_and_write`] does
    /// then.
    fn stop(&mut self, first_step: Result<Step, CallError>) -> bool {
        self.first_step = Some(first_step);
        false
    }

    /// Drops an error of the source that its flags may explain, because the fast path did not read
    /// them: a wrong access mode (`EBADF`), or `O_DIRECT` (`EINVAL`). The engine knows the flags
    /// and makes the call again.
    fn discard_doubtful_error(&mut self) {
        let is_doubtful = |error: &CallError| {
            error.side == Side::Source
                && matches!(error.cause, Cause::Errno(Errno::BADF | Errno::INVAL))
        };
        if matches!(&self.first_step, Some(Err(error)) if is_doubtful(error)) {
            self.first_step = None;
        }
    }

    /// Returns the work done so far as an attempt by `buffered`.
    pub(crate) fn attempt(&self) -> Attempt {
        Attempt {
            bytes: self.bytes,
            calls: self.calls,
            ..Attempt::new(Strategy::Buffered)
        }
    }
}
