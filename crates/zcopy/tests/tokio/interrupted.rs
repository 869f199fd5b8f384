//! A future that is dropped at any point loses and doubles nothing.

use std::io::{Read, Seek};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use zcopy::tokio::AsyncEnd;
use zcopy::{Ended, Report, Result, Session, Transfer};

use crate::support::{
    block_on, bytes, drain, feed, file, polled_at_most, tcp_pair, tokio_tcp, tokio_unix,
};

/// More than the buffers of a socket and of a pipe hold.
const LEN: usize = (8 << 20) + 7;

/// How often a future is polled before it is dropped.
const POLLS: [usize; 5] = [1, 2, 3, 7, usize::MAX];

/// Drives a session by futures of which each is polled `polls` times. Between two of them stands
/// one that is never polled.
async fn drive<Source: AsyncEnd, Sink: AsyncEnd>(
    session: &mut Session<'static, Source, Sink>,
    polls: usize,
) -> Result<Ended> {
    loop {
        assert!(polled_at_most(0, session.drive_async()).await.is_none());
        if let Some(ended) = polled_at_most(polls, session.drive_async()).await {
            return ended;
        }
        tokio::task::yield_now().await;
    }
}

/// Drives a transfer to its end and returns its report.
async fn run<Source: AsyncEnd, Sink: AsyncEnd>(
    transfer: Transfer<'static, Source, Sink>,
    polls: usize,
) -> Report {
    let mut session = transfer.start().unwrap();
    assert_eq!(drive(&mut session, polls).await.unwrap(), Ended::Eof);
    session.finish().unwrap()
}

fn check(report: &Report, found: &[u8], expected: &[u8], polls: usize) {
    assert!(found == expected, "polled {polls} times: {report}");
    assert_eq!(report.bytes(), expected.len() as u64, "{report}");
    assert!(report.undelivered().is_empty());
}

#[test]
fn tcp_to_tcp_is_exact_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
        let (feeding, draining) = (feed(client, sent.clone()), drain(server));
        let report =
            block_on(async { run(Transfer::new(tokio_tcp(source), tokio_tcp(sink)), polls).await });
        feeding.join().unwrap();
        check(&report, &draining.join().unwrap(), &sent, polls);
    }
}

#[test]
fn pipe_to_tcp_is_exact_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let ((source, writer), (sink, server)) = (std::io::pipe().unwrap(), tcp_pair());
        let (feeding, draining) = (feed(writer, sent.clone()), drain(server));
        let report = block_on(async { run(Transfer::new(source, tokio_tcp(sink)), polls).await });
        feeding.join().unwrap();
        check(&report, &draining.join().unwrap(), &sent, polls);
    }
}

#[test]
fn unix_to_pipe_is_exact_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let (writer, source) = UnixStream::pair().unwrap();
        let (reader, sink) = std::io::pipe().unwrap();
        let (feeding, draining) = (feed(writer, sent.clone()), drain(reader));
        let report = block_on(async { run(Transfer::new(tokio_unix(source), sink), polls).await });
        feeding.join().unwrap();
        check(&report, &draining.join().unwrap(), &sent, polls);
    }
}

#[test]
fn file_to_tcp_is_exact_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let (source, (sink, server)) = (file(&sent), tcp_pair());
        let draining = drain(server);
        let report = block_on(async { run(Transfer::new(source, tokio_tcp(sink)), polls).await });
        check(&report, &draining.join().unwrap(), &sent, polls);
    }
}

#[test]
fn tcp_to_file_is_exact_wherever_the_future_is_dropped() {
    for polls in POLLS {
        let sent = bytes(LEN);
        let ((client, source), mut sink) = (tcp_pair(), file(b""));
        let feeding = feed(client, sent.clone());
        let transfer = |sink| async { run(Transfer::new(tokio_tcp(source), sink), polls).await };
        let report = block_on(transfer(sink.try_clone().unwrap()));
        feeding.join().unwrap();
        sink.rewind().unwrap();
        let mut found = Vec::new();
        sink.read_to_end(&mut found).unwrap();
        check(&report, &found, &sent, polls);
    }
}

#[test]
fn a_session_whose_future_was_dropped_can_be_stepped_and_driven_without_tokio() {
    let sent = bytes(LEN);
    let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
    let (feeding, draining) = (feed(client, sent.clone()), drain(server));
    source.set_nonblocking(true).unwrap();
    let mut session = Transfer::new(source, sink).start().unwrap();
    block_on(async {
        assert!(polled_at_most(3, session.drive_async()).await.is_none());
    });
    let _ = session.step(1000).unwrap();
    assert_eq!(session.drive().unwrap(), Ended::Eof);
    feeding.join().unwrap();
    check(
        &session.finish().unwrap(),
        &draining.join().unwrap(),
        &sent,
        3,
    );
}

#[test]
fn a_dropped_future_loses_no_byte_of_a_full_sink() {
    for polls in [1, 2, 3, 5, 8, 13] {
        let sent = bytes(LEN);
        let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
        let feeding = feed(client, sent.clone());
        let mut rest_of_source = source.try_clone().unwrap();
        // Nobody reads, so that bytes stay in flight once the buffers are full.
        let report = block_on(async {
            let transfer = Transfer::new(tokio_tcp(source), tokio_tcp(sink));
            let mut session = transfer.start().unwrap();
            let driving = polled_at_most(polls, session.drive_async());
            let driven = tokio::time::timeout(Duration::from_millis(50), driving).await;
            assert!(!matches!(driven, Ok(Some(_))), "the transfer has ended");
            session.finish().unwrap()
        });
        assert_eq!(report.ended(), Ended::Stopped);
        let mut found = drain(server).join().unwrap();
        assert_eq!(found.len() as u64, report.bytes());
        found.extend_from_slice(report.undelivered());
        rest_of_source.set_nonblocking(false).unwrap();
        rest_of_source.read_to_end(&mut found).unwrap();
        feeding.join().unwrap();
        assert!(found == sent, "polled {polls} times: {report}");
    }
}
