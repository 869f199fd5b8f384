//! Sources and sinks that are not ready.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use zcopy::{FilterTransfer, Side};

use super::{LARGE, QuoteLines, quoted, toggle};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, pipe, tcp};
use crate::files::{assert_same, pattern, read_to_end, write_all};
use crate::mounts::Fs;

#[test]
fn both_modes_work_on_both_sides() {
    let bytes = pattern(LARGE);
    let expected = quoted(&bytes);
    let modes = [OFlags::empty(), OFlags::NONBLOCK];
    for from in [
        SourceKind::Pipe,
        SourceKind::Fifo,
        SourceKind::Tcp,
        SourceKind::UnixStream,
        SourceKind::UnixSeqpacket,
        SourceKind::Memfd,
    ] {
        for to in [
            SinkKind::Pipe,
            SinkKind::Fifo,
            SinkKind::Tcp,
            SinkKind::UnixStream,
            SinkKind::Regular(Fs::Tmpfs),
        ] {
            for (source_mode, sink_mode) in modes.into_iter().flat_map(|a| modes.map(|b| (a, b))) {
                let what = format!("{from:?} {source_mode:?} to {to:?} {sink_mode:?}");
                let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(to)) else {
                    continue;
                };
                rustix::fs::fcntl_setfl(&source.fd, source_mode).unwrap();
                rustix::fs::fcntl_setfl(&sink.fd, sink_mode).unwrap();
                let mut filter = FilterTransfer::new(&sink.fd, QuoteLines::default());
                let report = filter.run(&source.fd);
                let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                let rest = filter.finish().unwrap();
                let n = report.bytes() + rest.bytes();
                assert_eq!(n, expected.len() as u64, "{what}");
                assert_same(&sink.into_bytes(n).unwrap(), &expected, &what);
            }
        }
    }
}

/// The writer sends a line after it has read the line before. If the transfer held a line back,
/// both would wait for ever.
#[test]
fn a_line_is_written_before_the_next_is_waited_for() {
    for mode in [OFlags::empty(), OFlags::NONBLOCK] {
        let ((source, question), (answer, sink)) = (pipe(), pipe());
        rustix::fs::fcntl_setfl(&source, mode).unwrap();
        rustix::fs::fcntl_setfl(&sink, mode).unwrap();
        let writer = std::thread::spawn(move || {
            let mut answers = BufReader::new(File::from(answer)).lines();
            for n in 0..300 {
                assert!(write_all(&question, format!("line {n}\nand").as_bytes()));
                let expected = match n {
                    0 => "> line 0".to_owned(),
                    n => format!("> andline {n}"),
                };
                assert_eq!(answers.next().unwrap().unwrap(), expected);
            }
        });
        FilterTransfer::new(&sink, QuoteLines::default())
            .run(&source)
            .unwrap();
        writer.join().unwrap();
    }
}

#[test]
fn the_output_for_one_source_is_written_before_the_next_is_read() {
    let (reader, sink) = pipe();
    let mut filter = FilterTransfer::new(&sink, toggle);
    for n in [1, 5000, 60_000] {
        let bytes = pattern(n);
        let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
        filter.run(&source.fd).unwrap();
        assert_eq!(rustix::io::ioctl_fionread(&reader), Ok(n as u64));
        let mut arrived = vec![0; n];
        std::io::Read::read_exact(&mut &File::from(reader.try_clone().unwrap()), &mut arrived)
            .unwrap();
    }
}

#[test]
fn the_socket_s_own_time_out_ends_the_transfer() {
    let (source, _feeder) = tcp();
    let soon = Some(Duration::from_millis(20));
    set_socket_timeout(&source, Timeout::Recv, soon).unwrap();
    let sink = crate::files::file(b"");
    let error = FilterTransfer::new(&sink, toggle).run(&source).unwrap_err();
    assert_eq!(error.side(), Side::Source);
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);

    let (reader, sink) = tcp();
    set_socket_timeout(&sink, Timeout::Send, soon).unwrap();
    let bytes = pattern(64 << 20);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let error = FilterTransfer::new(&sink, toggle)
        .run(&source.fd)
        .unwrap_err();
    assert_eq!(error.side(), Side::Sink);
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
    drop(sink);
    assert_eq!(read_to_end(&reader).len() as u64, error.bytes());
    let consumed = crate::files::cursor(&source.fd);
    assert_eq!(consumed, error.bytes() + error.undelivered().len() as u64);
}
