//! Sinks that fail, in every role and at every position.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use crate::options::{OnSinkError, Options, SyncData};
use crate::progress::Observer;
use crate::report::{Ended, Report, SinkReport};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::objects::{Object, patterned};
use crate::sim::run::{Callbacks, fan_out, fan_out_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

pub(super) const LONG: usize = 300_000;

/// Opens a source: a pipe, from which sinks share directly, or a socket, from which they do not.
pub(super) fn source(kernel: &SimKernel, is_stream: bool) -> OwnedFd {
    let source = Object::written_by_peer(is_stream, &patterned(LONG), &[]);
    kernel.source(source, OFlags::empty())
}

/// Opens a source whose first bytes come in short messages, so that they are written to all sinks,
/// and the last third at once.
fn source_of_messages(kernel: &SimKernel, is_stream: bool) -> OwnedFd {
    let messages = [500; 400];
    let source = Object::written_by_peer(is_stream, &patterned(LONG), &messages);
    kernel.source(source, OFlags::empty())
}

pub(super) fn pipe(kernel: &SimKernel) -> OwnedFd {
    kernel.sink(Object::read_by_peer(false), OFlags::empty())
}

pub(super) fn file(kernel: &SimKernel) -> OwnedFd {
    kernel.sink(Object::file(&[]), OFlags::empty())
}

pub(super) fn appending(kernel: &SimKernel) -> OwnedFd {
    kernel.sink(Object::file(&[]), OFlags::APPEND)
}

/// Returns options with steps of 64 KiB.
pub(super) fn options() -> Options {
    Options {
        grow_pipes: false,
        ..Options::default()
    }
}

pub(super) fn by_the_plan(kernel: &SimKernel, source: &OwnedFd, sinks: &[OwnedFd]) -> Report {
    fan_out(kernel, (source, sinks), options(), OnSinkError::Stop).unwrap()
}

/// Opens sinks of every role, of which one fails.
fn roles(kernel: &SimKernel, fails: usize, after: u64) -> Vec<OwnedFd> {
    let breaking = |mut object: Object, index| {
        if index == fails {
            match &mut object {
                Object::File(file) => file.bad = Some((after, Errno::NOSPC)),
                Object::Channel(channel) if channel.is_stream => {
                    channel.fails_after = Some((after, Errno::CONNRESET));
                }
                Object::Channel(channel) => channel.fails_after = Some((after, Errno::PIPE)),
                _ => {}
            }
        }
        object
    };
    let sinks = [
        (Object::read_by_peer(false), OFlags::empty()),
        (Object::file(&[]), OFlags::empty()),
        (Object::read_by_peer(true), OFlags::empty()),
        (Object::file(&[]), OFlags::APPEND),
        (Object::read_by_peer(false), OFlags::empty()),
        (Object::file(&[]), OFlags::empty()),
    ];
    let sinks = sinks.into_iter().enumerate();
    sinks
        .map(|(index, (object, flags))| kernel.sink(breaking(object, index), flags))
        .collect()
}

/// Returns an observer that stops the transfer when it has been called more than `n` times.
fn stopping_after(n: usize) -> Observer<'static> {
    let mut n_observed = 0;
    Box::new(move |_| {
        n_observed += 1;
        if n_observed > n {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })
}

#[test]
fn a_sink_that_fails_in_any_role_after_any_step_loses_nothing() {
    assert_that_a_failing_sink_loses_nothing(source);
}

#[test]
fn a_sink_that_fails_between_short_messages_loses_nothing() {
    assert_that_a_failing_sink_loses_nothing(source_of_messages);
}

/// With and without the appending sink, so that every sink receives bytes by tee, by draining, by
/// splice and by write.
fn assert_that_a_failing_sink_loses_nothing(open: fn(&SimKernel, bool) -> OwnedFd) {
    let all = [0, 1, 2, 3, 4, 5];
    let spliced = [0, 1, 2, 4, 5];
    let data = patterned(LONG);
    for (kept, is_stream) in [
        (&all[..], false),
        (&spliced[..], false),
        (&all, true),
        (&spliced, true),
    ] {
        for fails in kept.iter().copied() {
            for after in [0, 1, 100_000, 200_000, LONG as u64 - 1] {
                // The reader of a pipe closes it between two calls, the last of which moves more
                // than a byte.
                if matches!(fails, 0 | 4) && after == LONG as u64 - 1 {
                    continue;
                }
                for decision in [OnSinkError::Stop, OnSinkError::Detach] {
                    let kernel = SimKernel::default();
                    let source = open(&kernel, is_stream);
                    let sinks = roles(&kernel, fails, after);
                    let mut sinks: Vec<_> = sinks.into_iter().map(Some).collect();
                    let failing = kept.iter().position(|index| *index == fails).unwrap();
                    let sinks: Vec<_> = kept
                        .iter()
                        .filter_map(|index| sinks[*index].take())
                        .collect();
                    let ends = (&source, &sinks[..]);
                    let outcome = fan_out(&kernel, ends, options(), decision);
                    let what =
                        format!("{kept:?}, {is_stream}, {fails} after {after}, {decision:?}");
                    let report = match &outcome {
                        Ok(report) => report,
                        Err(error) => error.report(),
                    };
                    for (sink, sink_report) in sinks.iter().zip(report.sinks()) {
                        let n = sink_report.bytes() as usize;
                        assert!(kernel.contents(sink) == data[..n], "{what}\n{report:#}");
                        let has_failed = sink_report.index() == failing;
                        assert_eq!(
                            sink_report.error().is_some(),
                            has_failed,
                            "{what}\n{report:#}"
                        );
                    }
                    assert!(report.sinks()[failing].bytes() <= after.next_multiple_of(64 << 10));
                    match &outcome {
                        Err(error) => {
                            assert_eq!(decision, OnSinkError::Stop, "{what}");
                            assert_eq!(error.side(), Side::Sink, "{what}");
                            let least = report.sinks().iter().map(SinkReport::bytes).min();
                            assert_eq!(Some(report.bytes()), least, "{what}");
                        }
                        Ok(report) => {
                            assert_eq!(decision, OnSinkError::Detach, "{what}");
                            let end = (report.bytes(), report.ended());
                            assert_eq!(end, (LONG as u64, Ended::Eof), "{what}");
                        }
                    }
                    let n = report.bytes() as usize;
                    let rest = [report.undelivered(), &kernel.contents(&source)].concat();
                    assert!(rest == data[n..], "{what}\n{report:#}");
                }
            }
        }
    }
}

/// The other sinks have all bytes, and the consuming sink has none: the backlog still holds all of
/// them.
#[test]
fn the_consuming_sink_failing_while_the_others_are_ahead_hands_everything_back() {
    for is_stream in [false, true] {
        let kernel = SimKernel::default();
        let source = source(&kernel, is_stream);
        let sinks = roles(&kernel, 5, 0);
        let sinks = [&sinks[0], &sinks[1], &sinks[5]].map(|fd| kernel_name(&kernel, fd));
        let error = fan_out(&kernel, (&source, &sinks), options(), OnSinkError::Stop).unwrap_err();
        let report = error.report();
        assert_eq!(report.sinks()[2].strategy(), Some(Strategy::Splice));
        assert_eq!((error.bytes(), report.sinks()[2].bytes()), (0, 0));
        assert!(report.sinks()[0].bytes() > 0 && report.sinks()[1].bytes() > 0);
        // With a file among the sinks, bytes are shared from a private pipe.
        assert!(!error.undelivered().is_empty());
        let rest = [error.undelivered(), &kernel.contents(&source)].concat();
        assert!(rest == patterned(LONG));
    }
}

/// Opens another descriptor of the same object.
fn kernel_name(kernel: &SimKernel, fd: &OwnedFd) -> OwnedFd {
    use std::os::fd::AsRawFd;
    let mut state = kernel.state.borrow_mut();
    let found = *state.descriptor(fd.as_raw_fd());
    state.name(found.object, found.flags, Side::Sink)
}

#[test]
fn with_the_last_sink_the_transfer_ends_and_what_it_lacks_is_handed_back() {
    for strategy in [None, Some(Strategy::Buffered)] {
        for is_stream in [false, true] {
            let kernel = SimKernel::default();
            let source = source(&kernel, is_stream);
            let broken = |after| {
                let mut object = Object::read_by_peer(false);
                if let Object::Channel(channel) = &mut object {
                    channel.fails_after = Some((after, Errno::PIPE));
                }
                kernel.sink(object, OFlags::empty())
            };
            let sinks = [broken(1), broken(200_000), broken(100_000)];
            let options = Options {
                strategy,
                ..options()
            };
            let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Detach).unwrap();
            assert_eq!(report.ended(), Ended::NoSink, "{report:#}");
            assert!(report.sinks().iter().all(|sink| sink.error().is_some()));
            let n = report.bytes() as usize;
            assert_eq!(report.bytes(), report.sinks()[1].bytes());
            let rest = [report.undelivered(), &kernel.contents(&source)].concat();
            assert!(rest == patterned(LONG)[n..], "{report:#}");
        }
    }
}

/// When the sink that should have removed the bytes is gone, the source still holds bytes that all
/// other sinks have, and the next reader would get them twice.
#[test]
fn a_break_after_a_sink_has_gone_leaves_nothing_in_the_source_that_all_have() {
    let open = [source, source_of_messages];
    for fails in [0, 1, 2] {
        for (stops_at, open) in (0..20).flat_map(|n| [(n, open[0]), (20 * n, open[1])]) {
            let kernel = SimKernel::default();
            let source = open(&kernel, false);
            let sinks = [0, 1, 5].map(|index| {
                let gone = roles(
                    &kernel,
                    if index == [0, 1, 5][fails] { index } else { 9 },
                    100_000,
                );
                kernel_name(&kernel, &gone[index])
            });
            let callbacks = Callbacks {
                observe: Some(stopping_after(stops_at)),
                on_sink_error: Some(Box::new(|_| OnSinkError::Detach)),
                ..Callbacks::default()
            };
            let options = Options {
                observed: true,
                ..options()
            };
            let report = fan_out_with(&kernel, (&source, &sinks), options, callbacks).unwrap();
            let n = report.bytes() as usize;
            let rest = [report.undelivered(), &kernel.contents(&source)].concat();
            assert!(
                rest == patterned(LONG)[n..],
                "{fails}, {stops_at}\n{report:#}"
            );
        }
    }
}

/// Both sinks fail in one step, and the one whose bytes count has more than the other.
#[test]
fn the_inspector_has_seen_what_the_last_sink_has() {
    let kernel = SimKernel::default();
    let source = source(&kernel, false);
    let failing = |is_stream, after| {
        let mut object = Object::read_by_peer(is_stream);
        if let Object::Channel(channel) = &mut object {
            channel.fails_after = Some((after, Errno::CONNRESET));
        }
        kernel.sink(object, OFlags::empty())
    };
    let sinks = [failing(true, 100_000), failing(true, 100_001)];
    let mut seen = Vec::new();
    let callbacks = Callbacks {
        inspect: Some(Box::new(|bytes| seen.extend_from_slice(bytes))),
        on_sink_error: Some(Box::new(|_| OnSinkError::Detach)),
        ..Callbacks::default()
    };
    let options = Options {
        inspected: true,
        ..options()
    };
    let report = fan_out_with(&kernel, (&source, &sinks), options, callbacks).unwrap();
    assert_eq!((report.bytes(), report.ended()), (100_001, Ended::NoSink));
    assert!(seen == patterned(100_001), "{} bytes", seen.len());
    let rest = [report.undelivered(), &kernel.contents(&source)].concat();
    assert!(rest == patterned(LONG)[100_001..], "{report:#}");
}

/// Each sink is synced by itself, so that a failing disk is an error of its sink alone.
#[test]
fn a_disk_that_fails_to_sync_detaches_its_sink_and_the_rest_goes_on() {
    let kernel = SimKernel::default();
    let source = kernel.source(
        Object::written_by_peer(false, &patterned(100_000), &[]),
        OFlags::empty(),
    );
    let sinks = [(); 2].map(|()| kernel.sink(Object::file(&[]), OFlags::empty()));
    let options = Options {
        sync_data: SyncData::EachStep,
        ..options()
    };
    kernel.inject(Call::SyncData, &[Injection::Fails(Errno::IO)]);
    let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Detach).unwrap();
    assert_eq!(report.bytes(), 100_000);
    let failed = report.sinks()[0]
        .error()
        .and_then(|error| error.raw_os_error());
    assert_eq!(failed, Some(Errno::IO.raw_os_error()));
    assert!(report.sinks()[1].error().is_none());
    assert_eq!(kernel.contents(&sinks[1]), patterned(100_000));
    assert!(kernel.results(Call::SyncData).len() > 2);
}

/// The first sync fails, after all bytes have arrived.
#[test]
fn a_fan_out_that_syncs_at_its_end_syncs_each_sink_once() {
    for policy in [OnSinkError::Detach, OnSinkError::Stop] {
        for fails in [false, true] {
            let kernel = SimKernel::default();
            let source = kernel.source(
                Object::written_by_peer(false, &patterned(100_000), &[]),
                OFlags::empty(),
            );
            let sinks = [(); 2].map(|()| kernel.sink(Object::file(&[]), OFlags::empty()));
            let options = Options {
                sync_data: SyncData::AtEnd,
                ..options()
            };
            if fails {
                kernel.inject(Call::SyncData, &[Injection::Fails(Errno::IO)]);
            }
            let outcome = fan_out(&kernel, (&source, &sinks), options, policy);
            assert_eq!(outcome.is_err(), fails && policy == OnSinkError::Stop);
            let report = outcome.unwrap_or_else(crate::Error::into_report);
            assert_eq!(report.bytes(), 100_000);
            let failed = report.sinks().iter().map(|sink| sink.error().is_some());
            assert_eq!(failed.collect::<Vec<_>>(), [fails, false]);
            assert!(report.sinks().iter().all(|sink| sink.bytes() == 100_000));
            assert_eq!(kernel.results(Call::SyncData).len(), 2);
        }
    }
}

/// A read returns the bytes behind an urgent byte, which a splice does not, and a write puts them
/// into the private pipe.
#[test]
fn a_private_pipe_that_takes_nothing_is_no_sink_s_failure_and_loses_nothing() {
    // The first round is long, so that the next one is not written.
    const MARK: usize = 20_000;
    for refused in [
        &[Injection::ReturnsZero][..],
        &[Injection::Short(10), Injection::ReturnsZero],
    ] {
        let kernel = SimKernel::default();
        let mut object = Object::written_by_peer(true, &patterned(LONG), &[]);
        if let Object::Channel(channel) = &mut object {
            channel.urgent_marks.push_back(MARK as u64);
        }
        let source = kernel.source(object, OFlags::empty());
        let sinks = [pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Write, refused);
        let error = fan_out(&kernel, (&source, &sinks), options(), OnSinkError::Detach);
        let error = error.unwrap_err();
        assert_eq!((error.side(), error.call()), (Side::Neither, Some("write")));
        assert!(
            error
                .report()
                .sinks()
                .iter()
                .all(|sink| sink.error().is_none())
        );
        assert_eq!(error.bytes(), MARK as u64);
        let rest = [error.undelivered(), &kernel.contents(&source)].concat();
        assert!(rest == patterned(LONG)[MARK..], "{error:#}");
    }
}

/// Another process moved the cursor of a sink behind a range of which a short splice had filled a
/// part.
#[test]
fn a_stop_leaves_no_gap_in_any_sink_that_others_write_to_too() {
    let data = patterned(LONG);
    for shared in [0, 1] {
        for (nth, stops_at) in (0..8).flat_map(|nth| (0..8).map(move |stops_at| (nth, stops_at))) {
            let kernel = SimKernel::default();
            let source = kernel.source(Object::file(&data), OFlags::empty());
            let sinks = [file(&kernel), file(&kernel)];
            // It fills the backlog, and moves few of these bytes to the sinks.
            let injections = [
                Injection::Normal,
                Injection::Short(9000),
                Injection::Short(9000),
            ];
            kernel.inject(Call::Splice, &injections);
            let theirs = (Target::Sink(shared), Action::Write(1));
            kernel.schedule(Interference::before(Call::Splice, nth, theirs.0, theirs.1));
            let callbacks = Callbacks::observing(stopping_after(stops_at));
            let options = Options {
                observed: true,
                ..options()
            };
            let report = fan_out_with(&kernel, (&source, &sinks), options, callbacks).unwrap();
            for (fd, sink) in sinks.iter().zip(report.sinks()) {
                let (holds, n) = (kernel.contents(fd), sink.bytes() as usize);
                let theirs =
                    (0..holds.len()).find(|place| data.get(*place) != Some(&holds[*place]));
                let place = theirs.unwrap_or(n);
                let behind = holds.get(place + 1..).unwrap_or_default();
                let rest = &data[place.min(n)..n];
                assert!(behind == rest, "{shared}, {nth}, {stops_at}: {sink}");
            }
            assert_eq!(kernel.cursor(&source), report.bytes());
        }
    }
}

#[test]
fn an_error_of_pipe_creation_that_is_no_refusal_is_reported_unchanged() {
    for errno in [Errno::PIPE, Errno::IO] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false);
        let sinks = [pipe(&kernel), file(&kernel)];
        // The first looks for packets.
        kernel.inject(Call::Tee, &[Injection::Normal, Injection::Fails(errno)]);
        let error = fan_out(&kernel, (&source, &sinks), options(), OnSinkError::Stop).unwrap_err();
        assert_eq!((error.side(), error.call()), (Side::Sink, Some("tee")));
        assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        assert_eq!(error.report().sinks()[0].strategy(), Some(Strategy::Tee));
    }
}

#[test]
fn an_error_at_the_close_of_a_second_opening_is_that_sink_s_failure_alone() {
    let kernel = SimKernel::default();
    let source = source(&kernel, false);
    let direct = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let sinks = [direct, file(&kernel)];
    kernel.inject(Call::Close, &[Injection::Fails(Errno::IO)]);
    let report = fan_out(&kernel, (&source, &sinks), options(), OnSinkError::Detach).unwrap();
    let errors = report.sinks().iter().map(SinkReport::error);
    let errors: Vec<_> = errors
        .map(|error| error.and_then(|error| error.raw_os_error()))
        .collect();
    assert_eq!(errors, [Some(Errno::IO.raw_os_error()), None]);
    for sink in &sinks {
        assert_eq!(kernel.contents(sink), patterned(LONG));
    }
}
