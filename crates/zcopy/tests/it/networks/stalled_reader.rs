//! A reader that stops for a while costs no processor time, and then gets the rest.

use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use zcopy::{Ended, Relay, Transfer};

use super::driver::{Driver, STRATEGIES, drivers_and};
use super::link::{Link, is_in_namespace};
use super::little_room::connect;
use super::peers::{receive, receive_exactly, send};
use super::processor_time::asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, file, pattern};
use crate::options::MaybeOptions as _;

/// More than the buffers of all sockets on the way hold.
const LEN: usize = (3 << 20) + 7;

/// How long the reader sleeps.
const STOP: Duration = Duration::from_millis(1200);

/// Receives a part, sleeps, and receives the rest.
fn receive_with_a_stop(socket: TcpStream) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = receive_exactly(&socket, 100_000);
        thread::sleep(STOP);
        bytes.extend(receive(&socket).join().unwrap());
        bytes
    })
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reader_that_stops_costs_a_transfer_no_processor_time() {
    if !is_in_namespace(
        "networks::stalled_reader::a_reader_that_stops_costs_a_transfer_no_processor_time",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(3);
        thread::scope(|scope| {
            for (driver, strategy) in drivers_and(&STRATEGIES) {
                let (sink, peer) = connect(&link);
                scope.spawn(move || {
                    let source = file(&pattern(LEN));
                    driver.prepare(&sink);
                    let receiving = receive_with_a_stop(peer);
                    let what = format!("{driver:?}, {strategy:?}");
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let report = asleep(&what, || driver.transfer(transfer).unwrap());
                    assert_eq!(report.bytes(), LEN as u64, "{what}");
                    assert!(report.elapsed() >= STOP, "the transfer waited: {what}");
                    drop(sink);
                    assert_same(&receiving.join().unwrap(), &pattern(LEN), &what);
                });
            }
        });
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reader_that_stops_costs_a_relay_no_processor_time() {
    if !is_in_namespace(
        "networks::stalled_reader::a_reader_that_stops_costs_a_relay_no_processor_time",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(4);
        thread::scope(|scope| {
            for driver in Driver::ALL {
                let ((client, front), (back, server)) = (connect(&link), connect(&link));
                scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let sending = send(&client, pattern(LEN));
                    server.shutdown(std::net::Shutdown::Write).unwrap();
                    let receiving = receive_with_a_stop(server);
                    let what = format!("{driver:?}");
                    let relay = Relay::new(front, back);
                    let report = asleep(&what, || driver.relay(relay).unwrap());
                    sending.join().unwrap();
                    assert_same(&receiving.join().unwrap(), &pattern(LEN), &what);
                    assert_eq!(report.a_to_b().bytes(), LEN as u64, "{what}");
                    assert_eq!(report.ended(), Ended::Eof, "{what}");
                });
            }
        });
    });
}
