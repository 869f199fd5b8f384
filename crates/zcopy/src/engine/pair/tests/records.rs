//! Counts and limits of records, with random faults.

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::properties::check_as;
use crate::options::RecordOptions;
use crate::options::{Options, Sparse};
use crate::report::Ended;
use crate::sim::SimKernel;
use crate::sim::arbitrary::scenarios;
use crate::sim::interference::Interference;
use crate::sim::objects::Object;
use crate::sim::run::{Callbacks, attempts, transfer, transfer_with};
use crate::sim::scenario::Scenario;
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};
use zcopy_fuzz::holds_for_all;

/// Enough cases for every pair with every limit; `PROPTEST_CASES` sets another number.
const CASES: u32 = 2000;

/// Generates transfers whose records are counted, and mostly limited in number or rate.
fn cases() -> impl prop::strategy::Strategy<Value = Scenario> {
    let delimiters = prop_oneof![Just(0), Just(b'\n'), any::<u8>()];
    // Thousandths of all records; and small numbers.
    let limits = prop_oneof![
        2 => Just(None),
        2 => (0..1100_u64).prop_map(|part| Some((part, 0))),
        1 => (0..4_u64).prop_map(|n| Some((0, n))),
        1 => (0..3_u64).prop_map(|n| Some((1000, n))),
    ];
    let rates = prop_oneof![3 => Just(None), 1 => (1..10_u64).prop_map(Some)];
    (scenarios(), delimiters, limits, rates).prop_map(|(mut scenario, delimiter, limit, rate)| {
        let n = n_of(&scenario.data(), delimiter) as u64;
        // All records take at most a second.
        let most = if scenario
            .interferences
            .iter()
            .any(Interference::changes_source)
        {
            scenario.source.most_len(&scenario.interferences) as u64
        } else {
            n
        };
        scenario.options.records = RecordOptions {
            delimiter: Some(delimiter),
            limit: limit.map(|(part, few)| n * part / 1000 + few),
            rate: rate.and_then(|times| NonZeroU64::new(times * most.max(1))),
        };
        if !matches!(scenario.options.strategy, None | Some(Strategy::Buffered)) {
            scenario.options.strategy = None;
        }
        // With a rate no call may sleep, as it would behind a reader that takes the bytes.
        scenario.drop_infeasible_interferences();
        scenario
    })
}

/// Returns the number of delimiters.
pub(super) fn n_of(bytes: &[u8], delimiter: u8) -> usize {
    bytes.split(|byte| *byte == delimiter).count() - 1
}

#[test]
fn the_count_is_that_of_the_sink_and_nothing_goes_beyond_the_nth_record() {
    holds_for_all(cases(), CASES, |scenario| {
        check_as(scenario, &scenario.source.bytes(), |_, _| {}).map(|_| ())
    });
}

const LINES: &[u8] = b"one\ntwo\n\nfour\nfive";

fn lines_up_to(n: u64) -> Options {
    let mut options = Options::default();
    options.records.limit = Some(n);
    options
}

/// Returns a stream socket whose peer writes these chunks.
fn stream(kernel: &SimKernel, bytes: &[u8], pieces: &[usize]) -> std::os::fd::OwnedFd {
    kernel.source(
        Object::written_by_peer(true, bytes, pieces),
        OFlags::empty(),
    )
}

#[test]
fn every_limit_ends_behind_its_record_wherever_reads_and_writes_are_cut() {
    let ends = [0, 4, 8, 9, 14];
    for (n, end) in ends.into_iter().enumerate() {
        for piece in 1..=LINES.len() {
            for short in 1..=LINES.len() {
                let kernel = SimKernel::default();
                let source = stream(&kernel, LINES, &[piece; 20]);
                let sink = kernel.sink(Object::file(&[]), OFlags::empty());
                kernel.inject(Call::Write, &[Injection::Short(short); 20]);
                let report = transfer(&kernel, (&source, &sink), lines_up_to(n as u64)).unwrap();
                assert_eq!(report.records(), n as u64);
                assert_eq!(report.ended(), Ended::Limit);
                assert_eq!(kernel.contents(&sink), LINES[..end]);
                let rest = [report.undelivered(), &kernel.contents(&source)].concat();
                assert_eq!(rest, LINES[end..], "{n}, {piece}, {short}");
            }
        }
    }
}

/// A limit that waited for the rest of a block would read too much, or wait for ever.
#[test]
fn the_last_record_goes_at_once_where_blocks_are_gathered() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().has_proc = true;
    let source = stream(&kernel, LINES, &[5; 4]);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let report = transfer(&kernel, (&source, &sink), lines_up_to(2)).unwrap();
    assert_eq!((report.records(), report.ended()), (2, Ended::Limit));
    assert_eq!(kernel.contents(&sink), LINES[..8]);
    assert_eq!(report.undelivered(), &LINES[8..10]);
    assert_eq!(kernel.contents(&source), LINES[10..]);
}

/// The transfer took the counted bytes for everything in the pipe, although more had arrived.
#[test]
fn records_that_arrive_to_complete_a_block_are_counted_too() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().has_proc = true;
    let bytes = b"line\n".repeat(2000);
    let source = stream(&kernel, &bytes, &[1007; 10]);
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    let report = transfer(&kernel, (&source, &sink), lines_up_to(1999)).unwrap();
    assert_eq!((report.records(), report.ended()), (1999, Ended::Limit));
    assert_eq!(kernel.contents(&sink), bytes[..9995]);
}

#[test]
fn bytes_without_a_delimiter_at_their_end_are_moved_and_not_counted() {
    let kernel = SimKernel::default();
    let source = stream(&kernel, LINES, &[]);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let report = transfer(&kernel, (&source, &sink), lines_up_to(5)).unwrap();
    assert_eq!((report.records(), report.ended()), (4, Ended::Eof));
    assert_eq!(kernel.contents(&sink), LINES);
}

/// A clone or a splice would move bytes that have not been counted.
#[test]
fn records_are_counted_by_read_and_write_and_holes_as_zeros() {
    for sparse in [Sparse::Keep, Sparse::Fill, Sparse::Detect] {
        let kernel = SimKernel::default();
        let bytes = [vec![1; 4096], vec![0; 40_960], vec![2; 4096]].concat();
        let source = Object::File(crate::sim::objects::File::sparse(&bytes));
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let mut options = Options {
            sparse,
            ..Options::default()
        };
        options.records.delimiter = Some(0);
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.records(), 40_960);
        assert_eq!(attempts(&report), [(Strategy::Buffered, 49_152, None)]);
        let kept = if sparse == Sparse::Fill { 0 } else { 40_960 };
        assert_eq!(report.hole_bytes(), kept);
    }
}

#[test]
fn zeros_of_a_hole_that_could_not_be_made_are_not_counted() {
    let kernel = SimKernel::default();
    let bytes = [vec![1; 4096], vec![0; 40_960]].concat();
    let source = kernel.source(Object::file(&bytes), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(
        Call::Write,
        &[Injection::Normal, Injection::Fails(Errno::IO)],
    );
    let mut options = Options {
        sparse: Sparse::Detect,
        ..Options::default()
    };
    options.records.delimiter = Some(0);
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.bytes(), error.report().records()), (4096, 0));
    assert_eq!(kernel.contents(&sink), vec![1; 4096]);
}

#[test]
fn a_rate_limit_of_records_lets_them_go_one_after_the_other_and_what_is_no_record_at_once() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    let source = stream(&kernel, b"a\nb\nc\nd", &[]);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let mut options = Options {
        observed: true,
        ..Options::default()
    };
    options.records.rate = NonZeroU64::new(10);
    let mut seen = Vec::new();
    let observe = |progress: &crate::Progress| {
        seen.push((kernel.elapsed().as_millis(), progress.bytes()));
        assert_eq!(progress.records(), progress.bytes() / 2);
        ControlFlow::Continue(())
    };
    let outcome = transfer_with(
        &kernel,
        (&source, &sink),
        options,
        Callbacks::observing(observe),
    );
    outcome.unwrap();
    assert_eq!(seen, [(100, 2), (200, 4), (300, 7)]);
}

#[test]
fn a_message_that_goes_beyond_the_limit_is_handed_back_whole() {
    use crate::sim::channel::Messages;
    for to_messages in [true, false] {
        let kernel = SimKernel::default();
        let messages = [
            b"a\nb\n".to_vec(),
            b"c".to_vec(),
            b"\nd".to_vec(),
            b"e\n".to_vec(),
        ];
        let source = kernel.source(
            Object::Messages(Messages::written_by_peer(&messages)),
            OFlags::empty(),
        );
        let sink = if to_messages {
            Object::Messages(Messages::default())
        } else {
            Object::file(&[])
        };
        let sink = kernel.sink(sink, OFlags::empty());
        let report = transfer(&kernel, (&source, &sink), lines_up_to(3)).unwrap();
        assert_eq!((report.records(), report.ended()), (2, Ended::Limit));
        assert_eq!(kernel.contents(&sink), b"a\nb\nc");
        assert_eq!(report.undelivered(), b"\nd");
        assert_eq!(kernel.contents(&source), b"e\n");
    }
}
