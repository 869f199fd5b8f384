//! Sinks and sources that are not ready, ticks, signals and time-outs.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::context::MAX_TIMES_BLOCKED;
use crate::options::{OnSinkError, Options};
use crate::report::Ended;
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::run::{Callbacks, fan_out, fan_out_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const LONG: usize = 600_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Opens a pipe or socket whose peer writes `len` bytes.
fn source(kernel: &SimKernel, is_stream: bool, len: usize) -> OwnedFd {
    let source = Object::written_by_peer(is_stream, &patterned(len), &[]);
    kernel.source(source, OFlags::empty())
}

/// Opens pipes whose readers wait `delay` milliseconds before each read.
fn slow_pipes(kernel: &SimKernel, n: usize, delay: u64, mode: OFlags) -> Vec<OwnedFd> {
    let pipe = || Object::read_by_peer(false).with_delay(millis(delay));
    (0..n).map(|_| kernel.sink(pipe(), mode)).collect()
}

/// The source is known to have bytes, so that waiting for it would be a busy loop.
#[test]
fn when_every_sink_is_full_it_is_the_sinks_that_are_waited_for() {
    for n_sinks in [1, 2, 3] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false, LONG);
        let sinks = slow_pipes(&kernel, n_sinks, 50, OFlags::NONBLOCK);
        let report = fan_out(
            &kernel,
            (&source, &sinks),
            Options::default(),
            OnSinkError::Stop,
        );
        assert_eq!(report.unwrap().bytes(), LONG as u64);
        assert_eq!(kernel.state.borrow().n_sleeps, 0, "{n_sinks} sinks");
        // A pipe is filled and emptied this many times, with a few calls each time.
        let n_turns = LONG / (64 << 10) + 2;
        let n_calls = kernel.state.borrow().log.len();
        let most = 8 * n_turns * (n_sinks + 1);
        assert!(n_calls <= most, "{n_sinks} sinks: {n_calls} calls");
    }
}

/// Each sink becomes ready late in its turn, which is no spurious wake-up.
#[test]
fn many_slow_sinks_are_not_given_pauses_on_top() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sinks: Vec<_> = (0..13)
        .map(|n| {
            let sink = Object::read_by_peer(true).with_delay(millis(10 + n));
            kernel.sink(sink, OFlags::NONBLOCK)
        })
        .collect();
    let report = fan_out(
        &kernel,
        (&source, &sinks),
        Options::default(),
        OnSinkError::Stop,
    );
    assert_eq!(report.unwrap().bytes(), LONG as u64);
    assert_eq!(kernel.state.borrow().n_sleeps, 0);
}

/// `poll(2)` reports the sink as ready, and its calls return `EAGAIN`.
#[test]
fn a_sink_with_too_many_spurious_wakeups_is_retried_after_pauses() {
    for n_sleeps in [0, 1, 12] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false, 1000);
        let sinks = [
            kernel.sink(Object::file(&[]), OFlags::APPEND),
            kernel.sink(Object::read_by_peer(true), OFlags::NONBLOCK),
        ];
        // The transfer does not wait while it serves the other sink.
        let n_spurious = 1 + MAX_TIMES_BLOCKED as usize + n_sleeps;
        kernel.inject(Call::Write, &[Injection::Normal]);
        kernel.inject(Call::Write, &vec![Injection::SpuriousWakeup; n_spurious]);
        let options = Options {
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
        assert_eq!(report.bytes(), 1000);
        assert_eq!(
            kernel.state.borrow().n_sleeps,
            n_sleeps,
            "{n_spurious} spurious wake-ups"
        );
    }
}

#[test]
fn a_break_while_every_sink_is_full_takes_one_tick_and_says_so() {
    for (is_stream, strategy) in [
        (false, None),
        (true, None),
        (false, Some(Strategy::Buffered)),
        (true, Some(Strategy::Buffered)),
    ] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = source(&kernel, is_stream, LONG);
        let sinks = slow_pipes(&kernel, 2, 1000, OFlags::empty());
        let mut blocked = Vec::new();
        let callbacks = Callbacks::observing(|progress| match progress.blocked() {
            None | Some(Side::Source) => ControlFlow::Continue(()),
            Some(side) => {
                blocked.push(side);
                ControlFlow::Break(())
            }
        });
        let options = Options {
            tick: Some(millis(5)),
            grow_pipes: false,
            observed: true,
            strategy,
            ..Options::default()
        };
        let report = fan_out_with(&kernel, (&source, &sinks), options, callbacks).unwrap();
        assert_eq!(report.ended(), Ended::Stopped);
        assert_eq!(blocked, [Side::Sink], "{is_stream}, {strategy:?}");
        let took = kernel.elapsed();
        assert!(took < millis(20), "{took:?}");
    }
}

#[test]
fn a_storm_of_signals_is_weathered_by_every_call() {
    for strategy in [None, Some(Strategy::Buffered)] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false, LONG);
        let sinks = [
            kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK),
            kernel.sink(Object::read_by_peer(true), OFlags::empty()),
            kernel.sink(Object::file(&[]), OFlags::APPEND),
            kernel.sink(Object::file(&[]), OFlags::empty()),
        ];
        for call in [Call::Tee, Call::Splice, Call::Read, Call::Write, Call::Poll] {
            kernel.inject(call, &[Injection::Interrupted; 50]);
        }
        let options = Options {
            strategy,
            ..Options::default()
        };
        fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
        for sink in &sinks {
            assert!(kernel.contents(sink) == patterned(LONG), "{strategy:?}");
        }
    }
}

/// With and without a tick, and with watched readers: everything that makes calls non-blocking.
#[test]
fn a_socket_that_times_out_is_an_error_and_not_a_wait_for_ever() {
    for (tick, watch_readers) in [(None, false), (Some(millis(3)), false), (None, true)] {
        for side in [Side::Source, Side::Sink] {
            let kernel = SimKernel::default();
            kernel.state.borrow_mut().may_sleep = tick.is_none() && !watch_readers;
            let slow = |is_it: bool, object: Object| {
                if is_it {
                    object.with_delay(millis(5000)).with_timeout(millis(20))
                } else {
                    object
                }
            };
            let source = Object::written_by_peer(true, &patterned(LONG), &[]);
            let source = kernel.source(slow(side == Side::Source, source), OFlags::empty());
            let sink = slow(side == Side::Sink, Object::read_by_peer(true));
            let sinks = [
                kernel.sink(sink, OFlags::empty()),
                kernel.sink(Object::read_by_peer(false), OFlags::empty()),
            ];
            let options = Options {
                tick,
                watch_readers,
                ..Options::default()
            };
            let what = format!("{side:?}, {tick:?}, {watch_readers}");
            let error = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop);
            let error = error.expect_err(&what);
            assert_eq!(error.side(), side, "{what}: {error:#}");
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{what}");
            let took = kernel.elapsed();
            assert!(took >= millis(20) && took < millis(50), "{what}: {took:?}");
        }
    }
}

/// It was the only sink without all bytes, so that the transfer waits for nothing after it.
#[test]
fn a_socket_that_times_out_is_detached_and_the_rest_goes_on() {
    for (strategy, is_stream) in [
        (None, false),
        (None, true),
        (Some(Strategy::Buffered), false),
        (Some(Strategy::Buffered), true),
    ] {
        for watch_readers in [false, true] {
            let kernel = SimKernel::default();
            kernel.state.borrow_mut().may_sleep = !watch_readers;
            let source = source(&kernel, is_stream, LONG);
            let slow = Object::read_by_peer(true).with_delay(millis(5000));
            let sinks = [
                kernel.sink(Object::file(&[]), OFlags::empty()),
                kernel.sink(slow.with_timeout(millis(20)), OFlags::empty()),
                kernel.sink(Object::file(&[]), OFlags::APPEND),
            ];
            let options = Options {
                strategy,
                watch_readers,
                ..Options::default()
            };
            let what = format!("{strategy:?}, {is_stream}, {watch_readers}");
            let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Detach).unwrap();
            assert_eq!((report.bytes(), report.ended()), (LONG as u64, Ended::Eof));
            assert!(kernel.contents(&sinks[0]) == patterned(LONG), "{what}");
            assert!(kernel.contents(&sinks[2]) == patterned(LONG), "{what}");
            let error = report.sinks()[1].error().unwrap();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{what}");
            assert_eq!(kernel.state.borrow().n_sleeps, 0, "{what}");
            assert!(kernel.elapsed() < millis(100), "{what}");
        }
    }
}

/// A write would raise `SIGPIPE`, although there is nothing to write.
#[test]
fn at_the_end_no_call_is_made_for_a_reader_that_has_everything_and_has_gone() {
    for is_stream in [None, Some(false), Some(true)] {
        let kernel = SimKernel::default();
        let source = match is_stream {
            Some(is_stream) => source(&kernel, is_stream, LONG),
            None => kernel.source(Object::file(&patterned(LONG)), OFlags::empty()),
        };
        let sinks = [(); 3].map(|()| {
            let mut object = Object::read_by_peer(false);
            if let Object::Channel(channel) = &mut object {
                channel.fails_after = Some((LONG as u64, Errno::PIPE));
            }
            kernel.sink(object, OFlags::empty())
        });
        let ends = (&source, &sinks[..]);
        let report = fan_out(&kernel, ends, Options::default(), OnSinkError::Stop).unwrap();
        assert_eq!((report.bytes(), report.ended()), (LONG as u64, Ended::Eof));
        assert!(
            kernel.state.borrow().errors_reported.is_empty(),
            "{is_stream:?}"
        );
    }
}

/// The source sends nothing for five seconds, and the sink receives the earlier bytes before that.
#[test]
fn a_call_that_moved_nothing_is_made_again_before_the_source_is_waited_for() {
    let refused = [Injection::Normal, Injection::Fails(Errno::INVAL)];
    for (strategy, call, injections) in [
        // The first splice fills the backlog.
        (None, Call::Splice, &refused[..]),
        (
            Some(Strategy::Buffered),
            Call::Write,
            &[Injection::Interrupted; 3],
        ),
    ] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = Object::written_by_peer(false, &patterned(2000), &[1000; 2]);
        let source = kernel.source(source.with_delay(millis(5000)), OFlags::empty());
        let sinks = [kernel.sink(Object::file(&[]), OFlags::empty())];
        kernel.inject(call, injections);
        let mut first_at = None;
        let callbacks = Callbacks::observing(|progress| {
            if progress.bytes() >= 1000 {
                first_at.get_or_insert(kernel.elapsed());
            }
            ControlFlow::Continue(())
        });
        let options = Options {
            tick: Some(millis(100)),
            observed: true,
            strategy,
            ..Options::default()
        };
        let report = fan_out_with(&kernel, (&source, &sinks), options, callbacks).unwrap();
        assert_eq!(report.bytes(), 2000);
        let first_at = first_at.unwrap();
        assert!(first_at < millis(5500), "{strategy:?}: {first_at:?}");
    }
}

/// `poll(2)` reported the source as ready, and another process took the bytes.
#[test]
fn a_source_that_is_empty_after_all_is_waited_for_tick_after_tick() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    let source = Object::written_by_peer(true, &patterned(LONG), &[1000; 3]);
    let source = kernel.source(source, OFlags::NONBLOCK);
    let sinks = [(); 2].map(|()| kernel.sink(Object::read_by_peer(false), OFlags::empty()));
    kernel.inject(Call::Splice, &[Injection::Stalled(50)]);
    let options = Options {
        tick: Some(millis(5)),
        ..Options::default()
    };
    let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
    assert_eq!(report.bytes(), LONG as u64);
    assert!(kernel.elapsed() >= millis(50), "{:?}", kernel.elapsed());
}

/// tee(2) does not report whether the source has a writer. A step finds the source empty, and
/// `wait_after` sleeps.
#[test]
fn a_fan_out_sleeps_for_an_empty_pipe_where_tee_is_forbidden() {
    const PIECES: usize = 100;
    for errno in [Errno::PERM, Errno::NOSYS] {
        for n_sinks in [1, 2, 3] {
            for is_pipe in [false, true] {
                let kernel = SimKernel::default();
                kernel.state.borrow_mut().may_sleep = false;
                let bytes = patterned(1000 * PIECES);
                let source = Object::written_by_peer(false, &bytes, &[1000; PIECES]);
                let source = kernel.source(source.with_delay(millis(5)), OFlags::NONBLOCK);
                let sink = |_| {
                    let object = if is_pipe {
                        Object::read_by_peer(false)
                    } else {
                        Object::file(&[])
                    };
                    kernel.sink(object, OFlags::empty())
                };
                let sinks: Vec<_> = (0..n_sinks).map(sink).collect();
                kernel.inject(Call::Tee, &[Injection::Fails(errno); 10 * PIECES]);
                kernel.inject(Call::Splice, &[Injection::Stalled(50); 3]);
                let options = Options {
                    tick: Some(Duration::from_secs(3600)),
                    ..Options::default()
                };
                let ends = (&source, &sinks[..]);
                let report = fan_out(&kernel, ends, options, OnSinkError::Stop).unwrap();
                let what = format!("{errno}, {n_sinks}, {is_pipe}: {report}");
                assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
                assert_eq!(kernel.state.borrow().n_sleeps, 0, "{what}");
                let n_calls = kernel.state.borrow().log.len();
                // The source is larger than the buffer, so that each read follows a splice.
                assert!(
                    n_calls <= (4 * n_sinks + 1) * PIECES + 20,
                    "{what}: {n_calls} calls"
                );
            }
        }
    }
}
