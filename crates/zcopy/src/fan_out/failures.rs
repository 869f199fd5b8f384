//! Failures of single sinks: a [`FanOut`] ends, or continues without the sink.

use super::FanOut;
use crate::engine::SinkPolicy;
use crate::options::OnSinkError;
use crate::report::SinkReport;

#[cfg(doc)]
use crate::Report;

impl<'a, Source> FanOut<'a, Source> {
    /// Decides whether the fan-out continues when one of its sinks fails
    /// [default: [`OnSinkError::Stop`]].
    ///
    /// Choose [`OnSinkError::Detach`] if the other sinks are to receive everything all the same;
    /// [`Report::sinks`] then has the error of each detached sink. Choose
    /// [`on_sink_error_with`](Self::on_sink_error_with) to decide by the error or the sink. The
    /// last call of the two takes effect.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{FanOut, OnSinkError};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let fan_out = || FanOut::new(&zeros, &null).also_to(&full).limit(1000);
    ///
    /// assert_eq!(fan_out().on_sink_error(OnSinkError::Detach).run()?.bytes(), 1000);
    /// assert_eq!(fan_out().on_sink_error(OnSinkError::Stop).run().unwrap_err().bytes(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// A sink that stalls, rather than fails, holds the others up. A socket in blocking mode fails
    /// if it has a time-out of its own and has accepted nothing for that long:
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    /// use zcopy::{FanOut, OnSinkError};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let (peer, _reads_nothing) = UnixStream::pair()?;
    /// peer.set_write_timeout(Some(Duration::from_millis(50)))?;
    /// let fan_out = FanOut::new(&zeros, &null).also_to(&peer).limit(10 << 20);
    ///
    /// let report = fan_out.on_sink_error(OnSinkError::Detach).run()?;
    /// assert_eq!(report.bytes(), 10 << 20);
    /// let error = report.sinks()[1].error().expect("it has been detached");
    /// assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_sink_error(mut self, decision: OnSinkError) -> Self {
        self.settings.policy = SinkPolicy::Always(decision);
        self
    }

    /// Calls `decide` when a sink fails, to decide whether the fan-out continues without it
    /// [default: see [`on_sink_error`](Self::on_sink_error)]. It is called once for each sink that
    /// fails, with the report of that sink. The last call of `on_sink_error` and this method takes
    /// effect.
    ///
    /// Choose it to detach sinks that fail with certain errors only, or to learn of a failure at
    /// once. Bad input fails before a byte moves, and `decide` is not called.
    ///
    /// # Panics
    ///
    /// A panic of `decide` propagates as with [`observe`](Self::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{ErrorKind, Write};
    /// use zcopy::{OnSinkError, Transfer};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let null = std::fs::File::create("/dev/null")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// let report = Transfer::new(&source, &null)
    ///     .also_to(&full)
    ///     .on_sink_error_with(|sink| match sink.error() {
    ///         Some(error) if error.kind() == ErrorKind::StorageFull => OnSinkError::Detach,
    ///         _ => OnSinkError::Stop,
    ///     })
    ///     .run()?;
    /// assert_eq!(report.bytes(), 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_sink_error_with(
        mut self,
        decide: impl FnMut(&SinkReport) -> OnSinkError + Send + 'a,
    ) -> Self {
        self.settings.policy = SinkPolicy::Ask(Box::new(decide));
        self
    }

    /// Treats a pipe or socket whose reader has gone as failed at once, not only when the next
    /// bytes go to it [default: false].
    ///
    /// Choose it, with [`OnSinkError::Detach`], for a fan-out that should end with its last reader
    /// although its source sends nothing. The error is `EPIPE`, or `ECONNRESET` of a connection
    /// that was reset; no signal is raised while the fan-out waits. It costs a `poll(2)` before
    /// most calls.
    ///
    /// Readers of datagram sockets are not watched: such a socket does not poll as broken. A TCP
    /// socket whose peer has closed does not count as failed until the peer answers with a
    /// reset. Nor does a socket whose error queue holds unread completions of `MSG_ZEROCOPY`,
    /// although it polls as if it were broken; such a socket is checked ten times per second. So is
    /// every sink while the fan-out waits for its [rate](Self::rate_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, FanOut, OnSinkError};
    ///
    /// // No process writes to the source, and none reads from the sink.
    /// let (source, _writer) = std::io::pipe()?;
    /// let (reader, sink) = std::io::pipe()?;
    /// drop(reader);
    /// let report = FanOut::new(&source, &sink)
    ///     .watch_readers(true)
    ///     .on_sink_error(OnSinkError::Detach)
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::NoSink);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn watch_readers(mut self, watch: bool) -> Self {
        self.settings.options.watch_readers = watch;
        self
    }
}
