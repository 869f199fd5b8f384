//! Accepted bytes are written to the disk before they are reported.

use std::ops::ControlFlow;

use crate::options::{Options, Sparse, SyncData};
use crate::side::Side;
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{File, Object, patterned};
use crate::sim::run::{Callbacks, transfer, transfer_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const LONG: usize = 600_000;

fn each_step() -> Options {
    Options {
        sync_data: SyncData::EachStep,
        observed: true,
        ..Options::default()
    }
}

#[test]
fn every_step_is_synced_before_its_bytes_are_reported() {
    for strategy in [
        Strategy::Buffered,
        Strategy::SplicePipe,
        Strategy::CopyFileRange,
    ] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            strategy: Some(strategy),
            ..each_step()
        };
        let mut observed = Vec::new();
        let observe = |progress: &crate::progress::Progress| {
            let n_synced = kernel.results(Call::SyncData).len();
            if observed.last() != Some(&(progress.bytes(), n_synced)) {
                observed.push((progress.bytes(), n_synced));
            }
            ControlFlow::Continue(())
        };
        let ends = (&source, &sink);
        let report = transfer_with(&kernel, ends, options, Callbacks::observing(observe)).unwrap();
        assert_eq!(report.bytes(), LONG as u64);
        for (step, (_, n_synced)) in observed.iter().enumerate() {
            assert_eq!(*n_synced, step + 1, "{strategy}: {observed:?}");
        }
        assert!(!observed.is_empty());
    }
}

#[test]
fn nothing_is_synced_unasked_nor_where_there_is_no_disk() {
    for (sink, options) in [
        (Object::file(&[]), Options::default()),
        (Object::read_by_peer(false), each_step()),
        (Object::read_by_peer(true), each_step()),
        (Object::Null(Vec::new()), each_step()),
    ] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sink = kernel.sink(sink, OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.bytes(), LONG as u64);
        assert_eq!(kernel.results(Call::SyncData), []);
    }
}

#[test]
fn a_disk_that_fails_is_the_sinks_failure_and_what_was_accepted_counts() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::Buffered),
        ..each_step()
    };
    let faults = [
        Injection::Interrupted,
        Injection::Normal,
        Injection::Fails(Errno::IO),
    ];
    kernel.inject(Call::SyncData, &faults);
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!(
        (error.call(), error.side()),
        (Some("fdatasync"), Side::Sink)
    );
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    let n = kernel.contents(&sink).len();
    assert_eq!(
        (error.bytes(), kernel.cursor(&source)),
        (n as u64, n as u64)
    );
    assert!(n > 0 && n < LONG);
}

#[test]
fn a_file_without_a_disk_is_let_be() {
    for errno in [Errno::INVAL, Errno::ROFS] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        kernel.inject(Call::SyncData, &[Injection::Fails(errno); 100]);
        let report = transfer(&kernel, (&source, &sink), each_step()).unwrap();
        assert_eq!(report.bytes(), LONG as u64);
    }
}

/// The last call sets the length of the file.
#[test]
fn a_hole_at_the_end_is_synced_too() {
    let kernel = SimKernel::default();
    let source = File::sparse(&[&patterned(100_000)[..98_304], &vec![0; 101_696]].concat());
    let source = kernel.source(Object::File(source), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        sparse: Sparse::Keep,
        ..each_step()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert!(report.hole_bytes() > 0);
    let log = kernel.state.borrow().log.clone();
    assert_eq!(log.last(), Some(&(Call::SyncData, Ok(0))));
}
