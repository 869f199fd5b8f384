//! Records that are counted, limited and paced, between real descriptors.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::SocketType;
use zcopy::{Ended, Report, Side, Strategy, Transfer, Verdict};

use crate::endpoints::{full, null, pipe, tcp, terminal, unix};
use crate::files::{assert_same, contents, cursor, file, read_to_end, write_all};

/// The size of the buffer after the warm-up phase.
const FULL: usize = 256 << 10;

/// `n` lines of several lengths, some of them empty.
fn lines(n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..n {
        bytes.resize(bytes.len() + i % 7, b'a' + (i % 26) as u8);
        bytes.push(b'\n');
    }
    bytes
}

/// The offset behind the `n`th line.
fn end_of(bytes: &[u8], n: usize) -> usize {
    let ends = bytes.split_inclusive(|byte| *byte == b'\n').take(n);
    ends.map(<[u8]>::len).sum()
}

fn n_lines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').count() as u64 - 1
}

/// A source, and the descriptor of its other end.
struct Source {
    name: &'static str,
    fd: OwnedFd,
    writer: Option<OwnedFd>,
}

/// Every kind of source, with a few bytes in it.
fn sources(bytes: &[u8]) -> Vec<Source> {
    let fed = |name, (fd, writer): (OwnedFd, OwnedFd)| {
        assert!(write_all(&writer, bytes));
        Source {
            name,
            fd,
            writer: Some(writer),
        }
    };
    let (master, slave) = terminal();
    vec![
        Source {
            name: "file",
            fd: file(bytes).into(),
            writer: None,
        },
        fed("pipe", pipe()),
        fed("tcp", tcp()),
        fed("unix", unix(SocketType::STREAM)),
        fed("terminal", (slave, master)),
    ]
}

/// Every kind of sink, with its name and a descriptor to read its bytes back.
fn sinks() -> Vec<(&'static str, OwnedFd, OwnedFd)> {
    let same = file(b"");
    let again = same.try_clone().unwrap();
    let back = |(reader, writer): (OwnedFd, OwnedFd)| (writer, reader);
    let (to_pipe, from_pipe) = back(pipe());
    let (to_tcp, from_tcp) = back(tcp());
    let (to_terminal, from_terminal) = {
        let (master, slave) = terminal();
        (slave, master)
    };
    vec![
        ("file", same.into(), again.into()),
        ("pipe", to_pipe, from_pipe),
        ("tcp", to_tcp, from_tcp),
        ("terminal", to_terminal, from_terminal),
    ]
}

/// The bytes that have arrived in a sink; waits for at least `n` of them.
fn arrived(name: &str, back: &OwnedFd, n: usize) -> Vec<u8> {
    if name == "file" {
        rustix::fs::seek(back, rustix::fs::SeekFrom::Start(0)).unwrap();
        return read_to_end(back);
    }
    rustix::fs::fcntl_setfl(back, rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match rustix::io::read(back, &mut buffer) {
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(rustix::io::Errno::AGAIN) if bytes.len() >= n => return bytes,
            // More bytes are on their way.
            Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn every_line_limit_ends_behind_its_line_for_every_source_and_sink() {
    let bytes = lines(40);
    for n in [0, 1, 17, 40] {
        let end = end_of(&bytes, n);
        for index in 0..sinks().len() {
            for source in sources(&bytes) {
                let (name, sink, back) = sinks().swap_remove(index);
                let what = format!("{n} lines from {} to {name}", source.name);
                let transfer = Transfer::new(&source.fd, &sink).record_limit(n as u64);
                let report = transfer.run().unwrap();
                assert_eq!(report.records(), n as u64, "{what}");
                assert_eq!(report.ended(), Ended::Limit, "{what}");
                assert_eq!(report.strategy(), Some(Strategy::Buffered), "{what}");
                assert_same(&arrived(name, &back, end), &bytes[..end], &what);
                if source.writer.is_none() {
                    assert_eq!(cursor(&source.fd), end as u64, "{what}");
                    assert!(report.undelivered().is_empty(), "{what}");
                } else if n > 0 {
                    // These few bytes come in one read.
                    assert_same(report.undelivered(), &bytes[end..], &what);
                }
            }
        }
    }
}

#[test]
fn a_limit_beyond_the_end_is_the_end() {
    for bytes in [lines(40), b"no end of line".to_vec(), Vec::new()] {
        let source = file(&bytes);
        let sink = file(b"");
        let report = Transfer::new(&source, &sink)
            .record_limit(41)
            .run()
            .unwrap();
        assert_eq!(
            (report.records(), report.ended()),
            (n_lines(&bytes), Ended::Eof)
        );
        assert_same(&contents(&sink), &bytes, "all of it");
    }
}

/// The transfer reads nothing behind the line.
#[test]
fn the_next_reader_of_a_file_reads_the_next_line() {
    let bytes = lines(100_000);
    let source = file(&bytes);
    let sink = file(b"");
    for n in [1, 7, 30_000, 2, 69_990] {
        let report = Transfer::new(&source, &sink).record_limit(n).run().unwrap();
        assert_eq!(report.records(), n);
    }
    assert_same(&contents(&sink), &bytes, "after five transfers");
    assert_eq!(cursor(&source), bytes.len() as u64);
}

#[test]
fn an_offset_leaves_the_cursor_alone_and_the_sink_ends_behind_the_line() {
    let bytes = lines(100_000);
    let source = file(&bytes);
    let sink = file(b"");
    let start = end_of(&bytes, 50_000);
    let transfer = Transfer::new(&source, &sink).source_offset(start as u64);
    let report = transfer.record_limit(10_000).run().unwrap();
    let end = end_of(&bytes, 60_000);
    assert_eq!(report.bytes(), (end - start) as u64);
    assert_same(&contents(&sink), &bytes[start..end], "the middle");
    assert_eq!(cursor(&source), 0);
}

/// One delimiter, at the last byte of a buffer or the first of the next.
#[test]
fn a_delimiter_at_the_edge_of_the_buffer_is_the_last_byte() {
    for edge in [4096, 32 << 10, FULL, 2 * FULL] {
        for at in [edge - 1, edge, edge + 1] {
            let mut bytes = vec![b'a'; 3 * FULL];
            bytes[at] = 0;
            bytes[at + 1] = 0;
            let (source, sink) = (file(&bytes), file(b""));
            let transfer = Transfer::new(&source, &sink).records(0).record_limit(1);
            let report = transfer.run().unwrap();
            assert_eq!((report.bytes(), report.records()), (at as u64 + 1, 1));
            assert_eq!(cursor(&source), at as u64 + 1);
            assert_same(&contents(&sink), &bytes[..=at], "up to the delimiter");
        }
    }
}

#[test]
fn the_limit_that_is_reached_first_ends_the_transfer() {
    let bytes = lines(1000);
    for (limit, n, expected) in [(10, 1000, 10), (4000, 5, end_of(&bytes, 5)), (0, 5, 0)] {
        let (source, sink) = (file(&bytes), file(b""));
        let transfer = Transfer::new(&source, &sink).limit(limit).record_limit(n);
        let report = transfer.run().unwrap();
        assert_eq!(
            (report.bytes(), report.ended()),
            (expected as u64, Ended::Limit)
        );
        assert_same(&contents(&sink), &bytes[..expected], "the lower limit");
        assert_eq!(cursor(&source), expected as u64);
    }
}

/// The writer waits for an answer to each line.
#[test]
fn each_line_is_written_when_it_comes() {
    let (master, slave) = terminal();
    let (reader, sink) = pipe();
    std::thread::scope(|scope| {
        let moving = scope.spawn(|| Transfer::new(&slave, &sink).record_limit(3).run().unwrap());
        for line in ["one\n", "two\n", "three\n"] {
            assert!(write_all(&master, line.as_bytes()));
            let mut buffer = [0; 10];
            let n = rustix::io::read(&reader, &mut buffer).unwrap();
            assert_eq!(&buffer[..n], line.as_bytes());
        }
        assert_eq!(moving.join().unwrap().records(), 3);
    });
}

#[test]
fn a_long_stream_is_counted_as_wc_counts_it() {
    let bytes = lines(500_000);
    let (source, writer) = pipe();
    let (reader, sink) = pipe();
    let mut seen = Vec::new();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(write_all(&writer, &bytes));
            drop(writer);
        });
        let reading = scope.spawn(|| read_to_end(&reader));
        let transfer = Transfer::new(&source, &sink)
            .records(b'\n')
            .observe(|progress| {
                seen.push((progress.bytes(), progress.records()));
                ControlFlow::Continue(())
            });
        let report = transfer.run().unwrap();
        drop(sink);
        assert_same(&reading.join().unwrap(), &bytes, "through two pipes");
        report
    });
    assert_eq!(report.records(), 500_000);
    let (mut at, mut n) = (0, 0);
    for (bytes_moved, records) in seen {
        let new = &bytes[at..usize::try_from(bytes_moved).unwrap()];
        n += n_lines(new);
        at += new.len();
        assert_eq!(records, n, "after {bytes_moved} bytes");
    }
}

/// A transfer that fails counts the records that arrived.
#[test]
fn records_that_did_not_arrive_are_not_counted() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"one\ntwo\n"));
    let full = full();
    let error = Transfer::new(&source, &full)
        .records(b'\n')
        .run()
        .unwrap_err();
    assert_eq!((error.bytes(), error.report().records()), (0, 0));
    assert_eq!(error.undelivered(), b"one\ntwo\n");
}

#[test]
fn the_plan_and_the_report_name_the_records() {
    let (source, sink) = (file(&lines(50_000)), null());
    let transfer = Transfer::new(&source, &sink).records(b'\n');
    let plan = transfer.plan().unwrap();
    assert_eq!(plan.strategy(), Strategy::Buffered);
    assert_eq!(
        plan.candidates()[0].reason(),
        "records are counted, so the bytes must pass through user space"
    );
    for skipped in &plan.candidates()[1..] {
        assert_eq!(skipped.verdict(), Verdict::Skipped);
        assert!(skipped.reason().contains("user space"), "{skipped}");
    }
    let text = format!("{:#}", transfer.run().unwrap());
    assert!(text.ends_with("\nrecords: 50000"), "{text}");
    let uncounted = Transfer::new(&source, &sink).run().unwrap();
    assert_eq!(uncounted.records(), 0);
}

#[test]
fn a_strategy_that_cannot_count_records_is_unsuitable() {
    let (source, sink) = (file(&lines(50_000)), null());
    let transfer = Transfer::new(&source, &sink).strategy(Strategy::SplicePipe);
    let error = transfer.record_limit(1).run().unwrap_err();
    assert!(error.is_unsuitable());
    assert!(error.to_string().contains("records are counted"), "{error}");
}

#[test]
fn records_for_several_sinks_are_counted_and_cannot_be_limited() {
    let bytes = lines(100_000);
    let (first, second) = (file(b""), file(b""));
    let source = file(&bytes);
    let to_one = || Transfer::new(&source, &first);
    for limited in [to_one().record_limit(1), to_one().record_rate_limit(1)] {
        let error = limited.also_to(&second).run().unwrap_err();
        assert!(error.is_refused() && error.side() == Side::Source);
        assert_eq!(error.io_error_kind(), ErrorKind::InvalidInput);
        let why =
            "the source cannot be used: record_limit and record_rate_limit serve one sink only";
        assert_eq!(error.to_string(), why);
    }
    let report = to_one().also_to(&second).records(b'\n').run().unwrap();
    assert_eq!(
        (report.records(), report.strategy()),
        (100_000, Some(Strategy::Buffered))
    );
    for sink in [first, second] {
        assert_same(&contents(&sink), &bytes, "each");
    }
}

#[test]
fn a_message_is_moved_whole_or_not_at_all() {
    for socket_type in [SocketType::DGRAM, SocketType::SEQPACKET] {
        let (source, writer) = unix(socket_type);
        for message in ["a\nb\n", "c", "\nd", "e\n"] {
            assert!(write_all(&writer, message.as_bytes()));
        }
        let sink = file(b"");
        let run = |n| Transfer::new(&source, &sink).record_limit(n).run().unwrap();
        let report: Report = run(2);
        assert_eq!((report.records(), report.ended()), (2, Ended::Limit));
        // The next two messages hold one record more, and a byte behind it.
        let report = run(1);
        assert_eq!((report.records(), report.bytes()), (0, 1));
        assert_eq!(
            (report.undelivered(), report.ended()),
            (&b"\nd"[..], Ended::Limit)
        );
        assert_eq!(run(1).records(), 1);
        assert_eq!(contents(&sink), b"a\nb\nce\n");
    }
}

/// The time that a thousand lines take at this rate.
fn time_of(lines_per_second: u64, source: &impl AsFd, tick: bool) -> Duration {
    let sink = null();
    let start = Instant::now();
    let mut transfer = Transfer::new(source, &sink).record_rate_limit(lines_per_second);
    let mut gaps = (start, Duration::ZERO);
    if tick {
        transfer = transfer.tick(Duration::from_millis(5)).observe(|_| {
            let now = Instant::now();
            gaps = (now, gaps.1.max(now - gaps.0));
            ControlFlow::Continue(())
        });
    }
    let report = transfer.run().unwrap();
    assert_eq!(report.records(), 1000);
    assert_eq!(report.strategy(), Some(Strategy::Buffered));
    start.elapsed()
}

#[test]
fn lines_keep_their_rate_within_a_tenth() {
    // A busy machine makes a run late, and never early.
    let is_in_time = (0..3).any(|_| all_are_in_time());
    assert!(is_in_time, "three runs were late");
}

/// Moves lines out of every source at a rate. Returns whether no run took a tenth too long.
fn all_are_in_time() -> bool {
    let bytes = lines(1000);
    let is_late = AtomicBool::new(false);
    let check = |took: Duration, millis: u64, name: &str| {
        assert!(
            took >= Duration::from_millis(millis * 9 / 10),
            "{took:?} from {name}"
        );
        if took > Duration::from_millis(millis * 11 / 10) {
            is_late.store(true, Ordering::Relaxed);
        }
    };
    // All at one time: each waits for nearly all of it.
    std::thread::scope(|scope| {
        for tick in [false, true] {
            for source in sources(&bytes[..]) {
                if source.name == "terminal" {
                    // A terminal has no end.
                    continue;
                }
                drop(source.writer);
                scope.spawn(move || {
                    let took = time_of(2000, &source.fd, tick);
                    check(took, 500, source.name);
                });
            }
        }
        scope.spawn(|| check(time_of(1000, &file(&bytes), false), 1000, "a file"));
    });
    !is_late.into_inner()
}

/// A stop while lines wait for their time hands them back.
#[test]
fn a_stop_gives_back_the_lines_that_wait() {
    let bytes = lines(1000);
    for mut source in sources(&bytes) {
        source.writer = source.writer.filter(|_| source.name == "terminal");
        let sink = file(b"");
        let transfer = Transfer::new(&source.fd, &sink)
            .record_rate_limit(500)
            .tick(Duration::from_millis(1))
            .observe(|progress| {
                if progress.records() >= 20 {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        let report = transfer.run().unwrap();
        let n = report.bytes() as usize;
        assert_eq!(report.ended(), Ended::Stopped, "{}", source.name);
        assert!((20..200).contains(&report.records()), "{}", source.name);
        assert_same(&contents(&sink), &bytes[..n], source.name);
        if source.name == "file" {
            assert_eq!(cursor(&source.fd), n as u64);
        } else {
            let back = report.undelivered();
            assert_same(back, &bytes[n..][..back.len()], source.name);
            assert!(!back.is_empty());
        }
    }
}
