//! Holes and clones that do not come out as they should.

use super::{attempts, transfer};
use crate::fault::Side;
use crate::options::{Options, Sparse};
use crate::scripted::kernel::Scripted;
use crate::scripted::objects::{BLOCK, File, Object, patterned};
use crate::scripted::script::{Call, Twist};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

const BTRFS: u64 = 0x9123_683e;

/// Two blocks of data and two of zeros.
fn ending_in_zeros() -> Vec<u8> {
    let mut bytes = patterned(4 * BLOCK);
    bytes[2 * BLOCK..].fill(0);
    bytes
}

#[test]
fn the_trailing_hole_that_cannot_be_given_its_length_is_not_counted() {
    let kernel = Scripted::default();
    let source = kernel.source(Object::file(&ending_in_zeros()), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let twists = [
        Twist::Straight,
        Twist::Interrupted,
        Twist::Fails(Errno::FBIG),
    ];
    kernel.twist(Call::Write, &twists);
    let options = Options {
        sparse: Sparse::Detect,
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    let n = 2 * BLOCK as u64;
    assert_eq!((error.side(), error.bytes()), (Side::Sink, n));
    assert_eq!(error.call(), Some("pwrite"));
    assert_eq!(error.report().hole_bytes(), 0);
    assert_eq!(attempts(error.report()), [(Strategy::Buffered, n, None)]);
    assert_eq!((kernel.cursor(&source), kernel.cursor(&sink)), (n, n));
    assert!(kernel.contents(&sink) == patterned(2 * BLOCK));
}

/// A pipe cannot be rewound over the zeros that did not become a hole.
#[test]
fn the_zeros_of_a_trailing_hole_that_failed_are_handed_back() {
    let kernel = Scripted::default();
    let source = Object::feeding(false, &ending_in_zeros(), &[]);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let twists = [Twist::Straight, Twist::Fails(Errno::FBIG)];
    kernel.twist(Call::Write, &twists);
    let options = Options {
        sparse: Sparse::Detect,
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!(
        (error.side(), error.bytes()),
        (Side::Sink, 2 * BLOCK as u64)
    );
    assert!(error.undelivered() == [0; 2 * BLOCK]);
}

#[test]
fn a_hole_that_cannot_be_punched_is_filled_with_zeros() {
    for nth in 0..2 {
        let kernel = Scripted::default();
        let source = kernel.source(Object::file(&ending_in_zeros()), OFlags::empty());
        let sink = kernel.sink(Object::file(&vec![b'x'; 5 * BLOCK]), OFlags::empty());
        kernel.twist(Call::PunchHole, &[Twist::Interrupted, Twist::Refused(nth)]);
        let options = Options {
            sparse: Sparse::Detect,
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!((report.bytes(), report.hole_bytes()), (4 * BLOCK as u64, 0));
        let expected = [&ending_in_zeros()[..], &[b'x'; BLOCK]].concat();
        assert!(kernel.contents(&sink) == expected);
    }
}

/// A hole of 1 GiB at 1 MiB a second is not waited for: nothing moves.
#[test]
fn a_hole_that_is_kept_takes_no_time_at_any_rate() {
    const RATE: u64 = 8192;
    let mut bytes = patterned(600_000);
    bytes[2 * BLOCK..].fill(0);
    for (sparse, seconds) in [(Sparse::Keep, 1), (Sparse::Fill, 600_000 / RATE)] {
        let kernel = Scripted::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            sparse,
            rate_limit: std::num::NonZeroU64::new(RATE),
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(report.bytes(), 600_000);
        assert!(kernel.contents(&sink) == bytes);
        let took = kernel.elapsed().as_secs();
        assert!(
            (seconds..=seconds + 1).contains(&took),
            "{sparse:?}: {took} s"
        );
    }
}

/// Files of some FUSE file systems claim a size that is not theirs, and to have no blocks.
#[test]
fn the_end_that_extents_claim_is_confirmed_by_a_read() {
    let kernel = Scripted::default();
    let mut file = File::holding(&patterned(200_000));
    file.claims = Some(100_000);
    file.has_data[1] = false;
    file.bytes[BLOCK..2 * BLOCK].fill(0);
    for has_data in &mut file.has_data[25..] {
        *has_data = false;
    }
    let expected = file.bytes.clone();
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::Buffered),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 200_000);
    assert!(kernel.contents(&sink) == expected);
}

/// A source and an empty sink on one btrfs.
fn on_btrfs(len: usize) -> (Scripted, File, File) {
    let (mut source, mut sink) = (File::holding(&patterned(len)), File::holding(&[]));
    (source.magic, sink.magic) = (BTRFS, BTRFS);
    (Scripted::default(), source, sink)
}

#[test]
fn a_truncated_clone_that_claims_success_is_finished_by_another_strategy() {
    for twist in [Twist::Short(8192), Twist::Nothing] {
        let (kernel, source, sink) = on_btrfs(200_000);
        let source = kernel.source(Object::File(source), OFlags::empty());
        let sink = kernel.sink(Object::File(sink), OFlags::empty());
        kernel.twist(Call::CloneFile, &[twist]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.bytes(), 200_000);
        assert!(kernel.contents(&sink) == patterned(200_000));
    }
}

#[test]
fn a_clone_that_is_refused_leaves_the_rest_to_another_strategy() {
    for nth in 0..7 {
        let (kernel, source, sink) = on_btrfs(200_000);
        let source = kernel.source(Object::File(source), OFlags::empty());
        let sink = kernel.sink(Object::File(sink), OFlags::empty());
        kernel.twist(Call::CloneFile, &[Twist::Refused(nth)]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        let errno = Call::CloneFile.refusal(nth);
        assert_eq!(attempts(&report)[0], (Strategy::Reflink, 0, errno));
        assert!(kernel.contents(&sink) == patterned(200_000));
    }
}

/// Between the question for its size and the clone, somebody appends to the source.
#[test]
fn a_source_that_grows_while_it_is_cloned_does_not_exceed_the_limit() {
    let (kernel, mut source, sink) = on_btrfs(200_000);
    source.grows_when_cloned = 10_000;
    let source = kernel.source(Object::File(source), OFlags::empty());
    let sink = kernel.sink(Object::File(sink), OFlags::empty());
    let options = Options {
        limit: Some(200_000),
        ..Options::default()
    };
    let report = transfer(&kernel, (&source, &sink), options).unwrap();
    assert_eq!(report.bytes(), 200_000);
    assert!(kernel.contents(&sink) == patterned(200_000));
    assert_eq!(kernel.cursor(&source), 200_000);
}
