//! The backlog: where bytes wait that some sinks still have to take.

use std::os::fd::BorrowedFd;

use crate::buffer;
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::Endpoint;
use crate::side::Side;
use crate::step::{Step, buffered, splice_pipe, tee};
use crate::sys::{Blocking, Kernel, retried};

/// What the bytes wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In a private pipe, also if the source is one: bytes of the caller's pipe that are only shared, somebody else may
    /// take out before all sinks have them.
    Pipe,
    /// In the buffer alone: no sink can be served inside the kernel, or the source cannot.
    Buffer,
}

/// The source, and what has left it.
///
/// At its head a pipe shares bytes with others (`tee`) as often as it is asked; then somebody has to
/// take them out: the last of the sinks that splice, or the buffer, from which the other sinks are
/// written to.
pub(crate) struct Backlog<'a> {
    pub(crate) storage: Storage,
    /// The source, the private pipe, and the buffer. Its sink stands for those that are written to.
    pub(crate) state: CopyState<'a>,
    /// How many bytes have been taken out of the pipe, or, without one, out of the source.
    pub(crate) head: u64,
    /// What was read beyond the limit and cannot be gone back over: the rest of a packet or record, or a message that
    /// took the place of one that another reader has.
    pub(crate) surplus: Vec<u8>,
}

impl<'a> Backlog<'a> {
    /// How many bytes have left the source.
    pub(crate) fn consumed(&self) -> u64 {
        self.head + self.state.in_pipe()
    }

    /// The pipe that is shared from.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        match self.storage {
            Storage::Pipe => self.state.pipe.as_ref().map(crate::pipe::Pipe::reader),
            Storage::Buffer => None,
        }
    }

    /// Where the first byte in the buffer stands in the stream.
    pub(crate) fn buffered_from(&self) -> u64 {
        self.head - self.state.buffer.pending().len() as u64
    }

    /// The bytes in the buffer from a place in the stream on.
    pub(crate) fn buffered_at(&self, place: u64) -> &[u8] {
        let pending = self.state.buffer.pending();
        let skipped = place.saturating_sub(self.buffered_from()) as usize;
        pending.get(skipped..).unwrap_or_default()
    }

    /// Splices from the source into the empty private pipe. No answer means that bytes came.
    pub(crate) fn fill<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        blocking: Blocking,
    ) -> Result<Option<Step>, CallError> {
        let answer = splice_pipe::fill(kernel, &mut self.state, &budget(max, max, blocking))?;
        if answer == Some(Step::Eof) {
            let rest = self.state.source.give_back_rest(kernel);
            rest.map_err(|errno| CallError::new("lseek", Side::Source, errno))?;
        }
        Ok(answer)
    }

    /// Reads from the source and writes what came into the empty private pipe, because a splice got nothing out of a
    /// stream: it has ended, or stands at its urgent mark. No answer means that bytes came.
    pub(crate) fn fill_by_read<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        blocking: Blocking,
    ) -> Result<Option<Step>, CallError> {
        let source = &self.state.source;
        if blocking == Blocking::Nonblocking && !source.would_answer(kernel) {
            return Ok(Some(Step::Blocked(Side::Source)));
        }
        let room = self.state.pipe.as_ref().map_or(0, |pipe| pipe.capacity);
        let max = max.min(room.min(buffer::SMALL) as u64);
        if let Some(answer) =
            buffered::fill(kernel, &mut self.state, &budget(max, max.max(1), blocking))?
        {
            return Ok(Some(answer));
        }
        let CopyState {
            buffer,
            pipe: Some(pipe),
            calls,
            ..
        } = &mut self.state
        else {
            return Ok(Some(Step::Interrupted));
        };
        while !buffer.is_empty() {
            *calls += 1;
            // It is empty and has room for all of them, so that the call does not sleep.
            let bytes = buffer.pending();
            let written = retried(|| kernel.write(pipe.writer(), None, bytes, Blocking::MaySleep));
            let cause = match written {
                Ok(0) => Cause::WriteZero,
                Ok(n) => {
                    pipe.in_flight += n as u64;
                    buffer.consume(n);
                    continue;
                }
                Err(errno) => errno.into(),
            };
            self.surplus = buffer.take_pending();
            return Err(CallError {
                call: "write",
                side: Side::Neither,
                cause,
            });
        }
        Ok(None)
    }

    /// Shares up to `len` bytes with a pipe, and leaves them where they are.
    pub(crate) fn share<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: BorrowedFd<'_>,
        len: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        self.state.calls += 1;
        match self.pipe() {
            Some(pipe) => tee::share(kernel, pipe, sink, len, blocking),
            None => Ok(Step::Moved(0)),
        }
    }

    /// Takes up to `len` bytes out of the pipe, straight into a sink.
    pub(crate) fn pour<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'a>,
        len: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        self.state.calls += 1;
        let Some(pipe) = self.pipe() else {
            return Ok(Step::Moved(0));
        };
        let step = splice_pipe::pour(kernel, pipe, sink, len, blocking)?;
        if let Step::Moved(n) = step {
            self.took(n);
        }
        Ok(step)
    }

    /// Takes up to `max` bytes out of the pipe, or, without one, out of the source, into the empty
    /// buffer. No answer means that bytes came.
    pub(crate) fn copy<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        remaining: u64,
        blocking: Blocking,
    ) -> Result<Option<Step>, CallError> {
        let answer = buffered::fill(kernel, &mut self.state, &budget(max, remaining, blocking))?;
        if answer.is_none() {
            let n = self.state.buffer.pending().len() as u64;
            self.head += n;
            // What reads whole blocks, packets or records may read more than there should be.
            let surplus = n.saturating_sub(remaining);
            if surplus > 0 {
                if !self.state.source.rewind(kernel, surplus) {
                    self.surplus = self.state.buffer.pending()[remaining as usize..].to_vec();
                }
                self.state.buffer.truncate(remaining as usize);
                self.head -= surplus;
            }
        } else if answer == Some(Step::Limit) {
            // A whole message that is not wanted, if another reader took the one that was looked at.
            self.surplus = self.state.buffer.take_pending();
        }
        Ok(answer)
    }

    /// Forgets what every sink that is written to has got: all bytes before this place.
    pub(crate) fn release(&mut self, place: u64) -> &[u8] {
        let n = place.min(self.head).saturating_sub(self.buffered_from());
        self.state.buffer.consume(n as usize)
    }

    /// Notes that `n` bytes were taken out of the pipe.
    fn took(&mut self, n: u64) {
        self.head += n;
        if let Some(pipe) = &mut self.state.pipe {
            pipe.in_flight -= n;
        }
    }

    /// The bytes that have left the source from this place on, read out of the buffer and the
    /// private pipe.
    pub(crate) fn remains<K: Kernel>(&mut self, kernel: &K, place: u64) -> Vec<u8> {
        let mut bytes = self.buffered_at(place).to_vec();
        let skipped = place.saturating_sub(self.head);
        let in_pipe = match &mut self.state.pipe {
            Some(pipe) => pipe.contents(kernel),
            None => Vec::new(),
        };
        bytes.extend(in_pipe.into_iter().skip(skipped as usize));
        bytes
    }
}

/// What fell short of an end.
pub(crate) fn vanished(call: &'static str) -> CallError {
    CallError {
        call,
        side: Side::Source,
        cause: Cause::WriteZero,
    }
}

fn budget(max: u64, remaining: u64, blocking: Blocking) -> StepBudget {
    StepBudget {
        max: max.max(1),
        remaining,
        blocking,
    }
}
