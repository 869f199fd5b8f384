//! Transfers from readers and to writers in the simulated kernel ([`crate::sim`]): random sinks and
//! sources, with random faults at both ends.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::Transfer;
use crate::error::Error;
use crate::options::{Options, RecordOptions};
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::arbitrary::{Features, scenarios_with};
use crate::sim::oracle::{Gap, check_sink};
use crate::sim::scenario::{Kind, Scenario};
use crate::sim::script::Call;
use crate::strategy::Strategy;
use crate::sys::{Blocking, Errno};
use zcopy_fuzz::holds_for_all;

/// Fewer cases than for transfers between descriptors: there are fewer options.
const CASES: u32 = 600;

/// A bound on the number of system calls that only a busy loop exceeds.
const MAX_CALLS: usize = 20_000;

/// The result of one call of a reader or writer.
#[derive(Clone, Copy, Debug)]
enum Behavior {
    /// Moves at most this many bytes.
    Moves(usize),
    /// Is interrupted.
    Interrupted,
    /// Fails.
    Fails,
}

/// Reads from memory or writes to memory. Behind the last of its behaviors, each call moves all
/// bytes.
#[derive(Debug)]
struct Scripted<T> {
    inner: T,
    behaviors: VecDeque<Behavior>,
    has_failed: bool,
}

impl<T> Scripted<T> {
    fn new(inner: T, behaviors: &[Behavior]) -> Self {
        Self {
            inner,
            behaviors: behaviors.iter().copied().collect(),
            has_failed: false,
        }
    }

    /// Returns how many bytes the next call may move.
    fn next(&mut self) -> io::Result<usize> {
        assert!(!self.has_failed, "it is not called after a failure");
        match self.behaviors.pop_front() {
            None => Ok(usize::MAX),
            Some(Behavior::Moves(n)) => Ok(n),
            Some(Behavior::Interrupted) => Err(ErrorKind::Interrupted.into()),
            Some(Behavior::Fails) => {
                self.has_failed = true;
                Err(io::Error::other("it was told to fail"))
            }
        }
    }
}

impl<R: Read> Read for Scripted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        assert!(!room.is_empty(), "0 means the end");
        let len = self.next()?.min(room.len());
        self.inner.read(&mut room[..len])
    }
}

impl<W: Write> Write for Scripted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!bytes.is_empty(), "0 means that nothing is accepted");
        let len = self.next()?.min(bytes.len());
        self.inner.write(&bytes[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.next().map(drop)
    }
}

/// A transfer between descriptors, one of which a reader or writer replaces.
#[derive(Clone, Debug)]
struct Case {
    scenario: Scenario,
    behaviors: Vec<Behavior>,
}

fn cases() -> impl prop::strategy::Strategy<Value = Case> {
    let behavior = prop_oneof![
        12 => prop_oneof![1..10_usize, 1..5000_usize, 1..70_000_usize].prop_map(Behavior::Moves),
        4 => Just(Behavior::Interrupted),
        1 => Just(Behavior::Fails),
    ];
    let behaviors = prop::collection::vec(behavior, 0..30);
    let scenarios = scenarios_with(Features::NONE, |_| {});
    (scenarios, behaviors).prop_map(|(scenario, behaviors)| Case {
        scenario,
        behaviors,
    })
}

/// Returns those options of a scenario that a reader and a writer allow.
fn options(scenario: &Scenario) -> Options {
    let all = scenario.options();
    Options {
        limit: all.limit,
        buffer_size: all.buffer_size,
        rate_limit: all.rate_limit,
        tick: all.tick,
        records: RecordOptions {
            delimiter: all.records.delimiter,
            ..RecordOptions::default()
        },
        ..Options::default()
    }
}

#[test]
fn a_sink_has_the_bytes_of_a_reader_that_are_counted_and_no_others_are_lost() {
    holds_for_all(cases(), CASES, check_reader);
}

fn check_reader(case: &Case) -> Result<(), TestCaseError> {
    let Case {
        scenario,
        behaviors,
    } = case;
    let (kernel, _, sink) = scenario.kernel();
    let options = options(scenario);
    let mut state = kernel.state.borrow_mut();
    state.max_calls = MAX_CALLS;
    state.may_sleep = options.blocking() == Blocking::MaySleep;
    drop(state);
    let data = scenario.data();
    let mut reader = Scripted::new(&data[..], behaviors);
    let mut inspected = Vec::new();
    let result = Transfer::from_reader(&mut reader, &sink)
        .with_options(Options {
            sink_offset: scenario.options().sink_offset,
            ..options
        })
        .inspect(|bytes| inspected.extend_from_slice(bytes))
        .run_with(&kernel);
    let (report, rest) = counted(&result, &data)?;
    prop_assert!(reader.inner == rest);
    let delivered = &data[..report.bytes() as usize];
    prop_assert!(inspected == delivered);
    check_end(&result, &data, options.limit)?;
    let gap = Gap::after(&result);
    check_sink(&kernel, (&sink, &scenario.sink), delivered, gap).map_err(TestCaseError::fail)?;
    let fails = (reader.has_failed, scenario.sink.timeout.is_some());
    is_true(&kernel, &result, Side::Source, fails)
}

#[test]
fn a_writer_has_the_bytes_of_a_source_that_are_counted_and_no_others_are_lost() {
    holds_for_all(cases(), CASES, check_writer);
}

fn check_writer(case: &Case) -> Result<(), TestCaseError> {
    let Case {
        scenario,
        behaviors,
    } = case;
    let (kernel, source, _) = scenario.kernel();
    let options = options(scenario);
    let mut state = kernel.state.borrow_mut();
    state.max_calls = MAX_CALLS;
    state.may_sleep = options.blocking() == Blocking::MaySleep;
    drop(state);
    let data = scenario.data();
    let mut writer = Scripted::new(Vec::new(), behaviors);
    let result = Transfer::to_writer(&source, &mut writer)
        .with_options(Options {
            source_offset: scenario.options().source_offset,
            ..options
        })
        .run_with(&kernel);
    let (report, rest) = counted(&result, &data)?;
    prop_assert!(writer.inner == data[..report.bytes() as usize]);
    let end = &scenario.source;
    if end.is_positional {
        prop_assert_eq!(kernel.cursor(&source), 77);
    } else if end.is_file() {
        let start = scenario.source_start();
        let taken = report.bytes() + report.undelivered().len() as u64;
        prop_assert_eq!(kernel.cursor(&source), start + taken);
    } else if end.kind != Kind::Device {
        prop_assert!(kernel.contents(&source) == rest);
    }
    check_end(&result, &data, options.limit)?;
    let fails = (writer.has_failed, end.timeout.is_some());
    is_true(&kernel, &result, Side::Sink, fails)
}

/// Checks the counts of a report. Returns it, and the bytes behind those that were taken.
fn counted<'r>(
    result: &'r Result<Report, Error>,
    data: &'r [u8],
) -> Result<(&'r Report, &'r [u8]), TestCaseError> {
    let report = result.as_ref().unwrap_or_else(Error::report);
    prop_assert_eq!(report.strategy(), Some(Strategy::Buffered));
    let by_attempts = report.attempts().iter().map(crate::Attempt::bytes);
    prop_assert_eq!(by_attempts.sum::<u64>(), report.bytes());
    prop_assert!(report.bytes() <= data.len() as u64);
    let taken = &data[report.bytes() as usize..];
    prop_assert!(taken.starts_with(report.undelivered()));
    Ok((report, &taken[report.undelivered().len()..]))
}

/// Checks that a transfer without an error has come to the end or the limit.
fn check_end(
    result: &Result<Report, Error>,
    data: &[u8],
    limit: Option<u64>,
) -> Result<(), TestCaseError> {
    let Ok(report) = result else {
        return Ok(());
    };
    match report.ended() {
        Ended::Eof => prop_assert_eq!(report.bytes(), data.len() as u64),
        // A message is not divided.
        Ended::Limit => prop_assert!(limit.is_some_and(|limit| report.bytes() <= limit)),
        ended => prop_assert!(false, "{ended:?}"),
    }
    Ok(())
}

/// Checks that an error is that of the reader or writer, which is at this side, or one that the
/// kernel has returned.
fn is_true(
    kernel: &SimKernel,
    result: &Result<Report, Error>,
    own_side: Side,
    (has_failed, has_time_out): (bool, bool),
) -> Result<(), TestCaseError> {
    let Err(error) = result else {
        prop_assert!(!has_failed);
        return Ok(());
    };
    let state = kernel.state.borrow();
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_true = match (errno, error.side()) {
        (None, side) if side == own_side => {
            has_failed && error.io_error().to_string() == "it was told to fail"
        }
        (None, _) => state.log.contains(&(Call::Write, Ok(0))),
        (Some(Errno::INTR), _) => false,
        (Some(Errno::AGAIN), side) => side != own_side && has_time_out,
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
