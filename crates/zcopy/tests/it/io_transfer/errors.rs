//! Failing ends: exact counts, bytes that are handed back, and the caller's own errors.

use std::error::Error as _;
use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{Ended, Error, Side, Strategy, Transfer};

use super::{Damaged, InPieces, ReadFn, WriteFn, failing_reader, failing_writer};
use crate::endpoints::{full, null, pipe};
use crate::files::{
    appending, assert_same, contents, cursor, file, file_in, pattern, read_to_end, reopen,
    set_cursor, write_all,
};
use crate::mounts::{Fs, loop_mount, mount_tmpfs};

const PIECE: usize = 3001;

#[track_caller]
fn assert_damaged(error: &Error, call: &str, side: Side, k: usize) {
    assert_eq!((error.call(), error.side()), (Some(call), side));
    assert_eq!(error.kind(), zcopy::ErrorKind::CallFailed);
    assert_eq!(error.io_error_kind(), ErrorKind::InvalidData);
    assert_eq!(error.raw_os_error(), None);
    assert_eq!(error.report().ended(), Ended::Failed);
    assert_eq!(error.report().strategy(), Some(Strategy::Buffered));
    let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
    let cause = cause.get_ref().unwrap().downcast_ref::<Damaged>();
    assert_eq!(cause, Some(&Damaged(k)));
}

#[test]
fn a_reader_that_fails_at_any_call_has_its_earlier_bytes_counted() {
    let bytes = pattern(40_000);
    for k in 0..13 {
        let appended = file(b"head");
        let sink = appending(&appended);
        let error = Transfer::from_reader(failing_reader(&bytes, PIECE, k), &sink).run();
        let error = error.unwrap_err();
        assert_damaged(&error, "read", Side::Source, k);
        assert_eq!(error.bytes(), (k * PIECE) as u64);
        assert!(error.undelivered().is_empty());
        let arrived = contents(&appended);
        assert_same(
            &arrived[4..],
            &bytes[..k * PIECE],
            &format!("until call {k}"),
        );

        let (reader, sink) = pipe();
        let error = Transfer::from_reader(failing_reader(&bytes, PIECE, k), &sink).run();
        let error = error.unwrap_err();
        assert_damaged(&error, "read", Side::Source, k);
        drop(sink);
        assert_eq!(error.bytes(), read_to_end(&reader).len() as u64);
    }
}

/// The part of a block that waited for more bytes comes back.
#[test]
fn a_reader_that_fails_in_front_of_a_direct_sink_loses_no_byte() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(40_000);
    for k in 0..13 {
        let file = file_in(&dir, b"");
        let sink = reopen(&file, OFlags::WRONLY | OFlags::DIRECT);
        let error = Transfer::from_reader(failing_reader(&bytes, PIECE, k), &sink).run();
        let error = error.unwrap_err();
        assert_damaged(&error, "read", Side::Source, k);
        let mut all = contents(&file);
        assert_eq!(error.bytes(), all.len() as u64);
        all.extend_from_slice(error.undelivered());
        assert_same(&all, &bytes[..k * PIECE], &format!("until call {k}"));
    }
}

#[test]
fn a_writer_that_fails_at_any_call_leaves_the_rest_to_the_source() {
    let bytes = pattern(40_000);
    for k in 0..13 {
        let source = file(&bytes);
        let mut accepted = Vec::new();
        let error = Transfer::to_writer(&source, failing_writer(&mut accepted, PIECE, k)).run();
        let error = error.unwrap_err();
        assert_damaged(&error, "write", Side::Sink, k);
        assert_eq!(error.bytes(), (k * PIECE) as u64);
        assert_same(&accepted, &bytes[..k * PIECE], &format!("until call {k}"));
        assert_eq!(cursor(&source), error.bytes());
        assert!(error.undelivered().is_empty());

        let (source, writer) = pipe();
        assert!(write_all(&writer, &bytes));
        drop(writer);
        let mut all = Vec::new();
        let error = Transfer::to_writer(&source, failing_writer(&mut all, PIECE, k)).run();
        let error = error.unwrap_err();
        assert_eq!(error.bytes(), all.len() as u64);
        all.extend_from_slice(error.undelivered());
        all.extend_from_slice(&read_to_end(&source));
        assert_same(&all, &bytes, &format!("until call {k}"));
    }
}

/// The same bytes go to a second transfer.
#[test]
fn a_full_disk_counts_what_it_took_and_hands_the_rest_back() {
    let Some(root) = mount_tmpfs(1) else {
        return;
    };
    let bytes = pattern((3 << 20) + 7);
    for piece in [usize::MAX, 7777] {
        let sink = file_in(&root.dir(), b"");
        let mut reader = InPieces::new(&bytes[..], piece);
        let error = Transfer::from_reader(&mut reader, &sink).run().unwrap_err();
        assert_eq!((error.call(), error.side()), (Some("write"), Side::Sink));
        assert_eq!(error.io_error_kind(), ErrorKind::StorageFull);
        let mut all = contents(&sink);
        assert!(error.bytes() > 500_000);
        assert_eq!(error.bytes(), all.len() as u64);
        let rest = Cursor::new(error.into_undelivered()).chain(reader.inner);
        let more = file(b"");
        Transfer::from_reader(rest, &more).run().unwrap();
        all.extend(contents(&more));
        assert_same(&all, &bytes, "both sinks");
    }
}

/// The range that a write through the second opening has reserved is given back.
#[test]
fn a_full_disk_leaves_the_cursor_of_a_direct_sink_where_it_was() {
    let Some(root) = loop_mount("ext4", 16) else {
        return;
    };
    let filler = file_in(&root.dir(), b"");
    let error = Transfer::from_reader(io::repeat(7), &filler)
        .run()
        .unwrap_err();
    assert_eq!(error.io_error_kind(), ErrorKind::StorageFull);
    assert_eq!(error.bytes(), filler.metadata().unwrap().len());

    // Blocks that ext4 has reserved for its own tables become free. Some files take them.
    let mut files = Vec::new();
    for _ in 0..10_000 {
        let file = file_in(&root.dir(), b"");
        let sink = reopen(&file, OFlags::WRONLY | OFlags::DIRECT);
        files.push(file);
        set_cursor(&sink, 1);
        if let Err(error) = Transfer::from_reader(&b"hello"[..], &sink).run() {
            assert_eq!(error.io_error_kind(), ErrorKind::StorageFull);
            assert_eq!((error.bytes(), error.undelivered()), (0, &b"hello"[..]));
            assert_eq!(cursor(&sink), 1);
            return;
        }
    }
    panic!("the disk is not full");
}

#[test]
fn a_sink_that_takes_nothing_hands_all_back() {
    let error = Transfer::from_reader(&b"hello"[..], full())
        .run()
        .unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, &b"hello"[..]));
    assert_eq!(error.raw_os_error(), Some(28), "ENOSPC");
}

#[test]
fn a_writer_that_accepts_0_bytes_fails() {
    let source = file(b"hello");
    let mut room = [0; 2];
    let error = Transfer::to_writer(&source, &mut room[..])
        .run()
        .unwrap_err();
    assert_eq!((error.call(), error.side()), (Some("write"), Side::Sink));
    assert_eq!(error.io_error_kind(), ErrorKind::WriteZero);
    assert_eq!((error.bytes(), cursor(&source)), (2, 2));
}

/// A writer whose flush fails.
struct Unflushed(Vec<u8>);

impl Write for Unflushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::Error::new(ErrorKind::InvalidData, Damaged(7)))
    }
}

#[test]
fn a_flush_that_fails_counts_every_byte() {
    for limit in [None, Some(5), Some(0)] {
        let source = file(b"hello world");
        let mut writer = Unflushed(Vec::new());
        let error = Transfer::to_writer(&source, &mut writer).limit(limit).run();
        let error = error.unwrap_err();
        assert_damaged(&error, "flush", Side::Sink, 7);
        assert_eq!(
            error.to_string(),
            format!("flush of the sink failed after {} bytes", writer.0.len())
        );
        assert_eq!(error.bytes(), limit.unwrap_or(11));
        assert_eq!(
            writer.0,
            &b"hello world"[..usize::try_from(error.bytes()).unwrap()]
        );
        assert_eq!(cursor(&source), error.bytes());
    }
}

/// A unix socket in blocking mode, whose time-out expires.
#[test]
fn a_source_that_fails_is_blamed_though_the_flush_fails_too_and_its_bytes_are_flushed() {
    let silent = || {
        let (source, mut peer) = UnixStream::pair().unwrap();
        source
            .set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        peer.write_all(b"hello").unwrap();
        (source, peer)
    };
    let (source, _peer) = silent();
    let mut writer = Unflushed(Vec::new());
    let error = Transfer::to_writer(&source, &mut writer).run().unwrap_err();
    assert_eq!((error.call(), error.side()), (Some("read"), Side::Source));
    assert!(error.is_timed_out());
    assert_eq!((error.bytes(), &writer.0[..]), (5, &b"hello"[..]));

    let (source, _peer) = silent();
    let mut writer = InPieces::new(Vec::new(), usize::MAX);
    Transfer::to_writer(&source, &mut writer).run().unwrap_err();
    assert_eq!(writer.n_flushes, 1);
}

#[test]
fn a_writer_that_has_failed_is_not_flushed() {
    let room = &mut [0; 2][..];
    let mut writer = InPieces::new(room, usize::MAX);
    let error = Transfer::to_writer(file(b"hello"), &mut writer)
        .run()
        .unwrap_err();
    assert_eq!((error.bytes(), writer.n_flushes), (2, 0));
}

/// A transfer that went on would spin, or ignore the time-out of a socket inside the reader.
#[test]
fn would_block_ends_a_transfer_and_another_one_continues() {
    let bytes = pattern(100_000);
    let (mut rest, mut n_calls) = (&bytes[..], 0);
    let mut reader = ReadFn(|room: &mut [u8]| {
        n_calls += 1;
        if n_calls % 2 == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let len = room.len().min(9999);
        rest.read(&mut room[..len])
    });
    let sink = file(b"");
    let mut n_bytes = 0;
    let n_failures =
        (0..100).take_while(|_| match Transfer::from_reader(&mut reader, &sink).run() {
            Ok(report) => {
                n_bytes += report.bytes();
                false
            }
            Err(error) => {
                assert!(error.is_timed_out() && !error.is_disconnected());
                assert!(error.undelivered().is_empty());
                n_bytes += error.bytes();
                true
            }
        });
    assert_eq!(n_failures.count(), 11);
    assert_eq!(n_bytes, 100_000);
    assert_same(&contents(&sink), &bytes, "all transfers");

    let mut n_calls = 0;
    let mut written = Vec::new();
    let mut writer = WriteFn(|bytes: &[u8]| {
        n_calls += 1;
        if n_calls % 2 == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        written.write(&bytes[..bytes.len().min(9999)])
    });
    let source = file(&bytes);
    while Transfer::to_writer(&source, &mut writer).run().is_err() {}
    assert_same(&written, &bytes, "all transfers");
}

#[test]
fn the_error_of_a_reader_survives_conversions() {
    let failed = || {
        Transfer::from_reader(failing_reader(b"hello", 5, 1), null())
            .run()
            .unwrap_err()
    };
    assert_eq!(
        failed().to_string(),
        "read from the source failed after 5 bytes"
    );
    let whole = "read from the source failed after 5 bytes: block 1 is damaged";
    assert_eq!(format!("{:#}", failed()), whole);

    let converted = io::Error::from(failed());
    assert_eq!(converted.kind(), ErrorKind::InvalidData);
    assert_eq!(converted.to_string(), whole);
    let original = converted.downcast::<Error>().unwrap();
    let cause = original.io_error().get_ref().unwrap();
    assert_eq!(cause.downcast_ref::<Damaged>(), Some(&Damaged(1)));
}

#[test]
fn errnos_and_kinds_of_a_writer_tell_a_peer_that_has_gone_from_a_time_out() {
    let (reset, timed_out) = (104, 110);
    for (error, errno, disconnected, times_out) in [
        (
            io::Error::from_raw_os_error(reset),
            Some(reset),
            true,
            false,
        ),
        (
            io::Error::from_raw_os_error(timed_out),
            Some(timed_out),
            false,
            true,
        ),
        (ErrorKind::ConnectionReset.into(), None, true, false),
        (
            io::Error::new(ErrorKind::BrokenPipe, "closed by TLS"),
            None,
            true,
            false,
        ),
        (ErrorKind::TimedOut.into(), None, false, true),
        (ErrorKind::UnexpectedEof.into(), None, false, false),
        (io::Error::other("something else"), None, false, false),
    ] {
        let (kind, text) = (error.kind(), error.to_string());
        let mut error = Some(error);
        let writer = WriteFn(|_: &[u8]| Err(error.take().unwrap()));
        let error = Transfer::to_writer(file(b"hello"), writer)
            .run()
            .unwrap_err();
        assert_eq!(error.io_error_kind(), kind);
        assert_eq!(error.raw_os_error(), errno);
        assert_eq!(
            (error.is_disconnected(), error.is_timed_out()),
            (disconnected, times_out)
        );
        let attempt = error.report().attempts()[0].error().unwrap();
        assert_eq!((attempt.kind(), attempt.raw_os_error()), (kind, errno));
        assert_eq!(error.io_error().to_string(), text);
    }
}

#[test]
fn bad_input_is_refused_before_the_reader_is_read() {
    let directory = std::fs::File::open("/").unwrap();
    let (reader, writer) = pipe();
    let unread = || ReadFn(|_: &mut [u8]| -> io::Result<usize> { panic!("nothing is read") });
    let appended = appending(&file(b""));
    let into = |error: zcopy::Result<zcopy::Report>| error.unwrap_err();
    for (error, side, errno) in [
        (
            into(Transfer::from_reader(unread(), &directory).run()),
            Side::Sink,
            21,
        ),
        (
            into(Transfer::from_reader(unread(), &reader).run()),
            Side::Sink,
            9,
        ),
        (
            into(
                Transfer::from_reader(unread(), &writer)
                    .sink_offset(1)
                    .run(),
            ),
            Side::Sink,
            29,
        ),
        (
            into(
                Transfer::from_reader(unread(), &appended)
                    .sink_offset(1)
                    .run(),
            ),
            Side::Sink,
            22,
        ),
        (
            into(Transfer::to_writer(&directory, io::sink()).run()),
            Side::Source,
            21,
        ),
        (
            into(Transfer::to_writer(&writer, io::sink()).run()),
            Side::Source,
            9,
        ),
        (
            into(
                Transfer::to_writer(&reader, io::sink())
                    .source_offset(1)
                    .run(),
            ),
            Side::Source,
            29,
        ),
    ] {
        assert!(error.is_refused(), "{error:#}");
        assert_eq!(
            (error.side(), error.raw_os_error()),
            (side, Some(errno)),
            "{error:#}"
        );
        assert_eq!(error.report().strategy(), None);
    }
}

#[test]
fn a_reader_of_a_pipe_that_has_gone_is_told() {
    let (reader, sink) = pipe();
    drop(reader);
    let error = Transfer::from_reader(&b"hello"[..], &sink)
        .run()
        .unwrap_err();
    assert!(error.is_disconnected());
    assert_eq!(error.undelivered(), b"hello");
}
