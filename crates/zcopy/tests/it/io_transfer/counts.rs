//! Every byte arrives once, and is counted, whatever the descriptor is.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::net::SocketType;
use zcopy::{Ended, Report, Strategy, Transfer};

use super::{BUFFER, InPieces, LENGTHS, PIECES};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, pipe, unix};
use crate::files::{
    assert_same, contents, cursor, file_in, pattern, read_each, reopen, set_cursor,
};
use crate::mounts::Fs;

const SINKS: [SinkKind; 9] = [
    SinkKind::Regular(Fs::Ext4),
    SinkKind::Regular(Fs::Tmpfs),
    SinkKind::Append,
    SinkKind::Pipe,
    SinkKind::Fifo,
    SinkKind::Tcp,
    SinkKind::UnixStream,
    SinkKind::Null,
    SinkKind::Terminal,
];

const SOURCES: [SourceKind; 9] = [
    SourceKind::Regular(Fs::Ext4),
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::Memfd,
    SourceKind::Pipe,
    SourceKind::Fifo,
    SourceKind::Tcp,
    SourceKind::UnixStream,
    SourceKind::UnixDatagram,
    SourceKind::UnixSeqpacket,
];

/// Lengths for a piece: millions of calls with one byte each would take long.
fn lengths(piece: usize, is_slow: bool) -> impl Iterator<Item = usize> {
    let most = match piece {
        1 => 4097,
        _ if is_slow => BUFFER + 1,
        _ => usize::MAX,
    };
    LENGTHS.into_iter().filter(move |len| *len <= most)
}

fn set_nonblocking(fd: impl AsFd) {
    let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
    rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK).unwrap();
}

#[track_caller]
fn assert_moved_all(report: &Report, len: usize, what: &str) {
    assert_eq!(report.bytes(), len as u64, "{what}");
    assert_eq!(report.ended(), Ended::Eof, "{what}");
    assert_eq!(report.strategy(), Some(Strategy::Buffered), "{what}");
    assert_eq!(report.attempts().len(), 1, "{what}");
    assert_eq!(report.attempts()[0].bytes(), len as u64, "{what}");
    assert!(report.undelivered().is_empty(), "{what}");
}

/// How the transfer waits for the descriptor: within its calls, in a poll before each call, or in a
/// poll after a call.
#[derive(Clone, Copy, Debug)]
enum Waits {
    Within,
    Before,
    After,
}

const WAITS: [Waits; 3] = [Waits::Within, Waits::Before, Waits::After];

#[test]
fn every_kind_of_sink_gets_the_bytes_of_a_reader() {
    for (kind, waits) in SINKS.into_iter().flat_map(|kind| WAITS.map(|w| (kind, w))) {
        for piece in PIECES {
            for len in lengths(piece, kind == SinkKind::Terminal) {
                let what = format!("{kind:?}, {waits:?}, {len} bytes in pieces of {piece}");
                let Some(sink) = Sink::new(kind) else {
                    break;
                };
                let before = sink.cursor().unwrap_or(0);
                if matches!(waits, Waits::After) {
                    set_nonblocking(&sink.fd);
                }
                let bytes = pattern(len);
                let reader = InPieces::new(&bytes[..], piece);
                let mut transfer = Transfer::from_reader(reader, &sink.fd);
                if matches!(waits, Waits::Before) {
                    transfer = transfer.idle_timeout(Duration::from_secs(60));
                }
                assert_moved_all(&transfer.run().unwrap(), len, &what);
                if kind != SinkKind::Append {
                    let moved = sink.cursor().map(|after| after - before);
                    assert!(moved.is_none_or(|moved| moved == len as u64), "{what}");
                }
                if let Some(arrived) = sink.into_bytes(len as u64) {
                    assert_same(&arrived, &bytes, &what);
                }
            }
        }
    }
}

#[test]
fn a_writer_gets_the_bytes_of_every_kind_of_source() {
    for (kind, waits) in SOURCES
        .into_iter()
        .flat_map(|kind| WAITS.map(|w| (kind, w)))
    {
        for piece in PIECES {
            for len in lengths(piece, false) {
                let what = format!("{kind:?}, {waits:?}, {len} bytes in pieces of {piece}");
                let bytes = pattern(len);
                let Some(source) = Source::new(kind, &bytes) else {
                    break;
                };
                if matches!(waits, Waits::After) {
                    set_nonblocking(&source.fd);
                }
                let mut writer = InPieces::new(Vec::new(), piece);
                let mut transfer = Transfer::to_writer(&source.fd, &mut writer);
                if matches!(waits, Waits::Before) {
                    transfer = transfer.idle_timeout(Duration::from_secs(60));
                }
                assert_moved_all(&transfer.run().unwrap(), len, &what);
                assert_same(&writer.inner, &bytes, &what);
                assert_eq!(writer.n_flushes, 1, "{what}");
                let cursor = source.cursor();
                assert!(cursor.is_none_or(|cursor| cursor == len as u64), "{what}");
            }
        }
    }
}

/// A whole block is written directly, and the rest through a second opening.
#[test]
fn a_direct_sink_takes_any_length_at_any_offset_from_a_reader() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    for start in [0, 1, 4096, 70_001] {
        for (piece, len) in PIECES
            .into_iter()
            .flat_map(|p| lengths(p, false).map(move |l| (p, l)))
        {
            let what = format!("{len} bytes at {start}, in pieces of {piece}");
            let bytes = pattern(len);
            let file = file_in(&dir, b"");
            let sink = reopen(&file, OFlags::WRONLY | OFlags::DIRECT);
            set_cursor(&sink, start);
            let reader = InPieces::new(&bytes[..], piece);
            let report = Transfer::from_reader(reader, &sink).run().unwrap();
            assert_moved_all(&report, len, &what);
            assert_eq!(cursor(&sink), start + len as u64, "{what}");
            let arrived = contents(&file);
            let arrived = arrived.get(usize::try_from(start).unwrap()..);
            assert_same(arrived.unwrap_or_default(), &bytes, &what);
        }
    }
}

#[test]
fn a_direct_sink_gets_whole_blocks_of_single_bytes() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(3 * 4096 + 1);
    let sink = reopen(&file_in(&dir, b""), OFlags::WRONLY | OFlags::DIRECT);
    let reader = InPieces::new(&bytes[..], 1);
    let report = Transfer::from_reader(reader, &sink).run().unwrap();
    assert_moved_all(&report, bytes.len(), "single bytes");
    let n_reads = bytes.len() as u64 + 1;
    assert_eq!(
        report.attempts()[0].calls(),
        n_reads + 4,
        "a write for each block"
    );
}

#[test]
fn a_direct_source_is_read_wherever_its_cursor_is_for_a_writer() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    for (start, len) in [0, 1, 511, 4096, 70_001]
        .into_iter()
        .flat_map(|s| LENGTHS.map(|l| (s, l)))
    {
        let what = format!("{len} bytes at {start}");
        let bytes = pattern(start + len);
        let file = file_in(&dir, &bytes);
        let source = reopen(&file, OFlags::RDONLY | OFlags::DIRECT);
        set_cursor(&source, start as u64);
        let mut written = Vec::new();
        let report = Transfer::to_writer(&source, &mut written).run().unwrap();
        assert_moved_all(&report, len, &what);
        assert_same(&written, &bytes[start..], &what);
        assert_eq!(cursor(&source), (start + len) as u64, "{what}");
    }
}

/// Sends the bytes of a reader as messages. Returns the messages.
fn sent_as_messages(socket_type: SocketType, bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (receiver, sink) = unix(socket_type);
    let messages = std::thread::spawn(move || {
        let mut messages = Vec::new();
        read_each(&receiver, |message| messages.push(message.to_vec()));
        messages
    });
    let reader = InPieces::new(bytes, piece);
    let report = Transfer::from_reader(reader, &sink).run().unwrap();
    let what = format!("{} bytes in pieces of {piece}", bytes.len());
    assert_moved_all(&report, bytes.len(), &what);
    // An empty message ends a socket for datagrams, and the end of the connection one for packets.
    let _ = rustix::net::send(&sink, b"", rustix::net::SendFlags::NOSIGNAL);
    drop(sink);
    messages.join().unwrap()
}

#[test]
fn a_message_has_the_bytes_of_one_read_and_at_most_32_kib() {
    for socket_type in [SocketType::DGRAM, SocketType::SEQPACKET] {
        for (piece, len) in PIECES
            .into_iter()
            .flat_map(|p| lengths(p, false).map(move |l| (p, l)))
        {
            let bytes = pattern(len);
            let messages = sent_as_messages(socket_type, &bytes, piece);
            let longest = piece.min(32 << 10);
            let what = format!("{len} bytes in pieces of {piece}");
            assert_same(&messages.concat(), &bytes, &what);
            assert_eq!(messages.len(), len.div_ceil(longest), "{what}");
            assert!(
                messages.iter().all(|message| message.len() <= longest),
                "{what}"
            );
        }
    }
}

#[test]
fn parts_of_a_file_are_written_and_read_at_offsets_and_its_cursor_stays() {
    let Some(dir) = Fs::Tmpfs.dir() else {
        return;
    };
    let file = file_in(&dir, &[b'.'; 20]);
    set_cursor(&file, 3);
    let into = Transfer::from_reader(&b"hello"[..], &file).sink_offset(10);
    assert_eq!(into.run().unwrap().bytes(), 5);
    assert_eq!(contents(&file), b"..........hello.....");
    let mut written = Vec::new();
    let out = Transfer::to_writer(&file, &mut written)
        .source_offset(8)
        .limit(9);
    assert_eq!(out.run().unwrap().bytes(), 9);
    assert_eq!(written, b"..hello..");
    assert_eq!(cursor(&file), 3);
}

/// Ends that are owned, borrowed, or behind a `dyn`.
#[test]
fn ends_may_be_owned_or_borrowed() {
    let (source, sink) = pipe();
    let mut reader: Box<dyn std::io::Read> = Box::new(&b"hello"[..]);
    Transfer::from_reader(&mut reader, sink).run().unwrap();
    let mut written = Vec::new();
    let mut writer: &mut dyn std::io::Write = &mut written;
    Transfer::to_writer(source, &mut writer).run().unwrap();
    assert_eq!(written, b"hello");
}

/// The types of the ends decide.
#[test]
fn a_transfer_can_be_sent_if_its_ends_can() {
    fn assert_send<T: Send>(_: &T) {}
    let (source, sink): (OwnedFd, OwnedFd) = pipe();
    let from =
        Transfer::from_reader(&b"hello"[..], sink).observe(|_| std::ops::ControlFlow::Break(()));
    assert_send(&from);
    let to = Transfer::to_writer(source, Vec::new()).inspect(|_| ());
    assert_send(&to);
}

#[test]
fn a_step_allocates_nothing() {
    let null = File::create("/dev/null").unwrap();
    let zeros = File::open("/dev/zero").unwrap();
    let allocated = |bytes: u64| {
        let from = allocation_counter::measure(|| {
            let reader = std::io::repeat(7);
            Transfer::from_reader(reader, &null)
                .limit(bytes)
                .run()
                .unwrap();
        });
        let to = allocation_counter::measure(|| {
            let writer = std::io::sink();
            Transfer::to_writer(&zeros, writer)
                .limit(bytes)
                .run()
                .unwrap();
        });
        [from, to].map(|info| (info.count_total, info.bytes_max))
    };
    let (few, many) = (allocated(1 << 20), allocated(256 << 20));
    assert_eq!(few, many, "256 times the bytes");
    for (_, most) in many {
        assert!(most <= (BUFFER + 4096) as u64, "{most} bytes");
    }
}
