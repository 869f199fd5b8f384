//! Bytes in front of those of the source arrive first, once, or are handed back.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::net::SocketType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Ended, Relay, Side, Sparse, Transfer, copy_buffered};

use crate::endpoints::{tcp, unix};
use crate::files::{assert_same, cursor, file, pattern};
use crate::own_process::is_own_process;

const PREFIX: &[u8] = b"the head\n";

#[test]
fn a_prefix_comes_before_the_bytes_of_every_source_and_counts() {
    let body = pattern(200_000);
    for limit in [None, Some(0), Some(10), Some(100_000)] {
        let len = limit.map_or(body.len(), |limit: u64| limit as usize);
        let expected = [PREFIX, &body[..len]].concat();

        let (sink, peer) = tcp();
        let reading = std::thread::spawn(move || read(File::from(peer)));
        let transfer = Transfer::new(file(&body), sink).prefix(PREFIX).limit(limit);
        let report = transfer.run().unwrap();
        assert_eq!(report.bytes(), expected.len() as u64);
        assert!(reading.join().unwrap() == expected, "{limit:?}: {report}");

        let (source, writer) = std::io::pipe().unwrap();
        let (reader, sink) = std::io::pipe().unwrap();
        let body = body.clone();
        let writing = std::thread::spawn(move || (&writer).write_all(&body));
        let reading = std::thread::spawn(move || read(reader));
        let transfer = Transfer::new(source, sink).prefix(PREFIX).limit(limit);
        let report = transfer.run().unwrap();
        assert!(reading.join().unwrap() == expected, "{limit:?}: {report}");
        // With a limit the transfer closes the pipe before everything has been written.
        let _ = writing.join().unwrap();
    }
}

fn read(mut reader: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_transfer_that_is_refused_hands_the_prefix_back() {
    let null = || File::open("/dev/null").unwrap();
    let refused = || Transfer::new(null(), null()).prefix(PREFIX);
    let error = refused().run().unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, PREFIX));
    let error = refused().start().unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, PREFIX));

    let several = refused().also_to(File::create("/dev/null").unwrap());
    let error = several.run().unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, PREFIX));

    let directory = File::open("/").unwrap();
    let sink = File::create("/dev/null").unwrap();
    let error = Transfer::new(directory, sink)
        .prefix(PREFIX)
        .run()
        .unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, PREFIX));
}

#[test]
fn buffered_bytes_are_handed_back_if_its_copy_is_refused() {
    let (source, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"a line\nthe body").unwrap();
    let mut reader = BufReader::new(source);
    reader.read_line(&mut String::new()).unwrap();
    let read_only = File::open("/dev/null").unwrap();
    let error = copy_buffered(&mut reader, read_only).unwrap_err();
    assert_eq!(error.undelivered(), b"the body");
}

#[test]
fn a_relay_that_is_refused_hands_both_prefixes_back() {
    let (a, _peer) = UnixStream::pair().unwrap();
    for (b, refused) in [
        (File::open("/dev/null").unwrap(), Side::Sink),
        (File::create("/dev/null").unwrap(), Side::Source),
        (file(b"a file"), Side::Sink),
    ] {
        let relay = Relay::new(&a, b)
            .prefix_from_a(PREFIX)
            .prefix_from_b("the tail");
        let error = relay.run().unwrap_err();
        assert_eq!((error.side(), error.bytes()), (refused, 0), "{error}");
        let report = error.relay_report().unwrap();
        assert_eq!(report.a_to_b().undelivered(), PREFIX);
        assert_eq!(report.b_to_a().undelivered(), b"the tail");
        let of_direction = if refused == Side::Sink {
            PREFIX
        } else {
            b"the tail"
        };
        assert_eq!(error.undelivered(), of_direction);
        let address = error.undelivered().as_ptr();
        let moved = error.into_undelivered();
        assert_eq!(moved.as_ptr(), address, "they are copied");
    }
}

/// A copy could find no memory, and the process would be aborted.
#[test]
fn a_failed_session_shares_the_bytes_that_its_error_hands_back() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let transfer = Transfer::new(file(b""), full).prefix(PREFIX);
    let mut session = transfer.start().unwrap();
    let error = session.step(1000).unwrap_err();
    let report = session.finish().unwrap();
    assert_eq!(error.undelivered(), PREFIX);
    assert!(std::ptr::eq(error.undelivered(), report.undelivered()));
    drop(error);
    let bytes = report.undelivered().as_ptr();
    assert!(std::ptr::eq(report.into_undelivered().as_ptr(), bytes));
}

#[test]
fn a_sink_that_fails_within_the_prefix_hands_the_rest_back_and_reads_nothing() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut source = file(&pattern(100));
    let transfer = Transfer::new(source.try_clone().unwrap(), full).prefix(PREFIX);
    let error = transfer.run().unwrap_err();
    assert_eq!((error.bytes(), error.undelivered()), (0, PREFIX));
    assert_eq!(error.report().ended(), Ended::Failed);
    assert_eq!(read(&mut source), pattern(100));
}

#[test]
fn a_long_prefix_goes_to_a_datagram_socket_in_messages_of_32_kib() {
    let (receiver, sink) = unix(SocketType::DGRAM);
    let bytes = pattern(40_100);
    let (prefix, rest) = bytes.split_at(40_000);
    let source = file(rest);
    let report = Transfer::new(&source, &sink).prefix(prefix).run().unwrap();
    assert_eq!(report.bytes(), bytes.len() as u64);
    let mut message = vec![0; bytes.len()];
    let mut arrived = Vec::new();
    for len in [32 << 10, 40_000 - (32 << 10), 100] {
        assert_eq!(rustix::io::read(&receiver, &mut message), Ok(len));
        arrived.extend_from_slice(&message[..len]);
    }
    assert_same(&arrived, &bytes, "the receiver");
}

/// It went as one message, as long as it was, and counted as one record.
#[test]
fn a_prefix_between_datagram_sockets_goes_in_messages_of_32_kib_and_in_its_records() {
    let (writer, source) = unix(SocketType::DGRAM);
    let (receiver, sink) = unix(SocketType::DGRAM);
    let prefix = [&pattern(40_000)[..], b"\n"].concat();
    rustix::io::write(&writer, b"a message\n").unwrap();
    let transfer = Transfer::new(&source, &sink).prefix(prefix.clone());
    let report = transfer.limit(10).run().unwrap();
    assert_eq!(report.bytes(), prefix.len() as u64 + 10);
    let mut message = vec![0; prefix.len()];
    let mut arrived = Vec::new();
    for len in [32 << 10, prefix.len() - (32 << 10), 10] {
        assert_eq!(rustix::io::read(&receiver, &mut message), Ok(len));
        arrived.extend_from_slice(&message[..len]);
    }
    assert_same(
        &arrived,
        &[&prefix[..], b"a message\n"].concat(),
        "the receiver",
    );

    let transfer = Transfer::new(&source, &sink).prefix("one\ntwo\nthree\n");
    let report = transfer.record_limit(2).run().unwrap();
    assert_eq!((report.records(), report.bytes()), (2, 8));
    assert_eq!(report.undelivered(), b"three\n");
    assert_eq!(rustix::io::read(&receiver, &mut message), Ok(8));
}

/// They were taken for zeros of the source, whose cursor went back over bytes that were not read.
#[test]
fn zeros_of_a_prefix_come_back_if_the_last_hole_cannot_be_made() {
    let name = "prefix::zeros_of_a_prefix_come_back_if_the_last_hole_cannot_be_made";
    if !is_own_process(name, |_| ()) {
        return;
    }
    let zeros = vec![0; 65_536];
    // The limit ends the transfer within the prefix, and behind zeros of the source.
    for (limit, of_source) in [(0, 0), (20_000, 20_000)] {
        let source = file(&[&pattern(100_000)[..], &vec![0; 100_000]].concat());
        rustix::fs::seek(&source, rustix::fs::SeekFrom::Start(100_000)).unwrap();
        let sink = file(&[1; 4096]);
        let usual = getrlimit(Resource::Fsize);
        let current = Some(4096);
        setrlimit(Resource::Fsize, Rlimit { current, ..usual }).unwrap();
        let transfer = Transfer::new(&source, &sink).prefix(zeros.clone());
        let outcome = transfer.sparse(Sparse::Detect).limit(limit).run();
        setrlimit(Resource::Fsize, usual).unwrap();
        let error = outcome.unwrap_err();
        let (n, left) = (error.bytes() as usize, cursor(&source) as usize - 100_000);
        assert!(n < zeros.len() && left <= of_source, "{error:#}");
        let returned = zeros.len() - n + left;
        assert_eq!(error.undelivered(), vec![0; returned], "{error:#}");
    }
}
