//! A peer resets the connection in the middle of a stream, over a lossy link.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_socket_linger, set_tcp_keepidle, set_tcp_keepintvl,
};
use zcopy::{Ended, Error, Relay, Side, Strategy, Transfer};

use super::driver::{Driver, STRATEGIES, drivers_and};
use super::link::{Impairments, Link, is_in_namespace};
use super::peers::receive_exactly;
use super::processor_time::mostly_asleep;
use crate::concurrency::bounded;
use crate::files::{assert_same, contents, cursor, file, pattern};
use crate::options::MaybeOptions as _;

const LEN: usize = (3 << 20) + 7;

/// What the peer receives or sends before it resets the connection.
const BEFORE: usize = 300_007;

/// Closes a socket so that the other end sees a reset.
fn reset(socket: TcpStream) {
    set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
    drop(socket);
}

fn assert_reset(error: &Error, what: &str) {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_reset = matches!(errno, Some(Errno::PIPE | Errno::CONNRESET));
    assert!(is_reset && error.is_disconnected(), "{what}: {error:#}");
}

#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reset_by_the_reader_or_the_writer_names_its_side_and_counts_exactly() {
    if !is_in_namespace(
        "networks::resets::a_reset_by_the_reader_or_the_writer_names_its_side_and_counts_exactly",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(9);
        let cases = drivers_and(&STRATEGIES)
            .map(|(driver, strategy)| (driver, strategy, link.connect(), link.connect()));
        let cases: Vec<_> = cases.collect();
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, strategy, (sink, reader), (source, mut writer)) in cases {
                let what = format!("{driver:?}, {strategy:?}");
                let told = what.clone();
                scope.spawn(move || {
                    driver.prepare(&sink);
                    let file = file(&pattern(LEN));
                    let reading = thread::spawn(move || {
                        let found = receive_exactly(&reader, BEFORE);
                        reset(reader);
                        found
                    });
                    let transfer = Transfer::new(&file, &sink).maybe_strategy(strategy);
                    let error = mostly_asleep(&what, || driver.transfer(transfer).unwrap_err());
                    assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
                    assert_reset(&error, &what);
                    let counted = error.bytes();
                    assert!(
                        (BEFORE as u64..LEN as u64).contains(&counted),
                        "{what}: {error:#}"
                    );
                    assert_eq!(cursor(&file), counted, "{what}: {error:#}");
                    assert_same(&reading.join().unwrap(), &pattern(BEFORE), &what);
                });
                if strategy == Some(Strategy::Sendfile) {
                    // It serves no source but files.
                    continue;
                }
                scope.spawn(move || {
                    let what = format!("from the socket, {told}");
                    driver.prepare(&source);
                    // A reset is sent once. If it is lost, a reader learns of it by a probe.
                    set_socket_keepalive(&source, true).unwrap();
                    set_tcp_keepidle(&source, Duration::from_secs(1)).unwrap();
                    set_tcp_keepintvl(&source, Duration::from_secs(1)).unwrap();
                    let file = file(b"");
                    let writing = thread::spawn(move || {
                        writer.write_all(&pattern(BEFORE)).unwrap();
                        reset(writer);
                    });
                    let transfer = Transfer::new(&source, &file).maybe_strategy(strategy);
                    let error = mostly_asleep(&what, || driver.transfer(transfer).unwrap_err());
                    writing.join().unwrap();
                    if strategy != Some(Strategy::SplicePipe) {
                        assert_eq!(error.side(), Side::Source, "{what}: {error:#}");
                    }
                    assert_reset(&error, &what);
                    let found = contents(&file);
                    assert_eq!(error.bytes(), found.len() as u64, "{what}: {error:#}");
                    assert!(found.len() <= BEFORE, "{what}: {error:#}");
                    assert_same(&found, &pattern(LEN)[..found.len()], &what);
                });
            }
        });
        link.assert_was_lossy();
    });
}

/// What the client has sent is what the relay has counted, what was in flight, and what it has not
/// read.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reset_by_the_server_of_a_relay_leaves_no_byte_unaccounted_for() {
    if !is_in_namespace(
        "networks::resets::a_reset_by_the_server_of_a_relay_leaves_no_byte_unaccounted_for",
    ) {
        return;
    }
    bounded(|| {
        let link = Link::start(10);
        let cases = Driver::ALL.map(|driver| (driver, link.connect(), link.connect()));
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, (mut client, front), (back, server)) in cases {
                scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let what = format!("{driver:?}");
                    let answer = b"a short answer";
                    let serving = thread::spawn(move || {
                        (&server).write_all(answer).unwrap();
                        let found = receive_exactly(&server, BEFORE);
                        reset(server);
                        found
                    });
                    let mut answered = client.try_clone().unwrap();
                    let sending = thread::spawn(move || client.write_all(&pattern(LEN)).unwrap());
                    let mut rest_of_front = front.try_clone().unwrap();
                    let relay = Relay::new(front, back);
                    let error = mostly_asleep(&what, || driver.relay(relay).unwrap_err());
                    assert_reset(&error, &what);
                    assert_ne!(error.side(), Side::Neither, "{what}: {error:#}");
                    let report = error.relay_report().unwrap();
                    assert_eq!(report.ended(), Ended::Failed, "{what}");
                    assert_same(&serving.join().unwrap(), &pattern(BEFORE), &what);
                    let counted = report.a_to_b().bytes() as usize;
                    assert!((BEFORE..LEN).contains(&counted), "{what}: {error:#}");
                    assert_eq!(report.b_to_a().bytes(), answer.len() as u64, "{what}");
                    let mut found = [0; 14];
                    answered.read_exact(&mut found).unwrap();
                    assert_eq!(&found, answer, "{what}");
                    // The client goes on sending to the socket that the relay no longer reads.
                    let undelivered = report.a_to_b().undelivered();
                    let mut rest = vec![0; LEN - counted - undelivered.len()];
                    rest_of_front.set_nonblocking(false).unwrap();
                    rest_of_front.read_exact(&mut rest).unwrap();
                    sending.join().unwrap();
                    let found = [undelivered, &rest].concat();
                    assert_same(&found, &pattern(LEN)[counted..], &what);
                });
            }
        });
        link.assert_was_lossy();
    });
}

/// The client resets the connection while the answer is on its way to it.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_reset_by_the_client_of_a_relay_ends_both_directions() {
    if !is_in_namespace("networks::resets::a_reset_by_the_client_of_a_relay_ends_both_directions") {
        return;
    }
    bounded(|| {
        let link = Link::start(11);
        let cases = Driver::ALL.map(|driver| (driver, link.connect(), link.connect()));
        link.impair(Impairments::LOSSY);
        thread::scope(|scope| {
            for (driver, (mut client, front), (back, mut server)) in cases {
                scope.spawn(move || {
                    driver.prepare(&front);
                    driver.prepare(&back);
                    let what = format!("{driver:?}");
                    let asking = thread::spawn(move || {
                        client.write_all(b"question").unwrap();
                        let found = receive_exactly(&client, BEFORE);
                        reset(client);
                        found
                    });
                    let serving = thread::spawn(move || {
                        let question = receive_exactly(&server, 8);
                        let sent = server.write_all(&pattern(LEN));
                        (question, sent.is_ok())
                    });
                    let relay = Relay::new(front, back);
                    let error = mostly_asleep(&what, || driver.relay(relay).unwrap_err());
                    assert_reset(&error, &what);
                    assert_ne!(error.side(), Side::Neither, "{what}: {error:#}");
                    let report = error.relay_report().unwrap();
                    let counted = report.b_to_a().bytes();
                    assert!(
                        (BEFORE as u64..LEN as u64).contains(&counted),
                        "{what}: {error:#}"
                    );
                    assert_eq!(report.a_to_b().bytes(), 8, "{what}");
                    assert_same(&asking.join().unwrap(), &pattern(BEFORE), &what);
                    drop(error);
                    let (question, _) = serving.join().unwrap();
                    assert_eq!(question, b"question");
                });
            }
        });
        link.assert_was_lossy();
    });
}
