//! Transfers that their observers stop: the reserved range, and the moments at which an observer is
//! called.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::options::Options;
use crate::report::{Ended, Report};
use crate::sim::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::run::{Callbacks, transfer_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::OFlags;

const LEN: usize = 200_000;
/// The number of bytes that the interrupted call moves.
const SHORT: usize = 1000;
/// The number of bytes that another process writes at the same cursor meanwhile.
const WRITTEN: u64 = 500;

/// Runs a transfer that is stopped after its first step. If `cursor_is_shared`, another process
/// writes to the sink at the same cursor before that.
fn stopped(
    kernel: &SimKernel,
    ends: (&OwnedFd, &OwnedFd),
    strategy: Option<Strategy>,
    cursor_is_shared: bool,
) -> Report {
    let options = Options {
        strategy,
        observed: true,
        ..Options::default()
    };
    let stop = |_: &_| {
        if cursor_is_shared {
            kernel.set_cursor(ends.1, kernel.cursor(ends.1) + WRITTEN);
        }
        ControlFlow::Break(())
    };
    transfer_with(kernel, ends, options, Callbacks::observing(stop)).unwrap()
}

#[test]
fn bytes_taken_for_a_reserved_range_are_written_there_before_a_stop() {
    for cursor_is_shared in [false, true] {
        for cut in [Injection::Short(SHORT), Injection::Interrupted] {
            let kernel = SimKernel::default();
            let source = Object::written_by_peer(false, &patterned(LEN), &[]);
            let source = kernel.source(source, OFlags::empty());
            let sink = kernel.sink(Object::file(&[]), OFlags::empty());
            kernel.inject(Call::Splice, &[Injection::Normal, cut, cut]);
            let strategy = Some(Strategy::SplicePipe);
            let report = stopped(&kernel, (&source, &sink), strategy, cursor_is_shared);
            assert_eq!(report.ended(), Ended::Stopped);
            assert_eq!(report.undelivered(), b"");
            let n_moved = report.bytes() as usize;
            assert!(n_moved > 2 * SHORT, "{n_moved} bytes");
            assert!(kernel.contents(&sink) == patterned(n_moved));
            let n_written = if cursor_is_shared { WRITTEN } else { 0 };
            assert_eq!(kernel.cursor(&sink), report.bytes() + n_written);
        }
    }
}

#[test]
fn ranges_of_two_files_are_given_back_or_filled_before_a_stop() {
    for strategy in [Strategy::CopyFileRange, Strategy::SplicePipe] {
        for cursor_is_shared in [false, true] {
            let kernel = SimKernel::default();
            let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
            let sink = kernel.sink(Object::file(&[]), OFlags::empty());
            kernel.inject(Call::CopyFileRange, &[Injection::Short(SHORT)]);
            kernel.inject(Call::Splice, &[Injection::Normal, Injection::Short(SHORT)]);
            let report = stopped(&kernel, (&source, &sink), Some(strategy), cursor_is_shared);
            let case = format!("{strategy:?}, {cursor_is_shared}");
            assert_eq!(report.ended(), Ended::Stopped, "{case}");
            let n_moved = report.bytes();
            let gives_back = strategy == Strategy::CopyFileRange && !cursor_is_shared;
            assert_eq!(n_moved == SHORT as u64, gives_back, "{case}");
            assert!(kernel.contents(&sink) == patterned(n_moved as usize));
            assert_eq!(kernel.cursor(&source), n_moved, "{case}");
            let n_written = if cursor_is_shared { WRITTEN } else { 0 };
            assert_eq!(kernel.cursor(&sink), n_moved + n_written, "{case}");
        }
    }
}

/// A signal handler may have set a flag for the observer, and without a tick nothing else calls it.
#[test]
fn an_observer_is_asked_when_a_signal_interrupts_a_wait() {
    let silent = || {
        Object::written_by_peer(false, &patterned(10), &[]).with_delay(Duration::from_secs(1000))
    };
    // At a rate, the first poll is a look at the source, without a wait.
    let looks = [Injection::Normal, Injection::Interrupted];
    for (rate, injections) in [(None, &looks[1..]), (NonZeroU64::new(1), &looks)] {
        let kernel = SimKernel::default();
        let source = kernel.source(silent(), OFlags::NONBLOCK);
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
        kernel.inject(Call::Poll, injections);
        let options = Options {
            observed: true,
            rate_limit: rate,
            ..Options::default()
        };
        let stop = |_: &_| ControlFlow::Break(());
        let outcome = transfer_with(
            &kernel,
            (&source, &sink),
            options,
            Callbacks::observing(stop),
        );
        let report = outcome.unwrap();
        assert_eq!((report.bytes(), report.ended()), (0, Ended::Stopped));
        assert_eq!(kernel.elapsed(), Duration::ZERO, "{rate:?}");
    }
}
