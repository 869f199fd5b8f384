//! [`Session::drive_async`] of several sinks, and [`FanOut::run_async`].

use std::future::poll_fn;
use std::os::fd::BorrowedFd;
use std::pin::pin;
use std::task::Poll;

use ::tokio::io::Interest as Events;

use super::end::AsyncEnd;
use super::pool;
use super::ready::ready;
use super::session::take_noted_steps;
use super::timer::RuntimeTimer;
use super::waiter::Waiter;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::error::Result;
use crate::fan_out::FanOut;
use crate::report::{Ended, Report};
use crate::session::{Interest, Place, Progressed, Session, Sinks};
use crate::side::Side;
use crate::sys::Linux;

impl<Source: AsyncEnd> Session<'static, Source, Sinks<'static>> {
    /// Takes steps until the fan-out ends, and lets tokio wait between them. It is cancel-safe, as
    /// `drive_async` of a [`Transfer`](crate::Transfer) is.
    ///
    /// The sinks may be of any type that has a descriptor, and have to be `'static`: pass them by
    /// value, or in an `Arc`. A duplicate of each sink's descriptor is registered with the reactor
    /// when the session first waits for it.
    ///
    /// # Errors
    ///
    /// Those of [`step`](Self::step), and those of `dup(2)` and `epoll_ctl(2)`.
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::Duration;
    /// use zcopy::{Ended, FanOut};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let (source, mut writer) = std::io::pipe()?;
    /// let (reader, sink) = std::io::pipe()?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut session = FanOut::new(source, sink).also_to(null).start()?;
    /// writer.write_all(b"hello")?;
    ///
    /// // The writer is still there, so that the fan-out goes on waiting.
    /// let driven = tokio::time::timeout(Duration::from_millis(10), session.drive_async()).await;
    /// assert!(driven.is_err());
    ///
    /// writer.write_all(b" world")?;
    /// drop(writer);
    /// assert_eq!(session.drive_async().await?, Ended::Eof);
    /// assert_eq!(session.finish_async().await?.sinks()[1].bytes(), 11);
    /// assert_eq!(std::io::read_to_string(reader)?, "hello world");
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn drive_async(&mut self) -> Result<Ended> {
        let Some((place, ends)) = self.split_mut() else {
            return Ok(Ended::Failed);
        };
        let (source, _) = ends.ends();
        let sink_fds: Vec<_> = ends.sink_fds().collect();
        let watched = WatchedEnds::new((source, ends.source_fd()), &sink_fds);
        let needs_disk = place.needs_disk();
        let ended = drive(place, watched, needs_disk).await;
        ended.map_err(|error| self.fail(error))
    }
}

impl<Source: AsyncEnd> FanOut<'static, Source> {
    /// Moves the bytes as [`run`](Self::run) does, in a task of tokio.
    ///
    /// Choose it for fan-outs that are not interrupted. If the future is dropped, the fan-out is
    /// stopped, and what some sinks lack is lost, unless the source has a cursor. Choose
    /// [`start`](Self::start) and `drive_async` of its [`Session`] to keep it.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), `dup(2)` and `epoll_ctl(2)`.
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    /// use std::sync::Arc;
    /// use tokio::net::UnixStream;
    /// use zcopy::FanOut;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let (stream, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// # stream.set_nonblocking(true)?;
    /// let stream = UnixStream::from_std(stream)?;
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-fan-out-{}", std::process::id()));
    /// let copy = Arc::new(std::fs::File::create(&path)?);
    /// let version = std::fs::File::open("/proc/version")?;
    /// let report = FanOut::new(version, stream).also_to(Arc::clone(&copy)).run_async().await?;
    ///
    /// let mut version = String::new();
    /// peer.read_to_string(&mut version)?;
    /// assert_eq!(std::fs::read_to_string(&path)?, version);
    /// assert_eq!(report.bytes(), copy.metadata()?.len());
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run_async(self) -> Result<Report> {
        let mut session = self.start()?;
        session.drive_async().await?;
        session.finish_async().await
    }
}

/// The source and the sinks that a task waits for.
struct WatchedEnds<'e, Source> {
    source: Watched<'e, Linux, Source>,
    sinks: Vec<WatchedSink<'e>>,
}

struct WatchedSink<'e> {
    watched: Watched<'e, Linux, BorrowedFd<'e>>,
    /// The event that the next step waits for.
    awaited: Option<SinkEvent>,
}

#[derive(Clone, Copy, Debug)]
enum SinkEvent {
    Writable,
    /// Its reader closes.
    Broken,
}

async fn drive<Source: AsyncEnd>(
    place: &mut Place<'static>,
    mut ends: WatchedEnds<'_, Source>,
    needs_disk: bool,
) -> Result<Ended> {
    if needs_disk {
        pool::share(place)?;
    }
    let mut waiter = Waiter::new(place.stop(), RuntimeTimer::default());
    loop {
        let progressed = match place {
            Place::Here(steps) => take_noted_steps(steps, &mut waiter.turn)?,
            Place::Shared(shared) => pool::visit(shared).await?,
        };
        match progressed {
            Progressed::Moved(_) => waiter.note_moved(),
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                ends.note_blocked(place, interest);
                let ready = ends.ready(interest);
                let stale = waiter.wait(ready, interest.timeout).await;
                if stale.map_err(|error| place.fail(error))? {
                    ends.unregister_stale();
                }
            }
        }
        waiter.pass_on().await;
    }
}

impl<'e, Source: AsyncEnd> WatchedEnds<'e, Source> {
    fn new((source, source_fd): (&'e Source, BorrowedFd<'e>), sinks: &'e [BorrowedFd<'e>]) -> Self {
        let watched = |fd: &'e BorrowedFd<'e>| WatchedSink {
            watched: Watched::new(Linux, fd, *fd, Side::Sink, Events::WRITABLE),
            awaited: None,
        };
        Self {
            source: Watched::new(Linux, source, source_fd, Side::Source, Events::READABLE),
            sinks: sinks.iter().map(watched).collect(),
        }
    }

    /// Notes which sinks a step is blocked on. Lets the reactor forget that these ends are ready,
    /// unless a poll finds them so: a step does not tell which call has found which end not ready.
    fn note_blocked(&mut self, place: &Place<'static>, interest: Interest) {
        if interest.source {
            self.source.forget_unless_ready(Events::READABLE);
        }
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            sink.awaited = if interest.sink && place.is_blocked_on(index) {
                sink.watched.forget_unless_ready(Events::WRITABLE);
                Some(SinkEvent::Writable)
            } else {
                place.is_watching(index).then_some(SinkEvent::Broken)
            };
        }
    }

    /// Drops the registrations that believe in events which have passed.
    fn unregister_stale(&mut self) {
        self.source.unregister_if_stale();
        for sink in &mut self.sinks {
            sink.watched.unregister_if_stale();
        }
    }

    /// Waits until one of the ends is ready that a step is blocked on.
    ///
    /// # Errors
    ///
    /// An end cannot be registered, or the runtime shuts down.
    async fn ready(&mut self, interest: Interest) -> std::result::Result<(), CallError> {
        if interest.source {
            self.source.register()?;
        }
        for sink in self.sinks.iter_mut().filter(|sink| sink.awaited.is_some()) {
            sink.watched.register()?;
        }
        let mut source = pin!(ready(
            &self.source,
            interest.source.then_some(Events::READABLE)
        ));
        poll_fn(|context| {
            if let Poll::Ready(ready) = source.as_mut().poll(context) {
                return Poll::Ready(ready);
            }
            for sink in &self.sinks {
                let polled = match sink.awaited {
                    Some(SinkEvent::Writable) => sink.watched.poll_writable(context),
                    Some(SinkEvent::Broken) => sink.watched.poll_broken(context),
                    None => Poll::Pending,
                };
                if polled.is_ready() {
                    return polled;
                }
            }
            Poll::Pending
        })
        .await
    }
}
