//! What the meter says, turned into readings: by when, how fast, how much longer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Zoned;
use zcopy::Strategy;

use super::display::{Place, Stage};
use super::meter::Meter;
use super::output_pipe::OutputPipe;
use super::reading::{BufferUse, Reading};
use crate::history::{History, Statistics};

/// Tells the time of day, or, where nobody is told, any: to find the user's time zone takes as long as to move
/// some megabytes.
pub(super) type Clock = fn() -> Zoned;

/// Takes readings of one stage after the other.
#[derive(Debug)]
pub(super) struct Instrument {
    meter: Arc<Meter>,
    /// The pipe whose unread bytes have not arrived yet.
    output: Option<Arc<OutputPipe>>,
    /// How far the other side of a command has come.
    other_side: Option<Arc<Meter>>,
    stage: Stage,
    window: Duration,
    clock: Clock,
    history: History,
    /// The history of bytes, where lines are counted: statistics are of bytes.
    bytes: History,
    begin: Instant,
    /// Time in which the process was stopped.
    stopped: Duration,
    /// The highest count that was read: it never goes back.
    highest: u64,
    /// How many bytes had passed when somebody asked.
    passed: u64,
}

impl Instrument {
    /// Readings of a stage that begins now, with averages over `window`.
    pub(super) fn new(
        meter: Arc<Meter>,
        output: Option<Arc<OutputPipe>>,
        (window, clock): (Duration, Clock),
        stage: Stage,
    ) -> Self {
        Self {
            meter,
            output,
            other_side: None,
            stage,
            window,
            clock,
            history: History::over(window),
            bytes: History::over(window),
            begin: Instant::now(),
            stopped: Duration::ZERO,
            highest: 0,
            passed: 0,
        }
    }

    /// The meter that is read.
    pub(super) fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// Compares the bytes with those of the other side of a command.
    pub(super) fn compare_with(&mut self, other_side: Arc<Meter>) {
        self.other_side = Some(other_side);
    }

    /// What is being moved.
    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    /// Goes on with something else.
    pub(super) fn begin_stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.highest = 0;
        self.history = History::over(self.window);
        self.bytes = History::over(self.window);
        self.begin = Instant::now();
        self.stopped = Duration::ZERO;
    }

    /// Has the timer and the rates begin now, with the bytes that have come already.
    pub(super) fn restart(&mut self) {
        let elapsed = self.elapsed();
        self.history.reset(elapsed, 0);
        self.bytes.reset(elapsed, 0);
    }

    /// Takes out time in which the process was stopped.
    pub(super) fn skip(&mut self, stopped: Duration) {
        self.stopped += stopped;
    }

    /// When the stage began, but for what the process was stopped.
    pub(super) fn begin(&self) -> Instant {
        self.begin + self.stopped
    }

    /// How long it has taken, but for what the process was stopped.
    pub(super) fn elapsed(&self) -> Duration {
        let ours = || self.begin.elapsed().saturating_sub(self.stopped);
        self.meter.elapsed().unwrap_or_else(ours)
    }

    /// Whether another process moves the bytes.
    pub(super) fn is_of_another_process(&self) -> bool {
        self.meter.elapsed().is_some()
    }

    /// Has the stage be of another size.
    pub(super) fn resize(&mut self, total: Option<u64>, bytes: Option<u64>) {
        (self.stage.total, self.stage.bytes) = (total, bytes);
    }

    /// Has the stage have another name.
    pub(super) fn rename(&mut self, name: Option<String>) {
        self.stage.name = name;
    }

    /// Has readings tell the time of another clock.
    pub(super) fn tell_time(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Has more of the bytes kept that pass. Returns whether they have to be shown now and were not before.
    pub(super) fn keep_bytes(&self, tail_bytes: usize, needs_line: bool) -> bool {
        let mut witness = self.meter.witness();
        let was_needed = witness.is_needed();
        witness.keep(tail_bytes, needs_line);
        witness.is_needed() && !was_needed
    }

    /// What has arrived in this stage; when it is over, everything has.
    pub(super) fn moved(&self, is_over: bool) -> u64 {
        let unread = if is_over { 0 } else { self.unread() };
        self.highest.max(self.moved_at(self.meter.place(), unread))
    }

    /// Whether the stage's first byte has come.
    pub(super) fn has_begun(&self) -> bool {
        self.meter.place().bytes > self.stage.from.bytes
    }

    /// The bytes that have been moved in this stage, whatever is counted.
    pub(super) fn bytes(&self) -> u64 {
        self.meter
            .place()
            .bytes
            .saturating_sub(self.stage.from.bytes)
    }

    /// Whether more bytes have passed since this was asked last, where that is noted.
    pub(super) fn has_passed_more(&mut self) -> bool {
        let passed = self.meter.passed();
        std::mem::replace(&mut self.passed, passed) != passed
    }

    /// Whether bytes are what is counted.
    pub(super) fn counts_bytes(&self) -> bool {
        self.meter.counts_bytes()
    }

    /// What moves the bytes, once some have been moved.
    pub(super) fn strategy(&self) -> Option<Strategy> {
        self.meter.strategy()
    }

    /// How far the stage has come, without a sample for the rates.
    pub(super) fn peek(&mut self) -> Reading {
        let unread = self.unread();
        let place = self.meter.place();
        self.count(place, unread);
        Reading {
            elapsed: self.elapsed(),
            moved: self.highest,
            share: self.share(place),
            ..Reading::before(Zoned::default(), self.stage.total)
        }
    }

    /// A reading as of now.
    pub(super) fn read(&mut self) -> Reading {
        let unread = self.unread();
        self.reading(self.meter.place(), unread, false)
    }

    /// The last reading of the stage.
    pub(super) fn read_last(&mut self) -> Reading {
        self.reading(self.meter.place(), 0, true)
    }

    /// The last reading of a stage that has ended elsewhere than the meter, which has gone on.
    pub(super) fn read_last_at(&mut self, end: Place) -> Reading {
        self.reading(end, 0, true)
    }

    /// The rates of all intervals of the stage.
    pub(super) fn statistics(&self) -> Statistics {
        self.bytes.statistics()
    }

    fn reading(&mut self, place: Place, unread: u64, is_over: bool) -> Reading {
        let bytes = self.count(place, unread);
        let elapsed = self.elapsed();
        if is_over {
            self.history.finish(elapsed, self.highest);
            self.bytes.finish(elapsed, bytes);
        } else {
            self.history.sample(elapsed, self.highest);
            self.bytes.sample(elapsed, bytes);
        }
        let (tail, line) = {
            let witness = self.meter.witness();
            (witness.tail().to_vec(), witness.line().to_vec())
        };
        Reading {
            elapsed: self.history.elapsed(),
            moved: self.highest,
            rate: self.history.rate(),
            average: self.history.average(),
            fastest: self.history.fastest(),
            remaining: match self.stage.bytes {
                Some(total) => self.bytes.remaining(Some(total)),
                None => self.history.remaining(self.stage.total),
            },
            share: self.share(place),
            buffer: self.buffer_use(unread),
            tail,
            line,
            beat: self.history.beat(),
            ratio: self.ratio(),
            is_over,
            ..Reading::before((self.clock)(), self.stage.total)
        }
    }

    /// Counts what has been moved in this stage, and returns the bytes of it.
    fn count(&mut self, place: Place, unread: u64) -> u64 {
        self.highest = self.highest.max(self.moved_at(place, unread));
        place.bytes.saturating_sub(self.stage.from.bytes)
    }

    /// How many percent of the stage's bytes have been moved, where only they are known.
    fn share(&self, place: Place) -> Option<f64> {
        let bytes = place.bytes.saturating_sub(self.stage.from.bytes);
        self.stage.bytes.and_then(|total| share(bytes, total))
    }

    /// What had arrived in this stage at some place, but for what was `unread`.
    fn moved_at(&self, place: Place, unread: u64) -> u64 {
        let from = self.stage.from;
        if self.meter.counts_bytes() {
            place
                .bytes
                .saturating_sub(from.bytes)
                .saturating_sub(unread)
        } else {
            place.counted.saturating_sub(from.counted)
        }
    }

    /// What sits in the output's pipe, and has not been read.
    fn unread(&self) -> u64 {
        let unread = self.output.as_ref().and_then(|output| output.unread());
        unread.unwrap_or(0)
    }

    /// What the other side of a command has moved for each byte or line of this side.
    #[allow(
        clippy::cast_precision_loss,
        reason = "four digits of the ratio are shown"
    )]
    fn ratio(&self) -> Option<f64> {
        let theirs = self.other_side.as_ref()?.place().counted;
        let ours = self.highest;
        (ours > 0 && theirs > 0).then(|| theirs as f64 / ours as f64)
    }

    fn buffer_use(&self, unread: u64) -> BufferUse {
        let capacity = self.output.as_ref().and_then(|output| output.capacity());
        if let Some(capacity) = capacity
            && capacity > 0
        {
            return BufferUse::Percent((unread * 100 / capacity as u64).min(100) as u8);
        }
        match self.meter.strategy() {
            Some(Strategy::SplicePipe) => BufferUse::PrivatePipe,
            Some(Strategy::CopyFileRange | Strategy::Reflink) => BufferUse::CopyFileRange,
            Some(Strategy::Splice) => BufferUse::Splice,
            Some(Strategy::Buffered) => BufferUse::Percent(0),
            _ => BufferUse::Unused,
        }
    }
}

/// How many percent of a total have been moved.
#[allow(
    clippy::cast_precision_loss,
    reason = "a percentage needs no more digits"
)]
fn share(moved: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| moved as f64 * 100.0 / total as f64)
}
