//! Tests of the text of a report.

use std::time::Duration;

use super::{Attempt, Ended, PageSharing, Report, SinkReport};
use crate::call_error::Cause;
use crate::strategy::Strategy;
use crate::sys::Errno;

fn attempt(strategy: Strategy, bytes: u64, calls: u64) -> Attempt {
    Attempt {
        bytes,
        calls,
        ..Attempt::new(strategy)
    }
}

/// A report of 5 bytes that one write moved.
fn plain() -> Report {
    Report {
        ended: Ended::Limit,
        ..Report::of(attempt(Strategy::Buffered, 5, 2))
    }
}

const PLAIN: &str = "5 bytes by buffered, up to the limit\n  \
                     buffered                     5 bytes in 2 calls";

#[test]
fn a_report_prints_one_line_unless_the_whole_is_asked_for() {
    let sink = SinkReport {
        is_detached: false,
        index: 1,
        bytes: 1,
        ahead: 0,
        strategy: Some(Strategy::Tee),
        cause: None,
    };
    let report = Report {
        elapsed: Duration::from_micros(1260),
        records: 1,
        hole_bytes: 1,
        skipped_bytes: 1,
        sinks: vec![sink],
        undelivered: b"x".to_vec().into(),
        ..plain()
    };
    assert_eq!(
        report.to_string(),
        "5 bytes by buffered in 1.3ms, up to the limit"
    );
    assert_eq!(format!("{report:#}").lines().count(), 7);

    let refused = Report::of_nothing(Ended::Failed, None);
    assert_eq!(refused.to_string(), "0 bytes, until it failed");
    let nothing = Report::of_nothing(Ended::Limit, Some(Strategy::Splice));
    assert_eq!(
        nothing.to_string(),
        "0 bytes, up to the limit",
        "none was tried"
    );
}

#[test]
fn a_report_prints_no_line_for_what_did_not_happen() {
    assert_eq!(format!("{:#}", plain()), PLAIN);
}

#[test]
fn a_report_prints_a_line_for_a_single_record_hole_skip_or_undelivered_byte() {
    let sink = SinkReport {
        is_detached: false,
        index: 1,
        bytes: 1,
        ahead: 0,
        strategy: Some(Strategy::Tee),
        cause: Some(Cause::Errno(Errno::PIPE)),
    };
    let records = Report {
        records: 1,
        ..plain()
    };
    let hole = Report {
        hole_bytes: 1,
        ..plain()
    };
    let skipped = Report {
        skipped_bytes: 1,
        ..plain()
    };
    let undelivered = |bytes: &[u8]| Report {
        undelivered: bytes.to_vec().into(),
        ..plain()
    };
    let grown = Report {
        grown_source: Some(1),
        grown_sink: Some(2),
        ..plain()
    };
    let shared = Report {
        shared_pages: PageSharing::OfFile,
        ..plain()
    };
    let sinks = Report {
        sinks: vec![sink],
        ..plain()
    };
    for (report, line) in [
        (records, "records: 1"),
        (hole, "holes: 1 byte not written"),
        (
            skipped,
            "skipped: 1 byte could not be read, replaced by zeros",
        ),
        (
            undelivered(b"x"),
            "undelivered: 1 byte did not reach the sink",
        ),
        (
            undelivered(b"xy"),
            "undelivered: 2 bytes did not reach the sink",
        ),
        (
            grown,
            "pipe: the source was enlarged to 1 bytes\npipe: the sink was enlarged to 2 bytes",
        ),
        (
            shared,
            "pages: shared with the source file until the sink's reader has read them",
        ),
        (
            sinks,
            "sink 2: 1 byte by tee, ended by: Broken pipe (os error 32)",
        ),
    ] {
        assert_eq!(format!("{report:#}"), format!("{PLAIN}\n{line}"));
    }
}

/// If the last strategy moved bytes or failed, these explain why it was tried.
#[test]
fn only_a_last_attempt_without_bytes_or_error_found_the_end() {
    let moved = attempt(Strategy::Splice, 5, 1);
    let nothing = attempt(Strategy::Buffered, 0, 1);
    let refused = Attempt {
        cause: Some(Cause::Errno(Errno::INVAL)),
        ..nothing
    };
    for (attempts, ended, found) in [
        (vec![moved, nothing], Ended::Eof, true),
        (vec![moved, nothing], Ended::Stopped, false),
        (vec![moved, refused], Ended::Eof, false),
        (vec![nothing, moved], Ended::Eof, false),
        (Vec::new(), Ended::Eof, false),
    ] {
        let report = Report {
            ended,
            attempts,
            ..plain()
        };
        let text = format!("{report:#}");
        assert_eq!(text.ends_with(", which found the end"), found, "{text}");
    }
}

#[test]
fn a_sum_of_reports_loses_neither_counts_nor_errors_nor_undelivered_bytes() {
    let sink = |index, bytes, cause| SinkReport {
        is_detached: false,
        index,
        bytes,
        ahead: 0,
        strategy: Some(Strategy::Tee),
        cause,
    };
    let failed = |errno| Some(Cause::Errno(errno));
    let earlier = Report {
        bytes: 12,
        records: 1,
        ended: Ended::Failed,
        elapsed: Duration::from_secs(1),
        attempts: vec![
            Attempt {
                cause: failed(Errno::INVAL),
                hole_bytes: 2,
                ..attempt(Strategy::Splice, 5, 1)
            },
            attempt(Strategy::Buffered, 7, 2),
        ],
        sinks: vec![sink(0, 12, None), sink(1, 3, failed(Errno::PIPE))],
        hole_bytes: 10,
        skipped_bytes: 100,
        shared_pages: PageSharing::OfFile,
        grown_source: Some(1),
        grown_sink: Some(2),
        undelivered: b"one".to_vec().into(),
        first_choice: Some(Strategy::Splice),
    };
    let later = Report {
        bytes: 30,
        records: 2,
        elapsed: Duration::from_secs(2),
        attempts: vec![
            attempt(Strategy::Tee, 10, 4),
            Attempt {
                hole_bytes: 3,
                ..attempt(Strategy::Splice, 20, 8)
            },
        ],
        sinks: vec![sink(1, 30, None), sink(0, 30, failed(Errno::NOSPC))],
        hole_bytes: 20,
        skipped_bytes: 200,
        grown_sink: Some(3),
        undelivered: b"two".to_vec().into(),
        ..Report::of_nothing(Ended::Stopped, Some(Strategy::Tee))
    };
    let total: Report = [&earlier, &later].into_iter().sum();
    assert_eq!((total.bytes(), total.records()), (42, 3));
    assert_eq!(
        (total.ended(), total.elapsed()),
        (Ended::Stopped, Duration::from_secs(3))
    );
    assert_eq!((total.hole_bytes(), total.skipped_bytes()), (30, 300));
    assert_eq!(
        (total.grown_source(), total.grown_sink()),
        (Some(1), Some(3))
    );
    assert!(total.shared_pages());
    assert_eq!(total.undelivered(), b"onetwo");
    let attempts = total.attempts.iter();
    let attempts = attempts.map(|it| (it.strategy, it.bytes, it.hole_bytes, it.calls, it.cause));
    assert_eq!(
        attempts.collect::<Vec<_>>(),
        [
            (Strategy::Splice, 25, 5, 9, failed(Errno::INVAL)),
            (Strategy::Buffered, 7, 0, 2, None),
            (Strategy::Tee, 10, 0, 4, None),
        ]
    );
    let sinks = total.sinks.iter().map(|it| (it.index, it.bytes, it.cause));
    assert_eq!(
        sinks.collect::<Vec<_>>(),
        [(0, 42, failed(Errno::NOSPC)), (1, 33, failed(Errno::PIPE))]
    );

    let nothing: Report = Vec::<Report>::new().into_iter().sum();
    assert_eq!((nothing.bytes(), nothing.strategy()), (0, None));
}

#[test]
fn a_report_names_the_strategy_that_moved_most_and_of_two_the_first() {
    use Strategy::{Buffered, Sendfile, Splice, Tee};
    for (attempts, named) in [
        (&[(Splice, 5), (Buffered, 7), (Sendfile, 6)][..], Buffered),
        (&[(Splice, 7), (Buffered, 7)], Splice),
        (&[(Splice, 0), (Buffered, 0)], Buffered),
        (&[(Splice, 1), (Buffered, 0)], Splice),
        (&[], Tee),
    ] {
        let tried = attempts.iter();
        let report = Report {
            attempts: tried
                .map(|(strategy, n)| attempt(*strategy, *n, 1))
                .collect(),
            first_choice: Some(Tee),
            ..plain()
        };
        assert_eq!(report.strategy(), Some(named), "{attempts:?}");
    }
}
