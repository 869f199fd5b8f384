//! A rate limiter that several transfers share.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::Transfer;
use crate::options::Options;
use crate::progress::Progress;
use crate::rate::{Account, RateLimiter};
use crate::report::{Ended, Report};
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const RATE: u64 = 100_000;

/// Runs a transfer with a rate limiter.
fn paced(
    kernel: &SimKernel,
    (source, sink): (&OwnedFd, &OwnedFd),
    options: Options,
    rate_limiter: &RateLimiter,
    observer: impl FnMut(&Progress) -> ControlFlow<()> + Send,
) -> Report {
    let transfer = Transfer::new(source, sink).with_options(options);
    let transfer = transfer.rate_limit(rate_limiter).observe(observer);
    transfer.run_with(kernel).unwrap()
}

fn go_on(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn many_small_files_take_as_long_as_one_of_their_length() {
    for (n_files, len) in [(1000, 500), (100, 5000), (1, 500_000)] {
        let kernel = SimKernel::default();
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        let rate_limiter = RateLimiter::new(RATE);
        for _ in 0..n_files {
            let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
            let ends = (&source, &sink);
            let report = paced(&kernel, ends, Options::default(), &rate_limiter, go_on);
            assert_eq!(report.bytes(), len as u64);
        }
        let took = kernel.elapsed();
        let ideal = Duration::from_secs(5);
        // A burst is a tenth of the bytes of a second, and a quantum a fiftieth.
        let slack = Duration::from_millis(100);
        let is_kept = took + slack >= ideal && took <= ideal + slack;
        assert!(is_kept, "{n_files} files of {len}: {took:?}");
    }
}

/// For one sink and for several. The source is slow, and its last bytes do not come.
#[test]
fn a_report_has_the_time_from_the_start_to_the_end_also_after_a_failure() {
    for (n_sinks, fails) in [(1, false), (1, true), (2, false), (2, true)] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = Object::written_by_peer(false, &patterned(500_000), &[]);
        let source = source.with_delay(Duration::from_millis(7));
        let source = kernel.source(source, OFlags::NONBLOCK);
        let sinks = [(); 2].map(|()| kernel.sink(Object::file(&[]), OFlags::empty()));
        if fails {
            kernel.inject(Call::Write, &[Injection::Fails(Errno::NOSPC)]);
        }
        let before = Duration::from_secs(3);
        kernel.state.borrow_mut().clock += before;
        let options = Options {
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        let transfer = Transfer::new(&source, &sinks[0]).with_options(options);
        let outcome = match n_sinks {
            1 => transfer.run_with(&kernel),
            _ => transfer.also_to(&sinks[1]).run_with(&kernel),
        };
        assert_eq!(outcome.is_err(), fails);
        let report = outcome.unwrap_or_else(crate::Error::into_report);
        assert!(report.elapsed() >= Duration::from_millis(7));
        assert_eq!(before + report.elapsed(), kernel.elapsed());
    }
}

/// Without an observer, the time of the last tick was not kept, and every wait began with a poll
/// that returned at once.
#[test]
fn a_tick_without_an_observer_makes_the_same_calls_as_with_one() {
    let log = |is_observed| {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = Object::written_by_peer(false, &patterned(500_000), &[]);
        let source = source.with_delay(Duration::from_millis(7));
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            tick: Some(Duration::from_millis(10)),
            ..Options::default()
        };
        let mut transfer = Transfer::new(&source, &sink).with_options(options);
        if is_observed {
            transfer = transfer.observe(go_on);
        }
        assert_eq!(transfer.run_with(&kernel).unwrap().bytes(), 500_000);
        std::mem::take(&mut *kernel.state.borrow_mut()).log
    };
    assert_eq!(log(false), log(true));
}

/// The transfer would take twenty days. The observer is called at every tick and raises the rate.
#[test]
fn a_new_rate_ends_a_long_wait_at_the_next_tick() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    let source = kernel.source(Object::file(&patterned(500_000)), OFlags::empty());
    let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
    let options = Options {
        tick: Some(Duration::from_millis(10)),
        ..Options::default()
    };
    // The transfer waits also for the bytes it has moved ahead of the rate.
    let rate_limiter = RateLimiter::new(1);
    let now = kernel.state.borrow().clock;
    Account::open(rate_limiter.clone(), now).spend(1_000_000);
    let mut n_ticks = 0;
    let report = paced(&kernel, (&source, &sink), options, &rate_limiter, |_| {
        n_ticks += 1;
        if n_ticks == 5 {
            rate_limiter.set_rate(RATE);
        }
        ControlFlow::Continue(())
    });
    assert_eq!((report.bytes(), report.ended()), (500_000, Ended::Eof));
    let took = kernel.elapsed();
    let debt_and_file = Duration::from_secs(15);
    assert!(
        took > debt_and_file && took < debt_and_file + Duration::from_millis(100),
        "{took:?}"
    );
}

#[test]
fn a_slower_rate_holds_from_the_next_step_on() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(500_000)), OFlags::empty());
    let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
    let rate_limiter = RateLimiter::new(RATE);
    let ends = (&source, &sink);
    paced(
        &kernel,
        ends,
        Options::default(),
        &rate_limiter,
        |progress| {
            if progress.bytes() >= 400_000 {
                rate_limiter.set_rate(RATE / 10);
            }
            ControlFlow::Continue(())
        },
    );
    let (took, ideal) = (kernel.elapsed(), Duration::from_secs(4 + 10));
    assert!(took + Duration::from_millis(300) >= ideal, "{took:?}");
}

/// No other thread can change the rate of a transfer that has its own.
#[test]
fn a_transfer_sleeps_once_for_its_own_rate_and_looks_ten_times_a_second_at_that_of_others() {
    for n_clones in [0, 1] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().may_sleep = false;
        let source = kernel.source(Object::file(b"a"), OFlags::empty());
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        let rate_limiter = RateLimiter::new(1);
        let clones = vec![rate_limiter.clone(); n_clones];
        let now = kernel.state.borrow().clock;
        Account::open(rate_limiter.clone(), now).spend(9);
        let transfer = Transfer::new(&source, &sink).limit(1);
        let report = transfer.rate_limit(rate_limiter).run_with(&kernel).unwrap();
        assert_eq!(
            (report.bytes(), kernel.elapsed()),
            (1, Duration::from_secs(10))
        );
        let n_sleeps = kernel.state.borrow().n_sleeps;
        assert_eq!(n_sleeps, if clones.is_empty() { 1 } else { 100 });
    }
}
