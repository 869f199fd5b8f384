//! Every kind of end moves exactly.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use zcopy::tokio::{AsyncEnd, OwnedHalf};
use zcopy::{Ended, Stop, Transfer};

use crate::support::{block_on, bytes, drain, feed, file, tcp_pair, tokio_tcp, tokio_unix};

const LEN: usize = (3 << 20) + 7;

/// Moves bytes from a TCP peer through the ends that `make` makes of two sockets to another peer.
fn check<Source: AsyncEnd, Sink: AsyncEnd>(
    make: impl FnOnce(std::net::TcpStream, std::net::TcpStream) -> (Source, Sink),
) {
    let sent = bytes(LEN);
    let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
    let (feeding, draining) = (feed(client, sent.clone()), drain(server));
    let report = block_on(async {
        let (source, sink) = make(source, sink);
        Transfer::new(source, sink).run_async().await.unwrap()
    });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent, "{report}");
    assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
}

#[test]
fn sockets_of_std_in_blocking_mode_move_exactly_and_stay_in_it() {
    check(|source, sink| (source, sink));
    let ((_client, source), (sink, _server)) = (tcp_pair(), tcp_pair());
    block_on(async {
        let mut session = Transfer::new(&source, &sink).start().unwrap();
        assert!(
            crate::support::polled_at_most(1, session.drive_async())
                .await
                .is_none()
        );
    });
    for end in [&source, &sink] {
        let flags = rustix::fs::fcntl_getfl(end).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
}

#[test]
fn sockets_of_tokio_move_exactly_by_value_by_reference_and_in_an_arc() {
    check(|source, sink| (tokio_tcp(source), tokio_tcp(sink)));
    check(|source, sink| (Arc::new(tokio_tcp(source)), Box::new(tokio_tcp(sink))));
    check(|source, sink| (tokio_tcp(source), sink));
    check(|source, sink| (OwnedFd::from(source), tokio_tcp(sink)));
}

#[test]
fn owned_halves_move_exactly_while_the_other_half_is_in_use() {
    check(|source, sink| {
        let ((read_half, _), (_, write_half)) =
            (tokio_tcp(source).into_split(), tokio_tcp(sink).into_split());
        (OwnedHalf::new(read_half), OwnedHalf::new(write_half))
    });
    // Both directions of one socket at once, by its two halves.
    let (client, server) = tcp_pair();
    let sent = bytes(LEN);
    let feeding = feed(client.try_clone().unwrap(), sent.clone());
    let draining = drain(client);
    block_on(async {
        let (read_half, write_half) = tokio_tcp(server).into_split();
        let (read_half, write_half) = (OwnedHalf::new(read_half), OwnedHalf::new(write_half));
        let echo = Transfer::new(read_half, write_half).limit(LEN as u64);
        assert_eq!(echo.run_async().await.unwrap().ended(), Ended::Limit);
    });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent);
}

#[test]
fn an_async_fd_in_either_mode_moves_exactly() {
    #[allow(deprecated, reason = "its successor asks for a promise")]
    let register = |socket: std::net::TcpStream| AsyncFd::new(socket).unwrap();
    check(|source, sink| {
        source.set_nonblocking(true).unwrap();
        sink.set_nonblocking(true).unwrap();
        (register(source), register(sink))
    });
    check(|source, sink| (register(source), register(sink)));
}

#[test]
fn the_pipes_of_tokio_and_of_std_move_exactly() {
    let sent = bytes(LEN);
    let ((source, writer), (reader, sink)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let (feeding, draining) = (feed(writer, sent.clone()), drain(reader));
    let report = block_on(async {
        let source = tokio::net::unix::pipe::Receiver::from_owned_fd(source.into()).unwrap();
        let sink = tokio::net::unix::pipe::Sender::from_owned_fd(sink.into()).unwrap();
        Transfer::new(source, sink).run_async().await.unwrap()
    });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent, "{report}");

    let ((source, writer), (reader, sink)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
    let (feeding, draining) = (feed(writer, sent.clone()), drain(reader));
    let report = block_on(async { Transfer::new(source, sink).run_async().await.unwrap() });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent, "{report}");
}

#[test]
fn unix_streams_and_datagrams_move_exactly() {
    let sent = bytes(LEN);
    let ((client, source), (sink, server)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    let (feeding, draining) = (feed(client, sent.clone()), drain(server));
    block_on(async {
        let (source, sink) = (tokio_unix(source), tokio_unix(sink));
        Transfer::new(&source, &sink).run_async().await.unwrap();
    });
    feeding.join().unwrap();
    assert!(draining.join().unwrap() == sent);

    let ((client, source), (sink, server)) =
        (UnixDatagram::pair().unwrap(), UnixDatagram::pair().unwrap());
    let n_messages = 2000;
    let sending = std::thread::spawn(move || {
        for n in 0..n_messages {
            client.send(&bytes(n + 1)).unwrap();
        }
        client.send(b"").unwrap();
    });
    let receiving = std::thread::spawn(move || {
        let mut room = [0; 4096];
        for n in 0..n_messages {
            let len = server.recv(&mut room).unwrap();
            assert!(room[..len] == bytes(n + 1), "message {n}");
        }
    });
    let report = block_on(async {
        for socket in [&source, &sink] {
            socket.set_nonblocking(true).unwrap();
        }
        let source = tokio::net::UnixDatagram::from_std(source).unwrap();
        let sink = tokio::net::UnixDatagram::from_std(sink).unwrap();
        Transfer::new(source, sink).run_async().await.unwrap()
    });
    sending.join().unwrap();
    receiving.join().unwrap();
    assert_eq!(report.bytes(), (1..=n_messages as u64).sum());
}

#[test]
fn many_writes_of_one_segment_to_a_slow_reader_arrive_whole() {
    use std::io::{Read, Write};
    const SEGMENT: usize = 1448;
    const N_SEGMENTS: usize = 20_000;
    let ((mut client, source), (sink, mut server)) = (tcp_pair(), tcp_pair());
    client.set_nodelay(true).unwrap();
    let feeding = std::thread::spawn(move || {
        let segment = bytes(SEGMENT);
        for _ in 0..N_SEGMENTS {
            client.write_all(&segment).unwrap();
        }
    });
    let draining = std::thread::spawn(move || {
        let (segment, mut found) = (bytes(SEGMENT), [0; SEGMENT]);
        for n in 0..N_SEGMENTS {
            server.read_exact(&mut found).unwrap();
            assert!(found == segment[..], "segment {n}");
            if n % 64 == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(server.read(&mut found).unwrap(), 0);
    });
    let report = block_on(async {
        let transfer = Transfer::new(tokio_tcp(source), tokio_tcp(sink));
        transfer.run_async().await.unwrap()
    });
    feeding.join().unwrap();
    draining.join().unwrap();
    assert_eq!(report.bytes(), (SEGMENT * N_SEGMENTS) as u64);
}

#[test]
fn the_futures_can_be_spawned_whatever_their_ends_are() {
    fn spawn<Source: AsyncEnd + 'static, Sink: AsyncEnd + 'static>(source: Source, sink: Sink) {
        drop(tokio::spawn(Transfer::new(source, sink).run_async()));
    }
    block_on(async {
        let (source, sink) = std::io::pipe().unwrap();
        spawn(source, Arc::new(sink));
    });
}

/// The program may have registered the descriptor for something else than what the transfer needs.
#[test]
fn an_async_fd_that_is_registered_for_reading_may_be_a_sink() {
    let (reader, sink) = std::io::pipe().unwrap();
    let sent = bytes(1 << 20);
    block_on(async {
        rustix::fs::fcntl_setfl(&sink, rustix::fs::OFlags::NONBLOCK).unwrap();
        #[allow(
            deprecated,
            reason = "its successor asks for a promise that an `OwnedFd` keeps"
        )]
        let sink = AsyncFd::with_interest(OwnedFd::from(sink), Interest::READABLE).unwrap();
        let transfer = Transfer::new(file(&sent), sink).grow_pipes(false);
        let task = tokio::spawn(transfer.run_async());
        tokio::task::yield_now().await;
        let received = tokio::task::spawn_blocking(|| drain(reader).join().unwrap());
        assert!(received.await.unwrap() == sent);
        assert_eq!(task.await.unwrap().unwrap().bytes(), 1 << 20);
    });
}

/// The reactor never forgets that a FIFO was hung up, although another writer may have come.
#[test]
fn a_fifo_whose_writers_come_and_go_lets_the_task_sleep() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let open = |write: bool| {
        File::options()
            .read(!write)
            .write(write)
            .open(&path)
            .unwrap()
    };
    // A reader and a writer can open it only together.
    let opening = std::thread::spawn({
        let path = path.clone();
        move || File::options().write(true).open(path).unwrap()
    });
    let source = open(false);
    let mut first = opening.join().unwrap();
    let (mut reader, sink) = std::io::pipe().unwrap();
    let (stop, n_polls) = (Stop::new().unwrap(), AtomicU32::new(0));
    block_on(async {
        let transfer = Transfer::new(source, sink)
            .grow_pipes(false)
            .stop_with(&stop);
        let mut session = transfer.start().unwrap();
        let mut driving = std::pin::pin!(session.drive_async());
        let counting = std::future::poll_fn(|context| {
            n_polls.fetch_add(1, Ordering::Relaxed);
            driving.as_mut().poll(context)
        });
        let pause = || tokio::time::sleep(Duration::from_millis(50));
        let peers = async {
            // The task waits for the source. Then the sink is full, and the writer leaves.
            pause().await;
            let feeding = tokio::task::spawn_blocking(move || first.write_all(&vec![1; 120_000]));
            feeding.await.unwrap().unwrap();
            pause().await;
            let _second = open(true);
            let reading = tokio::task::spawn_blocking(move || {
                reader.read_exact(&mut vec![0; 120_000]).unwrap();
                reader
            });
            let _reader = reading.await.unwrap();
            pause().await;
            let before = n_polls.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(200)).await;
            let n_polls = n_polls.load(Ordering::Relaxed) - before;
            assert!(n_polls < 50, "{n_polls} polls of an idle task");
            stop.stop();
        };
        let (ended, ()) = tokio::join!(counting, peers);
        assert_eq!(ended.unwrap(), Ended::Stopped);
    });
}
