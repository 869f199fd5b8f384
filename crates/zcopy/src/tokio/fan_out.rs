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
use super::timer::{RuntimeTimer, Timer};
use super::waiter::Waiter;
use super::watched::Watched;
use crate::call_error::CallError;
use crate::error::Result;
use crate::fan_out::FanOut;
use crate::report::{Ended, Report};
use crate::session::{Interest, Progressed, Session, SessionSteps, Shared, Sinks, Steps};
use crate::side::Side;
use crate::sys::{Kernel, Linux};
use crate::wait::Event;

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
        let Some((steps, ends)) = self.split_mut() else {
            return Ok(Ended::Failed);
        };
        let (source, _) = ends.ends();
        let sink_fds: Vec<_> = ends.sink_fds().collect();
        let watched = WatchedEnds::new(Linux, (source, ends.source_fd()), &sink_fds);
        let needs_disk = steps.needs_disk();
        let ended = match steps {
            SessionSteps::Own(steps) if !needs_disk => {
                drive_several(steps, watched, RuntimeTimer::default()).await
            }
            steps => match pool::share(steps) {
                Ok(shared) => drive_in_pool(shared, watched).await,
                Err(error) => Err(error),
            },
        };
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
pub(crate) struct WatchedEnds<'e, K, Source, Sink> {
    source: Watched<'e, K, Source>,
    sinks: Vec<WatchedSink<'e, K, Sink>>,
}

struct WatchedSink<'e, K, Sink> {
    watched: Watched<'e, K, Sink>,
    /// The event that the next step waits for.
    awaited: Option<Event>,
}

/// Drives a fan-out whose steps wait for no disk.
pub(crate) async fn drive_several<K: Kernel, Source: AsyncEnd, Sink: AsyncEnd>(
    steps: &mut Steps<'_, K>,
    mut ends: WatchedEnds<'_, K, Source, Sink>,
    timer: impl Timer,
) -> Result<Ended> {
    let mut waiter = Waiter::new(steps.stop(), timer);
    loop {
        match take_noted_steps(steps, &mut waiter.turn)? {
            Progressed::Moved(_) => waiter.note_moved(),
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                ends.note_blocked(interest, |index| steps.awaited_event(index));
                let stale = waiter.wait(ends.ready(interest), interest.timeout).await;
                if stale.map_err(|error| steps.fail(error.into()))? {
                    ends.unregister_stale();
                }
            }
        }
        waiter.pass_on().await;
    }
}

/// Drives a fan-out whose steps may wait for a disk.
async fn drive_in_pool<Source: AsyncEnd, Sink: AsyncEnd>(
    shared: &Shared<'static>,
    mut ends: WatchedEnds<'_, Linux, Source, Sink>,
) -> Result<Ended> {
    let mut waiter = Waiter::new(shared.stop(), RuntimeTimer::default());
    loop {
        match pool::run_job(shared).await? {
            Progressed::Moved(_) => waiter.note_moved(),
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                ends.note_blocked(interest, |index| shared.awaited_event(index));
                let stale = waiter.wait(ends.ready(interest), interest.timeout).await;
                if stale.map_err(|error| shared.fail(error.into()))? {
                    ends.unregister_stale();
                }
            }
        }
    }
}

impl<'e, K: Kernel + Copy, Source: AsyncEnd, Sink: AsyncEnd> WatchedEnds<'e, K, Source, Sink> {
    pub(crate) fn new(
        kernel: K,
        (source, source_fd): (&'e Source, BorrowedFd<'e>),
        sinks: &'e [Sink],
    ) -> Self {
        let watched = |sink: &'e Sink| WatchedSink {
            watched: Watched::new(kernel, sink, sink.as_fd(), Side::Sink, Events::WRITABLE),
            awaited: None,
        };
        Self {
            source: Watched::new(kernel, source, source_fd, Side::Source, Events::READABLE),
            sinks: sinks.iter().map(watched).collect(),
        }
    }
}

impl<K: Kernel, Source: AsyncEnd, Sink: AsyncEnd> WatchedEnds<'_, K, Source, Sink> {
    /// Notes the event that the step awaits at each sink. Lets the reactor forget that ends are
    /// ready that a step is blocked on, unless a poll finds them so: a step does not tell which
    /// call has found which end not ready.
    fn note_blocked(&mut self, interest: Interest, awaited_event: impl Fn(usize) -> Option<Event>) {
        if interest.source {
            self.source.forget_unless_ready(Events::READABLE);
        }
        for (index, sink) in self.sinks.iter_mut().enumerate() {
            sink.awaited = awaited_event(index);
            if sink.awaited == Some(Event::Ready) {
                sink.watched.forget_unless_ready(Events::WRITABLE);
            }
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
                if let Some(event) = sink.awaited
                    && let polled @ Poll::Ready(_) = sink.watched.poll_event(event, context)
                {
                    return polled;
                }
            }
            Poll::Pending
        })
        .await
    }
}
