//! Sockets that buffer little.

use std::net::TcpStream;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};

use super::link::Link;

/// Returns two sockets that are connected over the link and buffer little.
pub(crate) fn connect(link: &Link) -> (TcpStream, TcpStream) {
    let (here, there) = link.connect();
    buffer_little([&here, &there]);
    (here, there)
}

/// Makes sockets buffer little.
pub(crate) fn buffer_little(sockets: [&TcpStream; 2]) {
    for socket in sockets {
        set_socket_send_buffer_size(socket, 64 << 10).unwrap();
        set_socket_recv_buffer_size(socket, 64 << 10).unwrap();
    }
}
