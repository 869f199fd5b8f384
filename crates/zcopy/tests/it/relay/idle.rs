//! 200 relays in one thread, of which 190 are idle.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Relay, RelayInterest, RelayProgressed, RelaySession, Strategy};

use super::tcp_streams;
use crate::own_process::is_own_process;
use crate::refused::is_allowed;
use crate::resources::{n_pipe_ends, resident_bytes};

const N_RELAYS: usize = 200;
const N_BUSY: usize = 10;

/// The number of relays that move bulk at the same time. A buffer for each would be 6 MiB.
const N_WITH_BULK: usize = 100;

/// The state of a relay. A buffer has 32 KiB at least.
const MOST_FOR_AN_IDLE_RELAY: usize = 10 << 10;

/// One buffer for all, the code that is used for the first time, and what the test itself needs.
const MOST_FOR_BUSY_RELAYS: usize = 2 << 20;

struct Served {
    session: RelaySession<TcpStream, TcpStream>,
    /// What the last step waits for.
    interest: RelayInterest,
}

impl Served {
    /// Takes steps until the relay is blocked.
    fn serve(&mut self) {
        loop {
            match self.session.step(1 << 20).unwrap() {
                RelayProgressed::Moved { .. } => {}
                RelayProgressed::Blocked(interest) => {
                    self.interest = interest;
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Serves the relays that are ready and those that wait for a time, until `is_over`.
fn serve_until(relays: &mut [Served], mut is_over: impl FnMut(&[Served]) -> bool) {
    while !is_over(relays) {
        let mut fds = Vec::with_capacity(2 * relays.len());
        for Served { session, interest } in &*relays {
            for (end, interest) in [(session.a(), interest.a()), (session.b(), interest.b())] {
                let mut events = PollFlags::empty();
                events.set(PollFlags::IN, interest.readable());
                events.set(PollFlags::OUT, interest.writable());
                fds.push(PollFd::new(end.unwrap(), events));
            }
        }
        let at_most = Timespec::try_from(Duration::from_millis(10)).unwrap();
        poll(&mut fds, Some(&at_most)).unwrap();
        let is_ready = |pair: &[PollFd<'_>]| pair.iter().any(|fd| !fd.revents().is_empty());
        let is_ready: Vec<_> = fds.chunks(2).map(is_ready).collect();
        for (relay, is_ready) in relays.iter_mut().zip(is_ready) {
            if is_ready || relay.interest.timeout().is_some() {
                relay.serve();
            }
        }
    }
}

/// Lets a thread play the peers, and serves the relays meanwhile.
fn serve_while(relays: &mut [Served], play: impl FnOnce() + Send, mut observe: impl FnMut()) {
    thread::scope(|scope| {
        let playing = scope.spawn(play);
        serve_until(relays, |_| {
            observe();
            playing.is_finished()
        });
    });
}

/// Asks and answers through each relay in turn.
fn ask(peers: &[(TcpStream, TcpStream)]) {
    let (question, mut found) = ([7; 5000], [0; 5000]);
    for len in (0..50).map(|round| 1 + 100 * round) {
        for (client, server) in peers {
            for (mut from, mut to) in [(client, server), (server, client)] {
                from.write_all(&question[..len]).unwrap();
                to.read_exact(&mut found[..len]).unwrap();
                assert_eq!(found[..len], question[..len]);
            }
        }
    }
}

/// Sends 1 MiB through each relay, through all at the same time.
fn send_bulk(peers: &[(TcpStream, TcpStream)]) {
    let mut room = vec![7; 64 << 10];
    for _ in 0..16 {
        for (client, _) in peers {
            (&*client).write_all(&room).unwrap();
        }
        for (_, server) in peers {
            (&*server).read_exact(&mut room).unwrap();
        }
    }
}

/// Measures the whole process, so that it runs in a process of its own.
#[test]
fn idle_relays_hold_neither_pipe_nor_buffer_and_memory_returns_after_bulk() {
    if !is_own_process(
        "relay::idle::idle_relays_hold_neither_pipe_nor_buffer_and_memory_returns_after_bulk",
        |_| {},
    ) {
        return;
    }
    // 800 sockets, and pipes.
    let limit = getrlimit(Resource::Nofile);
    let current = limit.maximum;
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let before = n_pipe_ends();
    let (mut peers, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..N_RELAYS {
        let ((client, front), (back, server)) = (tcp_streams(), tcp_streams());
        for peer in [&client, &server] {
            let hang = Some(Duration::from_secs(60));
            peer.set_read_timeout(hang).unwrap();
        }
        peers.push((client, server));
        ends.push((front, back));
    }
    let mut relays = Vec::with_capacity(N_RELAYS);
    let mut without = 0;
    for (front, back) in ends {
        let session = Relay::new(front, back).start().unwrap();
        let interest = RelayInterest::default();
        relays.push(Served { session, interest });
        relays.last_mut().unwrap().serve();
        // The first relays bring the code into memory.
        if relays.len() == N_BUSY {
            serve_while(&mut relays, || ask(&peers[..1]), || {});
            without = resident_bytes();
        }
    }
    let (idle, busy) = (resident_bytes(), &peers[..N_BUSY]);
    assert!(idle - without < (N_RELAYS - N_BUSY) * MOST_FOR_AN_IDLE_RELAY);
    assert_eq!(n_pipe_ends(), before);

    // The peers wait for each answer, so that the relays have to serve them at once.
    serve_while(&mut relays, || ask(busy), || {});
    assert!(resident_bytes().saturating_sub(idle) < MOST_FOR_BUSY_RELAYS);
    assert_eq!(n_pipe_ends(), before);

    let (mut most_pipe_ends, mut most_resident) = (0, 0);
    let observe = || {
        most_pipe_ends = most_pipe_ends.max(n_pipe_ends() - before);
        most_resident = most_resident.max(resident_bytes());
    };
    serve_while(&mut relays, || send_bulk(&peers[..N_WITH_BULK]), observe);
    assert!(most_resident.saturating_sub(idle) < MOST_FOR_BUSY_RELAYS);
    if is_allowed(Strategy::SplicePipe) {
        assert!(most_pipe_ends > 0, "no relay has taken a pipe");
    }

    serve_until(&mut relays, |relays| {
        let waits = |relay: &Served| relay.interest.timeout().is_some();
        !relays.iter().any(waits)
    });
    assert_eq!(n_pipe_ends(), before);
    assert!(resident_bytes().saturating_sub(idle) < MOST_FOR_BUSY_RELAYS);
    for (index, relay) in relays.into_iter().enumerate() {
        let report = relay.session.finish().unwrap();
        assert_eq!(report.a_to_b().bytes() > 0, index < N_WITH_BULK);
    }
}
