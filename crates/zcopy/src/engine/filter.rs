//! The engine that reads, filters and writes.

use std::cell::OnceCell;

use crate::buffer::{self, Buffer};
use crate::call_error::CallError;
use crate::context::Context;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, Flow};
use crate::error::{Error, RunError};
use crate::fd_info::Kind;
use crate::filter::{Filter, Filtered, Input, Remaining};
use crate::options::Options;
use crate::plan;
use crate::progress::Progress;
use crate::reopened::Reopened;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Blocking, Kernel};
use crate::wait::Wait;
use read_ahead::{READ, ReadAhead, Unused};

pub(crate) mod read_ahead;

#[cfg(test)]
mod tests;

/// The longest read, in bytes, without a reading thread. The input and the output of the filter
/// then stay in a second-level cache.
const READ_WITHOUT_THREAD: usize = 64 << 10;

/// The least free space, in bytes, that a filter is promised for its output.
const MIN_ROOM: usize = 64 << 10;

/// The state that is kept from one source to the next: unfiltered input and unwritten output.
#[derive(Debug)]
pub(crate) struct FilterState {
    input_buffer: Buffer,
    output_buffer: Buffer,
    /// Whether the filter has asked for more than the pending input. Cleared when bytes
    /// arrive.
    wants_more: bool,
    /// Whether the caller's pipes may be enlarged.
    pub(crate) may_grow: bool,
    /// Whether a processor is free for a reading thread. Determined once, when it first matters.
    pub(crate) has_processor: OnceCell<bool>,
}

impl FilterState {
    /// Creates a state without input or output.
    pub(crate) fn new() -> Self {
        Self {
            input_buffer: Buffer::default(),
            output_buffer: Buffer::default(),
            wants_more: true,
            may_grow: true,
            has_processor: OnceCell::new(),
        }
    }

    /// Allocates memory before the first read.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn allocate(&mut self) -> Result<(), CallError> {
        if !self.input_buffer.is_for_filter_input() {
            let mut input_buffer = read_ahead::input_buffer().map_err(CallError::no_memory)?;
            let copied = input_buffer.extend_from_slice(self.input_buffer.pending());
            copied.map_err(CallError::no_memory)?;
            self.input_buffer = input_buffer;
        }
        if !self.output_buffer.has_memory() {
            let output_buffer = Buffer::with_capacity(buffer::DEFAULT_CAPACITY);
            self.output_buffer = output_buffer.map_err(CallError::no_memory)?;
        }
        Ok(())
    }

    /// Returns the input that the filter has not consumed.
    pub(crate) fn pending_input(&self) -> &[u8] {
        self.input_buffer.pending()
    }

    /// Appends what the reading thread has read to the pending input. `None` if the thread has
    /// exited.
    fn receive(&mut self, read_ahead: &ReadAhead<'_>) -> Option<Result<Step, CallError>> {
        let (mut input_buffer, step) = read_ahead.next()?;
        input_buffer.prepend(&mut self.input_buffer);
        read_ahead.reuse(std::mem::replace(&mut self.input_buffer, input_buffer));
        Some(step)
    }

    /// Reads once, and appends to the pending input.
    fn read<K: Kernel>(&mut self, kernel: &K, source: &mut Source<'_>) -> Result<Step, CallError> {
        let len = match source.endpoint.info.kind {
            // A message must be read whole.
            Kind::Datagram => READ,
            _ => READ_WITHOUT_THREAD,
        };
        let room = self.input_buffer.spare_mut(len);
        let (end, reopened) = (&mut source.endpoint, &mut source.reopened);
        let step = buffered::read_once(kernel, end, reopened, room, Blocking::MaySleep)?;
        if let Step::Moved(n) = step {
            self.input_buffer.fill(n as usize);
        }
        Ok(step)
    }
}

/// The engine that filters one source, or the remaining input at the end of all sources.
///
/// Each [`advance`](Engine::advance) reads once, or calls the filter until it must read or write,
/// or writes once. It waits for the reading thread as it would wait for a slow disk.
pub(crate) struct FilterEngine<'a, 'scope, K, R> {
    context: Context<'a, K>,
    /// `None` at the end of all sources.
    source: Option<Source<'a>>,
    read_ahead: Option<ReadAhead<'scope>>,
    sink: Endpoint<'a>,
    sink_reopened: Reopened,
    filter: &'a mut R,
    state: &'a mut FilterState,
    /// What follows the input that the filter is shown.
    remaining: Remaining,
    /// Whether all output is written before the next read or the next call of the filter.
    is_delivering: bool,
    /// What the step after that does.
    next: Next,
}

/// What the next step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Read,
    /// Calls the filter, and shows it this as [`Input::remaining`].
    Filter(Remaining),
    /// Fails: the filter consumed nothing of bytes that it had to consume.
    Fail,
}

/// The source that is filtered.
pub(crate) struct Source<'a> {
    endpoint: Endpoint<'a>,
    reopened: Reopened,
    /// The number of bytes that were read from it.
    bytes: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(endpoint: Endpoint<'a>) -> Self {
        Self {
            endpoint,
            reopened: Reopened::default(),
            bytes: 0,
        }
    }
}

impl<'a, 'scope, K: Kernel, R: Filter> FilterEngine<'a, 'scope, K, R> {
    /// Creates the engine that filters `source`, which `read_ahead` reads if there is one. Without
    /// a source, filters the remaining input of `state` as the end of all sources.
    pub(crate) fn new(
        kernel: K,
        source: Option<Source<'a>>,
        read_ahead: Option<ReadAhead<'scope>>,
        sink: Endpoint<'a>,
        filter: &'a mut R,
        state: &'a mut FilterState,
    ) -> Self {
        let remaining = match source {
            Some(_) => Remaining::More,
            None => Remaining::End,
        };
        state.wants_more &= source.is_some();
        let next = if state.wants_more {
            Next::Read
        } else {
            Next::Filter(remaining)
        };
        let options = Options {
            grow_pipes: state.may_grow,
            ..Options::default()
        };
        Self {
            context: Context::new(kernel, options, Strategy::Buffered, None, None),
            source,
            read_ahead,
            sink,
            sink_reopened: Reopened::default(),
            filter,
            state,
            remaining,
            is_delivering: false,
            next,
        }
    }

    /// Reads once, and appends to the pending input.
    fn read(&mut self) -> Result<Flow, RunError> {
        let Some(source) = &mut self.source else {
            return Ok(Flow::Ended(Ended::Eof));
        };
        self.context.attempt(Strategy::Buffered).calls += 1;
        // If the reading thread has exited, this thread reads; it knows how to wait.
        let received = self
            .read_ahead
            .as_ref()
            .and_then(|read_ahead| self.state.receive(read_ahead));
        if let Some(Ok(Step::Moved(n))) = received {
            source.endpoint.advance(n);
        }
        let step = match received {
            Some(step) => step,
            None => self.state.read(&self.context.kernel, source),
        };
        match step? {
            Step::Moved(n) => source.bytes += n,
            Step::Blocked(_) => return self.blocked(Side::Source),
            Step::Eof => return Ok(Flow::Ended(Ended::Eof)),
            _ => return Ok(Flow::Observe),
        }
        self.context.times_blocked = 0;
        let size = source.endpoint.info.size;
        let will_be_long = size.is_some_and(|n| n > plan::GROW_PIPES_ABOVE);
        if will_be_long || source.bytes > plan::GROW_PIPES_ABOVE {
            let sink = std::iter::once(&self.sink);
            self.context.grow_pipes(Some(&source.endpoint), sink);
        }
        self.state.wants_more = false;
        self.next = Next::Filter(self.remaining);
        Ok(Flow::Observe)
    }

    /// Calls the filter until it needs more input, or until its output has to be written.
    fn filter(&mut self, mut remaining: Remaining) {
        let FilterState {
            input_buffer,
            output_buffer,
            ..
        } = &mut *self.state;
        // Outputs are gathered, so that a short line does not cost a write.
        let needs_more = loop {
            let bytes = input_buffer.pending();
            let room = output_buffer.spare_mut(usize::MAX);
            let (bytes_len, room_len) = (bytes.len(), room.len());
            let filtered = self.filter.filter(Input { bytes, remaining }, room);
            let Filtered { consumed, produced } = filtered;
            assert!(
                consumed <= bytes_len,
                "a filter consumed more than its input"
            );
            assert!(
                produced <= room_len,
                "a filter produced more than its output holds"
            );
            // This is recorded after each call, because the next one may panic.
            input_buffer.consume(consumed);
            output_buffer.fill(produced);
            let needs_more = filtered == Filtered::NEED_MORE;
            if needs_more || room_len - produced < MIN_ROOM {
                break needs_more;
            }
            remaining = self.remaining;
        };
        self.next = match remaining {
            _ if !needs_more => Next::Filter(self.remaining),
            Remaining::More if input_buffer.has_head_room_left() => Next::Read,
            Remaining::More => Next::Filter(Remaining::Full),
            _ if input_buffer.is_empty() => Next::Read,
            _ => Next::Fail,
        };
        self.is_delivering = true;
    }

    /// Writes once from the output.
    fn write(&mut self) -> Result<Flow, RunError> {
        let source = self.source.as_ref();
        let source = source.map_or(Kind::Other, |source| source.endpoint.info.kind);
        let longest = buffered::longest_write(source, self.sink.info.kind);
        self.context.attempt(Strategy::Buffered).calls += 1;
        let bytes = self.state.output_buffer.pending();
        let bytes = &bytes[..bytes.len().min(longest)];
        let (sink, reopened) = (&mut self.sink, &mut self.sink_reopened);
        match buffered::write_once(
            &self.context.kernel,
            sink,
            reopened,
            bytes,
            Blocking::MaySleep,
        )? {
            Step::Moved(n) => {
                self.state.output_buffer.consume(n as usize);
                self.context.bytes += n;
                self.context.credit(Strategy::Buffered, 0, n);
                self.context.times_blocked = 0;
                Ok(Flow::Observe)
            }
            Step::Blocked(_) => self.blocked(Side::Sink),
            _ => Ok(Flow::Observe),
        }
    }

    /// Returns the wait for the side that was not ready in the last call.
    fn blocked(&mut self, side: Side) -> Result<Flow, RunError> {
        let endpoint = match &mut self.source {
            Some(source) if side == Side::Source => &mut source.endpoint,
            _ => &mut self.sink,
        };
        self.context.check_time_out(side, endpoint)?;
        let delay = self.context.count_blocked();
        self.context.await_ready(side, endpoint);
        Ok(Flow::Wait(Wait::after_blocked(delay)))
    }

    /// Stops the reading thread, and rewinds the source over the bytes that the filter has not
    /// consumed: those that the thread has read, and, if the sink has failed, the pending ones. If
    /// the source cannot be rewound, these bytes stay in the filter state, as far as there is memory
    /// for them.
    fn rewind_unconsumed(&mut self) {
        let read_ahead = self.read_ahead.take();
        let mut unused = read_ahead.map_or_else(Unused::default, ReadAhead::stop);
        let Some(source) = &mut self.source else {
            return;
        };
        let input_buffer = &mut self.state.input_buffer;
        let untouched = if self.state.wants_more {
            0
        } else {
            // The bytes of earlier sources come first.
            source.bytes.min(input_buffer.pending().len() as u64)
        };
        let seen = input_buffer.pending().len() - untouched as usize;
        let n_unused = unused.parts().map(<[u8]>::len).sum::<usize>() as u64;
        source.endpoint.advance(n_unused);
        let is_back = if n_unused == 0 {
            let bytes = &input_buffer.pending()[seen..];
            source.endpoint.rewind_over(&self.context.kernel, bytes)
        } else {
            let n = untouched + n_unused;
            source.endpoint.rewind(&self.context.kernel, n)
        };
        if is_back {
            input_buffer.truncate(seen);
        } else {
            // The bytes that a failed read had reserved.
            let endpoint = &mut source.endpoint;
            endpoint.read_reserved(&self.context.kernel, &mut unused.reserved);
            for part in unused.parts() {
                // Without memory for this part, the later ones are dropped, too: they would follow
                // a gap.
                if input_buffer.extend_from_slice(part).is_err() {
                    break;
                }
                self.state.wants_more &= part.is_empty();
            }
        }
    }
}

impl<'a, K: Kernel, R: Filter> Engine<'a> for FilterEngine<'a, '_, K, R> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        self.context.progress(Strategy::Buffered, 0, blocked)
    }

    fn advance(&mut self) -> Result<Flow, RunError> {
        self.context.end_wait()?;
        if self.is_delivering && !self.state.output_buffer.is_empty() {
            return self.write();
        }
        self.is_delivering = false;
        self.state.allocate()?;
        match self.next {
            Next::Read => {
                self.state.wants_more = true;
                self.read()
            }
            Next::Filter(remaining) => {
                self.filter(remaining);
                Ok(Flow::Observe)
            }
            Next::Fail => Err(RunError::filter_needs_more_input()),
        }
    }

    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error> {
        self.rewind_unconsumed();
        self.sink.release(&self.context.kernel);
        let closed = self.sink_reopened.close(&self.context.kernel);
        let failed = outcome.as_ref().err().map(|error| error.cause);
        let not_closed = closed.as_ref().err().map(|error| error.cause);
        self.context.attempt(Strategy::Buffered).cause = failed.or(not_closed);
        self.context.finish(outcome, closed, |report| Report {
            undelivered: self.state.output_buffer.take_pending().into(),
            ..report
        })
    }
}
