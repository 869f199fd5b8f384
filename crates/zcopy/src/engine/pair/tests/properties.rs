//! Properties of every transfer, with random faults.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use proptest::prelude::*;

use crate::error::Error;
use crate::options::Sparse;
use crate::plan;
use crate::report::{BadRange, Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::arbitrary::scenarios;
use crate::sim::interference::{Action, Interference};
use crate::sim::objects::BLOCK;
use crate::sim::oracle::{
    Data, Gap, PageSharing, check_boundaries, check_calls, check_capacities, check_consumed,
    check_pages, check_sink, check_ticks, data,
};
use crate::sim::queue::PACKET;
use crate::sim::run::{Callbacks, has_not_begun, transfer_with};
use crate::sim::scenario::{Kind, Scenario};
use crate::sim::script::Call;
use crate::sys::Errno;
use zcopy_fuzz::holds_for_all;

/// Enough cases for every pair and option; `PROPTEST_CASES` sets another number.
const CASES: u32 = 3000;

#[test]
fn bytes_consumed_are_bytes_delivered_and_bytes_handed_back_in_order_and_never_twice() {
    holds_for_all(scenarios(), CASES, check);
}

/// What the callbacks of a run have received.
#[derive(Default)]
struct Seen {
    inspected: Vec<u8>,
    skipped: Vec<BadRange>,
    counts: Vec<u64>,
    records: Vec<u64>,
    times: Vec<Duration>,
    has_stopped: bool,
}

/// Runs one transfer, and checks its result.
pub(super) fn check(scenario: &Scenario) -> Result<(), TestCaseError> {
    check_as(scenario, &scenario.source.bytes(), |_, _| {}).map(|_| ())
}

/// Runs one transfer in a kernel that `tamper` has modified, and checks its result against the
/// bytes `read_as` of the source. Returns the report and the skipped ranges.
pub(super) fn check_as(
    scenario: &Scenario,
    read_as: &[u8],
    tamper: impl FnOnce(&SimKernel, &OwnedFd),
) -> Result<Option<(Report, Vec<BadRange>)>, TestCaseError> {
    let (kernel, source, sink) = scenario.kernel();
    tamper(&kernel, &source);
    let capacities = [&source, &sink].map(|fd| kernel.capacity(fd));
    let mut seen = Seen::default();
    let outcome = run(scenario, &kernel, (&source, &sink), &mut seen);
    let n_bytes = match &outcome {
        Ok(report) => report.bytes(),
        Err(error) => error.as_ref().map_or(0, Error::bytes),
    };
    let delivered = (&sink, &scenario.sink, n_bytes as usize);
    let data = data(
        &kernel,
        (&source, &scenario.source),
        read_as,
        delivered,
        scenario.options.inspected.then_some(&seen.inspected),
        false,
    );
    let checks = Checks {
        scenario,
        data: data.map_err(TestCaseError::fail)?,
        gap: Gap::after(&outcome),
        kernel: &kernel,
        source: &source,
        first_capacity: capacities[0],
        sink: &sink,
        seen: &seen,
    };
    let report = match &outcome {
        Ok(report) => report,
        Err(None) => return checks.nothing_happened().map(|()| None),
        Err(Some(error)) => error.report(),
    };
    checks.bytes_are_conserved(report)?;
    checks.the_sink_holds_them(report)?;
    checks.the_watchers_saw_them(report)?;
    checks.the_records_are_those_of_the_sink(report)?;
    // No strategy counts the write of the zero that ends a hole, and a page that failed to read may
    // be read a second time on its own.
    let is_plain = report.hole_bytes() == 0 && seen.skipped.is_empty();
    if is_plain && matches!(report.ended(), Ended::Eof | Ended::Limit) {
        let is_packet = scenario.source.is_packet;
        let n_returned = if is_packet {
            report.undelivered().len()
        } else {
            0
        };
        let checked = check_calls(&kernel, std::slice::from_ref(report), n_returned);
        checked.map_err(TestCaseError::fail)?;
    }
    match &outcome {
        Ok(report) => checks.the_end_is_true(report)?,
        Err(Some(error)) => checks.the_error_is_true(error)?,
        Err(None) => {}
    }
    let (fds, may_grow) = ([&source, &sink], scenario.options.grow_pipes);
    check_capacities(&kernel, fds.into_iter(), &capacities, may_grow)
        .map_err(TestCaseError::fail)?;
    let report = report.clone();
    Ok(Some((report, seen.skipped)))
}

/// Runs the transfer. The error is `None` if the plan was refused.
fn run(
    scenario: &Scenario,
    kernel: &SimKernel,
    ends: (&OwnedFd, &OwnedFd),
    seen: &mut Seen,
) -> Result<Report, Option<Error>> {
    let Seen {
        inspected,
        skipped,
        counts,
        records,
        times,
        has_stopped,
    } = seen;
    let observe = |progress: &crate::Progress| {
        counts.push(progress.bytes());
        records.push(progress.records());
        times.push(kernel.elapsed());
        if scenario.options.stop_at.is_some_and(|at| counts.len() > at) {
            *has_stopped = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let options = scenario.options();
    let mut callbacks = Callbacks::observing(observe);
    callbacks.on_skip = Some(Box::new(|range| skipped.push(*range)));
    if options.inspected {
        callbacks.inspect = Some(Box::new(|bytes| inspected.extend_from_slice(bytes)));
    }
    let outcome = transfer_with(kernel, ends, options, callbacks);
    outcome.map_err(|error| (!has_not_begun(&error)).then_some(error))
}

struct Checks<'a> {
    scenario: &'a Scenario,
    /// The bytes that the source offered.
    data: Data,
    gap: Gap,
    kernel: &'a SimKernel,
    source: &'a OwnedFd,
    /// The capacity of the source before the transfer.
    first_capacity: usize,
    sink: &'a OwnedFd,
    seen: &'a Seen,
}

impl Checks<'_> {
    /// Returns the bytes that the source offered.
    fn data(&self) -> &[u8] {
        &self.data.bytes
    }

    /// Only a requested strategy can be refused, and then no call is made.
    fn nothing_happened(&self) -> Result<(), TestCaseError> {
        prop_assert!(plan::requested(&self.scenario.options()).is_some());
        prop_assert!(self.kernel.state.borrow().log.is_empty());
        Ok(())
    }

    fn bytes_are_conserved(&self, report: &Report) -> Result<(), TestCaseError> {
        let attempts = report.attempts().iter();
        let by_attempts: u64 = attempts.map(crate::report::Attempt::bytes).sum();
        prop_assert_eq!(by_attempts, report.bytes(), "bytes by strategy");
        let source = &self.scenario.source;
        let ends = (self.source, source);
        let consumed = check_consumed(self.kernel, ends, self.data(), report, self.gap)
            .map_err(TestCaseError::fail)?;
        if source.kind != Kind::Messages
            && let Some(limit) = self.scenario.options.limit
            && let Some(consumed) = consumed
        {
            // A packet is read whole; the part beyond the limit is handed back.
            let surplus = if source.is_packet { PACKET } else { 0 };
            prop_assert!(
                consumed as u64 <= limit + surplus as u64,
                "more was taken than the limit allows"
            );
        }
        Ok(())
    }

    fn the_sink_holds_them(&self, report: &Report) -> Result<(), TestCaseError> {
        let data = self.data();
        let (n, sink) = (report.bytes() as usize, &self.scenario.sink);
        // Holes are not written to `/dev/null`, although the inspector is shown them.
        if sink.kind != Kind::Device || report.hole_bytes() == 0 {
            check_sink(self.kernel, (self.sink, sink), &data[..n], self.gap)
                .map_err(TestCaseError::fail)?;
        }
        let sharing = PageSharing {
            is_forbidden: self.scenario.options.stable,
            source_is_file: self.scenario.source.is_file(),
            is_reported: report.shared_pages(),
        };
        check_pages(self.kernel, self.sink, sharing).map_err(TestCaseError::fail)?;
        check_boundaries(self.kernel, &self.scenario.source, (self.sink, sink))
            .map_err(TestCaseError::fail)
    }

    fn the_watchers_saw_them(&self, report: &Report) -> Result<(), TestCaseError> {
        let (n, seen) = (report.bytes(), self.seen);
        if self.scenario.options.inspected {
            let data = self.data();
            prop_assert!(
                seen.inspected.starts_with(&data[..n as usize]),
                "inspected bytes"
            );
            prop_assert_eq!(seen.inspected.len() as u64, n, "inspected bytes");
        }
        prop_assert!(seen.counts.is_sorted());
        check_ticks(self.kernel, &seen.times, self.scenario.options.tick)
            .map_err(TestCaseError::fail)?;
        let now = self.kernel.elapsed();
        if let Some(rate) = self.scenario.rate()
            && self.scenario.source.kind != Kind::Messages
        {
            let allowed = now.as_nanos() * u128::from(rate);
            // Whole blocks may exceed the rate for a moment.
            let is_direct = self.scenario.source.is_direct || self.scenario.sink.is_direct;
            let ahead = if self.scenario.source.kind == Kind::Pipe {
                self.kernel.longest_overdraft(self.first_capacity)
            } else {
                0
            };
            let ahead = if is_direct {
                ahead.max(2 * BLOCK as u64)
            } else {
                ahead
            };
            // A file may hold more than its size said: a step that expects its end moves a byte.
            let others = &self.scenario.interferences;
            let holds_more = self.scenario.source.claimed_size.is_some()
                || others.iter().any(Interference::changes_source);
            let ahead = ahead + u64::from(holds_more);
            let paced = (n - report.hole_bytes()).saturating_sub(ahead);
            prop_assert!(
                u128::from(paced) * 1_000_000_000 <= allowed,
                "faster than its rate"
            );
        }
        Ok(())
    }

    fn the_records_are_those_of_the_sink(&self, report: &Report) -> Result<(), TestCaseError> {
        let records = self.scenario.options.records;
        let Some(delimiter) = records.delimiter else {
            prop_assert_eq!(report.records(), 0);
            return Ok(());
        };
        // Bytes that were counted before and not delivered in the end were a hole, of which the
        // source may hold nothing any more.
        let mut data = self.data()[..report.bytes() as usize].to_vec();
        let most = self.seen.counts.iter().max().copied();
        data.resize(data.len().max(most.unwrap_or(0) as usize), 0);
        let is_changed = self
            .scenario
            .interferences
            .iter()
            .any(Interference::changes_source);
        let is_hole = is_changed || self.data().starts_with(&data);
        prop_assert!(is_hole, "what was counted and not delivered is no hole");
        let n_in = |from: u64, to: u64| {
            let is_record = |byte: &&u8| **byte == delimiter;
            let bytes = data[from as usize..to as usize].iter();
            bytes.filter(is_record).count() as u64
        };
        prop_assert_eq!(report.records(), n_in(0, report.bytes()), "records");
        let (mut at, mut n) = (0, 0);
        for (bytes, records) in self.seen.counts.iter().zip(&self.seen.records) {
            n += n_in(at, *bytes);
            at = *bytes;
            prop_assert_eq!(*records, n, "records under way");
        }
        if let Some(limit) = records.limit
            && report.records() >= limit
        {
            prop_assert_eq!(report.records(), limit, "records beyond the limit");
            let last = data[..report.bytes() as usize].last();
            let is_behind = last.map_or(limit == 0, |last| *last == delimiter);
            prop_assert!(
                is_behind && (limit > 0 || last.is_none()),
                "bytes behind the nth"
            );
        }
        if let Some(rate) = records.rate
            && self.scenario.source.kind != Kind::Messages
        {
            let allowed = self.kernel.elapsed().as_nanos() * u128::from(rate.get());
            let used = u128::from(report.records()) * 1_000_000_000;
            prop_assert!(used <= allowed, "more records than their rate");
        }
        Ok(())
    }

    fn the_end_is_true(&self, report: &Report) -> Result<(), TestCaseError> {
        let (n, limit) = (report.bytes(), self.scenario.options.limit);
        let (least, most) = (self.data.least as u64, self.data().len() as u64);
        let record_limit = self.scenario.options.records.limit;
        match report.ended() {
            Ended::Eof => {
                prop_assert!((least..=most).contains(&n), "the end came early");
                prop_assert!(limit.is_none_or(|limit| n <= limit));
                prop_assert!(record_limit.is_none_or(|limit| report.records() < limit));
            }
            Ended::Limit if record_limit == Some(report.records()) => {}
            Ended::Limit if self.scenario.source.kind == Kind::Messages => {
                prop_assert!(limit.is_some_and(|limit| n <= limit) || record_limit.is_some());
            }
            Ended::Limit => prop_assert_eq!(Some(n), limit),
            Ended::Stopped => prop_assert!(self.seen.has_stopped, "the observer did not stop it"),
            Ended::TimedOut => prop_assert!(false, "no time limit was set"),
            Ended::NoSink => prop_assert!(false, "its one sink cannot be detached"),
            Ended::Failed => prop_assert!(false, "a success that failed"),
        }
        let mut unreported = self.kernel.state.borrow().errors_reported.clone();
        unreported.retain(|(side, errno)| *side != Side::Sink || !self.is_moot(*errno, n));
        let is_stopped = report.ended() == Ended::Stopped;
        prop_assert!(
            unreported.is_empty() || is_stopped,
            "{unreported:?} was not reported"
        );
        Ok(())
    }

    /// Returns whether a sink returned this errno for the last byte of a hole that was not needed
    /// in the end: another process truncated the source there before zeros could be written
    /// instead.
    fn is_moot(&self, errno: Errno, n: u64) -> bool {
        let cuts = |other: &Interference| matches!(other.action, Action::Truncate(_));
        let mut interferences = self.scenario.interferences.iter();
        let is_cut = interferences.any(|other| other.changes_source() && cuts(other));
        let bad = self.scenario.faults.sink;
        let is_behind = bad.is_some_and(|(at, said)| said == errno && at >= n);
        is_cut && is_behind && self.scenario.options.sparse != Sparse::Fill
    }

    fn the_error_is_true(&self, error: &Error) -> Result<(), TestCaseError> {
        prop_assert!(!error.is_refused());
        let state = self.kernel.state.borrow();
        if error.is_unsuitable() {
            let requested = plan::requested(&self.scenario.options());
            prop_assert!(requested.is_some(), "{error:#}");
            return Ok(());
        }
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let is_true = match (error.side(), errno) {
            (_, Some(Errno::INTR)) => false,
            (Side::Sink, None) => state.log.contains(&(Call::Write, Ok(0))),
            (Side::Source, Some(Errno::AGAIN)) => self.scenario.source.timeout.is_some(),
            (Side::Sink, Some(Errno::AGAIN)) => self.scenario.sink.timeout.is_some(),
            (side, Some(errno)) if state.errors_reported.contains(&(side, errno)) => true,
            // The source fails for one reason, and the call failed for another.
            (Side::Neither, Some(errno)) => {
                let reported = &state.errors_reported;
                let differs =
                    |(side, other): &(Side, Errno)| *side == Side::Source && *other != errno;
                reported.contains(&(Side::Sink, errno)) && reported.iter().any(differs)
            }
            // A requested strategy that has moved bytes takes these errnos for a limit of the sink,
            // and `EPERM` for one of the source if the sink takes everything.
            (side, Some(errno @ (Errno::PERM | Errno::FBIG))) => {
                let takes_all = matches!(self.scenario.sink.kind, Kind::Device | Kind::Pipe);
                let expected = match errno {
                    Errno::PERM if takes_all && self.scenario.source.kind != Kind::Pipe => {
                        Side::Source
                    }
                    _ => Side::Sink,
                };
                let is_requested = plan::requested(&self.scenario.options()).is_some();
                side == expected && error.bytes() > 0 && is_requested
            }
            _ => false,
        };
        prop_assert!(
            is_true,
            "{error:#} on {:?}, but the kernel returned {:?}",
            error.side(),
            state.errors_reported
        );
        Ok(())
    }
}
