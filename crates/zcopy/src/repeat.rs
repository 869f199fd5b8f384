//! [`Repeat`]: the options of a repeated pattern.

use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, RepeatEngine};
use crate::error::{Result, RunError};
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::plan::{self, Plan};
use crate::preflight;
use crate::progress::{Observer, Progress};
use crate::report::Report;
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Errno, Kernel, Linux};

#[cfg(doc)]
use crate::Ended;

/// Writes one pattern to a sink over and over, like `yes`.
///
/// After success or failure, the bytes that the sink has accepted are a prefix of the endless
/// repetition, and the report counts them. The sink is borrowed and stays open.
///
/// [`run`](Self::run) returns when the limit is reached, the observer stops it, or a call fails.
///
/// # Examples
///
/// ```
/// use zcopy::{Ended, Repeat, Strategy};
///
/// let (reader, writer) = std::io::pipe()?;
/// let counter = std::thread::spawn(move || std::io::copy(&mut &reader, &mut std::io::sink()));
///
/// let report = Repeat::new("again ").limit(100_000_000).run(&writer)?;
/// assert_eq!((report.bytes(), report.ended()), (100_000_000, Ended::Limit));
/// assert_eq!(report.strategy(), Some(Strategy::Tee));
///
/// drop(writer);
/// assert_eq!(counter.join().unwrap()?, 100_000_000);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Kernel notes
///
/// A pipe receives the same pages of the pattern again and again: a private pipe is filled with the
/// pattern once, `tee(2)` duplicates its pages into a second one, and `splice(2)` moves them into
/// the sink. No process can write to these pages, so that nothing changes before it is read. Every
/// other sink is written to from one buffer, which is as fast there.
///
/// Writing to a closed pipe raises `SIGPIPE`, and exceeding `RLIMIT_FSIZE` raises `SIGXFSZ`: see
/// [`Transfer`](crate::Transfer).
#[must_use = "nothing is repeated until it is run"]
pub struct Repeat<'a> {
    pattern: &'a [u8],
    options: Options,
    observer: Option<Observer<'a>>,
}

impl<'a> Repeat<'a> {
    /// Creates an endless repetition of `pattern`, which must not be empty. Nothing is written
    /// until [`run`](Self::run).
    pub fn new<Pattern: AsRef<[u8]> + ?Sized>(pattern: &'a Pattern) -> Self {
        Self {
            pattern: pattern.as_ref(),
            options: Options::default(),
            observer: None,
        }
    }

    /// Stops after exactly `bytes` bytes, even in the middle of the pattern [default: no limit].
    /// The repetition then ends with [`Ended::Limit`].
    ///
    /// With a limit of at most 256 KiB the plan chooses write, because filling a pipe costs more
    /// than it saves. To stop for another reason, return [`ControlFlow::Break`] from an
    /// [observer](Self::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Repeat;
    ///
    /// let (reader, writer) = std::io::pipe()?;
    /// Repeat::new("abc").limit(7).run(&writer)?;
    /// drop(writer);
    /// assert_eq!(std::io::read_to_string(reader)?, "abcabca");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.options.limit = bytes.into();
        self
    }

    /// Uses only [`Strategy::Tee`] or only [`Strategy::Buffered`] [default: tee for pipes, with
    /// buffered as its fallback; buffered for other sinks].
    ///
    /// The plan's choice is at least as fast. Choose a strategy for tests and measurements, or
    /// [`Strategy::Buffered`] if the private pipes of tee would exceed the user's limit on pipe
    /// memory.
    ///
    /// If the private pipe is too small for the whole pattern, tee leaves the rest of each
    /// repetition to be written.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with an error that [`is_unsuitable`](crate::Error::is_unsuitable)
    /// if the strategy cannot serve the sink.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Repeat, Strategy};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let report = Repeat::new("y\n").limit(1 << 20).strategy(Strategy::Tee).run(&null)?;
    /// assert_eq!(report.strategy(), Some(Strategy::Tee));
    ///
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = Repeat::new("y\n").strategy(Strategy::Tee).run(&full).unwrap_err();
    /// assert!(error.is_unsuitable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.options.strategy = Some(strategy);
        self
    }

    /// Sets whether a sink that is a pipe may be enlarged to 1 MiB [default: true].
    ///
    /// A larger pipe is several times as fast. It is enlarged once, after more than 64 KiB have been
    /// accepted, within the user's limit on pipe memory (pipe(7), `pipe-user-pages-soft`). A
    /// refusal is no error. [`Report::grown_sink`] returns the new capacity.
    ///
    /// Choose `false` if another program relies on the capacity, or if other pipes of the user need
    /// the memory.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Repeat;
    ///
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    /// let report = Repeat::new("y\n").limit(100_000).grow_pipes(false).run(&writer)?;
    /// assert_eq!(report.grown_sink(), None);
    /// drop(writer);
    /// assert_eq!(reading.join().expect("the reader does not panic")?, 100_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.options.grow_pipes = grow;
        self
    }

    /// Writes at most `bytes_per_second` bytes per second [default: no limit; 0 means 1], like
    /// [`Transfer::rate_limit`](crate::Transfer::rate_limit). A burst is at most the bytes of a
    /// tenth of a second.
    ///
    /// It rules out no strategy. Choose it for a steady load; without it, the reader alone sets the
    /// pace. A repetition cannot share a [`RateLimiter`](crate::RateLimiter) with transfers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use zcopy::Repeat;
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let start = Instant::now();
    /// Repeat::new("y\n").limit(100_000).rate_limit(1_000_000).run(&null)?;
    /// assert!(start.elapsed() >= Duration::from_millis(95));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn rate_limit(mut self, bytes_per_second: u64) -> Self {
        self.options.rate_limit = NonZeroU64::new(bytes_per_second.max(1));
        self
    }

    /// Calls the [observer](Self::observe) at least once every `tick`, also while the sink accepts
    /// nothing [default: only after steps; at least 1 ms], like
    /// [`Transfer::tick`](crate::Transfer::tick).
    ///
    /// Choose it for a display that must move, or for a repetition that must stop while its reader
    /// is idle. It rules out no strategy, and costs a `poll(2)` before most calls, also without an
    /// observer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    /// use zcopy::{Ended, Repeat, Side};
    ///
    /// // No process reads this pipe.
    /// let (_reader, writer) = std::io::pipe()?;
    /// let report = Repeat::new("y\n")
    ///     .tick(Duration::from_millis(1))
    ///     .observe(|progress| match progress.blocked() {
    ///         Some(Side::Sink) => ControlFlow::Break(()),
    ///         _ => ControlFlow::Continue(()),
    ///     })
    ///     .run(&writer)?;
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn tick(mut self, tick: Duration) -> Self {
        self.options.tick = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Calls `observer` after every step of at most 4 MiB, with the [`Progress`] so far [default:
    /// no observer]. If it returns [`ControlFlow::Break`], the repetition stops with
    /// [`Ended::Stopped`].
    ///
    /// Choose it to show progress or to stop for a reason other than a [`limit`](Self::limit). It
    /// rules out no strategy. Add a [`tick`](Self::tick) if it must also run while the sink accepts
    /// nothing.
    ///
    /// # Panics
    ///
    /// A panic of the observer propagates to the caller of [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zcopy::{Ended, Repeat};
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let report = Repeat::new("y\n")
    ///     .observe(|progress| match progress.bytes() {
    ///         0..1_000_000 => ControlFlow::Continue(()),
    ///         _ => ControlFlow::Break(()),
    ///     })
    ///     .run(&null)?;
    /// assert!(report.bytes() >= 1_000_000);
    /// assert_eq!(report.ended(), Ended::Stopped);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn observe(
        mut self,
        observer: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'a,
    ) -> Self {
        self.options.observed = true;
        self.observer = Some(Box::new(observer));
        self
    }

    /// Returns how [`run`](Self::run) would write to the sink, without writing anything.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](Self::run) that are known before anything is written.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Repeat, Strategy};
    ///
    /// let (_reader, pipe) = std::io::pipe()?;
    /// assert_eq!(Repeat::new("y\n").plan(&pipe)?.strategy(), Strategy::Tee);
    ///
    /// let null = std::fs::File::create("/dev/null")?;
    /// let plan = Repeat::new("y\n").plan(&null)?;
    /// assert_eq!(plan.strategy(), Strategy::Buffered);
    /// let expected = "pattern, 2 bytes -> /dev/null\n  chosen    buffered";
    /// assert!(plan.to_string().starts_with(expected));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan(&self, sink: impl AsFd) -> Result<Plan> {
        let prepared = prepare(&Linux, self.pattern, sink.as_fd(), &self.options);
        prepared
            .map(|(_, plan)| plan)
            .map_err(RunError::before_anything_moved)
    }

    /// Writes the pattern until the limit is reached, the observer stops it, or a call fails.
    ///
    /// If the sink is in non-blocking mode, it is waited for with `poll(2)`. Interrupted calls are
    /// repeated.
    ///
    /// # Errors
    ///
    /// Before anything is written: an empty pattern (`EINVAL`), a directory (`EISDIR`), a sink that
    /// is not open for writing (`EBADF`), or a strategy that cannot serve the sink. Later: the
    /// error of the system call, with the number of bytes that the sink accepted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// use zcopy::Repeat;
    ///
    /// let (reader, writer) = std::io::pipe()?;
    /// let error = Repeat::new("").run(&writer).unwrap_err();
    /// assert!(error.is_refused());
    /// assert_eq!(error.to_string(), "the source cannot be used: the pattern is empty");
    ///
    /// drop(reader);
    /// let error = Repeat::new("y\n").run(&writer).unwrap_err();
    /// assert_eq!((error.io_error_kind(), error.bytes()), (ErrorKind::BrokenPipe, 0));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self, sink: impl AsFd) -> Result<Report> {
        self.run_with(Linux, sink.as_fd())
    }

    /// Runs on the given kernel. Tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel>(self, kernel: K, sink: BorrowedFd<'_>) -> Result<Report> {
        let started = kernel.now();
        let prepared = prepare(&kernel, self.pattern, sink, &self.options);
        let (mut info, plan) = prepared.map_err(RunError::before_anything_moved)?;
        let own = classify::reopen_terminal(&kernel, sink, &mut info, Side::Sink, &self.options);
        let sink = Endpoint::new(own.as_ref().map_or(sink, AsFd::as_fd), info, None);
        let (options, observer) = (self.options, self.observer);
        let mut engine = RepeatEngine::new(kernel, self.pattern, sink, plan, options, observer);
        engine.context().started = started;
        drive::run(&mut engine)
    }

    /// Replaces all options at once.
    #[cfg(test)]
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }
}

impl std::fmt::Debug for Repeat<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repeat")
            .field("pattern", &self.pattern.len())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Classifies the sink, checks the input and plans. Moves nothing.
fn prepare<K: Kernel>(
    kernel: &K,
    pattern: &[u8],
    sink: BorrowedFd<'_>,
    options: &Options,
) -> std::result::Result<(FdInfo, Plan), RunError> {
    if pattern.is_empty() {
        let reason = "the pattern is empty";
        return Err(RunError::refused(Side::Source, Errno::INVAL, reason));
    }
    let info = classify::classify(kernel, Side::Sink, sink)?;
    preflight::check_sink(&info)?;
    let plan = plan::plan_repeated(&FdInfo::pattern(pattern.len()), &info, options)?;
    Ok((info, plan))
}
