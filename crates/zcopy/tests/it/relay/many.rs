//! A thousand relays in one thread of an unprivileged process.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::{Ended, Relay, RelayInterest, RelayProgressed, RelayReport, RelaySession, Strategy};

use super::tcp_streams;
use crate::files::pattern;
use crate::own_process::is_own_process;
use crate::refused::is_allowed;
use crate::resources::n_pipe_ends;
use crate::skip::is_root;

/// Enough for splices: four times what a relay moves by read and write before it takes a pipe.
const LEN: usize = 1 << 20;

/// Descriptors that are left for pipes and for the test itself.
const SPARE: u64 = 2500;

/// Both peers of a relay: one sends, and the other one receives.
struct Peers {
    client: TcpStream,
    server: TcpStream,
    n_sent: usize,
    n_received: usize,
}

impl Peers {
    /// Sends and receives what is possible at once. Returns whether everything has arrived.
    fn advance(&mut self, bytes: &[u8], room: &mut [u8]) -> bool {
        let piece = &bytes[self.n_sent..bytes.len().min(self.n_sent + room.len())];
        if !piece.is_empty() {
            self.n_sent += now((&self.client).write(piece));
            if self.n_sent == bytes.len() {
                self.client.shutdown(Shutdown::Write).unwrap();
            }
        }
        let n = now((&self.server).read(room));
        assert!(
            room[..n] == bytes[self.n_received..self.n_received + n],
            "other bytes than those that were sent"
        );
        self.n_received += n;
        self.n_received == bytes.len()
    }
}

/// Returns how many bytes a call has moved: none if it would block.
fn now(moved: std::io::Result<usize>) -> usize {
    match moved {
        Ok(n) => n,
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        Err(error) => panic!("a relay has failed: {error}"),
    }
}

/// A relay that the thread serves.
struct Served {
    session: RelaySession<TcpStream, TcpStream>,
    /// The events that it waits for: none if its next step can follow at once.
    interest: RelayInterest,
}

/// Takes steps until the relay is blocked. Returns true if it has ended.
fn serve(served: &mut Served) -> bool {
    // One turn is short, so that no relay waits for another one.
    for _ in 0..8 {
        match served.session.step(256 << 10).unwrap() {
            RelayProgressed::Moved { .. } => {}
            RelayProgressed::Blocked(interest) => {
                served.interest = interest;
                return false;
            }
            RelayProgressed::Ended(ended) => {
                assert_eq!(ended, Ended::Eof);
                return true;
            }
            other => panic!("{other:?}"),
        }
    }
    served.interest = RelayInterest::default();
    false
}

/// Waits until a relay can go on, for 10 ms at most: that is often enough for their time-outs.
fn ready(relays: &[Served]) -> Vec<bool> {
    let mut fds = Vec::with_capacity(2 * relays.len());
    for relay in relays {
        let ends = [
            (relay.session.a().unwrap(), relay.interest.a()),
            (relay.session.b().unwrap(), relay.interest.b()),
        ];
        for (end, interest) in ends {
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, interest.readable());
            events.set(PollFlags::OUT, interest.writable());
            fds.push(PollFd::new(end, events));
        }
    }
    let at_most = Timespec::try_from(Duration::from_millis(10)).unwrap();
    poll(&mut fds, Some(&at_most)).unwrap();
    let is_ready = |pair: &[PollFd<'_>]| pair.iter().any(|fd| !fd.revents().is_empty());
    fds.chunks(2).map(is_ready).collect()
}

fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// New pipes of an unprivileged user have a page or two beyond the budget, and none is made when
/// descriptors become scarce: the other relays read and write, and nothing fails or stalls.
#[test]
fn a_thousand_relays_of_an_unprivileged_process_are_exact() {
    let as_nobody = |command: &mut Command| {
        if is_root() {
            // A user of this process alone: pipes count for all processes of a user.
            command.uid(100_000 + std::process::id() % 1_000_000);
        }
    };
    if !is_own_process(
        "relay::many::a_thousand_relays_of_an_unprivileged_process_are_exact",
        as_nobody,
    ) {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(4000 + SPARE);
    let n_relays = (most.saturating_sub(SPARE) / 4).max(100) as usize;
    let current = Some(most);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();

    let before = n_pipe_ends();
    let (mut peers, mut relays) = (Vec::new(), Vec::new());
    for _ in 0..n_relays {
        let ((client, front), (back, server)) = (tcp_streams(), tcp_streams());
        for socket in [&client, &front, &back, &server] {
            socket.set_nonblocking(true).unwrap();
        }
        peers.push(Peers {
            client,
            server,
            n_sent: 0,
            n_received: 0,
        });
        let session = Relay::new(front, back).start().unwrap();
        let interest = RelayInterest::default();
        relays.push(Served { session, interest });
    }
    let most_descriptors = n_descriptors() + SPARE as usize;
    let sending = thread::spawn(move || {
        let (bytes, mut room) = (pattern(LEN), vec![0; 64 << 10]);
        let mut unfinished: Vec<_> = peers.iter_mut().collect();
        while !unfinished.is_empty() {
            unfinished.retain_mut(|peers| !peers.advance(&bytes, &mut room));
        }
        // A relay ends when its server closes, too.
        drop(peers);
    });

    let started = Instant::now();
    let mut reports: Vec<RelayReport> = Vec::new();
    for n_turns in 0_u32.. {
        if relays.is_empty() {
            break;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "a relay stalls"
        );
        let is_ready = ready(&relays);
        let mut unserved = Vec::with_capacity(relays.len());
        for (mut relay, is_ready) in relays.into_iter().zip(is_ready) {
            let is_unblocked = relay.interest == RelayInterest::default();
            if (is_ready || is_unblocked) && serve(&mut relay) {
                reports.push(relay.session.finish().unwrap());
            } else {
                unserved.push(relay);
            }
        }
        relays = unserved;
        if n_turns.is_multiple_of(4) {
            assert!(n_descriptors() < most_descriptors, "accept(2) would fail");
        }
    }
    sending.join().unwrap();
    assert_eq!(reports.len(), n_relays);
    assert!(
        reports
            .iter()
            .all(|report| report.a_to_b().bytes() == LEN as u64)
    );
    assert_eq!(n_pipe_ends(), before, "pipes are left");
    if is_allowed(Strategy::SplicePipe) {
        let mut strategies = reports.iter().map(|report| report.a_to_b().strategy());
        assert!(
            strategies.any(|strategy| strategy == Some(Strategy::SplicePipe)),
            "no relay has taken a pipe"
        );
    }
}
