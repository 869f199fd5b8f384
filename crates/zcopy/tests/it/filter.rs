//! `FilterTransfer` on the real kernel: every kind of source and sink, files that are read ahead,
//! and errors.

mod direct;
mod errors;
mod read_ahead;
mod syscalls_and_allocations;
mod waiting;

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use rustix::net::SocketType;
use zcopy::{Ended, Filter, FilterTransfer, Filtered, Input, Remaining, Strategy};

use crate::endpoints::{Sink, SinkKind, Source, SourceKind, pipe, terminal, unix};
use crate::every_pair::LARGE;
use crate::files::{assert_same, cursor, pattern, read_to_end, write_all};
use crate::mounts::Fs;

/// The sources that end and whose bytes are the same at each read.
const SOURCES: [SourceKind; 14] = [
    SourceKind::Regular(Fs::Ext4),
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::Regular(Fs::Btrfs),
    SourceKind::Regular(Fs::Xfs),
    SourceKind::ProcVersion,
    SourceKind::Sysfs,
    SourceKind::Memfd,
    SourceKind::Pipe,
    SourceKind::Fifo,
    SourceKind::Tcp,
    SourceKind::UnixStream,
    SourceKind::UnixDatagram,
    SourceKind::UnixSeqpacket,
    SourceKind::Block,
];

/// Inverts as many bytes as the output has room for.
pub(crate) fn toggle(input: Input<'_>, output: &mut [u8]) -> Filtered {
    let n = input.bytes.len().min(output.len());
    output[..n].copy_from_slice(&input.bytes[..n]);
    toggle_all(&mut output[..n]);
    Filtered {
        consumed: n,
        produced: n,
    }
}

fn toggled(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    toggle_all(&mut bytes);
    bytes
}

/// Eight bytes at a time, because tests are not optimized.
fn toggle_all(bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut();
    for word in words {
        *word = (!u64::from_ne_bytes(*word)).to_ne_bytes();
    }
    for byte in rest {
        *byte = !*byte;
    }
}

/// Writes `> ` before every line, one line per call. A line that is too long for the buffers is
/// filtered in parts.
#[derive(Debug, Default)]
struct QuoteLines {
    is_in_line: bool,
}

impl Filter for QuoteLines {
    fn filter(&mut self, input: Input<'_>, output: &mut [u8]) -> Filtered {
        let end = input.bytes.iter().position(|byte| *byte == b'\n');
        let line = match (end, input.remaining) {
            (Some(end), _) => &input.bytes[..=end],
            (None, Remaining::More) => return Filtered::NEED_MORE,
            (None, _) if input.bytes.is_empty() => return Filtered::NEED_MORE,
            (None, _) => input.bytes,
        };
        let prefix: &[u8] = if self.is_in_line { b"" } else { b"> " };
        let consumed = line.len().min(output.len() - prefix.len());
        let quoted = [prefix, &line[..consumed]].concat();
        output[..quoted.len()].copy_from_slice(&quoted);
        self.is_in_line = line[consumed - 1] != b'\n';
        Filtered {
            consumed,
            produced: quoted.len(),
        }
    }
}

fn quoted(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut quoted = Vec::with_capacity(bytes.len() * 2);
    for line in lines {
        quoted.extend_from_slice(b"> ");
        quoted.extend_from_slice(line);
    }
    quoted
}

/// All bytes that a source will give. If the source has bytes of its own, they are read at offsets,
/// which consumes nothing.
fn data(source: &Source, bytes: &[u8]) -> Vec<u8> {
    if !source.kind.has_own_bytes() && source.kind != SourceKind::Block {
        return bytes.to_vec();
    }
    let file = File::from(source.fd.try_clone().unwrap());
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        match file.read_at(&mut buffer, all.len() as u64).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buffer[..n]),
        }
    }
}

#[test]
fn every_source_is_filtered_for_every_sink() {
    for kind in SOURCES {
        for to in SinkKind::ALL {
            for len in [0, 1, 70_001, LARGE] {
                // A terminal is slow.
                if to == SinkKind::Terminal && (len > 10_000 || kind == SourceKind::Block) {
                    continue;
                }
                let what = format!("{len} bytes, {kind:?} to {to:?}");
                let bytes = pattern(len);
                let (Some(source), Some(sink)) = (Source::new(kind, &bytes), Sink::new(to)) else {
                    continue;
                };
                let data = data(&source, &bytes);
                let mut filter = FilterTransfer::new(&sink.fd, toggle);
                let report = filter.run(&source.fd);
                let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                let n = data.len() as u64;
                assert_eq!((report.bytes(), report.ended()), (n, Ended::Eof), "{what}");
                assert_eq!(report.strategy(), Strategy::Buffered, "{what}");
                assert_eq!(filter.finish().unwrap().bytes(), 0, "{what}");
                assert!(source.cursor().is_none_or(|cursor| cursor == n), "{what}");
                if let Some(cursor) = sink.cursor() {
                    let head = if to == SinkKind::Append { 12 } else { 0 };
                    assert_eq!(cursor, if n == 0 { 0 } else { n + head }, "{what}");
                }
                if let Some(arrived) = sink.into_bytes(n) {
                    assert_same(&arrived, &toggled(&data), &what);
                }
            }
        }
    }
}

/// A line may begin in one source and end in the next, whatever their kinds.
#[test]
fn lines_that_are_made_longer_arrive_whole() {
    for to in [SinkKind::Pipe, SinkKind::Tcp, SinkKind::Regular(Fs::Tmpfs)] {
        let sink = Sink::new(to).unwrap();
        let mut filter = FilterTransfer::new(&sink.fd, QuoteLines::default());
        let (mut all, mut n) = (Vec::new(), 0);
        for kind in SOURCES {
            for len in [100, 70_001, LARGE] {
                let bytes = pattern(len);
                let Some(source) = Source::new(kind, &bytes) else {
                    continue;
                };
                all.extend(data(&source, &bytes));
                n += filter.run(&source.fd).unwrap().bytes();
            }
        }
        n += filter.finish().unwrap().bytes();
        let expected = quoted(&all);
        assert_eq!(n, expected.len() as u64);
        assert_same(&sink.into_bytes(n).unwrap(), &expected, "quoted lines");
    }
}

/// Control-D ends one run of the filter. Bytes that are typed later are another source.
#[test]
fn a_terminal_is_filtered_line_by_line_until_its_end() {
    let (user, screen) = terminal();
    let mut termios = rustix::termios::tcgetattr(&screen).unwrap();
    termios.local_modes |= rustix::termios::LocalModes::ICANON;
    let now = rustix::termios::OptionalActions::Now;
    rustix::termios::tcsetattr(&screen, now, &termios).unwrap();
    let (reader, sink) = pipe();
    let mut filter = FilterTransfer::new(&sink, QuoteLines::default());
    for (typed, n) in [("one\ntwo\n\x04", 12), ("three\n\x04", 8)] {
        assert!(write_all(&user, typed.as_bytes()));
        assert_eq!(filter.run(&screen).unwrap().bytes(), n);
    }
    filter.finish().unwrap();
    drop(sink);
    assert_eq!(read_to_end(&reader), b"> one\n> two\n> three\n");
}

/// Most socket families refuse a message of 256 KiB.
#[test]
fn messages_are_at_most_32_kib_long() {
    for socket_type in [SocketType::SEQPACKET, SocketType::DGRAM] {
        let (collect, sink) = unix(socket_type);
        let bytes = pattern(LARGE);
        let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
        let collector = std::thread::spawn(move || {
            let (mut arrived, mut longest) = (Vec::new(), 0);
            while arrived.len() < LARGE {
                let mut message = vec![0; 1 << 20];
                let n = rustix::io::read(&collect, &mut message).unwrap();
                longest = longest.max(n);
                arrived.extend_from_slice(&message[..n]);
            }
            (arrived, longest)
        });
        FilterTransfer::new(&sink, toggle).run(&source.fd).unwrap();
        let (arrived, longest) = collector.join().unwrap();
        assert_eq!(longest, 32 << 10);
        assert_same(&arrived, &toggled(&bytes), "messages");
    }
}

#[test]
fn nothing_changes_on_the_caller_s_descriptors_but_cursors_and_the_size_of_pipes() {
    let flags_of = |fd: &OwnedFd| {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        (flags, rustix::io::fcntl_getfd(fd).unwrap())
    };
    let bytes = pattern(LARGE);
    for (from, to) in [
        (SourceKind::Pipe, SinkKind::Pipe),
        (SourceKind::Memfd, SinkKind::Regular(Fs::Ext4)),
        (SourceKind::Tcp, SinkKind::Tcp),
    ] {
        let (source, sink) = (Source::new(from, &bytes).unwrap(), Sink::new(to).unwrap());
        let before = (flags_of(&source.fd), flags_of(&sink.fd));
        let report = FilterTransfer::new(&sink.fd, toggle)
            .run(&source.fd)
            .unwrap();
        assert_eq!((flags_of(&source.fd), flags_of(&sink.fd)), before);
        let grown = from.is_pipe().then_some(1 << 20);
        assert_eq!((report.grown_source(), report.grown_sink()), (grown, grown));
    }
}

/// A file that is source and sink stays as it is, also where the ranges would not overlap if the
/// filter wrote as much as it read.
#[test]
fn a_file_is_not_filtered_into_itself() {
    let file = crate::files::file(&pattern(10_000));
    let sink = crate::files::reopen(&file, OFlags::WRONLY);
    for (from, to) in [(0, 0), (0, 5000), (6000, 0), (0, 10_000)] {
        crate::files::set_cursor(&file, from);
        crate::files::set_cursor(&sink, to);
        let error = FilterTransfer::new(&sink, toggle).run(&file).unwrap_err();
        assert!(error.is_refused(), "{from} to {to}");
        assert_eq!(error.side(), zcopy::Side::Neither);
        assert_eq!((cursor(&file), cursor(&sink)), (from, to));
    }
    crate::files::set_cursor(&file, 10_000);
    let report = FilterTransfer::new(&sink, toggle).run(&file).unwrap();
    assert_eq!(report.bytes(), 0, "there is nothing left");
    assert_same(&crate::files::contents(&file), &pattern(10_000), "the file");

    let (reader, writer) = pipe();
    let error = FilterTransfer::new(&writer, toggle)
        .run(&reader)
        .unwrap_err();
    assert!(error.is_refused());
    let error = FilterTransfer::new(&reader, toggle).run(reader.as_fd());
    assert_eq!(error.unwrap_err().raw_os_error(), Some(9), "EBADF");
}

#[test]
fn a_plan_has_a_line_for_every_strategy_and_says_why() {
    let source = Source::new(SourceKind::Memfd, b"x").unwrap();
    for kind in SinkKind::ALL {
        let Some(sink) = Sink::new(kind) else {
            continue;
        };
        let plan = FilterTransfer::new(&sink.fd, toggle)
            .plan(&source.fd)
            .unwrap();
        assert_eq!(plan.strategy(), Strategy::Buffered);
        assert_eq!(plan.candidates().len(), 6, "{plan}");
        assert!(!plan.shares_pages());
        let text = plan.to_string();
        assert!(
            text.contains("the filter changes bytes, so they must be read and written"),
            "{text}"
        );
    }
}
