//! The two ways to drive transfers and relays in a thread: to the end, or in steps with `poll(2)`.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use zcopy::{
    EndInterest, Progressed, Relay, RelayProgressed, RelayReport, Report, Result, Strategy,
    Transfer,
};

use crate::refused::allowed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// `run`, with sockets in blocking mode.
    Run,
    /// `run`, with sockets in nonblocking mode.
    RunNonblocking,
    /// `step`, with sockets in nonblocking mode.
    Step,
}

/// The strategies from a file to a socket, and the plan's choice.
pub(crate) const STRATEGIES: [Option<Strategy>; 4] = [
    None,
    Some(Strategy::Sendfile),
    Some(Strategy::SplicePipe),
    Some(Strategy::Buffered),
];

/// Every driver with each of these strategies that the kernel permits.
pub(crate) fn drivers_and(
    strategies: &[Option<Strategy>],
) -> impl Iterator<Item = (Driver, Option<Strategy>)> {
    let drivers = Driver::ALL.into_iter();
    drivers.flat_map(|driver| {
        allowed(strategies.iter().copied()).map(move |strategy| (driver, strategy))
    })
}

/// The most bytes that are asked of a step.
const STEP: u64 = 100_000;

impl Driver {
    pub(crate) const ALL: [Self; 3] = [Self::Run, Self::RunNonblocking, Self::Step];

    /// Sets the mode of a socket.
    pub(crate) fn prepare(self, socket: impl AsFd) {
        rustix::io::ioctl_fionbio(socket, self != Self::Run).unwrap();
    }

    pub(crate) fn transfer<Source: AsFd, Sink: AsFd>(
        self,
        transfer: Transfer<'_, Source, Sink>,
    ) -> Result<Report> {
        if self != Self::Step {
            return transfer.run();
        }
        let mut session = transfer.start()?;
        loop {
            let interest = match session.step(STEP)? {
                Progressed::Moved(_) => continue,
                Progressed::Blocked(interest) => interest,
                _ => return session.finish(),
            };
            let mut fds = Vec::new();
            let (source, sink) = (session.source().unwrap(), session.sink().unwrap());
            if interest.source() {
                fds.push(PollFd::new(source, PollFlags::IN));
            }
            if interest.sink() {
                fds.push(PollFd::new(sink, PollFlags::OUT));
            }
            wait(&mut fds, interest.timeout());
        }
    }

    pub(crate) fn relay<A: AsFd, B: AsFd>(self, relay: Relay<A, B>) -> Result<RelayReport> {
        if self != Self::Step {
            return relay.run();
        }
        let mut session = relay.start()?;
        loop {
            match session.step(STEP)? {
                RelayProgressed::Moved { .. } => {}
                RelayProgressed::Blocked(interest) => {
                    let mut fds = Vec::new();
                    let (a, b) = (session.a().unwrap(), session.b().unwrap());
                    fds.extend(poll_end(a, interest.a()));
                    fds.extend(poll_end(b, interest.b()));
                    wait(&mut fds, interest.timeout());
                }
                _ => return session.finish(),
            }
        }
    }
}

fn poll_end<Fd: AsFd>(end: &Fd, interest: EndInterest) -> Option<PollFd<'_>> {
    let mut events = PollFlags::empty();
    events.set(PollFlags::IN, interest.readable());
    events.set(PollFlags::OUT, interest.writable());
    (!events.is_empty() || interest.hang_up()).then(|| PollFd::new(end, events))
}

fn wait(fds: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| Timespec::try_from(timeout).unwrap());
    match poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => panic!("poll: {errno}"),
    }
}
