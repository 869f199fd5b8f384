//! Signals, descriptors that are not ready, ticks and rate limits.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::context::MAX_TIMES_BLOCKED;
use crate::options::Options;
use crate::report::Ended;
use crate::side::Side;
use crate::sim::channel::Messages;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::oracle::n_read;
use crate::sim::run::{Callbacks, attempts, has_not_begun, transfer, transfer_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const LONG: usize = 600_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_storm_of_signals_is_weathered_by_every_call() {
    const CALLS: [Call; 6] = [
        Call::Read,
        Call::Write,
        Call::Splice,
        Call::Sendfile,
        Call::CopyFileRange,
        Call::Poll,
    ];
    for strategy in Strategy::PAIRWISE {
        for sink in [
            Object::file(&[]),
            Object::read_by_peer(false),
            Object::read_by_peer(true),
        ] {
            let kernel = SimKernel::default();
            let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
            let sink = kernel.sink(sink, OFlags::NONBLOCK);
            for call in CALLS {
                kernel.inject(call, &[Injection::Interrupted; 50]);
            }
            let options = Options {
                strategy: Some(strategy),
                ..Options::default()
            };
            let ends = (&source, &sink);
            match transfer(&kernel, ends, options) {
                Ok(report) => assert_eq!(report.bytes(), LONG as u64),
                // Not every strategy serves every pair.
                Err(error) => assert!(has_not_begun(&error), "{error:#}"),
            }
        }
    }
}

#[test]
fn a_socket_that_times_out_is_an_error_not_a_spin() {
    for tick in [None, Some(millis(3))] {
        let options = Options {
            tick,
            ..Options::default()
        };
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = tick.is_none();
        kernel.state.borrow_mut().max_calls = 50;
        let source = Object::written_by_peer(true, &patterned(LONG), &[]);
        let source = source.with_delay(millis(1000)).with_timeout(millis(20));
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
        assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);

        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = tick.is_none();
        kernel.state.borrow_mut().max_calls = 50;
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sink = Object::read_by_peer(true).with_delay(millis(1000));
        let sink = kernel.sink(sink.with_timeout(millis(20)), OFlags::empty());
        let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
        assert_eq!(error.side(), Side::Sink, "{error:#}");
        assert_eq!(error.bytes() as usize, kernel.contents(&sink).len());
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
    }
}

/// A seccomp filter may forbid `preadv2(2)` and `pwritev2(2)`. `read(2)` and `write(2)` then report
/// the real error.
#[test]
fn a_filter_on_the_calls_that_do_not_wait_is_no_error() {
    let options = Options {
        tick: Some(millis(1000)),
        ..Options::default()
    };
    for refused in [Call::Read, Call::Write] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = kernel.source(
            Object::written_by_peer(true, &patterned(1000), &[]),
            OFlags::empty(),
        );
        let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
        kernel.inject(refused, &[Injection::Fails(Errno::PERM)]);
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.bytes(), 1000, "{refused:?}");
        assert!(kernel.contents(&sink) == patterned(1000));
    }
}

/// `EAGAIN` from a socket in blocking mode without a time-out: another process with the same open
/// file changed its mode for a moment.
#[test]
fn a_socket_without_a_time_out_does_not_time_out() {
    for refused in [Call::Read, Call::Write] {
        let kernel = SimKernel::default();
        let source = kernel.source(
            Object::written_by_peer(true, &patterned(1000), &[]),
            OFlags::empty(),
        );
        let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
        kernel.inject(refused, &[Injection::Fails(Errno::AGAIN)]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), 1000, "{refused:?}");
    }
}

/// A tick wakes the transfer to call the observer; it does not change when a socket's time-out
/// expires.
#[test]
fn a_socket_times_out_when_it_says_and_not_at_the_next_tick() {
    let options = Options {
        tick: Some(millis(1000)),
        ..Options::default()
    };
    for side in [Side::Source, Side::Sink] {
        let impatient = |is_impatient: bool, object: Object| {
            if is_impatient {
                object.with_delay(millis(5000)).with_timeout(millis(20))
            } else {
                object.with_delay(millis(1))
            }
        };
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = Object::written_by_peer(true, &patterned(LONG), &[]);
        let source = impatient(side == Side::Source, source);
        let source = kernel.source(source, OFlags::empty());
        let sink = impatient(side == Side::Sink, Object::read_by_peer(true));
        let sink = kernel.sink(sink, OFlags::empty());
        let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
        assert_eq!(error.side(), side);
        let took = kernel.elapsed();
        assert!(took >= millis(20) && took < millis(50), "{took:?}");
    }
}

/// `SO_RCVTIMEO` limits calls that block; a socket in non-blocking mode never blocks.
#[test]
fn a_nonblocking_socket_has_no_time_out_and_does_not_spin() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    kernel.state.borrow_mut().max_calls = 100;
    let source = Object::written_by_peer(true, &patterned(1000), &[]);
    let source = source.with_delay(millis(200)).with_timeout(millis(20));
    let source = kernel.source(source, OFlags::NONBLOCK);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        tick: Some(millis(100)),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 1000);
}

#[test]
fn spurious_wakeups_change_the_strategy_instead_of_spinning() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().max_calls = 100;
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK);
    kernel.inject(Call::Splice, &[Injection::SpuriousWakeup; 20]);
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(
        attempts(&report)[0],
        (Strategy::Splice, 0, Some(Errno::AGAIN))
    );
    assert!(kernel.contents(&sink) == patterned(LONG));
    let splices = kernel.results(Call::Splice);
    let n_blocked = splices.iter().filter(|n| **n == Err(Errno::AGAIN)).count();
    assert_eq!(n_blocked, MAX_TIMES_BLOCKED as usize + 1);
}

/// A socket with an error queue polls as ready, for example, although no write succeeds.
#[test]
fn the_pauses_between_retries_are_idle() {
    let kernel = SimKernel::default();
    // A time-out forbids calls that sleep.
    kernel.state.borrow_mut().may_sleep = false;
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK);
    for call in [Call::Splice, Call::Sendfile, Call::Write] {
        kernel.inject(call, &[Injection::SpuriousWakeup; 1000]);
    }
    let options = Options {
        idle_timeout: Some(millis(50)),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, Ended::TimedOut));
    let took = kernel.elapsed();
    assert!(took <= millis(60), "{took:?}");
}

#[test]
fn spurious_wakeups_of_a_strategy_that_was_asked_for_are_tried_again_at_leisure() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK);
    kernel.inject(Call::Splice, &[Injection::SpuriousWakeup; 108]);
    let options = Options {
        strategy: Some(Strategy::Splice),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), LONG as u64);
    assert_eq!(
        kernel.state.borrow().n_sleeps,
        108 - MAX_TIMES_BLOCKED as usize
    );
    let took = kernel.elapsed();
    assert!(took >= millis(100), "a hundred tries within {took:?}");
}

#[test]
fn a_tick_observes_while_blocked_and_can_stop() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    let source = Object::written_by_peer(false, &patterned(LONG), &[]).with_delay(millis(1000));
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        tick: Some(millis(10)),
        observed: true,
        ..Options::default()
    };
    let mut times = Vec::new();
    let observe = |progress: &crate::Progress| {
        assert_eq!(
            (progress.bytes(), progress.blocked()),
            (0, Some(Side::Source))
        );
        times.push(kernel.elapsed());
        if times.len() < 5 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let outcome = transfer_with(
        &kernel,
        (&source, &sink),
        options,
        Callbacks::observing(observe),
    );
    let report = outcome.unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
    assert_eq!(times, [10, 20, 30, 40, 50].map(millis));
}

#[test]
fn a_transfer_takes_its_bytes_divided_by_its_rate() {
    const RATE: u64 = 100_000;
    let sources = [
        Object::file(&patterned(LONG)),
        Object::written_by_peer(false, &patterned(LONG), &[]),
    ];
    for source in sources {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = kernel.source(source.with_delay(Duration::ZERO), OFlags::empty());
        let sink = kernel.sink(
            Object::read_by_peer(false).with_delay(Duration::ZERO),
            OFlags::empty(),
        );
        let options = Options {
            rate_limit: NonZeroU64::new(RATE),
            limit: Some(LONG as u64),
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.bytes(), LONG as u64);
        let took = kernel.elapsed();
        let expected = Duration::from_secs(LONG as u64 / RATE);
        assert!(took >= expected && took < expected + millis(1), "{took:?}");
    }
}

/// A message is moved whole, however low the rate. The next messages wait for the excess.
#[test]
fn messages_keep_to_the_rate() {
    const RATE: u64 = 10_000;
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    let messages = vec![vec![7; 5000]; 20];
    let source = kernel.source(
        Object::Messages(Messages::written_by_peer(&messages)),
        OFlags::empty(),
    );
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let options = Options {
        rate_limit: NonZeroU64::new(RATE),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 100_000);
    let took = kernel.elapsed();
    assert!(took >= Duration::from_secs(9), "{took:?}");
}

/// Another process reads the bytes between the poll and the read. A call that then slept would
/// sleep past every tick, unless the socket has a time-out.
#[test]
fn a_tick_does_not_sleep_in_a_read_that_another_reader_has_forestalled() {
    let messages = vec![patterned(10_000); 3];
    let sources = [
        (
            Call::Read,
            Object::written_by_peer(false, &patterned(1000), &[]),
        ),
        (
            Call::Read,
            Object::written_by_peer(true, &patterned(1000), &[]),
        ),
        (
            Call::NextDatagram,
            Object::Messages(Messages::written_by_peer(&messages)),
        ),
    ];
    for (call, source) in sources {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        kernel.inject(call, &[Injection::Stalled(50)]);
        let options = Options {
            tick: Some(millis(10)),
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(kernel.results(call)[0], Err(Errno::AGAIN));
    }
}

/// A splice returns 0 at the end of its source, or if its sink accepted nothing. By the time the
/// transfer queried the pipe, another reader had emptied it, and the transfer took that for the
/// end.
#[test]
fn a_pipe_that_another_reader_has_emptied_has_not_ended() {
    for has_descriptors in [true, false] {
        for nth in 0..6 {
            let kernel = SimKernel::default();
            let source = Object::written_by_peer(false, &patterned(LONG), &[10, 10]);
            let source = kernel.source(source, OFlags::NONBLOCK);
            let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
            kernel.inject(Call::Splice, &[Injection::Normal, Injection::ReturnsZero]);
            if !has_descriptors {
                kernel.inject(Call::Pipe, &[Injection::Refused(0); 9]);
            }
            let steal = Action::Read(10);
            kernel.schedule(Interference::before(
                Call::Poll,
                nth,
                Target::Source(0),
                steal,
            ));
            let options = Options {
                strategy: Some(Strategy::Splice),
                grow_pipes: false,
                ..Options::default()
            };
            let result = transfer(&kernel, (&source, &sink), options);
            let (n, back) = match &result {
                Ok(report) => (report.bytes(), &[][..]),
                // The splice moved nothing although the pipe had bytes.
                Err(error) => (error.bytes(), error.undelivered()),
            };
            let n_read = n_read(&kernel, &source);
            let left = kernel.contents(&source).len();
            assert_eq!(n + n_read + (back.len() + left) as u64, LONG as u64);
            let is_over = result.is_ok_and(|report| report.ended() == Ended::Eof);
            assert!(!is_over || left == 0, "{nth}: {left} bytes are left");
        }
    }
}

/// The pipe may be empty then. Only a read shows whether it has ended, and the read may return
/// later bytes.
#[test]
fn the_read_that_asks_an_emptied_pipe_for_its_end_keeps_to_the_limit() {
    for limit in [None, Some(9)] {
        for nth in 0..12 {
            let kernel = SimKernel::default();
            let source = Object::written_by_peer(false, &patterned(LONG), &[10; 50]);
            let source = kernel.source(source.with_delay(millis(5)), OFlags::empty());
            let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
            kernel.inject(Call::Splice, &[Injection::Short(5), Injection::ReturnsZero]);
            kernel.inject(Call::Pipe, &[Injection::Refused(0); 9]);
            let steal = Action::Read(10);
            kernel.schedule(Interference::before(
                Call::Poll,
                nth,
                Target::Source(0),
                steal,
            ));
            let options = Options {
                strategy: Some(Strategy::Splice),
                grow_pipes: false,
                limit,
                ..Options::default()
            };
            let (n, n_back) = match transfer(&kernel, (&source, &sink), options) {
                Ok(report) => (report.bytes(), 0),
                Err(error) => (error.bytes(), error.undelivered().len()),
            };
            let n_taken = n + n_back as u64;
            assert!(n_taken <= limit.unwrap_or(u64::MAX), "{n_taken} bytes");
            let left = kernel.contents(&source).len() as u64;
            assert_eq!(n_taken + n_read(&kernel, &source) + left, LONG as u64);
        }
    }
}

/// The query costs a call, and its result never changes.
#[test]
fn support_for_nowait_calls_is_queried_once() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    kernel.state.borrow_mut().supports_nowait = false;
    let source = Object::written_by_peer(false, &patterned(60_000), &[]);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    let options = Options {
        tick: Some(millis(10)),
        strategy: Some(Strategy::Buffered),
        ..Options::default()
    };
    transfer(&kernel, (&source, &sink), options).unwrap();
    for call in [Call::Read, Call::Write] {
        let answers = kernel.results(call);
        let refusals = answers.iter().filter(|it| **it == Err(Errno::OPNOTSUPP));
        assert_eq!(refusals.count(), 1, "{call:?}");
    }
}

/// Without `RWF_NOWAIT` bytes are written in pieces that cannot sleep; a message cannot be divided.
#[test]
fn a_tick_does_not_cut_messages() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    kernel.state.borrow_mut().supports_nowait = false;
    let messages = vec![patterned(10_000); 3];
    let source = kernel.source(
        Object::Messages(Messages::written_by_peer(&messages)),
        OFlags::empty(),
    );
    let sink = kernel.sink(Object::Messages(Messages::default()), OFlags::empty());
    let options = Options {
        tick: Some(millis(10)),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 30_000);
    kernel.with(&sink, |object| match object {
        Object::Messages(sink) => {
            let lengths: Vec<_> = sink.taken.iter().chain(&sink.queue).map(Vec::len).collect();
            assert_eq!(lengths, [10_000; 3]);
        }
        _ => unreachable!(),
    });
}
