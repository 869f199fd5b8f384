//! What to do after a step that did not move bytes: try the next strategy, end, or fail.

use std::time::Duration;

use super::{PairEngine, Phase};
use crate::buffer::{self, ALIGNMENT};
use crate::call_error::{CallError, Cause};
use crate::context::requested_failed;
use crate::copy_state::StepBudget;
use crate::endpoint::Endpoint;
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::{FileSystem, Kind, SECTOR};
use crate::pipe;
use crate::report::{Attempt, Ended};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel, PollFd, PollFlags, SeekFrom, retried};

impl<K: Kernel> PairEngine<'_, K> {
    /// Falls back to the next strategy of the plan. Read and write first move what this one left in
    /// flight.
    pub(super) fn fall_back(&mut self, from: Strategy, cause: Cause) -> Result<Flow, RunError> {
        self.context.attempt(from).cause = Some(cause);
        if self.context.requested().is_some() {
            return Err(self.requested_strategy_error(from, cause));
        }
        self.change_to(self.plan.after(from));
        Ok(Flow::Advance)
    }

    /// Switches to another strategy, which makes its own reservations. If a range cannot be
    /// released, another process or thread has moved the cursor, and [`Self::take_step`] reads and
    /// writes.
    fn change_to(&mut self, strategy: Strategy) {
        // If the sink's range cannot be released, the source's stays reserved too: its bytes must
        // fill the sink's.
        if self.state.sink.release(&self.context.kernel) {
            self.state.source.release(&self.context.kernel);
        }
        self.main_strategy = strategy;
        self.phase = Phase::Main;
        self.context.times_blocked = 0;
    }

    /// Falls back to read and write, whatever the plan puts next.
    pub(super) fn fall_back_to_buffered(&mut self, from: Strategy, cause: Cause) -> Flow {
        self.context.attempt(from).cause = Some(cause);
        self.change_to(Strategy::Buffered);
        Flow::Advance
    }

    /// Ends the transfer if the strategy proves the end of the source. If not, the source may be a
    /// file that hides its size, or a stream at its urgent mark, and a read decides.
    pub(super) fn end_of_file(&mut self, strategy: Strategy) -> Result<Flow, RunError> {
        self.release_at_end()?;
        let source = self.state.source.info.kind;
        let sink = self.state.sink.info.kind;
        if strategy.proves_end(source, sink) {
            return Ok(Flow::Ended(Ended::Eof));
        }
        if source == Kind::Stream {
            self.phase = Phase::Confirming;
            return Ok(Flow::Advance);
        }
        if self.context.requested().is_none() {
            // A range of the source that another reader has passed stays reserved for the read.
            self.main_strategy = Strategy::Buffered;
            self.phase = Phase::Main;
            self.extents = None;
            return Ok(Flow::Advance);
        }
        match self.peek() {
            Ok(0) => Ok(Flow::Ended(Ended::Eof)),
            Ok(_) => Err(stopped_early(strategy)),
            Err(Errno::SPIPE) => self.confirm_end(strategy),
            // Another reader of the pipe has taken bytes that the sink has not received.
            Err(Errno::AGAIN) => self.blocked(Some(Side::Source)),
            Err(errno) => Err(CallError::new("read", Side::Source, errno).into()),
        }
    }

    /// Gives back what is reserved at both ends, when the source has ended.
    pub(super) fn release_at_end(&mut self) -> Result<(), CallError> {
        let rest = self.state.source.unreserve_beyond_eof(&self.context.kernel);
        rest.map_err(CallError::of_call("lseek", Side::Source))?;
        self.state.sink.release(&self.context.kernel);
        Ok(())
    }

    /// Reads from a source whose end can only be found by taking bytes. Bytes that come are
    /// returned with the error.
    fn confirm_end(&mut self, strategy: Strategy) -> Result<Flow, RunError> {
        let limit = self.context.options.limit.unwrap_or(u64::MAX);
        let budget = StepBudget {
            max: buffer::MIN_CAPACITY as u64,
            until_limit: limit - self.context.bytes,
            blocking: self.context.blocking(),
        };
        match buffered::fill(&self.context.kernel, &mut self.state, &budget)? {
            Step::Eof => Ok(Flow::Ended(Ended::Eof)),
            Step::Blocked(side) => self.blocked(side),
            Step::Filled => Err(stopped_early(strategy)),
            _ => Ok(Flow::Observe),
        }
    }

    /// Adds the calls of a read that only confirmed the end of a stream to the requested strategy.
    pub(super) fn credit_confirmation(&mut self) {
        let Some(requested) = self
            .context
            .requested()
            .filter(|_| self.phase == Phase::Confirming)
        else {
            return;
        };
        let mut attempts = self.context.attempts.iter();
        let only_confirmed =
            |attempt: &Attempt| attempt.strategy == Strategy::Buffered && attempt.bytes == 0;
        if let Some(index) = attempts.position(only_confirmed) {
            let calls = self.context.attempts.remove(index).calls;
            self.context.attempt(requested).calls += calls;
        }
    }

    /// Returns whether the source may be at an urgent mark, which no splice gets past: in
    /// non-blocking mode it fails with `EAGAIN` there, though the socket polls as readable.
    pub(super) fn may_be_at_mark(&self) -> bool {
        self.current_strategy().facts().is_splice
            && self.state.source.info.kind == Kind::Stream
            && self.state.needs_input()
    }

    /// Returns the error for a requested strategy that the kernel refuses. Once it has moved bytes,
    /// a limit of the sink (its size, a seal), or a monitor that denies reads of the source
    /// (`fanotify(7)`), is a failure of that side, not of the strategy.
    fn requested_strategy_error(&mut self, strategy: Strategy, cause: Cause) -> RunError {
        let has_moved = self.context.attempt(strategy).has_moved();
        match cause {
            Cause::Errno(errno @ (Errno::FBIG | Errno::PERM)) if has_moved => {
                let error = CallError::new(strategy.facts().call, Side::Neither, errno);
                let mut error = self.resolve_side(error);
                if error.side == Side::Neither {
                    error.side = Side::Sink;
                }
                error.into()
            }
            _ => requested_failed(strategy, cause),
        }
    }

    /// Returns whether an error ends the transfer although the strategy has moved nothing yet.
    ///
    /// A socket reports an error once: the next call would see the end of the stream, and nobody
    /// would notice the missing bytes.
    pub(super) fn is_final(&self, strategy: Strategy, error: &CallError) -> bool {
        let meets_socket = self.state.source.info.is_socket() || self.state.sink.info.is_socket();
        let errno = error.cause.errno();
        meets_socket || errno.is_none_or(|errno| strategy.is_fatal(errno))
    }

    /// Falls back to read and write, which skip bad blocks, if the source has one here. Bytes
    /// before it have been moved or are in flight. An error of `lseek(2)` only ends the search for
    /// holes. Returns false if the error has another reason.
    ///
    /// If the call does not say which side failed, read and write find out: if it was the sink, the
    /// write fails too. An exception is a socket, which reports an error once; the only error that
    /// both a socket and a bad block give is `ETIMEDOUT`.
    pub(super) fn skip_bad_block(&mut self, from: Strategy, error: &CallError) -> bool {
        let (source, sink) = (&self.state.source.info, &self.state.sink.info);
        let skips = |errno| source.is_seekable() && self.state.bad.skips(errno);
        let Some(errno) = error.cause.errno().filter(|errno| skips(*errno)) else {
            return false;
        };
        if error.call == "lseek" {
            // The transfer can do without a map of the holes.
            return self.extents.take().is_some();
        }
        let may_be_sink = match error.side {
            Side::Source => false,
            Side::Sink => true,
            // A direct source that began at a block stands inside one only if the sink took part of
            // it.
            Side::Neither if source.direct => {
                let position = self.state.source.position().unwrap_or_default();
                let began_at = position.saturating_sub(self.state.bad.delivered);
                began_at.is_multiple_of(SECTOR) && !position.is_multiple_of(SECTOR)
            }
            Side::Neither => sink.is_socket() && errno == Errno::TIMEDOUT,
        };
        let is_last = from.facts().is_last_resort || self.context.requested().is_some();
        if may_be_sink || is_last {
            return false;
        }
        self.fall_back_to_buffered(from, error.cause);
        true
    }

    /// Finds out which side failed, if the call does not say.
    pub(super) fn resolve_side(&self, error: CallError) -> CallError {
        let (Side::Neither, Some(errno)) = (error.side, error.cause.errno()) else {
            return error;
        };
        let side = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::PIPE => Side::Sink,
            Errno::NOMEM => Side::Neither,
            // Reads from a pipe do not fail.
            _ if self.state.source.info.kind == Kind::Pipe => Side::Sink,
            // They take everything, but for a pipe without readers.
            _ if matches!(self.state.sink.info.kind, Kind::Null | Kind::Pipe) => Side::Source,
            // On FUSE before Linux 6.5 the call may have failed at a later byte, and accepted none
            // before it.
            _ => match self.peek().and_then(|_| self.peek_far()) {
                Ok(_) => Side::Sink,
                Err(found) if found == errno => Side::Source,
                // The source fails for another reason, and the sink may have failed too; or it is a
                // file without positions, which only a read that takes bytes could tell about.
                Err(_) => Side::Neither,
            },
        };
        CallError { side, ..error }
    }

    /// Returns how many bytes a read of one byte finds at the source's position, without moving the
    /// cursor: with `O_DIRECT` a block is read, and more bytes may be found. Returns 0 without a
    /// call, as if the source had ended, for a device, a terminal or a socket.
    ///
    /// # Errors
    ///
    /// - `ESPIPE` for a regular file without positions (a FUSE server may declare one), and for a
    ///   pipe if `tee(2)` cannot be tried;
    /// - `EAGAIN` for a pipe that is empty and has not ended;
    /// - otherwise the error of the read.
    pub(super) fn peek(&self) -> Result<usize, Errno> {
        let source: &Endpoint<'_> = &self.state.source;
        let position = match source.position() {
            Some(position) => position,
            None if source.info.is_seekable() => {
                self.context.kernel.seek(source.fd, SeekFrom::Current(0))?
            }
            None if source.info.kind == Kind::Pipe => return self.peek_pipe(),
            None => return Ok(0),
        };
        // A file opened with `O_DIRECT` can only be read in blocks.
        let (before, len) = if source.info.direct {
            ((position % ALIGNMENT as u64) as usize, ALIGNMENT)
        } else {
            (0, 1)
        };
        let read = self.read_at(position - before as u64, len, &mut [0; 2 * ALIGNMENT])?;
        Ok(read.saturating_sub(before))
    }

    /// Reads as far ahead as a server of FUSE may have been asked for. Returns 0 without a call if
    /// the source is elsewhere, or if there is no memory.
    fn peek_far(&self) -> Result<usize, Errno> {
        /// The most bytes that a server of FUSE is asked for at a time, by default.
        const FAR: usize = 128 << 10;
        let mut memory = Vec::new();
        let is_on_fuse = self.state.source.info.file_system == FileSystem::Fuse;
        if !is_on_fuse || memory.try_reserve_exact(FAR + ALIGNMENT).is_err() {
            return Ok(0);
        }
        memory.resize(FAR + ALIGNMENT, 0);
        let position = self.state.source.current_position(&self.context.kernel)?;
        let block = position / ALIGNMENT as u64 * ALIGNMENT as u64;
        self.read_at(block, FAR, &mut memory)
    }

    /// Reads up to `len` bytes at a position into a part of `memory` that is aligned for
    /// `O_DIRECT`, and does not move the cursor.
    fn read_at(&self, position: u64, len: usize, memory: &mut [u8]) -> Result<usize, Errno> {
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let room = &mut memory[start..][..len];
        let (kernel, source) = (&self.context.kernel, self.state.source.fd);
        retried(|| kernel.read(source, Some(position), room, Blocking::MaySleep))
    }

    /// Returns 1 if the pipe holds bytes, and 0 if it has ended.
    fn peek_pipe(&self) -> Result<usize, Errno> {
        let pipe = self.state.source.fd;
        let mut fds = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
        retried(|| self.context.kernel.poll(&mut fds, Some(Duration::ZERO)))?;
        match fds[0].revents() {
            found if found.contains(PollFlags::IN) => Ok(1),
            found if found.contains(PollFlags::HUP) => Ok(0),
            _ => pipe::peek(&self.context.kernel, pipe).map_err(|errno| match errno {
                Errno::AGAIN => errno,
                _ => Errno::SPIPE,
            }),
        }
    }
}

/// Returns the error for a requested strategy that reported the end of the source too early.
fn stopped_early(strategy: Strategy) -> RunError {
    RunError::unsuitable(strategy, "it stopped before the end of the source")
}
