//! What a [`Transfer`] can be told about several sinks.

use std::os::fd::{AsFd, BorrowedFd};

use super::Transfer;
use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, FanOutEngine, SinkPolicy};
use crate::error::Result;
use crate::options::OnSinkError;
use crate::report::{Report, SinkReport};
use crate::side::Side;
use crate::sys::Kernel;

#[cfg(doc)]
use crate::{Reflink, Sparse, Strategy};

impl<'a> Transfer<'a> {
    /// Moves the same bytes to one more sink. To be said for each.
    ///
    /// Sinks that take a splice share the pages, by `tee(2)`, and nothing is copied for them;
    /// appending files, terminals and other sinks that must be written to are written to from one
    /// buffer and do not keep the others from it. `/dev/null`, which throws everything away unseen, is
    /// only told how much the others got. The slowest sink sets the pace. What the transfer
    /// holds is bounded by the number of sinks: a pipe for each at the most, and one buffer; also a
    /// buffer for each sink that turns out to refuse a splice.
    ///
    /// Holes are moved as zeros, and no blocks are shared. An
    /// [offset for the sink](Self::sink_offset) is that of the first one.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) refuses every strategy but [`Strategy::Tee`] and [`Strategy::Buffered`],
    /// [`Reflink::Always`] and [`Sparse::Detect`], and everything if one of the sinks cannot be written to,
    /// whatever is to be done with failures. What a sink's failure does later is told by
    /// [`on_sink_error`](Self::on_sink_error).
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
    /// The bytes are spliced out of the source into a private pipe and shared from there. Others may read from the source
    /// meanwhile: each byte goes to one reader.
    ///
    /// # References
    /// - [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html)
    pub fn also_to<Sink: AsFd + ?Sized>(mut self, sink: &'a Sink) -> Self {
        self.also_to.push(sink.as_fd());
        self
    }

    /// What to do when one of several sinks fails. Default: [`OnSinkError::Stop`].
    ///
    /// A single sink that may be detached is served as several are: see [`also_to`](Self::also_to).
    ///
    /// # Examples
    ///
    /// See [`SinkReport`].
    pub fn on_sink_error(mut self, decision: OnSinkError) -> Self {
        self.policy = SinkPolicy::Always(decision);
        self
    }

    /// The same, decided for each failure when it happens.
    ///
    /// # Examples
    ///
    /// See [`OnSinkError`].
    pub fn on_sink_error_with(
        mut self,
        decide: impl FnMut(&SinkReport) -> OnSinkError + 'a,
    ) -> Self {
        self.policy = SinkPolicy::StepBudget(Box::new(decide));
        self
    }

    /// Whether a pipe or socket whose reader has gone counts as failed at once, rather than when
    /// there is something to give it. Default: false.
    ///
    /// So a transfer that detaches failing sinks ends with its last reader, though its source has
    /// nothing to say. The error is `EPIPE`; while the transfer waits no signal is raised. A TCP socket
    /// whose peer has closed is no broken one, until the peer answers by a reset. Nor is one whose
    /// error queue holds completions of `MSG_ZEROCOPY` that nobody has read, though it polls as if it
    /// were; such a socket is looked at ten times a second. A single sink is
    /// served as several are: see [`also_to`](Self::also_to).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, OnSinkError, Transfer};
    ///
    /// // Nobody ever writes to this pipe, and nobody reads from the other.
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

    /// Whether there is more to do than one engine does for one sink.
    pub(super) fn is_fanout(&self) -> bool {
        let detaches = !matches!(self.policy, SinkPolicy::Always(OnSinkError::Stop));
        !self.also_to.is_empty() || self.options.watch_readers || detaches
    }

    pub(super) fn sinks(&self) -> Vec<BorrowedFd<'a>> {
        let mut sinks = vec![self.sink];
        sinks.extend(&self.also_to);
        sinks
    }

    pub(super) fn fan_out<K: Kernel + Copy>(self, kernel: K) -> Result<Report> {
        let fds = self.sinks();
        let prepared = classify::prepare_several(&kernel, self.source, &fds, &self.options);
        let (mut source, mut sinks, plan) =
            prepared.map_err(|unprepared| unprepared.into_error(fds.len()))?;
        let reopen =
            |fd, info: &mut _, side| classify::reopen(&kernel, fd, info, side, &self.options);
        let own_source = reopen(self.source, &mut source, Side::Source);
        let own_sinks = fds.iter().zip(&mut sinks);
        let own_sinks: Vec<_> = own_sinks
            .map(|(fd, info)| reopen(*fd, info, Side::Sink))
            .collect();
        let source_fd = own_source.as_ref().map_or(self.source, AsFd::as_fd);
        let source = Endpoint::new(source_fd, source, self.options.source_offset);
        // The offset is the first sink's.
        let offsets = std::iter::once(self.options.sink_offset).chain(std::iter::repeat(None));
        let sink_fds = fds.iter().zip(&own_sinks);
        let sink_fds = sink_fds.map(|(fd, own)| own.as_ref().map_or(*fd, AsFd::as_fd));
        let sinks = sink_fds.zip(sinks).zip(offsets);
        let sinks: Vec<_> = sinks
            .map(|((fd, info), offset)| Endpoint::new(fd, info, offset))
            .collect();
        let callbacks = Callbacks {
            observer: self.observer,
            inspect: self.inspect,
            on_skip: None,
        };
        let (options, policy) = (self.options, self.policy);
        let mut engine =
            FanOutEngine::new(kernel, source, sinks, &plan, options, callbacks, policy);
        engine.keep(self.rate_limiter);
        drive::run(&mut engine)
    }
}
