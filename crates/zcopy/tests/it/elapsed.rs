//! The time that a report gives.

use std::fs::File;
use std::time::Instant;

use zcopy::{FilterTransfer, Filtered, Input, Repeat, Report, Transfer};

use crate::endpoints::{full, null};
use crate::files::{file, pattern};

/// Asserts that a run took some time, and no more than passed around it.
fn assert_timed(what: &str, run: impl FnOnce() -> zcopy::Result<Report>) {
    let before = Instant::now();
    let report = run().unwrap_or_else(zcopy::Error::into_report);
    let around = before.elapsed();
    let elapsed = report.elapsed();
    assert!(
        !elapsed.is_zero() && elapsed <= around,
        "{what}: {elapsed:?} of {around:?}"
    );
}

#[test]
fn every_kind_of_transfer_reports_its_time() {
    let (small, null, full) = (file(b"hello"), null(), full());
    let zeros = File::open("/dev/zero").unwrap();
    let large = file(&pattern(1 << 20));
    let to = |sink| Transfer::new(&zeros, sink).limit(1 << 20);
    assert_timed("a small file", || Transfer::new(&small, &null).run());
    assert_timed("a large file", || Transfer::new(&large, &null).run());
    assert_timed("a full disk", || to(&full).run());
    assert_timed("several sinks", || to(&null).also_to(&null).run());
    assert_timed("a pattern", || Repeat::new("y\n").limit(1 << 20).run(&null));

    let discard = |input: Input<'_>, _: &mut [u8]| Filtered {
        consumed: input.bytes.len(),
        produced: 0,
    };
    let mut filter = FilterTransfer::new(&null, discard);
    assert_timed("a filter", || filter.run(&small));
    assert_timed("a filter with a thread", || filter.run(&large));
    assert_timed("the end of a filter", || filter.finish());
}

#[test]
fn a_refused_transfer_takes_no_time() {
    let directory = File::open("/").unwrap();
    let error = zcopy::copy(&directory, null()).unwrap_err();
    assert!(error.report().elapsed().is_zero());
}
