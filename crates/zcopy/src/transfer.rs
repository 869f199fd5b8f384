//! The front door: [`Transfer`] takes the options and hands over to the engine, or, with several
//! sinks, to the fan-out.

use std::os::fd::{AsFd, BorrowedFd};

use crate::bad_blocks::OnSkip;
use crate::classify;
use crate::copy_state::Inspector;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, PairEngine, SinkPolicy};
use crate::error::{Result, RunError};
use crate::fast_path::{self, FastPath, SeriesState};
use crate::options::{Cache, OnSinkError, Options, Reflink, Sparse};
use crate::plan::Plan;
use crate::progress::Observer;
use crate::rate::RateLimiter;
use crate::report::Report;
use crate::side::Side;
use crate::strategy::Strategy;
use crate::sys::{Kernel, Linux};

mod offsets;
mod pacing;
mod records;
mod series;
mod several;
mod sizes;
mod skip;
mod syncing;
mod watching;

pub use series::Series;

/// Moves the bytes of one descriptor to another by the best route the kernel offers.
///
/// Both ends are borrowed and stay the caller's: nothing is closed, and no flag is changed. Without
/// offsets the bytes go from the source's cursor to the sink's, and both cursors end behind the
/// last byte that arrived.
///
/// [`run`](Self::run) returns when the source has ended, the limit is reached, the observer says
/// so, or something failed.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// use zcopy::{Ended, Transfer};
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let source = std::fs::File::open("/proc/version")?;
///
/// let report = Transfer::new(&source, &writer).limit(5).run()?;
/// assert_eq!((report.bytes(), report.ended()), (5, Ended::Limit));
///
/// let mut word = [0; 5];
/// reader.read_exact(&mut word)?;
/// assert_eq!(&word, b"Linux");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Threads
///
/// A transfer stays in the thread that it was made in, so that an observer may hold what does not leave
/// one: a progress bar, a [`Cell`](std::cell::Cell). What it is made from and what comes of it
/// ([`Report`], [`Error`]) can be sent, so make it where it shall run.
///
/// ```
/// use std::io::Write;
/// use zcopy::Transfer;
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let report = std::thread::scope(|scope| {
///     let copying = scope.spawn(|| Transfer::new(&reader, &sink).run());
///     writer.write_all(b"hello")?;
///     drop(writer);
///     copying.join().expect("it does not panic").map_err(std::io::Error::from)
/// })?;
/// assert_eq!(report.bytes(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Shared descriptors
///
/// Other processes and threads may use the same open files, pipes and sockets meanwhile. What they read and write through a
/// shared cursor is neither overwritten nor doubled nor skipped, as with `read(2)` and `write(2)`: a transfer reserves the
/// range that it moves next with one `lseek(2)`, and reads and writes once somebody else has moved the cursor. With
/// [offsets](Self::source_offset) the cursor is neither moved nor looked at.
///
/// A process that is killed in the middle leaves a reserved range behind that it has not filled: at most 1 MiB, or the
/// [`buffer_size`](Self::buffer_size), of a sink that is fed by a pipe or socket; 4 MiB of a source that goes to one; 64 MiB, or the
/// length of a hole, between files. The range keeps what the file held there: old bytes, or zeros behind its end.
///
/// # Kernel notes
///
/// Writing to a pipe or socket whose reader has gone raises `SIGPIPE`, and writing to a file beyond
/// `RLIMIT_FSIZE` raises `SIGXFSZ`. No call that moves bytes inside the kernel can suppress them; a
/// program that ignores them (Rust programs ignore `SIGPIPE`) gets `EPIPE` and `EFBIG` instead.
///
/// Ends opened with `O_DIRECT` are read and written in whole blocks: of 4 KiB, or more if the kernel says so
/// (`STATX_DIOALIGN`). What it refuses, because the place or the length is odd, goes through the same file opened
/// once more without the flag, by way of `/proc/self/fd`; the cursor ends where it should. So bytes from a pipe
/// wait until a block is complete or the source has ended; if the transfer fails or is stopped before, they are
/// [handed back](Error::undelivered). Between two such files, at different places within a block, the source may be
/// read through the other opening. With [several sinks](Self::also_to) nothing waits, and more goes
/// through it. Where the file cannot be opened once more the kernel's `EINVAL` stands. Closing that other opening
/// lets go of the record locks (`F_SETLK`) that the process holds on the file, as closing any descriptor
/// of it does.
///
/// Between two files, holes are looked for through a second opening of the source, by way of `/proc/self/fd`, as
/// `SEEK_DATA` would move the cursor that others may read by. Only a source that has fewer blocks than its size asks for
/// is opened so, or a long one under [`Sparse::KeepUnwritten`]; closing that opening lets go of record locks too. Where the source cannot be opened a second
/// time, holes are found by looking for zeros in what is read, or, under a [strategy](Self::strategy) that reads nothing,
/// moved as zeros. In the sink a hole is stepped over; if nothing follows it, its last byte is written and punched out
/// again, which gives the sink its length and shortens nothing that somebody else has extended meanwhile.
/// Where the sink's file system refuses that, zeros are written.
#[must_use = "a transfer does nothing until it is run"]
pub struct Transfer<'a> {
    source: BorrowedFd<'a>,
    sink: BorrowedFd<'a>,
    also_to: Vec<BorrowedFd<'a>>,
    policy: SinkPolicy<'a>,
    options: Options,
    observer: Option<Observer<'a>>,
    inspect: Option<Inspector<'a>>,
    on_skip: Option<OnSkip<'a>>,
    rate_limiter: Option<&'a RateLimiter>,
    series_state: Option<&'a SeriesState>,
}

impl<'a> Transfer<'a> {
    /// A transfer from `source` to `sink`, of everything the source has.
    ///
    /// # Examples
    ///
    /// See [`Transfer`].
    pub fn new<Source: AsFd + ?Sized, Sink: AsFd + ?Sized>(
        source: &'a Source,
        sink: &'a Sink,
    ) -> Self {
        Self {
            source: source.as_fd(),
            sink: sink.as_fd(),
            also_to: Vec::new(),
            policy: SinkPolicy::Always(OnSinkError::default()),
            options: Options::default(),
            observer: None,
            inspect: None,
            on_skip: None,
            rate_limiter: None,
            series_state: None,
        }
    }

    /// Moves at most `bytes` bytes, and reads no more from a file, pipe or stream socket.
    ///
    /// A message of a datagram socket is moved whole or, if it is longer than what is left, not at
    /// all: it stays in the socket. If another reader took the message that was looked at, and the one
    /// in its place is longer, that message is [handed back](Report::undelivered). So is the rest of a
    /// record that an event descriptor or another device gives whole or not at all; those are read
    /// with room for 8 KiB. An empty datagram ends the transfer: see [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// See [`Transfer`].
    pub fn limit(mut self, bytes: u64) -> Self {
        self.options.limit = Some(bytes);
        self
    }

    /// Refuses every strategy that lets a later write to a file change bytes that have been moved
    /// already.
    ///
    /// By default a file's pages are passed to a pipe or socket as they are, which is what makes it
    /// fast. Until the reader has taken them they are still the file's, and who writes to the file
    /// meanwhile writes to them. A source that is a pipe or socket may hold such pages too, because
    /// somebody spliced or sent them there; to another pipe or socket they are passed on as they are.
    /// With `stable(true)` the bytes are copied by read and write, unless they cannot change: those
    /// of a memfd sealed against writing and shrinking, or of a file on a read-only image.
    ///
    /// A file or block device as the sink receives a copy in any case. But a pipe holds the pages of the source for
    /// a moment before they are copied, and if somebody cuts the source off in that moment, the sink
    /// receives zeros in place of up to a page. With `stable(true)` files are copied to files by read and write, or cloned.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::fs::FileExt;
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-stable-{}", std::process::id()));
    /// std::fs::write(&path, [b'a'; 40_000])?;
    /// let file = std::fs::OpenOptions::new().read(true).write(true).open(&path)?;
    /// let (mut reader, writer) = std::io::pipe()?;
    ///
    /// Transfer::new(&file, &writer).stable(true).run()?;
    /// file.write_all_at(b"b", 0)?;
    ///
    /// let mut first = [0];
    /// reader.read_exact(&mut first)?;
    /// assert_eq!(&first, b"a");
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stable(mut self, stable: bool) -> Self {
        self.options.stable = stable;
        self
    }

    /// Insists on one strategy. If it cannot serve the pair the transfer fails instead of going
    /// another way.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with an error that [`is_unsuitable`](Error::is_unsuitable).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let transfer = Transfer::new(&zeros, &sink).limit(1 << 20).strategy(Strategy::Sendfile);
    /// assert_eq!(transfer.run()?.strategy(), Strategy::Sendfile);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.options.strategy = Some(strategy);
        self
    }

    /// Whether two files may come to share their blocks. Default: [`Reflink::Auto`].
    ///
    /// # Examples
    ///
    /// See [`Reflink`].
    pub fn reflink(mut self, reflink: Reflink) -> Self {
        self.options.reflink = reflink;
        self
    }

    /// What becomes of holes. Default: [`Sparse::Keep`].
    ///
    /// Files of at most 32 KiB are not searched for holes.
    ///
    /// # Examples
    ///
    /// See [`Sparse`].
    pub fn sparse(mut self, sparse: Sparse) -> Self {
        self.options.sparse = sparse;
        self
    }

    /// What becomes of the page cache. Default: [`Cache::Keep`].
    ///
    /// # Examples
    ///
    /// See [`Cache`].
    pub fn cache(mut self, cache: Cache) -> Self {
        self.options.cache = cache;
        self
    }

    /// What [`run`](Self::run) would do. Nothing is touched.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), for everything that is known before anything moves.
    ///
    /// # Examples
    ///
    /// See [`Plan`].
    pub fn plan(&self) -> Result<Plan> {
        if self.is_fanout() {
            let sinks = self.sinks();
            let prepared = classify::prepare_several(&Linux, self.source, &sinks, &self.options);
            return prepared
                .map(|(_, _, plan)| plan)
                .map_err(|unprepared| unprepared.into_error(sinks.len()));
        }
        let prepared = classify::prepare(&Linux, self.source, self.sink, &self.options);
        prepared
            .map(|(_, _, plan)| plan)
            .map_err(RunError::before_anything_moved)
    }

    /// Moves the bytes.
    ///
    /// Descriptors in non-blocking mode are waited for by `poll(2)`; interrupted calls are made
    /// again. A socket whose own `SO_RCVTIMEO` or `SO_SNDTIMEO` expires ends the transfer with an
    /// error of kind [`WouldBlock`](std::io::ErrorKind::WouldBlock).
    ///
    /// The transfer ends where a read of the source brings nothing. A datagram socket says so with an
    /// empty message too, which nothing tells from the end, and which is not passed on: the transfer ends with
    /// [`Ended::Eof`], and can be run again for what follows.
    ///
    /// # Kernel notes
    ///
    /// `splice(2)` brings nothing at the urgent mark of a TCP stream either; a read gets past it. Urgent bytes
    /// are left out, as `read(2)` leaves them out, unless the socket has `SO_OOBINLINE`.
    ///
    /// A read takes one packet out of a pipe in packet mode (`pipe2(O_DIRECT)`) and throws away what it has no
    /// room for. Where a limit or a rate asks for less than a packet, a splice takes that much, and leaves the rest in the pipe.
    /// A kernel that refuses `splice(2)` has no such call. There a transfer exceeds a rate rather than
    /// cut a packet, and a limit cuts the last packet and loses its rest: a read beyond the limit would
    /// take bytes that belong to the next reader of a pipe without packets.
    ///
    /// # Errors
    ///
    /// Before anything moved: a directory (`EISDIR`), a descriptor that is open the wrong way
    /// (`EBADF`), an offset where there are none (`ESPIPE`), the same pipe or overlapping ranges of
    /// the same file at both ends (`EINVAL`), a strategy that cannot serve the pair. Later:
    /// whatever the kernel says, with the side it speaks of, the bytes that arrived, and those that
    /// were read and did not.
    ///
    /// # Examples
    ///
    /// See [`Transfer`], [`Report`] and [`Error`].
    pub fn run(self) -> Result<Report> {
        self.run_with(Linux)
    }

    /// Runs on the given kernel. Tests give it a simulated one.
    pub(crate) fn run_with<K: Kernel + Copy>(self, kernel: K) -> Result<Report> {
        if self.is_fanout() {
            return self.fan_out(kernel);
        }
        let (source_fd, sink_fd, options) = (self.source, self.sink, &self.options);
        let short = match self.rate_limiter {
            None => {
                fast_path::try_fast_path(&kernel, source_fd, sink_fd, options, self.series_state)
            }
            Some(_) => fast_path::classify_both(&kernel, source_fd, sink_fd),
        };
        let (source, sink, partial) = match short.map_err(RunError::before_anything_moved)? {
            FastPath::Done(report) => return Ok(report),
            FastPath::Continue(source, sink, partial) => (source, sink, partial),
        };
        // What has moved bytes has passed every check that is made here.
        let prepared =
            classify::prepare_classified(&kernel, source_fd, sink_fd, source, sink, options);
        let (mut source, mut sink, plan) = prepared.map_err(RunError::before_anything_moved)?;
        let own_source = classify::reopen(&kernel, source_fd, &mut source, Side::Source, options);
        let own_sink = classify::reopen(&kernel, sink_fd, &mut sink, Side::Sink, options);
        let source_fd = own_source.as_ref().map_or(source_fd, AsFd::as_fd);
        let sink_fd = own_sink.as_ref().map_or(sink_fd, AsFd::as_fd);
        let source = Endpoint::new(source_fd, source, options.source_offset);
        let sink = Endpoint::new(sink_fd, sink, options.sink_offset);
        let callbacks = Callbacks {
            observer: self.observer,
            inspect: self.inspect,
            on_skip: self.on_skip,
        };
        let mut engine = PairEngine::new(kernel, source, sink, plan, self.options, callbacks);
        engine.keep(self.rate_limiter);
        engine.go_on(partial);
        drive::run(&mut engine)
    }

    /// Replaces all options at once.
    #[cfg(test)]
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }
}

impl std::fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source)
            .field("sink", &self.sink)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Moves everything from `source` to `sink` and returns how many bytes that were.
///
/// The shortest form of [`Transfer`].
///
/// # Errors
///
/// As [`Transfer::run`].
///
/// # Examples
///
/// ```
/// let (reader, mut writer) = std::io::pipe()?;
/// std::io::Write::write_all(&mut writer, b"hello")?;
/// drop(writer);
/// let sink = std::fs::File::create("/dev/null")?;
/// assert_eq!(zcopy::copy(&reader, &sink)?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy<Source: AsFd + ?Sized, Sink: AsFd + ?Sized>(
    source: &Source,
    sink: &Sink,
) -> Result<u64> {
    Ok(Transfer::new(source, sink).run()?.bytes())
}
