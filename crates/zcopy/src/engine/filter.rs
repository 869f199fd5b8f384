//! The loop that rewrites: read, have it rewritten, write.

use std::cell::OnceCell;

use crate::buffer::{self, Buffer};
use crate::context::{Context, conclude, timed_out};
use crate::detour::Detour;
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{Engine, Flow};
use crate::error::{Error, Failure};
use crate::fault::Fault;
use crate::filter::{Input, Rest, Rewriter, Rewritten};
use crate::options::Options;
use crate::plan;
use crate::progress::Progress;
use crate::report::{Ended, Report, Undelivered};
use crate::side::Side;
use crate::step::{Step, buffered};
use crate::strategy::Strategy;
use crate::sys::{Kernel, Patience};
use crate::wait::Wait;
use ahead::{Ahead, READ};

pub(crate) mod ahead;

#[cfg(test)]
mod tests;

/// What is read at once where nobody reads ahead: with what is made of it, it stays in a second-level cache.
const NEAR: usize = 64 << 10;

/// The least room for what a rewriter makes, in bytes, that it is promised to find.
const MIN_ROOM: usize = 64 << 10;

/// What outlives one source: the bytes that wait for more, and those that are made.
#[derive(Debug)]
pub(crate) struct Desk {
    chunk: Buffer,
    made: Buffer,
    /// Whether the rewriter has asked for more than what is pending. Not so once a sink has failed it.
    wants_more: bool,
    /// Whether the caller's pipes may be enlarged.
    pub(crate) may_grow: bool,
    /// Whether there is a processor for a thread that reads, once that was asked.
    pub(crate) has_processor: OnceCell<bool>,
}

impl Desk {
    /// A desk on which nothing waits.
    pub(crate) fn new() -> Self {
        Self {
            chunk: ahead::input_buffer(),
            made: Buffer::with_capacity(buffer::FULL),
            wants_more: true,
            may_grow: true,
            has_processor: OnceCell::new(),
        }
    }

    /// What has been read, and the rewriter has not taken.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.chunk.pending()
    }

    /// Takes what the other thread has read, behind what waits. None if it reads no more.
    fn receive(&mut self, ahead: &Ahead<'_>) -> Option<Result<Step, Fault>> {
        let (mut chunk, step) = ahead.next()?;
        chunk.prepend(&mut self.chunk);
        ahead.reuse(std::mem::replace(&mut self.chunk, chunk));
        Some(step)
    }

    /// Reads once, behind what waits.
    fn read<K: Kernel>(&mut self, kernel: &K, source: &mut Source<'_>) -> Result<Step, Fault> {
        let len = match source.end.endpoint.kind {
            // The longest there are have no pieces.
            Kind::Datagram => READ,
            _ => NEAR,
        };
        let room = self.chunk.spare_mut(len);
        let (end, detour) = (&mut source.end, &mut source.detour);
        let step = buffered::draw(kernel, end, detour, room, Patience::Block)?;
        if let Step::Moved(n) = step {
            self.chunk.fill(n as usize);
        }
        Ok(step)
    }
}

/// One source that is being rewritten, or the end of all.
///
/// [`advance`](Engine::advance) reads once, or asks the rewriter until something has to be written or read, or writes
/// once. A read that another thread makes is waited for like that of a slow disk.
pub(crate) struct FilterEngine<'a, 'scope, K, R> {
    context: Context<'a, K>,
    /// None at the end of all.
    source: Option<Source<'a>>,
    ahead: Option<Ahead<'scope>>,
    sink: End<'a>,
    sink_detour: Detour,
    rewriter: &'a mut R,
    desk: &'a mut Desk,
    /// What the rewriter is told to expect after the bytes that it is shown.
    rest: Rest,
    /// Whether everything that was made has to be written now.
    is_delivering: bool,
    /// What follows then.
    next: Next,
}

/// What the next step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Read,
    /// Asks the rewriter, which is told to expect this.
    Rewrite(Rest),
    /// Fails: the rewriter took nothing of bytes that it had to take.
    Fail,
}

/// The source that is being rewritten.
pub(crate) struct Source<'a> {
    end: End<'a>,
    detour: Detour,
    /// Bytes that were read of it.
    bytes: u64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(end: End<'a>) -> Self {
        Self {
            end,
            detour: Detour::default(),
            bytes: 0,
        }
    }
}

impl<'a, 'scope, K: Kernel, R: Rewriter> FilterEngine<'a, 'scope, K, R> {
    /// Rewrites one source, which another thread may read ahead, or, without one, what waits on the desk, as the
    /// last there is.
    pub(crate) fn new(
        kernel: K,
        source: Option<Source<'a>>,
        ahead: Option<Ahead<'scope>>,
        sink: End<'a>,
        rewriter: &'a mut R,
        desk: &'a mut Desk,
    ) -> Self {
        let rest = match source {
            Some(_) => Rest::Open,
            None => Rest::Last,
        };
        let is_done = desk.wants_more && rest == Rest::Open;
        desk.wants_more = is_done;
        let options = Options {
            grow_pipes: desk.may_grow,
            ..Options::default()
        };
        Self {
            context: Context::new(kernel, options, Strategy::Buffered, None, None),
            source,
            ahead,
            sink,
            sink_detour: Detour::default(),
            rewriter,
            desk,
            rest,
            is_delivering: false,
            next: if is_done {
                Next::Read
            } else {
                Next::Rewrite(rest)
            },
        }
    }

    /// Reads once, behind what waits.
    fn read(&mut self) -> Result<Flow, Failure> {
        let Some(source) = &mut self.source else {
            return Ok(Flow::Ended(Ended::Eof));
        };
        self.context.attempt(Strategy::Buffered).calls += 1;
        // What is not to be had from the other thread is for this one to read, which knows how to wait.
        let received = self
            .ahead
            .as_ref()
            .and_then(|ahead| self.desk.receive(ahead));
        if let Some(Ok(Step::Moved(n))) = received {
            source.end.advance(n);
        }
        let step = match received {
            Some(step) => step,
            None => self.desk.read(&self.context.kernel, source),
        };
        match step? {
            Step::Moved(n) => source.bytes += n,
            Step::Blocked(_) => return self.blocked(Side::Source),
            Step::Eof => return Ok(Flow::Ended(Ended::Eof)),
            _ => return Ok(Flow::Continue),
        }
        self.context.false_starts = 0;
        let will_be_long = source.end.endpoint.size.is_some_and(|n| n > plan::SMALL);
        let is_long = will_be_long || source.bytes >= plan::SMALL;
        let sink = std::iter::once(&self.sink);
        self.context.grow_pipes(is_long, Some(&source.end), sink);
        self.desk.wants_more = false;
        self.next = Next::Rewrite(self.rest);
        Ok(Flow::Continue)
    }

    /// Has the pending bytes rewritten, until the rewriter needs more or what it has made has to be written.
    fn rewrite(&mut self, mut told: Rest) {
        loop {
            let Desk { chunk, made, .. } = &mut *self.desk;
            let input = Input {
                bytes: chunk.pending(),
                rest: told,
            };
            let room = made.spare_mut(usize::MAX);
            let room_len = room.len();
            let rewritten = self.rewriter.rewrite(input, room);
            assert!(
                rewritten.taken <= chunk.pending().len(),
                "a rewriter took more than it was shown"
            );
            assert!(
                rewritten.made <= room_len,
                "a rewriter made more than it had room for"
            );
            chunk.consume(rewritten.taken);
            made.fill(rewritten.made);
            self.next = match (rewritten, told) {
                (Rewritten::NOTHING, Rest::Open) if chunk.has_head_room() => Next::Read,
                (Rewritten::NOTHING, Rest::Open) => Next::Rewrite(Rest::Full),
                (Rewritten::NOTHING, _) if chunk.is_empty() => Next::Read,
                (Rewritten::NOTHING, _) => Next::Fail,
                _ => Next::Rewrite(self.rest),
            };
            // Outputs are gathered, so that a short line costs no write of its own.
            if rewritten == Rewritten::NOTHING || room_len - rewritten.made < MIN_ROOM {
                self.is_delivering = true;
                return;
            }
            told = self.rest;
        }
    }

    /// Writes once of what has been made.
    fn write(&mut self) -> Result<Flow, Failure> {
        let keeps_messages = |source: &Source<'_>| source.end.endpoint.kind == Kind::Datagram;
        let longest = match self.sink.endpoint.kind {
            // So many fit one datagram of every family.
            Kind::Datagram if !self.source.as_ref().is_some_and(keeps_messages) => buffer::SMALL,
            _ => usize::MAX,
        };
        self.context.attempt(Strategy::Buffered).calls += 1;
        let bytes = self.desk.made.pending();
        let bytes = &bytes[..bytes.len().min(longest)];
        let (sink, detour) = (&mut self.sink, &mut self.sink_detour);
        match buffered::pour(&self.context.kernel, sink, detour, bytes, Patience::Block)? {
            Step::Moved(n) => {
                self.desk.made.consume(n as usize);
                self.context.bytes += n;
                self.context.credit(Strategy::Buffered, 0, n);
                self.context.false_starts = 0;
                Ok(Flow::Continue)
            }
            Step::Blocked(_) => self.blocked(Side::Sink),
            _ => Ok(Flow::Continue),
        }
    }

    /// Waits for the side that a call found not ready.
    fn blocked(&mut self, side: Side) -> Result<Flow, Failure> {
        let end = match &mut self.source {
            Some(source) if side == Side::Source => &mut source.end,
            _ => &mut self.sink,
        };
        if end.has_timed_out(&self.context.kernel, side, Patience::Block) {
            return Err(timed_out(side).into());
        }
        let delay = self.context.count_false_start();
        self.context.await_ready(side, end);
        Ok(Flow::Wait(Wait::until_each_ready(delay)))
    }

    /// Stops the other thread, and gives the source back the bytes that were read of it and the rewriter has not seen: those
    /// that the other thread has read, and if the sink has failed, those pending. They stay on the desk if the source cannot
    /// be rewound.
    fn give_back(&mut self) {
        let unseen = self.ahead.take().map_or_else(Vec::new, Ahead::stop);
        let Some(source) = &mut self.source else {
            return;
        };
        let chunk = &mut self.desk.chunk;
        let untouched = if self.desk.wants_more {
            0
        } else {
            // Bytes of earlier sources stand in front.
            source.bytes.min(chunk.pending().len() as u64)
        };
        let seen = chunk.pending().len() - untouched as usize;
        source.end.advance(unseen.len() as u64);
        let is_back = if unseen.is_empty() {
            let bytes = &chunk.pending()[seen..];
            source.end.rewind_over(&self.context.kernel, bytes)
        } else {
            let n = untouched + unseen.len() as u64;
            source.end.rewind(&self.context.kernel, n)
        };
        if is_back {
            chunk.truncate(seen);
        } else {
            chunk.extend_from_slice(&unseen);
            // What a read that failed had reserved.
            chunk.extend_from_slice(&source.end.read_reserved(&self.context.kernel));
        }
    }
}

impl<'a, K: Kernel, R: Rewriter> Engine<'a> for FilterEngine<'a, '_, K, R> {
    type Kernel = K;

    fn context(&mut self) -> &mut Context<'a, K> {
        &mut self.context
    }

    fn progress(&self, blocked: Option<Side>) -> Progress {
        self.context.progress(Strategy::Buffered, 0, blocked)
    }

    fn advance(&mut self) -> Result<Flow, Failure> {
        self.context.end_wait()?;
        if self.is_delivering && !self.desk.made.is_empty() {
            return self.write();
        }
        self.is_delivering = false;
        match self.next {
            Next::Read => {
                self.desk.wants_more = true;
                self.read()
            }
            Next::Rewrite(told) => {
                self.rewrite(told);
                Ok(Flow::Continue)
            }
            Next::Fail => Err(Failure::idle()),
        }
    }

    fn finish(&mut self, outcome: Result<Ended, Failure>) -> Result<Report, Error> {
        self.give_back();
        self.sink.release(&self.context.kernel);
        let closed = self.sink_detour.close(&self.context.kernel);
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|ended| closed.map(|()| ended).map_err(Failure::from));
        let cause = outcome.as_ref().err().map(|failure| failure.cause);
        self.context.attempt(Strategy::Buffered).cause = cause;
        let report = Report {
            undelivered: Undelivered(self.desk.made.take_pending()),
            ..self.context.report(&outcome)
        };
        conclude(outcome, report)
    }
}
