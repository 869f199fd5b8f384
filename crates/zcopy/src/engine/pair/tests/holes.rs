//! Holes and clones that fail, or differ from what was requested.

use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::options::{Options, Sparse};
use crate::progress::Progress;
use crate::report::Report;
use crate::side::Side;
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{BLOCK, FUSE, File, Object, patterned};
use crate::sim::run::{Callbacks, attempts, transfer, transfer_with};
use crate::sim::script::{Call, Injection};
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
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&ending_in_zeros()), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let injections = [
        Injection::Normal,
        Injection::Interrupted,
        Injection::Fails(Errno::FBIG),
    ];
    kernel.inject(Call::Write, &injections);
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

/// A pipe cannot be rewound when punching a hole fails.
#[test]
fn the_zeros_of_a_trailing_hole_that_failed_are_handed_back() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(false, &ending_in_zeros(), &[]);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let injections = [Injection::Normal, Injection::Fails(Errno::FBIG)];
    kernel.inject(Call::Write, &injections);
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
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&ending_in_zeros()), OFlags::empty());
        let sink = kernel.sink(Object::file(&vec![b'x'; 5 * BLOCK]), OFlags::empty());
        kernel.inject(
            Call::PunchHole,
            &[Injection::Interrupted, Injection::Refused(nth)],
        );
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

/// The length of the data and of the hole, in bytes: too long for the fast path.
const HALF: usize = 50 * BLOCK;

/// The length of a sink that ends within that hole.
const WITHIN: usize = HALF + BLOCK + 5;

fn half_hole() -> Vec<u8> {
    [patterned(HALF), vec![0; HALF]].concat()
}

/// Returns a sparse file that ends in a hole, and a sink on an unknown file system that ends within
/// that hole.
fn ending_in_hole(kernel: &SimKernel, bad: Option<(u64, Errno)>) -> (OwnedFd, OwnedFd) {
    let source = Object::File(File::sparse(&half_hole()));
    let mut sink = File::holding(&vec![b'x'; WITHIN]);
    (sink.magic, sink.bad) = (0, bad);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::File(sink), OFlags::empty());
    (source, sink)
}

/// The sink was extended for the hole before the kernel refused to punch it.
#[test]
fn a_sink_is_not_lengthened_for_a_hole_that_cannot_be_punched() {
    let kernel = SimKernel::default();
    let (source, sink) = ending_in_hole(&kernel, None);
    kernel.inject(Call::PunchHole, &[Injection::Refused(0)]);
    // The zeros have been read from the source, and the sink has not accepted them.
    let injections = [Injection::Normal; 3].into_iter();
    let injections: Vec<_> = injections.chain([Injection::Fails(Errno::IO)]).collect();
    kernel.inject(Call::Splice, &injections);
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, HALF as u64));
    let expected = [&patterned(HALF)[..], &[b'x'; WITHIN - HALF]].concat();
    assert!(kernel.contents(&sink) == expected);
}

#[test]
fn a_hole_for_whose_length_there_is_no_room_ends_where_the_sink_did() {
    let kernel = SimKernel::default();
    let n = WITHIN as u64;
    let (source, sink) = ending_in_hole(&kernel, Some((n, Errno::NOSPC)));
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, n));
    assert_eq!(error.report().hole_bytes(), (WITHIN - HALF) as u64);
    assert!(kernel.contents(&sink) == half_hole()[..WITHIN]);
    assert_eq!((kernel.cursor(&source), kernel.cursor(&sink)), (n, n));
}

#[test]
fn a_hole_that_reaches_beyond_the_end_of_the_sink_has_its_length() {
    let kernel = SimKernel::default();
    let (source, sink) = ending_in_hole(&kernel, None);
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(report.hole_bytes(), HALF as u64);
    assert!(kernel.contents(&sink) == half_hole());
}

/// A hole of 1 GiB at 1 MiB a second takes no time, because no bytes move.
#[test]
fn a_hole_that_is_kept_takes_no_time_at_any_rate() {
    const RATE: u64 = 8192;
    let mut bytes = patterned(600_000);
    bytes[2 * BLOCK..].fill(0);
    for (sparse, seconds) in [(Sparse::Keep, 1), (Sparse::Fill, 600_000 / RATE)] {
        let kernel = SimKernel::default();
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

/// Some FUSE file systems report a wrong size and no blocks.
#[test]
fn the_end_that_extents_claim_is_confirmed_by_a_read() {
    let kernel = SimKernel::default();
    let mut file = File::holding(&patterned(200_000));
    file.claimed_size = Some(100_000);
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

/// Returns a source and an empty sink on one btrfs.
fn on_btrfs(len: usize) -> (SimKernel, File, File) {
    let (mut source, mut sink) = (File::holding(&patterned(len)), File::holding(&[]));
    (source.magic, sink.magic) = (BTRFS, BTRFS);
    (SimKernel::default(), source, sink)
}

#[test]
fn a_truncated_clone_that_claims_success_is_finished_by_another_strategy() {
    for injection in [Injection::Short(8192), Injection::ReturnsZero] {
        let (kernel, source, sink) = on_btrfs(200_000);
        let source = kernel.source(Object::File(source), OFlags::empty());
        let sink = kernel.sink(Object::File(sink), OFlags::empty());
        kernel.inject(Call::CloneRange, &[injection]);
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
        kernel.inject(Call::CloneRange, &[Injection::Refused(nth)]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        let errno = Call::CloneRange.refusal(nth);
        assert_eq!(attempts(&report)[0], (Strategy::Reflink, 0, errno));
        assert!(kernel.contents(&sink) == patterned(200_000));
    }
}

/// Another process appends to the source between `fstat` and the clone.
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

/// Returns a kernel with an empty sink and a source of 20 blocks of data and a hole of 20 blocks.
/// Another process changes the length of the source, in blocks, right after a search has found no
/// more data.
fn ending_in_a_hole(resized_to: usize) -> (SimKernel, OwnedFd, OwnedFd) {
    let kernel = SimKernel::default();
    let mut bytes = patterned(40 * BLOCK);
    bytes[20 * BLOCK..].fill(0);
    let mut file = File::sparse(&bytes);
    file.resized_when_searched = Some(resized_to * BLOCK);
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    (kernel, source, sink)
}

#[test]
fn bytes_appended_after_the_search_for_data_are_not_taken_for_a_hole() {
    let (kernel, source, sink) = ending_in_a_hole(45);
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    let (len, hole) = (45 * BLOCK as u64, 20 * BLOCK as u64);
    assert_eq!((report.bytes(), report.hole_bytes()), (len, hole));
    assert!(kernel.contents(&sink) == kernel.contents(&source));
    assert_eq!(kernel.contents(&sink).last(), patterned(45 * BLOCK).last());
}

#[test]
fn bytes_truncated_after_the_search_for_data_are_not_copied_as_zeros() {
    for left in [30, 20, 10] {
        let (kernel, source, sink) = ending_in_a_hole(left);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        let expected = left.max(20) * BLOCK;
        assert_eq!(report.bytes(), expected as u64);
        let mut bytes = patterned(expected);
        bytes[20 * BLOCK..].fill(0);
        assert!(kernel.contents(&sink) == bytes, "cut to {left} blocks");
    }
}

#[test]
fn where_the_source_cannot_be_opened_again_holes_are_found_by_looking_at_the_bytes() {
    let mut bytes = patterned(40 * BLOCK);
    bytes[10 * BLOCK..30 * BLOCK].fill(0);
    let others = [Strategy::SplicePipe, Strategy::CopyFileRange];
    for strategy in [None, Some(Strategy::Buffered)]
        .into_iter()
        .chain(others.map(Some))
    {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = false;
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            strategy,
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        let is_requested = strategy.is_some_and(|strategy| others.contains(&strategy));
        let hole = if is_requested { 0 } else { 20 * BLOCK as u64 };
        assert_eq!(report.bytes(), bytes.len() as u64);
        assert_eq!(report.hole_bytes(), hole, "{strategy:?}");
        assert_eq!(
            report.strategy(),
            Some(strategy.unwrap_or(Strategy::Buffered))
        );
        assert!(kernel.contents(&sink) == bytes, "{strategy:?}");
    }
}

/// The data behind a hole extends the sink, so that no call is made for the hole. If the sink is
/// shorter in the end, another process has truncated it, and it stays so.
#[test]
fn only_a_hole_that_nothing_follows_is_given_a_length() {
    let mut bytes = patterned(600_000);
    bytes[10 * BLOCK..20 * BLOCK].fill(0);
    for is_truncated in [false, true] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let object = kernel.state.borrow().descriptor(sink.as_raw_fd()).object;
        let options = Options {
            strategy: Some(Strategy::SplicePipe),
            observed: true,
            ..Options::default()
        };
        let observe = |progress: &Progress| {
            if is_truncated && progress.bytes() == 600_000 {
                let mut state = kernel.state.borrow_mut();
                if let Object::File(file) = &mut state.objects[object] {
                    file.resize(100);
                }
            }
            ControlFlow::Continue(())
        };
        let outcome = transfer_with(
            &kernel,
            (&source, &sink),
            options,
            Callbacks::observing(observe),
        );
        let report = outcome.unwrap();
        assert_eq!(report.hole_bytes(), 10 * BLOCK as u64);
        assert!(kernel.results(Call::Write).is_empty());
        assert!(kernel.results(Call::PunchHole).is_empty());
        let left = if is_truncated { 100 } else { bytes.len() };
        assert!(kernel.contents(&sink) == bytes[..left]);
    }
}

/// fuse2fs returns success for a hole from the beginning of a block to a place within it, and leaves
/// the old bytes.
#[test]
fn a_short_hole_over_old_bytes_on_fuse_is_written_as_zeros() {
    const LAST: usize = 873;
    // The plan does without the file systems of short files.
    let mut short = patterned(BLOCK + LAST);
    short[BLOCK..].fill(0);
    let mut bytes = patterned(60 * BLOCK + LAST);
    bytes[10 * BLOCK..11 * BLOCK].fill(0);
    bytes[20 * BLOCK..40 * BLOCK].fill(0);
    bytes[60 * BLOCK..].fill(0);
    let (hole, holes) = (LAST as u64, (21 * BLOCK + LAST) as u64);
    for (bytes, flags, holes) in [
        (&short, OFlags::empty(), hole),
        (&bytes, OFlags::empty(), holes),
        (&bytes, OFlags::DIRECT, holes),
    ] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(bytes)), OFlags::empty());
        let mut sink = File::holding(&vec![b'x'; bytes.len()]);
        sink.magic = FUSE;
        let sink = kernel.sink(Object::File(sink), flags);
        // Without a range, the short file would be read and written whole.
        let options = Options {
            source_offset: Some(0),
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        let expected = (bytes.len() as u64, holes);
        assert_eq!((report.bytes(), report.hole_bytes()), expected);
        assert!(
            kernel.contents(&sink) == *bytes,
            "{} {flags:?}",
            bytes.len()
        );
    }
}

/// Whether a file system supports holes is unknown until one has been punched.
#[test]
fn where_a_sink_cannot_be_written_past_its_end_zeros_are_written() {
    let mut bytes = patterned(600_000);
    bytes[10 * BLOCK..20 * BLOCK].fill(0);
    for errno in [Errno::PERM, Errno::INVAL, Errno::IO, Errno::OPNOTSUPP] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let mut sink = File::holding(&[]);
        sink.magic = FUSE;
        let sink = kernel.sink(Object::File(sink), OFlags::empty());
        kernel.inject(Call::Write, &[Injection::Fails(errno)]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!((report.bytes(), report.hole_bytes()), (600_000, 0));
        assert!(kernel.contents(&sink) == bytes, "{errno:?}");
    }
}

/// The last byte of a hole is no whole block. If the file cannot be reopened to write it, zeros are
/// written instead.
#[test]
fn a_direct_sink_without_another_opening_gets_zeros_for_a_hole_at_its_end() {
    for has_proc in [true, false] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = has_proc;
        let source = kernel.source(Object::file(&ending_in_zeros()), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
        let options = Options {
            sparse: Sparse::Detect,
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        let hole = if has_proc { 2 * BLOCK as u64 } else { 0 };
        assert_eq!(
            (report.bytes(), report.hole_bytes()),
            (4 * BLOCK as u64, hole)
        );
        assert!(kernel.contents(&sink) == ending_in_zeros());
    }
}

/// A long file would be spliced; the report says why this one is not.
#[test]
fn a_long_source_that_cannot_be_opened_again_is_read_for_the_sake_of_its_holes() {
    let mut bytes = patterned(250 * BLOCK);
    bytes[10 * BLOCK..30 * BLOCK].fill(0);
    for (strategy, expected) in [
        (
            None,
            &[
                (Strategy::SplicePipe, 0, Some(Errno::NOENT)),
                (Strategy::Buffered, 1_024_000, None),
            ][..],
        ),
        (
            Some(Strategy::Buffered),
            &[(Strategy::Buffered, 1_024_000, None)],
        ),
    ] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = false;
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let options = Options {
            strategy,
            ..Options::default()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        assert_eq!(attempts(&report), expected);
        assert_eq!(report.hole_bytes(), 20 * BLOCK as u64, "{strategy:?}");
        assert!(kernel.contents(&sink) == bytes, "{strategy:?}");
    }
}

/// Runs a transfer and returns the bytes that its inspector was shown.
fn inspected(
    kernel: &SimKernel,
    ends: (&OwnedFd, &OwnedFd),
    options: Options,
) -> (Report, Vec<u8>) {
    let mut seen = Vec::new();
    let options = Options {
        inspected: true,
        ..options
    };
    let inspect = |bytes: &[u8]| seen.extend_from_slice(bytes);
    let outcome = transfer_with(kernel, ends, options, Callbacks::inspecting(inspect));
    let report = outcome.unwrap();
    (report, seen)
}

/// Returns the number of bytes that a transfer has read.
fn bytes_read(kernel: &SimKernel) -> usize {
    kernel.results(Call::Read).into_iter().flatten().sum()
}

#[test]
fn a_hole_is_shown_to_an_inspector_without_being_read() {
    let mut bytes = patterned(200 * BLOCK);
    bytes[10 * BLOCK..150 * BLOCK].fill(0);
    bytes[175 * BLOCK..].fill(0);
    for sink in [Object::file(&[]), Object::Null(Vec::new())] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(sink, OFlags::empty());
        let (report, seen) = inspected(&kernel, (&source, &sink), Options::default());
        assert!(seen == bytes);
        assert_eq!(report.bytes(), bytes.len() as u64);
        assert_eq!(report.hole_bytes(), 165 * BLOCK as u64);
        assert_eq!(bytes_read(&kernel), 35 * BLOCK);
    }
}

/// Other sinks need the zeros, and holes that cannot be found are read.
#[test]
fn elsewhere_an_inspected_hole_is_read() {
    let mut bytes = patterned(40 * BLOCK);
    bytes[10 * BLOCK..30 * BLOCK].fill(0);
    for (has_proc, sparse) in [(false, Sparse::Keep), (true, Sparse::Fill)] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = has_proc;
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        let options = Options {
            sparse,
            ..Options::default()
        };
        let (_, seen) = inspected(&kernel, (&source, &sink), options);
        assert!(seen == bytes && kernel.contents(&sink) == bytes);
        assert_eq!(bytes_read(&kernel), bytes.len());
    }
}

/// A NUL may be the delimiter of records.
#[test]
fn records_in_a_hole_are_counted() {
    let mut bytes = patterned(40 * BLOCK);
    for byte in &mut bytes {
        *byte |= 1;
    }
    bytes[10 * BLOCK..30 * BLOCK].fill(0);
    for sink in [Object::file(&[]), Object::Null(Vec::new())] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(sink, OFlags::empty());
        let mut options = Options::default();
        options.records.delimiter = Some(0);
        let (report, seen) = inspected(&kernel, (&source, &sink), options);
        assert!(seen == bytes);
        assert_eq!(report.records(), 20 * BLOCK as u64);
    }
}
