//! The loop that rewrites: read, have it rewritten, write.

use super::ahead::Ahead;
use super::chunk::{Chunk, HELD, READ};
use super::{Input, Rest, Rewriter, Rewritten};
use crate::clock::Clock;
use crate::detour::Detour;
use crate::end::End;
use crate::endpoint::Kind;
use crate::engine::{self, FALSE_STARTS};
use crate::error::{Error, Failure};
use crate::fault::{Cause, Fault, Side};
use crate::options::Options;
use crate::pipe;
use crate::plan;
use crate::progress::Progress;
use crate::report::{Attempt, Ended, Report, Undelivered};
use crate::strategy::{Step, Strategy, buffered};
use crate::sys::{Kernel, Patience};

/// What is read at once where nobody reads ahead: with what is made of it, it stays in a second-level cache.
const NEAR: usize = 64 << 10;

/// What a rewriter may fill at once.
const ROOM: usize = 256 << 10;

/// What outlives one source: the bytes that wait for more, and the room for those that are made.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    chunk: Option<Chunk>,
    room: Vec<u8>,
}

/// One source that is being rewritten.
pub(crate) struct Course<'a, K, R> {
    kernel: K,
    source: End<'a>,
    source_detour: Detour,
    sink: End<'a>,
    sink_detour: Detour,
    rewriter: &'a mut R,
    chunk: Chunk,
    desk: &'a mut Desk,
    clock: Clock<'a>,
    /// Bytes that the sink has accepted.
    bytes: u64,
    /// What of the room has been made and not been accepted, once the sink has failed.
    undelivered: Vec<u8>,
    calls: u64,
    grown_sink: Option<usize>,
    may_grow: bool,
    false_starts: u32,
}

impl<'a, K: Kernel, R: Rewriter> Course<'a, K, R> {
    /// A source and a sink that have been looked at, and what waits on the desk.
    pub(crate) fn new(
        kernel: K,
        (source, sink): (End<'a>, End<'a>),
        rewriter: &'a mut R,
        desk: &'a mut Desk,
    ) -> Self {
        if desk.room.is_empty() {
            desk.room = vec![0; ROOM];
        }
        Self {
            clock: Clock::new(&kernel, &Options::default(), None),
            kernel,
            source,
            source_detour: Detour::default(),
            sink,
            sink_detour: Detour::default(),
            rewriter,
            chunk: desk.chunk.take().unwrap_or_else(Chunk::new),
            desk,
            bytes: 0,
            undelivered: Vec::new(),
            calls: 0,
            grown_sink: None,
            may_grow: sink.endpoint.kind == Kind::Pipe,
            false_starts: 0,
        }
    }

    /// Rewrites the source, which is read by another thread if there is one.
    pub(crate) fn run(mut self, ahead: Option<Ahead>) -> Result<Report, Error> {
        let outcome = match ahead {
            Some(ahead) => {
                let outcome = self.drive_behind(&ahead);
                let n = ahead.stop();
                if n > 0 {
                    self.source.rewind(&self.kernel, n);
                }
                outcome
            }
            None => self.drive(),
        };
        self.report(outcome)
    }

    /// Rewrites what waits, as the last there is.
    pub(crate) fn finish(mut self) -> Result<Report, Error> {
        let outcome = self.rewrite(Rest::Last);
        self.report(outcome)
    }

    /// Reads and rewrites in turn.
    fn drive(&mut self) -> Result<(), Failure> {
        loop {
            self.calls += 1;
            let len = match self.source.endpoint.kind {
                // The longest there are have no pieces.
                Kind::Datagram => READ,
                _ => NEAR,
            };
            let (room, source) = (
                self.chunk.room(len),
                (&mut self.source, &mut self.source_detour),
            );
            match buffered::draw(&self.kernel, source, room, Patience::Block)? {
                Step::Moved(n) => self.chunk.fill(n as usize),
                Step::Blocked(side) => {
                    self.wait(side)?;
                    continue;
                }
                Step::Eof => return Ok(()),
                _ => continue,
            }
            self.rewrite(Rest::Open)?;
        }
    }

    /// Rewrites what the other thread reads.
    fn drive_behind(&mut self, ahead: &Ahead) -> Result<(), Failure> {
        while let Some((mut chunk, step)) = ahead.next() {
            self.calls += 1;
            match step? {
                Step::Moved(_) => {}
                Step::Eof => return Ok(()),
                // It should not have to wait. If it has to, this thread knows how.
                _ => break,
            }
            chunk.put_in_front(&mut self.chunk);
            ahead.reuse(std::mem::replace(&mut self.chunk, chunk));
            self.rewrite(Rest::Open)?;
        }
        self.drive()
    }

    /// Has the pending bytes rewritten, until the rewriter needs more, and writes what is made of them.
    fn rewrite(&mut self, rest: Rest) -> Result<(), Failure> {
        self.grow_pipe();
        let mut told = rest;
        loop {
            let input = Input {
                bytes: self.chunk.pending(),
                rest: told,
            };
            let rewritten = self.rewriter.rewrite(input, &mut self.desk.room);
            self.chunk.take(rewritten.taken);
            self.deliver(rewritten.made)?;
            let has_place = self.chunk.pending().len() < HELD;
            told = match (rewritten, told) {
                (Rewritten::NOTHING, Rest::Open) if has_place => return Ok(()),
                (Rewritten::NOTHING, Rest::Open) => Rest::Full,
                (Rewritten::NOTHING, _) if self.chunk.is_empty() => return Ok(()),
                (Rewritten::NOTHING, _) => return Err(idle().into()),
                _ => rest,
            };
        }
    }

    /// Writes the first `made` bytes of the room.
    fn deliver(&mut self, made: usize) -> Result<(), Failure> {
        let mut written = 0;
        while written < made {
            self.calls += 1;
            let bytes = &self.desk.room[written..made];
            let sink = (&mut self.sink, &mut self.sink_detour);
            let step = match buffered::pour(&self.kernel, sink, bytes, Patience::Block) {
                Ok(Step::Blocked(side)) => self.wait(side).map(|()| 0),
                Ok(Step::Moved(n)) => Ok(n),
                Ok(_) => Ok(0),
                Err(fault) => Err(fault.into()),
            };
            match step {
                Ok(n) => written += n as usize,
                Err(failure) => {
                    self.undelivered = self.desk.room[written..made].to_vec();
                    self.bytes += written as u64;
                    return Err(failure);
                }
            }
        }
        self.bytes += made as u64;
        if made > 0 {
            self.false_starts = 0;
        }
        Ok(())
    }

    /// Waits for a side that a call found not ready.
    fn wait(&mut self, side: Side) -> Result<(), Failure> {
        let end = match side {
            Side::Source => &mut self.source,
            _ => &mut self.sink,
        };
        // `EAGAIN` from a socket that blocks is its own `SO_RCVTIMEO` or `SO_SNDTIMEO`.
        if end.endpoint.is_socket() && end.blocks(&self.kernel) {
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

    /// Enlarges the caller's pipe, once, when it turns out that much is made.
    fn grow_pipe(&mut self) {
        let will_be_long = self.source.endpoint.size.is_some_and(|n| n > plan::SMALL);
        if self.may_grow && (will_be_long || self.bytes >= plan::SMALL) {
            self.may_grow = false;
            self.grown_sink = pipe::grow(&self.kernel, self.sink.fd, pipe::WANTED);
        }
    }

    /// Says what was done, and leaves on the desk what waits.
    fn report(self, outcome: Result<(), Failure>) -> Result<Report, Error> {
        let attempt = Attempt {
            bytes: self.bytes,
            calls: self.calls,
            cause: outcome.as_ref().err().map(|failure| failure.cause),
            ..Attempt::new(Strategy::Buffered)
        };
        self.desk.chunk = Some(self.chunk);
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
            shared_pages: false,
            grown_source: None,
            grown_sink: self.grown_sink,
            undelivered: Undelivered(self.undelivered),
        };
        match outcome {
            Ok(()) => Ok(report),
            Err(failure) => Err(Error::new(failure, report)),
        }
    }
}

/// What a rewriter comes to that leaves what it must take.
fn idle() -> Fault {
    Fault {
        call: "rewrite",
        side: Side::Neither,
        cause: Cause::Nothing,
    }
}
