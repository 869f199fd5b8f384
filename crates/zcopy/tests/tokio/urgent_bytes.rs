//! A splice out of a TCP socket returns `EAGAIN` at the urgent mark, although the socket is ready.

use std::io::Write;
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
    let ((client, front), (back, server)) = (tcp_pair(), tcp_pair());
    let answering = server.try_clone().unwrap();
    let (sending, draining) = (send_parts(client, sent.clone()), drain(server));
    let report = block_on(async {
        let relay = tokio::spawn(Relay::new(tokio_tcp(front), tokio_tcp(back)).run_async());
        let client = tokio::task::spawn_blocking(|| sending.join().unwrap())
            .await
            .unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        answering.shutdown(std::net::Shutdown::Write).unwrap();
        relay.await.unwrap().unwrap()
    });
    assert!(draining.join().unwrap() == sent, "{report:?}");
}
