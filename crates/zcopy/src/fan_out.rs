//! [`FanOut`], which collects the options for several sinks and runs their engine.

use std::iter;
use std::os::fd::{AsFd, BorrowedFd};

use crate::classify::{self, Unprepared};
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, Engine, FanOutEngine, SinkPolicy};
use crate::error::Result;
use crate::fd_info::FdInfo;
use crate::options::{OnSinkError, Options};
use crate::plan::Plan;
use crate::rate::RateLimiter;
use crate::report::Report;
use crate::session::{Ends, Session, Sinks, Steps};
use crate::stop::Stop;
use crate::sys::{Kernel, Linux, WithOwners};

#[cfg(doc)]
use crate::{Ended, Progressed, Reflink, SinkReport, Sparse, Strategy, Transfer};

mod failures;
mod settings;

/// Moves the bytes of one descriptor to several others: every byte leaves the source once and
/// reaches all sinks.
///
/// [`Transfer::also_to`] makes one of a transfer, and [`new`](Self::new) makes one with a single
/// sink. Each end is anything that has a descriptor ([`AsFd`]), by value or by reference.
///
/// Choose it, rather than one [`Transfer`] for each sink, to read the source once: bytes of a pipe
/// or socket can be read only once, and the bytes of a file need be copied only once. All sinks
/// move in step, so that the slowest one sets the speed. Choose transfers of their own, in threads
/// of their own and with [source offsets](Transfer::source_offset), if the source is a file and no
/// sink may wait for another. If it is a pipe or socket and one sink must never wait for another (a
/// log that is shipped to a peer, for example), move it to a file, and that file to the others.
///
/// Sinks that accept a splice share the pages, by `tee(2)`, so that no bytes are copied for them. If
/// at most 16 KiB come at once out of a pipe or stream socket, all sinks are written to, because a
/// pipe takes fewer short messages by `tee(2)` than by `write(2)`.
/// Appending files, terminals and other sinks that accept no splice are written to from one common
/// buffer; the other sinks still share pages. `/dev/null` discards all bytes, and the fan-out only
/// counts for it what the other sinks accept. So only [`Strategy::Tee`] and [`Strategy::Buffered`]
/// serve. Holes are moved as zeros, and no blocks are shared. The fan-out holds at most one pipe
/// for each sink and one buffer, and a further buffer for each sink that turns out to refuse a
/// splice.
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
/// let report = Transfer::new(&source, sink).also_to(other).run()?;
/// assert_eq!(report.bytes(), 5);
/// assert_eq!(std::io::read_to_string(reader)?, "hello");
/// assert_eq!(std::io::read_to_string(other_reader)?, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Options
///
/// - Amount and position: [`limit`](Self::limit), [`source_offset`](Self::source_offset),
///   [`sink_offset`](Self::sink_offset).
/// - Failures: [`on_sink_error`](Self::on_sink_error),
///   [`on_sink_error_with`](Self::on_sink_error_with), [`watch_readers`](Self::watch_readers).
/// - Progress: [`observe`](Self::observe), [`tick`](Self::tick), [`inspect`](Self::inspect),
///   [`records`](Self::records).
/// - Speed: [`rate_limit`](Self::rate_limit).
/// - The end: [`idle_timeout`](Self::idle_timeout), [`deadline`](Self::deadline),
///   [`stop_with`](Self::stop_with).
/// - Files: [`cache`](Self::cache), [`sync_data`](Self::sync_data).
/// - Strategy: [`stable`](Self::stable), [`strategy`](Self::strategy).
/// - Memory: [`buffer_size`](Self::buffer_size), [`grow_pipes`](Self::grow_pipes),
///   [`pipe_size`](Self::pipe_size).
///
/// A fan-out lacks the options that serve a single sink only: sharing blocks, making holes,
/// skipping bad blocks, and limits of records.
///
/// ```compile_fail,E0599
/// let (source, sink) = (std::fs::File::open("a")?, std::fs::File::create("b")?);
/// let fan_out = zcopy::FanOut::new(&source, &sink);
/// fan_out.skip_errors(zcopy::SkipErrors::Adaptive);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Continue after a stop
///
/// After a stop, a time-out or a failure the sinks may have received different numbers of bytes.
/// [`Report::bytes`] counts what every sink has that was not detached, and [`SinkReport::ahead`]
/// how many bytes each has beyond. The bytes that follow are [`Report::undelivered`], and then what
/// the source still has, from its cursor on (or from its [offset](Self::source_offset) plus
/// `Report::bytes`). Each sink has the first `ahead` of these bytes already.
///
/// A function that sends each sink what it lacks, so that a new fan-out can go on. It serves every
/// source, and leaves out the sinks that have failed:
///
/// ```
/// use std::fs::File;
/// use std::io::{self, Read, Write};
/// use std::time::Duration;
/// use zcopy::{Ended, Report, SinkReport, Transfer};
///
/// fn catch_up(source: impl Read, sinks: &[&File], report: &Report) -> io::Result<()> {
///     let live = || report.sinks().iter().filter(|sink| sink.error().is_none());
///     let most_ahead = live().map(SinkReport::ahead).max().unwrap_or(0);
///     let mut following = report.undelivered().to_vec();
///     let n_missing = most_ahead.saturating_sub(following.len() as u64);
///     source.take(n_missing).read_to_end(&mut following)?;
///     for sink in live() {
///         let mut file = sinks[sink.index()];
///         file.write_all(&following[sink.ahead() as usize..])?;
///     }
///     Ok(())
/// }
///
/// # let path = |name| std::env::temp_dir().join(format!("zcopy-doc-{name}-{}", std::process::id()));
/// # let [source_path, log_path] = [path("catch-up"), path("catch-up-log")];
/// # std::fs::write(&source_path, vec![7; 3_000_000])?;
/// # let (source, log) = (File::open(&source_path)?, File::create(&log_path)?);
/// # let (mut reader, peer) = std::io::pipe()?;
/// # let peer = File::from(std::os::fd::OwnedFd::from(peer));
/// // The peer, a pipe, reads nothing.
/// let fan_out = Transfer::new(&source, &log).also_to(&peer);
/// let report = fan_out.idle_timeout(Duration::from_millis(50)).run()?;
/// assert_eq!(report.ended(), Ended::TimedOut);
/// // Now it does.
/// # let reading = std::thread::spawn(move || {
/// #     let mut found = Vec::new();
/// #     reader.read_to_end(&mut found).map(|_| found)
/// # });
/// catch_up(&source, &[&log, &peer], &report)?;
/// Transfer::new(&source, &log).also_to(&peer).run()?;
/// # drop(peer);
/// # assert!(reading.join().expect("it does not panic")? == std::fs::read(&source_path)?);
/// # assert!(std::fs::read(&log_path)? == std::fs::read(&source_path)?);
/// # for path in [source_path, log_path] {
/// #     std::fs::remove_file(path)?;
/// # }
/// # Ok::<(), io::Error>(())
/// ```
///
/// # Kernel notes
///
/// The bytes are spliced from the source into a private pipe and shared from there. Other processes
/// may read from the same source meanwhile: each byte goes to one reader. Others may also write to a
/// pipe among the sinks. Packets of a pipe in packet mode become a stream: see [`Transfer::run`].
///
/// Shared descriptors, signals and `O_DIRECT` are treated as [`Transfer`] says.
///
/// # References
/// - [tee(2)](https://man7.org/linux/man-pages/man2/tee.2.html)
#[must_use = "a fan-out does nothing until it is run"]
pub struct FanOut<'a, Source = BorrowedFd<'a>> {
    source: Source,
    sinks: Sinks<'a>,
    settings: Settings<'a>,
}

/// The options and callbacks of a fan-out, without its ends.
struct Settings<'a> {
    policy: SinkPolicy<'a>,
    options: Options,
    callbacks: Callbacks<'a>,
    rate_limiter: Option<RateLimiter>,
    stop: Option<Stop>,
    /// That of the transfer before it got several sinks. It is refused, and handed back.
    prefix: Vec<u8>,
}

impl<'a, Source: AsFd> FanOut<'a, Source> {
    /// Creates a fan-out of everything that `source` has to one sink. Nothing moves until
    /// [`run`](Self::run).
    ///
    /// A single sink is served as one of several, with the strategies and the cost of several.
    /// Choose it for a sink that may fail or whose reader is watched, and for a number of sinks
    /// that is not known. A [`Transfer`] serves a sink that is certain to be the only one faster.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, FanOut, OnSinkError};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let report = FanOut::new(&zeros, &full).on_sink_error(OnSinkError::Detach).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (0, Ended::NoSink));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(source: Source, first_sink: impl AsFd + Send + 'a) -> Self {
        Self::with_settings(source, first_sink, Options::default(), Callbacks::default())
    }

    /// Adds a sink that receives the same bytes. Call it once for each further sink.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::FanOut;
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let pipes = (0..3).filter_map(|_| std::io::pipe().ok());
    /// let (readers, sinks): (Vec<_>, Vec<_>) = pipes.unzip();
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let fan_out = FanOut::new(&source, &null);
    /// sinks.into_iter().fold(fan_out, FanOut::also_to).run()?;
    /// for reader in readers {
    ///     assert_eq!(std::io::read_to_string(reader)?, "hello");
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn also_to(mut self, sink: impl AsFd + Send + 'a) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Returns what [`run`](Self::run) would do, as [`Transfer::plan`] does.
    /// [`Plan::sink_candidates`] has the strategy of each sink.
    ///
    /// # Errors
    ///
    /// Every error of [`run`](Self::run) that is known before a byte moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{FanOut, Strategy};
    ///
    /// let (source, _writer) = std::io::pipe()?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let log = std::fs::OpenOptions::new().append(true).open("/dev/null")?;
    /// let plan = FanOut::new(&source, &sink).also_to(&log).plan()?;
    /// assert_eq!(plan.strategy(), Strategy::Tee);
    /// let sinks: Vec<_> = plan.sink_candidates().iter().map(|sink| sink.strategy()).collect();
    /// assert_eq!(sinks, [Strategy::Tee, Strategy::Buffered]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan(&self) -> Result<Plan> {
        let n_sinks = self.sinks.iter().count();
        match self.prepare(&Linux) {
            Ok((_, _, plan)) => Ok(plan),
            Err(unprepared) => Err(unprepared.into_error(n_sinks, Vec::new())),
        }
    }

    /// Moves the bytes and returns the report, as [`Transfer::run`] does. It also ends, with
    /// [`Ended::NoSink`], when every sink has failed and was [detached](OnSinkError::Detach).
    ///
    /// # Errors
    ///
    /// Those of [`Transfer::run`], with [`Report::sinks`] that tell which sink has failed. A sink
    /// that cannot be written to fails the fan-out before a byte moves, whatever
    /// [`on_sink_error`](Self::on_sink_error) says. Later, `on_sink_error` decides whether the
    /// failure of a sink is an error.
    ///
    /// Options that were set on a [`Transfer`] before [`also_to`](Transfer::also_to) and that serve
    /// one sink only are refused:
    ///
    /// - with an error that [`is_unsuitable`](crate::Error::is_unsuitable), a
    ///   [strategy](Self::strategy) other than [`Strategy::Tee`] and [`Strategy::Buffered`], and
    ///   [`Reflink::Always`];
    /// - with `EINVAL`, [`Sparse::Detect`], [`skip_errors`](Transfer::skip_errors),
    ///   [`record_limit`](Transfer::record_limit) and
    ///   [`record_rate_limit`](Transfer::record_rate_limit).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{FanOut, SkipErrors, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let other = std::fs::File::create("/dev/null")?;
    /// let report = FanOut::new(&zeros, &null).also_to(&other).limit(1 << 20).run()?;
    /// let counts: Vec<_> = report.sinks().iter().map(|sink| sink.bytes()).collect();
    /// assert_eq!((report.bytes(), counts), (1 << 20, vec![1 << 20; 2]));
    ///
    /// let transfer = Transfer::new(&zeros, &null).skip_errors(SkipErrors::Adaptive);
    /// let error = transfer.also_to(&other).run().unwrap_err();
    /// assert!(error.is_refused(), "bad blocks are skipped for one sink only");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self) -> Result<Report> {
        self.run_with(Linux)
    }

    /// Begins the fan-out, and returns the session whose steps the caller takes, as
    /// [`Transfer::start`] does. [`Progressed::Moved`] counts the bytes that every sink has
    /// accepted since the step before.
    ///
    /// A caller who waits for sinks polls those that [are blocked](Session::blocked_sinks). With
    /// [`watch_readers`](Self::watch_readers), the next step finds the readers that have closed; to
    /// take that step at once, poll all [sinks](Session::sinks) for errors.
    ///
    /// # Errors
    ///
    /// Every error of [`run`](Self::run) that is known before a byte moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, FanOut, Progressed};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// let (reader, sink) = std::io::pipe()?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let mut session = FanOut::new(source, sink).also_to(null).start()?;
    ///
    /// // Nothing has been written yet.
    /// let Progressed::Blocked(interest) = session.step(1 << 20)? else { panic!() };
    /// assert!(interest.source() && !interest.sink());
    ///
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// assert_eq!(session.step(1 << 20)?, Progressed::Moved(5));
    /// assert_eq!(session.step(1 << 20)?, Progressed::Ended(Ended::Eof));
    /// assert_eq!(session.finish()?.bytes(), 5);
    /// assert_eq!(std::io::read_to_string(reader)?, "hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(self) -> Result<Session<'a, Source, Sinks<'a>>> {
        self.start_on(Linux).map(Session::new)
    }

    /// Begins on `kernel`; tests pass a simulated one.
    pub(crate) fn start_on<K>(
        mut self,
        kernel: K,
    ) -> Result<WithOwners<Steps<'a, K>, Ends<Source, Sinks<'a>>>>
    where
        K: Kernel + Copy + Send + 'a,
    {
        self.settings.options.stepped = true;
        let (n_sinks, prepared) = (self.sinks.iter().count(), self.prepare(&kernel));
        let prefix = &mut self.settings.prefix;
        let (mut from, mut to, plan) = prepared
            .map_err(|unprepared| unprepared.into_error(n_sinks, std::mem::take(prefix)))?;
        let Self {
            source,
            sinks,
            settings,
        } = self;
        let infos = (&mut from, &mut to[..]);
        let ends = Ends::of_several(&kernel, source, sinks, infos, &settings.options);
        Ok(WithOwners::new(ends, |ends, lender| {
            let source = lender.lend(ends.source_fd());
            let sinks = ends.sink_fds().map(|fd| lender.lend(fd)).zip(to);
            Steps::new(settings.engine(kernel, (source, from), sinks, &plan))
        }))
    }

    /// Runs on `kernel`; tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel + Copy>(mut self, kernel: K) -> Result<Report> {
        let started = kernel.now();
        let (n_sinks, prepared) = (self.sinks.iter().count(), self.prepare(&kernel));
        let prefix = &mut self.settings.prefix;
        let (mut from, mut to, plan) = prepared
            .map_err(|unprepared| unprepared.into_error(n_sinks, std::mem::take(prefix)))?;
        let Self {
            source,
            sinks,
            settings,
        } = self;
        let infos = (&mut from, &mut to[..]);
        let ends = Ends::of_several(&kernel, source, sinks, infos, &settings.options);
        let sinks = ends.sink_fds().zip(to);
        let mut engine = settings.engine(kernel, (ends.source_fd(), from), sinks, &plan);
        engine.context().started = started;
        drive::run(&mut engine)
    }

    /// Classifies all descriptors, checks the input, and plans. Moves no byte.
    fn prepare<K: Kernel>(
        &self,
        kernel: &K,
    ) -> std::result::Result<(FdInfo, Vec<FdInfo>, Plan), Unprepared> {
        let sinks: Vec<_> = self.sinks.iter().collect();
        classify::prepare_several(kernel, self.source.as_fd(), &sinks, &self.settings.options)
    }

    /// Replaces all options at once.
    #[cfg(test)]
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.settings.options = options;
        self
    }
}

impl<'a, Source> FanOut<'a, Source> {
    /// Creates a fan-out with a single sink, with the options and callbacks of a transfer.
    pub(crate) fn with_settings(
        source: Source,
        first_sink: impl AsFd + Send + 'a,
        options: Options,
        callbacks: Callbacks<'a>,
    ) -> Self {
        Self {
            source,
            sinks: Sinks::new(first_sink),
            settings: Settings {
                policy: SinkPolicy::Always(OnSinkError::default()),
                options,
                callbacks,
                rate_limiter: None,
                stop: None,
                prefix: Vec::new(),
            },
        }
    }

    /// Sets the rate limiter and the `Stop` of a transfer, and the prefix, which is refused.
    pub(crate) fn share(
        mut self,
        rate_limiter: Option<RateLimiter>,
        stop: Option<Stop>,
        prefix: Vec<u8>,
    ) -> Self {
        self.settings.rate_limiter = rate_limiter;
        self.settings.stop = stop;
        self.settings.prefix = prefix;
        self
    }
}

impl<'a> Settings<'a> {
    /// Returns the engine for these descriptors, which have been classified.
    fn engine<K: Kernel>(
        self,
        kernel: K,
        (source, from): (BorrowedFd<'a>, FdInfo),
        sinks: impl Iterator<Item = (BorrowedFd<'a>, FdInfo)>,
        plan: &Plan,
    ) -> FanOutEngine<'a, K> {
        let options = self.options;
        let source = Endpoint::new(source, from, options.source_offset);
        // Only the first sink can have an offset.
        let offsets = iter::once(options.sink_offset).chain(iter::repeat(None));
        let sinks = sinks.zip(offsets);
        let sinks = sinks.map(|((fd, info), offset)| Endpoint::new(fd, info, offset));
        let (sinks, callbacks, policy) = (sinks.collect(), self.callbacks, self.policy);
        let mut engine = FanOutEngine::new(kernel, source, sinks, plan, options, callbacks, policy);
        engine.context().share_rate_limiter(self.rate_limiter);
        engine.context().stop = self.stop;
        engine
    }
}

impl<Source: AsFd> std::fmt::Debug for FanOut<'_, Source> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FanOut")
            .field("source", &self.source.as_fd())
            .field("sinks", &self.sinks)
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}
