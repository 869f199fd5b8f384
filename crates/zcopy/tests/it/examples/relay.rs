//! `relay`, between clients and a backend of the test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::{LEN, Server, TIME_LIMIT, example};
use crate::files::{assert_same, pattern};

/// Starts a relay to this backend, with these arguments behind the addresses. `None`, reported, if
/// it was not built.
fn relay_to(backend: &TcpListener, arguments: &[&str]) -> Option<Server> {
    let backend = backend.local_addr().unwrap().to_string();
    let mut relay = example("relay")?;
    relay.args(["127.0.0.1:0", &backend]).args(arguments);
    Some(Server::spawn(&mut relay))
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

fn connect(relay: &Server) -> TcpStream {
    let stream = TcpStream::connect(&relay.address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// Accepts the connection of a relay.
fn accept(backend: &TcpListener) -> TcpStream {
    let time_limit = Timespec::try_from(TIME_LIMIT).unwrap();
    let mut waiting = [PollFd::new(backend, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&time_limit)).unwrap(), 1);
    let (stream, _) = backend.accept().unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

#[test]
fn relay_passes_on_the_end_of_one_direction_and_keeps_the_other_open() {
    let backend = listen();
    let Some(relay) = relay_to(&backend, &["60", "1"]) else {
        return;
    };
    let mut client = connect(&relay);
    let mut server = accept(&backend);

    let request = pattern(LEN);
    let sent = request.clone();
    let sender = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut arrived = Vec::new();
    // The read ends although the client has not closed, because the relay passes on the end of its
    // direction.
    server.read_to_end(&mut arrived).unwrap();
    assert_same(&arrived, &request, "the request");

    // Only now is the answer sent, in the direction that is still open.
    let answer = pattern(LEN / 2);
    let sent = answer.clone();
    let answerer = thread::spawn(move || server.write_all(&sent).unwrap());
    let mut client = sender.join().unwrap();
    let mut arrived = Vec::new();
    client.read_to_end(&mut arrived).unwrap();
    assert_same(&arrived, &answer, "the answer");
    answerer.join().unwrap();

    let peer = client.local_addr().unwrap();
    let (status, printed, stderr) = relay.wait();
    assert!(status.success(), "{stderr}");
    let counts = format!("{peer}: {LEN} bytes there, {} bytes back\n", LEN / 2);
    assert_eq!(printed, counts);
}

#[test]
fn relay_serves_busy_connections_beside_idle_ones_and_ends_at_sigterm() {
    const IDLE: usize = 190;
    const BUSY: usize = 10;
    const ROUNDS: usize = 20;
    let backend = listen();
    let Some(relay) = relay_to(&backend, &[]) else {
        return;
    };
    // Answers each connection with what it says.
    let echoing = thread::spawn(move || {
        let echoes = [(); IDLE + BUSY].map(|()| {
            let stream = accept(&backend);
            thread::spawn(move || {
                // The relay may reset a connection when it ends.
                let _ = std::io::copy(&mut &stream, &mut &stream);
            })
        });
        for echo in echoes {
            echo.join().unwrap();
        }
    });
    let idle = [(); IDLE].map(|()| connect(&relay));
    let bulk = pattern(LEN / 4);
    let busy = [(); BUSY].map(|()| {
        let (mut client, bulk) = (connect(&relay), bulk.clone());
        thread::spawn(move || {
            let mut answer = [0; 8];
            for _ in 0..ROUNDS {
                client.write_all(b"question").unwrap();
                client.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"question");
            }
            let mut writer = client.try_clone().unwrap();
            let sent = bulk.clone();
            let sender = thread::spawn(move || writer.write_all(&sent).unwrap());
            let mut arrived = vec![0; bulk.len()];
            client.read_exact(&mut arrived).unwrap();
            assert_same(&arrived, &bulk, "the answer");
            sender.join().unwrap();
            client
        })
    });
    let busy = busy.map(|client| client.join().unwrap());

    // All connections are still open.
    relay.signal(Signal::TERM);
    let (status, printed, stderr) = relay.wait();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    assert_eq!(printed.lines().count(), IDLE + BUSY);
    let n = ROUNDS * 8 + bulk.len();
    for (clients, counts) in [
        (&idle[..], "0 bytes there, 0 bytes back".to_owned()),
        (&busy[..], format!("{n} bytes there, {n} bytes back")),
    ] {
        for client in clients {
            let line = format!("{}: {counts}", client.local_addr().unwrap());
            assert!(printed.lines().any(|printed| printed == line), "{line}");
        }
    }
    echoing.join().unwrap();
}

#[test]
fn relay_closes_a_connection_that_is_idle_for_too_long() {
    let backend = listen();
    let Some(relay) = relay_to(&backend, &["0.05", "1"]) else {
        return;
    };
    let mut client = connect(&relay);
    let mut server = accept(&backend);
    for peer in [&mut client, &mut server] {
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
    let (status, printed, _) = relay.wait();
    assert!(status.success());
    let counts = "0 bytes there, 0 bytes back";
    assert_eq!(
        printed,
        format!("{}: {counts}\n", client.local_addr().unwrap())
    );
}

#[test]
fn relay_goes_on_after_a_client_that_leaves_and_a_backend_that_is_gone() {
    let backend = listen();
    let Some(relay) = relay_to(&backend, &["60", "2"]) else {
        return;
    };
    let mut client = connect(&relay);
    let server = accept(&backend);
    client.write_all(b"hello").unwrap();
    // The server leaves without having read what the relay passes on.
    server.peek(&mut [0]).unwrap();
    drop(server);
    let mut end = Vec::new();
    let _ = client.read_to_end(&mut end);
    drop(client);
    drop(backend);
    let mut refused = connect(&relay);
    // The relay closes it, perhaps before the test looks.
    let _ = refused.read_to_end(&mut end);
    assert!(end.is_empty());
    let (status, _, stderr) = relay.wait();
    assert!(status.success(), "{stderr}");
    let refusal = "the backend: Connection refused (os error 111)";
    let mut lines = stderr.lines();
    assert!(lines.any(|line| line.ends_with(refusal)), "{stderr}");
    // It also says what it could not deliver to the server that has left.
    for line in stderr.lines() {
        assert!(line.starts_with("relay: 127.0.0.1:"), "{stderr}");
    }
}
