//! The text of plans, reports and errors: aligned, one strategy a line.

use std::fs::File;

use std::os::fd::AsFd;
use zcopy::{Strategy, Transfer, Verdict};

use crate::endpoints::{full, null, pipe, tcp};
use crate::files::{appending, file_in, pattern, write_all};
use crate::mounts::Fs;
use crate::refused::{first_allowed, is_allowed, needs};

/// Asserts that verdict, strategy and reason (or count) begin in the same columns in each line.
fn assert_aligned(text: &str) {
    for line in text.lines().filter(|line| line.starts_with("  ")) {
        let (verdict, rest) = line[2..].split_at(10);
        let (strategy, reason) = rest.split_at(17);
        assert!(verdict.ends_with("  "), "{text}");
        assert!(
            strategy.ends_with("  ") && !strategy.starts_with(' '),
            "{text}"
        );
        assert!(!reason.starts_with(' ') && !reason.is_empty(), "{text}");
    }
}

#[test]
fn a_plan_has_a_line_for_every_strategy_with_its_reason() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let source = file_in(&dir, &pattern(1 << 20));
    let (reader, sink) = pipe();
    let to_null = null();
    for sink in [&sink, &to_null] {
        let plan = Transfer::new(&source, sink).plan().unwrap();
        let text = plan.to_string();
        assert_aligned(&text);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(lines.len(), plan.candidates().len());
        for (line, candidate) in lines.iter().zip(plan.candidates()) {
            let verdict = match candidate.verdict() {
                Verdict::Chosen => "chosen",
                Verdict::Fallback => "fallback",
                _ => "skipped",
            };
            let expected = format!(
                "  {verdict:<8}  {:<15}  {}",
                candidate.strategy().to_string(),
                candidate.reason()
            );
            assert_eq!(*line, expected);
        }
        let chosen = plan
            .candidates()
            .iter()
            .filter(|it| it.verdict() == Verdict::Chosen);
        assert_eq!(chosen.count(), 1);
    }
    drop(reader);
}

#[test]
fn the_plan_says_that_calls_for_files_need_two_files() {
    let file = crate::files::file(&pattern(1 << 20));
    let other = crate::files::file(b"");
    let (reader, writer) = pipe();
    let reasons = |plan: zcopy::Plan| {
        let mut skipped = Vec::new();
        for strategy in [Strategy::Reflink, Strategy::CopyFileRange] {
            let mut candidates = plan.candidates().iter();
            let candidate = candidates.find(|it| it.strategy() == strategy).unwrap();
            skipped.push(candidate.reason().to_string());
        }
        skipped
    };
    let needed = ["both ends must be regular files"; 2];
    let plans = [
        Transfer::new(&file, &writer).plan(),
        Transfer::new(&reader, &other).plan(),
    ];
    for plan in plans {
        assert_eq!(reasons(plan.unwrap()), needed);
    }
    let plan = Transfer::new(&file, &other).plan().unwrap();
    assert!(!reasons(plan).contains(&needed[0].to_owned()));
}

#[test]
fn the_plan_says_what_a_private_pipe_gains_for_each_pair() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let (source, sink) = (file_in(&dir, &pattern(1 << 20)), file_in(&dir, b""));
    let null = null();
    let ((reader, _writer), (_reader, writer)) = (pipe(), pipe());
    let (stream, _peer) = tcp();
    let through = |what: &str| format!("1 MiB at a time through a private pipe: {what}");
    for (transfer, expected) in [
        (
            Transfer::new(source.as_fd(), sink.as_fd()),
            through("measured 1.2 to 1.3 times the speed of read and write"),
        ),
        (
            Transfer::new(source.as_fd(), writer.as_fd()),
            through("above 1 MiB measured as fast as a direct splice, or faster"),
        ),
        (
            Transfer::new(source.as_fd(), null.as_fd()),
            through("above 1 MiB measured 1.2 times the speed of sendfile"),
        ),
        (
            Transfer::new(reader.as_fd(), writer.as_fd()),
            through("measured 1.5 to 4 times the speed of read and write"),
        ),
        (
            Transfer::new(stream.as_fd(), sink.as_fd()),
            "1 MiB at a time through a private pipe, without a copy through user space".to_owned(),
        ),
    ] {
        let plan = transfer.plan().unwrap();
        let mut candidates = plan.candidates().iter();
        let candidate = candidates.find(|it| it.strategy() == Strategy::SplicePipe);
        assert_eq!(candidate.unwrap().reason(), expected, "{plan}");
    }
}

/// If one sink must be written to, the bytes are in memory, and writing them to `/dev/null` costs
/// nothing.
#[test]
fn nothing_is_shared_with_dev_null_alone_beside_a_sink_that_is_written_to() {
    let (source, _writer) = pipe();
    let (_reader, other) = pipe();
    let appending = appending(&crate::files::file(b""));
    let null = null();
    let beside_null = Transfer::new(&source, &appending).also_to(&null).plan();
    let beside_null = beside_null.unwrap();
    assert_eq!(beside_null.strategy(), Strategy::Buffered);
    let reason =
        "some sinks must be written to, and the others are /dev/null, where sharing saves nothing";
    let mut candidates = beside_null.candidates().iter();
    assert!(candidates.any(|it| it.reason() == reason), "{beside_null}");
    let beside_pipe = Transfer::new(&source, &appending).also_to(&other).plan();
    assert_eq!(beside_pipe.unwrap().strategy(), Strategy::Tee);
}

#[test]
fn the_plan_names_each_random_device_by_its_own_name() {
    let sink = null();
    for name in ["/dev/random", "/dev/urandom"] {
        let source = File::open(name).unwrap();
        let plan = Transfer::new(&source, &sink).plan().unwrap().to_string();
        assert!(
            plan.starts_with(&format!("{name} -> /dev/null\n")),
            "{plan}"
        );
    }
}

#[test]
fn the_plan_of_a_requested_strategy_names_the_request() {
    let source = File::open("/dev/zero").unwrap();
    let sink = null();
    let transfer = Transfer::new(&source, &sink).limit(1 << 20);
    let plan = transfer.strategy(Strategy::Sendfile).plan().unwrap();
    let text = plan.to_string();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("/dev/zero -> /dev/null"));
    assert_eq!(
        lines.next(),
        Some("  chosen    sendfile         the caller asked for it")
    );
    for line in lines {
        assert!(line.starts_with("  skipped   "), "{text}");
        assert!(
            line.ends_with("  the caller asked for another strategy"),
            "{text}"
        );
    }
    assert_aligned(&text);
}

#[test]
fn a_report_has_a_line_for_every_attempt() {
    let source = File::open("/dev/zero").unwrap();
    let sink = null();
    let report = Transfer::new(&source, &sink)
        .limit(1 << 20)
        .strategy(Strategy::Buffered)
        .run()
        .unwrap();
    let [attempt] = report.attempts() else {
        panic!("more than one attempt: {report:#}");
    };
    let calls = attempt.calls();
    assert_eq!(
        format!("{report:#}"),
        format!(
            "1048576 bytes by buffered, up to the limit\n  \
             buffered               1048576 bytes in {calls} calls"
        )
    );
    assert!(calls >= 8, "256 KiB at a time: {calls}");
}

/// The headline names the strategy that ran, and a call that only found the end says so.
#[test]
fn the_report_of_a_transfer_that_moved_nothing_names_what_ran() {
    let null = null();
    let (source, writer) = pipe();
    drop(writer);
    let transfer = Transfer::new(&source, &null);
    assert_eq!(transfer.plan().unwrap().strategy(), Strategy::SplicePipe);
    let text = format!("{:#}", transfer.run().unwrap());
    if is_allowed(Strategy::Splice) {
        assert_eq!(
            text,
            "0 bytes by buffered, to the end of the source\n  \
             splice                       0 bytes in 1 call\n  \
             buffered                     0 bytes in 1 call, which found the end"
        );
    } else {
        assert!(
            text.starts_with("0 bytes by buffered, to the end"),
            "{text}"
        );
        let refused = "\n  splice                       0 bytes in 1 call, ended by: ";
        assert!(text.contains(refused), "{text}");
    }

    let file = crate::files::file(b"");
    let report = Transfer::new(&file, &null).run().unwrap();
    assert_eq!(
        format!("{report:#}"),
        "0 bytes by buffered, to the end of the source\n  \
         buffered                     0 bytes in 1 call, which found the end"
    );

    let report = Transfer::new(&source, &null).limit(0).run().unwrap();
    assert_eq!(format!("{report:#}"), "0 bytes, up to the limit");
    assert_eq!(
        report.strategy(),
        Some(Strategy::Buffered),
        "the plan's choice"
    );
}

#[test]
fn a_read_that_only_finds_the_end_is_named_in_the_report() {
    if first_allowed(&[Strategy::SplicePipe, Strategy::Sendfile]) == Strategy::Buffered
        && !needs(&[Strategy::SplicePipe])
    {
        return;
    }
    let source = crate::files::file(&pattern(300_000));
    let null = null();
    let text = format!("{:#}", Transfer::new(&source, &null).run().unwrap());
    let last = "buffered                     0 bytes in 1 call, which found the end";
    assert_eq!(text.lines().last().unwrap().trim(), last, "{text}");
}

#[test]
fn one_byte_is_singular() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"xy"));
    let null = null();
    let report = Transfer::new(&source, &null).limit(1).run().unwrap();
    if is_allowed(Strategy::Splice) {
        assert_eq!(
            format!("{report:#}"),
            "1 byte by splice, up to the limit\n  \
             splice                       1 byte in 1 call"
        );
    } else {
        let text = format!("{report:#}");
        assert!(
            text.starts_with("1 byte by buffered, up to the limit\n"),
            "{text}"
        );
    }
    let full = full();
    let error = Transfer::new(&source, &full).run().unwrap_err();
    let text = format!("{:#}", error.report());
    assert!(
        text.ends_with("\nundelivered: 1 byte did not reach the sink"),
        "{text}"
    );
}

#[test]
fn a_report_names_a_failure_undelivered_bytes_and_shared_pages() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"hello"));
    let full = full();
    let error = Transfer::new(&source, &full).run().unwrap_err();
    assert_eq!(error.to_string(), "write to the sink failed after 0 bytes");
    assert_eq!(
        format!("{error:#}"),
        "write to the sink failed after 0 bytes: No space left on device (os error 28)"
    );
    assert_eq!(
        format!("{:#}", error.report()),
        "0 bytes by buffered, until it failed\n  \
         buffered                     0 bytes in 2 calls, \
         ended by: No space left on device (os error 28)\n\
         undelivered: 5 bytes did not reach the sink"
    );

    let file = crate::files::file(&pattern(60_000));
    let (_reader, sink) = pipe();
    let report = Transfer::new(&file, &sink).run().unwrap();
    let shares = first_allowed(&[Strategy::Splice, Strategy::Sendfile]) != Strategy::Buffered;
    let last = format!("{report:#}");
    let last = last.lines().last().unwrap();
    let says_so =
        last == "pages: shared with the source file until the sink's reader has read them";
    assert_eq!(says_so, shares, "{last}");
    assert_eq!(report.shared_pages(), shares, "{report:#}");
    assert_eq!(
        report.strategy() != Some(Strategy::Buffered),
        shares,
        "{report:#}"
    );
}

#[test]
fn the_plan_says_how_long_the_warm_up_of_a_socket_is() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    let (socket, _peer) = tcp();
    let (_other_peer, other_socket) = tcp();
    let (_reader, writer) = pipe();
    for (sink, len, waiting) in [(&writer, 64, 96), (&other_socket, 128, 128)] {
        let text = Transfer::new(&socket, sink).plan().unwrap().to_string();
        let warm_up = text.lines().find(|line| line.starts_with("warm-up: "));
        let warm_up = warm_up.unwrap();
        let first = format!("buffered, for the first {len} KiB and until one step moves 32 KiB");
        assert!(warm_up.contains(&first), "{warm_up}");
        let most = format!("up to 512 KiB while fewer than {waiting} KiB wait in the socket");
        assert!(warm_up.ends_with(&most), "{warm_up}");
    }
}
