//! The loop that rewrites: read, have it rewritten, write.

use std::cell::OnceCell;

use super::ahead::Ahead;
use super::chunk::{Chunk, READ};
use super::made::Made;
use super::{Input, Rest, Rewriter, Rewritten};
use crate::buffer;
use crate::clock::Clock;
use crate::detour::Detour;
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{self, FALSE_STARTS};
use crate::error::{Error, Failure};
use crate::fault::{Fault, Side};
use crate::options::Options;
use crate::pipe;
use crate::plan;
use crate::progress::Progress;
use crate::report::{Attempt, Ended, PageSharing, Report, Undelivered};
use crate::strategy::{Step, Strategy, buffered};
use crate::sys::{Kernel, Patience};

/// What is read at once where nobody reads ahead: with what is made of it, it stays in a second-level cache.
const NEAR: usize = 64 << 10;

/// What outlives one source: the bytes that wait for more, and those that are made.
#[derive(Debug)]
pub(crate) struct Desk {
    chunk: Chunk,
    made: Made,
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
            chunk: Chunk::new(),
            made: Made::new(),
            wants_more: true,
            may_grow: true,
            has_processor: OnceCell::new(),
        }
    }

    /// What has been read, and the rewriter has not taken.
    pub(crate) fn waiting(&self) -> &[u8] {
        self.chunk.pending()
    }
}

/// One source that is being rewritten, or the end of all.
pub(crate) struct Course<'a, K, R> {
    kernel: K,
    sink: End<'a>,
    sink_detour: Detour,
    rewriter: &'a mut R,
    desk: &'a mut Desk,
    clock: Clock<'a>,
    /// Whether what is made of one read is one message.
    keeps_messages: bool,
    /// Bytes that the sink has accepted.
    bytes: u64,
    calls: u64,
    /// The capacities that the caller's pipes, source and sink, were given, once it was time.
    grown: Option<(Option<usize>, Option<usize>)>,
    false_starts: u32,
}

/// The source that is being rewritten.
struct Source<'a> {
    end: End<'a>,
    detour: Detour,
    /// Bytes that were read of it.
    bytes: u64,
}

impl<'a, K: Kernel, R: Rewriter> Course<'a, K, R> {
    /// A sink that has been looked at, and what waits on the desk.
    pub(crate) fn new(kernel: K, sink: End<'a>, rewriter: &'a mut R, desk: &'a mut Desk) -> Self {
        Self {
            clock: Clock::new(&kernel, &Options::default(), None),
            kernel,
            sink,
            sink_detour: Detour::default(),
            rewriter,
            desk,
            keeps_messages: false,
            bytes: 0,
            calls: 0,
            grown: None,
            false_starts: 0,
        }
    }

    /// Rewrites a source that has been looked at, which is read by another thread if there is one.
    pub(crate) fn run(
        mut self,
        source: End<'a>,
        ahead: Option<Ahead<'_>>,
    ) -> Result<Report, Error> {
        self.keeps_messages = source.endpoint.kind == Kind::Datagram;
        let mut source = Source {
            end: source,
            detour: Detour::default(),
            bytes: 0,
        };
        let outcome = self.drive(&mut source, ahead.as_ref());
        let unseen = ahead.map_or_else(Vec::new, Ahead::stop);
        self.give_back(&mut source, &unseen);
        self.report(outcome)
    }

    /// Rewrites what waits, as the last there is.
    pub(crate) fn finish(mut self) -> Result<Report, Error> {
        let outcome = self.rewrite(Rest::Last);
        self.report(outcome)
    }

    /// Reads and rewrites in turn.
    fn drive(&mut self, source: &mut Source<'a>, ahead: Option<&Ahead<'_>>) -> Result<(), Failure> {
        if !self.desk.wants_more {
            self.rewrite(Rest::Open)?;
        }
        loop {
            self.calls += 1;
            // What is not to be had from the other thread is for this one to read, which knows how to wait.
            let received = ahead.and_then(|ahead| self.receive(ahead));
            if let Some(Ok(Step::Moved(n))) = received {
                source.end.advance(n);
            }
            match received.unwrap_or_else(|| self.read(source))? {
                Step::Moved(n) => source.bytes += n,
                Step::Blocked(_) => {
                    self.wait(Some(&mut source.end))?;
                    continue;
                }
                Step::Eof => return Ok(()),
                _ => continue,
            }
            self.false_starts = 0;
            self.grow_pipes(source);
            self.rewrite(Rest::Open)?;
        }
    }

    /// Takes what the other thread has read, behind what waits. None if it reads no more.
    fn receive(&mut self, ahead: &Ahead<'_>) -> Option<Result<Step, Fault>> {
        let (mut chunk, step) = ahead.next()?;
        chunk.put_in_front(&mut self.desk.chunk);
        ahead.reuse(std::mem::replace(&mut self.desk.chunk, chunk));
        Some(step)
    }

    /// Reads once, behind what waits.
    fn read(&mut self, source: &mut Source<'a>) -> Result<Step, Fault> {
        let len = match source.end.endpoint.kind {
            // The longest there are have no pieces.
            Kind::Datagram => READ,
            _ => NEAR,
        };
        let room = self.desk.chunk.room(len);
        let from = (&mut source.end, &mut source.detour);
        let step = buffered::draw(&self.kernel, from, room, Patience::Block)?;
        if let Step::Moved(n) = step {
            self.desk.chunk.fill(n as usize);
        }
        Ok(step)
    }

    /// Has the pending bytes rewritten, until the rewriter needs more, and writes what is made of them.
    fn rewrite(&mut self, rest: Rest) -> Result<(), Failure> {
        self.desk.wants_more = false;
        let mut told = rest;
        loop {
            let Desk { chunk, made, .. } = &mut *self.desk;
            let input = Input {
                bytes: chunk.pending(),
                rest: told,
            };
            let rewritten = self.rewriter.rewrite(input, made.room());
            chunk.take(rewritten.taken);
            made.add(rewritten.made);
            if rewritten == Rewritten::NOTHING || !made.has_room() {
                self.deliver()?;
            }
            let chunk = &self.desk.chunk;
            told = match (rewritten, told) {
                (Rewritten::NOTHING, Rest::Open) if chunk.has_place() => break,
                (Rewritten::NOTHING, Rest::Open) => Rest::Full,
                (Rewritten::NOTHING, _) if chunk.is_empty() => break,
                (Rewritten::NOTHING, _) => return Err(Failure::idle()),
                _ => rest,
            };
        }
        self.desk.wants_more = true;
        Ok(())
    }

    /// Writes what has been made.
    fn deliver(&mut self) -> Result<(), Failure> {
        let longest = match self.sink.endpoint.kind {
            // So many fit one datagram of every family.
            Kind::Datagram if !self.keeps_messages => buffer::SMALL,
            _ => usize::MAX,
        };
        while !self.desk.made.is_empty() {
            self.calls += 1;
            let bytes = self.desk.made.pending();
            let bytes = &bytes[..bytes.len().min(longest)];
            let sink = (&mut self.sink, &mut self.sink_detour);
            match buffered::pour(&self.kernel, sink, bytes, Patience::Block)? {
                Step::Moved(n) => {
                    self.desk.made.take(n as usize);
                    self.bytes += n;
                    self.false_starts = 0;
                }
                Step::Blocked(_) => self.wait(None)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Waits for the source, or else the sink, which a call found not ready.
    fn wait(&mut self, source: Option<&mut End<'a>>) -> Result<(), Failure> {
        let (side, end) = match source {
            Some(end) => (Side::Source, end),
            None => (Side::Sink, &mut self.sink),
        };
        if end.has_timed_out(&self.kernel, side, Patience::Block) {
            return Err(engine::timed_out(side).into());
        }
        let waiting = Progress {
            bytes: self.bytes,
            records: 0,
            total: None,
            strategy: Strategy::Buffered,
            blocked: Some(side),
        };
        self.false_starts += 1;
        // Nobody looks on, who could stop it.
        let _ = (self.false_starts > FALSE_STARTS)
            .then(|| self.clock.pause(&self.kernel, engine::LULL, &waiting));
        let ends = &mut [(side, end)];
        engine::wait_for(&self.kernel, &mut self.clock, ends, waiting).map(|_| ())
    }

    /// Enlarges the caller's pipes, once, when it turns out that much comes.
    fn grow_pipes(&mut self, source: &Source<'a>) {
        let will_be_long = source.end.endpoint.size.is_some_and(|n| n > plan::SMALL);
        let is_time = will_be_long || source.bytes >= plan::SMALL;
        if self.grown.is_some() || !(self.desk.may_grow && is_time) {
            return;
        }
        let grow = |end: &End<'_>| match end.endpoint.kind {
            Kind::Pipe => pipe::grow(&self.kernel, end.fd, pipe::WANTED),
            _ => None,
        };
        self.grown = Some((grow(&source.end), grow(&self.sink)));
    }

    /// Gives the source back the bytes that were read of it and the rewriter has not seen: `unseen` are those that another
    /// thread has read, and if the sink has failed, so are those pending. They stay here if the source cannot be rewound.
    fn give_back(&mut self, source: &mut Source<'a>, unseen: &[u8]) {
        let chunk = &mut self.desk.chunk;
        let untouched = if self.desk.wants_more {
            0
        } else {
            // Bytes of earlier sources stand in front.
            source.bytes.min(chunk.pending().len() as u64)
        };
        source.end.advance(unseen.len() as u64);
        let is_back = if unseen.is_empty() {
            let pending = chunk.pending();
            let bytes = &pending[pending.len() - untouched as usize..];
            source.end.rewind_over(&self.kernel, bytes)
        } else {
            let n = untouched + unseen.len() as u64;
            source.end.rewind(&self.kernel, n)
        };
        if is_back {
            chunk.cut(untouched as usize);
        } else {
            chunk.append(unseen);
            // What a read that failed had reserved.
            chunk.append(&source.end.read_reserved(&self.kernel));
        }
    }

    /// Says what was done.
    fn report(mut self, outcome: Result<(), Failure>) -> Result<Report, Error> {
        self.sink.release(&self.kernel);
        let closed = self.sink_detour.close(&self.kernel);
        // The first failure is the one that counts.
        let outcome = outcome.and_then(|()| closed.map_err(Failure::from));
        let attempt = Attempt {
            bytes: self.bytes,
            calls: self.calls,
            cause: outcome.as_ref().err().map(|failure| failure.cause),
            ..Attempt::new(Strategy::Buffered)
        };
        let (grown_source, grown_sink) = self.grown.unwrap_or_default();
        let report = Report {
            bytes: self.bytes,
            records: 0,
            ended: match outcome {
                Ok(()) => Ended::Eof,
                Err(_) => Ended::Failed,
            },
            first_choice: Strategy::Buffered,
            attempts: vec![attempt],
            sinks: Vec::new(),
            hole_bytes: 0,
            skipped_bytes: 0,
            shared_pages: PageSharing::None,
            grown_source,
            grown_sink,
            undelivered: Undelivered(self.desk.made.hand_back()),
        };
        match outcome {
            Ok(()) => Ok(report),
            Err(failure) => Err(Error::new(failure, report)),
        }
    }
}
