//! The reaction to each errno of each strategy's table.

use std::os::fd::OwnedFd;

use crate::options::Options;
use crate::report::Ended;
use crate::side::Side;
use crate::sim::kernel::SimKernel;
use crate::sim::objects::{BLOCK, FUSE, File, Object, patterned};
use crate::sim::run::{attempts, transfer};
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

/// A length that is too long for read and write alone, and too short for a private pipe to come
/// first.
const SHORT: usize = 200_000;
/// A length for which the private pipe comes first.
const LONG: usize = 600_000;

/// Returns a kernel with two files on one ext4, of which the second is empty.
fn two_files(len: usize) -> (SimKernel, OwnedFd, OwnedFd) {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(len)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    (kernel, source, sink)
}

/// Returns options with which the plan puts this strategy first for its pair.
fn wanting(strategy: Strategy) -> Options {
    Options {
        // At a cursor the strategy would have to reserve a range.
        sink_offset: (strategy == Strategy::CopyFileRange).then_some(0),
        ..Options::default()
    }
}

/// For every strategy: its call, and a pair for which the plan puts it first.
fn pairs() -> [(Strategy, Call, usize, Object); 4] {
    [
        (
            Strategy::CopyFileRange,
            Call::CopyFileRange,
            SHORT,
            Object::file(&[]),
        ),
        (Strategy::SplicePipe, Call::Splice, LONG, Object::file(&[])),
        (
            Strategy::Splice,
            Call::Splice,
            SHORT,
            Object::read_by_peer(false),
        ),
        (
            Strategy::Sendfile,
            Call::Sendfile,
            LONG,
            Object::read_by_peer(true),
        ),
    ]
}

#[test]
fn before_the_first_byte_a_refusal_means_the_next_strategy() {
    for nth in 0..8 {
        for (strategy, call, len, sink) in pairs() {
            let (kernel, source, _) = two_files(len);
            let sink = kernel.sink(sink, OFlags::empty());
            kernel.inject(call, &[Injection::Refused(nth)]);
            let report = transfer(&kernel, (&source, &sink), wanting(strategy)).unwrap();
            let errno = call.refusal(nth);
            assert_eq!(attempts(&report)[0], (strategy, 0, errno));
            assert_ne!(report.strategy(), Some(strategy));
            assert_eq!(report.ended(), Ended::Eof);
            assert!(
                kernel.contents(&sink) == patterned(len),
                "{strategy} {errno:?}"
            );
        }
    }
}

#[test]
fn before_the_first_byte_copy_file_range_may_fail_as_it_likes() {
    for errno in [Errno::IO, Errno::NOENT, Errno::ACCESS, Errno::TXTBSY] {
        let (kernel, source, sink) = two_files(SHORT);
        kernel.inject(Call::CopyFileRange, &[Injection::Fails(errno)]);
        let report = transfer(&kernel, (&source, &sink), wanting(Strategy::CopyFileRange)).unwrap();
        assert_eq!(
            attempts(&report)[0],
            (Strategy::CopyFileRange, 0, Some(errno))
        );
        assert!(kernel.contents(&sink) == patterned(SHORT), "{errno:?}");
    }
}

/// A skipped hole does not count as bytes that the call moved.
#[test]
fn behind_a_leading_hole_too_copy_file_range_may_fail_as_it_likes() {
    let mut bytes = patterned(SHORT);
    bytes[..BLOCK].fill(0);
    for errno in [Errno::IO, Errno::ACCESS, Errno::TXTBSY] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        kernel.inject(Call::CopyFileRange, &[Injection::Fails(errno)]);
        let report = transfer(&kernel, (&source, &sink), wanting(Strategy::CopyFileRange)).unwrap();
        let hole = BLOCK as u64;
        assert_eq!(report.hole_bytes(), hole);
        assert_eq!(
            attempts(&report)[0],
            (Strategy::CopyFileRange, hole, Some(errno))
        );
        assert!(kernel.contents(&sink) == bytes, "{errno:?}");
    }
}

/// A requested strategy that has moved nothing is refused for the pair, as the kernel refused its
/// call.
#[test]
fn behind_a_leading_hole_a_refusal_is_not_taken_for_a_limit_of_the_sink() {
    let mut bytes = patterned(SHORT);
    bytes[..BLOCK].fill(0);
    let kernel = SimKernel::default();
    let source = kernel.source(Object::File(File::sparse(&bytes)), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(Call::CopyFileRange, &[Injection::Fails(Errno::PERM)]);
    let options = Options {
        strategy: Some(Strategy::CopyFileRange),
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert!(error.is_unsuitable(), "{error:#}");
}

#[test]
fn after_progress_a_refusal_continues_in_place_with_the_next_strategy() {
    for nth in 0..8 {
        for (strategy, call, len, sink) in pairs() {
            let (kernel, source, _) = two_files(len);
            let sink = kernel.sink(sink, OFlags::empty());
            let moved = match strategy {
                // The calls fill and drain the private pipe; the rest of its bytes remain to be
                // drained.
                Strategy::SplicePipe => vec![Injection::Short(5000), Injection::Short(3000)],
                _ => vec![Injection::Short(3000)],
            };
            kernel.inject(call, &moved);
            kernel.inject(call, &[Injection::Refused(nth)]);
            let report = transfer(&kernel, (&source, &sink), wanting(strategy)).unwrap();
            let attempts = attempts(&report);
            assert_eq!(attempts[0], (strategy, 3000, call.refusal(nth)));
            let total: u64 = attempts.iter().map(|(_, bytes, _)| bytes).sum();
            assert_eq!(total, len as u64, "nothing is moved twice");
            assert!(kernel.contents(&sink) == patterned(len), "{strategy}");
            assert_eq!(kernel.cursor(&source), len as u64);
        }
    }
}

#[test]
fn after_progress_any_other_errno_is_final() {
    for (strategy, call, len, sink) in pairs() {
        let (kernel, source, _) = two_files(len);
        let sink = kernel.sink(sink, OFlags::empty());
        let moved = match strategy {
            Strategy::SplicePipe => vec![Injection::Short(3000), Injection::Normal],
            _ => vec![Injection::Short(3000)],
        };
        kernel.inject(call, &moved);
        kernel.inject(call, &[Injection::Fails(Errno::IO)]);
        let error = transfer(&kernel, (&source, &sink), wanting(strategy)).unwrap_err();
        assert_eq!(
            attempts(error.report()),
            [(strategy, 3000, Some(Errno::IO))]
        );
        assert_eq!(error.bytes(), 3000);
        assert_eq!(kernel.cursor(&source), 3000);
    }
}

#[test]
fn no_space_is_never_retried_away() {
    for room in [0, 10_000] {
        for (strategy, len) in [
            (Strategy::CopyFileRange, SHORT),
            (Strategy::SplicePipe, LONG),
        ] {
            for errno in [Errno::NOSPC, Errno::DQUOT] {
                let (kernel, source, _) = two_files(len);
                let mut file = File::holding(&[]);
                file.bad = Some((room, errno));
                let sink = kernel.sink(Object::File(file), OFlags::empty());
                let error = transfer(&kernel, (&source, &sink), wanting(strategy)).unwrap_err();
                assert_eq!(attempts(error.report()), [(strategy, room, Some(errno))]);
                assert_eq!((error.side(), error.bytes()), (Side::Sink, room));
                assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
                assert_eq!(kernel.cursor(&source), room);
                assert!(kernel.contents(&sink) == patterned(room as usize));
            }
        }
    }
}

#[test]
fn a_source_that_fails_is_named_though_the_call_has_two_ends() {
    for errno in [Errno::IO, Errno::TIMEDOUT] {
        for (strategy, _, len, sink) in pairs() {
            let (kernel, ..) = two_files(0);
            let mut file = File::holding(&patterned(len));
            file.bad = Some((10_000, errno));
            let source = kernel.source(Object::File(file), OFlags::empty());
            let sink = kernel.sink(sink, OFlags::empty());
            let error = transfer(&kernel, (&source, &sink), wanting(strategy)).unwrap_err();
            assert_eq!(
                (error.side(), error.bytes()),
                (Side::Source, 10_000),
                "{strategy} {errno}"
            );
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    }
}

/// The sink was sealed, and the source has a bad block behind the bytes in the private pipe. The
/// error named the source.
#[test]
fn an_error_of_the_sink_is_not_taken_for_one_of_a_source_that_fails_otherwise() {
    let (kernel, ..) = two_files(0);
    let mut file = File::holding(&patterned(LONG));
    file.bad = Some((100_000, Errno::IO));
    let source = kernel.source(Object::File(file), OFlags::empty());
    let mut file = File::holding(&[]);
    file.bad = Some((1, Errno::PERM));
    let sink = kernel.sink(Object::File(file), OFlags::empty());
    let options = Options {
        strategy: Some(Strategy::SplicePipe),
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 1));
    assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
}

/// A socket returns its error once and then its end, which another strategy would have taken for
/// the end of the source.
#[test]
fn a_sockets_first_error_is_not_taken_for_its_end() {
    for after in [0, 10_000, 300_000] {
        let kernel = SimKernel::default();
        let mut source = Object::written_by_peer(true, &patterned(LONG), &[]);
        if let Object::Channel(channel) = &mut source {
            channel.fails_after = Some((after, Errno::TIMEDOUT));
        }
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::file(&[]), OFlags::empty());
        let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
        assert_eq!((error.side(), error.bytes()), (Side::Source, after));
        assert_eq!(error.raw_os_error(), Some(Errno::TIMEDOUT.raw_os_error()));
    }
}

#[test]
fn residue_in_the_private_pipe_is_drained_by_read_and_write_when_the_sink_refuses_splice() {
    for refusal in [Injection::Refused(0), Injection::ReturnsZero] {
        let (kernel, source, sink) = two_files(LONG);
        kernel.inject(
            Call::Splice,
            &[Injection::Short(50_000), Injection::Short(20_000), refusal],
        );
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        let attempts = attempts(&report);
        assert_eq!(
            (attempts[0].0, attempts[0].1),
            (Strategy::SplicePipe, 20_000)
        );
        // A read of a file never has the length 30,000 of the rest in the pipe.
        let reads = kernel.results(Call::Read);
        assert_eq!(reads[0], Ok(30_000));
        assert!(kernel.contents(&sink) == patterned(LONG));
    }
}

#[test]
fn residue_is_rewound_over_when_the_sink_is_fatal() {
    let (kernel, source, _) = two_files(LONG);
    let mut file = File::holding(&[]);
    file.bad = Some((20_000, Errno::NOSPC));
    let sink = kernel.sink(Object::File(file), OFlags::empty());
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    assert_eq!((error.bytes(), error.undelivered().len()), (20_000, 0));
    assert_eq!(kernel.cursor(&source), 20_000);
}

#[test]
fn residue_of_a_stream_is_handed_back_through_any_number_of_signals() {
    let kernel = SimKernel::default();
    let source = kernel.source(
        Object::written_by_peer(true, &patterned(LONG), &[]),
        OFlags::empty(),
    );
    let mut file = File::holding(&[]);
    file.bad = Some((400_000, Errno::NOSPC));
    let sink = kernel.sink(Object::File(file), OFlags::empty());
    // The reads of the source come first, then those of the private pipe.
    kernel.inject(Call::Read, &[Injection::Normal; 3]);
    kernel.inject(Call::Read, &[Injection::Interrupted; 20]);
    kernel.inject(Call::Read, &[Injection::Short(1); 20]);
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    let (n, back) = (error.bytes() as usize, error.undelivered());
    let data = patterned(LONG);
    assert_eq!((error.side(), n), (Side::Sink, 400_000));
    assert!(!back.is_empty() && back == &data[n..n + back.len()]);
    assert!(kernel.contents(&source) == data[n + back.len()..]);
}

#[test]
fn without_descriptors_for_a_private_pipe_another_strategy_takes_over() {
    for (injection, errno) in [
        (Injection::Fails(Errno::MFILE), Errno::MFILE),
        (Injection::Fails(Errno::NFILE), Errno::NFILE),
    ] {
        let (kernel, source, sink) = two_files(LONG);
        kernel.inject(Call::Pipe, &[injection]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(attempts(&report)[0], (Strategy::SplicePipe, 0, Some(errno)));
        assert!(kernel.contents(&sink) == patterned(LONG));
    }
}

#[test]
fn a_private_pipe_of_one_page_is_not_used() {
    let (kernel, source, sink) = two_files(LONG);
    kernel.state.borrow_mut().pipe_capacity = 4096;
    kernel.state.borrow_mut().pipe_max = 4096;
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    assert_eq!(
        attempts(&report)[0],
        (Strategy::SplicePipe, 0, Some(Errno::NOBUFS))
    );
    assert!(kernel.results(Call::Splice).is_empty());
    assert!(kernel.contents(&sink) == patterned(LONG));
}

#[test]
fn a_first_0_is_confirmed_by_a_read() {
    for (strategy, call, len, sink) in pairs() {
        let (kernel, source, _) = two_files(len);
        let sink = kernel.sink(sink, OFlags::empty());
        kernel.inject(call, &[Injection::ReturnsZero]);
        let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        assert!(kernel.contents(&sink) == patterned(len), "{strategy}");
    }
}

#[test]
fn a_strategy_that_was_asked_for_and_stops_early_is_an_error_not_an_end() {
    for signals in [0, 3] {
        for (strategy, call, len, sink) in pairs() {
            let (kernel, source, _) = two_files(len);
            let sink = kernel.sink(sink, OFlags::empty());
            kernel.inject(call, &[Injection::ReturnsZero]);
            kernel.inject(Call::Read, &vec![Injection::Interrupted; signals]);
            let options = Options {
                strategy: Some(strategy),
                ..Options::default()
            };
            let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
            assert!(error.is_unsuitable(), "{strategy}, {signals} signals");
        }
    }
}

/// Attempts are listed in the order of their first steps, so that the last one need not be the one
/// that reached the end.
#[test]
fn a_strategy_that_was_refused_is_not_said_to_have_found_the_end() {
    let kernel = SimKernel::default();
    let source = Object::written_by_peer(true, &patterned(LONG), &[]);
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(Call::Splice, &[Injection::Refused(0)]);
    let report = transfer(&kernel, (&source, &sink), Options::default()).unwrap();
    let attempts = attempts(&report);
    assert_eq!(attempts[0], (Strategy::Buffered, LONG as u64, None));
    assert_eq!((attempts[1].0, attempts[1].1), (Strategy::SplicePipe, 0));
    let text = format!("{report:#}");
    assert!(!text.contains("found the end"), "{text}");
}

/// A splice from a pipe returns 0 at the pipe's end, and also if its destination accepted nothing.
#[test]
fn a_sink_that_takes_nothing_is_not_taken_for_the_end_of_a_pipe() {
    for strategy in [None, Some(Strategy::Splice)] {
        let kernel = SimKernel::default();
        let source = Object::written_by_peer(false, &patterned(SHORT), &[]);
        let source = kernel.source(source, OFlags::empty());
        let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
        // The pipe holds bytes by then.
        kernel.inject(
            Call::Splice,
            &[Injection::Short(10), Injection::ReturnsZero],
        );
        let options = Options {
            strategy,
            ..Options::default()
        };
        match transfer(&kernel, (&source, &sink), options) {
            Ok(report) => assert_eq!(report.bytes(), SHORT as u64, "{strategy:?}"),
            Err(error) => assert!(error.is_unsuitable() && strategy.is_some(), "{error:#}"),
        }
    }
}

/// The bad block can be read when the engine looks again.
#[test]
fn a_failed_sendfile_is_the_sources_if_the_sink_takes_everything() {
    let kernel = SimKernel::default();
    let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
    let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
    kernel.inject(Call::Sendfile, &[Injection::Fails(Errno::IO)]);
    let options = Options {
        strategy: Some(Strategy::Sendfile),
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
}

/// Before Linux 6.5 sendfile(2) passes none of the bytes before a bad block on, if one request to a
/// FUSE server covers both.
#[test]
fn a_failed_sendfile_is_the_sources_if_a_byte_further_on_cannot_be_read() {
    for (bad, side) in [(100_000, Side::Source), (140_000, Side::Sink)] {
        let mut file = File::holding(&patterned(LONG));
        file.bad_blocks = vec![(bad..bad + 1, Errno::IO)];
        file.fails_whole = true;
        file.magic = FUSE;
        let kernel = SimKernel::default();
        let source = kernel.source(Object::File(file), OFlags::empty());
        let sink = kernel.sink(Object::read_by_peer(true), OFlags::empty());
        kernel.inject(Call::Sendfile, &[Injection::Fails(Errno::IO)]);
        let options = Options {
            strategy: Some(Strategy::Sendfile),
            ..Options::default()
        };
        let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
        assert_eq!((error.side(), error.bytes()), (side, 0), "{bad}");
    }
}

#[test]
fn a_write_that_takes_nothing_is_an_error() {
    let (kernel, source, sink) = two_files(1000);
    kernel.inject(Call::Write, &[Injection::ReturnsZero]);
    let error = transfer(&kernel, (&source, &sink), Options::default()).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WriteZero);
    assert_eq!(kernel.cursor(&source), 0);
}

/// `ENODATA` from a bad sector, returned by the read that distinguishes the end of a source from
/// its failure.
#[test]
fn a_source_that_cannot_be_read_has_not_ended() {
    let mut file = File::holding(&patterned(SHORT));
    file.bad = Some((100, Errno::NODATA));
    let kernel = SimKernel::default();
    let source = kernel.source(Object::File(file), OFlags::empty());
    let sink = kernel.sink(Object::file(&[]), OFlags::empty());
    kernel.inject(
        Call::CopyFileRange,
        &[Injection::Normal, Injection::ReturnsZero],
    );
    let options = Options {
        strategy: Some(Strategy::CopyFileRange),
        ..Options::default()
    };
    let error = transfer(&kernel, (&source, &sink), options).unwrap_err();
    assert_eq!(error.bytes(), 100);
    assert_eq!(error.side(), Side::Source);
}
