//! Properties of every fan-out, with random faults.

use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use proptest::prelude::*;

use super::scenario::{Several, SinkCase, scenarios, scenarios_with};
use crate::context::MAX_TIMES_BLOCKED;
use crate::error::Error;
use crate::options::OnSinkError;
use crate::pipe;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::oracle::{
    Data, Gap, PageSharing, check_boundaries, check_calls, check_capacities, check_consumed,
    check_pages, check_sink, check_ticks, data,
};
use crate::sim::queue::PACKET;
use crate::sim::run::{Callbacks, fan_out_with, has_not_begun};
use crate::sim::scenario::{Driver, Kind};
use crate::sim::script::Call;
use crate::strategy::Strategy;
use crate::sys::Errno;
use zcopy_fuzz::holds_for_all;

/// Enough cases for every kind of sink in every role; `PROPTEST_CASES` sets another number.
const CASES: u32 = 1000;

#[test]
fn every_sink_holds_a_prefix_and_what_some_lack_is_handed_back_once_and_in_order() {
    holds_for_all(scenarios(), CASES, check);
}

#[test]
fn no_reader_loses_a_part_of_a_packet() {
    let scenarios = scenarios_with(|scenario| {
        let source = &mut scenario.source;
        (source.kind, source.is_packet, source.len) = (Kind::Pipe, true, source.len + 100_000);
        let sink = &mut scenario.sinks[0].end;
        (sink.kind, sink.is_packet, sink.chunks) = (Kind::Pipe, false, vec![1000; 1000]);
        (scenario.options.inspected, scenario.options.limit) = (false, None);
    });
    holds_for_all(scenarios, CASES, check);
}

/// What the callbacks of a run have received.
#[derive(Default)]
struct Seen {
    inspected: Vec<u8>,
    counts: Vec<u64>,
    times: Vec<Duration>,
    has_stopped: bool,
    detached: Vec<usize>,
}

/// Runs one fan-out, and checks its result.
fn check(scenario: &Several) -> Result<(), TestCaseError> {
    let (kernel, source, sinks) = scenario.kernel();
    let pipes = || std::iter::once(&source).chain(&sinks);
    let capacities: Vec<_> = pipes().map(|fd| kernel.capacity(fd)).collect();
    let mut seen = Seen::default();
    let outcome = run(scenario, &kernel, (&source, &sinks), &mut seen);
    let report = match &outcome {
        Ok(report) => Some(report),
        Err(error) => error.as_ref().map(Error::report),
    };
    // Every sink holds a prefix of the bytes of the sink that has the most.
    let accepted = |index: usize| {
        let sink = report.and_then(|report| report.sinks().get(index));
        sink.map_or(0, |sink| sink.bytes() as usize)
    };
    let first = (0..sinks.len()).max_by_key(|index| accepted(*index));
    let first = first.ok_or_else(|| TestCaseError::fail("it has no sink"))?;
    let delivered = (&sinks[first], &scenario.sinks[first].end, accepted(first));
    let ends = (&source, &scenario.source);
    // A file is rewound over bytes that are not handed back in the report. At the end all sinks
    // have the same bytes; before, some may have more.
    let is_given_back = report.is_some_and(|report| {
        let is_over = matches!(report.ended(), Ended::Eof | Ended::Limit);
        scenario.source.is_file() && !is_over && report.undelivered().is_empty()
    });
    let bytes = scenario.source.bytes();
    let data = data(&kernel, ends, &bytes, delivered, None, is_given_back);
    let checks = Checks {
        scenario,
        data: data.map_err(TestCaseError::fail)?,
        gap: Gap::after(&outcome),
        kernel: &kernel,
        source: &source,
        first_capacity: capacities[0],
        sinks: &sinks,
        seen: &seen,
    };
    let report = match &outcome {
        Ok(report) => report,
        Err(None) => return checks.nothing_happened(),
        Err(Some(error)) => error.report(),
    };
    checks.every_sink_holds_a_prefix(report)?;
    checks.the_count_is_that_of_the_last(report)?;
    checks.bytes_are_conserved(report)?;
    checks.the_watchers_saw_them(report)?;
    checks.the_end_is_true(&outcome, report)?;
    checks.the_errors_are_true(&outcome, report)?;
    if matches!(report.ended(), Ended::Eof | Ended::Limit) {
        let is_packet = scenario.source.is_packet;
        let n_returned = if is_packet {
            report.undelivered().len()
        } else {
            0
        };
        let checked = check_calls(&kernel, std::slice::from_ref(report), n_returned);
        checked.map_err(TestCaseError::fail)?;
    }
    check_capacities(&kernel, pipes(), &capacities, scenario.options.grow_pipes)
        .map_err(TestCaseError::fail)?;
    checks.sleeps_come_of_spurious_wakeups()?;
    let opened = kernel.results(Call::Pipe);
    let n_opened = opened.iter().filter(|answer| answer.is_ok()).count();
    // Another pipe is opened and closed to find out whether a FIFO has a writer.
    let may_lack_writer = scenario.source.kind == Kind::Pipe && scenario.source.is_nonblocking;
    // Once no pipe is shared any more, that of the backlog is closed; another one removes parts of
    // packets from the source.
    let has_refused = kernel.has_refused_a_splice() || kernel.has_refused_a_tee();
    let may_read_parts = scenario.source.kind == Kind::Pipe && has_refused;
    // Packets are looked for in a pipe of their own.
    let mut kinds = scenario.sinks.iter().map(|sink| sink.end.kind);
    let may_pass_packets = scenario.source.kind == Kind::Pipe && kinds.any(|it| it == Kind::Pipe);
    // A pipe that is too small to share bytes may still keep a packet whole.
    let may_be_small = scenario.source.kind == Kind::Pipe
        && scenario.faults.pipe_capacity < pipe::DEFAULT_CAPACITY;
    let more = [
        may_lack_writer,
        may_read_parts,
        may_pass_packets,
        may_be_small,
    ];
    let more = more.map(usize::from);
    let n_allowed = sinks.len() + 1 + more.iter().sum::<usize>();
    prop_assert!(n_opened <= n_allowed, "{} pipes", n_opened);
    Ok(())
}

/// The result of a fan-out. The error is `None` if the plan was refused.
type Outcome = Result<Report, Option<Error>>;

fn run(
    scenario: &Several,
    kernel: &SimKernel,
    (source, sinks): (&OwnedFd, &[OwnedFd]),
    seen: &mut Seen,
) -> Outcome {
    let Seen {
        inspected,
        counts,
        times,
        has_stopped,
        detached,
    } = seen;
    let observe = |progress: &crate::Progress| {
        counts.push(progress.bytes());
        times.push(kernel.elapsed());
        if scenario.options.stop_at.is_some_and(|at| counts.len() > at) {
            *has_stopped = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let decide = |sink: &crate::SinkReport| {
        if scenario.sinks[sink.index()].detaches {
            detached.push(sink.index());
            return OnSinkError::Detach;
        }
        OnSinkError::Stop
    };
    let options = scenario.options();
    let mut callbacks = Callbacks::observing(observe);
    callbacks.on_sink_error = Some(Box::new(decide));
    if options.inspected {
        callbacks.inspect = Some(Box::new(|bytes| inspected.extend_from_slice(bytes)));
    }
    let outcome = fan_out_with(kernel, (source, sinks), options, callbacks);
    outcome.map_err(|error| (!has_not_begun(&error)).then_some(error))
}

struct Checks<'a> {
    scenario: &'a Several,
    /// The bytes that the source offered.
    data: Data,
    gap: Gap,
    kernel: &'a SimKernel,
    source: &'a OwnedFd,
    /// The capacity of the source before the transfer.
    first_capacity: usize,
    sinks: &'a [OwnedFd],
    seen: &'a Seen,
}

impl Checks<'_> {
    /// A fan-out sleeps only for a rate limit, or after repeated `EAGAIN` from descriptors that
    /// poll as ready. A poll that a signal interrupts has found no descriptor ready.
    fn sleeps_come_of_spurious_wakeups(&self) -> Result<(), TestCaseError> {
        let state = self.kernel.state.borrow();
        let (mut n_blocked, mut most_blocked) = (0, 0);
        for answer in &state.log {
            match answer {
                (Call::Poll, Err(Errno::INTR)) | (_, Err(Errno::AGAIN)) => n_blocked += 1,
                (Call::Read | Call::Write | Call::Splice | Call::Tee, Ok(1..)) => n_blocked = 0,
                _ => {}
            }
            most_blocked = most_blocked.max(n_blocked);
        }
        let is_alone = self.scenario.interferences.is_empty();
        let is_rate_limited = self.scenario.options.rate.is_some();
        let may_block = match self.scenario.options.driver {
            // A task sleeps after four waits that were over at once, those for a tick among them.
            Driver::Task { .. } => 0,
            _ => MAX_TIMES_BLOCKED,
        };
        let may_pause = is_rate_limited || most_blocked > may_block || !is_alone;
        prop_assert!(
            state.n_sleeps == 0 || may_pause,
            "{} sleeps, though no more than {most_blocked} calls in a row blocked",
            state.n_sleeps
        );
        Ok(())
    }

    /// Only a requested strategy can be refused, and then no call is made.
    fn nothing_happened(&self) -> Result<(), TestCaseError> {
        prop_assert!(self.scenario.strategy == Some(Strategy::Tee));
        prop_assert!(self.kernel.state.borrow().log.is_empty());
        Ok(())
    }

    fn every_sink_holds_a_prefix(&self, report: &Report) -> Result<(), TestCaseError> {
        let data = &self.data.bytes;
        prop_assert_eq!(report.sinks().len(), self.sinks.len());
        for (index, (fd, SinkCase { end, .. })) in
            self.sinks.iter().zip(&self.scenario.sinks).enumerate()
        {
            let sink_report = &report.sinks()[index];
            prop_assert_eq!(sink_report.index(), index);
            let n = sink_report.bytes() as usize;
            prop_assert!(n <= data.len(), "sink {} took {} bytes", index, n);
            let gap = match sink_report.error() {
                Some(_) => Gap::InLastReservation,
                None => self.gap,
            };
            let checked = check_sink(self.kernel, (fd, end), &data[..n], gap);
            checked.map_err(|why| TestCaseError::fail(format!("sink {index}: {why}")))?;
            let sharing = PageSharing {
                is_forbidden: self.scenario.options.stable,
                source_is_file: self.scenario.source.is_file(),
                is_reported: report.shared_pages(),
            };
            check_pages(self.kernel, fd, sharing).map_err(TestCaseError::fail)?;
            check_boundaries(self.kernel, &self.scenario.source, (fd, end))
                .map_err(TestCaseError::fail)?;
        }
        Ok(())
    }

    /// The count is the least of the sinks that are left, or that of the sink detached last if none
    /// is left.
    fn the_count_is_that_of_the_last(&self, report: &Report) -> Result<(), TestCaseError> {
        let detached = &self.seen.detached;
        let left = report.sinks().iter();
        let left = left.filter(|sink| !detached.contains(&sink.index()));
        let least = left.map(crate::SinkReport::bytes).min();
        let of_last = detached.last().map(|index| report.sinks()[*index].bytes());
        prop_assert_eq!(Some(report.bytes()), least.or(of_last));
        for sink in report.sinks() {
            prop_assert_eq!(sink.ahead(), sink.bytes().saturating_sub(report.bytes()));
        }
        let by_attempts: u64 = report.attempts().iter().map(crate::Attempt::bytes).sum();
        prop_assert_eq!(report.bytes(), by_attempts, "{}", report);
        Ok(())
    }

    fn bytes_are_conserved(&self, report: &Report) -> Result<(), TestCaseError> {
        let (source, data) = (&self.scenario.source, &self.data.bytes);
        let consumed = check_consumed(self.kernel, (self.source, source), data, report, self.gap)
            .map_err(TestCaseError::fail)?;
        if let Some(limit) = self.scenario.options.limit
            && let Some(consumed) = consumed
        {
            let most = report.sinks().iter().map(crate::SinkReport::bytes).max();
            let most = most.max(Some(consumed as u64));
            // A packet is read whole; the part beyond the limit is handed back.
            let surplus = if source.is_packet { PACKET } else { 0 };
            let most_allowed = limit + surplus as u64;
            prop_assert!(
                most <= Some(most_allowed),
                "more was taken than the limit allows"
            );
        }
        Ok(())
    }

    fn the_watchers_saw_them(&self, report: &Report) -> Result<(), TestCaseError> {
        let (n, seen) = (report.bytes(), self.seen);
        if self.scenario.options.inspected {
            let data = &self.data.bytes;
            prop_assert_eq!(seen.inspected.len() as u64, n, "inspected bytes");
            prop_assert!(data.starts_with(&seen.inspected), "inspected bytes");
        }
        if let Some(delimiter) = self.scenario.options.records.delimiter {
            let data = &self.data.bytes;
            let is_record = |byte: &&u8| **byte == delimiter;
            let n_records = data[..n as usize].iter().filter(is_record).count();
            prop_assert_eq!(report.records(), n_records as u64, "records");
        }
        prop_assert!(seen.counts.is_sorted());
        check_ticks(self.kernel, &seen.times, self.scenario.options.tick)
            .map_err(TestCaseError::fail)?;
        let now = self.kernel.elapsed();
        if let Some(rate) = self.scenario.rate()
            && self.scenario.source.kind != Kind::Messages
        {
            let allowed = now.as_nanos() * u128::from(rate);
            let ahead = if self.scenario.source.kind == Kind::Pipe {
                self.kernel.longest_overdraft(self.first_capacity)
            } else {
                0
            };
            // A file may hold more than its size says: a step that expects its end moves a byte.
            let ahead = ahead + u64::from(self.scenario.source.claimed_size.is_some());
            prop_assert!(
                u128::from(n.saturating_sub(ahead)) * 1_000_000_000 <= allowed,
                "faster than its rate"
            );
        }
        Ok(())
    }

    fn the_end_is_true(&self, outcome: &Outcome, report: &Report) -> Result<(), TestCaseError> {
        let (n, limit) = (report.bytes(), self.scenario.options.limit);
        prop_assert_eq!(outcome.is_err(), report.ended() == Ended::Failed);
        let all_are_gone = self.seen.detached.len() == self.sinks.len();
        match report.ended() {
            Ended::Eof => {
                let lens = self.data.least as u64..=self.data.bytes.len() as u64;
                prop_assert!(lens.contains(&n), "the end came early");
                prop_assert!(limit.is_none_or(|limit| n <= limit));
            }
            Ended::Limit if self.scenario.source.kind == Kind::Messages => {
                prop_assert!(limit.is_some_and(|limit| n <= limit));
            }
            Ended::Limit => prop_assert_eq!(Some(n), limit),
            Ended::Stopped => prop_assert!(self.seen.has_stopped, "the observer did not stop it"),
            Ended::TimedOut => prop_assert!(false, "no time limit was set"),
            Ended::NoSink => prop_assert!(all_are_gone, "a sink is left"),
            Ended::Failed => {}
        }
        Ok(())
    }

    /// Every error is reported for the sink that returned it, and for no other.
    fn the_errors_are_true(&self, outcome: &Outcome, report: &Report) -> Result<(), TestCaseError> {
        let state = self.kernel.state.borrow();
        let has_returned =
            |fd: &OwnedFd, errno| state.errors_by_fd.contains(&(fd.as_raw_fd(), errno));
        let run_error = outcome.as_ref().err().and_then(Option::as_ref);
        if let Some(error) = run_error {
            prop_assert!(!error.is_refused());
            if error.is_unsuitable() {
                prop_assert!(self.scenario.strategy == Some(Strategy::Tee), "{error:#}");
            } else {
                let errno = error.raw_os_error().map(Errno::from_raw_os_error);
                let is_true = match (error.side(), errno) {
                    (Side::Source, Some(Errno::AGAIN)) => self.scenario.source.timeout.is_some(),
                    (Side::Source, Some(errno)) => has_returned(self.source, errno),
                    (Side::Sink, _) => {
                        let failed = report.sinks().iter();
                        let failed = failed.filter(|sink| {
                            sink.error().is_some() && !self.seen.detached.contains(&sink.index())
                        });
                        let errnos = failed.filter_map(|sink| Some(sink.error()?.raw_os_error()));
                        let errnos: Vec<_> = errnos.collect();
                        // At the end other disks may fail too.
                        let is_alone = errnos.len() == 1 || self.scenario.faults.disk_fails;
                        is_alone && errnos.contains(&error.raw_os_error())
                    }
                    // Bytes read past an urgent byte are written into the private pipe.
                    (Side::Neither, None) => state.log.contains(&(Call::Write, Ok(0))),
                    _ => false,
                };
                prop_assert!(
                    is_true,
                    "{error:#}, but the kernel returned {:?}",
                    state.errors_reported
                );
            }
        }
        for (index, sink) in report.sinks().iter().enumerate() {
            let errno = sink.error().map(|error| error.raw_os_error());
            let SinkCase { end, .. } = &self.scenario.sinks[index];
            let is_true = match errno.map(|errno| errno.map(Errno::from_raw_os_error)) {
                None => !self.seen.detached.contains(&index),
                Some(None) => state.log.contains(&(Call::Write, Ok(0))),
                Some(Some(Errno::AGAIN)) => end.timeout.is_some(),
                Some(Some(Errno::PIPE)) if self.scenario.watches => true,
                Some(Some(errno)) => has_returned(&self.sinks[index], errno),
            };
            prop_assert!(
                is_true,
                "{sink}, but the kernel returned {:?}",
                state.errors_by_fd
            );
        }
        // No error is ignored, except those of calls that another strategy replaced.
        let is_over = matches!(report.ended(), Ended::Eof | Ended::Limit);
        for (fd, errno) in state.errors_by_fd.iter().filter(|_| is_over) {
            let index = self.sinks.iter().position(|sink| sink.as_raw_fd() == *fd);
            let index = index.ok_or_else(|| TestCaseError::fail("the source failed"))?;
            let error = report.sinks()[index].error();
            let has_failed = error.is_some();
            let first = error.and_then(|error| error.raw_os_error());
            // A write may return the errno of a refused splice again, or another one first.
            let is_refusal = !Strategy::Splice.is_fatal(*errno);
            let is_late = self.scenario.faults.disk_fails && *errno == Errno::IO;
            let is_reported =
                first == Some(errno.raw_os_error()) || has_failed && (is_late || is_refusal);
            prop_assert!(is_reported, "{errno} of sink {index} was not reported");
        }
        Ok(())
    }
}
