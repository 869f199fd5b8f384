//! Packets are lost, doubled, late and overtaken: every byte arrives once and in order.

use std::net::{Shutdown, TcpStream};
use std::thread;

use zcopy::{Ended, Relay, Strategy, Transfer};

use super::driver::Driver;
use super::link::{Impairments, Link, is_in_namespace};
use super::peers::{inverse, receive, send};
use super::processor_time::mostly_asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, contents, file, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::allowed;
use crate::strategies::assert_served;

const LEN: usize = (1 << 20) + 7;

/// Moves bytes in a thread per driver and strategy, all at the same time over one lossy link.
/// `connect` returns the connections of one transfer.
fn over_a_lossy_link<T: Send>(
    strategies: &[Option<Strategy>],
    connect: impl Fn(&Link) -> T,
    check: impl Fn(T, Driver, Option<Strategy>, &str) + Sync,
) {
    let link = Link::start(1);
    let mut cases = Vec::new();
    for driver in Driver::ALL {
        for strategy in allowed(strategies.iter().copied()) {
            cases.push((connect(&link), driver, strategy));
        }
    }
    link.impair(Impairments::LOSSY);
    thread::scope(|scope| {
        for (connected, driver, strategy) in cases {
            let check = &check;
            scope.spawn(move || {
                let what = format!("{driver:?}, {strategy:?}");
                mostly_asleep(&what, || check(connected, driver, strategy, &what));
            });
        }
    });
    link.assert_was_lossy();
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_file_crosses_a_lossy_link_by_every_strategy_and_driver() {
    use Strategy as S;
    if !is_in_namespace("networks::lossy::a_file_crosses_a_lossy_link_by_every_strategy_and_driver")
    {
        return;
    }
    bounded(|| {
        let strategies = [
            None,
            Some(S::Sendfile),
            Some(S::SplicePipe),
            Some(S::Buffered),
        ];
        over_a_lossy_link(
            &strategies,
            Link::connect,
            |ends, driver, strategy, what| {
                let (sink, peer) = ends;
                let source = file(&pattern(LEN));
                driver.prepare(&sink);
                let receiving = receive(&peer);
                let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                let report = driver.transfer(transfer).unwrap();
                assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
                assert_served(&report, strategy, what);
                drop(sink);
                assert_same(&receiving.join().unwrap(), &pattern(LEN), what);
            },
        );
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_download_crosses_a_lossy_link_by_every_strategy_and_driver() {
    use Strategy as S;
    if !is_in_namespace(
        "networks::lossy::a_download_crosses_a_lossy_link_by_every_strategy_and_driver",
    ) {
        return;
    }
    bounded(|| {
        let strategies = [None, Some(S::SplicePipe), Some(S::Buffered)];
        over_a_lossy_link(
            &strategies,
            Link::connect,
            |ends, driver, strategy, what| {
                let (source, peer) = ends;
                let sink = file(b"");
                driver.prepare(&source);
                let sending = send(&peer, pattern(LEN));
                let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                let report = driver.transfer(transfer).unwrap();
                sending.join().unwrap();
                assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
                assert_served(&report, strategy, what);
                assert_same(&contents(&sink), &pattern(LEN), what);
            },
        );
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_transfer_crosses_two_lossy_links_by_every_strategy_and_driver() {
    use Strategy as S;
    if !is_in_namespace(
        "networks::lossy::a_transfer_crosses_two_lossy_links_by_every_strategy_and_driver",
    ) {
        return;
    }
    bounded(|| {
        let strategies = [None, Some(S::SplicePipe), Some(S::Buffered)];
        let connect = |link: &Link| (link.connect(), link.connect());
        over_a_lossy_link(&strategies, connect, |ends, driver, strategy, what| {
            let ((client, source), (sink, server)) = ends;
            driver.prepare(&source);
            driver.prepare(&sink);
            let (sending, receiving) = (send(&client, pattern(LEN)), receive(&server));
            let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
            let report = driver.transfer(transfer).unwrap();
            sending.join().unwrap();
            assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
            assert_served(&report, strategy, what);
            sink.shutdown(Shutdown::Write).unwrap();
            assert_same(&receiving.join().unwrap(), &pattern(LEN), what);
        });
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn both_directions_of_a_relay_cross_two_lossy_links() {
    if !is_in_namespace("networks::lossy::both_directions_of_a_relay_cross_two_lossy_links") {
        return;
    }
    bounded(|| {
        let connect = |link: &Link| (link.connect(), link.connect());
        over_a_lossy_link(&[None], connect, |ends, driver, _, what| {
            let ((client, front), (back, server)) = ends;
            check_relay(driver, [client, front, back, server], what);
        });
    });
}

/// Sends different bytes in both directions.
pub(super) fn check_relay(driver: Driver, ends: [TcpStream; 4], what: &str) {
    let [client, front, back, server] = ends;
    driver.prepare(&front);
    driver.prepare(&back);
    let sending = [send(&client, pattern(LEN)), send(&server, inverse(LEN / 2))];
    let (at_server, at_client) = (receive(&server), receive(&client));
    let report = driver.relay(Relay::new(front, back)).unwrap();
    for sending in sending {
        sending.join().unwrap();
    }
    assert_same(&at_server.join().unwrap(), &pattern(LEN), what);
    assert_same(&at_client.join().unwrap(), &inverse(LEN / 2), what);
    let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
    assert_eq!(counts, (LEN as u64, (LEN / 2) as u64), "{what}");
    assert_eq!(report.ended(), Ended::Eof, "{what}");
}
