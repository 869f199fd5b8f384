//! Properties of random filters, with random sources and random faults.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::makers::{Maker, Watched};
use super::{finish, run};
use crate::engine::FilterState;
use crate::error::Error;
use crate::filter::Remaining;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::arbitrary::{scenarios, source_specs};
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::oracle::{self, Gap, check_calls, check_sink, n_read};
use crate::sim::scenario::{Driver, Faults, Kind, Scenario, SourceSpec};
use crate::sim::script::Call;
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};
use zcopy_fuzz::holds_for_all;

/// Fewer cases than for transfers: a filter has fewer options, and each case has two sources.
const CASES: u32 = 300;

/// Returns a bound on the number of calls that only a busy loop exceeds: the sources hold less than
/// a megabyte together, and the filter's output is less than three.
const MAX_CALLS: usize = 5000;

/// Two sources, of which the second has no faults of its own, and a sink.
#[derive(Clone, Debug)]
struct FilterCase {
    scenario: Scenario,
    second: SourceSpec,
    maker: Maker,
}

fn filter_cases() -> impl prop::strategy::Strategy<Value = FilterCase> {
    let makers = prop_oneof![
        2 => Just(Maker::Same),
        2 => Just(Maker::Twice),
        2 => (1000..60_000_usize).prop_map(Maker::Thrice),
        4 => Just(Maker::Lines),
        1 => Just(Maker::Nothing),
        1 => Just(Maker::Count { n: 0, has_counted: false }),
        1 => Just(Maker::Idle),
    ];
    (scenarios(), source_specs(), makers).prop_map(|(mut scenario, mut second, maker)| {
        for source in [&mut scenario.source, &mut second] {
            source.is_positional = false;
            source.is_direct &= source.is_file();
            if source.kind == Kind::Device {
                // The device has no end.
                source.kind = Kind::Pipe;
            }
        }
        scenario.sink.is_positional = false;
        scenario.options.tick = None;
        scenario.options.rate = None;
        // A filter has no steps for its caller.
        scenario.options.driver = Driver::Library;
        scenario.drop_infeasible_interferences();
        // The property does not check what a filter was shown of a source that changes.
        scenario.interferences.retain(|other| {
            matches!(other.target, Target::Sink(_)) || matches!(other.action, Action::Read(_))
        });
        let is_read = |other: &Interference| matches!(other.action, Action::Read(_));
        if scenario.interferences.iter().any(is_read) {
            // A source that other processes read is not rewound.
            scenario.faults.sink = None;
        }
        FilterCase {
            scenario,
            second,
            maker,
        }
    })
}

#[test]
fn the_sink_holds_what_was_made_of_what_was_taken_and_the_rest_is_where_it_was() {
    holds_for_all(filter_cases(), CASES, check);
}

/// The oracle took a position that a filter had reached for one behind its output.
#[test]
fn what_others_write_among_the_last_of_a_long_output_is_found_there() {
    for sink in [Kind::Stream, Kind::File] {
        let mut scenario = Scenario::plain(Kind::File, 500_000, sink);
        let second = scenario.source.clone();
        for nth in (0..18).step_by(3) {
            let writes = Action::Write(1);
            let other = Interference::before(Call::Write, nth, Target::Sink(0), writes);
            scenario.interferences = vec![other];
            let case = FilterCase {
                scenario: scenario.clone(),
                second: second.clone(),
                maker: Maker::Thrice(60_000),
            };
            check(&case).unwrap();
        }
    }
}

/// Runs one case, and checks the result after each source.
fn check(case: &FilterCase) -> Result<(), TestCaseError> {
    let FilterCase {
        scenario,
        second,
        maker,
    } = case;
    let (kernel, first, sink) = scenario.kernel();
    let sources = [
        (first, &scenario.source),
        (another(&kernel, scenario, second), second),
    ];
    kernel.state.borrow_mut().max_calls = MAX_CALLS;
    let written = || kernel.results(Call::Write).into_iter().flatten().sum();
    let mut filter = Watched::new(*maker, &written);
    let mut state = FilterState::new();
    let mut delivered = Vec::new();
    let mut gap = Gap::Never;
    let mut reports = Vec::new();
    for (source, end) in &sources {
        let (taken, left) = (filter.taken.len(), filter.left.clone());
        let result = run(&kernel, (source, &sink), &mut filter, &mut state);
        is_true(scenario, Some(end), &kernel, &result)?;
        gap = gap.max(Gap::after(&result));
        arrives(&result, &mut filter, &mut delivered)?;
        holds(scenario, &kernel, &sink, &delivered, gap)?;
        let taken = &filter.taken[taken..];
        let by = result.as_ref().err().map(Error::side);
        filter.has_failed = by.is_some_and(|side| side != Side::Source);
        filter.left = stays(&kernel, (source, end), (&left, taken), &filter)?;
        prop_assert!(result.is_err() || is_read_out(&kernel, source, end));
        if !filter.has_failed {
            prop_assert_eq!(filter.asked, Some(Remaining::More));
        }
        reports.extend(result);
    }
    let result = finish(&kernel, &sink, &mut filter, &mut state);
    is_true(scenario, None, &kernel, &result)?;
    gap = gap.max(Gap::after(&result));
    arrives(&result, &mut filter, &mut delivered)?;
    holds(scenario, &kernel, &sink, &delivered, gap)?;
    let expected = maker.makes(&filter.taken, true);
    if result.is_ok() {
        prop_assert!(filter.left.is_empty());
        prop_assert_eq!(filter.asked, Some(Remaining::End));
        prop_assert!(filter.made == expected);
    }
    reports.extend(result);
    if reports.len() == sources.len() + 1 {
        check_calls(&kernel, &reports, 0).map_err(TestCaseError::fail)?;
    }
    let is_over = filter.made == expected;
    prop_assert!(is_over || filter.made == maker.makes(&filter.taken, false));
    Ok(())
}

/// The second source, which does not fail.
fn another(kernel: &SimKernel, scenario: &Scenario, end: &SourceSpec) -> OwnedFd {
    let faults = Faults {
        source: None,
        ..scenario.faults.clone()
    };
    let mut flags = OFlags::empty();
    flags.set(OFlags::NONBLOCK, end.is_nonblocking);
    flags.set(
        OFlags::DIRECT,
        end.is_direct || end.is_packet && end.kind == Kind::Pipe,
    );
    let source = kernel.source(end.object(&faults), flags);
    end.send_pages(kernel, &source);
    kernel.set_cursor(&source, start(end));
    kernel.state.borrow_mut().has_proc |= end.is_direct;
    source
}

fn start(end: &SourceSpec) -> u64 {
    if end.is_file() { end.start } else { 0 }
}

fn is_read_out(kernel: &SimKernel, source: &OwnedFd, end: &SourceSpec) -> bool {
    if end.is_file() {
        kernel.cursor(source) >= end.len as u64
    } else {
        kernel.contents(source).is_empty()
    }
}

/// Checks that the report counts the output since the last run, and that nothing else is lost.
fn arrives(
    result: &Result<Report, Error>,
    filter: &mut Watched<'_>,
    delivered: &mut Vec<u8>,
) -> Result<(), TestCaseError> {
    let report = result.as_ref().unwrap_or_else(Error::report);
    let made = &filter.made[delivered.len() + filter.lost..];
    prop_assert!(report.bytes() <= made.len() as u64);
    let (accepted, lost) = made.split_at(report.bytes() as usize);
    prop_assert!(report.undelivered() == lost);
    prop_assert!(result.is_err() || lost.is_empty());
    delivered.extend_from_slice(accepted);
    filter.lost += lost.len();
    let by_attempts = report.attempts().iter().map(crate::Attempt::bytes);
    prop_assert_eq!(by_attempts.sum::<u64>(), report.bytes());
    prop_assert_eq!(report.strategy(), Some(Strategy::Buffered));
    prop_assert_eq!(report.ended() == Ended::Eof, result.is_ok());
    Ok(())
}

/// Checks that the sink holds what it has accepted, and that nothing else has changed.
fn holds(
    scenario: &Scenario,
    kernel: &SimKernel,
    sink: &OwnedFd,
    delivered: &[u8],
    gap: Gap,
) -> Result<(), TestCaseError> {
    check_sink(kernel, (sink, &scenario.sink), delivered, gap).map_err(TestCaseError::fail)
}

/// Checks that each byte that was not consumed is still in the source or in the input buffer.
/// Returns the bytes in the buffer.
fn stays(
    kernel: &SimKernel,
    (source, end): (&OwnedFd, &SourceSpec),
    (waited, taken): (&[u8], &[u8]),
    filter: &Watched<'_>,
) -> Result<Vec<u8>, TestCaseError> {
    let mut data = end.bytes();
    for (place, piece) in oracle::read(kernel, source).iter().rev() {
        data.drain(*place as usize..*place as usize + piece.len());
    }
    let data = data.split_off((start(end) as usize).min(data.len()));
    let (gone, left) = if end.is_file() {
        let cursor = kernel.cursor(source).saturating_sub(n_read(kernel, source));
        let gone = cursor.saturating_sub(start(end)) as usize;
        let n_taken = taken.len().min(waited.len());
        let is_rewound = gone == taken.len() - n_taken;
        let left = if filter.has_failed && is_rewound {
            waited[n_taken..].to_vec()
        } else if filter.has_failed {
            // The source is rewound only over bytes that a read finds before the cursor.
            let reads = kernel.results(Call::Read);
            let is_unknown = reads.iter().any(|answer| !matches!(answer, Ok(1..)));
            prop_assert!(is_unknown || n_read(kernel, source) > 0, "it is rewound");
            // At its end a run reads the reserved bytes into the buffer. The next run filters them.
            let left = [waited, &data[..gone]].concat().split_off(taken.len());
            prop_assert!(left.starts_with(&filter.left));
            left
        } else {
            filter.left.clone()
        };
        (gone, left)
    } else {
        let gone = data.len() - kernel.contents(source).len();
        (gone, filter.left.clone())
    };
    let found = [taken, &left].concat();
    let expected = [waited, &data[..gone]].concat();
    prop_assert_eq!(found.len(), expected.len());
    prop_assert!(found == expected);
    Ok(left)
}

/// Checks that an error is one that the kernel has returned.
fn is_true(
    scenario: &Scenario,
    source: Option<&SourceSpec>,
    kernel: &SimKernel,
    result: &Result<Report, Error>,
) -> Result<(), TestCaseError> {
    let state = kernel.state.borrow();
    let Err(error) = result else {
        return Ok(());
    };
    prop_assert!(!error.is_refused() && !error.is_unsuitable());
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_true = match (errno, error.side()) {
        (None, Side::Neither) => {
            error.call().is_none() && error.io_error_kind() == ErrorKind::Other
        }
        (None, _) => state.log.contains(&(Call::Write, Ok(0))),
        (Some(Errno::INTR), _) => false,
        (Some(Errno::AGAIN), Side::Source) => source.is_some_and(|end| end.timeout.is_some()),
        (Some(Errno::AGAIN), _) => scenario.sink.timeout.is_some(),
        (Some(errno), side) => state.errors_reported.contains(&(side, errno)),
    };
    prop_assert!(
        is_true,
        "{:#}, but the kernel returned {:?}",
        error,
        state.errors_reported
    );
    Ok(())
}
