//! Every socket has room for a few packets, and the link is lossy.

use std::net::TcpStream;
use std::thread;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_send_buffer_size};
use zcopy::{Ended, Relay, Strategy, Transfer};

use super::driver::Driver;
use super::link::{Impairments, Link, is_in_namespace};
use super::peers::{inverse, receive, send};
use super::processor_time::mostly_asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, file, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::allowed;

const LEN: usize = (48 << 10) + 7;

fn connect(link: &Link) -> (TcpStream, TcpStream) {
    let (here, there) = link.connect();
    for end in [&here, &there] {
        // The kernel makes 4608 bytes of it, the least that it allows.
        set_socket_send_buffer_size(end, 1).unwrap();
        // With the least, packets find no room, and waiting for them to be sent again takes long.
        set_socket_recv_buffer_size(end, 4 << 10).unwrap();
    }
    (here, there)
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn tiny_buffers_let_every_byte_through() {
    use Strategy as S;
    if !is_in_namespace("networks::tiny_buffers::tiny_buffers_let_every_byte_through") {
        return;
    }
    bounded(|| {
        let link = Link::start(5);
        let strategies = [Some(S::Sendfile), Some(S::SplicePipe), Some(S::Buffered)];
        let mut transfers = Vec::new();
        for driver in Driver::ALL {
            for strategy in allowed(strategies) {
                transfers.push((driver, strategy, connect(&link)));
            }
        }
        let relays = Driver::ALL.map(|driver| (driver, connect(&link), connect(&link)));
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, strategy, (sink, peer)) in transfers {
                scope.spawn(move || {
                    let source = file(&pattern(LEN));
                    driver.prepare(&sink);
                    let receiving = receive(&peer);
                    let what = format!("{driver:?}, {strategy:?}");
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let report = mostly_asleep(&what, || driver.transfer(transfer).unwrap());
                    assert_eq!(report.bytes(), LEN as u64, "{what}");
                    drop(sink);
                    assert_same(&receiving.join().unwrap(), &pattern(LEN), &what);
                });
            }
            for (driver, (client, front), (back, server)) in relays {
                scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let sending = [send(&client, pattern(LEN)), send(&server, inverse(LEN))];
                    let (at_server, at_client) = (receive(&server), receive(&client));
                    let what = format!("relay, {driver:?}");
                    let relay = Relay::new(front, back);
                    let report = mostly_asleep(&what, || driver.relay(relay).unwrap());
                    for sending in sending {
                        sending.join().unwrap();
                    }
                    assert_same(&at_server.join().unwrap(), &pattern(LEN), &what);
                    assert_same(&at_client.join().unwrap(), &inverse(LEN), &what);
                    let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
                    assert_eq!(counts, (LEN as u64, LEN as u64), "{what}");
                    assert_eq!(report.ended(), Ended::Eof, "{what}");
                });
            }
        });
        link.assert_was_lossy();
    });
}
