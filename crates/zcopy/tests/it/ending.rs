//! A transfer that ends early: by its time limits, by a `Stop`, by a socket's own time-out.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::SocketType;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use zcopy::{Ended, Stop, Transfer};

use crate::endpoints::{null, pipe, tcp, unix};
use crate::files::{assert_same, cursor, file, pattern, read_to_end, write_all};

/// Long enough for any step on a busy machine, and short enough to wait for.
const SHORT: Duration = Duration::from_millis(30);

#[test]
fn a_source_that_is_silent_for_long_enough_ends_the_transfer_and_nothing_is_lost() {
    for (source, writer) in [pipe(), tcp(), unix(SocketType::STREAM)] {
        assert!(write_all(&writer, b"hello"));
        let (reader, sink) = pipe();
        let report = Transfer::new(&source, &sink)
            .idle_timeout(SHORT)
            .run()
            .unwrap();
        assert_eq!(
            (report.bytes(), report.ended()),
            (5, Ended::TimedOut),
            "{report:#}"
        );
        assert!(report.elapsed() >= SHORT);
        assert!(write_all(&writer, b" world"));
        drop(writer);
        Transfer::new(&source, &sink).run().unwrap();
        drop(sink);
        assert_eq!(read_to_end(&reader), b"hello world");
    }
}

#[test]
fn a_sink_that_accepts_nothing_ends_the_transfer_too() {
    let bytes = pattern(16 << 20);
    for (reader, sink) in [pipe(), tcp(), unix(SocketType::STREAM)] {
        let source = file(&bytes);
        let report = Transfer::new(&source, &sink)
            .idle_timeout(SHORT)
            .run()
            .unwrap();
        assert_eq!(report.ended(), Ended::TimedOut, "{report:#}");
        assert_eq!(cursor(&source), report.bytes());
        drop(sink);
        assert_same(
            &read_to_end(&reader),
            &bytes[..report.bytes() as usize],
            "what arrived",
        );
    }
}

#[test]
fn bytes_that_come_in_time_start_the_idle_time_anew() {
    let (source, writer) = pipe();
    let writing = thread::spawn(move || {
        for _ in 0..20 {
            thread::sleep(SHORT / 2);
            assert!(write_all(&writer, b"x"));
        }
    });
    let null = null();
    let report = Transfer::new(&source, &null)
        .idle_timeout(SHORT * 20)
        .run()
        .unwrap();
    writing.join().unwrap();
    assert_eq!((report.bytes(), report.ended()), (20, Ended::Eof));
}

#[test]
fn time_that_a_transfer_waits_for_its_own_rate_is_not_idle() {
    let source = file(&pattern(10));
    let null = null();
    let transfer = Transfer::new(&source, &null).rate_limit(50);
    let report = transfer
        .idle_timeout(Duration::from_millis(5))
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (10, Ended::Eof));
}

#[test]
fn a_deadline_ends_a_transfer_that_waits_one_that_moves_and_one_that_sleeps_for_its_rate() {
    let (reader, _writer) = pipe();
    let zeros = std::fs::File::open("/dev/zero").unwrap();
    let null = null();
    for transfer in [
        Transfer::new(reader, &null),
        Transfer::new(zeros.try_clone().unwrap().into(), &null),
        Transfer::new(zeros.into(), &null).rate_limit(1),
    ] {
        let deadline = Instant::now() + SHORT;
        let report = transfer.deadline(deadline).run().unwrap();
        assert_eq!(report.ended(), Ended::TimedOut, "{report:#}");
        assert!(Instant::now() >= deadline);
    }
}

#[test]
fn a_deadline_that_has_passed_and_a_stop_that_was_used_move_nothing() {
    let source = file(&pattern(100));
    let null = null();
    let report = Transfer::new(&source, &null)
        .deadline(Instant::now())
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, Ended::TimedOut));
    let stop = Stop::new().unwrap();
    stop.stop();
    let report = Transfer::new(&source, &null)
        .stop_with(&stop)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
    assert_eq!(cursor(&source), 0);
}

/// Blocked on the source, blocked on the sink, asleep for the rate, and in the middle of moving.
#[test]
fn a_stop_ends_transfers_in_other_threads_wherever_they_are() {
    let stop = Stop::new().unwrap();
    let (empty, _writer) = pipe();
    let (_reader, full) = pipe();
    let zeros = || OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    let transfers = [
        Transfer::new(empty, null()),
        Transfer::new(zeros(), full),
        Transfer::new(zeros(), null()).rate_limit(1),
        Transfer::new(zeros(), null()),
    ];
    let running = transfers.map(|transfer| {
        let transfer = transfer.stop_with(&stop);
        thread::spawn(move || transfer.run().unwrap())
    });
    thread::sleep(SHORT);
    stop.stop();
    for running in running {
        let report = running.join().unwrap();
        assert_eq!(report.ended(), Ended::Stopped, "{report:#}");
    }
}

/// `SO_SNDTIMEO` starts anew in each call, and a call that has moved bytes before it times out
/// returns their number: the error would come several time-outs late.
#[test]
fn a_socket_s_own_time_out_counts_from_the_last_byte_that_moved() {
    let time_out = Duration::from_millis(400);
    let (_peer, sink) = tcp();
    set_socket_timeout(&sink, Timeout::Send, Some(time_out)).unwrap();
    let source = file(&pattern(64 << 20));
    // The peer reads nothing, so that the last byte moves at once.
    let start = Instant::now();
    let error = Transfer::new(&source, TcpStream::from(sink))
        .run()
        .unwrap_err();
    assert!(error.is_timed_out(), "{error:#}");
    let waited = start.elapsed();
    assert!(
        waited >= time_out && waited < 3 * time_out,
        "it failed after {waited:?}"
    );
    assert_eq!(cursor(&source), error.bytes());
}
