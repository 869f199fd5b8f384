//! Relays and transfers in tasks, over bad networks.

use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use zcopy::{Ended, Relay, Transfer};

use crate::support::{block_on, bytes, drain, feed, file, tokio_tcp};

#[path = "../it/networks/link.rs"]
mod link;
#[path = "../it/networks/processor_time.rs"]
mod processor_time;

use link::{Impairments, Link, is_in_namespace};
use processor_time::{asleep, mostly_asleep};

const LEN: usize = (1 << 20) + 7;

/// Sends bytes, and ends the stream.
fn feed_and_end(peer: &TcpStream, bytes: Vec<u8>) {
    let feeding = feed(peer.try_clone().unwrap(), bytes);
    let peer = peer.try_clone().unwrap();
    std::thread::spawn(move || {
        feeding.join().unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
    });
}

/// All tasks share one thread, whose processor time is that of all of them.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn tasks_move_every_byte_over_a_lossy_link_and_sleep_in_between() {
    const N: usize = 4;
    if !is_in_namespace("networks::tasks_move_every_byte_over_a_lossy_link_and_sleep_in_between") {
        return;
    }
    let link = Link::start(1);
    let relays: Vec<_> = (0..N).map(|_| (link.connect(), link.connect())).collect();
    let uploads: Vec<_> = (0..N).map(|_| link.connect()).collect();
    link.impair(Impairments::LOSSY);
    let inverse: Vec<_> = bytes(LEN).iter().map(|byte| !byte).collect();
    let (mut ends, mut arriving) = (Vec::new(), Vec::new());
    for ((client, front), (back, server)) in relays {
        feed_and_end(&client, bytes(LEN));
        feed_and_end(&server, inverse.clone());
        arriving.push((drain(client), inverse.clone()));
        arriving.push((drain(server), bytes(LEN)));
        ends.push((front, back));
    }
    let mut sinks = Vec::new();
    for (sink, peer) in uploads {
        arriving.push((drain(peer), bytes(LEN)));
        sinks.push((file(&bytes(LEN)), sink));
    }
    mostly_asleep("four relays and four transfers", || {
        block_on(async {
            let relays = ends.into_iter().map(|(front, back)| {
                let relay = Relay::new(tokio_tcp(front), tokio_tcp(back));
                tokio::spawn(relay.run_async())
            });
            let relays: Vec<_> = relays.collect();
            let transfers = sinks.into_iter().map(|(source, sink)| {
                let transfer = Transfer::new(source, tokio_tcp(sink));
                tokio::spawn(transfer.run_async())
            });
            let transfers: Vec<_> = transfers.collect();
            for relay in relays {
                let report = relay.await.unwrap().unwrap();
                let counts = (report.a_to_b().bytes(), report.b_to_a().bytes());
                assert_eq!(counts, (LEN as u64, LEN as u64), "{report:#}");
                assert_eq!(report.ended(), Ended::Eof);
            }
            for transfer in transfers {
                let report = transfer.await.unwrap().unwrap();
                assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
            }
        });
    });
    for (arriving, expected) in arriving {
        assert!(arriving.join().unwrap() == expected);
    }
    link.assert_was_lossy();
}

/// The link is down while the task waits, and the reader has stopped before.
#[test]
#[ignore = "packets fare differently in each run: CONTRIBUTING.md says when to run it"]
fn a_task_whose_link_goes_down_ends_by_its_idle_time_out_and_has_counted_what_arrives() {
    use std::io::Read;
    if !is_in_namespace(
        "networks::a_task_whose_link_goes_down_ends_by_its_idle_time_out_and_has_counted_what_arrives",
    ) {
        return;
    }
    let link = Link::start(2);
    let ((client, front), (back, mut server)) = (link.connect(), link.connect());
    // More than the sockets hold.
    let sent = bytes(24 << 20);
    let expected = sent.clone();
    let feeding = std::thread::spawn(move || {
        // The relay closes its end before it has read everything.
        let _ = std::io::Write::write_all(&mut &client, &sent);
    });
    let reading = std::thread::spawn({
        let link = link.clone();
        move || {
            let mut found = vec![0; 300_007];
            server.read_exact(&mut found).unwrap();
            link.impair(Impairments::DOWN);
            server.read_to_end(&mut found).unwrap();
            found
        }
    });
    let report = asleep("a relay", || {
        block_on(async {
            let relay = Relay::new(tokio_tcp(front), tokio_tcp(back));
            let relay = relay.idle_timeout(Duration::from_millis(1200));
            relay.run_async().await.unwrap()
        })
    });
    assert_eq!(report.ended(), Ended::TimedOut);
    link.impair(Impairments::NONE);
    let found = reading.join().unwrap();
    assert_eq!(found.len() as u64, report.a_to_b().bytes());
    assert!(found == expected[..found.len()]);
    feeding.join().unwrap();
}
