//! Rates, the time left and statistics, from samples of how much has been moved.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The shortest interval for a rate. Shorter ones measure the scheduler rather than the transfer.
///
/// Displays are at least 100 ms apart, but for the last one.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The number of samples of a window, which bounds the memory for it.
const SAMPLES: u32 = 256;

/// Computes rates and the time left from samples.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy_cli::common::progress::throughput::Throughput;
///
/// let mut throughput = Throughput::over(Duration::from_secs(30));
/// throughput.sample(Duration::from_secs(1), 100);
/// throughput.sample(Duration::from_secs(2), 300);
/// assert_eq!(throughput.rate(), 200.0);
/// assert_eq!(throughput.average(), 150.0);
/// assert_eq!(throughput.remaining(Some(600)), Some(Duration::from_secs(2)));
/// ```
#[derive(Clone, Debug)]
pub struct Throughput {
    window: Duration,
    /// Time that does not count: before the start, and while the process was stopped.
    idle: Duration,
    /// The sample at which counting began.
    start: Sample,
    /// Samples within the window, and one at its edge or before.
    within: VecDeque<Sample>,
    /// The end of the last interval that was long enough for a rate.
    last: Sample,
    now: Sample,
    rate: f64,
    fastest: f64,
    tick: u64,
    is_over: bool,
    measured: Measured,
}

/// The amount that had been moved at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: Duration,
    moved: u64,
}

impl Sample {
    /// Returns the rate since `earlier`, in units per second.
    #[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
    fn rate_since(self, earlier: Self) -> f64 {
        let took = self.at.saturating_sub(earlier.at).as_secs_f64();
        if took > 0.0 {
            // The position of a watched descriptor may decrease.
            self.moved.saturating_sub(earlier.moved) as f64 / took
        } else {
            0.0
        }
    }
}

impl Throughput {
    /// Creates a measurement that begins now, with averages over `window`.
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
            tick: 0,
            is_over: false,
            measured: Measured::default(),
        }
    }

    /// Adds a sample: the amount that has been moved, `elapsed` after the transfer began.
    pub fn sample(&mut self, elapsed: Duration, moved: u64) {
        if self.note(elapsed, moved) {
            self.tick += 1;
        }
        if self.now.at.saturating_sub(self.last.at) < MIN_INTERVAL {
            return;
        }
        self.rate = self.now.rate_since(self.last);
        self.fastest = self.fastest.max(self.rate);
        self.measured.add(self.rate);
        self.last = self.now;
        self.keep();
    }

    /// Adds the last sample. From now on both rates are those of the whole transfer.
    pub fn finish(&mut self, elapsed: Duration, moved: u64) {
        let tick = self.tick;
        self.sample(elapsed, moved);
        // The last display counts as one more tick, even if nothing has moved since the one before.
        self.tick = tick + u64::from(moved > 0);
        self.is_over = true;
        self.rate = self.now.rate_since(self.start);
        if self.measured.count == 0 && self.now.at > self.start.at {
            self.measured.add(self.rate);
            self.fastest = self.rate;
        }
    }

    /// Restarts the timer, the rates and the statistics, `elapsed` after the transfer began.
    ///
    /// The rates exclude the amount `moved` by then. With 0, the next sample counts all that has
    /// been moved, as for the first bytes after `-W`.
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

    /// Returns the elapsed time, without the time that does not count.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.at
    }

    /// Returns the rate over the last interval, or over the whole transfer once it is over.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns the rate over the window, or over the whole transfer once it is over.
    #[must_use]
    pub fn average(&self) -> f64 {
        if self.is_over {
            return self.rate;
        }
        let edge = self.within.front().copied().unwrap_or(self.start);
        self.now.rate_since(edge)
    }

    /// Returns the highest rate of all intervals.
    #[must_use]
    pub fn fastest(&self) -> f64 {
        self.fastest
    }

    /// Returns the number of samples in which the amount had changed.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Returns the time that the rest of `total` takes at the average rate, or `None` if nothing
    /// moves.
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
        // A longer time than this cannot be shown.
        (average > 0.0).then(|| takes.unwrap_or(Duration::MAX))
    }

    /// Returns the statistics of all intervals.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.measured.statistics()
    }

    /// Stores the present sample, and returns whether the amount has changed.
    fn note(&mut self, elapsed: Duration, moved: u64) -> bool {
        let at = elapsed.saturating_sub(self.idle).max(self.now.at);
        let has_moved = moved != self.now.moved;
        self.now = Sample { at, moved };
        has_moved
    }

    /// Stores the sample in the window, unless the last stored one is almost as recent, and removes
    /// those that the window has passed.
    fn keep(&mut self) {
        let youngest = self.within.back().map_or(Duration::ZERO, |kept| kept.at);
        if self.now.at.saturating_sub(youngest) >= self.window / SAMPLES {
            self.within.push_back(self.now);
        }
        let edge = self.now.at.saturating_sub(self.window);
        // The newest sample at the edge or before it stays, unless it is the present one.
        while self.within.len() > 2 && self.within[1].at <= edge {
            self.within.pop_front();
        }
    }
}

/// Sums over the rates of all intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    count: u32,
    min: f64,
    max: f64,
    mean: f64,
    /// The sum of the squares of all distances from the mean.
    squares: f64,
}

impl Measured {
    /// Adds a rate by Welford's recurrence, which keeps all digits of rates that differ by little.
    fn add(&mut self, rate: f64) {
        self.min = if self.count == 0 {
            rate
        } else {
            self.min.min(rate)
        };
        self.max = self.max.max(rate);
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
            min: self.min,
            mean: self.mean,
            max: self.max,
            deviation: (self.squares / f64::from(self.count)).max(0.0).sqrt(),
        }
    }
}

/// The statistics that `-v` prints: the rates of all intervals, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistics {
    /// The transfer ended before a rate could be measured.
    NotMeasured,
    /// There was at least one interval.
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
    /// Returns the line of statistics in bits per second.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use zcopy_cli::common::progress::throughput::Throughput;
    ///
    /// let mut throughput = Throughput::over(Duration::from_secs(30));
    /// throughput.sample(Duration::from_secs(1), 100);
    /// let statistics = throughput.statistics();
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
