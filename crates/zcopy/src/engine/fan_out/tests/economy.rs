//! The costs of a fan-out: larger pipes, and polls.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::options::{OnSinkError, Options};
use crate::sim::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::run::fan_out;
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

/// A file is known to be long before it is read, and a pipe once it has delivered more than 64 KiB.
#[test]
fn pipes_grow_only_when_the_fan_out_is_long() {
    const USUAL: usize = 64 << 10;
    const GROWN: usize = 1 << 20;
    for (len, is_file, expected) in [
        (10_000, false, USUAL),
        (10_000, true, USUAL),
        (600_000, false, GROWN),
        (600_000, true, GROWN),
    ] {
        let kernel = SimKernel::default();
        let source = if is_file {
            Object::file(&patterned(len))
        } else {
            Object::written_by_peer(false, &patterned(len), &[])
        };
        let source = kernel.source(source, OFlags::empty());
        let sinks = [(); 2].map(|()| kernel.sink(Object::read_by_peer(false), OFlags::empty()));
        let ends = (&source, &sinks[..]);
        let report = fan_out(&kernel, ends, Options::default(), OnSinkError::Stop).unwrap();
        let what = format!("{len}, {is_file}");
        for sink in &sinks {
            assert_eq!(kernel.capacity(sink), expected, "{what}");
        }
        let grown = Some(GROWN).filter(|_| expected == GROWN);
        assert_eq!(report.grown_sink(), grown, "{what}");
        assert_eq!(report.grown_source(), grown.filter(|_| !is_file), "{what}");
    }
}

#[test]
fn the_pipes_behind_a_file_of_more_than_64_kib_grow_before_it_is_read() {
    for (len, is_first) in [(64 << 10, false), ((64 << 10) + 1, true)] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
        let sinks = [(); 2].map(|()| kernel.sink(Object::read_by_peer(false), OFlags::empty()));
        let options = Options {
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
        let state = kernel.state.borrow();
        let is_grown = state.log[0].0 == Call::SetPipeCapacity;
        assert_eq!(is_grown, is_first, "{len} bytes: {:?}", state.log);
    }
}

/// The pipe of the backlog and those of both sinks are closed once tee is refused. One more takes
/// parts of packets out of the source.
#[test]
fn a_refused_tee_costs_a_pipe_for_parts_of_packets() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(false, &patterned(1_000_000), &[50_000]);
    let source = kernel.source(source, OFlags::empty());
    let sinks = [(); 2].map(|()| kernel.sink(Object::file(&[]), OFlags::empty()));
    kernel.inject(Call::Tee, &[Injection::Normal]);
    kernel.inject(Call::Tee, &[Injection::Fails(Errno::INVAL); 2]);
    let options = Options {
        rate_limit: NonZeroU64::new(3_000_000),
        ..Options::default()
    };
    let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
    assert_eq!(report.bytes(), 1_000_000);
    assert_eq!(kernel.results(Call::Pipe).len(), sinks.len() + 2);
}

/// `poll(2)` reports that a reader has closed its end, so that no other query is needed.
#[test]
fn a_fan_out_that_watches_its_readers_sleeps_until_the_source_has_bytes() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(false, &patterned(1000), &[500; 2]);
    let source = source.with_delay(Duration::from_secs(5));
    let source = kernel.source(source, OFlags::empty());
    let sinks = [(); 2].map(|()| kernel.sink(Object::read_by_peer(false), OFlags::empty()));
    let options = Options {
        watch_readers: true,
        ..Options::default()
    };
    let report = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
    assert_eq!(report.bytes(), 1000);
    assert!(kernel.elapsed() >= Duration::from_secs(10));
    let polls = kernel.results(Call::Poll);
    assert!(polls.len() < 20, "{} polls", polls.len());
}
