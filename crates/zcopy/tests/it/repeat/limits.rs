//! The limits, rates and observers of a repetition.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use allocation_counter::measure;
use rustix::fs::OFlags;
use zcopy::{Ended, Repeat, Side, Strategy};

use super::endless;
use crate::endpoints::{Sink, SinkKind, null, pipe, tcp};
use crate::files::{assert_same, pattern, read_to_end};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, is_allowed};
use crate::strategies::moved_by;

/// Nobody reads the sink: the repetition fills it, waits, and is stopped at the first tick.
#[test]
fn break_while_the_sink_is_full_takes_one_tick() {
    for len in [3, 4097, (1 << 20) + 3] {
        let pattern = pattern(len);
        for strategy in allowed([None, Some(Strategy::Tee), Some(Strategy::Buffered)]) {
            for mode in [OFlags::empty(), OFlags::NONBLOCK] {
                let what = format!("{len} bytes, {strategy:?}, {mode:?}");
                let (reader, sink) = pipe();
                rustix::fs::fcntl_setfl(&sink, mode).unwrap();
                let mut ticks = 0;
                let repeat = Repeat::new(&pattern)
                    .tick(Duration::from_millis(1))
                    .observe(|progress| match progress.blocked() {
                        None => ControlFlow::Continue(()),
                        Some(side) => {
                            assert_eq!(side, Side::Sink);
                            ticks += 1;
                            ControlFlow::Break(())
                        }
                    })
                    .maybe_strategy(strategy);
                let report = repeat.run(&sink).unwrap();
                assert_eq!((report.ended(), ticks), (Ended::Stopped, 1), "{what}");
                assert!(report.bytes() > 0, "{what}");
                drop(sink);
                let arrived = read_to_end(&reader);
                assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
                assert_same(&arrived, &endless(&pattern, report.bytes()), &what);
            }
        }
    }
}

#[test]
fn break_while_a_socket_is_full_takes_one_tick() {
    for mode in [OFlags::empty(), OFlags::NONBLOCK] {
        for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
            let (reader, sink) = tcp();
            rustix::fs::fcntl_setfl(&sink, mode).unwrap();
            let report = Repeat::new("again\n")
                .strategy(strategy)
                .tick(Duration::from_millis(1))
                .observe(|progress| match progress.blocked() {
                    None => ControlFlow::Continue(()),
                    Some(_) => ControlFlow::Break(()),
                })
                .run(&sink)
                .unwrap();
            assert_eq!(report.ended(), Ended::Stopped);
            drop(sink);
            let arrived = read_to_end(&reader);
            assert_eq!(report.bytes(), arrived.len() as u64, "{report:#}");
            assert_same(&arrived, &endless(b"again\n", report.bytes()), "tcp");
        }
    }
}

#[test]
fn break_stops_after_any_step() {
    for steps in 1..12 {
        let sink = Sink::new(SinkKind::Pipe).unwrap();
        let mut seen = Vec::new();
        let report = Repeat::new("abc")
            .observe(|progress| {
                seen.push(progress.bytes());
                if seen.len() < steps {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
            .run(&sink.fd)
            .unwrap();
        assert_eq!(report.ended(), Ended::Stopped);
        assert_eq!(seen.last(), Some(&report.bytes()));
        let arrived = sink.into_bytes(0).unwrap();
        assert_same(&arrived, &endless(b"abc", report.bytes()), "stopped");
    }
}

#[test]
fn no_step_is_longer_than_4_mib() {
    let null = null();
    for len in [2, 5 << 20] {
        let pattern = pattern(len);
        for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
            let mut before = 0;
            let report = Repeat::new(&pattern)
                .strategy(strategy)
                .limit(100 << 20)
                .observe(|progress| {
                    assert!(progress.bytes() - before <= 4 << 20);
                    assert_eq!(progress.total(), Some(100 << 20));
                    before = progress.bytes();
                    ControlFlow::Continue(())
                })
                .run(&null)
                .unwrap();
            assert_eq!((report.bytes(), before), (100 << 20, 100 << 20));
            assert_eq!(report.strategy(), Some(strategy));
        }
    }
}

#[test]
fn a_rate_is_kept_and_the_bytes_are_the_same() {
    for strategy in allowed([None, Some(Strategy::Tee)]) {
        let sink = Sink::new(SinkKind::Pipe).unwrap();
        let repeat = Repeat::new("abc")
            .limit(1 << 20)
            .rate_limit(10 << 20)
            .maybe_strategy(strategy);
        let start = Instant::now();
        let report = repeat.run(&sink.fd).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(95));
        let by_tee = moved_by(&report, Strategy::Tee);
        assert_eq!(by_tee > 0, is_allowed(Strategy::Tee), "{report:#}");
        let arrived = sink.into_bytes(0).unwrap();
        assert_same(&arrived, &endless(b"abc", 1 << 20), "slowly");
    }
}

#[test]
fn a_step_allocates_nothing() {
    /// A buffer, and room for plan and report.
    const MOST_BYTES: u64 = 300 << 10;
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        let allocated = |limit| {
            let null = null();
            measure(|| {
                let report = Repeat::new("y\n")
                    .strategy(strategy)
                    .limit(limit)
                    .run(&null);
                assert_eq!(report.unwrap().bytes(), limit);
            })
        };
        let (few, many) = (allocated(1 << 20), allocated(1 << 30));
        assert_eq!(few.count_total, many.count_total, "{strategy}");
        assert!(
            many.bytes_max <= MOST_BYTES,
            "{strategy}: {} bytes",
            many.bytes_max
        );
    }
}

/// A long pattern is written directly from the memory of the caller.
#[test]
fn a_long_pattern_is_not_copied() {
    let pattern = pattern(5 << 20);
    let null = null();
    let info = measure(|| {
        let repeat = Repeat::new(&pattern).strategy(Strategy::Buffered);
        assert_eq!(repeat.limit(20 << 20).run(&null).unwrap().bytes(), 20 << 20);
    });
    assert!(info.bytes_max < 4096, "{} bytes", info.bytes_max);
}
