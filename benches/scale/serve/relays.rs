//! Relays between two sockets each, by one driver.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use zcopy::{EndInterest, Relay, RelayInterest, RelayProgressed, RelaySession};

use crate::runtime::runtime;

/// The ways to drive the relays of one process.
pub(crate) const DRIVERS: &[&str] = &[
    "zcopy::RelaySession::step",
    #[cfg(feature = "tokio")]
    "zcopy::Relay::run_async",
    "zcopy::Relay::run",
    "tokio_splice2::copy_bidirectional",
    "tokio::io::copy_bidirectional",
];

/// The simplest relay: a thread for each direction reads and writes.
pub(crate) const READ_AND_WRITE: &str = "read and write, two threads";

/// The sockets of a client and of the backend, for each relay.
pub(super) type Pairs = Vec<(TcpStream, TcpStream)>;

/// Runs the relays until all connections have ended.
pub(super) fn run(driver: &str, pairs: Pairs) {
    match driver {
        "zcopy::RelaySession::step" => step(pairs),
        "zcopy::Relay::run" => threads(pairs),
        READ_AND_WRITE => read_and_write(&pairs),
        _ => run_async(driver, pairs),
    }
}

/// One thread for each relay.
fn threads(pairs: Pairs) {
    thread::scope(|scope| {
        for (client, server) in pairs {
            scope.spawn(move || {
                // The other process closes its ends in any order.
                let _ = Relay::new(client, server).run();
            });
        }
    });
}

/// Two threads for each relay, whose sockets block.
fn read_and_write(pairs: &[(TcpStream, TcpStream)]) {
    fn pass(mut from: &TcpStream, mut to: &TcpStream) {
        let mut room = vec![0; 64 << 10];
        loop {
            match from.read(&mut room) {
                Ok(n) if n > 0 && to.write_all(&room[..n]).is_ok() => {}
                _ => break,
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }
    thread::scope(|scope| {
        for (client, server) in pairs {
            for end in [client, server] {
                end.set_nonblocking(false).expect("it is a socket");
            }
            scope.spawn(|| pass(client, server));
            scope.spawn(|| pass(server, client));
        }
    });
}

/// A relay of [`step`].
struct Served {
    session: RelaySession<TcpStream, TcpStream>,
    /// The events that epoll waits for at each end.
    awaited: [epoll::EventFlags; 2],
    /// When the next step is due, whatever the ends do.
    due: Option<Instant>,
    is_blocked: bool,
}

/// One thread that waits for the ends of all sessions by epoll(7).
fn step(pairs: Pairs) {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("there is a descriptor");
    let mut relays: Vec<Option<Served>> = Vec::with_capacity(pairs.len());
    for (index, (client, server)) in pairs.into_iter().enumerate() {
        let data = epoll::EventData::new_u64(index as u64);
        for end in [&client, &server] {
            epoll::add(&epoll, end, data, epoll::EventFlags::empty())
                .expect("a socket can be polled");
        }
        let session = Relay::new(client, server)
            .start()
            .expect("both ends are sockets");
        relays.push(Some(Served {
            session,
            awaited: [epoll::EventFlags::empty(); 2],
            due: None,
            is_blocked: false,
        }));
    }
    let mut n_left = relays.len();
    let mut ready: Vec<usize> = (0..relays.len()).collect();
    let mut events = Vec::with_capacity(1024);
    let mut looked = Instant::now();
    while n_left > 0 {
        let mut unblocked = Vec::new();
        for index in ready.drain(..) {
            let Some(served) = &mut relays[index] else {
                continue;
            };
            if advance(&epoll, served, index) {
                if !served.is_blocked {
                    unblocked.push(index);
                }
            } else {
                relays[index] = None;
                n_left -= 1;
            }
        }
        let now = Instant::now();
        if now - looked > Duration::from_millis(100) {
            looked = now;
            let is_due = |index: &usize| {
                let due = relays[*index].as_ref().and_then(|served| served.due);
                due.is_some_and(|due| due <= now)
            };
            ready.extend((0..relays.len()).filter(is_due));
        }
        let millis = if unblocked.is_empty() && ready.is_empty() {
            100
        } else {
            0
        };
        let at_most = Timespec {
            tv_sec: 0,
            tv_nsec: millis * 1_000_000,
        };
        events.clear();
        epoll::wait(&epoll, spare_capacity(&mut events), Some(&at_most))
            .expect("no signal has a handler");
        ready.extend(events.iter().map(|event| event.data.u64() as usize));
        ready.append(&mut unblocked);
        ready.sort_unstable();
        ready.dedup();
    }
}

/// Takes some steps, and tells epoll what to wait for. Returns false if the relay has ended.
fn advance(epoll: impl AsFd, served: &mut Served, index: usize) -> bool {
    served.is_blocked = false;
    for _ in 0..4 {
        match served.session.step(1 << 20) {
            Ok(RelayProgressed::Moved { .. }) => {}
            Ok(RelayProgressed::Blocked(interest)) => {
                served.is_blocked = true;
                served.due = interest.timeout().map(|timeout| Instant::now() + timeout);
                wait_for(&epoll, served, interest, index);
                return true;
            }
            _ => return false,
        }
    }
    true
}

fn wait_for(epoll: impl AsFd, served: &mut Served, interest: RelayInterest, index: usize) {
    let data = epoll::EventData::new_u64(index as u64);
    let events = |interest: EndInterest| {
        let mut events = epoll::EventFlags::empty();
        events.set(epoll::EventFlags::IN, interest.readable());
        events.set(epoll::EventFlags::OUT, interest.writable());
        events
    };
    let ends = [
        (served.session.a(), interest.a()),
        (served.session.b(), interest.b()),
    ];
    for ((end, interest), awaited) in ends.into_iter().zip(&mut served.awaited) {
        let events = events(interest);
        if events != *awaited {
            *awaited = events;
            let end = end.expect("the relay has not ended");
            epoll::modify(&epoll, end, data, events).expect("it was added");
        }
    }
}

/// One thread with a task of tokio for each relay.
fn run_async(driver: &str, pairs: Pairs) {
    runtime().block_on(async {
        let mut tasks = Vec::with_capacity(pairs.len());
        for (client, server) in pairs {
            let socket =
                |socket| tokio::net::TcpStream::from_std(socket).expect("the runtime is entered");
            let (mut client, mut server) = (socket(client), socket(server));
            // The other process closes its ends in any order.
            tasks.push(match driver {
                "tokio::io::copy_bidirectional" => tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }),
                "tokio_splice2::copy_bidirectional" => tokio::spawn(async move {
                    let moved = tokio_splice2::copy_bidirectional(&mut client, &mut server).await;
                    if let Err(error) = moved {
                        eprintln!("a relay has failed: {error}");
                        std::process::exit(1);
                    }
                }),
                #[cfg(feature = "tokio")]
                "zcopy::Relay::run_async" => tokio::spawn(async move {
                    let _ = Relay::new(client, server).run_async().await;
                }),
                other => panic!("{other} is no driver"),
            });
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
}
