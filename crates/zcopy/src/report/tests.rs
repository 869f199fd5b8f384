//! Tests of the text of a report.

use super::{Attempt, Ended, PageSharing, Report, SinkReport, Undelivered};
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
fn a_report_prints_no_line_for_what_did_not_happen() {
    assert_eq!(plain().to_string(), PLAIN);
}

#[test]
fn a_report_prints_a_line_for_a_single_record_hole_skip_or_undelivered_byte() {
    let sink = SinkReport {
        index: 1,
        bytes: 1,
        ahead: 0,
        strategy: Strategy::Tee,
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
        undelivered: Undelivered(bytes.to_vec()),
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
        assert_eq!(report.to_string(), format!("{PLAIN}\n{line}"));
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
        let text = report.to_string();
        assert_eq!(text.ends_with(", which found the end"), found, "{text}");
    }
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
            first_choice: Tee,
            ..plain()
        };
        assert_eq!(report.strategy(), named, "{attempts:?}");
    }
}
