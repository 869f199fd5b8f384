//! `poll(2)` of the simulated kernel, in which simulated time passes.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use super::kernel::{Descriptor, State, token};
use super::objects::Found;
use super::script::{Call, Injection};
use crate::side::Side;
use crate::sys::{Errno, PollFd, Result};

/// Real descriptors with known results of `poll(2)`.
///
/// Only the real kernel can write the `revents` of a [`PollFd`], so that it polls these.
struct Polled {
    ready: OwnedFd,
    idle: OwnedFd,
    hung_up: OwnedFd,
    /// A pipe without a reader.
    broken: OwnedFd,
    /// Keeps `idle` from hanging up.
    _writer: OwnedFd,
}

impl Polled {
    fn those() -> &'static Self {
        static THOSE: OnceLock<Polled> = OnceLock::new();
        THOSE.get_or_init(|| {
            let (idle, writer) = std::io::pipe().expect("there are descriptors");
            let (hung_up, _) = std::io::pipe().expect("there are descriptors");
            let (_, broken) = std::io::pipe().expect("there are descriptors");
            Polled {
                ready: token(),
                idle: idle.into(),
                hung_up: hung_up.into(),
                broken: broken.into(),
                _writer: writer.into(),
            }
        })
    }
}

impl State {
    /// Returns whether a sink is a socket with a time-out of its own. A transfer polls before each
    /// call then, because the kernel starts the time-out anew in each call.
    fn has_timed_sink(&self) -> bool {
        let objects = self.sinks.iter().map(|fd| self.descriptor(*fd).object);
        let mut timings = objects.filter_map(|object| self.objects[object].timing());
        timings.any(|timing| timing.timeout.is_some())
    }

    pub(crate) fn poll(
        &mut self,
        fds: &mut [PollFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<usize> {
        let was_told_to = matches!(
            self.log.iter().rev().find(|(call, _)| *call != Call::Poll),
            Some((_, Err(Errno::AGAIN)))
        );
        let has_polled_in_vain = matches!(self.log.last(), Some((Call::Poll, Ok(0))));
        assert!(
            fds.is_empty()
                || was_told_to
                || has_polled_in_vain
                || !self.may_sleep
                || self.has_several_sinks
                || self.has_timed_sink()
                || timeout == Some(Duration::ZERO),
            "it waits, though nothing has blocked"
        );
        self.begin_call(Call::Poll);
        let is_interrupted = self.script.next(Call::Poll) == Injection::Interrupted;
        self.n_sleeps += usize::from(fds.is_empty());
        let deadline = timeout.map(|timeout| self.clock + timeout);
        loop {
            let tokens = Polled::those();
            let mut next: Option<Duration> = None;
            let mut polled = Vec::new();
            for fd in fds.iter() {
                let Descriptor { object, side, .. } = *self.descriptor(fd.as_fd().as_raw_fd());
                let object = &mut self.objects[object];
                let token = match side {
                    Side::Source => match object.readable(0, self.clock) {
                        Found::Some(_) | Found::Failed(_) => &tokens.ready,
                        Found::End => &tokens.hung_up,
                        Found::Later => &tokens.idle,
                    },
                    Side::Sink if object.has_failed() => &tokens.broken,
                    Side::Sink if object.polls_as_writable(self.clock) => &tokens.ready,
                    Side::Sink => &tokens.idle,
                    Side::Neither => panic!("it polls the private pipe"),
                };
                if token.as_raw_fd() == tokens.idle.as_raw_fd() {
                    let event = object.next_event(self.clock);
                    next = [next, event].into_iter().flatten().min();
                }
                polled.push(token);
            }
            let is_at_once = timeout == Some(Duration::ZERO) && !fds.is_empty();
            // The real kernel compares the state with the requested events.
            let mut found = fds.to_vec();
            for (fd, token) in found.iter_mut().zip(polled) {
                fd.set_fd(token);
            }
            let now = rustix::event::Timespec::default();
            let n_found = rustix::event::poll(&mut found, Some(&now))?;
            if n_found > 0 {
                fds.clone_from_slice(&found);
                return Ok(n_found);
            }
            // The real kernel, too, looks for signals when it has found no descriptor ready.
            if is_interrupted {
                return Err(Errno::INTR);
            }
            if is_at_once {
                fds.clone_from_slice(&found);
                return Ok(0);
            }
            let until = match (next, deadline) {
                (Some(next), Some(deadline)) => next.min(deadline),
                (next, deadline) => next.or(deadline).expect("it waits for ever"),
            };
            self.clock = self.clock.max(until);
            self.run_due_events();
            if deadline.is_some_and(|deadline| deadline <= self.clock) {
                return Ok(0);
            }
        }
    }
}
