//! Relays: both directions, half-close, failures, and what they hold while they are idle.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use rustix::net::SocketType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Ended, Relay, RelayProgressed, Stop, Strategy};

use crate::concurrency::bounded;
use crate::endpoints::{tcp, unix};
use crate::files::{assert_same, cursor, file, pattern};
use crate::own_process::is_own_process;
use crate::random::Random;
use crate::refused::needs;
use crate::resources::n_pipe_ends;
use crate::strategies::moved_by;

mod idle;
mod many;

fn tcp_streams() -> (TcpStream, TcpStream) {
    let (here, there) = tcp();
    (here.into(), there.into())
}

/// Writes everything in pieces, and ends the stream.
fn send(mut socket: TcpStream, bytes: Vec<u8>, piece: usize) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for piece in bytes.chunks(piece) {
            socket.write_all(piece).unwrap();
        }
        socket.shutdown(Shutdown::Write).unwrap();
    })
}

fn receive(mut socket: TcpStream) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

#[test]
fn both_directions_arrive_whole_and_are_counted_apart() {
    for (n_forth, n_back, piece) in [
        (0, 0, 1),
        (1, 100_000, 1448),
        (3 << 20, 5, 65_536),
        (3 << 20, 2 << 20, 1448),
        (40_000, 40_000, 4095),
    ] {
        for nonblocking in [false, true] {
            let (client, front) = tcp_streams();
            let (back, server) = tcp_streams();
            front.set_nonblocking(nonblocking).unwrap();
            back.set_nonblocking(nonblocking).unwrap();
            let (forth, answer) = (pattern(n_forth), pattern(n_back));
            let sending = send(client.try_clone().unwrap(), forth.clone(), piece);
            let answering = send(server.try_clone().unwrap(), answer.clone(), piece);
            let (at_server, at_client) = (receive(server), receive(client));
            let report = Relay::new(front, back).run().unwrap();
            sending.join().unwrap();
            answering.join().unwrap();
            assert_same(&at_server.join().unwrap(), &forth, "forth");
            assert_same(&at_client.join().unwrap(), &answer, "back");
            assert_eq!(report.a_to_b().bytes(), n_forth as u64, "{report:#}");
            assert_eq!(report.b_to_a().bytes(), n_back as u64, "{report:#}");
            assert_eq!(report.ended(), Ended::Eof);
        }
    }
}

/// The peer of one direction sees its end while the other direction goes on.
#[test]
fn each_end_of_a_stream_passes_on_by_itself() {
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    let relay = thread::spawn(move || Relay::new(&front, &back).run().unwrap());
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    for _ in 0..3 {
        server.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }
    drop(server);
    assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
    let report = relay.join().unwrap();
    assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (8, 18));
}

#[test]
fn a_peer_that_has_gone_is_an_error_with_both_accounts_and_the_bytes_that_did_not_arrive() {
    let (mut client, front) = UnixStream::pair().unwrap();
    let (back, mut server) = UnixStream::pair().unwrap();
    server.write_all(b"welcome").unwrap();
    let mut session = Relay::new(&front, &back).start().unwrap();
    let RelayProgressed::Moved {
        a_to_b: 0,
        b_to_a: 7,
    } = session.step(100).unwrap()
    else {
        panic!()
    };
    client.write_all(b"hello").unwrap();
    drop(server);
    let error = loop {
        match session.step(100) {
            Ok(RelayProgressed::Ended(ended)) => panic!("{ended:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(error.is_disconnected(), "{error:#}");
    let report = error.relay_report().unwrap();
    assert_eq!((report.a_to_b().bytes(), report.b_to_a().bytes()), (0, 7));
    assert_eq!(report.a_to_b().undelivered(), b"hello");
    assert_eq!(report.ended(), Ended::Failed);
    assert_eq!(session.finish().unwrap().b_to_a().bytes(), 7);
}

#[test]
fn silence_in_both_directions_ends_a_relay_and_bytes_in_one_keep_it() {
    let idle = Duration::from_millis(300);
    let (mut client, front) = tcp_streams();
    let (back, server) = tcp_streams();
    let relay = Relay::new(front, back).idle_timeout(idle);
    let relay = thread::spawn(move || relay.run().unwrap());
    let start = std::time::Instant::now();
    for _ in 0..5 {
        thread::sleep(idle / 3);
        client.write_all(b"x").unwrap();
    }
    let report = relay.join().unwrap();
    assert_eq!(
        (report.a_to_b().bytes(), report.ended()),
        (5, Ended::TimedOut)
    );
    for direction in [report.a_to_b(), report.b_to_a()] {
        assert_eq!(direction.ended(), Ended::TimedOut);
    }
    assert!(start.elapsed() >= idle / 3 * 5 + idle);
    drop(server);
}

/// A server is busy with something else for longer than the idle time.
#[test]
fn bytes_that_arrived_while_the_thread_was_held_keep_a_relay() {
    let idle = Duration::from_millis(20);
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    let arrival = front.try_clone().unwrap();
    let mut session = Relay::new(front, back).idle_timeout(idle).start().unwrap();
    for n_bytes in [5, 4] {
        let RelayProgressed::Blocked(interest) = session.step(u64::MAX).unwrap() else {
            panic!("no byte has been sent");
        };
        assert!(interest.timeout().unwrap() <= idle);
        thread::sleep(idle * 2);
        client.write_all(&b"hello"[..n_bytes]).unwrap();
        // A busy kernel delivers later.
        arrival.peek(&mut [0]).unwrap();
        let RelayProgressed::Moved { a_to_b, .. } = session.step(u64::MAX).unwrap() else {
            panic!("{n_bytes} bytes wait");
        };
        assert_eq!(a_to_b, n_bytes as u64);
        server.read_exact(&mut [0; 5][..n_bytes]).unwrap();
    }
    thread::sleep(idle * 2);
    let ended = loop {
        match session.step(u64::MAX).unwrap() {
            RelayProgressed::Ended(ended) => break ended,
            RelayProgressed::Blocked(_) => thread::yield_now(),
            progressed => panic!("no byte waits: {progressed:?}"),
        }
    };
    assert_eq!(ended, Ended::TimedOut);
}

#[test]
fn a_stop_ends_a_relay_at_once_and_every_byte_is_accounted_for() {
    let bytes = pattern(64 << 20);
    let (client, front) = tcp_streams();
    let (back, server) = tcp_streams();
    let stop = Stop::new().unwrap();
    let relay = Relay::new(front.try_clone().unwrap(), back).stop_with(&stop);
    let relay = thread::spawn(move || relay.run().unwrap());
    let sent = bytes.clone();
    let sending = thread::spawn(move || {
        let mut client = client;
        // The relay stops in the middle, and the rest is read below.
        client.write_all(&sent).unwrap();
    });
    // The server reads nothing: the relay is blocked with bytes in flight.
    thread::sleep(Duration::from_millis(200));
    stop.stop();
    let report = relay.join().unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
    let arrived = receive(server);
    let rest = receive(front);
    sending.join().unwrap();
    let arrived = arrived.join().unwrap();
    assert_eq!(arrived.len() as u64, report.a_to_b().bytes());
    let rest = rest.join().unwrap();
    let found = [arrived, report.a_to_b().undelivered().to_vec(), rest].concat();
    assert_same(
        &found,
        &bytes,
        "what arrived, what was in flight, and the rest",
    );
}

/// A pipe is full when its slots are: after 23 KiB of segments, for example. Neither side may take
/// that for an empty socket.
#[test]
fn segments_of_a_fast_writer_reach_a_slow_reader() {
    let bytes = pattern(8 << 20);
    let (client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    client.set_nodelay(true).unwrap();
    let relay = thread::spawn(move || Relay::new(front, back).run().unwrap());
    let sending = send(client.try_clone().unwrap(), bytes.clone(), 1448);
    let mut random = Random::new(7);
    let mut found = Vec::new();
    let mut room = vec![0; 100_000];
    loop {
        let len = 1 + random.below_len(room.len());
        let n = server.read(&mut room[..len]).unwrap();
        if n == 0 {
            break;
        }
        found.extend_from_slice(&room[..n]);
        if random.one_in(50) {
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert_same(&found, &bytes, "segments");
    sending.join().unwrap();
    drop((server, client));
    let report = relay.join().unwrap();
    assert_eq!(report.a_to_b().bytes(), bytes.len() as u64);
}

/// Counts pipes of the whole process, so that it runs in a process of its own.
#[test]
fn a_relay_holds_a_pipe_only_while_bytes_come_in_bulk() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    if !is_own_process(
        "relay::a_relay_holds_a_pipe_only_while_bytes_come_in_bulk",
        |_| {},
    ) {
        return;
    }
    let before = n_pipe_ends();
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    let mut session = Relay::new(front, back).start().unwrap();
    let mut step = |n: usize| {
        let mut moved = 0;
        while moved < n {
            if let RelayProgressed::Moved { a_to_b, .. } = session.step(u64::MAX).unwrap() {
                moved += a_to_b as usize;
            }
        }
    };
    let mut room = vec![0; 200_000];
    for _ in 0..100 {
        client.write_all(&[1; 1000]).unwrap();
        step(1000);
        server.read_exact(&mut room[..1000]).unwrap();
    }
    assert_eq!(n_pipe_ends(), before, "short messages");
    for _ in 0..10 {
        client.write_all(&vec![1; 200_000]).unwrap();
        step(200_000);
        server.read_exact(&mut room).unwrap();
    }
    assert_eq!(n_pipe_ends(), before + 2, "both ends of one pipe");
    let _ = session.step(100).unwrap();
    thread::sleep(Duration::from_millis(1100));
    let _ = session.step(100).unwrap();
    assert_eq!(n_pipe_ends(), before, "after a second of silence");
    for _ in 0..10 {
        client.write_all(&vec![1; 200_000]).unwrap();
        let mut moved = 0;
        while moved < 200_000 {
            if let RelayProgressed::Moved { a_to_b, .. } = session.step(u64::MAX).unwrap() {
                moved += a_to_b;
            }
        }
        server.read_exact(&mut room).unwrap();
    }
    assert_eq!(n_pipe_ends(), before + 2, "bulk again");
    for _ in 0..15 {
        server.write_all(b"x").unwrap();
        while session.step(100).unwrap()
            != (RelayProgressed::Moved {
                a_to_b: 0,
                b_to_a: 1,
            })
        {}
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(
        n_pipe_ends(),
        before,
        "while bytes move in the other direction"
    );
}

/// `poll(2)` fails if the process may open no descriptor at all.
#[test]
fn a_wait_that_fails_ends_a_relay_with_the_bytes_that_have_moved() {
    let test = "relay::a_wait_that_fails_ends_a_relay_with_the_bytes_that_have_moved";
    if !is_own_process(test, |_| {}) {
        return;
    }
    let (mut client, front) = UnixStream::pair().unwrap();
    let (back, _server) = UnixStream::pair().unwrap();
    let mut relay = Relay::new(front, back).start().unwrap();
    client.write_all(b"hello").unwrap();
    while !matches!(relay.step(100).unwrap(), RelayProgressed::Blocked(_)) {}
    let limit = getrlimit(Resource::Nofile);
    let current = Some(0);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let error = relay.drive().unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(error.bytes(), 5);
    let report = error.relay_report().unwrap();
    assert_eq!(report.a_to_b().bytes(), 5);
    assert_eq!(report.a_to_b().ended(), Ended::Failed);
}

/// Bulk arrives in pieces of which some are short, and reading and writing what follows such a
/// piece takes three times the processor time of a splice.
#[test]
fn a_short_piece_between_long_ones_goes_on_through_the_pipe() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    let mut session = Relay::new(front, back).start().unwrap();
    let mut room = vec![0; 220_000];
    for _ in 0..20 {
        for n in [220_000, 424] {
            client.write_all(&room[..n]).unwrap();
            let mut moved = 0;
            while moved < n {
                if let RelayProgressed::Moved { a_to_b, .. } = session.step(u64::MAX).unwrap() {
                    moved += a_to_b as usize;
                }
            }
            server.read_exact(&mut room[..n]).unwrap();
        }
    }
    let report = session.finish().unwrap();
    let spliced = moved_by(report.a_to_b(), Strategy::SplicePipe);
    // On a slow machine the first long piece may come in several steps.
    let before_the_pipe = 2 * 220_424;
    assert!(
        spliced >= report.a_to_b().bytes() - before_the_pipe,
        "{report:#}"
    );
}

#[test]
fn pairs_of_other_sockets_are_relayed_as_well() {
    let (client, front) = unix(SocketType::STREAM);
    let (back, server) = tcp();
    let (mut client, mut server) = (UnixStream::from(client), TcpStream::from(server));
    let relay = thread::spawn(|| Relay::new(front, back).run());
    client.write_all(b"hello").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut found = String::new();
    server.read_to_string(&mut found).unwrap();
    assert_eq!(found, "hello");
    drop(server);
    assert_eq!(relay.join().unwrap().unwrap().ended(), Ended::Eof);
}

#[test]
fn the_time_that_a_relay_waits_for_its_rate_is_not_idle() {
    let ((mut client, front), (back, mut server)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    client.write_all(&[7; 30]).unwrap();
    drop(client);
    server.shutdown(Shutdown::Write).unwrap();
    let relay = Relay::new(front, back).rate_limit(100);
    let report = relay.idle_timeout(Duration::from_millis(10)).run().unwrap();
    assert_eq!((report.a_to_b().bytes(), report.ended()), (30, Ended::Eof));
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert_eq!(received, [7; 30]);
}

/// The bytes that are written to a file would come back, or those behind them be overwritten.
#[test]
fn a_file_cannot_be_an_end_of_a_relay() {
    let (socket, _peer) = UnixStream::pair().unwrap();
    let file = file(b"hello");
    for error in [
        Relay::new(&file, &socket).run().unwrap_err(),
        Relay::new(&socket, &file).start().map(drop).unwrap_err(),
    ] {
        assert!(error.is_refused(), "{error}");
        assert_eq!(cursor(&file), 0);
    }
}

/// A server that answers before it has read the whole request, and closes.
#[test]
fn an_answer_reaches_the_client_although_the_server_reads_no_more() {
    let ((mut client, front), (back, mut server)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    server.write_all(&[1; 1000]).unwrap();
    drop(server);
    client.write_all(b"a long upload").unwrap();
    let error = Relay::new(front, back).run().unwrap_err();
    assert!(error.is_disconnected(), "{error}");
    let report = error.relay_report().unwrap();
    assert_eq!(
        (report.a_to_b().bytes(), report.b_to_a().bytes()),
        (0, 1000)
    );
    let mut answer = Vec::new();
    // The rest of the upload was never read, so that the end comes as a reset.
    let _ = client.read_to_end(&mut answer);
    assert_eq!(answer, [1; 1000]);
}

/// The client has ended its stream and waits for an answer, so that the relay reads it no more.
#[test]
fn a_reset_by_a_client_that_is_not_read_ends_the_relay() {
    bounded(|| {
        // A poll amid a reset finds the error, and no hang-up yet. Few polls come at that moment.
        for _ in 0..2000 {
            let ((mut client, front), (back, mut server)) = (tcp_streams(), tcp_streams());
            client.write_all(b"hello").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let relay = thread::spawn(move || Relay::new(front, back).run());
            let mut question = String::new();
            server.read_to_string(&mut question).unwrap();
            assert_eq!(question, "hello");
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            let error = relay.join().unwrap().unwrap_err();
            assert!(error.is_disconnected(), "{error}");
            assert_eq!(error.relay_report().unwrap().a_to_b().bytes(), 5);
        }
    });
}

/// A unix socket whose peer has closed polls as hung up, and a relay does not spin on it.
#[test]
fn a_peer_that_has_closed_after_its_last_byte_is_no_failure() {
    let ((mut client, front), (back, mut server)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    client.write_all(b"hello").unwrap();
    drop(client);
    let mut session = Relay::new(front, back).start().unwrap();
    let mut n_blocked = 0;
    for _ in 0..10 {
        match session.step(u64::MAX).unwrap() {
            RelayProgressed::Blocked(interest) => {
                n_blocked += 1;
                assert!(interest.b().readable() && !interest.a().hang_up());
            }
            RelayProgressed::Moved { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(n_blocked > 0);
    let mut question = String::new();
    server.read_to_string(&mut question).unwrap();
    assert_eq!(question, "hello");
    drop(server);
    assert_eq!(session.drive().unwrap(), Ended::Eof);
}

/// The server answers after the relay has been told to end.
#[test]
fn a_relay_whose_client_end_is_shut_down_for_reading_delivers_the_answer_and_ends() {
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    let shut_down = front.try_clone().unwrap();
    let relay = thread::spawn(move || Relay::new(front, back).run().unwrap());
    client.write_all(b"question").unwrap();
    server.read_exact(&mut [0; 8]).unwrap();
    shut_down.shutdown(Shutdown::Read).unwrap();
    // The server sees the end of the questions, and still has an answer.
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    let answer = pattern(3 << 20);
    let expected = answer.clone();
    let answering = thread::spawn(move || server.write_all(&answer).unwrap());
    let mut found = Vec::new();
    client.read_to_end(&mut found).unwrap();
    answering.join().unwrap();
    assert!(found == expected);
    let report = relay.join().unwrap();
    assert_eq!(report.ended(), Ended::Eof);
    assert_eq!(report.b_to_a().bytes(), 3 << 20);
}

/// The server sends nothing before it has the whole prefix, and the prefixes are longer than what
/// its socket takes at once.
#[test]
fn a_prefix_goes_before_the_bytes_of_its_end_in_both_directions() {
    let prefix = pattern(3 << 20);
    let (mut client, front) = tcp_streams();
    let (back, mut server) = tcp_streams();
    for end in [&front, &back] {
        end.set_nonblocking(true).unwrap();
    }
    let relay = Relay::new(front, back)
        .prefix_from_a(prefix.clone())
        .prefix_from_b(prefix.clone());
    let relay = thread::spawn(move || relay.run().unwrap());
    let ends = [&mut client, &mut server].map(|end| end.try_clone().unwrap());
    let reading = ends.map(|mut end| {
        thread::spawn(move || {
            let mut found = vec![0; 3 << 20];
            end.read_exact(&mut found).unwrap();
            end.write_all(b"own").unwrap();
            end.shutdown(Shutdown::Write).unwrap();
            end.read_to_end(&mut found).unwrap();
            found
        })
    });
    for found in reading.map(|thread| thread.join().unwrap()) {
        assert!(found[..3 << 20] == prefix);
        assert_eq!(&found[3 << 20..], b"own");
    }
    let report = relay.join().unwrap();
    let counts = [report.a_to_b().bytes(), report.b_to_a().bytes()];
    assert_eq!(counts, [(3 << 20) + 3; 2]);
}

#[test]
fn the_progress_of_a_relay_stays_after_its_end_and_after_a_failure() {
    for fails in [false, true] {
        let (mut client, front) = UnixStream::pair().unwrap();
        let (back, mut server) = UnixStream::pair().unwrap();
        let mut relay = Relay::new(front, back).start().unwrap();
        client.write_all(b"question").unwrap();
        server.write_all(b"answer").unwrap();
        let moved = relay.step(u64::MAX).unwrap();
        assert!(matches!(
            moved,
            RelayProgressed::Moved {
                a_to_b: 8,
                b_to_a: 6
            }
        ));
        if fails {
            // The server goes without having read the second question.
            client.write_all(b"second").unwrap();
            server.shutdown(Shutdown::Both).unwrap();
        } else {
            client.shutdown(Shutdown::Write).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(relay.drive().is_err(), fails);
        let progress = relay.progress();
        assert_eq!(
            (progress.a_to_b().bytes(), progress.b_to_a().bytes()),
            (8, 6)
        );
        let report = relay.finish().unwrap();
        assert_eq!(report.a_to_b().bytes(), 8);
    }
}
