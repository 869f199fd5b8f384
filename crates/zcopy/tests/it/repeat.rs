//! `Repeat` on the real kernel: every kind of sink, patterns of any length, and errors.

mod errors;
mod limits;
mod readers;

use std::os::fd::AsFd;

use zcopy::{Ended, Repeat, Report, Strategy};

use crate::endpoints::{Sink, SinkKind};
use crate::files::{assert_same, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, is_refused};
use crate::strategies::{STRATEGIES, moved_by};

/// A few slots of a pattern pipe, and not a round number.
const LARGE: u64 = crate::every_pair::LARGE as u64;

/// Lengths that divide a page, a slot and a pipe, and lengths that do not; the last is longer than
/// the limit.
const PATTERNS: [usize; 12] = [
    1,
    2,
    3,
    320,
    4095,
    4096,
    4097,
    (32 << 10) - 1,
    32 << 10,
    (32 << 10) + 1,
    (1 << 20) + 3,
    5 << 20,
];

/// The first `len` bytes of the endless repetition.
fn endless(pattern: &[u8], len: u64) -> Vec<u8> {
    let len = usize::try_from(len).unwrap();
    let mut bytes = pattern.repeat(len.div_ceil(pattern.len()));
    bytes.truncate(len);
    bytes
}

/// Repeats the pattern up to the limit and compares the bytes that arrived.
fn repeat(pattern: &[u8], limit: u64, strategy: Option<Strategy>, sink: Sink) -> Report {
    let what = format!(
        "{} bytes, {limit}, {strategy:?}, {:?}",
        pattern.len(),
        sink.kind
    );
    let repeat = Repeat::new(pattern).limit(limit).maybe_strategy(strategy);
    let report = repeat.run(&sink.fd);
    let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
    assert_eq!((report.bytes(), report.ended()), (limit, Ended::Limit));
    let by_tee_and_by_write =
        [Strategy::Tee, Strategy::Buffered].map(|strategy| moved_by(&report, strategy));
    assert_eq!(by_tee_and_by_write.iter().sum::<u64>(), limit, "{what}");
    if let Some(cursor) = sink.cursor() {
        let head = if sink.kind == SinkKind::Append { 12 } else { 0 };
        assert_eq!(cursor, limit + if limit > 0 { head } else { 0 }, "{what}");
    }
    if let Some(arrived) = sink.into_bytes(limit) {
        assert_same(&arrived, &endless(pattern, limit), &what);
    }
    report
}

/// The most bytes that a test writes to this kind of sink: a terminal is slow.
fn most_bytes_to(kind: SinkKind) -> u64 {
    match kind {
        SinkKind::Terminal => 30_000,
        _ => u64::MAX,
    }
}

#[test]
fn every_sink_gets_exactly_the_beginning_of_every_pattern() {
    for len in PATTERNS {
        let pattern = pattern(len);
        let len = len as u64;
        let limits = [
            0,
            1,
            len - 1,
            len,
            len + 1,
            (64 << 10) - 1,
            64 << 10,
            (64 << 10) + 1,
            (1 << 20) + 1,
            LARGE,
        ];
        for kind in SinkKind::ALL {
            for limit in limits {
                let limit = limit.min(most_bytes_to(kind));
                let Some(sink) = Sink::new(kind) else {
                    continue;
                };
                let report = repeat(&pattern, limit, None, sink);
                let by_tee = moved_by(&report, Strategy::Tee);
                if !kind.is_pipe() || limit <= 256 << 10 || is_refused(Strategy::Tee) {
                    assert_eq!(by_tee, 0, "{kind:?}: {report:#}");
                } else if limit >= 2 * len + (512 << 10) {
                    // The warm-up phase is over, and so is the repetition in which it ended.
                    assert!(by_tee > 0, "{kind:?}: {report:#}");
                }
            }
        }
    }
}

#[test]
fn the_strategy_changes_nothing_else() {
    for len in [1, 3, 320, 4097, (1 << 20) + 3] {
        let pattern = pattern(len);
        for kind in SinkKind::ALL {
            for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
                let takes_no_splice = matches!(kind, SinkKind::Append | SinkKind::Terminal);
                let Some(sink) = Sink::new(kind) else {
                    continue;
                };
                if strategy == Strategy::Tee && takes_no_splice {
                    let error = Repeat::new(&pattern).strategy(strategy).run(&sink.fd);
                    assert!(error.unwrap_err().is_unsuitable(), "{kind:?}");
                    continue;
                }
                let limit = LARGE.min(most_bytes_to(kind));
                let report = repeat(&pattern, limit, Some(strategy), sink);
                assert_eq!(report.strategy(), Some(strategy));
                assert_eq!(
                    moved_by(&report, strategy),
                    limit,
                    "{kind:?}, {len}: {report:#}"
                );
            }
        }
    }
}

#[test]
fn a_pattern_that_no_pipe_holds_is_written() {
    let pattern = pattern((8 << 20) + 1);
    let plan = |sink: &Sink| Repeat::new(&pattern).plan(&sink.fd).unwrap();
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    assert_eq!(plan(&sink).strategy(), Strategy::Buffered);
    let report = repeat(&pattern, (16 << 20) + 100, None, sink);
    assert_eq!(moved_by(&report, Strategy::Tee), 0, "{report:#}");
}

/// If memory is fragmented, the private pipes may have fewer slots than the pattern needs. The
/// pattern is then written, and is just as exact.
#[test]
fn a_pattern_that_nearly_fills_a_pipe_is_repeated_whole() {
    let pattern = pattern((8 << 20) - 5);
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    repeat(&pattern, 30 << 20, None, sink);
}

#[test]
fn a_plan_says_why() {
    for kind in SinkKind::ALL {
        let Some(sink) = Sink::new(kind) else {
            continue;
        };
        let plan = Repeat::new("y\n").plan(&sink.fd).unwrap();
        let expected = if kind.is_pipe() {
            Strategy::Tee
        } else {
            Strategy::Buffered
        };
        assert_eq!(plan.strategy(), expected, "{kind:?}\n{plan}");
        assert!(!plan.shares_pages());
        let lines: Vec<_> = plan
            .candidates()
            .iter()
            .map(zcopy::Candidate::strategy)
            .collect();
        // `STRATEGIES` lacks `Tee`, which serves no transfer to one sink.
        let n_strategies = STRATEGIES.len() + 1;
        assert_eq!(
            lines.len(),
            n_strategies,
            "every strategy has its line: {plan}"
        );
        let short = Repeat::new("y\n").limit(1000).plan(&sink.fd).unwrap();
        assert_eq!(short.strategy(), Strategy::Buffered);
    }
}

/// Whether `query` has the same result before and after a repetition into this descriptor.
fn is_unchanged(sink: &impl AsFd, query: impl Fn(std::os::fd::BorrowedFd<'_>) -> u64) -> bool {
    let before = query(sink.as_fd());
    let report = Repeat::new("y\n").limit(400_000).run(sink).unwrap();
    assert_eq!(report.bytes(), 400_000);
    query(sink.as_fd()) == before
}

#[test]
fn nothing_changes_on_the_caller_s_descriptor_but_the_size_of_a_pipe() {
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    let flags =
        |fd: std::os::fd::BorrowedFd<'_>| u64::from(rustix::fs::fcntl_getfl(fd).unwrap().bits());
    assert!(is_unchanged(&sink.fd, flags));
    let capacity =
        |fd: std::os::fd::BorrowedFd<'_>| rustix::pipe::fcntl_getpipe_size(fd).unwrap() as u64;
    assert_eq!(capacity(sink.fd.as_fd()), 1 << 20);
    assert!(is_unchanged(&sink.fd, capacity));
}
