//! [`Session`]: a transfer whose steps the caller takes, and whose waits are the caller's.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::sys::{Linux, WithOwners};
use crate::wait::Event;

mod ends;
mod session_steps;
#[cfg(feature = "tokio")]
mod shared;
mod steps;

pub(crate) use ends::Ends;
pub use ends::Sinks;
pub(crate) use session_steps::SessionSteps;
#[cfg(feature = "tokio")]
pub(crate) use shared::Shared;
#[cfg(feature = "tokio")]
pub(crate) use steps::Belief;
pub(crate) use steps::Steps;

#[cfg(doc)]
use crate::{FanOut, RateLimiter, Transfer};

/// A transfer in steps. It never waits for a source to have bytes or for a sink to have room:
/// instead it returns what to wait for.
///
/// Choose it, rather than [`Transfer::run`], to serve many transfers in one thread by `poll(2)` or
/// `epoll(7)`, to move bytes between other work, or to look at the progress from a thread that owns
/// a display. [`Transfer::start`] begins one, and [`FanOut::start`] one with several
/// [sinks](Sinks). The session is `Send` if its ends are.
///
/// The session owns its private pipe and the bytes in flight between two steps, so that nothing is
/// lost when a caller stops to call [`step`](Self::step). [`finish`](Self::finish) returns them.
/// Dropping the session finishes the transfer, and discards the report and the bytes that cannot be
/// given back to the source.
///
/// After a panic of a callback the session is over: a step returns [`Ended::Failed`], and `finish`
/// an error, whose counts may lack the bytes of the step that panicked.
///
/// A step may wait for a disk, as any read of a file does. It does not wait for another process:
/// descriptors in blocking mode are polled before each call, and those in non-blocking mode are
/// called at once. (A descriptor that somebody else changes to blocking mode meanwhile, or that two
/// processes read at the same time, can make one call sleep; so can a terminal that cannot be
/// opened again, as [`Transfer::tick`] says.)
///
/// # Examples
///
/// A loop around `poll(2)`, as [`Transfer::run`] has one:
///
/// ```
/// use std::io::Write;
/// use zcopy::{Ended, Progressed, Transfer};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut session = Transfer::new(reader, sink).start()?;
///
/// // Nothing has been written yet.
/// let Progressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
/// assert!(interest.source() && !interest.sink());
///
/// writer.write_all(b"hello")?;
/// assert_eq!(session.step(1 << 20)?, Progressed::Moved(5));
/// drop(writer);
/// assert_eq!(session.step(1 << 20)?, Progressed::Ended(Ended::Eof));
///
/// let report = session.finish()?;
/// assert_eq!(report.bytes(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Session<'a, Source = BorrowedFd<'a>, Sink = BorrowedFd<'a>> {
    /// `None` once the transfer has failed or is finished.
    parts: Option<Parts<'a, Source, Sink>>,
    /// The progress and the report of a transfer that has failed.
    failed: Option<(Progress, Report)>,
}

type Parts<'a, Source, Sink> = WithOwners<SessionSteps<'a>, Ends<Source, Sink>>;

/// The result of one [step](Session::step).
///
/// # Examples
///
/// ```
/// use zcopy::{Progressed, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut session = Transfer::new(&zeros, &sink).start()?;
/// assert_eq!(session.step(1000)?, Progressed::Moved(1000));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a blocked session has to be waited for"]
#[non_exhaustive]
pub enum Progressed {
    /// The sink accepted this many bytes, at least 1. Call [`step`](Session::step) again.
    Moved(u64),
    /// Nothing moved. Call [`step`](Session::step) again when the interest is fulfilled.
    Blocked(Interest),
    /// The transfer has ended. Call [`finish`](Session::finish).
    Ended(Ended),
}

/// The events that a [`Session`] waits for: a source that is readable, a sink that is writable, the
/// time, or several of these.
///
/// Wait for readiness, and not for its change (no `EPOLLET`): a call can return `EAGAIN` although
/// its descriptor is ready. Poll a [`Stop`](crate::Stop) that the session has, too. A step that is
/// taken too early does no harm: it polls, and returns what is still missing. If neither side is of
/// interest, the session waits for the time alone: for its rate, for example.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use zcopy::{Progressed, Transfer};
///
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut session = Transfer::new(&zeros, &sink).rate_limit(1000).start()?;
/// let Progressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
/// assert!(!interest.source() && !interest.sink());
/// assert!(interest.timeout().is_some_and(|timeout| timeout <= Duration::from_millis(20)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub(crate) source: bool,
    pub(crate) sink: bool,
    pub(crate) timeout: Option<Duration>,
}

impl Interest {
    /// Returns whether to wait until the source is readable (`POLLIN`).
    #[must_use]
    pub fn source(&self) -> bool {
        self.source
    }

    /// Returns whether to wait until the sink is writable (`POLLOUT`): with several sinks, until
    /// one of the [blocked ones](Session::blocked_sinks) is.
    #[must_use]
    pub fn sink(&self) -> bool {
        self.sink
    }

    /// Returns how long to wait at most before the next step: until a
    /// [tick](Transfer::tick), a time-out or the [rate](RateLimiter) allows bytes again. `None` if
    /// the session waits for its ends alone.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

impl<'a, Source, Sink> Session<'a, Source, Sink> {
    pub(crate) fn new(parts: WithOwners<Steps<'a, Linux>, Ends<Source, Sink>>) -> Self {
        Self {
            parts: Some(parts.map(SessionSteps::Own)),
            failed: None,
        }
    }

    /// Takes one step: takes up to `max` bytes from the source and moves them, or returns the
    /// events to wait for. Bytes that an earlier step has taken, and that the sink has not
    /// accepted, move besides.
    ///
    /// A step moves what a few system calls move: at most a few MiB on pipes and sockets and 64 MiB
    /// between files, whatever `max` is, unless a whole file is cloned at once. A hole of a file that
    /// stays a hole counts as moved, and is passed whole, because it takes no time. A message and an
    /// `O_DIRECT` block move whole. So does a packet of a pipe (at most a page) if the kernel
    /// refuses `splice(2)`, and all that a source pipe holds while fewer than two descriptors are
    /// free for a private pipe.
    ///
    /// The step calls the [observer](Transfer::observe) as [`run`](Transfer::run) does. Once the
    /// transfer has ended, it returns the same end again.
    ///
    /// # Errors
    ///
    /// Those of [`Transfer::run`]. The error holds the report and the undelivered bytes; the
    /// session is then over, and further steps return [`Ended::Failed`].
    pub fn step(&mut self, max: u64) -> Result<Progressed> {
        let Some(parts) = &mut self.parts else {
            return Ok(Progressed::Ended(Ended::Failed));
        };
        let progressed = parts.value_mut().step(max);
        progressed.map_err(|error| self.fail(error))
    }

    /// Takes steps until the transfer ends, and waits with `poll(2)` between them.
    ///
    /// # Errors
    ///
    /// Those of [`step`](Self::step).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, Transfer};
    ///
    /// let version = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut session = Transfer::new(&version, &sink).start()?;
    /// assert_eq!(session.drive()?, Ended::Eof);
    /// assert!(session.finish()?.bytes() > 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn drive(&mut self) -> Result<Ended> {
        let Some(parts) = &mut self.parts else {
            return Ok(Ended::Failed);
        };
        let ended = parts.value_mut().drive();
        ended.map_err(|error| self.fail(error))
    }

    /// Returns what has moved so far, and the side that the session is blocked on.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut session = Transfer::new(&zeros, &sink).start()?;
    /// let _ = session.step(1000)?;
    /// assert_eq!(session.progress().bytes(), 1000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn progress(&self) -> Progress {
        match (&self.parts, &self.failed) {
            (Some(parts), _) => parts.value().progress(),
            (None, Some((progress, _))) => *progress,
            // A session without parts has failed.
            (None, None) => unreachable!("only a failure takes the parts of a session"),
        }
    }

    /// Ends the transfer, and returns the report. Bytes in flight go back to the source, or are
    /// [undelivered](Report::undelivered).
    ///
    /// A session that has not ended is stopped, as an observer stops a transfer. After a failure,
    /// this returns the report that the error contained.
    ///
    /// # Errors
    ///
    /// Finishing failed: a hole at the end of the sink, a reopened file, or the last sync.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, Strategy, Transfer};
    ///
    /// let (mut source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello world")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut session = Transfer::new(&source, &sink).start()?;
    /// let _ = session.step(5)?;
    /// let report = session.finish()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::Stopped));
    ///
    /// let mut rest = [0; 6];
    /// std::io::Read::read_exact(&mut source, &mut rest)?;
    /// assert_eq!(&rest, b" world");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn finish(mut self) -> Result<Report> {
        match (self.parts.take(), self.failed.take()) {
            (Some(mut parts), _) => parts.value_mut().finish(),
            (None, Some((_, report))) => Ok(report),
            (None, None) => unreachable!("only a failure takes the parts of a session"),
        }
    }

    /// Returns the steps with the ends that they use. `None` after a failure.
    #[cfg(feature = "tokio")]
    pub(crate) fn split_mut(&mut self) -> Option<(&mut SessionSteps<'a>, &Ends<Source, Sink>)> {
        self.parts.as_mut().map(WithOwners::split_mut)
    }

    /// Remembers what the transfer had done when it failed.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if let Some(parts) = self.parts.take() {
            let progress = Progress {
                bytes: error.bytes(),
                ..parts.value().progress()
            };
            self.failed = Some((progress, error.report().clone()));
        }
        error
    }
}

impl<Source: AsFd, Sink> Session<'_, Source, Sink> {
    /// Returns the source, to register it with a poller. `None` after a failure.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        Some(&self.parts.as_ref()?.owners().source)
    }
}

impl<Source: AsFd, Sink: AsFd> Session<'_, Source, Sink> {
    /// Returns the sink, to register it with a poller. `None` after a failure.
    #[must_use]
    pub fn sink(&self) -> Option<&Sink> {
        Some(&self.parts.as_ref()?.owners().sink)
    }
}

impl<'a, Source: AsFd> Session<'a, Source, Sinks<'a>> {
    /// Returns the sinks in their order, to register them with a poller. None after a failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::fd::AsRawFd;
    /// use zcopy::FanOut;
    ///
    /// let (source, _writer) = std::io::pipe()?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let session = FanOut::new(&source, &sink).also_to(&null).start()?;
    /// let sinks: Vec<_> = session.sinks().map(|fd| fd.as_raw_fd()).collect();
    /// assert_eq!(sinks, [sink.as_raw_fd(), null.as_raw_fd()]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sinks(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let ends = self.parts.as_ref().map(WithOwners::owners);
        ends.into_iter().flat_map(|ends| ends.sink.iter())
    }

    /// Returns the sinks that the session waits for, with their indices: the next step can follow
    /// when one of them is writable. None if it does not wait for a [sink](Interest::sink).
    ///
    /// Poll these and no others: a sink that has its bytes already may stay writable.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{FanOut, Progressed};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// let (_reader, full) = std::io::pipe()?;
    /// (&full).write_all(&[0; 64 << 10])?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut session = FanOut::new(&source, &null).also_to(&full).grow_pipes(false).start()?;
    ///
    /// writer.write_all(b"hello")?;
    /// let Progressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
    /// assert!(interest.sink() && !interest.source());
    /// let blocked: Vec<_> = session.blocked_sinks().map(|(index, _)| index).collect();
    /// assert_eq!(blocked, [1]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn blocked_sinks(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let parts = self.parts.as_ref();
        let is_blocked = move |index| {
            parts.is_some_and(|it| it.value().awaited_event(index) == Some(Event::Ready))
        };
        let sinks = self.sinks().enumerate();
        sinks.filter(move |(index, _)| is_blocked(*index))
    }
}

impl<Source, Sink> std::fmt::Debug for Session<'_, Source, Sink> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("progress", &self.progress())
            .finish_non_exhaustive()
    }
}
