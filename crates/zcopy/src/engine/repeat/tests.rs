//! Endless repetitions of a pattern, in the simulated kernel.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::Repeat;
use crate::context::MAX_TIMES_BLOCKED;
use crate::error::Error;
use crate::options::Options;
use crate::plan;
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::arbitrary::scenarios;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::objects::{Object, patterned};
use crate::sim::oracle::{Gap, check_sink};
use crate::sim::run::attempts;
use crate::sim::scenario::{Driver, Kind, Scenario};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};
use zcopy_fuzz::holds_for_all;

/// Fewer cases than for transfers: a repetition has fewer options, and takes longer.
const CASES: u32 = 600;

/// Repeats a pattern in the simulated kernel, as `Repeat::run` does in the real one.
fn repeat_watched(
    kernel: &SimKernel,
    pattern: &[u8],
    sink: &OwnedFd,
    options: Options,
    observe: impl FnMut(&Progress) -> ControlFlow<()> + Send,
) -> Result<Report, Error> {
    let mut repeat = Repeat::new(pattern).with_options(options);
    if options.observed {
        repeat = repeat.observe(observe);
    }
    repeat.run_with(kernel, sink.as_fd())
}

/// Repeats a pattern up to a limit, without an observer.
fn repeat(kernel: &SimKernel, pattern: &[u8], sink: &OwnedFd, limit: usize) -> Report {
    let options = Options {
        limit: Some(limit as u64),
        ..Options::default()
    };
    let observe = |_: &Progress| ControlFlow::Continue(());
    repeat_watched(kernel, pattern, sink, options, observe).unwrap()
}

/// Returns the first `len` bytes of the endless repetition.
fn endless(pattern: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = pattern.repeat(len.div_ceil(pattern.len()));
    bytes.truncate(len);
    bytes
}

/// A random repetition: a random transfer whose source is replaced by a pattern.
#[derive(Clone, Debug)]
struct Repetition {
    scenario: Scenario,
    pattern_len: usize,
    limit: u64,
}

fn repetitions() -> impl prop::strategy::Strategy<Value = Repetition> {
    let lens = prop_oneof![
        4 => 1..400_usize,
        2 => 4095..4098_usize,
        2 => (32 << 10) - 1..(32 << 10) + 2_usize,
        2 => 1..300_000_usize,
    ];
    let limits = prop_oneof![1 => 0..10_u64, 2 => 0..300_000_u64, 4 => 250_000..900_000_u64];
    (scenarios(), any::<bool>(), lens, limits).prop_map(
        |(mut scenario, is_pipe, pattern_len, limit)| {
            scenario.sink.is_positional = false;
            // A repetition has no steps for its caller.
            scenario.options.driver = Driver::Library;
            if is_pipe {
                (scenario.sink.kind, scenario.sink.appends) = (Kind::Pipe, false);
            }
            scenario.drop_infeasible_interferences();
            let strategy = scenario.options.strategy;
            scenario.options.strategy = strategy.map(|strategy| match strategy {
                Strategy::Buffered => Strategy::Buffered,
                _ => Strategy::Tee,
            });
            Repetition {
                scenario,
                pattern_len,
                limit,
            }
        },
    )
}

#[test]
fn the_sink_holds_the_beginning_of_the_endless_repetition_and_the_count_is_its_length() {
    holds_for_all(repetitions(), CASES, check);
}

/// Runs one repetition, and checks its result.
fn check(repetition: &Repetition) -> Result<(), TestCaseError> {
    let Repetition {
        scenario,
        pattern_len,
        limit,
    } = repetition;
    let (kernel, _source, sink) = scenario.kernel();
    kernel.state.borrow_mut().max_calls = max_calls(*pattern_len, *limit as usize);
    let pattern = patterned(*pattern_len);
    let rate = scenario.options.rate.map(|times| times * (limit + 1));
    let options = Options {
        limit: Some(*limit),
        rate_limit: rate.and_then(NonZeroU64::new),
        observed: true,
        grow_pipes: scenario.options.grow_pipes,
        tick: scenario.options.tick.map(Duration::from_millis),
        strategy: scenario.options.strategy,
        ..Options::default()
    };
    let before = kernel.capacity(&sink);
    let (mut counts, mut times, mut has_stopped) = (vec![0], vec![Duration::ZERO], false);
    let observe = |progress: &Progress| {
        counts.push(progress.bytes());
        times.push(kernel.elapsed());
        if scenario.options.stop_at.is_some_and(|at| counts.len() > at) {
            has_stopped = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let result = repeat_watched(&kernel, &pattern, &sink, options, observe);
    let attempts = result.as_ref().unwrap_or_else(Error::report).attempts();
    if attempts.is_empty() && result.as_ref().is_err_and(Error::is_unsuitable) {
        prop_assert_eq!(options.strategy, Some(Strategy::Tee));
        prop_assert!(kernel.state.borrow().log.is_empty());
        return Ok(());
    }
    let report = result.as_ref().unwrap_or_else(Error::report);
    let ours = endless(&pattern, report.bytes() as usize);
    check_sink(&kernel, (&sink, &scenario.sink), &ours, Gap::after(&result))
        .map_err(TestCaseError::fail)?;
    let by_attempts = report.attempts().iter().map(crate::Attempt::bytes);
    prop_assert_eq!(by_attempts.sum::<u64>(), report.bytes());
    prop_assert_eq!(report.undelivered(), b"", "bytes are handed back");
    prop_assert!(counts.is_sorted());
    let after = kernel.capacity(&sink);
    prop_assert!(after == before || after > before && options.grow_pipes);
    times.push(kernel.elapsed());
    if let Some(tick) = options.tick {
        let mut gaps = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        prop_assert!(gaps.all(|gap| gap <= tick), "a gap without a tick");
    }
    if let Some(rate) = rate {
        let allowed = kernel.elapsed().as_nanos() * u128::from(rate);
        let moved = u128::from(report.bytes()) * 1_000_000_000;
        prop_assert!(moved <= allowed, "faster than its rate");
    }
    match &result {
        Ok(report) if report.ended() == Ended::Limit => {
            prop_assert_eq!(report.bytes(), *limit);
            prop_assert!(kernel.state.borrow().errors_reported.is_empty());
        }
        Ok(report) => prop_assert!(has_stopped && report.ended() == Ended::Stopped),
        Err(error) => is_true(scenario, &kernel, error)?,
    }
    Ok(())
}

/// Returns a bound on the number of calls that only a busy loop exceeds. A short tee moves as
/// little as one repetition, for which it takes a tee and a splice, and a try and a poll more if
/// the sink is not ready.
fn max_calls(pattern_len: usize, limit: usize) -> usize {
    20_000 + 4 * limit / pattern_len
}

fn is_true(scenario: &Scenario, kernel: &SimKernel, error: &Error) -> Result<(), TestCaseError> {
    prop_assert!(!error.is_refused());
    let state = kernel.state.borrow();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_true = match errno {
        _ if error.is_unsuitable() => scenario.options.strategy == Some(Strategy::Tee),
        Some(Errno::INTR) => false,
        None => state.log.contains(&(Call::Write, Ok(0))),
        Some(Errno::AGAIN) => scenario.sink.timeout.is_some(),
        Some(errno) => state.errors_reported.contains(&(Side::Sink, errno)),
    };
    prop_assert!(
        is_true,
        "{:#}, but the kernel returned {:?}",
        error,
        state.errors_reported
    );
    Ok(())
}

const LIMIT: usize = 3_000_001;

#[test]
fn a_pipe_is_opened_by_writing_and_goes_on_by_tee() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    let report = repeat(&kernel, b"y\n", &sink, LIMIT);
    let tried = attempts(&report);
    let [
        (Strategy::Buffered, warm_up, None),
        (Strategy::Tee, rest, None),
    ] = tried[..]
    else {
        panic!("{tried:?}");
    };
    assert!((plan::WARM_UP..LIMIT as u64 / 2).contains(&warm_up));
    // Two writes come first. Then the full pattern pipe is duplicated three more times, and each
    // fill but the first and the last takes two splices. The calls that fill the pattern pipe move
    // nothing to the sink.
    let calls = report.attempts().iter().map(crate::Attempt::calls);
    assert_eq!(calls.collect::<Vec<_>>(), [2, 3 + 6], "{report:#}");
    assert_eq!(warm_up + rest, LIMIT as u64);
    assert_eq!(report.grown_sink(), Some(1 << 20));
    assert!(kernel.contents(&sink) == endless(b"y\n", LIMIT));
}

/// If the head of the pattern pipe were duplicated again after a short tee, its first bytes would
/// follow an incomplete repetition.
#[test]
fn a_repetition_that_tee_breaks_off_is_brought_to_its_end_by_writing() {
    let pattern = patterned(1000);
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    // The pattern pipe accepts fewer bytes, and then the private pipe does.
    kernel.inject(Call::Tee, &[Injection::Normal; 4]);
    kernel.inject(
        Call::Tee,
        &[Injection::Short(99_999), Injection::Short(55_555)],
    );
    let report = repeat(&kernel, &pattern, &sink, LIMIT);
    assert!(kernel.contents(&sink) == endless(&pattern, LIMIT));
    let tees = kernel.results(Call::Tee);
    let after: Vec<_> = tees
        .iter()
        .skip_while(|n| **n != Ok(55_555))
        .skip(1)
        .collect();
    assert!(after.len() > 10, "{report:#}");
    assert!(
        after.iter().all(|n| **n == Ok(55_000)),
        "it is torn no more"
    );
}

/// The transfer took the length of a short tee for the capacity of the private pipe, down to one
/// repetition a round.
#[test]
fn after_a_tee_of_one_repetition_a_turn_is_a_page_again() {
    let (pattern, limit) = (patterned(3), 95_503);
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().pipe_max = 64 << 10;
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    // The first calls fill the pattern pipe.
    kernel.inject(Call::Tee, &[Injection::Normal; 3]);
    kernel.inject(Call::Tee, &[Injection::Short(3)]);
    repeat_by_tee(&kernel, &pattern, &sink, limit);
    let n_calls = kernel.state.borrow().log.len();
    assert!(n_calls < 100, "{n_calls} calls");
}

/// The last pipe filled by tee served as the pattern pipe, although the other one held more.
#[test]
fn a_pattern_pipe_that_takes_one_repetition_gives_way_to_the_pipe_that_it_came_from() {
    let (pattern, limit) = (patterned(3), 95_503);
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    kernel.inject(Call::Tee, &[Injection::Short(3)]);
    repeat_by_tee(&kernel, &pattern, &sink, limit);
    let n_calls = kernel.state.borrow().log.len();
    assert!(n_calls < 100, "{n_calls} calls");
}

/// Repeats a pattern by tee alone, up to a limit.
fn repeat_by_tee(kernel: &SimKernel, pattern: &[u8], sink: &OwnedFd, limit: usize) {
    let options = Options {
        limit: Some(limit as u64),
        strategy: Some(Strategy::Tee),
        ..Options::default()
    };
    let observe = |_: &Progress| ControlFlow::Continue(());
    let outcome = repeat_watched(kernel, pattern, sink, options, observe);
    outcome.unwrap();
    assert!(kernel.contents(sink) == endless(pattern, limit));
}

/// The rest of a range that a splice into a file did not fill stayed a gap of zeros.
#[test]
fn a_repetition_that_is_stopped_leaves_no_gap_before_others_bytes() {
    let mut has_interfered = false;
    // The first splices fill the pattern pipe.
    for nth in 0..6 {
        let kernel = SimKernel::default();
        let sink = kernel.sink(Object::file(b""), OFlags::empty());
        kernel.inject(Call::Splice, &vec![Injection::Normal; nth]);
        let short = [Injection::Short(10), Injection::Interrupted];
        kernel.inject(Call::Splice, &short);
        let (ours, theirs) = (Target::Sink(0), Action::Write(9));
        kernel.schedule(Interference::inside(Call::Splice, nth, ours, theirs));
        let options = Options {
            strategy: Some(Strategy::Tee),
            observed: true,
            ..Options::default()
        };
        let stop = |_: &Progress| ControlFlow::Break(());
        let report = repeat_watched(&kernel, b"abc", &sink, options, stop).unwrap();
        assert_eq!(report.ended(), Ended::Stopped);
        let ours = endless(b"abc", report.bytes() as usize);
        let end = Scenario::plain(Kind::Pipe, 0, Kind::File).sink;
        check_sink(&kernel, (&sink, &end), &ours, Gap::Never).unwrap();
        let is_cut_short = kernel.results(Call::Splice).contains(&Ok(10));
        has_interfered |= is_cut_short && kernel.contents(&sink).ends_with(b"I");
    }
    assert!(has_interfered);
}

#[test]
fn a_tee_that_is_forbidden_later_gives_way_where_it_stands() {
    for refused in [Errno::PERM, Errno::NOSYS, Errno::INVAL, Errno::NOMEM] {
        for (call, n_before) in [(Call::Tee, 9), (Call::Tee, 0), (Call::Splice, 3)] {
            if (refused, call) == (Errno::NOMEM, Call::Splice) {
                // From the sink this errno would be an error.
                continue;
            }
            let kernel = SimKernel::default();
            let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
            kernel.inject(call, &vec![Injection::Normal; n_before]);
            kernel.inject(call, &[Injection::Fails(refused)]);
            let report = repeat(&kernel, b"abc", &sink, LIMIT);
            assert!(kernel.contents(&sink) == endless(b"abc", LIMIT));
            let tried = attempts(&report);
            assert_eq!((tried[1].0, tried[1].2), (Strategy::Tee, Some(refused)));
            assert_eq!(report.ended(), Ended::Limit);
        }
    }
}

#[test]
fn without_a_socket_the_pattern_pipe_is_made_of_pages() {
    for (call, injection) in [
        (Call::SocketPair, Injection::Fails(Errno::PERM)),
        (Call::Splice, Injection::Fails(Errno::INVAL)),
    ] {
        let kernel = SimKernel::default();
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        kernel.inject(call, &[injection]);
        let report = repeat(&kernel, b"y\n", &sink, LIMIT);
        assert_eq!(report.strategy(), Some(Strategy::Tee));
        assert_eq!(attempts(&report)[1].2, None);
        assert!(kernel.contents(&sink) == endless(b"y\n", LIMIT));
    }
}

#[test]
fn pipes_that_cannot_be_had_are_no_failure() {
    for n_before in 0..2 {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let kernel = SimKernel::default();
            let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
            kernel.inject(Call::Pipe, &vec![Injection::Normal; n_before]);
            kernel.inject(Call::Pipe, &[Injection::Fails(errno); 2]);
            let report = repeat(&kernel, b"y\n", &sink, LIMIT);
            assert_eq!(report.strategy(), Some(Strategy::Buffered));
            assert_eq!(attempts(&report)[1], (Strategy::Tee, 0, Some(errno)));
        }
    }
}

#[test]
fn spurious_wakeups_are_given_up_and_nothing_spins() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK);
    // The first call fills the pattern pipe.
    kernel.inject(Call::Splice, &[Injection::Normal]);
    kernel.inject(Call::Splice, &[Injection::SpuriousWakeup; 20]);
    let report = repeat(&kernel, b"y\n", &sink, LIMIT);
    assert_eq!(attempts(&report)[1], (Strategy::Tee, 0, Some(Errno::AGAIN)));
    assert!(kernel.contents(&sink) == endless(b"y\n", LIMIT));
    let splices = kernel.results(Call::Splice);
    let n_blocked = splices.iter().filter(|n| **n == Err(Errno::AGAIN)).count();
    assert_eq!(n_blocked, MAX_TIMES_BLOCKED as usize + 1);
}

#[test]
fn a_socket_s_own_time_out_ends_it() {
    for tick in [None, Some(Duration::from_millis(1))] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = tick.is_none();
        let sink = Object::read_by_peer(true).with_delay(Duration::from_secs(60));
        let sink = kernel.sink(sink.with_timeout(Duration::from_millis(7)), OFlags::empty());
        let options = Options {
            tick,
            ..Options::default()
        };
        let observe = |_: &Progress| ControlFlow::Continue(());
        let outcome = repeat_watched(&kernel, b"y\n", &sink, options, observe);
        let error = outcome.unwrap_err();
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(error.bytes() as usize, kernel.contents(&sink).len());
    }
}

#[test]
fn one_line_costs_one_write() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    repeat(&kernel, b"y\n", &sink, 2);
    assert_eq!(kernel.state.borrow().log, [(Call::Write, Ok(2))]);
}
