//! Accepted bytes are written to the disk before they are reported.

use std::ops::ControlFlow;

use crate::options::{Options, Sparse, SyncData};
use crate::report::Ended;
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

/// For a short file too, and with each reason to end but a failure. The second call sets the length
/// of a hole at the end.
#[test]
fn a_transfer_that_syncs_at_its_end_syncs_once_and_last() {
    let cases = [
        (LONG, None, false),
        (LONG, Some(300_000), false),
        (LONG, None, true),
    ];
    for (len, limit, stops) in [(0, None, false), (100, None, false)]
        .into_iter()
        .chain(cases)
    {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            sync_data: SyncData::AtEnd,
            observed: true,
            limit,
            strategy: Some(Strategy::Buffered),
            ..Options::default()
        };
        let observe = |_: &crate::progress::Progress| {
            if stops {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let ends = (&source, &sink);
        let report = transfer_with(&kernel, ends, options, Callbacks::observing(observe)).unwrap();
        let expected = match (stops, limit) {
            (true, _) => Ended::Stopped,
            (_, Some(_)) => Ended::Limit,
            _ => Ended::Eof,
        };
        assert_eq!(report.ended(), expected);
        assert_eq!(kernel.results(Call::SyncData), [Ok(0)]);
        let log = kernel.state.borrow().log.clone();
        let after = log.iter().skip_while(|(call, _)| *call != Call::SyncData);
        let after: Vec<_> = after.map(|(call, _)| *call).collect();
        assert!(!after.contains(&Call::Write), "{after:?}");
    }
}

#[test]
fn a_failed_sync_at_the_end_is_the_sinks_failure_and_every_byte_counts() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        sync_data: SyncData::AtEnd,
        ..Options::default()
    };
    kernel.inject(Call::SyncData, &[Injection::Fails(Errno::IO)]);
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    let found = (error.call(), error.side(), error.bytes());
    assert_eq!(found, (Some("fdatasync"), Side::Sink, LONG as u64));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert!(error.undelivered().is_empty());
    assert_eq!(kernel.contents(&sink), patterned(LONG));
}

#[test]
fn a_transfer_that_fails_is_not_synced_at_its_end() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        sync_data: SyncData::AtEnd,
        strategy: Some(Strategy::Buffered),
        ..Options::default()
    };
    kernel.inject(
        Call::Write,
        &[Injection::Normal, Injection::Fails(Errno::NOSPC)],
    );
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!(error.call(), Some("write"));
    assert_eq!(kernel.results(Call::SyncData), []);
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
    for when in [SyncData::EachStep, SyncData::AtEnd] {
        a_hole_at_the_end_is_synced(when);
    }
}

fn a_hole_at_the_end_is_synced(when: SyncData) {
    let kernel = SimKernel::default();
    let source = File::sparse(&[&patterned(100_000)[..98_304], &vec![0; 101_696]].concat());
    let source = kernel.source(Object::File(source), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        sparse: Sparse::Keep,
        sync_data: when,
        ..each_step()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert!(report.hole_bytes() > 0);
    let log = kernel.state.borrow().log.clone();
    assert_eq!(log.last(), Some(&(Call::SyncData, Ok(0))));
}
