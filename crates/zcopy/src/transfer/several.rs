//! Several sinks: how a [`Transfer`] is given them, and what it does when one fails.

use std::iter::{self, zip};
use std::os::fd::{AsFd, BorrowedFd};

use super::Transfer;
use crate::classify::{self, reopen_terminal};
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, FanOutEngine, SinkPolicy};
use crate::error::Result;
use crate::fd_info::FdInfo;
use crate::options::OnSinkError;
use crate::plan::Plan;
use crate::report::{Report, SinkReport};
use crate::side::Side;
use crate::sys::Kernel;

#[cfg(doc)]
use crate::{Reflink, Sparse, Strategy};

impl<'a> Transfer<'a> {
    /// Adds a sink that receives the same bytes [default: the sink of [`new`](Self::new) only].
    /// Call it once for each further sink.
    ///
    /// Choose it, rather than one transfer for each sink, to read the source once: bytes of a pipe
    /// or socket can be read only once, and the bytes of a file need be copied only once. All sinks
    /// move in step, so that the slowest one sets the speed. Choose transfers of their own, in
    /// threads of their own and with [source offsets](Self::source_offset), if the source is a file
    /// and no sink may wait for another.
    ///
    /// Sinks that accept a splice share the pages, by `tee(2)`, so that no bytes are copied for
    /// them. The transfer writes to appending files, terminals and other sinks that accept no
    /// splice from one common buffer; the other sinks still share pages. `/dev/null` discards all
    /// bytes, and the transfer only counts for it what the other sinks accept.
    ///
    /// Only [`Strategy::Tee`] and [`Strategy::Buffered`] remain. Holes are moved as zeros, and no
    /// blocks are shared. The transfer holds at most one pipe for each sink and one buffer, and a
    /// further buffer for each sink that turns out to refuse a splice.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails before a byte moves:
    ///
    /// - with an error that [`is_unsuitable`](crate::Error::is_unsuitable), for a requested
    ///   strategy other than [`Strategy::Tee`] and [`Strategy::Buffered`], and for
    ///   [`Reflink::Always`];
    /// - with `EINVAL`, for [`Sparse::Detect`], [`skip_errors`](Self::skip_errors),
    ///   [`record_limit`](Self::record_limit) and [`record_rate_limit`](Self::record_rate_limit);
    /// - if one of the sinks cannot be written to, whatever [`on_sink_error`](Self::on_sink_error)
    ///   says.
    ///
    /// Later `on_sink_error` decides whether the failure of a sink ends the transfer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::Transfer;
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let (reader, sink) = std::io::pipe()?;
    /// let (other_reader, other) = std::io::pipe()?;
    ///
    /// let report = Transfer::new(&source, &sink).also_to(&other).run()?;
    /// assert_eq!(report.bytes(), 5);
    /// drop((sink, other));
    /// assert_eq!(std::io::read_to_string(reader)?, "hello");
    /// assert_eq!(std::io::read_to_string(other_reader)?, "hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Kernel notes
    ///
    /// The transfer splices the bytes from the source into a private pipe and shares them from
    /// there. Other processes may read from the same source meanwhile: each byte goes to one
    /// reader. Packets of a pipe in packet mode stay packets for sinks that are pipes: see
    /// [`run`](Self::run).
    ///
    /// # References
    /// - [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html)
    pub fn also_to<Sink: AsFd + ?Sized>(mut self, sink: &'a Sink) -> Self {
        self.also_to.push(sink.as_fd());
        self
    }

    /// Decides whether the transfer continues when one of its sinks fails
    /// [default: [`OnSinkError::Stop`]].
    ///
    /// Choose [`OnSinkError::Detach`] if the other sinks are to receive everything all the same;
    /// [`Report::sinks`] then has the error of each detached sink. Choose
    /// [`on_sink_error_with`](Self::on_sink_error_with) to decide by the error or the sink. The
    /// last call of the two takes effect.
    ///
    /// With [`OnSinkError::Detach`] a single sink is served as one of several, with the strategies,
    /// the cost and the errors of [`also_to`](Self::also_to).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, OnSinkError, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let transfer = Transfer::new(&zeros, &full).on_sink_error(OnSinkError::Detach);
    /// assert_eq!(transfer.run()?.ended(), Ended::NoSink);
    ///
    /// let transfer = Transfer::new(&zeros, &full).on_sink_error(OnSinkError::Stop);
    /// assert!(transfer.run().is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_sink_error(mut self, decision: OnSinkError) -> Self {
        self.policy = SinkPolicy::Always(decision);
        self
    }

    /// Calls `decide` when a sink fails, to decide whether the transfer continues without it
    /// [default: see [`on_sink_error`](Self::on_sink_error)]. It is called once for each sink that
    /// fails, with the report of that sink. The last call of `on_sink_error` and this method takes
    /// effect.
    ///
    /// Choose it to detach sinks that fail with certain errors only, or to learn of a failure at
    /// once. A single sink is served as one of several, with the strategies and the cost of
    /// [`also_to`](Self::also_to).
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with the options that `also_to` excludes, also for a single sink:
    /// with `EINVAL` for [`record_limit`](Self::record_limit),
    /// [`record_rate_limit`](Self::record_rate_limit), [`skip_errors`](Self::skip_errors) and
    /// [`Sparse::Detect`], and with an error that [`is_unsuitable`](crate::Error::is_unsuitable)
    /// for [`Reflink::Always`]. Bad input fails before a byte moves, and `decide` is not called.
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
        decide: impl FnMut(&SinkReport) -> OnSinkError + 'a,
    ) -> Self {
        self.policy = SinkPolicy::Ask(Box::new(decide));
        self
    }

    /// Treats a pipe or socket whose reader has gone as failed at once, not only when the transfer
    /// next writes to it [default: false].
    ///
    /// Choose it, with [`OnSinkError::Detach`], for a transfer that should end with its last reader
    /// although its source sends nothing. The error is `EPIPE`; no signal is raised while the
    /// transfer waits. It costs a `poll(2)` before most calls, and a single sink is served as one
    /// of several, with the strategies, the cost and the errors of [`also_to`](Self::also_to).
    ///
    /// A TCP socket whose peer has closed does not count as failed until the peer answers with a
    /// reset. Nor does a socket whose error queue holds unread completions of `MSG_ZEROCOPY`,
    /// although it polls as if it were broken; the transfer checks such a socket ten times per
    /// second.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, OnSinkError, Transfer};
    ///
    /// // No process writes to the source, and none reads from the sink.
    /// let (source, _writer) = std::io::pipe()?;
    /// let (reader, sink) = std::io::pipe()?;
    /// drop(reader);
    /// let report = Transfer::new(&source, &sink)
    ///     .watch_readers(true)
    ///     .on_sink_error(OnSinkError::Detach)
    ///     .run()?;
    /// assert_eq!(report.ended(), Ended::NoSink);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn watch_readers(mut self, watch: bool) -> Self {
        self.options.watch_readers = watch;
        self
    }

    /// Whether the engine for several sinks serves this transfer, be it of a single sink.
    pub(super) fn uses_fan_out(&self) -> bool {
        let detaches = !matches!(self.policy, SinkPolicy::Always(OnSinkError::Stop));
        !self.also_to.is_empty() || self.options.watch_readers || detaches
    }

    fn sinks(&self) -> impl Iterator<Item = BorrowedFd<'a>> {
        iter::once(self.sink).chain(self.also_to.iter().copied())
    }

    /// Classifies all descriptors, checks the input, and plans. Moves no byte.
    pub(super) fn prepare_several<K: Kernel>(
        &self,
        kernel: &K,
    ) -> Result<(FdInfo, Vec<FdInfo>, Plan)> {
        let sinks: Vec<_> = self.sinks().collect();
        classify::prepare_several(kernel, self.source, &sinks, &self.options)
            .map_err(|unprepared| unprepared.into_error(sinks.len()))
    }

    pub(super) fn fan_out<K: Kernel + Copy>(self, kernel: K) -> Result<Report> {
        let started = kernel.now();
        let (mut source, mut sinks, plan) = self.prepare_several(&kernel)?;
        let options = self.options;
        let reopen = |fd, info: &mut _, side| reopen_terminal(&kernel, fd, info, side, &options);
        let own_source = reopen(self.source, &mut source, Side::Source);
        let own_sinks: Vec<_> = zip(self.sinks(), &mut sinks)
            .map(|(fd, info)| reopen(fd, info, Side::Sink))
            .collect();
        let source_fd = own_source.as_ref().map_or(self.source, AsFd::as_fd);
        let source = Endpoint::new(source_fd, source, options.source_offset);
        // Only the first sink can have an offset.
        let offsets = iter::once(options.sink_offset).chain(iter::repeat(None));
        let sinks = zip(zip(self.sinks(), &own_sinks), zip(sinks, offsets))
            .map(|((fd, own), (info, offset))| {
                Endpoint::new(own.as_ref().map_or(fd, AsFd::as_fd), info, offset)
            })
            .collect();
        let (callbacks, policy) = (self.callbacks, self.policy);
        let mut engine =
            FanOutEngine::new(kernel, source, sinks, &plan, options, callbacks, policy);
        engine.context().started = started;
        engine.context().share_rate_limiter(self.rate_limiter);
        drive::run(&mut engine)
    }
}
