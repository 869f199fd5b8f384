//! Fan-outs whose steps the caller takes.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketType;
use zcopy::{Ended, FanOut, Interest, OnSinkError, Progressed, Session, Sinks, Stop, Strategy};

use super::{Kind, TestSink, to_all};
use crate::endpoints::{Source, SourceKind, null, pipe, unix};
use crate::files::{assert_same, pattern, read_to_end, write_all};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::allowed;

const LEN: usize = 700_007;

/// Waits as a caller does: for the source, or for the blocked sinks, or for the time.
fn wait<'a, Source: AsFd>(session: &Session<'a, Source, Sinks<'a>>, interest: Interest) {
    let mut fds = Vec::new();
    if interest.source() {
        fds.push(PollFd::new(session.source().unwrap(), PollFlags::IN));
    }
    if interest.sink() {
        let blocked = session.blocked_sinks();
        fds.extend(blocked.map(|(_, fd)| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
    }
    assert_eq!(interest.sink(), session.blocked_sinks().next().is_some());
    assert!(!fds.is_empty() || interest.timeout().is_some());
    let timeout = interest.timeout().unwrap_or(Duration::from_secs(60));
    let timeout = Timespec::try_from(timeout).unwrap();
    let n_ready = poll(&mut fds, Some(&timeout)).unwrap();
    assert!(n_ready > 0 || interest.timeout().is_some(), "it is ready");
}

#[test]
fn a_session_of_a_fan_out_moves_what_a_run_moves_and_never_spins() {
    let bytes = pattern(LEN);
    for from in [
        SourceKind::Pipe,
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::UnixStream,
    ] {
        for kinds in [
            [Kind::SlowPipe, Kind::File, Kind::TinySocket],
            [Kind::Append, Kind::OneSlot, Kind::Tcp],
            [Kind::NonBlocking, Kind::Terminal, Kind::Null],
        ] {
            for (strategy, max) in allowed([None, Some(Strategy::Buffered)])
                .flat_map(|strategy| [(strategy, u64::MAX), (strategy, 10_000)])
            {
                let what = format!("{from:?} to {kinds:?}, {strategy:?}, {max}");
                let test_sinks: Option<Vec<_>> = kinds.into_iter().map(TestSink::new).collect();
                let (Some(source), Some(test_sinks)) = (Source::new(from, &bytes), test_sinks)
                else {
                    continue;
                };
                let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
                let fan_out = to_all(&source.fd, &fds).maybe_strategy(strategy);
                let mut session = fan_out.start().unwrap();
                let (mut moved, mut n_blocked) = (0, 0);
                let ended = loop {
                    match session.step(max).unwrap() {
                        Progressed::Moved(n) => {
                            assert!(n > 0 && n <= max, "{what}: {n}");
                            moved += n;
                            assert_eq!(session.progress().bytes(), moved, "{what}");
                        }
                        Progressed::Blocked(interest) => {
                            n_blocked += 1;
                            wait(&session, interest);
                        }
                        Progressed::Ended(ended) => break ended,
                        other => panic!("{what}: {other:?}"),
                    }
                };
                assert_eq!(ended, Ended::Eof, "{what}");
                let report = session.finish().unwrap();
                assert_eq!((report.bytes(), moved), (LEN as u64, LEN as u64), "{what}");
                // A reader takes at least a few bytes between two waits.
                assert!(n_blocked < LEN / 100, "{what}: {n_blocked}");
                for test_sink in test_sinks {
                    if let Some(arrived) = test_sink.into_bytes(LEN as u64) {
                        assert_same(&arrived, &bytes, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_session_waits_for_the_blocked_sinks_alone() {
    let (source, writer) = pipe();
    let (full_reader, full) = pipe();
    let (_reader, roomy) = pipe();
    assert!(write_all(&full, &vec![0; 64 << 10]));
    assert!(write_all(&writer, b"hello"));
    drop(writer);
    let mut session = to_all(&source, &[&roomy, &full])
        .grow_pipes(false)
        .start()
        .unwrap();
    for _ in 0..3 {
        let Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
            panic!("the sink is full");
        };
        assert!(interest.sink() && !interest.source());
        let blocked: Vec<_> = session.blocked_sinks().map(|(index, _)| index).collect();
        assert_eq!(blocked, [1]);
    }
    let reading = thread::spawn(move || read_to_end(&full_reader));
    assert_eq!(session.drive().unwrap(), Ended::Eof);
    assert_eq!(session.blocked_sinks().count(), 0);
    assert_eq!(session.finish().unwrap().bytes(), 5);
    drop(full);
    assert_eq!(reading.join().unwrap().len(), (64 << 10) + 5);
}

/// The sinks that are only watched stay writable, and are not waited for.
#[test]
fn a_session_that_watches_readers_waits_for_its_source_alone() {
    let (source, _writer) = pipe();
    let (reader, first) = pipe();
    let (other_reader, second) = unix(SocketType::STREAM);
    let mut session = FanOut::new(&source, &first)
        .also_to(&second)
        .watch_readers(true)
        .on_sink_error(OnSinkError::Detach)
        .start()
        .unwrap();
    let Progressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
        panic!("the source is idle");
    };
    assert!(interest.source() && !interest.sink());
    assert_eq!(session.sinks().count(), 2);

    drop((reader, other_reader));
    // A caller polls the sinks for errors.
    let sinks = session.sinks();
    let mut fds: Vec<_> = sinks
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::empty()))
        .collect();
    assert_eq!(poll(&mut fds, None), Ok(2));
    assert_eq!(
        session.step(u64::MAX).unwrap(),
        Progressed::Ended(Ended::NoSink)
    );
}

#[test]
fn a_session_of_a_fan_out_owns_its_ends_and_goes_to_another_thread() {
    let (source, writer) = pipe();
    let (reader, sink) = pipe();
    let mut session = FanOut::new(source, sink).also_to(null()).start().unwrap();
    assert!(matches!(
        session.step(u64::MAX).unwrap(),
        Progressed::Blocked(_)
    ));
    let running = thread::spawn(move || session.drive().and_then(|_| session.finish()));
    assert!(write_all(&writer, b"hello"));
    drop(writer);
    assert_eq!(running.join().unwrap().unwrap().bytes(), 5);
    assert_eq!(read_to_end(&reader), b"hello", "the sink is closed");
}

#[test]
fn a_stop_ends_a_fan_out_that_waits_for_its_source_or_for_a_sink() {
    for waits_for_sink in [false, true] {
        let (source, writer) = pipe();
        let (_reader, full) = pipe();
        assert!(write_all(&full, &vec![0; 64 << 10]));
        if waits_for_sink {
            assert!(write_all(&writer, b"hello"));
        }
        let stop = Stop::new().unwrap();
        let fan_out = FanOut::new(source, full).also_to(null()).grow_pipes(false);
        let fan_out = fan_out.stop_with(&stop);
        let running = thread::spawn(move || fan_out.run());
        stop.stop();
        let report = running.join().unwrap().unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
        drop(writer);
    }
}

#[test]
fn a_deadline_ends_a_fan_out_that_waits() {
    let (source, _writer) = pipe();
    let (_reader, sink) = pipe();
    let deadline = Instant::now() + Duration::from_millis(20);
    let fan_out = FanOut::new(&source, &sink).also_to(null());
    let report = fan_out.deadline(deadline).run().unwrap();
    assert_eq!(report.ended(), Ended::TimedOut);
    assert!(Instant::now() >= deadline);
}
