//! A splice out of a TCP socket returns `EAGAIN` at the urgent mark, although the socket is ready.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;

use rustix::net::{SendFlags, send};
use zcopy::{Relay, Transfer};

use crate::support::{block_on, bytes, drain, tcp_pair, tokio_tcp};

/// Long enough for splices.
const PART: usize = (1 << 20) + 7;

/// Sends two parts with an urgent byte between them. Closes nothing, so that no further event tells
/// the reader of anything.
fn send_parts(mut peer: TcpStream, sent: Vec<u8>) -> JoinHandle<TcpStream> {
    std::thread::spawn(move || {
        peer.write_all(&sent[..PART]).unwrap();
        assert_eq!(send(&peer, b"!", SendFlags::OOB), Ok(1));
        peer.write_all(&sent[PART..]).unwrap();
        peer
    })
}

#[test]
fn a_task_reads_past_an_urgent_byte_behind_which_nothing_happens() {
    let sent = bytes(2 * PART);
    let ((client, source), (sink, server)) = (tcp_pair(), tcp_pair());
    let (sending, draining) = (send_parts(client, sent.clone()), drain(server));
    let limit = sent.len() as u64;
    let report = block_on(async {
        let transfer = Transfer::new(tokio_tcp(source), tokio_tcp(sink)).limit(limit);
        transfer.run_async().await.unwrap()
    });
    assert!(draining.join().unwrap() == sent, "{report}");
    sending.join().unwrap();
}

#[test]
fn a_relay_reads_past_an_urgent_byte() {
    let sent = bytes(2 * PART);
    let ((client, front), (back, mut server)) = (tcp_pair(), tcp_pair());
    let sending = send_parts(client, sent.clone());
    block_on(async {
        let relay = tokio::spawn(Relay::new(tokio_tcp(front), tokio_tcp(back)).run_async());
        let reading = tokio::task::spawn_blocking(move || {
            let mut received = vec![0; sent.len()];
            server.read_exact(&mut received).unwrap();
            assert!(received == sent);
        });
        reading.await.unwrap();
        // Both peers close only now, so that no event before has woken the relay.
        drop(sending.join().unwrap());
        relay.await.unwrap().unwrap();
    });
}
