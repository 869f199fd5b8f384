//! Limits, rates, observers, and transfers that end early.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use zcopy::{Ended, Progress, RateLimiter, Side, Stop, Strategy, Transfer};

use super::{BUFFER, InPieces, LENGTHS, PIECES, ReadFn, WriteFn};
use crate::endpoints::{fifo, null, packets, pipe};
use crate::files::{
    assert_same, contents, cursor, file, file_in, pattern, read_to_end, reopen, set_cursor,
    write_all,
};
use crate::mounts::Fs;
use crate::refused::needs;

/// Limits around the lengths of a source.
fn limits(len: usize) -> [usize; 5] {
    [0, 1, len / 2, len, len + 1]
}

fn ended(limit: usize, len: usize) -> Ended {
    if limit <= len {
        Ended::Limit
    } else {
        Ended::Eof
    }
}

#[test]
fn a_reader_keeps_the_bytes_behind_the_limit() {
    for len in LENGTHS.into_iter().filter(|len| *len > 1) {
        let bytes = pattern(len);
        for (limit, piece) in limits(len).into_iter().flat_map(|l| PIECES.map(|p| (l, p))) {
            if piece == 1 && len > 4097 {
                continue;
            }
            let what = format!("{limit} of {len} bytes in pieces of {piece}");
            let mut reader = InPieces::new(&bytes[..], piece);
            let sink = file(b"");
            let transfer = Transfer::from_reader(&mut reader, &sink).limit(limit as u64);
            let report = transfer.run().unwrap();
            let moved = limit.min(len);
            assert_eq!(
                (report.bytes(), report.ended()),
                (moved as u64, ended(limit, len)),
                "{what}"
            );
            assert_same(&contents(&sink), &bytes[..moved], &what);
            assert_same(reader.inner, &bytes[moved..], &what);
        }
    }
}

/// A direct source is read in whole blocks, and its cursor goes back.
#[test]
fn a_source_keeps_the_bytes_behind_the_limit() {
    let dir = Fs::Ext4.dir();
    for len in LENGTHS.into_iter().filter(|len| *len > 1) {
        let bytes = pattern(len);
        for limit in limits(len) {
            let moved = limit.min(len);
            let mut sources = vec![("file", reopen(&file(&bytes), OFlags::RDONLY))];
            if let Some(dir) = &dir {
                let file = file_in(dir, &bytes);
                sources.push(("direct", reopen(&file, OFlags::RDONLY | OFlags::DIRECT)));
            }
            for (kind, source) in sources {
                let what = format!("{limit} of {len} bytes of a {kind} source");
                let mut written = Vec::new();
                let transfer = Transfer::to_writer(&source, &mut written).limit(limit as u64);
                let report = transfer.run().unwrap();
                assert_eq!(
                    (report.bytes(), report.ended()),
                    (moved as u64, ended(limit, len)),
                    "{what}"
                );
                assert_same(&written, &bytes[..moved], &what);
                assert_eq!(cursor(&source), moved as u64, "{what}");
                assert!(report.undelivered().is_empty(), "{what}");
            }
        }
    }
}

#[test]
fn no_limit_may_be_said() {
    let report = Transfer::from_reader(&b"hello"[..], null())
        .limit(3)
        .limit(None)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (5, Ended::Eof));
}

#[test]
fn a_limit_divides_no_packet_and_no_message() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    let (source, bytes) = packets(&[100, 4000]);
    let mut written = Vec::new();
    let report = Transfer::to_writer(&source, &mut written)
        .limit(150)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (150, Ended::Limit));
    assert_eq!(written, bytes[..150]);
    let rest = read_to_end(&source);
    assert_same(
        &rest,
        &bytes[150..],
        "the pipe keeps the rest of the packet",
    );

    let (source, peer) = UnixDatagram::pair().unwrap();
    for message in [&b"hello"[..], b"a longer one"] {
        peer.send(message).unwrap();
    }
    let mut written = Vec::new();
    let report = Transfer::to_writer(&source, &mut written)
        .limit(10)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (5, Ended::Limit));
    assert_eq!(written, b"hello");
    let mut message = [0; 20];
    assert_eq!(
        source.recv(&mut message).unwrap(),
        12,
        "it stays in the socket"
    );
}

#[test]
fn a_rate_holds_for_readers_and_writers_and_may_be_shared() {
    let start = Instant::now();
    let limiter = RateLimiter::new(1_000_000);
    let bytes = vec![7; 50_000];
    let from = Transfer::from_reader(&bytes[..], null()).rate_limit(&limiter);
    assert_eq!(from.run().unwrap().bytes(), 50_000);
    let to = Transfer::to_writer(file(&bytes), io::sink()).rate_limit(&limiter);
    assert_eq!(to.run().unwrap().bytes(), 50_000);
    assert!(start.elapsed() >= Duration::from_millis(95));

    let start = Instant::now();
    let to = Transfer::to_writer(file(&bytes), io::sink()).rate_limit(500_000);
    assert_eq!(to.run().unwrap().bytes(), 50_000);
    assert!(start.elapsed() >= Duration::from_millis(95));
}

#[test]
fn an_observer_sees_each_count_and_stops_the_transfer_at_one() {
    let bytes = pattern(1 << 20);
    for stop_at in [1, 4096, 100_000, 1 << 20] {
        let sink = file(b"");
        let mut seen = Vec::new();
        let mut inspected = Vec::new();
        let report = Transfer::from_reader(&bytes[..], &sink)
            .buffer_size(4096)
            .observe(|progress| {
                seen.push(progress.bytes());
                match progress.bytes() {
                    n if n >= stop_at => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .inspect(|bytes| inspected.extend_from_slice(bytes))
            .run()
            .unwrap();
        assert_eq!(report.ended(), Ended::Stopped);
        assert_eq!(report.bytes(), stop_at.next_multiple_of(4096));
        assert_same(&contents(&sink), &inspected, "what the inspector has seen");
        assert!(
            seen.iter()
                .copied()
                .eq((1..=report.bytes() / 4096).map(|n| n * 4096))
        );

        let source = file(&bytes);
        let mut written = Vec::new();
        let report = Transfer::to_writer(&source, &mut written)
            .buffer_size(4096)
            .observe(|progress| match progress.bytes() {
                n if n >= stop_at => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
            .run()
            .unwrap();
        assert_eq!(report.bytes(), stop_at.next_multiple_of(4096));
        assert_eq!(written.len() as u64, report.bytes());
        assert_eq!(cursor(&source), report.bytes());
    }
}

#[test]
fn an_observer_is_told_the_length_that_a_file_or_a_limit_gives() {
    let bytes = pattern(1000);
    let source = file(&bytes);
    set_cursor(&source, 300);
    for (limit, expected) in [(None, 700), (Some(10), 10)] {
        let mut total = None;
        let to = Transfer::to_writer(&source, io::sink())
            .source_offset(300)
            .limit(limit);
        let observe = |progress: &Progress| {
            total = progress.total();
            ControlFlow::Continue(())
        };
        to.observe(observe).run().unwrap();
        assert_eq!(total, Some(expected));
    }
    for (limit, expected) in [(None, None), (Some(10), Some(10))] {
        let mut total = None;
        let from = Transfer::from_reader(&bytes[..], null()).limit(limit);
        let observe = |progress: &Progress| {
            total = progress.total();
            ControlFlow::Continue(())
        };
        from.observe(observe).run().unwrap();
        assert_eq!(total, expected);
    }
    let mut total = None;
    let at_cursor = Transfer::to_writer(&source, io::sink()).observe(|progress| {
        total = progress.total();
        ControlFlow::Continue(())
    });
    assert_eq!(at_cursor.run().unwrap().bytes(), 700);
    assert_eq!(total, Some(700));
}

#[test]
fn records_are_counted_when_they_have_been_accepted() {
    let lines = "one\ntwo\nthree".repeat(10_000);
    let report = Transfer::from_reader(lines.as_bytes(), null())
        .records(b'\n')
        .run()
        .unwrap();
    assert_eq!(report.records(), 20_000);
    let mut room = [0; 9];
    let to = Transfer::to_writer(file(lines.as_bytes()), &mut room[..]).records(b'\n');
    assert_eq!(to.run().unwrap_err().report().records(), 2);
}

/// The reader has given bytes that the pipe does not take.
#[test]
fn a_stop_wakes_a_wait_for_the_sink_and_returns_what_was_read() {
    let (reader, sink) = pipe();
    let stop = Stop::new().unwrap();
    let bytes = pattern(1 << 20);
    let mut rest = &bytes[..];
    let report = Transfer::from_reader(&mut rest, &sink)
        .stop_with(&stop)
        .tick(Duration::from_millis(1))
        .observe(|progress| {
            if progress.blocked() == Some(Side::Sink) {
                stop.stop();
            }
            ControlFlow::Continue(())
        })
        .run()
        .unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
    assert!(!report.undelivered().is_empty());
    drop(sink);
    let delivered = read_to_end(&reader);
    assert_eq!(delivered.len() as u64, report.bytes());
    let all = [&delivered, report.undelivered(), rest].concat();
    assert_same(&all, &bytes, "delivered, undelivered and unread bytes");
}

#[test]
fn a_deadline_is_looked_at_between_two_calls() {
    let deadline = Instant::now() + Duration::from_millis(20);
    let mut n_calls = 0;
    let reader = ReadFn(|room: &mut [u8]| {
        n_calls += 1;
        room[0] = 7;
        Ok(1)
    });
    let report = Transfer::from_reader(reader, null())
        .deadline(deadline)
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (n_calls, Ended::TimedOut));
    assert!(Instant::now() >= deadline);

    let zeros = File::open("/dev/zero").unwrap();
    let mut n_bytes = 0;
    let writer = WriteFn(|bytes: &[u8]| {
        n_bytes += bytes.len() as u64;
        Ok(bytes.len())
    });
    let past = Transfer::to_writer(&zeros, writer)
        .deadline(deadline)
        .run()
        .unwrap();
    assert_eq!((past.bytes(), past.ended()), (0, Ended::TimedOut));
    assert_eq!(n_bytes, 0);
}

#[test]
fn a_silent_source_ends_a_transfer_to_a_writer_after_the_idle_time_out() {
    let (source, peer) = pipe();
    assert!(write_all(&peer, b"hello"));
    let mut writer = InPieces::new(Vec::new(), usize::MAX);
    let to = Transfer::to_writer(&source, &mut writer).idle_timeout(Duration::from_millis(5));
    let report = to.run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (5, Ended::TimedOut));
    assert_eq!((&writer.inner[..], writer.n_flushes), (&b"hello"[..], 1));
}

/// It polls as if a writer were to come.
#[test]
fn a_fifo_without_a_writer_ends_a_transfer_to_a_writer_also_with_a_time_out() {
    let (reader, writer) = fifo();
    drop(writer);
    let source = reopen(&reader, OFlags::RDONLY | OFlags::NONBLOCK);
    let to = Transfer::to_writer(&source, io::sink()).idle_timeout(Duration::from_millis(5));
    assert_eq!(to.run().unwrap().ended(), Ended::Eof);
}

#[test]
fn a_buffer_of_a_page_is_all_that_a_reader_and_a_writer_get() {
    let mut longest = 0;
    let mut rest = &pattern(100_000)[..];
    let reader = ReadFn(|room: &mut [u8]| {
        longest = longest.max(room.len());
        rest.read(room)
    });
    Transfer::from_reader(reader, null())
        .buffer_size(1)
        .run()
        .unwrap();
    assert_eq!(longest, 4096);

    for (size, expected) in [(1, 4096), (BUFFER, BUFFER)] {
        let mut longest = 0;
        let writer = WriteFn(|bytes: &[u8]| {
            longest = longest.max(bytes.len());
            Ok(bytes.len())
        });
        let source = file(&pattern(2 * BUFFER));
        Transfer::to_writer(source, writer)
            .buffer_size(size)
            .run()
            .unwrap();
        assert_eq!(longest, expected);
    }
}
