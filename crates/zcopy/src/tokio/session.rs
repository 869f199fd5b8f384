//! [`Session::drive_async`] and [`Transfer::run_async`].

use ::tokio::io::Interest as Events;

use super::end::AsyncEnd;
use super::pool;
use super::ready::either_ready;
use super::timer::{RuntimeTimer, Timer};
use super::turn::Turn;
use super::waiter::Waiter;
use super::watched::{Watched, blocked_sides};
use crate::call_error::CallError;
use crate::error::Result;
use crate::report::{Ended, Report};
use crate::session::{Ends, Interest, Progressed, Session, SessionSteps, Steps};
use crate::sys::{Kernel, Linux};
use crate::transfer::Transfer;

impl<Source: AsyncEnd, Sink: AsyncEnd> Session<'static, Source, Sink> {
    /// Takes steps until the transfer ends, and lets tokio wait between them.
    ///
    /// Choose it, rather than [`drive`](Self::drive), in a task of tokio. It is cancel-safe: all
    /// bytes in flight are in the session, so that none is lost or doubled if the future is
    /// dropped. Then call it again, or [`step`](Self::step), or [`finish`](Self::finish).
    ///
    /// The callbacks of the transfer must not borrow (they are `'static`). Its ends may, as
    /// `&TcpStream` does.
    ///
    /// # Errors
    ///
    /// Those of [`step`](Self::step), those of `dup(2)` (`EMFILE` at the limit of open files), and
    /// those of `epoll_ctl(2)` (`ENOSPC` beyond `/proc/sys/fs/epoll/max_user_watches`).
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics).
    ///
    /// # Examples
    ///
    /// A transfer that is interrupted, and goes on:
    ///
    /// ```
    /// use std::io::Write;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Transfer};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// let (reader, mut writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut session = Transfer::new(reader, sink).start()?;
    /// writer.write_all(b"hello")?;
    ///
    /// // The writer is still there, so that the transfer goes on waiting.
    /// let driven = tokio::time::timeout(Duration::from_millis(10), session.drive_async()).await;
    /// assert!(driven.is_err());
    /// assert_eq!(session.progress().bytes(), 5);
    ///
    /// writer.write_all(b" world")?;
    /// drop(writer);
    /// assert_eq!(session.drive_async().await?, Ended::Eof);
    /// assert_eq!(session.finish()?.bytes(), 11);
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn drive_async(&mut self) -> Result<Ended> {
        let Some((steps, ends)) = self.split_mut() else {
            return Ok(Ended::Failed);
        };
        let needs_disk = steps.needs_disk();
        let ended = match steps {
            SessionSteps::Own(steps) if !needs_disk => {
                drive(Linux, steps, ends, RuntimeTimer::default()).await
            }
            steps => pool::drive(steps, ends).await,
        };
        ended.map_err(|error| self.fail(error))
    }
}

impl<Source, Sink> Session<'static, Source, Sink> {
    /// Ends the transfer as [`finish`](Self::finish) does. If an end is a file, a thread of the
    /// blocking pool does it, unless no descriptor is left for duplicates of its ends.
    ///
    /// Choose it, rather than `finish`, if the end may wait for a disk: for
    /// [`SyncData::AtEnd`](crate::SyncData) above all. If the future is dropped, the transfer ends
    /// nevertheless, and the report is lost.
    ///
    /// # Errors
    ///
    /// Those of [`finish`](Self::finish).
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SyncData, Transfer};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async {
    /// let version = std::fs::File::open("/proc/version")?;
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-async-{}", std::process::id()));
    /// let copy = std::fs::File::create(&path)?;
    /// let mut session = Transfer::new(version, copy).sync_data(SyncData::AtEnd).start()?;
    /// session.drive_async().await?;
    /// let report = session.finish_async().await?;
    /// assert_eq!(report.bytes(), std::fs::metadata(&path)?.len());
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn finish_async(mut self) -> Result<Report> {
        let Some((steps, _)) = self.split_mut() else {
            return self.finish();
        };
        if let SessionSteps::Own(own) = steps
            && own.needs_disk()
            && let Ok(duplicates) = own.duplicate_fds()
        {
            steps.share(duplicates);
        }
        if let SessionSteps::Shared(shared) = steps {
            return pool::finish(shared).await;
        }
        self.finish()
    }
}

impl<Source: AsyncEnd, Sink: AsyncEnd> Transfer<'static, Source, Sink> {
    /// Moves the bytes as [`run`](Self::run) does, in a task of tokio.
    ///
    /// Choose it for transfers that are not interrupted. If the future is dropped, the transfer is
    /// stopped: the source gets back what is in flight if it has a cursor, and otherwise these
    /// bytes are lost. Choose [`start`](Self::start) and
    /// [`drive_async`](crate::Session::drive_async) to keep them.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run) and [`drive_async`](crate::Session::drive_async).
    ///
    /// # Panics
    ///
    /// See [`zcopy::tokio`](crate::tokio#panics).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    /// use tokio::net::UnixStream;
    /// use zcopy::Transfer;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    /// # runtime.block_on(async {
    /// let (stream, mut peer) = std::os::unix::net::UnixStream::pair()?;
    /// # stream.set_nonblocking(true)?;
    /// let stream = UnixStream::from_std(stream)?;
    /// let file = std::fs::File::open("/proc/version")?;
    /// let report = Transfer::new(file, stream).run_async().await?;
    ///
    /// let mut version = String::new();
    /// peer.read_to_string(&mut version)?;
    /// assert!(version.starts_with("Linux"));
    /// assert_eq!(report.bytes(), version.len() as u64);
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

/// Drives a transfer whose steps wait for no disk.
pub(crate) async fn drive<K, Source, Sink>(
    kernel: K,
    steps: &mut Steps<'_, K>,
    ends: &Ends<Source, Sink>,
    timer: impl Timer,
) -> Result<Ended>
where
    K: Kernel + Copy,
    Source: AsyncEnd,
    Sink: AsyncEnd,
{
    let mut waiter = Waiter::new(steps.stop(), timer);
    let (mut source, mut sink) = Watched::both(kernel, ends);
    loop {
        match take_steps(steps, &source, &sink, &mut waiter.turn)? {
            Progressed::Moved(_) => waiter.note_moved(),
            Progressed::Ended(ended) => return Ok(ended),
            Progressed::Blocked(interest) => {
                let ready = sides_ready(interest, &mut source, &mut sink);
                let stale = waiter.wait(ready, interest.timeout).await;
                if stale.map_err(|error| steps.fail(error.into()))? {
                    source.unregister_if_stale();
                    sink.unregister_if_stale();
                }
            }
        }
        waiter.pass_on().await;
    }
}

/// Waits until one of the sides is ready that a step is blocked on.
pub(super) async fn sides_ready<K: Kernel, Source: AsyncEnd, Sink: AsyncEnd>(
    interest: Interest,
    source: &mut Watched<'_, K, Source>,
    sink: &mut Watched<'_, K, Sink>,
) -> std::result::Result<(), CallError> {
    if interest == Interest::default() {
        // Endpoints that never become ready are not waited for: the next call tells why.
        return Ok(());
    }
    let awaited_source = interest.source.then_some(Events::READABLE);
    let awaited_sink = interest.sink.then_some(Events::WRITABLE);
    either_ready((source, awaited_source), (sink, awaited_sink)).await
}

/// Takes steps until one is blocked, the transfer ends, or the turn is over.
///
/// The reactor's belief about both ends is taken before the first step, so that a step clears only
/// the readiness that it has disproved.
fn take_steps<K: Kernel, Source: AsyncEnd, Sink: AsyncEnd>(
    steps: &mut Steps<'_, K>,
    source: &Watched<'_, K, Source>,
    sink: &Watched<'_, K, Sink>,
    turn: &mut Turn,
) -> Result<Progressed> {
    source.observe(Events::READABLE, |source_belief| {
        sink.observe(Events::WRITABLE, |sink_belief| {
            steps.note_beliefs(source_belief, sink_belief);
            let progressed = take_noted_steps(steps, turn);
            let (source_is_blocked, sink_is_blocked) = match &progressed {
                Ok(Progressed::Blocked(interest)) => {
                    blocked_sides(*interest, (source, source_belief), (sink, sink_belief))
                }
                _ => (false, false),
            };
            ((progressed, source_is_blocked), sink_is_blocked)
        })
    })
}

/// Takes steps until one is blocked, the transfer ends, or the turn is over.
pub(super) fn take_noted_steps<K: Kernel>(
    steps: &mut Steps<'_, K>,
    turn: &mut Turn,
) -> Result<Progressed> {
    loop {
        let progressed = steps.step(turn.bytes())?;
        let Progressed::Moved(n_bytes) = progressed else {
            turn.spend(0);
            return Ok(progressed);
        };
        turn.spend(n_bytes);
        if turn.is_over() {
            return Ok(progressed);
        }
    }
}
