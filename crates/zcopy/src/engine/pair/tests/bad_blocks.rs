//! Sources with bad blocks: scripts here, and random ones in [`random`].

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;

use crate::options::{Options, SkipErrors};
use crate::report::{BadRange, Ended, Report};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::objects::{File, Object, patterned};
use crate::sim::run::{Callbacks, attempts, transfer, transfer_with};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};
use crate::transfer::Transfer;

mod random;

fn block(n: u64) -> SkipErrors {
    SkipErrors::Block(NonZeroU64::new(n).unwrap())
}

/// Runs a transfer of a file with bad blocks into an empty file. Returns the kernel, the
/// descriptors, the report and the skipped ranges.
fn run(
    file: File,
    options: Options,
    injections: &[(Call, Injection)],
) -> (SimKernel, [OwnedFd; 2], Report, Vec<BadRange>) {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    for (call, injection) in injections {
        kernel.inject(*call, &[*injection]);
    }
    let mut skipped = Vec::new();
    let callbacks = Callbacks::skipping(|stretch: &BadRange| skipped.push(*stretch));
    let outcome = transfer_with(&kernel, (&source, &sink), options, callbacks);
    let report = outcome.unwrap();
    (kernel, [source, sink], report, skipped)
}

fn bad_file(len: usize, bad: Range<u64>, errno: Errno) -> File {
    let mut file = File::holding(&patterned(len));
    file.bad_blocks = vec![(bad, errno)];
    file
}

fn adaptive() -> Options {
    Options {
        skip_errors: SkipErrors::Adaptive,
        ..Options::default()
    }
}

fn zeroed(len: usize, bad: Range<usize>) -> Vec<u8> {
    let mut bytes = patterned(len);
    bytes[bad].fill(0);
    bytes
}

/// For every strategy: its call, and a sink for which the plan puts it first if the calls of the
/// strategies before it fail.
fn ways() -> [(Strategy, Call, &'static [Call], Object); 4] {
    use Call::{CopyFileRange, Pipe, Sendfile, Splice};
    [
        (Strategy::SplicePipe, Splice, &[], Object::file(&[])),
        (
            Strategy::CopyFileRange,
            CopyFileRange,
            &[Pipe],
            Object::file(&[]),
        ),
        (
            Strategy::Splice,
            Splice,
            &[Pipe],
            Object::read_by_peer(false),
        ),
        (
            Strategy::Sendfile,
            Sendfile,
            &[Pipe],
            Object::read_by_peer(true),
        ),
    ]
}

/// The count includes the reads that search for the end of a bad block.
#[test]
fn every_read_of_a_source_with_a_bad_block_is_counted() {
    let bad = bad_file(600_000, 409_600..417_792, Errno::IO);
    let (kernel, _, report, _) = run(bad, adaptive(), &[]);
    assert_eq!(report.skipped_bytes(), 8192);
    let calls = report.attempts().iter().map(crate::Attempt::calls);
    let made = kernel.state.borrow();
    let made = made.log.iter().filter(|(call, _)| call.moves_bytes());
    assert_eq!(calls.sum::<u64>(), made.count() as u64, "{report:#}");
}

#[test]
fn every_strategy_gives_way_to_read_and_write_at_the_first_bad_block() {
    for (way, _, refused, sink) in ways() {
        let kernel = SimKernel::default();
        let file = bad_file(600_000, 409_600..413_696, Errno::IO);
        let source = kernel.source(Object::File(file), OFlags::empty());
        let sink = kernel.sink(sink, OFlags::empty());
        for call in refused {
            kernel.inject(*call, &[Injection::Refused(0)]);
        }
        let options = Options {
            // At a cursor the strategy would have to reserve a range.
            sink_offset: (way == Strategy::CopyFileRange).then_some(0),
            ..adaptive()
        };
        let report = transfer(&kernel, (&source, &sink), options).unwrap();
        let attempts = attempts(&report);
        let has_met_it = |(which, n, errno)| (which, n, errno) == (way, 409_600, Some(Errno::IO));
        assert!(
            attempts.iter().copied().any(has_met_it),
            "{way}: {attempts:?}"
        );
        assert_eq!(attempts.last(), Some(&(Strategy::Buffered, 190_400, None)));
        assert_eq!((report.bytes(), report.skipped_bytes()), (600_000, 4096));
        assert!(
            kernel.contents(&sink) == zeroed(600_000, 409_600..413_696),
            "{way}"
        );
        assert_eq!(kernel.cursor(&source), 600_000);
    }
}

/// Its position inside a block told of a failed sink, also where the transfer had begun there.
#[test]
fn a_direct_source_that_begins_inside_a_block_gives_way_to_read_and_write_too() {
    for start in [0, 100] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = true;
        let file = Object::file(&patterned(600_000));
        let source = kernel.source(file, OFlags::DIRECT);
        kernel.set_cursor(&source, start);
        let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
        kernel.inject(Call::Pipe, &[Injection::Refused(0)]);
        kernel.inject(Call::Sendfile, &[Injection::Fails(Errno::IO)]);
        let report = transfer(&kernel, (&source, &sink), adaptive()).unwrap();
        assert_eq!(report.bytes(), 600_000 - start, "{report:#}");
        let arrived = kernel.contents(&sink);
        assert!(arrived == patterned(600_000)[start as usize..], "{start}");
    }
}

/// A short step comes first, so that bytes are in flight or delivered when the error comes.
#[test]
fn an_error_at_any_step_that_does_not_come_again_loses_nothing() {
    for nth in 0..6 {
        for (way, call, refused, sink) in ways() {
            let (kernel, what) = (SimKernel::default(), format!("{way}, step {nth}"));
            let source = kernel.source(Object::file(&patterned(600_000)), OFlags::empty());
            let sink = kernel.sink(sink, OFlags::empty());
            for call in refused {
                kernel.inject(*call, &[Injection::Refused(0)]);
            }
            kernel.inject(call, &vec![Injection::Short(70_001); nth]);
            kernel.inject(call, &[Injection::Fails(Errno::IO)]);
            // A failing splice into the sink is an error of the sink.
            let is_drain = way == Strategy::SplicePipe && nth % 2 == 1;
            let n = match transfer(&kernel, (&source, &sink), adaptive()) {
                Ok(report) => {
                    assert!(!is_drain, "{what}");
                    assert_eq!(report.skipped_bytes(), 0, "{what}");
                    assert_eq!(report.bytes(), 600_000, "{what}");
                    report.bytes()
                }
                Err(error) => {
                    assert!(is_drain, "{what}: {error:#}");
                    assert_eq!(error.side(), Side::Sink, "{what}");
                    error.bytes()
                }
            };
            assert!(kernel.contents(&sink) == patterned(n as usize), "{what}");
            assert_eq!(kernel.cursor(&source), n, "{what}");
        }
    }
}

#[test]
fn errors_of_one_place_are_skipped_and_others_are_final() {
    let is_skipped = [
        (Errno::IO, true),
        (Errno::NODATA, true),
        (Errno::ILSEQ, true),
        (Errno::REMOTEIO, true),
        (Errno::TIMEDOUT, true),
        (Errno::TIME, true),
        (Errno::UCLEAN, true),
        (Errno::BADMSG, true),
        (Errno::NODEV, false),
        (Errno::NXIO, false),
        (Errno::STALE, false),
        (Errno::BADF, false),
        (Errno::FAULT, false),
        (Errno::ISDIR, false),
    ];
    for (errno, is_skipped) in is_skipped {
        let kernel = SimKernel::default();
        let source = bad_file(50_000, 8192..12_288, errno);
        let source = kernel.source(Object::File(source), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        match transfer(&kernel, (&source, &sink), adaptive()) {
            Ok(report) => {
                assert!(is_skipped, "{errno:?}");
                assert_eq!(report.skipped_bytes(), 4096);
            }
            Err(error) => {
                assert!(!is_skipped, "{error:#}");
                assert_eq!((error.side(), error.bytes()), (Side::Source, 8192));
                assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
                assert_eq!(kernel.cursor(&source), 8192);
            }
        }
    }
}

#[test]
fn nothing_is_skipped_by_default() {
    let kernel = SimKernel::default();
    let source = bad_file(50_000, 8192..12_288, Errno::IO);
    let source = kernel.source(Object::File(source), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 8192));
    assert_eq!(error.report().skipped_bytes(), 0);
}

#[test]
fn a_sink_that_fails_is_not_taken_for_a_bad_block() {
    for len in [20_000, 200_000, 600_000] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
        let mut sink = File::holding(&[]);
        sink.bad = Some((8192, Errno::IO));
        let sink = kernel.sink(Object::File(sink), OFlags::empty());
        let error = transfer(&kernel, (&source, &sink), adaptive()).unwrap_err();
        assert_eq!((error.side(), error.bytes()), (Side::Sink, 8192), "{len}");
        assert_eq!(error.report().skipped_bytes(), 0);
    }
}

#[test]
fn a_strategy_that_was_insisted_on_skips_nothing() {
    let kernel = SimKernel::default();
    let source = bad_file(600_000, 409_600..413_696, Errno::IO);
    let source = kernel.source(Object::File(source), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::SplicePipe),
        ..adaptive()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 409_600));
}

#[test]
fn a_source_that_is_bad_altogether_costs_some_dozens_of_failing_reads() {
    let file = bad_file(1 << 20, 0..1 << 20, Errno::IO);
    let (kernel, [_, sink], report, skipped) = run(file, adaptive(), &[]);
    assert_eq!((report.bytes(), report.skipped_bytes()), (1 << 20, 1 << 20));
    assert!(kernel.contents(&sink) == vec![0; 1 << 20]);
    let failed = kernel
        .results(Call::Read)
        .iter()
        .filter(|answer| answer.is_err())
        .count();
    assert!(failed < 40, "{failed} failing reads");
    assert!(skipped.len() < 40, "{} stretches", skipped.len());
}

#[test]
fn a_long_bad_block_is_left_exactly_where_it_ends() {
    let bad = 40_960..786_432;
    let file = bad_file(1 << 20, bad.clone(), Errno::IO);
    let (kernel, [_, sink], report, _) = run(file, adaptive(), &[]);
    assert_eq!(report.skipped_bytes(), bad.end - bad.start);
    assert!(kernel.contents(&sink) == zeroed(1 << 20, 40_960..786_432));
    let failed = kernel
        .results(Call::Read)
        .iter()
        .filter(|answer| answer.is_err())
        .count();
    assert!(failed < 50, "{failed} failing reads");
}

#[test]
fn a_bad_block_of_one_piece_costs_three_failing_reads() {
    let file = bad_file(600_000, 409_600..413_696, Errno::IO);
    let (kernel, _, report, skipped) = run(file, adaptive(), &[]);
    assert_eq!(report.ended(), Ended::Eof);
    let expected = BadRange {
        offset: 409_600,
        bytes: 4096,
        errno: Errno::IO,
    };
    assert_eq!(skipped, [expected]);
    let failed = [Call::Splice, Call::Read]
        .iter()
        .flat_map(|call| kernel.results(*call));
    assert_eq!(failed.filter(Result::is_err).count(), 3);
}

#[test]
fn the_map_of_holes_may_be_bad_too() {
    for nth in 0..4 {
        let mut bytes = patterned(600_000);
        bytes[40_960..409_600].fill(0);
        let mut file = File::sparse(&bytes);
        file.bad_blocks = vec![(0..4096, Errno::IO)];
        let mut injections = vec![(Call::SeekExtent, Injection::Normal); nth];
        injections.push((Call::SeekExtent, Injection::Fails(Errno::IO)));
        let (kernel, [source, sink], report, _) = run(file, adaptive(), &injections);
        assert_eq!(report.skipped_bytes(), 4096, "{nth}");
        bytes[..4096].fill(0);
        assert!(kernel.contents(&sink) == bytes, "{nth}");
        assert_eq!(kernel.cursor(&source), 600_000);
    }
}

/// Kernels before 5.10 read the bad last page a second time.
#[test]
fn an_error_at_the_size_is_the_end() {
    let file = bad_file(20_000, 16_384..20_480, Errno::IO);
    let (kernel, [_, sink], report, _) = run(file, adaptive(), &[]);
    assert_eq!((report.bytes(), report.ended()), (20_000, Ended::Eof));
    assert_eq!(report.skipped_bytes(), 20_000 - 16_384);
    assert!(kernel.contents(&sink) == zeroed(20_000, 16_384..20_000));
}

#[test]
fn nothing_is_skipped_beyond_the_limit() {
    for policy in [SkipErrors::Adaptive, block(1 << 20)] {
        let options = Options {
            limit: Some(9000),
            skip_errors: policy,
            ..Options::default()
        };
        let file = bad_file(600_000, 8192..300_000, Errno::IO);
        let (kernel, [source, sink], report, skipped) = run(file, options, &[]);
        assert_eq!((report.bytes(), report.skipped_bytes()), (9000, 808));
        assert_eq!(skipped.iter().map(BadRange::bytes).sum::<u64>(), 808);
        assert_eq!((kernel.cursor(&source), kernel.cursor(&sink)), (9000, 9000));
    }
}

/// `/proc/self/mem` is such a file: its size does not bound the search.
#[test]
fn a_source_that_claims_to_be_empty_is_not_skipped_through() {
    let kernel = SimKernel::default();
    let mut file = bad_file(50_000, 8192..12_288, Errno::IO);
    file.claimed_size = Some(0);
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let error = transfer(&kernel, (&source, &sink), adaptive()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 8192));
}

/// The report and the callback gave an offset that was too small by the bytes that waited for a
/// whole block, and counted those bytes as skipped.
#[test]
fn bytes_that_wait_for_a_block_are_not_reported_as_skipped() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().has_proc = true;
    let file = bad_file(100_000, 8192..12_288, Errno::IO);
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
    kernel.set_cursor(&sink, 100);
    let mut skipped = Vec::new();
    let callbacks =
        Callbacks::skipping(|stretch: &BadRange| skipped.push((stretch.offset(), stretch.bytes())));
    let outcome = transfer_with(&kernel, (&source, &sink), adaptive(), callbacks);
    let report = outcome.unwrap();
    assert_eq!(skipped, [(8192, 4096)]);
    assert_eq!(report.skipped_bytes(), 4096);
}

/// A part of the prefix that waits for a whole block counted as bytes of the source.
#[test]
fn a_prefix_changes_neither_the_offset_nor_the_length_of_a_skipped_range() {
    for flags in [OFlags::empty(), OFlags::DIRECT] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().has_proc = true;
        let file = bad_file(100_000, 0..4096, Errno::IO);
        let source = kernel.source(Object::File(file), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), flags);
        let mut skipped = Vec::new();
        let transfer = Transfer::new(&source, &sink).with_options(adaptive());
        let transfer = transfer.prefix([1; 100]).on_skip(|range| {
            skipped.push((range.offset(), range.bytes()));
        });
        let report = transfer.run_with(&kernel).unwrap();
        assert_eq!(report.skipped_bytes(), 4096, "{flags:?}");
        assert_eq!(skipped, [(0, 4096)], "{flags:?}");
        let expected = [vec![1; 100], zeroed(100_000, 0..4096)].concat();
        assert!(kernel.contents(&sink) == expected, "{flags:?}");
    }
}

/// The reopened file accepts reads that are too small, which hid that the pieces must be larger.
/// Then the kernel refused a probe.
#[test]
fn a_disk_of_large_sectors_is_read_in_such_though_there_is_a_reopened_file() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().has_proc = true;
    let mut file = bad_file(1 << 20, 8192..200_704, Errno::IO);
    file.granularity = 4096;
    let source = kernel.source(Object::File(file), OFlags::DIRECT);
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    let report = transfer(&kernel, (&source, &sink), adaptive()).unwrap();
    assert_eq!(report.bytes(), 1 << 20);
    assert_eq!(report.skipped_bytes(), 200_704 - 8192);
    let n_bad = kernel.results(Call::Read);
    let n_bad = n_bad.iter().filter(|answer| **answer == Err(Errno::IO));
    assert!(n_bad.count() < 30, "each of them takes seconds");
}

/// The zeros of the first pieces wait in the buffer with an unaligned rest, so that a probe after
/// them has no whole block of memory.
#[test]
fn a_bad_block_behind_an_odd_rest_is_skipped_to_the_block() {
    const START: usize = 100;
    for n_bad in [40, 41] {
        let bad = 10 * 4096..(10 + n_bad) * 4096;
        let mut file = bad_file(600_000, bad.clone(), Errno::IO);
        file.is_block_device = true;
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(file), OFlags::DIRECT);
        kernel.set_cursor(&source, START as u64);
        let sink = kernel.sink(Object::file(&[]), OFlags::DIRECT);
        let report = transfer(&kernel, (&source, &sink), adaptive()).unwrap();
        assert_eq!(report.skipped_bytes(), n_bad * 4096);
        let expected = zeroed(600_000, bad.start as usize..bad.end as usize);
        assert!(kernel.contents(&sink) == expected[START..], "{n_bad}");
    }
}

/// The kernel keeps a page that failed to read, with all pages of its folio, until the folio is
/// dropped.
#[test]
fn the_whole_folio_of_a_page_is_dropped_before_that_is_probed() {
    const FOLIO: u64 = 8 << 20;
    let mut file = File::holding(&vec![7; 20 << 20]);
    file.bad_blocks = vec![(FOLIO + 4096..FOLIO + (1 << 20), Errno::IO)];
    let (kernel, ..) = run(file, adaptive(), &[]);
    let dropped = &kernel.state.borrow().dropped;
    let folios: Vec<_> = dropped.iter().map(|(_, from, len)| (*from, *len)).collect();
    assert!(!folios.is_empty());
    assert!(
        folios.iter().all(|folio| *folio == (FOLIO, FOLIO)),
        "{folios:?}"
    );
}
