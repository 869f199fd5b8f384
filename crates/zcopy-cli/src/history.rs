//! What has been moved by when, and what follows from it: rates, the time left, statistics.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// An interval that is shorter tells of the scheduler more than of the transfer.
///
/// Displays are at least 100 ms apart, but for the last one.
const SHORTEST: Duration = Duration::from_millis(50);

/// How many samples a window holds, at most: its length is not felt in memory.
const SAMPLES: u32 = 256;

/// What has been moved by when.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::history::History;
///
/// let mut history = History::over(Duration::from_secs(30));
/// history.sample(Duration::from_secs(1), 100);
/// history.sample(Duration::from_secs(2), 300);
/// assert_eq!(history.rate(), 200.0);
/// assert_eq!(history.average(), 150.0);
/// assert_eq!(history.remaining(Some(600)), Some(Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug)]
pub struct History {
    window: Duration,
    /// Time, as the samples give it, that does not count: before the start, and while stopped.
    idle: Duration,
    /// Where counting began.
    start: Sample,
    /// Samples within the window, and one at its edge or before.
    within: VecDeque<Sample>,
    /// The end of the last interval that was long enough for a rate.
    last: Sample,
    now: Sample,
    rate: f64,
    fastest: f64,
    beat: u64,
    is_over: bool,
    measured: Measured,
}

/// How much had been moved at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    moved: u64,
}

impl Sample {
    /// Units per second since `earlier`.
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    fn rate_since(self, earlier: Self) -> f64 {
        let took = self.at.saturating_sub(earlier.at).as_secs_f64();
        if took > 0.0 {
            // A watched descriptor may go backwards.
            self.moved.saturating_sub(earlier.moved) as f64 / took
        } else {
            0.0
        }
    }
}

impl History {
    /// A history that begins now, and averages over `window`.
    #[must_use]
    pub fn over(window: Duration) -> Self {
        Self {
            window,
            idle: Duration::ZERO,
            start: Sample::default(),
            within: VecDeque::from([Sample::default()]),
            last: Sample::default(),
            now: Sample::default(),
            rate: 0.0,
            fastest: 0.0,
            beat: 0,
            is_over: false,
            measured: Measured::default(),
        }
    }

    /// Takes note of what has been moved, `elapsed` after the transfer began.
    pub fn sample(&mut self, elapsed: Duration, moved: u64) {
        if self.note(elapsed, moved) {
            self.beat += 1;
        }
        if self.now.at.saturating_sub(self.last.at) < SHORTEST {
            return;
        }
        self.rate = self.now.rate_since(self.last);
        self.fastest = self.fastest.max(self.rate);
        self.measured.add(self.rate);
        self.last = self.now;
        self.keep();
    }

    /// Takes note of the end: from here on both rates are those of the whole transfer.
    pub fn finish(&mut self, elapsed: Duration, moved: u64) {
        let beat = self.beat;
        self.sample(elapsed, moved);
        // The last line is one more sign of life, though nothing may have moved since the last but one.
        self.beat = beat + u64::from(moved > 0);
        self.is_over = true;
        self.rate = self.now.rate_since(self.start);
        if self.measured.count == 0 && self.now.at > self.start.at {
            self.measured.add(self.rate);
            self.fastest = self.rate;
        }
    }

    /// Begins anew, `elapsed` after the transfer began: the timer, the rates and the statistics.
    ///
    /// What had been `moved` by then is in none of the rates; with 0, what comes next counts as
    /// moved since, as the first bytes do after `-W` has waited for them.
    pub fn reset(&mut self, elapsed: Duration, moved: u64) {
        let start = Sample {
            at: Duration::ZERO,
            moved,
        };
        *self = Self {
            idle: elapsed,
            start,
            within: VecDeque::from([start]),
            last: start,
            now: start,
            ..Self::over(self.window)
        };
    }

    /// How long it has taken, but for what was taken out.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.at
    }

    /// The rate over the last interval, or over all when it is over.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The rate over the window, or over all when it is over.
    #[must_use]
    pub fn average(&self) -> f64 {
        if self.is_over {
            return self.rate;
        }
        let edge = self.within.front().copied().unwrap_or(self.start);
        self.now.rate_since(edge)
    }

    /// The highest rate of all intervals.
    #[must_use]
    pub fn fastest(&self) -> f64 {
        self.fastest
    }

    /// How many samples have found that something moved.
    #[must_use]
    pub fn beat(&self) -> u64 {
        self.beat
    }

    /// How long the rest of `total` takes at the average rate, unless nothing moves.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "an estimate needs no more digits"
    )]
    pub fn remaining(&self, total: Option<u64>) -> Option<Duration> {
        let left = total?.saturating_sub(self.now.moved);
        if left == 0 {
            return Some(Duration::ZERO);
        }
        let average = self.average();
        let takes = Duration::try_from_secs_f64(left as f64 / average);
        // What overflows takes longer than can be shown.
        (average > 0.0).then(|| takes.unwrap_or(Duration::MAX))
    }

    /// The statistics of all intervals.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.measured.statistics()
    }

    /// Whether something has moved since the last note.
    fn note(&mut self, elapsed: Duration, moved: u64) -> bool {
        let at = elapsed.saturating_sub(self.idle).max(self.now.at);
        let has_moved = moved != self.now.moved;
        self.now = Sample { at, moved };
        has_moved
    }

    /// Keeps the sample, unless the last kept is almost as young, and forgets what the window has left behind.
    fn keep(&mut self) {
        let youngest = self.within.back().map_or(Duration::ZERO, |kept| kept.at);
        if self.now.at.saturating_sub(youngest) >= self.window / SAMPLES {
            self.within.push_back(self.now);
        }
        let edge = self.now.at.saturating_sub(self.window);
        // The newest that lies at the edge or before it stays, unless it is the present.
        while self.within.len() > 2 && self.within[1].at <= edge {
            self.within.pop_front();
        }
    }
}

/// Sums over the rates of all intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    count: u32,
    least: f64,
    most: f64,
    mean: f64,
    /// The sum of the squares of all distances from the mean.
    squares: f64,
}

impl Measured {
    /// By Welford's recurrence, which loses no digits where rates differ by little.
    fn add(&mut self, rate: f64) {
        self.least = if self.count == 0 {
            rate
        } else {
            self.least.min(rate)
        };
        self.most = self.most.max(rate);
        self.count = self.count.saturating_add(1);
        let off = rate - self.mean;
        self.mean += off / f64::from(self.count);
        self.squares += off * (rate - self.mean);
    }

    fn statistics(self) -> Statistics {
        if self.count == 0 {
            return Statistics::NotMeasured;
        }
        Statistics::Measured {
            min: self.least,
            mean: self.mean,
            max: self.most,
            deviation: (self.squares / f64::from(self.count)).max(0.0).sqrt(),
        }
    }
}

/// What `-v` tells at the end: the rates of all intervals, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistics {
    /// It was over before it could be measured.
    NotMeasured,
    /// There were intervals.
    Measured {
        /// The lowest rate.
        min: f64,
        /// The mean of the rates of all intervals.
        mean: f64,
        /// The highest rate.
        max: f64,
        /// The standard deviation.
        deviation: f64,
    },
}

impl Statistics {
    /// The same in bits per second, of which the line says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use zcopy_cli::history::History;
    ///
    /// let mut history = History::over(Duration::from_secs(30));
    /// history.sample(Duration::from_secs(1), 100);
    /// let statistics = history.statistics();
    /// assert_eq!(statistics.to_string(), "rate min/avg/max/mdev = 100.000/100.000/100.000/0.000 B/s");
    /// assert_eq!(statistics.in_bits(), "rate min/avg/max/mdev = 800.000/800.000/800.000/0.000 b/s");
    /// ```
    #[must_use]
    pub fn in_bits(&self) -> String {
        self.line(8.0, "b/s")
    }

    fn line(&self, factor: f64, unit: &str) -> String {
        match self {
            Self::NotMeasured => "rate not measured".to_owned(),
            Self::Measured {
                min,
                mean,
                max,
                deviation,
            } => {
                let [min, mean, max, deviation] = [min, mean, max, deviation].map(|x| x * factor);
                format!("rate min/avg/max/mdev = {min:.3}/{mean:.3}/{max:.3}/{deviation:.3} {unit}")
            }
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(1.0, "B/s"))
    }
}

#[cfg(test)]
mod tests;
