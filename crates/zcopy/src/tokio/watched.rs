//! [`Watched`]: one end, and what the reactor knows of it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use super::end::AsyncEnd;
use crate::call_error::CallError;
use crate::session::{self, Belief, Ends};
use crate::side::Side;
use crate::sys::{Errno, Kernel, PollFd, PollFlags};
use crate::wait::Event;

/// An end that a task waits for.
pub(super) struct Watched<'e, K, End> {
    kernel: K,
    end: &'e End,
    /// The descriptor that the steps use.
    fd: BorrowedFd<'e>,
    side: Side,
    /// The events that a registration is for.
    interest: Interest,
    registration: Registration,
}

enum Registration {
    /// The end's own registration.
    Own,
    /// None until the end is first waited for.
    Missing,
    /// A duplicate, because one epoll instance takes a descriptor only once, and the caller may
    /// have registered it already.
    Duplicate(AsyncFd<OwnedFd>),
    /// None, because epoll refuses the file. It has no poll operation, and counts as ready.
    Refused,
}

impl<'e, K: Kernel, End: AsyncEnd> Watched<'e, K, End> {
    /// Returns an end whose steps use `fd`, which may be another opening of the same terminal.
    pub(super) fn new(
        kernel: K,
        end: &'e End,
        fd: BorrowedFd<'e>,
        side: Side,
        interest: Interest,
    ) -> Self {
        let is_own = end.is_registered() && end.as_fd().as_raw_fd() == fd.as_raw_fd();
        Self {
            kernel,
            end,
            fd,
            side,
            interest,
            registration: if is_own {
                Registration::Own
            } else {
                Registration::Missing
            },
        }
    }

    /// Registers the end, if it is not.
    ///
    /// # Errors
    ///
    /// Those of `dup(2)` and `epoll_ctl(2)`, except `EPERM`: a file that epoll refuses is always
    /// ready.
    pub(super) fn register(&mut self) -> Result<(), CallError> {
        if !matches!(self.registration, Registration::Missing) {
            return Ok(());
        }
        let duplicate = self.fd.try_clone_to_owned();
        let duplicate = duplicate.map_err(|error| self.failed("dup", &error))?;
        #[allow(
            deprecated,
            reason = "tokio 1.54 asks its callers to promise what an `OwnedFd` guarantees: it \
                      names one descriptor, and keeps it open"
        )]
        let registered = AsyncFd::with_interest(duplicate, self.interest);
        self.registration = match registered {
            Ok(registered) => Registration::Duplicate(registered),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Registration::Refused,
            Err(error) => return Err(self.failed("epoll_ctl", &error)),
        };
        Ok(())
    }

    /// Drops the registration of a duplicate that believes in an event which a poll does not find.
    /// The next wait makes a new one. (The end's own registration stays, and belongs to others,
    /// too.)
    pub(super) fn unregister_if_stale(&mut self) {
        if !matches!(self.registration, Registration::Duplicate(_)) {
            return;
        }
        let events = [
            (Interest::READABLE, PollFlags::IN),
            (Interest::WRITABLE, PollFlags::OUT),
        ];
        let is_stale = events.into_iter().any(|(interest, flags)| {
            let may_be_stale = match interest {
                Interest::READABLE => self.interest.is_readable(),
                _ => self.interest.is_writable(),
            };
            may_be_stale && self.believes(interest) && !self.polls_as(flags)
        });
        // A poll for no event finds an end that is broken or hung up.
        let is_stale =
            is_stale || (self.believes(Interest::ERROR) && !self.polls_as(PollFlags::empty()));
        if is_stale {
            self.registration = Registration::Missing;
        }
    }

    /// Waits until the reactor believes that one of these events has happened.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the runtime shuts down.
    pub(super) async fn ready(&self, interest: Interest) -> Result<(), CallError> {
        let ready = match &self.registration {
            Registration::Own => self.end.ready(interest).await,
            Registration::Duplicate(registered) => registered.ready(interest).await.map(drop),
            Registration::Missing | Registration::Refused => Ok(()),
        };
        ready.map_err(|error| self.failed("epoll_wait", &error))
    }

    /// Calls `f` with the reactor's belief whether one of these events has happened. If `f` also
    /// returns true, a call within it has proved that none has, and the reactor forgets its belief.
    ///
    /// The reactor forgets nothing that it learns while `f` runs. So the call that finds an end
    /// blocked has to be made within `f`: an event that comes behind that call ends the next wait.
    pub(super) fn observe<R>(&self, interest: Interest, f: impl FnOnce(Belief) -> (R, bool)) -> R {
        let mut f = Some(f);
        let mut result = None;
        let mut call = || {
            let (value, is_blocked) = match f.take() {
                Some(f) => f(Belief::Ready),
                // `try_io` takes a function that can be called once.
                None => unreachable!("the function has been called twice"),
            };
            result = Some(value);
            if is_blocked {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        };
        // The only error says that `f` has blocked, or has not been called.
        let _ = match &self.registration {
            Registration::Own => self.end.try_io(interest, call),
            Registration::Duplicate(registered) => registered.try_io(interest, |_| call()),
            Registration::Missing => Ok(()),
            Registration::Refused => call(),
        };
        let otherwise = match &self.registration {
            Registration::Missing => Belief::Unknown,
            _ => Belief::NotReady,
        };
        match (result, f) {
            (Some(result), _) => result,
            (None, Some(f)) => f(otherwise).0,
            (None, None) => unreachable!("the function has been called and has not returned"),
        }
    }

    /// Returns whether the reactor believes that one of these events has happened.
    fn believes(&self, interest: Interest) -> bool {
        self.observe(interest, |belief| (belief == Belief::Ready, false))
    }

    /// Lets the reactor forget what it believes of this event, unless a poll finds it.
    pub(super) fn forget_unless_ready(&self, interest: Interest) {
        let events = if interest.is_readable() {
            PollFlags::IN
        } else {
            PollFlags::OUT
        };
        self.observe(interest, |belief| {
            ((), belief == Belief::Ready && !self.polls_as(events))
        });
    }

    /// Returns whether `poll(2)` finds one of these events.
    pub(super) fn polls_as(&self, events: PollFlags) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, events)];
        let polled = self.kernel.poll(&mut fds, Some(Duration::ZERO));
        // The next call tells of an error.
        polled.is_err() || !fds[0].revents().is_empty()
    }

    /// Polls whether the reactor believes that this event has happened at the end, a sink.
    ///
    /// # Errors
    ///
    /// As [`ready`](Self::ready).
    pub(super) fn poll_event(
        &self,
        event: Event,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), CallError>> {
        let polled = match (&self.registration, event) {
            (Registration::Own, Event::Ready) => self.end.poll_ready(Interest::WRITABLE, context),
            (Registration::Own, Event::Broken) => self.end.poll_ready(Interest::ERROR, context),
            (Registration::Duplicate(registered), Event::Ready) => {
                registered.poll_write_ready(context).map_ok(drop)
            }
            (Registration::Duplicate(registered), Event::Broken) => {
                poll_broken(registered, context)
            }
            (_, Event::Ready) => Poll::Ready(Ok(())),
            // A file that epoll refuses has no reader.
            (_, Event::Broken) => Poll::Pending,
        };
        polled.map_err(|error| self.failed("epoll_wait", &error))
    }

    fn failed(&self, call: &'static str, error: &io::Error) -> CallError {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::CANCELED);
        CallError::new(call, self.side, errno)
    }
}

impl<'e, K: Kernel + Copy, Source: AsyncEnd> Watched<'e, K, Source> {
    /// Returns both ends of a session.
    pub(super) fn both<Sink: AsyncEnd>(
        kernel: K,
        ends: &'e Ends<Source, Sink>,
    ) -> (Self, Watched<'e, K, Sink>) {
        let (source, sink) = ends.ends();
        let (source_fd, sink_fd) = (ends.source_fd(), ends.sink_fd());
        let source = Self::new(kernel, source, source_fd, Side::Source, Interest::READABLE);
        let sink = Watched::new(kernel, sink, sink_fd, Side::Sink, Interest::WRITABLE);
        (source, sink)
    }
}

/// Polls whether the reactor believes that the reader has closed.
fn poll_broken(registered: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    loop {
        let mut guard = ready!(registered.poll_write_ready(context))?;
        if guard.ready().is_write_closed() {
            guard.retain_ready();
            return Poll::Ready(Ok(()));
        }
        // A writable end is not waited for. It is forgotten, so that the poll registers the task. A
        // step that finds the end full makes it tell again when it has room.
        guard.clear_ready();
    }
}

/// Returns which sides the reactor has to forget: those that it believes ready, and that a blocked
/// step has found not ready. The first is the source, the second the sink.
///
/// The reactor reports a side that is ready no second time, so a poll confirms what the step found:
/// - of the source, because a splice returns `EAGAIN` at an urgent mark of TCP, although there are
///   bytes behind it;
/// - of both, if the step is blocked on both, because its call could not tell which one is not
///   ready.
pub(super) fn blocked_sides<K: Kernel, Source: AsyncEnd, Sink: AsyncEnd>(
    interest: session::Interest,
    (source, source_belief): (&Watched<'_, K, Source>, Belief),
    (sink, sink_belief): (&Watched<'_, K, Sink>, Belief),
) -> (bool, bool) {
    let is_proven = !interest.source;
    let source_is_blocked = interest.source && source_belief == Belief::Ready;
    let sink_is_blocked = interest.sink && sink_belief == Belief::Ready;
    (
        source_is_blocked && !source.polls_as(PollFlags::IN),
        sink_is_blocked && (is_proven || !sink.polls_as(PollFlags::OUT)),
    )
}
