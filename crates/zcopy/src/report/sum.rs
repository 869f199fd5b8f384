//! The sum of several reports.

use std::iter::Sum;
use std::ops::AddAssign;

use super::{Attempt, Ended, Report, SinkReport};

/// Adds the report of a later transfer, for the total of several files or of a transfer that was
/// continued.
///
/// - Bytes, records, holes, skipped bytes and times are added.
/// - Attempts by the same strategy become one: bytes and calls are added, and an error of the later
///   attempt replaces an earlier one.
/// - Sinks with the same index become one in the same way. How far a sink is
///   [ahead](SinkReport::ahead) comes from the later report. A report of a single sink that has no
///   entry in [`sinks`](Report::sinks) adds nothing to the entries.
/// - [`ended`](Report::ended) becomes the later one. Where the later transfer enlarged no pipe, the
///   capacity of the earlier one stays. Pages are [shared](Report::shared_pages) if either
///   transfer shared them.
/// - The later [undelivered](Report::undelivered) bytes follow the earlier ones. To keep them
///   apart, take them from each report before the addition.
///
/// # Examples
///
/// ```
/// use zcopy::{Report, Transfer};
///
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut total = Report::default();
/// for path in ["/proc/version", "/proc/self/status"] {
///     let source = std::fs::File::open(path)?;
///     let report = Transfer::new(&source, &sink).run()?;
///     assert!(report.bytes() > 0);
///     let before = total.bytes();
///     total += &report;
///     assert_eq!(total.bytes(), before + report.bytes());
/// }
/// assert_eq!(total.attempts().len(), 1, "both by read and write");
/// # Ok::<(), std::io::Error>(())
/// ```
impl AddAssign<&Report> for Report {
    fn add_assign(&mut self, later: &Report) {
        let Report {
            bytes,
            records,
            ended,
            elapsed,
            first_choice,
            attempts,
            sinks,
            hole_bytes,
            skipped_bytes,
            shared_pages,
            grown_source,
            grown_sink,
            undelivered,
        } = later;
        self.bytes += bytes;
        self.records += records;
        self.ended = *ended;
        self.elapsed = self.elapsed.saturating_add(*elapsed);
        self.first_choice = first_choice.or(self.first_choice);
        for attempt in attempts {
            self.add_attempt(attempt);
        }
        for sink in sinks {
            self.add_sink(sink);
        }
        self.hole_bytes += hole_bytes;
        self.skipped_bytes += skipped_bytes;
        self.shared_pages = self.shared_pages.max(*shared_pages);
        self.grown_source = grown_source.or(self.grown_source);
        self.grown_sink = grown_sink.or(self.grown_sink);
        self.undelivered.append(undelivered);
    }
}

impl Report {
    fn add_attempt(&mut self, later: &Attempt) {
        let mut attempts = self.attempts.iter_mut();
        let Some(attempt) = attempts.find(|attempt| attempt.strategy == later.strategy) else {
            self.attempts.push(*later);
            return;
        };
        attempt.bytes += later.bytes;
        attempt.hole_bytes += later.hole_bytes;
        attempt.calls += later.calls;
        attempt.cause = later.cause.or(attempt.cause);
    }

    fn add_sink(&mut self, later: &SinkReport) {
        let mut sinks = self.sinks.iter_mut();
        let Some(sink) = sinks.find(|sink| sink.index == later.index) else {
            self.sinks.push(*later);
            return;
        };
        sink.bytes += later.bytes;
        sink.ahead = later.ahead;
        sink.strategy = later.strategy.or(sink.strategy);
        sink.cause = later.cause.or(sink.cause);
    }
}

/// The report of no transfer: nothing has moved, and the source has ended. Begin a sum with it.
///
/// # Examples
///
/// ```
/// let total = zcopy::Report::default();
/// assert_eq!((total.bytes(), total.strategy()), (0, None));
/// ```
impl Default for Report {
    fn default() -> Self {
        Self::of_nothing(Ended::Eof, None)
    }
}

/// Adds reports in their order, as `+=` does.
///
/// # Examples
///
/// ```
/// use zcopy::{Report, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let transfer = |bytes| Transfer::new(&zeros, &sink).limit(bytes).run();
/// let reports = [transfer(3)?, transfer(4)?];
/// assert_eq!(reports.iter().sum::<Report>().bytes(), 7);
/// # Ok::<(), std::io::Error>(())
/// ```
impl<'a> Sum<&'a Report> for Report {
    fn sum<I: Iterator<Item = &'a Report>>(reports: I) -> Self {
        let mut total = Self::default();
        for report in reports {
            total += report;
        }
        total
    }
}

/// Adds reports in their order, as `+=` does.
impl Sum for Report {
    fn sum<I: Iterator<Item = Report>>(reports: I) -> Self {
        let mut total = Self::default();
        for report in reports {
            total += &report;
        }
        total
    }
}
