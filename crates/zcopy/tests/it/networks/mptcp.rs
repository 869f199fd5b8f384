//! Multipath TCP (`IPPROTO_MPTCP`), whose sockets have calls of their own in the kernel.

use std::net::{SocketAddrV4, TcpStream};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, getsockname, ipproto,
    listen, socket_with,
};
use zcopy::{Side, Strategy, Transfer};

use super::driver::{Driver, STRATEGIES, drivers_and};
use super::link::{Impairments, Link, is_in_namespace};
use super::little_room::buffer_little;
use super::lossy::check_relay;
use super::peers::{receive, receive_exactly, send};
use super::processor_time::{asleep, mostly_asleep};
use crate::concurrency::bounded;
use crate::files::{assert_same, contents, cursor, file, pattern};
use crate::options::MaybeOptions as _;
use crate::skip::report;
use crate::strategies::assert_served;

const LEN: usize = (1 << 20) + 7;

/// Returns two sockets that are connected over the link by Multipath TCP. `None`, reported, if the
/// kernel does not have it.
fn connect_multipath(link: &Link) -> Option<(TcpStream, TcpStream)> {
    let socket = || {
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(ipproto::MPTCP);
        socket_with(AddressFamily::INET, SocketType::STREAM, flags, protocol)
    };
    let listener = match socket() {
        Ok(listener) => listener,
        Err(errno) => {
            report(&format!("the kernel has no Multipath TCP: {errno}"));
            return None;
        }
    };
    bind(&listener, &SocketAddrV4::new(link.here, 0)).unwrap();
    listen(&listener, 1).unwrap();
    let bound = SocketAddrV4::try_from(getsockname(&listener).unwrap()).unwrap();
    let here = socket().unwrap();
    connect(&here, &SocketAddrV4::new(link.there, bound.port())).unwrap();
    let there = accept_with(&listener, SocketFlags::CLOEXEC).unwrap();
    Some((here.into(), there.into()))
}

/// Connects a socket pair for each of these cases.
fn connected<T>(
    link: &Link,
    cases: impl IntoIterator<Item = T>,
) -> Option<Vec<(T, (TcpStream, TcpStream))>> {
    let cases = cases.into_iter();
    cases
        .map(|case| Some((case, connect_multipath(link)?)))
        .collect()
}

/// Panics if the connections have fallen back to TCP. Reads the counter of this namespace.
#[track_caller]
fn assert_multipath() {
    let counters = std::fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = counters
        .lines()
        .filter(|line| line.starts_with("MPTcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut counters = names.split(' ').zip(values.split(' '));
    let n_accepted = counters.find(|(name, _)| *name == "MPCapableACKRX");
    assert_ne!(n_accepted.unwrap().1, "0");
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_file_crosses_multipath_tcp_by_every_strategy_and_driver() {
    if !is_in_namespace(
        "networks::mptcp::a_file_crosses_multipath_tcp_by_every_strategy_and_driver",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(12);
        let Some(cases) = connected(&link, drivers_and(&STRATEGIES)) else {
            return;
        };
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for ((driver, strategy), (sink, peer)) in cases {
                scope.spawn(move || {
                    let what = format!("{driver:?}, {strategy:?}");
                    let source = file(&pattern(LEN));
                    driver.prepare(&sink);
                    let receiving = receive(&peer);
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let report = mostly_asleep(&what, || driver.transfer(transfer).unwrap());
                    assert_eq!(report.bytes(), LEN as u64, "{what}");
                    assert_served(&report, strategy, &what);
                    drop(sink);
                    assert_same(&receiving.join().unwrap(), &pattern(LEN), &what);
                });
            }
        });
        link.assert_was_lossy();
        assert_multipath();
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_download_crosses_multipath_tcp_by_every_strategy_and_driver() {
    use Strategy as S;
    if !is_in_namespace(
        "networks::mptcp::a_download_crosses_multipath_tcp_by_every_strategy_and_driver",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(13);
        let strategies = [None, Some(S::SplicePipe), Some(S::Buffered)];
        let Some(cases) = connected(&link, drivers_and(&strategies)) else {
            return;
        };
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for ((driver, strategy), (source, peer)) in cases {
                scope.spawn(move || {
                    let what = format!("{driver:?}, {strategy:?}");
                    let sink = file(b"");
                    driver.prepare(&source);
                    let sending = send(&peer, pattern(LEN));
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let report = mostly_asleep(&what, || driver.transfer(transfer).unwrap());
                    sending.join().unwrap();
                    assert_eq!(report.bytes(), LEN as u64, "{what}");
                    assert_served(&report, strategy, &what);
                    assert_same(&contents(&sink), &pattern(LEN), &what);
                });
            }
        });
        link.assert_was_lossy();
        assert_multipath();
    });
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn both_directions_of_a_relay_cross_multipath_tcp() {
    if !is_in_namespace("networks::mptcp::both_directions_of_a_relay_cross_multipath_tcp") {
        return;
    }
    bounded(|| {
        let link = Link::start(14);
        let mut cases = Vec::new();
        for driver in Driver::ALL {
            for (first, second) in [(true, true), (true, false), (false, true)] {
                let connect = |multipath| {
                    if multipath {
                        connect_multipath(&link)
                    } else {
                        Some(link.connect())
                    }
                };
                let (Some(front), Some(back)) = (connect(first), connect(second)) else {
                    return;
                };
                let what = format!("{driver:?}, multipath: {first}, {second}");
                cases.push((driver, what, front, back));
            }
        }
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, what, (client, front), (back, server)) in cases {
                scope.spawn(move || {
                    let ends = [client, front, back, server];
                    mostly_asleep(&what, || check_relay(driver, ends, &what));
                });
            }
        });
        link.assert_was_lossy();
        assert_multipath();
    });
}

/// The reader of each connection stops, goes on, and resets the connection.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reader_of_multipath_tcp_that_stops_and_resets_costs_no_time_and_no_count() {
    const STOP: Duration = Duration::from_millis(1200);
    const BEFORE: usize = 700_007;
    if !is_in_namespace(
        "networks::mptcp::a_reader_of_multipath_tcp_that_stops_and_resets_costs_no_time_and_no_count",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(15);
        let Some(cases) = connected(&link, drivers_and(&STRATEGIES)) else {
            return;
        };
        thread::scope(|scope| {
            for ((driver, strategy), (sink, peer)) in cases {
                scope.spawn(move || {
                    let what = format!("{driver:?}, {strategy:?}");
                    buffer_little([&sink, &peer]);
                    let source = file(&pattern(3 * LEN));
                    driver.prepare(&sink);
                    let reading = thread::spawn(move || {
                        let mut found = receive_exactly(&peer, 100_000);
                        thread::sleep(STOP);
                        found.extend(receive_exactly(&peer, BEFORE - 100_000));
                        set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
                        found
                    });
                    let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
                    let error = asleep(&what, || driver.transfer(transfer).unwrap_err());
                    assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                    assert!(error.is_disconnected(), "{what}: {error:#}");
                    assert!(error.report().elapsed() >= STOP, "{what}");
                    let counted = error.bytes();
                    let possible = BEFORE as u64..3 * LEN as u64;
                    assert!(possible.contains(&counted), "{what}: {error:#}");
                    assert_eq!(cursor(&source), counted, "{what}: {error:#}");
                    assert_same(&reading.join().unwrap(), &pattern(BEFORE), &what);
                });
            }
        });
        assert_multipath();
    });
}
