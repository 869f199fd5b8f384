//! Readings of the shared progress: amounts, rates and the time left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Zoned;
use zcopy::Strategy;

use crate::common::progress::throughput::{Statistics, Throughput};
use crate::pv::display::event::Phase;
use crate::pv::display::reading::{BufferUse, Reading};
use crate::pv::shared_progress::Position;
use crate::pv::shared_progress::SharedProgress;
use crate::pv::transfer::output_pipe::OutputPipe;

/// A function that returns the time of day, or a constant if the time is not shown: finding the
/// user's time zone takes as long as moving some megabytes.
pub(crate) type Clock = fn() -> Zoned;

/// Takes readings of one phase after the other.
#[derive(Debug)]
pub(crate) struct Sampler {
    progress: Arc<SharedProgress>,
    /// The pipe whose unread bytes have not arrived yet.
    output: Option<Arc<OutputPipe>>,
    /// The progress of the other side of a command.
    other_side: Option<Arc<SharedProgress>>,
    phase: Phase,
    window: Duration,
    clock: Clock,
    throughput: Throughput,
    /// The throughput in bytes, for the statistics if lines are counted.
    bytes: Throughput,
    begin: Instant,
    /// The time in which the process was stopped.
    stopped: Duration,
    /// The highest count that was read. The count never decreases.
    highest: u64,
    /// The number of passed bytes at the last call of `take_passed`.
    passed: u64,
}

impl Sampler {
    /// Creates a sampler of a phase that begins now, with averages over `window`.
    pub(crate) fn new(
        progress: Arc<SharedProgress>,
        output: Option<Arc<OutputPipe>>,
        (window, clock): (Duration, Clock),
        phase: Phase,
    ) -> Self {
        Self {
            progress,
            output,
            other_side: None,
            phase,
            window,
            clock,
            throughput: Throughput::over(window),
            bytes: Throughput::over(window),
            begin: Instant::now(),
            stopped: Duration::ZERO,
            highest: 0,
            passed: 0,
        }
    }

    /// Returns the shared progress that the sampler reads.
    pub(crate) fn progress(&self) -> Arc<SharedProgress> {
        Arc::clone(&self.progress)
    }

    /// Sets the other side of a command, for the ratio.
    pub(crate) fn compare_with(&mut self, other_side: Arc<SharedProgress>) {
        self.other_side = Some(other_side);
    }

    /// Returns the present phase.
    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Starts another phase.
    pub(crate) fn begin_phase(&mut self, phase: Phase) {
        self.phase = phase;
        self.highest = 0;
        self.throughput = Throughput::over(self.window);
        self.bytes = Throughput::over(self.window);
        self.begin = Instant::now();
        self.stopped = Duration::ZERO;
    }

    /// Restarts the timer and the rates. The bytes that have come already count.
    pub(crate) fn restart(&mut self) {
        let elapsed = self.elapsed();
        self.throughput.reset(elapsed, 0);
        self.bytes.reset(elapsed, 0);
    }

    /// Excludes time in which the process was stopped.
    pub(crate) fn skip(&mut self, stopped: Duration) {
        self.stopped += stopped;
    }

    /// Returns the start of the phase, moved by the time in which the process was stopped.
    pub(crate) fn begin(&self) -> Instant {
        self.begin + self.stopped
    }

    /// Returns the elapsed time, without the time in which the process was stopped.
    pub(crate) fn elapsed(&self) -> Duration {
        let ours = || self.begin.elapsed().saturating_sub(self.stopped);
        self.progress.elapsed().unwrap_or_else(ours)
    }

    /// Returns whether another process moves the bytes.
    pub(crate) fn is_remote(&self) -> bool {
        self.progress.elapsed().is_some()
    }

    /// Sets the size of the phase.
    pub(crate) fn resize(&mut self, total: Option<u64>, bytes: Option<u64>) {
        (self.phase.total, self.phase.bytes) = (total, bytes);
    }

    /// Sets the name of the phase.
    pub(crate) fn rename(&mut self, name: Option<String>) {
        self.phase.name = name;
    }

    /// Sets the clock of the readings.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Makes the inspector keep more bytes. Returns whether bytes have to pass through it now and
    /// did not before.
    pub(crate) fn keep_bytes(&self, tail_bytes: usize, needs_line: bool) -> bool {
        let mut inspector = self.progress.inspector();
        let was_needed = inspector.is_needed();
        inspector.keep(tail_bytes, needs_line);
        inspector.is_needed() && !was_needed
    }

    /// Returns the amount that has arrived in this phase. If the phase is over, everything has
    /// arrived.
    pub(crate) fn moved(&self, is_over: bool) -> u64 {
        let unread = if is_over { 0 } else { self.unread() };
        self.highest
            .max(self.moved_at(self.progress.position(), unread))
    }

    /// Returns whether the first byte of the phase has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.progress.position().bytes > self.phase.from.bytes
    }

    /// Returns the bytes that have been moved in this phase, even if lines are counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.progress
            .position()
            .bytes
            .saturating_sub(self.phase.from.bytes)
    }

    /// Returns whether bytes have passed since the last call, if passed bytes are counted.
    pub(crate) fn take_passed(&mut self) -> bool {
        let passed = self.progress.passed();
        std::mem::replace(&mut self.passed, passed) != passed
    }

    /// Returns whether bytes are counted.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.progress.counts_bytes()
    }

    /// Returns the strategy, after it has moved bytes.
    pub(crate) fn strategy(&self) -> Option<Strategy> {
        self.progress.strategy()
    }

    /// Returns the progress without adding a sample to the rates.
    pub(crate) fn peek(&mut self) -> Reading {
        let unread = self.unread();
        let position = self.progress.position();
        self.count(position, unread);
        Reading {
            elapsed: self.elapsed(),
            moved: self.highest,
            share: self.share(position),
            ..Reading::before(Zoned::default(), self.phase.total)
        }
    }

    /// Takes a reading.
    pub(crate) fn read(&mut self) -> Reading {
        let unread = self.unread();
        self.reading(self.progress.position(), unread, false)
    }

    /// Takes the last reading of the phase.
    pub(crate) fn read_last(&mut self) -> Reading {
        self.reading(self.progress.position(), 0, true)
    }

    /// Takes the last reading of a phase that ended at `end`. The shared progress has continued
    /// since.
    pub(crate) fn read_last_at(&mut self, end: Position) -> Reading {
        self.reading(end, 0, true)
    }

    /// Returns the rates of all intervals of the phase.
    pub(crate) fn statistics(&self) -> Statistics {
        self.bytes.statistics()
    }

    fn reading(&mut self, position: Position, unread: u64, is_over: bool) -> Reading {
        let bytes = self.count(position, unread);
        let elapsed = self.elapsed();
        if is_over {
            self.throughput.finish(elapsed, self.highest);
            self.bytes.finish(elapsed, bytes);
        } else {
            self.throughput.sample(elapsed, self.highest);
            self.bytes.sample(elapsed, bytes);
        }
        let (tail, line) = {
            let inspector = self.progress.inspector();
            (inspector.tail().to_vec(), inspector.line().to_vec())
        };
        Reading {
            elapsed: self.throughput.elapsed(),
            moved: self.highest,
            rate: self.throughput.rate(),
            average: self.throughput.average(),
            fastest: self.throughput.fastest(),
            remaining: match self.phase.bytes {
                Some(total) => self.bytes.remaining(Some(total)),
                None => self.throughput.remaining(self.phase.total),
            },
            share: self.share(position),
            buffer: self.buffer_use(unread),
            tail,
            line,
            tick: self.throughput.tick(),
            ratio: self.ratio(),
            is_over,
            ..Reading::before((self.clock)(), self.phase.total)
        }
    }

    /// Updates the highest count, and returns the bytes of this phase.
    fn count(&mut self, position: Position, unread: u64) -> u64 {
        self.highest = self.highest.max(self.moved_at(position, unread));
        position.bytes.saturating_sub(self.phase.from.bytes)
    }

    /// Returns the percentage of bytes, if the phase has a total in bytes only.
    fn share(&self, position: Position) -> Option<f64> {
        let bytes = position.bytes.saturating_sub(self.phase.from.bytes);
        self.phase.bytes.and_then(|total| share(bytes, total))
    }

    /// Returns the amount that had arrived in this phase at a position, of which `unread` bytes
    /// were still in the pipe.
    fn moved_at(&self, position: Position, unread: u64) -> u64 {
        let from = self.phase.from;
        if self.progress.counts_bytes() {
            position
                .bytes
                .saturating_sub(from.bytes)
                .saturating_sub(unread)
        } else {
            position.counted.saturating_sub(from.counted)
        }
    }

    /// Returns the number of bytes in the output's pipe.
    fn unread(&self) -> u64 {
        let unread = self.output.as_ref().and_then(|output| output.unread());
        unread.unwrap_or(0)
    }

    /// Returns the amount that the other side has moved for each byte or line of this side.
    #[allow(
        clippy::cast_precision_loss,
        reason = "four digits of the ratio are shown"
    )]
    fn ratio(&self) -> Option<f64> {
        let theirs = self.other_side.as_ref()?.position().counted;
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
        match self.progress.strategy() {
            Some(Strategy::SplicePipe) => BufferUse::PrivatePipe,
            Some(Strategy::CopyFileRange | Strategy::Reflink) => BufferUse::CopyFileRange,
            Some(Strategy::Splice) => BufferUse::Splice,
            Some(Strategy::Buffered) => BufferUse::Percent(0),
            _ => BufferUse::Unused,
        }
    }
}

/// Returns the percentage of a total.
#[allow(
    clippy::cast_precision_loss,
    reason = "a percentage needs no more digits"
)]
fn share(moved: u64, total: u64) -> Option<f64> {
    (total > 0).then(|| moved as f64 * 100.0 / total as f64)
}
