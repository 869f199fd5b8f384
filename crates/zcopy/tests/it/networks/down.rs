//! A link goes down in the middle: time-outs fire, and what had been accepted still arrives.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_user_timeout;
use zcopy::{Ended, Relay, Side, Strategy, Transfer};

use super::driver::{Driver, STRATEGIES, drivers_and};
use super::link::{Impairments, Link, is_in_namespace};
use super::little_room::connect;
use super::peers::{receive, receive_up_to};
use super::processor_time::mostly_asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, contents, cursor, file, pattern, reopen};
use crate::options::MaybeOptions as _;

/// More than the buffers of all sockets on the way hold.
const LEN: usize = (3 << 20) + 7;

/// What the reader takes before the link goes down.
const TAKEN: usize = 200_000;

const IDLE: Duration = Duration::from_millis(1500);

/// Opens a file anew, with a cursor of its own.
fn reopened(file: &File) -> OwnedFd {
    reopen(file, OFlags::RDONLY)
}

/// Receives the first bytes, and the rest when the link has gone down.
fn receive_around(down: &Barrier, peer: &TcpStream) -> Vec<u8> {
    let mut found = receive_up_to(peer, TAKEN);
    down.wait();
    down.wait();
    found.extend(receive(peer).join().unwrap());
    found
}

/// Takes the link down when all readers have received the first bytes.
fn take_down(link: &Link, down: &Barrier) {
    down.wait();
    link.impair(Impairments::DOWN);
    down.wait();
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn an_idle_time_out_fires_and_what_was_counted_arrives_when_the_link_is_up_again() {
    if !is_in_namespace(
        "networks::down::an_idle_time_out_fires_and_what_was_counted_arrives_when_the_link_is_up_again",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(6);
        let source = file(&pattern(LEN));
        let (mut cases, mut readers) = (Vec::new(), Vec::new());
        for (driver, strategy) in drivers_and(&STRATEGIES) {
            let (sink, peer) = connect(&link);
            cases.push((driver, strategy, sink));
            readers.push(peer);
        }
        let down = Barrier::new(readers.len() + 1);
        thread::scope(|scope| {
            let (source, down) = (&source, &down);
            let transfers: Vec<_> = cases
                .into_iter()
                .map(|(driver, strategy, sink)| {
                    scope.spawn(move || {
                        driver.prepare(&sink);
                        let what = format!("{driver:?}, {strategy:?}");
                        let source = reopened(source);
                        let transfer = Transfer::new(&source, &sink)
                            .idle_timeout(IDLE)
                            .maybe_strategy(strategy);
                        let report = mostly_asleep(&what, || driver.transfer(transfer).unwrap());
                        assert_eq!(report.ended(), Ended::TimedOut, "{what}");
                        assert_eq!(cursor(&source), report.bytes(), "{what}");
                        (what, report.bytes())
                    })
                })
                .collect();
            let readers: Vec<_> = readers
                .into_iter()
                .map(|peer| scope.spawn(move || receive_around(down, &peer)))
                .collect();
            take_down(&link, down);
            let counted: Vec<_> = transfers.into_iter().map(|t| t.join().unwrap()).collect();
            link.impair(Impairments::NONE);
            for ((what, bytes), reader) in counted.into_iter().zip(readers) {
                let found = reader.join().unwrap();
                assert_same(&found, &pattern(LEN)[..bytes as usize], &what);
            }
        });
    });
}

/// `TCP_USER_TIMEOUT` ends a connection whose bytes nobody acknowledges.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_connection_that_times_out_is_an_error_of_the_sink() {
    if !is_in_namespace("networks::down::a_connection_that_times_out_is_an_error_of_the_sink") {
        return;
    }
    bounded(|| {
        let link = Link::start(7);
        let source = file(&pattern(LEN));
        let (mut cases, mut readers, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
        for (driver, strategy) in drivers_and(&STRATEGIES) {
            let (sink, peer) = connect(&link);
            sinks.push(sink.try_clone().unwrap());
            cases.push((driver, strategy, sink));
            readers.push(peer);
        }
        let down = Barrier::new(readers.len() + 1);
        thread::scope(|scope| {
            let source = &source;
            for (driver, strategy, sink) in cases {
                scope.spawn(move || {
                    driver.prepare(&sink);
                    let what = format!("{driver:?}, {strategy:?}");
                    let source = reopened(source);
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let error = mostly_asleep(&what, || driver.transfer(transfer).unwrap_err());
                    assert_eq!(error.side(), Side::Sink, "{what}: {error}");
                    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
                    // The kernel forgets why a sendfile or splice ended that slept and had moved
                    // bytes. The next call says that the connection has ended.
                    let is_forgotten = driver == Driver::Run
                        && strategy != Some(Strategy::Buffered)
                        && errno == Some(Errno::PIPE);
                    let is_timed_out = errno == Some(Errno::TIMEDOUT);
                    assert!(is_timed_out || is_forgotten, "{what}: {error:#}");
                    assert!(error.bytes() >= TAKEN as u64, "{what}: {error}");
                    assert_eq!(cursor(&source), error.bytes(), "{what}: {error}");
                });
            }
            for peer in &readers {
                scope.spawn(|| {
                    let _ = receive_up_to(peer, TAKEN);
                    down.wait();
                    down.wait();
                });
            }
            take_down(&link, &down);
            // Before that, a reader that was late would have let its connection time out.
            for sink in &sinks {
                set_tcp_user_timeout(sink, 600).unwrap();
            }
        });
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_download_and_a_relay_over_a_link_that_goes_down_end_by_their_idle_time_out() {
    if !is_in_namespace(
        "networks::down::a_download_and_a_relay_over_a_link_that_goes_down_end_by_their_idle_time_out",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(8);
        let mut cases = Vec::new();
        for driver in Driver::ALL {
            cases.push((driver, connect(&link), connect(&link), connect(&link)));
        }
        let down = Barrier::new(cases.len() + 1);
        thread::scope(|scope| {
            let down = &down;
            let (mut movers, mut readers) = (Vec::new(), Vec::new());
            for (driver, (upload, source), (client, front), (back, server)) in cases {
                // The peers write until the other ends are closed.
                for mut peer in [upload, client] {
                    scope.spawn(move || peer.write_all(&pattern(LEN)).unwrap_err());
                }
                readers.push(scope.spawn(move || receive_around(down, &server)));
                let downloading = scope.spawn(move || {
                    driver.prepare(&source);
                    let sink = file(b"");
                    let what = format!("download, {driver:?}");
                    // More would take the download to its end before the link goes down.
                    let transfer = Transfer::new(&source, &sink).idle_timeout(IDLE);
                    let transfer = transfer.rate_limit(1 << 20);
                    let report = mostly_asleep(&what, || driver.transfer(transfer).unwrap());
                    assert_eq!(report.ended(), Ended::TimedOut, "{what}");
                    let found = contents(&sink);
                    assert_same(&found, &pattern(LEN)[..report.bytes() as usize], &what);
                });
                let relaying = scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let what = format!("relay, {driver:?}");
                    let relay = Relay::new(front, back).idle_timeout(IDLE);
                    let report = mostly_asleep(&what, || driver.relay(relay).unwrap());
                    assert_eq!(report.ended(), Ended::TimedOut, "{what}");
                    (what, report.a_to_b().bytes())
                });
                movers.push((downloading, relaying));
            }
            take_down(&link, down);
            let mut counted = Vec::new();
            for (downloading, relaying) in movers {
                downloading.join().unwrap();
                counted.push(relaying.join().unwrap());
            }
            link.impair(Impairments::NONE);
            for ((what, bytes), reader) in counted.into_iter().zip(readers) {
                let found = reader.join().unwrap();
                assert_same(&found, &pattern(LEN)[..bytes as usize], &what);
            }
        });
    });
}
