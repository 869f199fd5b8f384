//! The peers at the far ends: threads that send and receive known bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread::{self, JoinHandle};

use crate::files::pattern;

/// Returns bytes that differ from those of [`pattern`] everywhere.
pub(crate) fn inverse(len: usize) -> Vec<u8> {
    pattern(len).into_iter().map(|byte| !byte).collect()
}

/// Sends bytes in pieces of varying length, and ends the stream.
pub(crate) fn send(socket: &TcpStream, bytes: Vec<u8>) -> JoinHandle<()> {
    let mut socket = socket.try_clone().unwrap();
    thread::spawn(move || {
        let (mut rest, mut len) = (&bytes[..], 1);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(len.min(rest.len()));
            socket.write_all(piece).unwrap();
            rest = later;
            len = len * 7 % 100_003;
        }
        socket.shutdown(Shutdown::Write).unwrap();
    })
}

/// Receives until the end of the stream.
pub(crate) fn receive(socket: &TcpStream) -> JoinHandle<Vec<u8>> {
    let mut socket = socket.try_clone().unwrap();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Receives exactly this many bytes.
pub(crate) fn receive_exactly(mut socket: &TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    socket.read_exact(&mut bytes).unwrap();
    bytes
}

/// Receives this many bytes, or those up to the end of the stream.
pub(crate) fn receive_up_to(socket: &TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // If it fails, too few bytes tell.
    let _ = socket.take(len as u64).read_to_end(&mut bytes);
    bytes
}
