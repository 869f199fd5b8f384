//! The backlog: bytes that have left the source and that some sinks still lack.

use std::os::fd::BorrowedFd;

use crate::buffer;
use crate::call_error::{CallError, Cause};
use crate::copy_state::{CopyState, StepBudget};
use crate::endpoint::{Available, Endpoint};
use crate::fd_info::Kind;
use crate::side::Side;
use crate::step::{Step, buffered, splice_pipe, tee};
use crate::sys::{Blocking, Kernel, retried};

/// Where the backlog keeps its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In a private pipe, even if the source is a pipe: another process may read the caller's pipe
    /// before all sinks have its bytes.
    Pipe,
    /// In the buffer alone, because the source or all sinks refuse to splice.
    Buffer,
}

/// The source, and the bytes that have left it.
///
/// `tee` can duplicate the bytes at the head of a pipe any number of times, but leaves them there.
/// Then the consuming sink splices them out, or a read takes them into the buffer, from which the
/// other sinks are written.
pub(crate) struct Backlog<'a> {
    pub(crate) storage: Storage,
    /// The source, the private pipe, and the buffer. Its sink is a placeholder for the sinks that
    /// are written to; no call uses it.
    pub(crate) state: CopyState<'a>,
    /// The position in the stream of the byte at the head of the pipe, or, without a pipe, of the
    /// next byte of the source. The bytes in the buffer lie before it.
    pub(crate) head_position: u64,
    /// Bytes beyond the limit that the source cannot be rewound over: the rest of a packet or
    /// message, or a message that was read after another reader had taken the one before it.
    pub(crate) surplus: Vec<u8>,
}

impl<'a> Backlog<'a> {
    /// Returns how many bytes have left the source.
    pub(crate) fn consumed(&self) -> u64 {
        self.head_position + self.state.in_pipe()
    }

    /// Returns the pipe whose contents are duplicated.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        match self.storage {
            Storage::Pipe => self.state.pipe.as_ref().map(crate::pipe::Pipe::reader),
            Storage::Buffer => None,
        }
    }

    /// Returns the position in the stream of the first byte in the buffer.
    pub(crate) fn buffered_from(&self) -> u64 {
        self.head_position - self.state.buffer.pending().len() as u64
    }

    /// Returns the bytes in the buffer from a position in the stream on.
    pub(crate) fn buffered_at(&self, position: u64) -> &[u8] {
        let pending = self.state.buffer.pending();
        let skipped = position.saturating_sub(self.buffered_from()) as usize;
        pending.get(skipped..).unwrap_or_default()
    }

    /// Splices from the source into the empty private pipe. Returns [`Step::Filled`] if bytes
    /// came.
    pub(crate) fn fill_pipe<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let max = match self.state.sink.info.kind {
            // One read must fit one message, and must not divide a packet of a pipe.
            Kind::Datagram => max.min(buffer::SAFE_DATAGRAM as u64),
            _ => max,
        };
        let max = self.within_memory(max)?;
        let step = splice_pipe::fill(kernel, &mut self.state, &budget(max, max, blocking))?;
        if step == Step::Eof {
            let rest = self.state.source.unreserve_beyond_eof(kernel);
            rest.map_err(CallError::of_call("lseek", Side::Source))?;
        }
        Ok(step)
    }

    /// Allocates the memory from which sinks that do not splice are written to. Returns how many of
    /// `max` bytes may leave the source: those for which there is memory. Out of a pipe all of them
    /// must fit into one read, because several reads could divide a packet.
    fn within_memory(&mut self, max: u64) -> Result<u64, CallError> {
        let state = &mut self.state;
        let in_one_read = match (state.source.info.kind, &state.pipe) {
            (Kind::Pipe, Some(pipe)) => pipe.capacity,
            (Kind::Pipe, None) => state.private_pipe_size,
            _ => buffer::FIRST_CAPACITY,
        };
        let wanted = max.min(in_one_read as u64) as usize;
        let mut len = wanted;
        while let Err(errno) = buffered::reserve_for_pipe(state, len) {
            if len <= 1 {
                return Err(CallError::no_memory(errno));
            }
            len /= 2;
        }
        Ok(if len == wanted { max } else { len as u64 })
    }

    /// Reads from the source and writes the bytes into the empty private pipe, because a splice
    /// moved nothing out of a stream: it has ended, or is at its urgent mark. Returns
    /// [`Step::Filled`] if bytes came.
    pub(crate) fn fill_by_read<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let source = &self.state.source;
        if blocking == Blocking::Nonblocking && source.available(kernel) == Available::Nothing {
            return Ok(Step::Blocked(Some(Side::Source)));
        }
        let room = self.state.pipe.as_ref().map_or(0, |pipe| pipe.capacity);
        let max = max.min(room.min(buffer::FIRST_CAPACITY) as u64);
        let filled = buffered::fill(kernel, &mut self.state, &budget(max, max.max(1), blocking))?;
        if filled != Step::Filled {
            return Ok(filled);
        }
        let CopyState {
            buffer,
            pipe: Some(pipe),
            calls,
            ..
        } = &mut self.state
        else {
            return Ok(Step::Repeat);
        };
        while !buffer.is_empty() {
            *calls += 1;
            // The pipe is empty and has room for all bytes, so that the call does not sleep.
            let bytes = buffer.pending();
            let written = retried(|| kernel.write(pipe.writer(), None, bytes, Blocking::MaySleep));
            let cause = match written {
                Ok(0) => Cause::ReturnedZero,
                Ok(n) => {
                    pipe.in_flight += n as u64;
                    buffer.consume(n);
                    continue;
                }
                Err(errno) => errno.into(),
            };
            self.surplus = buffer.take_pending();
            return Err(CallError::new("write", Side::Neither, cause));
        }
        Ok(Step::Filled)
    }

    /// Duplicates up to `len` bytes into a pipe, and leaves them in the backlog.
    pub(crate) fn tee_to<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: BorrowedFd<'_>,
        len: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        self.state.calls += 1;
        match self.pipe() {
            Some(pipe) => tee::duplicate(kernel, pipe, sink, len, blocking),
            None => Ok(Step::Moved(0)),
        }
    }

    /// Splices up to `len` bytes out of the pipe into a sink.
    pub(crate) fn splice_to<K: Kernel>(
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
        let step = splice_pipe::splice_out(kernel, pipe, sink, len, blocking)?;
        if let Step::Moved(n) = step {
            self.head_position += n;
            if let Some(pipe) = &mut self.state.pipe {
                pipe.in_flight -= n;
            }
        }
        Ok(step)
    }

    /// Reads up to `max` bytes from the pipe, or, without a pipe, from the source, into the empty
    /// buffer. Returns [`Step::Filled`] if bytes came.
    pub(crate) fn fill_buffer<K: Kernel>(
        &mut self,
        kernel: &K,
        max: u64,
        until_limit: u64,
        blocking: Blocking,
    ) -> Result<Step, CallError> {
        let step = match buffered::read_private_pipe(kernel, &mut self.state, max)? {
            Some(step) => step,
            None => buffered::fill(kernel, &mut self.state, &budget(max, until_limit, blocking))?,
        };
        if step == Step::Filled {
            let n = self.state.buffer.pending().len() as u64;
            self.head_position += n;
            // A read of whole blocks, packets or messages may return more than the limit leaves.
            let surplus = n.saturating_sub(until_limit);
            if surplus > 0 {
                if !self.state.source.rewind(kernel, surplus) {
                    let surplus = &self.state.buffer.pending()[until_limit as usize..];
                    // Without memory for it, the report lacks it.
                    let _ = buffer::append_copy(&mut self.surplus, surplus);
                }
                self.state.buffer.truncate(until_limit as usize);
                self.head_position -= surplus;
            }
        } else if step == Step::MessageTooLong {
            // Another reader took the message that was measured, and this one does not fit.
            self.surplus = self.state.buffer.take_pending();
        }
        Ok(step)
    }

    /// Drops the bytes before this position from the buffer, and returns them.
    pub(crate) fn drop_before(&mut self, position: u64) -> &[u8] {
        let n = position
            .min(self.head_position)
            .saturating_sub(self.buffered_from());
        self.state.buffer.consume(n as usize)
    }

    /// Appends the bytes from this position on, out of the buffer and the private pipe, to `bytes`.
    /// Returns whether these are all: if memory is refused, some are missing at the end.
    pub(crate) fn read_from<K: Kernel>(
        &mut self,
        kernel: &K,
        position: u64,
        bytes: &mut Vec<u8>,
    ) -> bool {
        let in_pipe_from = position.saturating_sub(self.head_position) as usize;
        let passed = position.saturating_sub(self.buffered_from()) as usize;
        let buffer = &mut self.state.buffer;
        buffer.consume(passed.min(buffer.pending().len()));
        if !buffer::append(bytes, buffer.take_pending()) {
            return false;
        }
        let Some(pipe) = &mut self.state.pipe else {
            return true;
        };
        let n_before = bytes.len();
        let is_whole = pipe.read_to_end(kernel, bytes);
        bytes.drain(n_before..bytes.len().min(n_before + in_pipe_from));
        is_whole
    }
}

/// Returns the error for bytes that are missing although the backlog held them.
pub(crate) fn missing_bytes(call: &'static str) -> CallError {
    CallError::new(call, Side::Source, Cause::ReturnedZero)
}

fn budget(max: u64, until_limit: u64, blocking: Blocking) -> StepBudget {
    StepBudget {
        max: max.max(1),
        until_limit,
        blocking,
    }
}
