//! Pipes in packet mode. A short read of a packet would destroy its rest. The bytes delivered, the
//! bytes handed back and the bytes left in the pipe must be all bytes.

use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use zcopy::{Ended, FilterTransfer, OnSinkError, Sparse, Strategy, Transfer};

use crate::concurrency::bounded;
use crate::endpoints::{full, packet_pipe, packets, pipe};
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, needs};

/// Runs a transfer from a packet pipe into a file, and asserts that no byte is destroyed.
///
/// Without splice a limit cuts the last packet: the read that takes its first bytes destroys the
/// others.
#[track_caller]
fn assert_nothing_destroyed(
    lens: &[usize],
    what: &str,
    configure: impl for<'a> Fn(Transfer<'a>) -> Transfer<'a>,
) -> zcopy::Result<u64> {
    let (source, bytes) = packets(lens);
    let sink = file(b"");
    let outcome = configure(Transfer::new(source.as_fd(), sink.as_fd())).run();
    let delivered = contents(&sink);
    let (result, report) = match outcome {
        Ok(report) => (Ok(report.bytes()), report),
        Err(error) => {
            let report = error.report().clone();
            (Err(error), report)
        }
    };
    assert_eq!(report.bytes(), delivered.len() as u64, "{what}");
    if report.ended() == Ended::Limit && !needs(&[Strategy::Splice]) {
        assert_same(&delivered, &bytes[..delivered.len()], what);
        return result;
    }
    let found = [&delivered, report.undelivered(), &read_to_end(&source)].concat();
    assert_same(
        &found,
        &bytes,
        &format!("{what}, packets of {lens:?}: {result:?}"),
    );
    result
}

const LENS: [&[usize]; 5] = [
    &[100, 100, 100],
    &[1],
    &[4096, 1, 4095, 17],
    &[4096, 4096, 4096, 4096],
    &[10, 4096, 10, 2000],
];

#[test]
fn a_limit_destroys_no_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        for limit in [1, 10, 100, 150, 4096, 5000] {
            let what = format!("limit {limit}");
            let moved = assert_nothing_destroyed(lens, &what, |transfer| transfer.limit(limit));
            assert_eq!(moved.unwrap(), limit.min(total as u64), "{what}, {lens:?}");
        }
    }
}

#[test]
fn a_small_rate_destroys_no_packet() {
    let moved = assert_nothing_destroyed(&[100, 100, 100], "1000 a second", |transfer| {
        transfer.rate_limit(1000)
    });
    assert_eq!(moved.unwrap(), 300);
    let moved = assert_nothing_destroyed(&[4096, 100, 4096], "20,000 a second", |transfer| {
        transfer.rate_limit(20_000)
    });
    assert_eq!(moved.unwrap(), 8292);
    let moved = assert_nothing_destroyed(&[100, 100, 100], "a limit and a rate", |transfer| {
        transfer.rate_limit(500).limit(120)
    });
    assert_eq!(moved.unwrap(), 120);
}

#[test]
fn a_tick_destroys_no_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        let tick = Duration::from_secs(3600);
        let moved = assert_nothing_destroyed(lens, "tick", |transfer| transfer.tick(tick));
        assert_eq!(moved.unwrap(), total as u64);
        let moved = assert_nothing_destroyed(lens, "tick and limit", |transfer| {
            transfer.tick(tick).limit(50)
        });
        assert_eq!(moved.unwrap(), total.min(50) as u64);
    }
}

#[test]
fn no_option_destroys_a_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        let assert_all_moved =
            |what: &str, configure: &dyn for<'a> Fn(Transfer<'a>) -> Transfer<'a>| {
                let moved = assert_nothing_destroyed(lens, what, configure);
                assert_eq!(moved.unwrap(), total as u64, "{what}, {lens:?}");
            };
        assert_all_moved("no option", &|transfer| transfer);
        assert_all_moved("a small buffer", &|transfer| transfer.buffer_size(1000));
        assert_all_moved("records", &|transfer| transfer.records(b'\n'));
        assert_all_moved("zeros looked for", &|transfer| {
            transfer.sparse(Sparse::Detect)
        });
        assert_all_moved("stable", &|transfer| transfer.stable(true));
        assert_all_moved("inspected", &|transfer| transfer.inspect(|_| {}));
        for strategy in allowed([Strategy::Buffered, Strategy::SplicePipe]) {
            assert_all_moved(&strategy.to_string(), &|transfer| {
                transfer.strategy(strategy)
            });
            let limited =
                assert_nothing_destroyed(lens, &format!("{strategy}, limited"), |transfer| {
                    transfer.strategy(strategy).limit(10)
                });
            assert_eq!(
                limited.unwrap(),
                total.min(10) as u64,
                "{strategy}, {lens:?}"
            );
        }
    }
}

#[test]
fn a_stop_destroys_no_packet() {
    for lens in LENS {
        let moved = assert_nothing_destroyed(lens, "stopped at once", |transfer| {
            transfer.observe(|_| ControlFlow::Break(()))
        });
        assert!(moved.is_ok());
        let moved = assert_nothing_destroyed(lens, "stopped, slow", |transfer| {
            let transfer = transfer.rate_limit(1000).tick(Duration::from_millis(1));
            transfer.observe(|progress| {
                if progress.bytes() == 0 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        });
        assert!(moved.is_ok());
    }
}

/// A limit on records may end in the middle of a packet.
#[test]
fn a_limit_on_records_destroys_no_packet() {
    let (source, writer) = packet_pipe();
    for packet in ["one\ntwo\nthr", "ee\nfour\n"] {
        assert_eq!(
            rustix::io::write(&writer, packet.as_bytes()),
            Ok(packet.len())
        );
    }
    drop(writer);
    let sink = file(b"");
    let transfer = Transfer::new(&source, &sink).records(b'\n').record_limit(1);
    let report = transfer.run().unwrap();
    assert_eq!(contents(&sink), b"one\n");
    let found = [report.undelivered(), &read_to_end(&source)].concat();
    assert_eq!(found, b"two\nthree\nfour\n");
}

#[test]
fn several_sinks_destroy_no_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        for limit in [None, Some(10), Some(120), Some(4097)] {
            for rate in [None, Some(50_000)] {
                let (source, bytes) = packets(lens);
                let (first, second) = (file(b""), file(b""));
                let (reader, third) = pipe();
                // At a rate each round takes a slot, so that the pipe is full before all bytes are
                // in it.
                let reading = thread::spawn(move || read_to_end(&reader));
                let transfer = Transfer::new(&source, &first)
                    .also_to(&second)
                    .also_to(&third);
                let transfer = transfer.maybe_limit(limit).maybe_rate_limit(rate);
                let report = transfer.run().unwrap();
                drop(third);
                let case = format!("{lens:?}, limit {limit:?}, rate {rate:?}");
                let expected = limit.unwrap_or(u64::MAX).min(total as u64);
                assert_eq!(report.bytes(), expected, "{case}");
                let rest = [report.undelivered(), &read_to_end(&source)].concat();
                let arrived = reading.join().unwrap();
                for sink in [contents(&first), contents(&second), arrived] {
                    if report.ended() == Ended::Limit && !needs(&[Strategy::Splice]) {
                        assert_same(&sink, &bytes[..sink.len()], &case);
                    } else {
                        assert_same(&[&sink[..], &rest].concat(), &bytes, &case);
                    }
                }
            }
        }
    }
}

#[test]
fn a_failing_sink_destroys_no_packet() {
    for lens in LENS {
        let full = full();
        for strategy in allowed([None, Some(Strategy::Buffered), Some(Strategy::SplicePipe)]) {
            let (source, bytes) = packets(lens);
            let transfer = Transfer::new(&source, &full).maybe_strategy(strategy);
            let error = transfer.run().unwrap_err();
            let found = [error.undelivered(), &read_to_end(&source)].concat();
            assert_same(&found, &bytes, &format!("{strategy:?}, {lens:?}"));
        }
        let (source, bytes) = packets(lens);
        let sink = file(b"");
        let transfer = Transfer::new(&source, &full).also_to(&sink);
        let transfer = transfer.on_sink_error(OnSinkError::Detach);
        assert_eq!(transfer.run().unwrap().bytes(), bytes.len() as u64);
        assert_same(&contents(&sink), &bytes, "the other sink");
    }
}

#[test]
fn a_filter_destroys_no_packet() {
    for lens in LENS {
        let (source, bytes) = packets(lens);
        let sink = file(b"");
        let mut filter = FilterTransfer::new(&sink, super::identity);
        filter.run(&source).unwrap();
        filter.finish().unwrap();
        assert_same(&contents(&sink), &bytes, "filtered");
    }
}

/// A packet arrives when the rate allows only a few bytes.
#[test]
fn a_packet_that_comes_later_is_not_destroyed_by_a_small_rate() {
    bounded(|| {
        let (source, writer) = packet_pipe();
        let sink = file(b"");
        let bytes = pattern(600);
        thread::scope(|scope| {
            scope.spawn(|| {
                let writer = writer;
                for packet in bytes.chunks(200) {
                    assert_eq!(rustix::io::write(&writer, packet), Ok(200));
                    thread::sleep(Duration::from_millis(20));
                }
            });
            let report = Transfer::new(&source, &sink).rate_limit(5000).run();
            assert_eq!(report.unwrap().bytes(), 600);
        });
        assert_same(&contents(&sink), &bytes, "packets");
    });
}
