//! What to make of a step that did not move: the next strategy, the end, or a side that failed.

use std::time::Duration;

use super::{PairEngine, Phase};
use crate::buffer::{self, ALIGNMENT};
use crate::call_error::{CallError, Cause};
use crate::context::refused;
use crate::copy_state::StepBudget;
use crate::endpoint::Endpoint;
use crate::engine::Flow;
use crate::error::RunError;
use crate::fd_info::{Kind, SECTOR};
use crate::pipe;
use crate::report::{Attempt, Ended};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno, Kernel, PollFd, PollFlags, SeekFrom, retried};

impl<K: Kernel> PairEngine<'_, K> {
    /// Goes on with the next strategy of the plan, from where this one stands. What it left in
    /// flight is moved first, by read and write.
    pub(super) fn fall_back(&mut self, from: Strategy, cause: Cause) -> Result<Flow, RunError> {
        self.context.attempt(from).cause = Some(cause);
        if self.context.requested().is_some() {
            return Err(self.requested_strategy_error(from, cause));
        }
        self.change_to(self.plan.after(from));
        Ok(Flow::NextStrategy)
    }

    /// Goes on with another strategy, which reserves what it needs. What cannot be given back is read and written first.
    fn change_to(&mut self, strategy: Strategy) {
        // Bytes that are to fill what stays reserved of the sink are not left to others.
        if self.state.sink.release(&self.context.kernel) {
            self.state.source.release(&self.context.kernel);
        }
        self.strategy = strategy;
        self.phase = Phase::Main;
        self.context.spurious_wakeups = 0;
    }

    /// Goes on with read and write because somebody else moves a cursor.
    pub(super) fn fall_back_to_buffered(&mut self, from: Strategy) -> Flow {
        self.context.attempt(from).cause = Some(Cause::SharedCursor);
        self.change_to(Strategy::Buffered);
        Flow::NextStrategy
    }

    /// Believes the end of file of a pipe or a read. Anything else may have been a file that hides its
    /// size, or the urgent mark of a stream, so that a read has the last word.
    pub(super) fn end_of_file(&mut self, strategy: Strategy) -> Result<Flow, RunError> {
        let rest = self.state.source.give_back_rest(&self.context.kernel);
        rest.map_err(|errno| CallError::new("lseek", Side::Source, errno))?;
        self.state.sink.release(&self.context.kernel);
        let source = self.state.source.info.kind;
        let sink = self.state.sink.info.kind;
        if strategy.proves_end(source, sink) {
            return Ok(Flow::Ended(Ended::Eof));
        }
        if source == Kind::Stream {
            self.phase = Phase::Confirming;
            return Ok(Flow::NextStrategy);
        }
        if self.context.requested().is_none() {
            self.strategy = Strategy::Buffered;
            self.phase = Phase::Main;
            self.extents = None;
            return Ok(Flow::NextStrategy);
        }
        match self.peek() {
            Ok(0) => Ok(Flow::Ended(Ended::Eof)),
            Ok(_) => Err(stopped_early(strategy)),
            Err(Errno::SPIPE) => self.confirm_end(strategy),
            // Another reader of the pipe has taken what the sink has not.
            Err(Errno::AGAIN) => self.blocked(Side::Source),
            Err(errno) => Err(CallError::new("read", Side::Source, errno).into()),
        }
    }

    /// Reads on from a source whose end cannot be looked at without taking what is there. Bytes that come are handed back
    /// with the error.
    fn confirm_end(&mut self, strategy: Strategy) -> Result<Flow, RunError> {
        let limit = self.context.options.limit.unwrap_or(u64::MAX);
        let budget = StepBudget {
            max: buffer::LEAST as u64,
            remaining: limit - self.context.bytes,
            blocking: self.context.blocking(),
        };
        match buffered::fill(&self.context.kernel, &mut self.state, &budget)? {
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(side)) => self.blocked(side),
            Some(_) => Ok(Flow::Continue),
            None => Err(stopped_early(strategy)),
        }
    }

    /// Counts a read that only confirmed the end of a stream among the calls of the strategy that the caller insists on.
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

    /// Whether the source may stand at an urgent mark, which no splice gets past: in non-blocking mode it says `EAGAIN`
    /// there, though it polls as readable.
    pub(super) fn may_be_at_mark(&self) -> bool {
        self.current().facts().is_splice
            && self.state.source.info.kind == Kind::Stream
            && self.state.wants_more()
    }

    /// Why the strategy that the caller insists on goes no further. Once it has moved bytes, a limit of
    /// the sink (its size, a seal) is the sink's doing and not the pair's.
    fn requested_strategy_error(&mut self, strategy: Strategy, cause: Cause) -> RunError {
        let has_moved = self.context.attempt(strategy).has_moved();
        match cause {
            Cause::Errno(errno @ (Errno::FBIG | Errno::PERM)) if has_moved => {
                let error = CallError::new(strategy.facts().call, Side::Neither, errno);
                self.resolve_side(error).into()
            }
            _ => refused(strategy, cause),
        }
    }

    /// Whether a strategy that fails before it moved anything fails the transfer, rather than give
    /// way to the next one.
    ///
    /// A socket tells an error once: the next call would take it for the end of the stream, and
    /// bytes that never came would not be missed.
    pub(super) fn is_final(&self, strategy: Strategy, error: &CallError) -> bool {
        let meets_socket = self.state.source.info.is_socket() || self.state.sink.info.is_socket();
        let errno = error.cause.errno();
        meets_socket || errno.is_none_or(|errno| strategy.is_fatal(errno))
    }

    /// Whether the transfer goes on past a place where the source cannot be read: by read and write, which
    /// find out how far it reaches. Whatever came before it has been moved, or is in flight.
    ///
    /// A call that speaks of both ends is not asked which it means. If it was the sink, then read and write
    /// fail there, and say so; only a socket tells an error once, and what both ends may say of those that
    /// are skipped is `ETIMEDOUT`.
    pub(super) fn skip_bad_block(&mut self, from: Strategy, error: &CallError) -> bool {
        let (source, sink) = (&self.state.source.info, &self.state.sink.info);
        let skips = |errno| source.is_seekable() && self.state.bad.skips(errno);
        let Some(errno) = error.cause.errno().filter(|errno| skips(*errno)) else {
            return false;
        };
        if error.call == "lseek" {
            // The map of its holes cannot be read either; it can do without.
            return self.extents.take().is_some();
        }
        let may_be_sink = match error.side {
            Side::Source => false,
            Side::Sink => true,
            // Only a sink that took a part of a block leaves a source of blocks in the midst of one.
            Side::Neither if source.direct => {
                let position = self.state.source.position();
                position.is_some_and(|position| !position.is_multiple_of(SECTOR))
            }
            Side::Neither => sink.is_socket() && errno == Errno::TIMEDOUT,
        };
        let is_last = from.facts().is_last_resort || self.context.requested().is_some();
        if may_be_sink || is_last {
            return false;
        }
        self.context.attempt(from).cause = Some(error.cause);
        self.change_to(Strategy::Buffered);
        true
    }

    /// Adds what a call that speaks of both ends does not say: which of them failed.
    pub(super) fn resolve_side(&self, error: CallError) -> CallError {
        let (Side::Neither, Some(errno)) = (error.side, error.cause.errno()) else {
            return error;
        };
        let side = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::PIPE => Side::Sink,
            Errno::NOMEM => Side::Neither,
            // No read of a pipe fails.
            _ if self.state.source.info.kind == Kind::Pipe => Side::Sink,
            _ => match self.peek() {
                Ok(_) => Side::Sink,
                // A file that has no positions cannot be asked without taking bytes out of it.
                Err(Errno::SPIPE) => Side::Neither,
                Err(_) => Side::Source,
            },
        };
        CallError { side, ..error }
    }

    /// How much can be read, if only one byte, where the transfer stands; the cursor is left alone. 0 of
    /// a device, a terminal or a socket, which are not asked.
    ///
    /// # Errors
    ///
    /// `ESPIPE` from a regular file that has no positions, as FUSE servers may declare one, or from a pipe if there is no
    /// descriptor to ask it by; `EAGAIN` from a pipe that is empty and has not ended; else what the kernel says of reading.
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
        // Of a file opened with `O_DIRECT`, only a block can be read.
        let (before, len) = if source.info.direct {
            ((position % ALIGNMENT as u64) as usize, ALIGNMENT)
        } else {
            (0, 1)
        };
        let mut block = [0; 2 * ALIGNMENT];
        let start = block.as_ptr().align_offset(ALIGNMENT);
        let room = &mut block[start..][..len];
        let from = Some(position - before as u64);
        let read = retried(|| {
            self.context
                .kernel
                .read(source.fd, from, room, Blocking::MaySleep)
        })?;
        Ok(read.saturating_sub(before))
    }

    /// 1 if the pipe holds bytes, 0 if it has ended.
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

/// The strategy that the caller insists on says that the source has ended, and it has not.
fn stopped_early(strategy: Strategy) -> RunError {
    RunError::unsuitable(strategy, "it stopped before the end of the source")
}
