//! Descriptors that are not ready, and interrupted calls.

use std::time::Duration;

use super::makers::Maker;
use super::run;
use crate::context::MAX_TIMES_BLOCKED;
use crate::engine::FilterState;
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::channel::{Channel, Peer};
use crate::sim::objects::{Object, patterned};
use crate::sim::script::{Call, Injection};
use crate::sys::{Errno, OFlags};

const BOTH_MODES: [OFlags; 2] = [OFlags::empty(), OFlags::NONBLOCK];

#[test]
fn bytes_that_came_are_written_before_more_is_waited_for() {
    for mode in BOTH_MODES {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(false, &patterned(30), &[10; 3]);
        let source = kernel.source(source.with_delay(Duration::from_secs(1)), mode);
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        run(
            &kernel,
            (&source, &sink),
            &mut Maker::Twice,
            &mut FilterState::new(),
        )
        .unwrap();
        let mut log = kernel.state.borrow().log.clone();
        log.retain(|(call, answer)| *call != Call::Poll && *answer != Err(Errno::AGAIN));
        let turn = [(Call::Read, Ok(10)), (Call::Write, Ok(20))];
        let mut expected = turn.repeat(3);
        expected.push((Call::Read, Ok(0)));
        assert_eq!(log, expected);
    }
}

#[test]
fn an_interrupted_call_is_made_again() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(false, &patterned(90_000), &[30_000; 3]);
    let source = kernel.source(source, OFlags::NONBLOCK);
    let sink = kernel.sink(Object::read_by_peer(true), OFlags::NONBLOCK);
    for call in [Call::Read, Call::Write, Call::Poll] {
        kernel.inject(call, &[Injection::Interrupted; 20]);
    }
    run(
        &kernel,
        (&source, &sink),
        &mut Maker::Twice,
        &mut FilterState::new(),
    )
    .unwrap();
    assert!(kernel.contents(&sink) == Maker::Twice.makes(&patterned(90_000), false));
    for call in [Call::Read, Call::Write, Call::Poll] {
        let interrupted = kernel.results(call);
        let n = interrupted
            .iter()
            .filter(|answer| **answer == Err(Errno::INTR));
        assert_eq!(n.count(), 20, "{call:?}");
    }
}

/// The engine took each of these waits for a spurious wake-up, although bytes had moved in between,
/// and then slept before every one.
#[test]
fn a_side_that_is_slow_is_not_one_that_lies() {
    let slow = Duration::from_millis(3);
    for maker in [Maker::Nothing, Maker::Same] {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(false, &patterned(5000), &[100; 50]);
        let source = kernel.source(source.with_delay(slow), OFlags::NONBLOCK);
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        run(
            &kernel,
            (&source, &sink),
            &mut { maker },
            &mut FilterState::new(),
        )
        .unwrap();
        assert_eq!(kernel.state.borrow().n_sleeps, 0, "{maker:?}");
    }
    let kernel = SimKernel::default();
    let peer = Peer::Reads {
        taken: Vec::new(),
        chunks: [4096; 100].into(),
    };
    let sink = Object::Channel(Channel::new(16 << 10, false, peer));
    kernel.state.borrow_mut().pipe_max = 4096;
    let sink = kernel.sink(sink.with_delay(slow), OFlags::NONBLOCK);
    let source = kernel.source(Object::file(&patterned(200_000)), OFlags::empty());
    run(
        &kernel,
        (&source, &sink),
        &mut Maker::Same,
        &mut FilterState::new(),
    )
    .unwrap();
    assert!(kernel.results(Call::Poll).len() > 30);
    assert_eq!(kernel.state.borrow().n_sleeps, 0);
}

#[test]
fn repeated_spurious_wakeups_lead_to_sleeps() {
    for call in [Call::Read, Call::Write] {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(false, &patterned(1000), &[]);
        let source = kernel.source(source, OFlags::NONBLOCK);
        let sink = kernel.sink(Object::read_by_peer(false), OFlags::NONBLOCK);
        kernel.inject(call, &[Injection::SpuriousWakeup; 20]);
        run(
            &kernel,
            (&source, &sink),
            &mut Maker::Same,
            &mut FilterState::new(),
        )
        .unwrap();
        assert_eq!(kernel.contents(&sink), patterned(1000));
        let n_sleeps = kernel.state.borrow().n_sleeps;
        assert_eq!(n_sleeps, 20 - MAX_TIMES_BLOCKED as usize, "{call:?}");
    }
}

#[test]
fn a_socket_s_own_time_out_ends_it_and_it_can_go_on() {
    let (soon, late) = (Duration::from_millis(5), Duration::from_millis(20));
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(true, &patterned(20), &[10; 2]);
    let source = kernel.source(source.with_delay(late).with_timeout(soon), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let (mut twice, mut state) = (Maker::Twice, FilterState::new());
    let mut n_failed = 0;
    while let Err(error) = run(&kernel, (&source, &sink), &mut twice, &mut state) {
        assert_eq!(error.side(), Side::Source);
        assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
        n_failed += 1;
        assert!(n_failed < 20);
    }
    assert!(n_failed > 2);
    assert_eq!(
        kernel.contents(&sink),
        Maker::Twice.makes(&patterned(20), false)
    );

    let sink = Object::read_by_peer(true)
        .with_delay(late)
        .with_timeout(soon);
    let sink = kernel.sink(sink, OFlags::empty());
    let source = kernel.source(Object::file(&patterned(200_000)), OFlags::empty());
    let error = run(&kernel, (&source, &sink), &mut Maker::Same, &mut state).unwrap_err();
    assert_eq!(error.side(), Side::Sink);
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
    let n = error.bytes() as usize;
    assert!(kernel.contents(&sink) == patterned(n));
    let cursor = kernel.cursor(&source) as usize;
    assert!(error.undelivered() == &patterned(cursor)[n..]);
}
