//! Relays in tasks: both directions are exact, and idle ones cost no thread.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use zcopy::tokio::AsyncEnd;
use zcopy::{Ended, Relay, RelayReport, RelaySession, Result, Stop};

use crate::own_process::is_own_process;
use crate::resources::{n_pipe_ends, resident_bytes};
use crate::support::{
    block_on, bytes, drain, feed, polled_at_most, tcp_pair, threads_named, tokio_tcp,
};

const LEN: usize = (6 << 20) + 7;

/// Drives a relay by futures of which each is polled `polls` times.
async fn drive<A: AsyncEnd, B: AsyncEnd>(
    session: &mut RelaySession<A, B>,
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

/// Sends different bytes both ways at the same time, through the ends that `make` makes of two
/// sockets.
fn check<A: AsyncEnd, B: AsyncEnd>(
    make: impl FnOnce(TcpStream, TcpStream) -> (A, B),
    polls: usize,
) -> RelayReport {
    let ((client, front), (back, server)) = (tcp_pair(), tcp_pair());
    let forth = bytes(LEN);
    let back_again: Vec<_> = forth.iter().map(|byte| !byte).collect();
    let peers = [(client, forth.clone()), (server, back_again.clone())].map(|(peer, sent)| {
        let (writer, reader) = (peer.try_clone().unwrap(), peer.try_clone().unwrap());
        let feeding = feed(writer, sent);
        let half_closing = std::thread::spawn(move || {
            feeding.join().unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
        });
        (half_closing, drain(reader))
    });
    let report = block_on(async {
        let (front, back) = make(front, back);
        let mut session = Relay::new(front, back).start().unwrap();
        assert_eq!(drive(&mut session, polls).await.unwrap(), Ended::Eof);
        session.finish().unwrap()
    });
    let [found_by_client, found_by_server] = peers.map(|(half_closing, draining)| {
        half_closing.join().unwrap();
        draining.join().unwrap()
    });
    assert!(found_by_server == forth, "polled {polls} times");
    assert!(found_by_client == back_again, "polled {polls} times");
    let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
    assert_eq!(counts, (LEN as u64, LEN as u64));
    report
}

#[test]
fn both_directions_are_exact_wherever_the_future_is_dropped() {
    for polls in [1, 2, 3, 7, usize::MAX] {
        check(|front, back| (tokio_tcp(front), tokio_tcp(back)), polls);
    }
}

#[test]
fn both_directions_are_exact_between_sockets_in_blocking_mode() {
    for polls in [1, 2, usize::MAX] {
        check(|front, back| (front, back), polls);
        check(|front, back| (tokio_tcp(front), back), polls);
    }
}

#[test]
fn a_relay_whose_future_was_dropped_says_where_every_byte_is() {
    for polls in [1, 2, 4, 8] {
        let ((client, front), (back, server)) = (tcp_pair(), tcp_pair());
        let sent = bytes(LEN);
        let feeding = feed(client, sent.clone());
        let mut rest_of_source = front.try_clone().unwrap();
        // The server reads nothing, so that bytes stay in flight once the buffers are full.
        let report = block_on(async {
            let mut session = Relay::new(tokio_tcp(front), tokio_tcp(back))
                .start()
                .unwrap();
            let driving = polled_at_most(polls, session.drive_async());
            let driven = tokio::time::timeout(Duration::from_millis(50), driving).await;
            assert!(!matches!(driven, Ok(Some(_))), "the relay has ended");
            session.finish().unwrap()
        });
        assert_eq!(report.ended(), Ended::Stopped);
        let mut found = drain(server).join().unwrap();
        assert_eq!(found.len() as u64, report.a_to_b().bytes());
        found.extend_from_slice(report.a_to_b().undelivered());
        rest_of_source.set_nonblocking(false).unwrap();
        rest_of_source.read_to_end(&mut found).unwrap();
        feeding.join().unwrap();
        assert!(found == sent, "polled {polls} times");
    }
}

#[test]
fn an_idle_relay_times_out_and_a_stop_ends_one_at_once() {
    let (_client, front) = UnixStream::pair().unwrap();
    let (back, _server) = UnixStream::pair().unwrap();
    block_on(async {
        let relay = Relay::new(&front, &back).idle_timeout(Duration::from_millis(20));
        assert_eq!(relay.run_async().await.unwrap().ended(), Ended::TimedOut);

        let stop = Stop::new().unwrap();
        let relay = Relay::new(&front, &back).stop_with(&stop);
        let mut session = relay.start().unwrap();
        assert!(polled_at_most(1, session.drive_async()).await.is_none());
        let stopping = std::thread::spawn(move || stop.stop());
        assert_eq!(session.drive_async().await.unwrap(), Ended::Stopped);
        stopping.join().unwrap();
    });
}

/// Moves bytes from one end to the other, in pieces that sockets hold.
fn pass(mut from: &TcpStream, mut to: &TcpStream, bytes: &[u8]) {
    let mut found = vec![0; bytes.len()];
    from.write_all(bytes).unwrap();
    to.read_exact(&mut found).unwrap();
    assert!(found == bytes);
}

/// Measures the whole process, so that it runs in a process of its own.
#[test]
fn one_thread_answers_the_busy_of_200_relays_and_the_idle_hold_nothing() {
    const THREAD_NAME: &str = "zcopy-many";
    const N_RELAYS: usize = 200;
    const N_BUSY: usize = 10;
    const N_WITH_BULK: usize = 100;
    const N_ROUNDS: usize = 50;
    const PIECE: usize = 32 << 10;
    const N_PIECES: usize = 32;
    /// Its state, and a part of the code that is used for the first time. A buffer has 32 KiB.
    const MOST_FOR_AN_IDLE_RELAY: usize = 24 << 10;
    /// A buffer for each relay with bulk would be 6 MiB.
    const MOST_FOR_BUSY_RELAYS: usize = 2 << 20;
    if !is_own_process(
        "relay::one_thread_answers_the_busy_of_200_relays_and_the_idle_hold_nothing",
        |_| {},
    ) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name(THREAD_NAME)
        .build()
        .unwrap();
    let stop = Stop::new().unwrap();
    let (mut peers, mut relays) = (Vec::new(), Vec::new());
    for _ in 0..N_RELAYS {
        let ((client, front), (back, server)) = (tcp_pair(), tcp_pair());
        peers.push((client, server));
        relays.push(Relay::new(front, back).stop_with(&stop));
    }
    let (n_without, without) = (n_pipe_ends(), resident_bytes());
    // Tasks that follow each other need no time-out: each answer is waited for.
    let asking = std::thread::spawn({
        let stop = stop.clone();
        move || {
            // The last task answers when all have begun.
            let (client, server) = peers.last().unwrap();
            pass(client, server, b"question");
            let idle = resident_bytes();
            assert!(idle.saturating_sub(without) < N_RELAYS * MOST_FOR_AN_IDLE_RELAY);
            for round in 0..N_ROUNDS {
                for (client, server) in peers.iter().step_by(N_RELAYS / N_BUSY) {
                    let question = bytes(round * 100 + 1);
                    pass(client, server, &question);
                    pass(server, client, &question);
                }
            }
            assert_eq!(n_pipe_ends(), n_without);
            let piece = bytes(PIECE);
            for _ in 0..N_PIECES {
                for (client, server) in &peers[..N_WITH_BULK] {
                    pass(client, server, &piece);
                }
            }
            assert!(n_pipe_ends() > n_without, "no relay has taken a pipe");
            let busy = resident_bytes().saturating_sub(idle);
            assert!(busy < MOST_FOR_BUSY_RELAYS, "{busy} bytes");
            while n_pipe_ends() > n_without {
                std::thread::sleep(Duration::from_millis(50));
            }
            let rested = resident_bytes().saturating_sub(idle);
            assert!(rested < MOST_FOR_BUSY_RELAYS, "{rested} bytes");
            let n_threads = threads_named(THREAD_NAME);
            stop.stop();
            n_threads
        }
    });
    let reports = runtime.block_on(async {
        let tasks: Vec<_> = relays
            .into_iter()
            .map(|relay| tokio::spawn(relay.run_async()))
            .collect();
        let mut reports = Vec::new();
        for task in tasks {
            reports.push(task.await.unwrap().unwrap());
        }
        reports
    });
    assert_eq!(
        asking.join().unwrap(),
        0,
        "idle relays hold threads of the pool"
    );
    let n_bytes: usize = (0..N_ROUNDS).map(|round| round * 100 + 1).sum();
    for (index, report) in reports.iter().enumerate() {
        let is_busy = index % (N_RELAYS / N_BUSY) == 0;
        let asked = if is_busy { n_bytes } else { 0 };
        let bulk = if index < N_WITH_BULK {
            PIECE * N_PIECES
        } else {
            0
        };
        let first = if index == N_RELAYS - 1 { 8 } else { 0 };
        assert_eq!(report.ended(), Ended::Stopped);
        let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
        let expected = ((asked + bulk + first) as u64, asked as u64);
        assert_eq!(counts, expected, "relay {index}");
    }
}

#[test]
fn a_reset_by_a_client_that_is_not_read_wakes_the_task() {
    let ((mut client, front), (back, server)) = (tcp_pair(), tcp_pair());
    client.write_all(b"hello").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    block_on(async {
        let relay = tokio::spawn(Relay::new(tokio_tcp(front), tokio_tcp(back)).run_async());
        let reading = server.try_clone().unwrap();
        let question = tokio::task::spawn_blocking(|| std::io::read_to_string(reading));
        assert_eq!(question.await.unwrap().unwrap(), "hello");
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        let error = relay.await.unwrap().unwrap_err();
        assert!(error.is_disconnected(), "{error}");
    });
    drop(server);
}
