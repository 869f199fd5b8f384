//! [`Watched`]: one end, and what the reactor knows of it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use super::end::AsyncEnd;
use crate::call_error::CallError;
use crate::session::{Belief, Ends, Interest as Awaited};
use crate::side::Side;
use crate::sys::{Errno, Kernel, Linux, PollFd, PollFlags};

/// An end that a task waits for.
pub(super) struct Watched<'e, End> {
    end: &'e End,
    /// The descriptor that the steps use.
    fd: BorrowedFd<'e>,
    side: Side,
    /// The events that a registration is for.
    interest: Interest,
    registration: Registration,
}

enum Registration {
    /// That of the end itself.
    Own,
    /// None until the end is first waited for.
    Missing,
    /// A duplicate, because one epoll instance takes a descriptor only once, and the caller may have
    /// registered it already.
    Duplicate(AsyncFd<OwnedFd>),
    /// None, because epoll refuses the file. It has no poll operation, and counts as ready.
    Refused,
}

impl<'e, End: AsyncEnd> Watched<'e, End> {
    /// Returns an end whose steps use `fd`, which may be another opening of the same terminal.
    pub(super) fn new(end: &'e End, fd: BorrowedFd<'e>, side: Side, interest: Interest) -> Self {
        let is_own = end.is_registered() && end.as_fd().as_raw_fd() == fd.as_raw_fd();
        Self {
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

    /// Returns whether `poll(2)` finds one of these events.
    pub(super) fn polls_as(&self, events: PollFlags) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, events)];
        let polled = Linux.poll(&mut fds, Some(Duration::ZERO));
        // The next call tells of an error.
        polled.is_err() || !fds[0].revents().is_empty()
    }

    fn failed(&self, call: &'static str, error: &io::Error) -> CallError {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::CANCELED);
        CallError::new(call, self.side, errno)
    }
}

impl<'e, Source: AsyncEnd> Watched<'e, Source> {
    /// Returns both ends of a session.
    pub(super) fn both<Sink: AsyncEnd>(ends: &'e Ends<Source, Sink>) -> (Self, Watched<'e, Sink>) {
        let (source, sink) = ends.ends();
        let source = Self::new(source, ends.source_fd(), Side::Source, Interest::READABLE);
        let sink = Watched::new(sink, ends.sink_fd(), Side::Sink, Interest::WRITABLE);
        (source, sink)
    }
}

/// Returns which sides a blocked step has found not ready: the source, and the sink.
///
/// If a step is blocked on both, perhaps only one of them is not ready, and its call could not tell
/// which. The reactor reports a side that is ready no second time.
pub(super) fn blocked_sides<Source: AsyncEnd, Sink: AsyncEnd>(
    interest: Awaited,
    source: &Watched<'_, Source>,
    sink: &Watched<'_, Sink>,
) -> (bool, bool) {
    match (interest.source, interest.sink) {
        (true, true) => (
            !source.polls_as(PollFlags::IN),
            !sink.polls_as(PollFlags::OUT),
        ),
        proven => proven,
    }
}

/// Lets the reactor forget what it believes of the sides that a step is blocked on, unless a poll
/// finds them ready.
pub(super) fn forget_unless_ready<Source: AsyncEnd, Sink: AsyncEnd>(
    interest: Awaited,
    source: &Watched<'_, Source>,
    sink: &Watched<'_, Sink>,
) {
    if interest.source {
        source.observe(Interest::READABLE, |_| {
            ((), !source.polls_as(PollFlags::IN))
        });
    }
    if interest.sink {
        sink.observe(Interest::WRITABLE, |_| ((), !sink.polls_as(PollFlags::OUT)));
    }
}
