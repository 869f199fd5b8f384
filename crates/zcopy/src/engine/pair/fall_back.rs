//! What to make of a step that did not move: the next strategy, the end, or a side that failed.

use std::time::Duration;

use super::{PairEngine, Phase};
use crate::buffer::{self, ALIGNMENT};
use crate::context::refused;
use crate::end::End;
use crate::endpoint::{Kind, SECTOR};
use crate::engine::Flow;
use crate::error::Failure;
use crate::fault::{Cause, Fault};
use crate::pipe;
use crate::report::{Attempt, Ended};
use crate::route::Ask;
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, Patience, PollFd, PollFlags, SeekFrom, retried};

impl<K: Kernel> PairEngine<'_, K> {
    /// Goes on with the next strategy of the plan, from where this one stands. What it left in
    /// flight is moved first, by read and write.
    pub(super) fn fall_back(&mut self, from: Strategy, cause: Cause) -> Result<Flow, Failure> {
        self.context.attempt(from).cause = Some(cause);
        if self.context.forced().is_some() {
            return Err(self.cannot_insist(from, cause));
        }
        self.change_to(self.plan.after(from));
        Ok(Flow::NextStrategy)
    }

    /// Goes on with another strategy, which reserves what it needs. What cannot be given back is read and written first.
    fn change_to(&mut self, strategy: Strategy) {
        // Bytes that are to fill what stays reserved of the sink are not left to others.
        if self.route.sink.release(&self.context.kernel) {
            self.route.source.release(&self.context.kernel);
        }
        self.strategy = strategy;
        self.phase = Phase::Main;
        self.context.false_starts = 0;
    }

    /// Goes on with read and write because somebody else moves a cursor.
    pub(super) fn fall_back_to_buffered(&mut self, from: Strategy) -> Flow {
        self.context.attempt(from).cause = Some(Cause::SharedCursor);
        self.change_to(Strategy::Buffered);
        Flow::NextStrategy
    }

    /// Believes the end of file of a pipe or a read. Anything else may have been a file that hides its
    /// size, or the urgent mark of a stream, so that a read has the last word.
    pub(super) fn end_of_file(&mut self, strategy: Strategy) -> Result<Flow, Failure> {
        let rest = self.route.source.give_back_rest(&self.context.kernel);
        rest.map_err(|errno| Fault::new("lseek", Side::Source, errno))?;
        self.route.sink.release(&self.context.kernel);
        let source = self.route.source.endpoint.kind;
        let sink = self.route.sink.endpoint.kind;
        if strategy.proves_end(source, sink) {
            return Ok(Flow::Ended(Ended::Eof));
        }
        if source == Kind::Stream {
            self.phase = Phase::Confirming;
            return Ok(Flow::NextStrategy);
        }
        if self.context.forced().is_none() {
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
            Err(errno) => Err(Fault::new("read", Side::Source, errno).into()),
        }
    }

    /// Reads on from a source whose end cannot be looked at without taking what is there. Bytes that come are handed back
    /// with the error.
    fn confirm_end(&mut self, strategy: Strategy) -> Result<Flow, Failure> {
        let limit = self.context.options.limit.unwrap_or(u64::MAX);
        let ask = Ask {
            max: buffer::LEAST as u64,
            remaining: limit - self.context.bytes,
            patience: self.context.patience(),
        };
        match buffered::fill(&self.context.kernel, &mut self.route, &ask)? {
            Some(Step::Eof) => Ok(Flow::Ended(Ended::Eof)),
            Some(Step::Blocked(side)) => self.blocked(side),
            Some(_) => Ok(Flow::Continue),
            None => Err(stopped_early(strategy)),
        }
    }

    /// Counts a read that only confirmed the end of a stream among the calls of the strategy that the caller insists on.
    pub(super) fn credit_confirmation(&mut self) {
        let Some(forced) = self
            .context
            .forced()
            .filter(|_| self.phase == Phase::Confirming)
        else {
            return;
        };
        let mut attempts = self.context.attempts.iter();
        let only_confirmed =
            |attempt: &Attempt| attempt.strategy == Strategy::Buffered && attempt.bytes == 0;
        if let Some(index) = attempts.position(only_confirmed) {
            let calls = self.context.attempts.remove(index).calls;
            self.context.attempt(forced).calls += calls;
        }
    }

    /// Whether the source may stand at an urgent mark, which no splice gets past: in non-blocking mode it says `EAGAIN`
    /// there, though it polls as readable.
    pub(super) fn may_be_at_mark(&self) -> bool {
        self.current().facts().is_splice
            && self.route.source.endpoint.kind == Kind::Stream
            && self.route.wants_more()
    }

    /// Why the strategy that the caller insists on goes no further. Once it has moved bytes, a limit of
    /// the sink (its size, a seal) is the sink's doing and not the pair's.
    fn cannot_insist(&mut self, strategy: Strategy, cause: Cause) -> Failure {
        let has_moved = self.context.attempt(strategy).has_moved();
        match cause {
            Cause::Errno(errno @ (Errno::FBIG | Errno::PERM)) if has_moved => {
                let fault = Fault::new(strategy.facts().call, Side::Neither, errno);
                self.with_side(fault).into()
            }
            _ => refused(strategy, cause),
        }
    }

    /// Whether a strategy that fails before it moved anything fails the transfer, rather than give
    /// way to the next one.
    ///
    /// A socket tells an error once: the next call would take it for the end of the stream, and
    /// bytes that never came would not be missed.
    pub(super) fn is_final(&self, strategy: Strategy, fault: &Fault) -> bool {
        let meets_socket =
            self.route.source.endpoint.is_socket() || self.route.sink.endpoint.is_socket();
        let errno = fault.cause.errno();
        meets_socket || errno.is_none_or(|errno| strategy.is_fatal(errno))
    }

    /// Whether the transfer goes on past a place where the source cannot be read: by read and write, which
    /// find out how far it reaches. Whatever came before it has been moved, or is in flight.
    ///
    /// A call that speaks of both ends is not asked which it means. If it was the sink, then read and write
    /// fail there, and say so; only a socket tells an error once, and what both ends may say of those that
    /// are skipped is `ETIMEDOUT`.
    pub(super) fn reads_on(&mut self, from: Strategy, fault: &Fault) -> bool {
        let (source, sink) = (&self.route.source.endpoint, &self.route.sink.endpoint);
        let skips = |errno| source.is_seekable() && self.route.bad.skips(errno);
        let Some(errno) = fault.cause.errno().filter(|errno| skips(*errno)) else {
            return false;
        };
        if fault.call == "lseek" {
            // The map of its holes cannot be read either; it can do without.
            return self.extents.take().is_some();
        }
        let may_be_sink = match fault.side {
            Side::Source => false,
            Side::Sink => true,
            // Only a sink that took a part of a block leaves a source of blocks in the midst of one.
            Side::Neither if source.direct => {
                let position = self.route.source.position();
                position.is_some_and(|position| !position.is_multiple_of(SECTOR))
            }
            Side::Neither => sink.is_socket() && errno == Errno::TIMEDOUT,
        };
        let is_last = from.facts().is_last_resort || self.context.forced().is_some();
        if may_be_sink || is_last {
            return false;
        }
        self.context.attempt(from).cause = Some(fault.cause);
        self.change_to(Strategy::Buffered);
        true
    }

    /// Adds what a call that speaks of both ends does not say: which of them failed.
    pub(super) fn with_side(&self, fault: Fault) -> Fault {
        let (Side::Neither, Some(errno)) = (fault.side, fault.cause.errno()) else {
            return fault;
        };
        let side = match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::PIPE => Side::Sink,
            Errno::NOMEM => Side::Neither,
            // No read of a pipe fails.
            _ if self.route.source.endpoint.kind == Kind::Pipe => Side::Sink,
            _ => match self.peek() {
                Ok(_) => Side::Sink,
                // A file that has no positions cannot be asked without taking bytes out of it.
                Err(Errno::SPIPE) => Side::Neither,
                Err(_) => Side::Source,
            },
        };
        Fault { side, ..fault }
    }

    /// How much can be read, if only one byte, where the transfer stands; the cursor is left alone. 0 of
    /// a device, a terminal or a socket, which are not asked.
    ///
    /// # Errors
    ///
    /// `ESPIPE` from a regular file that has no positions, as FUSE servers may declare one, or from a pipe if there is no
    /// descriptor to ask it by; `EAGAIN` from a pipe that is empty and has not ended; else what the kernel says of reading.
    pub(super) fn peek(&self) -> Result<usize, Errno> {
        let source: &End<'_> = &self.route.source;
        let position = match source.position() {
            Some(position) => position,
            None if source.endpoint.is_seekable() => {
                self.context.kernel.seek(source.fd, SeekFrom::Current(0))?
            }
            None if source.endpoint.kind == Kind::Pipe => return self.peek_pipe(),
            None => return Ok(0),
        };
        // Of a file opened with `O_DIRECT`, only a block can be read.
        let (before, len) = if source.endpoint.direct {
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
                .read(source.fd, from, room, Patience::Block)
        })?;
        Ok(read.saturating_sub(before))
    }

    /// 1 if the pipe holds bytes, 0 if it has ended.
    fn peek_pipe(&self) -> Result<usize, Errno> {
        let pipe = self.route.source.fd;
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
fn stopped_early(strategy: Strategy) -> Failure {
    Failure::unsuitable(strategy, "it stopped before the end of the source")
}
