//! The fast path of small files makes the calls of [`Strategy::Buffered`], and a transfer comes to
//! the same result with it as without it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that panics fails"
)]

mod whole_file;

use std::os::fd::OwnedFd;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use crate::Series;
use crate::error::Error;
use crate::options::Options;
use crate::report::{Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::objects::{File, Object, pattern, patterned};
use crate::sim::run::{attempts, transfer};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};
use zcopy_fuzz::holds_for_all;

/// Runs one transfer of a series.
fn next(
    kernel: &SimKernel,
    series: &Series<'_>,
    source: &OwnedFd,
    options: Options,
) -> Result<Report, Error> {
    let transfer = series.transfer(source).with_options(options);
    transfer.run_with(kernel)
}

#[test]
fn a_file_that_holds_more_than_it_claims_is_copied_whole() {
    for (claimed, len) in [(1, 4000), (1, 5000), (4096, 4097), (1, 300_000)] {
        let kernel = SimKernel::default();
        let mut file = File::holding(&patterned(len));
        file.claimed_size = Some(claimed);
        let source = kernel.source(Object::File(file), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(attempts(&report), [(Strategy::Buffered, len as u64, None)]);
        assert_eq!(report.ended(), Ended::Eof);
        assert!(kernel.contents(&sink) == patterned(len), "{claimed} {len}");
    }
}

#[test]
fn a_file_that_holds_less_than_it_claims_is_copied_whole() {
    let kernel = SimKernel::default();
    let mut file = File::holding(&patterned(21));
    file.claimed_size = Some(4096);
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!((report.bytes(), report.ended()), (21, Ended::Eof));
    assert!(kernel.contents(&sink) == patterned(21));
}

#[test]
fn bytes_that_the_sink_did_not_accept_are_written_again() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(1000)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(
        Call::Write,
        &[
            Injection::Short(300),
            Injection::Interrupted,
            Injection::Short(1),
            Injection::SpuriousWakeup,
        ],
    );
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(attempts(&report), [(Strategy::Buffered, 1000, None)]);
    assert_eq!(kernel.results(Call::Read), [Ok(1000), Ok(0)]);
    assert!(kernel.contents(&sink) == patterned(1000));
    let made = kernel.state.borrow().log.len() as u64;
    // The report does not count polls.
    let polls = kernel.results(Call::Poll).len() as u64;
    assert_eq!(report.attempts()[0].calls(), made - polls);
}

#[test]
fn an_error_of_the_source_is_reported_once_and_not_retried() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(1000)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(
        Call::Read,
        &[Injection::Short(400), Injection::Fails(Errno::IO)],
    );
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    let reported = (error.side(), error.bytes(), error.raw_os_error());
    assert_eq!(
        reported,
        (Side::Source, 400, Some(Errno::IO.raw_os_error()))
    );
    assert_eq!(
        attempts(error.report()),
        [(Strategy::Buffered, 400, Some(Errno::IO))]
    );
    assert_eq!(kernel.results(Call::Read), [Ok(400), Err(Errno::IO)]);
    assert!(kernel.contents(&sink) == patterned(400));
}

#[test]
fn the_source_is_put_back_over_what_a_full_sink_did_not_take() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(1000)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(
        Call::Write,
        &[Injection::Short(400), Injection::Fails(Errno::NOSPC)],
    );
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    let reported = (error.side(), error.bytes(), error.raw_os_error());
    assert_eq!(
        reported,
        (Side::Sink, 400, Some(Errno::NOSPC.raw_os_error()))
    );
    assert_eq!(kernel.cursor(&source), 400);
    assert!(kernel.contents(&sink) == patterned(400));
}

#[test]
fn transfers_of_a_series_share_one_buffer() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let series = Series::new(&sink);
    let mut expected = Vec::new();
    for len in [3000, 10, 1000, 4095] {
        let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
        let report = next(&kernel, &series, &source, Options::default()).unwrap();
        assert_eq!(report.bytes(), len as u64);
        expected.extend(patterned(len));
    }
    assert!(kernel.contents(&sink) == expected);
    assert_eq!(kernel.state.borrow().n_buffers, 1);
}

/// The transfer waits also for a pipe that another process has put into non-blocking mode.
#[test]
fn flags_that_change_in_the_middle_of_a_series_are_heeded() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::read_by_peer(false), OFlags::empty());
    let series = Series::new(&sink);
    for flags in [OFlags::empty(), OFlags::NONBLOCK] {
        let fd = std::os::fd::AsRawFd::as_raw_fd(&sink);
        kernel.state.borrow_mut().descriptor_mut(fd).flags = flags | OFlags::WRONLY;
        for _ in 0..10 {
            let source = kernel.source(Object::file(&patterned(30_000)), OFlags::empty());
            let report = next(&kernel, &series, &source, Options::default()).unwrap();
            assert_eq!(report.bytes(), 30_000);
        }
    }
    assert!(kernel.contents(&sink) == patterned(30_000).repeat(20));
}

/// From the second small source on the series skips `F_GETFL`: a wrong access mode makes the read
/// fail.
#[test]
fn a_source_of_a_series_that_is_open_in_another_way_is_refused_or_read_by_blocks() {
    let kernel = SimKernel::default();
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let series = Series::new(&sink);
    let small = kernel.source(Object::file(&patterned(100)), OFlags::empty());
    next(&kernel, &series, &small, Options::default()).unwrap();

    let direct = kernel.source(Object::file(&patterned(5000)), OFlags::DIRECT);
    let report = next(&kernel, &series, &direct, Options::default()).unwrap();
    assert_eq!(report.bytes(), 5000);
    assert!(kernel.contents(&sink) == [patterned(100), patterned(5000)].concat());

    let small = kernel.source(Object::file(&patterned(100)), OFlags::empty());
    next(&kernel, &series, &small, Options::default()).unwrap();
    let mute = kernel.sink(Object::file(&patterned(100)), OFlags::empty());
    let error = next(&kernel, &series, &mute, Options::default()).unwrap_err();
    assert!(error.is_refused(), "{error:#}");
    assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
}

/// A file of a series: its length, the injections, and the limit of the transfer.
type Draw = (usize, Vec<Injection>, Option<u64>);

fn draws() -> impl prop::strategy::Strategy<Value = Vec<Draw>> {
    let injection = prop_oneof![
        6 => Just(Injection::Normal),
        3 => (1..5000_usize).prop_map(Injection::Short),
        2 => Just(Injection::Interrupted),
        1 => Just(Injection::SpuriousWakeup),
        1 => Just(Injection::ReturnsZero),
        1 => Just(Injection::Fails(Errno::IO)),
    ];
    let len = prop_oneof![4 => 0..10_000_usize, 1 => 30_000..40_000_usize, 1 => 0..100_000_usize];
    let limit = prop_oneof![4 => Just(None), 1 => (0..20_000_u64).prop_map(Some)];
    prop::collection::vec((len, prop::collection::vec(injection, 0..6), limit), 1..12)
}

#[test]
fn a_series_delivers_what_its_transfers_report_and_nothing_of_one_in_another() {
    holds_for_all((draws(), 0..3), 500, |(draws, kind)| {
        let kernel = SimKernel::default();
        let sink = match kind {
            0 => Object::file(&[]),
            1 => Object::Null(Vec::new()),
            _ => Object::read_by_peer(false),
        };
        let sink = kernel.sink(sink, OFlags::empty());
        let series = Series::new(&sink);
        let mut expected: Vec<u8> = Vec::new();
        for (nth, (len, injections, limit)) in draws.iter().enumerate() {
            // The files of a series have different contents.
            let place = nth as u64 * 1_000_000;
            let bytes: Vec<_> = (place..).take(*len).map(pattern).collect();
            let source = kernel.source(Object::file(&bytes), OFlags::empty());
            kernel.inject(Call::Read, &injections[..injections.len() / 2]);
            kernel.inject(Call::Write, &injections[injections.len() / 2..]);
            let options = Options {
                limit: *limit,
                ..Options::default()
            };
            let (report, is_whole) = match next(&kernel, &series, &source, options) {
                Ok(report) => (report, true),
                Err(error) => (error.into_report(), false),
            };
            let n = report.bytes() as usize;
            expected.extend(&bytes[..n]);
            // If the position could not be put back, the report hands back the bytes read.
            let back = report.undelivered();
            prop_assert_eq!(kernel.cursor(&source), (n + back.len()) as u64);
            prop_assert!(back == &bytes[n..n + back.len()]);
            if is_whole && report.ended() == Ended::Eof {
                prop_assert_eq!(n, *len);
            }
            kernel.state.borrow_mut().log.clear();
        }
        prop_assert!(kernel.contents(&sink) == expected);
        Ok(())
    });
}
