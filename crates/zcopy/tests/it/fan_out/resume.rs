//! A fan-out that has ended early is continued by hand, as [`SinkReport::ahead`] says. Every sink
//! then has every byte once.

use std::iter::zip;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::net::SocketType;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use zcopy::{Ended, FanOut, OnSinkError, Progressed, Report, Side, SinkReport, Strategy};

use super::{Kind, TestSink, to_all};
use crate::endpoints::{Source, SourceKind, pipe, unix};
use crate::files::{assert_same, pattern, read_to_end, write_all};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::allowed;

const LEN: usize = 600_007;
const SOURCES: [SourceKind; 3] = [
    SourceKind::Pipe,
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::UnixStream,
];
/// Sinks of different speeds, without and with one that must be written to.
const SETS: [[Kind; 3]; 3] = [
    [Kind::SlowPipe, Kind::File, Kind::TinySocket],
    [Kind::Append, Kind::OneSlot, Kind::Tcp],
    [Kind::Tmpfs, Kind::Tcp, Kind::SlowPipe],
];

/// Gives each of these sinks what it lacks. `rest` is what the source still has.
fn resume(report: &Report, rest: &[u8], sinks: &[Option<&OwnedFd>]) {
    let following = [report.undelivered(), rest].concat();
    assert_eq!(report.sinks().len(), sinks.len());
    thread::scope(|scope| {
        for (sink_report, sink) in zip(report.sinks(), sinks) {
            let Some(sink) = sink else { continue };
            let ahead = sink_report.ahead();
            assert_eq!(sink_report.bytes(), report.bytes() + ahead, "{report}");
            let lacking = &following[usize::try_from(ahead).unwrap()..];
            scope.spawn(move || assert!(write_all(*sink, lacking)));
        }
    });
}

/// Ends fan-outs to each set early, by `run`, and continues them by hand.
fn assert_resumes(what: &str, run: impl Fn(FanOut<'_>) -> Report) {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for kinds in SETS {
            for strategy in allowed([None, Some(Strategy::Buffered)]) {
                let what = format!("{what}, {from:?} to {kinds:?}, {strategy:?}");
                let test_sinks: Option<Vec<_>> = kinds.into_iter().map(TestSink::new).collect();
                let (Some(source), Some(test_sinks)) = (Source::new(from, &bytes), test_sinks)
                else {
                    continue;
                };
                let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
                let fan_out = to_all(&source.fd, &fds).maybe_strategy(strategy);
                let report = run(fan_out.grow_pipes(false));
                let fds: Vec<_> = fds.into_iter().map(Some).collect();
                let rest = source.into_rest();
                resume(&report, &rest, &fds);
                for test_sink in test_sinks {
                    let arrived = test_sink.into_bytes(LEN as u64).unwrap();
                    assert_same(&arrived, &bytes, &format!("{what}\n{report}"));
                }
            }
        }
    }
}

#[test]
fn a_fan_out_that_its_observer_stops_is_continued_at_every_point() {
    for steps in [1, 2, 3, 5, 8, 20] {
        assert_resumes(&format!("{steps} steps"), |fan_out| {
            let mut n_steps = 0;
            let fan_out = fan_out.observe(|_| {
                n_steps += 1;
                if n_steps < steps {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            fan_out.run().unwrap()
        });
    }
}

#[test]
fn a_fan_out_that_is_stopped_when_a_sink_is_full_is_continued() {
    assert_resumes("blocked", |fan_out| {
        let fan_out = fan_out.tick(Duration::from_millis(1));
        let fan_out = fan_out.observe(|progress| match progress.blocked() {
            Some(Side::Sink) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        fan_out.run().unwrap()
    });
}

#[test]
fn a_session_that_is_finished_after_any_step_is_continued() {
    for steps in [0, 1, 2, 3, 10] {
        assert_resumes(&format!("{steps} steps of a session"), |fan_out| {
            let mut session = fan_out.start().unwrap();
            for _ in 0..steps {
                match session.step(100_000).unwrap() {
                    Progressed::Ended(_) => break,
                    // The blocked sink may be read meanwhile, or not.
                    Progressed::Blocked(_) => thread::yield_now(),
                    _ => {}
                }
            }
            session.finish().unwrap()
        });
    }
}

/// A pipe and a socket that nobody reads until the fan-out has given up, so that the others are
/// ahead.
#[test]
fn sinks_that_are_ahead_of_one_that_is_not_read_receive_no_byte_twice() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for late in [pipe, || swapped(unix(SocketType::STREAM))] {
            for (index, strategy) in (0..3).flat_map(|index| {
                let strategies = allowed([None, Some(Strategy::Buffered)]);
                strategies.map(move |strategy| (index, strategy))
            }) {
                let what = format!("{from:?}, {strategy:?}, sink {index} is late");
                let source = Source::new(from, &bytes).unwrap();
                let (late_reader, late) = late();
                let others = [Kind::Tmpfs, Kind::Append].map(|kind| TestSink::new(kind).unwrap());
                let mut fds: Vec<_> = others.iter().map(TestSink::fd).collect();
                fds.insert(index, &late);
                let report = to_all(&source.fd, &fds)
                    .maybe_strategy(strategy)
                    .grow_pipes(false)
                    .idle_timeout(Duration::from_millis(30))
                    .run()
                    .unwrap();
                assert_eq!(report.ended(), Ended::TimedOut, "{what}");
                let ahead: Vec<_> = report.sinks().iter().map(SinkReport::ahead).collect();
                assert_eq!(ahead[index], 0, "{what}: {report}");
                assert!(ahead.iter().any(|ahead| *ahead > 0), "{what}: {report}");

                let reading = thread::spawn(move || read_to_end(&late_reader));
                let fds: Vec<_> = fds.into_iter().map(Some).collect();
                resume(&report, &source.into_rest(), &fds);
                drop(late);
                assert_same(&reading.join().unwrap(), &bytes, &what);
                for other in others {
                    let arrived = other.into_bytes(LEN as u64).unwrap();
                    assert_same(&arrived, &bytes, &what);
                }
            }
        }
    }
}

fn swapped((sink, reader): (OwnedFd, OwnedFd)) -> (OwnedFd, OwnedFd) {
    (reader, sink)
}

/// The socket fails because its own time-out expires, and works again when it is read.
#[test]
fn a_fan_out_that_a_sink_fails_is_continued_with_that_sink() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for strategy in allowed([None, Some(Strategy::Buffered)]) {
            let what = format!("{from:?}, {strategy:?}");
            let source = Source::new(from, &bytes).unwrap();
            let (failing, reader) = unix(SocketType::STREAM);
            set_socket_timeout(&failing, Timeout::Send, Some(Duration::from_millis(30))).unwrap();
            let others = [Kind::SlowPipe, Kind::Tcp].map(|kind| TestSink::new(kind).unwrap());
            let fds = [others[0].fd(), &failing, others[1].fd()];
            let fan_out = to_all(&source.fd, &fds).maybe_strategy(strategy);
            let error = fan_out
                .on_sink_error(OnSinkError::Stop)
                .grow_pipes(false)
                .run()
                .unwrap_err();
            assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
            let report = error.into_report();
            assert!(report.sinks()[1].error().is_some(), "{what}: {report}");

            let reading = thread::spawn(move || read_to_end(&reader));
            set_socket_timeout(&failing, Timeout::Send, None).unwrap();
            resume(&report, &source.into_rest(), &fds.map(Some));
            drop(failing);
            assert_same(&reading.join().unwrap(), &bytes, &what);
            for other in others {
                let arrived = other.into_bytes(LEN as u64).unwrap();
                assert_same(&arrived, &bytes, &what);
            }
        }
    }
}

/// The reader of one sink closes, and the others go on without it.
#[test]
fn a_fan_out_that_a_sink_fails_is_continued_without_that_sink() {
    let bytes = pattern(LEN);
    for from in SOURCES {
        for taken in [1, 100_000] {
            for strategy in allowed([None, Some(Strategy::Buffered)]) {
                let what = format!("{from:?}, {strategy:?}, {taken} bytes read");
                let source = Source::new(from, &bytes).unwrap();
                let (reader, failing) = pipe();
                let reading = thread::spawn(move || {
                    let mut taken = vec![0; taken];
                    let mut n = 0;
                    while n < taken.len() {
                        n += rustix::io::read(&reader, &mut taken[n..]).unwrap();
                    }
                });
                let others = [Kind::OneSlot, Kind::Append].map(|kind| TestSink::new(kind).unwrap());
                let fds = [others[0].fd(), others[1].fd(), &failing];
                let fan_out = to_all(&source.fd, &fds).maybe_strategy(strategy);
                let error = fan_out.grow_pipes(false).run().unwrap_err();
                assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                reading.join().unwrap();
                let report = error.into_report();
                let remaining = [Some(fds[0]), Some(fds[1]), None];
                resume(&report, &source.into_rest(), &remaining);
                for other in others {
                    let arrived = other.into_bytes(LEN as u64).unwrap();
                    assert_same(&arrived, &bytes, &format!("{what}: {report}"));
                }
            }
        }
    }
}

/// With an offset the cursor says nothing: the bytes that follow begin behind those of the report.
#[test]
fn a_source_with_an_offset_is_continued_behind_the_bytes_of_the_report() {
    let bytes = pattern(LEN);
    let source = crate::files::file(&bytes);
    let (late_reader, late) = pipe();
    let others = [Kind::Tmpfs, Kind::Append].map(|kind| TestSink::new(kind).unwrap());
    let source: OwnedFd = source.into();
    let fds = [others[0].fd(), others[1].fd(), &late];
    let report = to_all(&source, &fds)
        .source_offset(1000)
        .grow_pipes(false)
        .idle_timeout(Duration::from_millis(30))
        .run()
        .unwrap();
    assert_eq!(report.ended(), Ended::TimedOut);
    assert!(report.sinks()[0].ahead() > 0, "{report}");
    assert_eq!(report.undelivered(), b"", "the file has them");
    let rest = &bytes[1000 + usize::try_from(report.bytes()).unwrap()..];
    let reading = thread::spawn(move || read_to_end(&late_reader));
    resume(&report, rest, &fds.map(Some));
    drop(late);
    assert_same(&reading.join().unwrap(), &bytes[1000..], "late");
    for other in others {
        let arrived = other.into_bytes((LEN - 1000) as u64).unwrap();
        assert_same(&arrived, &bytes[1000..], "another");
    }
}

#[test]
fn a_sink_that_was_detached_is_not_ahead_of_those_that_have_gone_on() {
    let bytes = pattern(LEN);
    let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
    let (reader, failing) = pipe();
    drop(reader);
    let other = TestSink::new(Kind::File).unwrap();
    let report = to_all(&source.fd, &[&failing, other.fd()])
        .on_sink_error(OnSinkError::Detach)
        .run()
        .unwrap();
    let [failed, whole] = report.sinks() else {
        panic!("two sinks")
    };
    assert_eq!((failed.bytes(), failed.ahead()), (0, 0));
    assert_eq!((whole.bytes(), whole.ahead()), (LEN as u64, 0));
}
