//! A connected UDP socket whose peer has closed: the error that the next call would return is not
//! lost by a poll.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use zcopy::{Error, FanOut, Relay, Transfer};

use crate::endpoints::null;

/// Returns a socket that is connected to another one, and a closure after which the other one takes
/// no more from it and which sends it a datagram, so that the socket has the error `ECONNREFUSED`.
///
/// Closing it would not do: children of other tests have its descriptor until they are executed.
fn refused() -> (UdpSocket, impl FnOnce() + Send) {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(peer.local_addr().unwrap()).unwrap();
    let sender = socket.try_clone().unwrap();
    let refuse = move || {
        peer.connect("127.0.0.1:1").unwrap();
        sender.send(b"nobody reads this").unwrap();
    };
    (socket, refuse)
}

fn assert_refused(error: &Error) {
    assert_eq!(
        error.raw_os_error(),
        Some(Errno::CONNREFUSED.raw_os_error())
    );
    assert!(error.is_disconnected(), "{error:#}");
}

/// The error comes while a transfer waits, or is there before.
#[test]
fn a_transfer_that_polls_its_source_fails_as_a_read_would() {
    for (is_waiting, nonblocking, ticks) in [
        (true, true, false),
        (true, false, true),
        (false, true, true),
        (false, false, false),
    ] {
        let (socket, refuse) = refused();
        socket.set_nonblocking(nonblocking).unwrap();
        let refusing = thread::spawn(move || {
            if is_waiting {
                thread::sleep(Duration::from_millis(50));
            }
            refuse();
        });
        if !is_waiting {
            thread::sleep(Duration::from_millis(50));
        }
        let transfer = Transfer::new(socket, null()).idle_timeout(Duration::from_secs(5));
        let transfer = if ticks {
            transfer.tick(Duration::from_secs(1))
        } else {
            transfer
        };
        assert_refused(&transfer.run().unwrap_err());
        refusing.join().unwrap();
    }
}

#[test]
fn a_fan_out_and_a_relay_fail_as_well() {
    for _ in 0..2 {
        let (socket, refuse) = refused();
        socket.set_nonblocking(true).unwrap();
        let refusing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            refuse();
        });
        let fan_out = FanOut::new(socket, null()).also_to(null());
        let fan_out = fan_out.idle_timeout(Duration::from_secs(5));
        assert_refused(&fan_out.run().unwrap_err());
        refusing.join().unwrap();

        let (socket, refuse) = refused();
        let (other, _open) = UdpSocket::bind("127.0.0.1:0")
            .map(|other| (other.try_clone().unwrap(), other))
            .unwrap();
        let refusing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            refuse();
        });
        let relay = Relay::new(socket, other).idle_timeout(Duration::from_secs(5));
        assert_refused(&relay.run().unwrap_err());
        refusing.join().unwrap();
    }
}
