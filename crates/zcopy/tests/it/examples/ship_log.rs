//! `ship_log`, to peers that leave and come back.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Pid, Signal, kill_process};

use super::{TIME_LIMIT, example};
use crate::endpoints::pipe;
use crate::files::{assert_same, write_all};

/// Lines with their numbers, of which no two are the same.
fn lines(numbers: std::ops::Range<usize>) -> Vec<u8> {
    numbers
        .flat_map(|n| format!("line {n}\n").into_bytes())
        .collect()
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The socket of each peer inherits it, so that a peer that does not read stops the shipper.
    set_socket_recv_buffer_size(&listener, 64 << 10).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// The next connection of the shipper.
fn accept(listener: &TcpListener) -> TcpStream {
    let time_limit = Timespec::try_from(TIME_LIMIT).unwrap();
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&time_limit)).unwrap(), 1);
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

fn read(mut from: impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn ship_log_follows_a_file_and_loses_no_line_while_the_peer_is_away() {
    let Some(mut ship) = example("ship_log") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut written = lines(0..1000);
    fs::write(&log, &written).unwrap();
    let mut log = File::options().append(true).open(log).unwrap();
    let (listener, address) = listen();
    ship.current_dir(&dir).args([&address, "log"]);
    ship.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = ship.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut stdout = child.stdout.take().unwrap();
    let len = lines(0..6000).len();
    // Read all the time, because all sinks wait for the slowest one, and kept open.
    let printing = thread::spawn(move || (read(&mut stdout, len), stdout));

    let mut arrived = Vec::new();
    for round in 1..=5 {
        let peer = accept(&listener);
        arrived.extend(read(&peer, written.len() - arrived.len()));
        // Lines that are written while the peer is there, and one in two parts.
        let there = lines(round * 1000..round * 1000 + 500);
        for part in [&there[..4321], &there[4321..]] {
            log.write_all(part).unwrap();
            arrived.extend(read(&peer, part.len()));
        }
        written.extend_from_slice(&there);
        drop(peer);
        let noticed = stderr.next().unwrap().unwrap();
        assert_eq!(noticed, "ship_log: the peer has left");
        // Lines for the next peer.
        let away = lines(round * 1000 + 500..round * 1000 + 1000);
        log.write_all(&away).unwrap();
        written.extend_from_slice(&away);
    }
    let peer = accept(&listener);
    arrived.extend(read(&peer, written.len() - arrived.len()));
    assert_same(&arrived, &written, "the peers together");
    let (printed, _stdout) = printing.join().unwrap();
    assert_same(&printed, &written, "standard output");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
}

/// Bytes that the shipper's kernel had accepted and the peer has not read are lost: those of the
/// second peer therefore begin later. From there on none is missing, and none comes twice.
#[test]
fn ship_log_goes_on_exactly_behind_what_a_peer_that_dies_has_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = lines(0..1_500_000);
    fs::write(dir.path().join("log"), &bytes).unwrap();
    for from_pipe in [false, true] {
        let Some(mut ship) = example("ship_log") else {
            return;
        };
        let (listener, address) = listen();
        ship.current_dir(&dir).arg(&address);
        ship.stdout(Stdio::piped()).stderr(Stdio::null());
        let feeder = if from_pipe {
            let (stdin, writer) = pipe();
            ship.stdin(stdin);
            let bytes = bytes.clone();
            Some(thread::spawn(move || assert!(write_all(&writer, &bytes))))
        } else {
            ship.arg("log");
            None
        };
        let mut child = ship.spawn().unwrap();
        drop(ship);
        let mut stdout = child.stdout.take().unwrap();
        let len = bytes.len();
        // It stays open: the shipper ends without a reader.
        let reading = thread::spawn(move || (read(&mut stdout, len), stdout));

        let n_read = 100_000;
        let mut received = Vec::new();
        for _ in 0..2 {
            let peer = accept(&listener);
            received.push(read(&peer, n_read));
        }
        let mut peer = accept(&listener);
        let mut last = Vec::new();
        if from_pipe {
            // Ends when the shipper has shut it down; then the shipper waits for this end.
            peer.read_to_end(&mut last).unwrap();
            drop(peer);
            assert!(child.wait().unwrap().success());
        } else {
            let final_line = b"line 1499999\n";
            while !last.ends_with(final_line) {
                let mut some = vec![0; 1 << 16];
                let n = peer.read(&mut some).unwrap();
                assert!(n > 0, "the shipper has hung up");
                last.extend_from_slice(&some[..n]);
            }
            kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
            child.wait().unwrap();
        }
        received.push(last);
        let (printed, _stdout) = reading.join().unwrap();
        assert_same(&printed, &bytes, "standard output");
        // Each peer has received a part of the log, and each part begins behind the one before.
        let mut position = 0;
        for part in received {
            let start = bytes[position..]
                .windows(64)
                .position(|at| at == &part[..64]);
            position += start.unwrap();
            assert_same(&part, &bytes[position..position + part.len()], "a part");
            position += part.len();
        }
        assert_eq!(position, bytes.len(), "the last part ends with the log");
        if let Some(feeder) = feeder {
            feeder.join().unwrap();
        }
    }
}

#[test]
fn ship_log_ends_with_an_error_when_standard_output_is_full() {
    let Some(mut ship) = example("ship_log") else {
        return;
    };
    let (listener, address) = listen();
    let (stdin, writer) = pipe();
    assert!(write_all(&writer, b"hello\n"));
    drop(writer);
    ship.arg(address)
        .stdin(stdin)
        .stdout(crate::endpoints::full());
    let output = ship
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output();
    let output = output.unwrap();
    drop(listener);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "ship_log: write to the sink failed after 0 bytes: No space left on device (os error 28)\n"
    );
}
