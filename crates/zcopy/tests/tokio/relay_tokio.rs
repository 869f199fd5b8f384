//! The example `relay_tokio`, between clients and a backend of the test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::skip::skip;

/// The time after which the relay counts as hung.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Starts the relay, if it was built: `cargo test --test` builds no examples. Reports a skip, which
/// fails with `ZCOPY_REQUIRE=all`.
fn spawn(arguments: &[&str]) -> Option<(Child, String)> {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.extend(["examples", "relay_tokio"]);
    if !path.exists() {
        skip("the example relay_tokio is not built");
        return None;
    }
    let mut relay = Command::new(path);
    relay
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = relay.spawn().unwrap();
    // The rest of its output fits into the pipe.
    let mut line = Vec::new();
    let stdout = child.stdout.as_mut().unwrap();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    let address = String::from_utf8(line).unwrap().trim().to_owned();
    Some((child, address))
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

#[test]
fn relay_tokio_serves_busy_connections_beside_idle_ones_in_one_thread() {
    const IDLE: usize = 190;
    const BUSY: usize = 10;
    const ROUNDS: usize = 20;
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend_address = backend.local_addr().unwrap().to_string();
    let Some((child, address)) = spawn(&["127.0.0.1:0", &backend_address]) else {
        return;
    };
    // Answers each connection with what it says.
    let echoing = thread::spawn(move || {
        let echoes = [(); IDLE + BUSY].map(|()| {
            let (stream, _) = backend.accept().unwrap();
            thread::spawn(move || {
                // The relay may reset a connection when it ends.
                let _ = std::io::copy(&mut &stream, &mut &stream);
            })
        });
        for echo in echoes {
            echo.join().unwrap();
        }
    });
    let idle = [(); IDLE].map(|()| connect(&address));
    let bulk: Vec<u8> = (0..800_000_u32).map(|n| (n % 251) as u8).collect();
    let busy = [(); BUSY].map(|()| {
        let (mut client, bulk) = (connect(&address), bulk.clone());
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
            assert!(arrived == bulk, "the answer");
            sender.join().unwrap();
            client
        })
    });
    let busy = busy.map(|client| client.join().unwrap());
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    assert_eq!(tasks.count(), 1, "threads of the relay");

    // All connections are still open.
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
    let printed = BufReader::new(&output.stdout[..]).lines();
    let printed: Vec<_> = printed.map(Result::unwrap).collect();
    assert_eq!(printed.len(), IDLE + BUSY);
    let n = ROUNDS * 8 + bulk.len();
    for (clients, counts) in [
        (&idle[..], "0 bytes there, 0 bytes back".to_owned()),
        (&busy[..], format!("{n} bytes there, {n} bytes back")),
    ] {
        for client in clients {
            let line = format!("{}: {counts}", client.local_addr().unwrap());
            assert!(printed.contains(&line), "{line}");
        }
    }
    echoing.join().unwrap();
}

#[test]
fn relay_tokio_closes_a_connection_that_is_idle_for_too_long() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let backend_address = backend.local_addr().unwrap().to_string();
    let Some((child, address)) = spawn(&["127.0.0.1:0", &backend_address, "0.05"]) else {
        return;
    };
    let mut client = connect(&address);
    let (mut server, _) = backend.accept().unwrap();
    server.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    for peer in [&mut client, &mut server] {
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let peer = client.local_addr().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        format!("relay_tokio: {peer}: nothing has moved for 50ms\n")
    );
}
