//! Sources that lose what a short read leaves: pipes in packet mode, datagram sockets, counters. Nothing is destroyed: what was
//! delivered, what is handed back and what is left are everything.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use rustix::net::{RecvFlags, SendFlags, SocketType, recv, send};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use zcopy::{Ended, OnSinkError, Rewrite, Sparse, Strategy, Transfer};

use super::numbered::{RECORD, Writer, Wrote, compare};
use super::scene::bounded;
use crate::ends::{pipe, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end};
use crate::skip::skip;

/// Reader and writer of a pipe in packet mode.
fn packet_pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).unwrap()
}

/// A packet pipe that holds packets of these lengths, and has no writer. And all their bytes.
fn packets(lens: &[usize]) -> (OwnedFd, Vec<u8>) {
    let (reader, writer) = packet_pipe();
    let bytes = pattern(lens.iter().sum());
    let mut rest = &bytes[..];
    for len in lens {
        let (packet, later) = rest.split_at(*len);
        assert_eq!(rustix::io::write(&writer, packet), Ok(*len));
        rest = later;
    }
    (reader, bytes)
}

/// What is left in a packet pipe.
fn left(source: &OwnedFd) -> Vec<u8> {
    read_to_end(source)
}

/// Runs a transfer from a packet pipe into a file, and sees that nothing is destroyed.
#[track_caller]
fn nothing_is_destroyed(
    lens: &[usize],
    what: &str,
    configure: impl for<'a> Fn(Transfer<'a>) -> Transfer<'a>,
) -> zcopy::Result<u64> {
    let (source, bytes) = packets(lens);
    let sink = file(b"");
    let done = configure(Transfer::new(&source, &sink)).run();
    let delivered = contents(&sink);
    let (result, report) = match done {
        Ok(report) => (Ok(report.bytes()), report),
        Err(error) => {
            let report = error.report().clone();
            (Err(error), report)
        }
    };
    assert_eq!(report.bytes(), delivered.len() as u64, "{what}");
    let found = [&delivered, report.undelivered(), &left(&source)].concat();
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
            let moved = nothing_is_destroyed(lens, &what, |transfer| transfer.limit(limit));
            assert_eq!(moved.unwrap(), limit.min(total as u64), "{what}, {lens:?}");
        }
    }
}

#[test]
fn a_small_rate_destroys_no_packet() {
    let moved = nothing_is_destroyed(&[100, 100, 100], "1000 a second", |transfer| {
        transfer.rate_limit(1000)
    });
    assert_eq!(moved.unwrap(), 300);
    let moved = nothing_is_destroyed(&[4096, 100, 4096], "20,000 a second", |transfer| {
        transfer.rate_limit(20_000)
    });
    assert_eq!(moved.unwrap(), 8292);
    let moved = nothing_is_destroyed(&[100, 100, 100], "a limit and a rate", |transfer| {
        transfer.rate_limit(500).limit(120)
    });
    assert_eq!(moved.unwrap(), 120);
}

#[test]
fn a_tick_destroys_no_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        let tick = Duration::from_secs(3600);
        let moved = nothing_is_destroyed(lens, "tick", |transfer| transfer.tick(tick));
        assert_eq!(moved.unwrap(), total as u64);
        let moved = nothing_is_destroyed(lens, "tick and limit", |transfer| {
            transfer.tick(tick).limit(50)
        });
        assert_eq!(moved.unwrap(), total.min(50) as u64);
    }
}

#[test]
fn no_option_destroys_a_packet() {
    for lens in LENS {
        let total: usize = lens.iter().sum();
        let whole = |what: &str, configure: &dyn for<'a> Fn(Transfer<'a>) -> Transfer<'a>| {
            let moved = nothing_is_destroyed(lens, what, configure);
            assert_eq!(moved.unwrap(), total as u64, "{what}, {lens:?}");
        };
        whole("no option", &|transfer| transfer);
        whole("a small buffer", &|transfer| transfer.buffer_size(1000));
        whole("records", &|transfer| transfer.records(b'\n'));
        whole("zeros looked for", &|transfer| {
            transfer.sparse(Sparse::Detect)
        });
        whole("stable", &|transfer| transfer.stable(true));
        whole("inspected", &|transfer| transfer.inspect(|_| {}));
        for strategy in [Strategy::Buffered, Strategy::SplicePipe, Strategy::Splice] {
            whole(&strategy.to_string(), &|transfer| {
                transfer.strategy(strategy)
            });
            let limited = nothing_is_destroyed(lens, &format!("{strategy}, limited"), |transfer| {
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
        let moved = nothing_is_destroyed(lens, "stopped at once", |transfer| {
            transfer.observe(|_| ControlFlow::Break(()))
        });
        assert!(moved.is_ok());
        let moved = nothing_is_destroyed(lens, "stopped, slow", |transfer| {
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
    let found = [report.undelivered(), &left(&source)].concat();
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
                let transfer = Transfer::new(&source, &first)
                    .also_to(&second)
                    .also_to(&third);
                let transfer = match limit {
                    Some(limit) => transfer.limit(limit),
                    None => transfer,
                };
                let transfer = match rate {
                    Some(rate) => transfer.rate_limit(rate),
                    None => transfer,
                };
                let report = transfer.run().unwrap();
                drop(third);
                let case = format!("{lens:?}, limit {limit:?}, rate {rate:?}");
                let expected = limit.unwrap_or(u64::MAX).min(total as u64);
                assert_eq!(report.bytes(), expected, "{case}");
                let rest = [report.undelivered(), &left(&source)].concat();
                for sink in [contents(&first), contents(&second), read_to_end(&reader)] {
                    assert_same(&[&sink[..], &rest].concat(), &bytes, &case);
                }
            }
        }
    }
}

#[test]
fn a_failing_sink_destroys_no_packet() {
    for lens in LENS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        for strategy in [None, Some(Strategy::Buffered), Some(Strategy::SplicePipe)] {
            let (source, bytes) = packets(lens);
            let transfer = Transfer::new(&source, &full);
            let transfer = match strategy {
                Some(strategy) => transfer.strategy(strategy),
                None => transfer,
            };
            let error = transfer.run().unwrap_err();
            let found = [error.undelivered(), &left(&source)].concat();
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
fn a_rewrite_destroys_no_packet() {
    for lens in LENS {
        let (source, bytes) = packets(lens);
        let sink = file(b"");
        let mut rewrite = Rewrite::new(&sink, super::identity);
        rewrite.run(&source).unwrap();
        rewrite.finish().unwrap();
        assert_same(&contents(&sink), &bytes, "rewritten");
    }
}

/// A packet that comes later, when little may be moved at once.
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

/// A read of fewer than eight bytes fails.
#[test]
fn a_small_rate_or_limit_does_not_fail_on_an_eventfd() {
    let value = |count: u32| u64::from(count).to_ne_bytes();
    for (rate, limit) in [(100, 8), (3, 8), (1 << 20, 8), (100, 3), (1 << 20, 3)] {
        let source = eventfd(258, EventfdFlags::CLOEXEC).unwrap();
        let sink = file(b"");
        let transfer = Transfer::new(&source, &sink).rate_limit(rate).limit(limit);
        let case = format!("{rate} a second, at most {limit}");
        let report = transfer
            .run()
            .unwrap_or_else(|error| panic!("{case}: {error:#}"));
        assert_eq!(report.bytes(), limit, "{case}");
        let found = [&contents(&sink), report.undelivered()].concat();
        assert_eq!(found, value(258), "{case}");
    }
}

#[test]
fn a_small_rate_does_not_fail_on_a_timerfd() {
    let flags = TimerfdFlags::CLOEXEC;
    let source = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags).unwrap();
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let soon = Timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    let once = Itimerspec {
        it_interval: none,
        it_value: soon,
    };
    rustix::time::timerfd_settime(&source, TimerfdTimerFlags::empty(), &once).unwrap();
    let sink = file(b"");
    let transfer = Transfer::new(&source, &sink).rate_limit(100).limit(8);
    assert_eq!(transfer.run().unwrap().bytes(), 8);
    assert_eq!(contents(&sink), 1_u64.to_ne_bytes());
}

/// A read with less room than the next record needs fails.
#[test]
fn a_small_rate_does_not_fail_on_the_kernel_log() {
    let open = || File::options().read(true).open("/dev/kmsg");
    let Ok(source) = open() else {
        skip("/dev/kmsg cannot be read here");
        return;
    };
    let log = crate::files::reopen(&source, OFlags::RDONLY | OFlags::NONBLOCK);
    let mut expected = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(n) = rustix::io::read(&log, &mut buffer) {
        expected.extend_from_slice(&buffer[..n]);
        if expected.len() > 10_000 {
            break;
        }
    }
    if expected.len() < 1000 {
        skip("the kernel log is too short");
        return;
    }
    for (rate, limit) in [(1000, 1000), (100, 50), (1 << 20, 700)] {
        let source = open().unwrap();
        let sink = file(b"");
        let transfer = Transfer::new(&source, &sink).rate_limit(rate).limit(limit);
        let report = transfer
            .run()
            .unwrap_or_else(|error| panic!("{rate}, {limit}: {error:#}"));
        assert_eq!(report.bytes(), limit);
        let found = [&contents(&sink), report.undelivered()].concat();
        assert!(
            expected.starts_with(&found),
            "records in order, of {rate}, {limit}"
        );
    }
}

/// Another reader takes messages between two calls of the transfer. Each message goes to one of the two.
fn share_messages(
    socket_type: SocketType,
    configure: impl for<'a> Fn(Transfer<'a>, &'a File) -> Transfer<'a> + Send + 'static,
) {
    bounded(move || {
        let (peer, source) = unix(socket_type);
        let n_records = 20_000;
        let sending = thread::spawn(move || {
            let mut n = 0;
            for records in [1, 5, 2, 40, 3, 1, 1, 17].into_iter().cycle() {
                let last = (n + records).min(n_records);
                let message: Vec<u8> = (n..last).flat_map(|n| Writer(1).record(n)).collect();
                assert_eq!(send(&peer, &message, SendFlags::empty()), Ok(message.len()));
                n = last;
                if n == n_records {
                    break;
                }
            }
            // An empty message for each of the readers.
            for _ in 0..2 {
                let _ = send(&peer, &[], SendFlags::empty());
            }
        });
        let got = Mutex::new(Vec::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut message = vec![0; 64 << 10];
                while let (n @ 1.., _) =
                    recv(&source, &mut message[..], RecvFlags::empty()).unwrap()
                {
                    got.lock().unwrap().extend_from_slice(&message[..n]);
                }
            });
            loop {
                let (sink, other) = (file(b""), file(b""));
                let report = configure(Transfer::new(&source, &sink), &other)
                    .run()
                    .unwrap();
                // A message of which a part is handed back is whole again.
                let whole = [&contents(&sink), report.undelivered()].concat();
                got.lock().unwrap().extend_from_slice(&whole);
                if report.ended() == Ended::Eof {
                    break;
                }
            }
        });
        sending.join().unwrap();
        let got = got.into_inner().unwrap();
        let mut records: Vec<_> = got.chunks(RECORD).collect();
        records.sort_unstable();
        let wrote = [(Writer(1), Wrote::Records(n_records))];
        assert_eq!(compare(&records.concat(), &wrote), Ok(()));
    });
}

#[test]
fn a_limit_cuts_no_datagram_that_another_reader_makes_the_next() {
    share_messages(SocketType::DGRAM, |transfer, _| transfer.limit(5000));
    share_messages(SocketType::SEQPACKET, |transfer, _| transfer.limit(5000));
}

#[test]
fn a_limit_cuts_no_datagram_on_its_way_to_several_sinks() {
    share_messages(SocketType::DGRAM, |transfer, other| {
        transfer.limit(5000).also_to(other)
    });
}

#[test]
fn a_rate_cuts_no_datagram_that_another_reader_makes_the_next() {
    share_messages(SocketType::DGRAM, |transfer, _| {
        transfer.rate_limit(64 << 20)
    });
    share_messages(SocketType::SEQPACKET, |transfer, _| {
        let tick = Duration::from_secs(3600);
        transfer.rate_limit(64 << 20).tick(tick)
    });
}
