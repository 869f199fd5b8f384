//! Short tees, and sinks, pipes and calls that are refused: only the sink concerned changes its
//! strategy.

use std::os::fd::OwnedFd;

use super::faults::{LONG, appending, by_the_plan, file, options, pipe, source};
use crate::options::{OnSinkError, Options};
use crate::report::Report;
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::interference::{Action, Interference, Target};
use crate::sim::objects::{Object, patterned};
use crate::sim::run::fan_out;
use crate::sim::script::{Call, Injection};
use crate::strategy::Strategy;
use crate::sys::{Errno, OFlags};

#[track_caller]
fn assert_all_have_all(kernel: &SimKernel, sinks: &[OwnedFd], what: &str) {
    for (index, sink) in sinks.iter().enumerate() {
        assert!(
            kernel.contents(sink) == patterned(LONG),
            "sink {index}: {what}"
        );
    }
}

fn ways(report: &Report) -> Vec<Strategy> {
    report
        .sinks()
        .iter()
        .map(|sink| sink.strategy().unwrap())
        .collect()
}

#[test]
fn a_short_tee_on_one_of_three_sinks_duplicates_nothing() {
    for is_stream in [false, true] {
        for nth in 0..9 {
            for n in [1, 4095, 50_000] {
                let kernel = SimKernel::default();
                let source = source(&kernel, is_stream);
                let sinks = [pipe(&kernel), pipe(&kernel), file(&kernel)];
                kernel.inject(Call::Tee, &vec![Injection::Normal; nth]);
                kernel.inject(Call::Tee, &[Injection::Short(n)]);
                let report = by_the_plan(&kernel, &source, &sinks);
                assert_eq!(report.bytes(), LONG as u64);
                // The first tee of each round of a pipe looks for packets, and has to see all
                // bytes.
                let expected = if !is_stream && nth % 3 == 0 {
                    [Strategy::Buffered; 3]
                } else {
                    [Strategy::Tee, Strategy::Tee, Strategy::Splice]
                };
                assert_eq!(ways(&report), expected, "{is_stream}, {nth}, {n}");
                assert_all_have_all(&kernel, &sinks, &format!("{is_stream}, {nth}, {n}"));
            }
        }
    }
}

#[test]
fn a_tee_that_is_always_short_is_slow_and_exact() {
    let kernel = SimKernel::default();
    let source = source(&kernel, false);
    let sinks = [pipe(&kernel), file(&kernel), pipe(&kernel), file(&kernel)];
    let shorts: Vec<_> = (0..3000)
        .map(|n| Injection::Short(1 + n * 7 % 999))
        .collect();
    kernel.inject(Call::Tee, &shorts);
    by_the_plan(&kernel, &source, &sinks);
    assert_all_have_all(&kernel, &sinks, "short");
}

/// Another process has filled the sink in the midst of the call.
#[test]
fn a_tee_that_finds_no_room_any_more_loses_no_byte() {
    for is_stream in [false, true] {
        for nth in 0..9 {
            let kernel = SimKernel::default();
            let source = source(&kernel, is_stream);
            let sinks = [pipe(&kernel), pipe(&kernel), file(&kernel)];
            kernel.inject(Call::Tee, &vec![Injection::Normal; nth]);
            kernel.inject(Call::Tee, &[Injection::ReturnsZero; 2]);
            let report = by_the_plan(&kernel, &source, &sinks);
            assert_eq!(report.bytes(), LONG as u64);
            assert_all_have_all(&kernel, &sinks, &format!("{is_stream}, {nth}"));
        }
    }
}

/// Bytes that it has already removed from the backlog stay removed.
#[test]
fn the_sink_that_takes_the_bytes_out_may_refuse_in_the_middle() {
    for is_stream in [false, true] {
        for errno in [Errno::INVAL, Errno::PERM, Errno::NOSYS, Errno::BADF] {
            for nth in 0..4 {
                let kernel = SimKernel::default();
                let source = source(&kernel, is_stream);
                let sinks = [pipe(&kernel), file(&kernel)];
                // Every other splice fills the private pipe of the backlog.
                kernel.inject(Call::Splice, &[Injection::Short(20_000)]);
                kernel.inject(Call::Splice, &vec![Injection::Normal; 2 * nth]);
                kernel.inject(Call::Splice, &[Injection::Fails(errno)]);
                let report = by_the_plan(&kernel, &source, &sinks);
                let what = format!("{is_stream}, {errno}, {nth}\n{report:#}");
                let expected = match (is_stream, nth) {
                    (true, _) | (false, 0..=2) => [Strategy::Tee, Strategy::Buffered],
                    // This splice drains the own pipe of the only reader.
                    (false, _) => [Strategy::Buffered, Strategy::Splice],
                };
                assert_eq!(ways(&report), expected, "{what}");
                assert_all_have_all(&kernel, &sinks, &what);
            }
        }
    }
}

#[test]
fn a_sink_that_refuses_what_lies_in_its_private_pipe_is_written_to_and_alone() {
    // The first splice fills the private pipe of the backlog.
    for nth in 1..3 {
        let kernel = SimKernel::default();
        let source = source(&kernel, false);
        let sinks = [file(&kernel), pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Splice, &vec![Injection::Short(20_000); nth]);
        kernel.inject(Call::Splice, &[Injection::Fails(Errno::INVAL)]);
        let report = by_the_plan(&kernel, &source, &sinks);
        let what = format!("{nth}\n{report:#}");
        let written_to = ways(&report);
        let written_to = written_to.iter().filter(|way| **way == Strategy::Buffered);
        assert_eq!(written_to.count(), 1, "{what}");
        assert_all_have_all(&kernel, &sinks, &what);
    }
}

/// A seccomp filter without `tee` does this.
#[test]
fn where_tee_is_forbidden_every_sink_is_written_to() {
    for is_stream in [false, true] {
        for errno in [Errno::PERM, Errno::NOSYS] {
            let kernel = SimKernel::default();
            let source = source(&kernel, is_stream);
            let sinks = [pipe(&kernel), file(&kernel), pipe(&kernel)];
            kernel.inject(Call::Tee, &[Injection::Fails(errno); 100]);
            let report = by_the_plan(&kernel, &source, &sinks);
            let what = format!("{is_stream}, {errno}\n{report:#}");
            assert_all_have_all(&kernel, &sinks, &what);
            assert!(kernel.results(Call::Tee).len() <= sinks.len(), "{what}");
            assert_eq!(ways(&report), [Strategy::Buffered; 3], "{what}");
            assert_eq!(report.strategy(), Some(Strategy::Buffered), "{what}");
            let reported = report.attempts()[0]
                .error()
                .and_then(|error| error.raw_os_error());
            assert_eq!(reported, Some(errno.raw_os_error()), "{what}");
        }
    }
}

#[test]
fn a_sink_without_a_private_pipe_is_written_to_and_the_others_are_not() {
    for errno in [Errno::MFILE, Errno::NFILE] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false);
        let sinks = [pipe(&kernel), file(&kernel), file(&kernel)];
        // The pipe of the backlog and the one that finds packets are opened first.
        kernel.inject(Call::Pipe, &[Injection::Normal; 2]);
        kernel.inject(Call::Pipe, &[Injection::Fails(errno)]);
        let report = by_the_plan(&kernel, &source, &sinks);
        assert_all_have_all(&kernel, &sinks, &format!("{report:#}"));
        assert_eq!(ways(&report)[0], Strategy::Tee, "{report:#}");
        assert_eq!(ways(&report)[1], Strategy::Buffered, "{report:#}");
        assert_eq!(report.strategy(), Some(Strategy::Tee));
    }
}

/// The pipe of the backlog is opened first, the one that finds packets second, and that of the only
/// reader third.
#[test]
fn a_lone_reader_without_a_pipe_of_its_own_is_tee_d_into() {
    use Strategy::{Buffered, Splice, SplicePipe, Tee};
    for (nth, expected) in [
        // Bytes are not shared from the source itself, from which other processes may remove bytes.
        (0, [Buffered, Buffered]),
        (1, [Buffered, Buffered]),
        (2, [Tee, Splice]),
        (3, [SplicePipe, Splice]),
    ] {
        let kernel = SimKernel::default();
        let source = source(&kernel, false);
        let sinks = [pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Pipe, &vec![Injection::Normal; nth]);
        kernel.inject(Call::Pipe, &[Injection::Fails(Errno::MFILE)]);
        let report = by_the_plan(&kernel, &source, &sinks);
        assert_all_have_all(&kernel, &sinks, &format!("{report:#}"));
        assert_eq!(ways(&report), expected, "{nth}: {report:#}");
    }
}

#[test]
fn without_a_pipe_for_the_backlog_all_are_written_to() {
    for (capacity, injection) in [
        (64 << 10, Injection::Fails(Errno::MFILE)),
        (4096, Injection::Normal),
    ] {
        let kernel = SimKernel::default();
        kernel.state.borrow_mut().pipe_capacity = capacity;
        kernel.state.borrow_mut().pipe_max = 4096;
        let source = source(&kernel, true);
        let sinks = [pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Pipe, &[injection]);
        let report = by_the_plan(&kernel, &source, &sinks);
        assert_all_have_all(&kernel, &sinks, &format!("{report:#}"));
        assert_eq!(ways(&report), [Strategy::Buffered; 2]);
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        let tried = &report.attempts()[0];
        assert_eq!(tried.strategy(), Strategy::Tee);
        assert!(tried.error().is_some(), "{report:#}");
    }
}

#[test]
fn a_requested_tee_that_the_kernel_refuses_is_unsuitable_and_loses_nothing() {
    for is_stream in [false, true] {
        for nth in [0, 1, 5] {
            let kernel = SimKernel::default();
            let source = source(&kernel, is_stream);
            let sinks = [pipe(&kernel), pipe(&kernel), appending(&kernel)];
            kernel.inject(Call::Tee, &vec![Injection::Normal; nth]);
            kernel.inject(Call::Tee, &[Injection::Fails(Errno::NOSYS)]);
            let options = Options {
                strategy: Some(Strategy::Tee),
                ..options()
            };
            let error =
                fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap_err();
            assert!(error.is_unsuitable(), "{error:#}");
            let n = error.bytes() as usize;
            let rest = [error.undelivered(), &kernel.contents(&source)].concat();
            assert!(rest == patterned(LONG)[n..], "{is_stream}, {nth}");
        }
    }
}

/// The other sinks have no position, and may be pipes.
#[test]
fn an_offset_of_the_first_sink_is_not_asked_of_the_others() {
    let kernel = SimKernel::default();
    let source = source(&kernel, false);
    let sinks = [file(&kernel), pipe(&kernel), appending(&kernel)];
    let options = Options {
        sink_offset: Some(5),
        ..options()
    };
    fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop).unwrap();
    assert!(kernel.contents(&sinks[0]) == [&[0; 5], &patterned(LONG)[..]].concat());
    assert!(kernel.contents(&sinks[1]) == patterned(LONG));
    assert!(kernel.contents(&sinks[2]) == patterned(LONG));
}

/// Files in `/proc` report a size of 0.
#[test]
fn a_splice_that_ends_before_the_source_gives_way_to_reads_unless_tee_was_asked_for() {
    for strategy in [None, Some(Strategy::Tee)] {
        for n_before in 0..3 {
            let kernel = SimKernel::default();
            let source = Object::file(&patterned(LONG));
            let source = kernel.source(source, OFlags::empty());
            let sinks = [pipe(&kernel), file(&kernel)];
            // Every other splice fills the private pipe of the backlog.
            kernel.inject(Call::Splice, &vec![Injection::Normal; 2 * n_before]);
            kernel.inject(Call::Splice, &[Injection::ReturnsZero]);
            let options = Options {
                strategy,
                ..options()
            };
            let result = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop);
            let what = format!("{strategy:?}, {n_before}");
            if strategy.is_none() {
                result.expect(&what);
                assert_all_have_all(&kernel, &sinks, &what);
            } else {
                let error = result.expect_err(&what);
                assert!(error.is_unsuitable(), "{what}: {error:#}");
            }
        }
    }
}

/// A driver may return any errno.
#[test]
fn a_source_whose_first_splice_fails_is_read_unless_the_errno_is_final() {
    for (errno, is_final) in [(Errno::NXIO, false), (Errno::IO, true)] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sinks = [pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Splice, &[Injection::Fails(errno)]);
        let result = fan_out(&kernel, (&source, &sinks), options(), OnSinkError::Stop);
        if is_final {
            let error = result.unwrap_err();
            assert_eq!((error.side(), error.call()), (Side::Source, Some("splice")));
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
            assert_eq!(kernel.cursor(&source), 0);
        } else {
            let report = result.unwrap();
            assert_eq!(report.strategy(), Some(Strategy::Buffered), "{report:#}");
            assert_all_have_all(&kernel, &sinks, &format!("{report:#}"));
        }
    }
}

/// A splice reported the end too early, a read found more bytes, and the transfer failed, because
/// tee was requested. Another process had moved the cursor, which could not be moved back: the
/// bytes were lost.
#[test]
fn what_a_read_finds_behind_a_false_end_is_handed_back() {
    const LIMIT: usize = 5000;
    for theirs in [0, 1] {
        let kernel = SimKernel::default();
        let source = kernel.source(Object::file(&patterned(LONG)), OFlags::empty());
        let sinks = [pipe(&kernel), file(&kernel)];
        kernel.inject(Call::Splice, &[Injection::ReturnsZero]);
        if theirs > 0 {
            let reads = Action::Read(theirs);
            kernel.schedule(Interference::before(
                Call::Splice,
                0,
                Target::Source(0),
                reads,
            ));
        }
        let options = Options {
            strategy: Some(Strategy::Tee),
            limit: Some(LIMIT as u64),
            ..options()
        };
        let result = fan_out(&kernel, (&source, &sinks), options, OnSinkError::Stop);
        let error = result.unwrap_err();
        assert!(error.is_unsuitable(), "{error:#}");
        let n_back = if theirs > 0 { LIMIT } else { 0 };
        assert!(error.report().undelivered() == &patterned(n_back)[..]);
        assert_eq!(kernel.cursor(&source), (n_back + theirs) as u64);
    }
}
