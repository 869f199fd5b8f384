//! Readers that close while no byte moves, and observers that stop an idle transfer.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketType;
use zcopy::{Ended, FanOut, OnSinkError, RateLimiter, Side, Transfer};

use super::{Kind, TestSink, to_all};
use crate::endpoints::{null, pipe, unix};
use crate::files::{file, read_to_end, write_all};
use crate::own_process::{self, is_own_process};
use crate::skip::has_program;

#[test]
fn an_idle_transfer_ends_with_its_last_reader() {
    let socket_types = [SocketType::STREAM, SocketType::SEQPACKET];
    for (ticks, socket_type) in [false, true].into_iter().zip(socket_types) {
        // Nobody ever writes.
        let (source, _writer) = pipe();
        let (first_reader, first) = pipe();
        let (second_reader, second) = unix(socket_type);
        drop(first_reader);
        let mut gone = Vec::new();
        let mut second_reader = Some(second_reader);
        let mut transfer = to_all(&source, &[&first, &second])
            .watch_readers(true)
            .on_sink_error_with(|sink| {
                let errno = sink.error().and_then(|error| error.raw_os_error());
                gone.push((sink.index(), errno));
                // The second reader closes when the first failure has been reported.
                second_reader = None;
                OnSinkError::Detach
            });
        if ticks {
            transfer = transfer.tick(Duration::from_millis(1));
        }
        let report = transfer.run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::NoSink));
        let epipe = Some(Errno::PIPE.raw_os_error());
        assert_eq!(gone, [(0, epipe), (1, epipe)]);
    }
}

#[test]
fn a_watched_reader_that_closes_stops_an_idle_transfer() {
    let (source, _writer) = pipe();
    let (reader, sink) = pipe();
    let null = null();
    drop(reader);
    let error = to_all(&source, &[&null, &sink])
        .watch_readers(true)
        .run()
        .unwrap_err();
    assert_eq!(error.side(), Side::Sink);
    assert_eq!(error.raw_os_error(), Some(Errno::PIPE.raw_os_error()));
    let failed: Vec<_> = error
        .report()
        .sinks()
        .iter()
        .map(|sink| sink.error().is_some())
        .collect();
    assert_eq!(failed, [false, true]);
}

/// A file is never waited for, so that the rate is the only wait.
#[test]
fn a_watched_reader_that_closes_ends_a_wait_for_the_rate_of_any_source() {
    let zeros = File::open("/dev/zero").unwrap();
    let file = file(b"bytes");
    let (piped, writer) = pipe();
    write_all(&writer, b"bytes");
    for source in [zeros.as_fd(), file.as_fd(), piped.as_fd()] {
        for policy in [OnSinkError::Stop, OnSinkError::Detach] {
            let (reader, sink) = pipe();
            let rate_limiter = RateLimiter::per(1, Duration::from_secs(600));
            let ended = thread::scope(|scope| {
                let fan_out = FanOut::new(source, &sink)
                    .watch_readers(true)
                    .on_sink_error(policy)
                    .rate_limit(&rate_limiter);
                let running = scope.spawn(|| fan_out.run());
                thread::sleep(Duration::from_millis(10));
                drop(reader);
                running.join().unwrap()
            });
            match (policy, ended) {
                (OnSinkError::Detach, Ok(report)) => {
                    assert_eq!((report.bytes(), report.ended()), (0, Ended::NoSink));
                }
                (_, ended) => {
                    let error = ended.unwrap_err();
                    assert_eq!(error.call(), Some("poll"));
                    assert!(error.report().elapsed() < Duration::from_secs(60));
                }
            }
        }
    }
}

#[test]
fn an_unwatched_reader_may_close_when_no_bytes_are_left() {
    let (source, writer) = pipe();
    let (reader, sink) = pipe();
    let null = null();
    drop((reader, writer));
    let report = to_all(&source, &[&sink, &null]).run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, Ended::Eof));
}

/// `strace` shows even an ignored signal.
#[test]
fn no_signal_is_raised_at_the_end_of_input() {
    const TEST: &str = "fan_out::readers::no_signal_is_raised_at_the_end_of_input";
    const GIVEN_MORE: &str = "ZCOPY_TEST_GIVEN";
    if std::env::var_os(own_process::VARIABLE).is_some() {
        // Readers take all bytes and close before the transfer reaches the end.
        let (source, writer) = pipe();
        let (reader, sink) = pipe();
        let (other_reader, other) = pipe();
        assert!(write_all(&writer, b"hello"));
        let mut ends = Some((writer, reader, other_reader));
        let is_given_more = std::env::var_os(GIVEN_MORE).is_some();
        let report = Transfer::new(&source, &sink)
            .also_to(&other)
            .on_sink_error(OnSinkError::Detach)
            .tick(Duration::from_millis(1))
            .observe(|progress| {
                if progress.bytes() == 5
                    && let Some((writer, reader, other_reader)) = ends.take()
                {
                    for reader in [reader, other_reader] {
                        let mut read = [0; 5];
                        rustix::io::read(&reader, &mut read).unwrap();
                        assert_eq!(&read, b"hello");
                    }
                    assert!(!is_given_more || write_all(&writer, b"more"));
                }
                ControlFlow::Continue(())
            })
            .run()
            .unwrap();
        let ended = if is_given_more {
            Ended::NoSink
        } else {
            Ended::Eof
        };
        assert_eq!((report.bytes(), report.ended()), (5, ended));
        return;
    }
    if !has_program("strace") {
        return;
    }
    for is_given_more in [false, true] {
        let trace = tempfile::NamedTempFile::new().unwrap();
        let traced = |command: &mut std::process::Command| {
            let mut strace = std::process::Command::new("strace");
            strace.args(["-f", "-o"]).arg(trace.path());
            strace.arg(command.get_program()).args(command.get_args());
            for (name, value) in command.get_envs() {
                strace.env(name, value.unwrap());
            }
            if is_given_more {
                strace.env(GIVEN_MORE, "1");
            }
            *command = strace;
        };
        assert!(!is_own_process(TEST, traced));
        let trace = std::fs::read_to_string(trace.path()).unwrap();
        assert_eq!(
            trace.contains("--- SIGPIPE"),
            is_given_more,
            "given more bytes: {is_given_more}"
        );
    }
}

#[test]
fn an_observer_ends_the_wait_for_an_idle_source() {
    let (source, _writer) = pipe();
    let (_idle, other_source) = unix(SocketType::STREAM);
    for source in [source, other_source] {
        let test_sinks: Vec<_> = [Kind::Pipe, Kind::Append]
            .into_iter()
            .filter_map(TestSink::new)
            .collect();
        let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
        let mut blocked = None;
        let report = to_all(&source, &fds)
            .tick(Duration::from_millis(1))
            .observe(|progress| {
                blocked = progress.blocked();
                ControlFlow::Break(())
            })
            .run()
            .unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
        assert_eq!(blocked, Some(Side::Source));
    }
}

#[test]
fn an_observer_ends_the_wait_for_a_full_sink() {
    // Nobody reads from this sink; the other has room.
    for kind in [Kind::Null, Kind::AppendedNull] {
        for full in [pipe(), unix(SocketType::STREAM)] {
            let (reader, full) = full;
            let zeros = File::open("/dev/zero").unwrap();
            let (source, writer) = pipe();
            let feeder = thread::spawn(move || std::io::copy(&mut &zeros, &mut File::from(writer)));
            let test_sink = TestSink::new(kind).unwrap();
            let report = to_all(&source, &[&full, test_sink.fd()])
                .tick(Duration::from_millis(1))
                .observe(|progress| match progress.blocked() {
                    Some(Side::Sink) => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                })
                .run()
                .unwrap();
            assert_eq!(report.ended(), Ended::Stopped);
            drop((full, source));
            assert!(feeder.join().unwrap().is_err());
            let arrived = read_to_end(&reader).len() as u64;
            assert!(arrived > 0);
            assert_eq!(report.sinks()[0].bytes(), arrived, "{report:#}");
        }
    }
}
