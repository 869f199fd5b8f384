//! [`Transfer`], which collects the options for one sink and runs its engine.

use std::os::fd::{AsFd, BorrowedFd};

use crate::classify;
use crate::error::{Result, RunError};
#[cfg(test)]
use crate::options::Options;
use crate::plan::Plan;
use crate::report::Report;
use crate::session::Session;
use crate::strategy::Strategy;
use crate::sys::Linux;

#[cfg(doc)]
use crate::{Ended, Reflink, Sparse};

mod copy;
mod ending;
mod files;
mod io;
mod offsets;
mod pacing;
mod prefix;
mod records;
mod run;
mod series;
mod settings;
mod several;
mod sizes;
mod skip;
mod watching;

use settings::Settings;

pub use copy::copy;
pub use prefix::copy_buffered;
pub use series::Series;

/// Moves the bytes of one descriptor to another, by the fastest strategy that serves the pair.
///
/// Each end is anything that has a descriptor ([`AsFd`]), by value or by reference. The transfer
/// changes no flag, and closes only ends that it owns. Without offsets it moves the bytes from the
/// source's cursor to the sink's, and leaves both cursors behind the last byte that arrived.
///
/// [`run`](Self::run) returns when the source ends, the limit is reached, the observer stops the
/// transfer, or a call fails. [`copy()`] is the shortest form, without options. [`Series`] is faster
/// for many small files into one sink. [`from_reader`](Transfer::from_reader) and
/// [`to_writer`](Transfer::to_writer) serve ends that are no descriptors.
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
/// # Options
///
/// - Amount and position: [`limit`](Self::limit), [`record_limit`](Self::record_limit),
///   [`source_offset`](Self::source_offset), [`sink_offset`](Self::sink_offset),
///   [`prefix`](Self::prefix).
/// - The end: [`idle_timeout`](Self::idle_timeout), [`deadline`](Self::deadline),
///   [`stop_with`](Self::stop_with).
/// - Progress: [`observe`](Self::observe), [`tick`](Self::tick), [`inspect`](Self::inspect),
///   [`records`](Self::records).
/// - Speed: [`rate_limit`](Self::rate_limit), [`record_rate_limit`](Self::record_rate_limit).
/// - Files: [`reflink`](Self::reflink), [`sparse`](Self::sparse), [`cache`](Self::cache),
///   [`sync_data`](Self::sync_data), [`skip_errors`](Self::skip_errors),
///   [`on_skip`](Self::on_skip).
/// - Strategy: [`stable`](Self::stable), [`strategy`](Self::strategy).
/// - Memory: [`buffer_size`](Self::buffer_size), [`grow_pipes`](Self::grow_pipes),
///   [`pipe_size`](Self::pipe_size).
/// - Several sinks: [`also_to`](Self::also_to), which returns a [`FanOut`](crate::FanOut).
///
/// These options rule out strategies, and may therefore make the transfer slower:
///
/// - [`inspect`](Self::inspect), [`records`](Self::records), [`record_limit`](Self::record_limit)
///   and [`record_rate_limit`](Self::record_rate_limit) leave only [`Strategy::Buffered`], and so
///   does [`Sparse::Detect`] into a regular file.
/// - [`also_to`](Self::also_to) leaves [`Strategy::Tee`] and [`Strategy::Buffered`].
/// - [`Reflink::Never`] and [`Sparse::Fill`] rule out [`Strategy::Reflink`] and
///   [`Strategy::CopyFileRange`]. A rate limit rules out [`Strategy::Reflink`].
///   [`skip_errors`](Self::skip_errors) rules out [`Strategy::Reflink`], and
///   [`Strategy::CopyFileRange`] where it may share blocks.
/// - [`stable(true)`](Self::stable) rules out every strategy that passes on or holds pages that can
///   still change.
/// - [`strategy`](Self::strategy) and [`Reflink::Always`] leave one strategy.
///
/// # Threads
///
/// A transfer can be sent to another thread if its ends can ([`Send`]), and it is `'static` if it
/// owns its ends and its callbacks borrow nothing. So it can be returned, stored and queued. Its
/// callbacks have to be `Send`. If a progress bar is not, take the steps of the transfer one by one
/// in the thread of the bar ([`start`](Self::start)).
///
/// ```
/// use std::io::Write;
/// use zcopy::Transfer;
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let transfer = Transfer::new(reader, std::fs::File::create("/dev/null")?);
/// let copying = std::thread::spawn(|| transfer.run());
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let report = copying.join().expect("the thread does not panic")?;
/// assert_eq!(report.bytes(), 5);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Shared descriptors
///
/// Other processes and threads may use the same open files, pipes and sockets meanwhile. The
/// transfer neither overwrites, doubles nor skips what they read and write through a shared cursor,
/// as `read(2)` and `write(2)` do not: it reserves the next range of a file with one `lseek(2)`,
/// and changes to read and write once another process or thread has moved the cursor. With
/// [offsets](Self::source_offset) it neither moves nor uses the cursor.
///
/// A process that is killed during a transfer leaves the cursor behind a reserved range that it has
/// moved in part. The range has at most 1 MiB, or the [`buffer_size`](Self::buffer_size), in a sink
/// that receives from a pipe or socket; 4 MiB in a source that is sent to a pipe or socket; and 64
/// MiB, or the length of a hole, between files. The rest of such a range of a sink keeps its old
/// bytes, or contains zeros beyond the old end of the file.
///
/// # Kernel notes
///
/// Writing to a pipe or socket whose reader has gone raises `SIGPIPE`, and writing to a file beyond
/// `RLIMIT_FSIZE` raises `SIGXFSZ`. No call that moves bytes inside the kernel can suppress them.
/// In a process that ignores them (Rust programs ignore `SIGPIPE`) the transfer fails with `EPIPE`
/// or `EFBIG` instead.
///
/// The transfer reads and writes files opened with `O_DIRECT` in whole blocks of 4 KiB, or larger
/// ones if the kernel asks for them (`STATX_DIOALIGN`). Other positions and lengths go through a
/// second descriptor without the flag, which the transfer opens by way of `/proc/self/fd`; the
/// cursor ends where it would end without the flag. Bytes from a pipe wait until a block is
/// complete or the source ends. If the transfer fails or is stopped while they wait, it
/// [returns](crate::Error::undelivered) them. Between two such files whose positions differ within
/// a block, the transfer may read the source through its second descriptor. Transfers to [several
/// sinks](Self::also_to) do not wait for complete blocks, and move more bytes through the second
/// descriptor. If the file cannot be opened again, the transfer fails with the kernel's `EINVAL`.
/// Closing the second descriptor releases the record locks (`F_SETLK`) that the process holds on
/// the file, as closing any descriptor of the file does.
///
/// Between two files the transfer looks for holes through a second descriptor of the source, opened
/// by way of `/proc/self/fd`, because `SEEK_DATA` would move the shared cursor. It opens one only
/// for a source that has fewer blocks than its size needs, or under [`Sparse::KeepUnwritten`] for
/// every source of 1 MiB or more; closing it releases record locks, too. If the source cannot be
/// opened again, the transfer looks for zeros in the bytes that it reads instead; a
/// [strategy](Self::strategy) that reads nothing moves holes as zeros. The transfer makes a hole in
/// the sink by seeking over it. If no data follows a hole, the transfer writes its last byte and
/// punches it out again: this sets the length of the sink, and does not shorten a file that another
/// process has extended meanwhile. The transfer writes zeros if the file system of the sink refuses
/// to punch a hole, and on FUSE for a hole of less than 64 KiB over bytes of the sink.
#[must_use = "a transfer does nothing until it is run"]
pub struct Transfer<'a, Source = BorrowedFd<'a>, Sink = BorrowedFd<'a>> {
    source: Source,
    sink: Sink,
    settings: Settings<'a>,
}

impl<'a, Source: AsFd, Sink: AsFd> Transfer<'a, Source, Sink> {
    /// Creates a transfer of everything that `source` has to `sink`. Nothing moves until
    /// [`run`](Self::run).
    ///
    /// Both ends are taken by value, and a reference to anything that has a descriptor is such an
    /// end too: `&File`, `File`, `OwnedFd`, `Arc<TcpStream>`, `BorrowedFd<'_>`. An end that is
    /// passed by value is closed when the transfer has run.
    ///
    /// # Examples
    ///
    /// A queue of transfers that own their ends, for a thread that runs them:
    ///
    /// ```
    /// use std::fs::File;
    /// use std::sync::mpsc;
    /// use zcopy::Transfer;
    ///
    /// let (queue, jobs) = mpsc::channel::<Transfer<'static, File, File>>();
    /// let worker = std::thread::spawn(move || {
    ///     jobs.iter().map(|job| job.run().map(|report| report.bytes())).sum::<Result<u64, _>>()
    /// });
    /// for _ in 0..3 {
    ///     let job = Transfer::new(File::open("/dev/zero")?, File::create("/dev/null")?);
    ///     queue.send(job.limit(1000)).expect("the worker listens");
    /// }
    /// drop(queue);
    /// assert_eq!(worker.join().expect("the worker does not panic")?, 3000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(source: Source, sink: Sink) -> Self {
        Self {
            source,
            sink,
            settings: Settings::default(),
        }
    }

    /// Moves at most `bytes` bytes [default: no limit], and reads no further byte from a file, pipe
    /// or stream socket. A transfer that reaches the limit ends with [`Ended::Limit`]. `None` means
    /// no limit.
    ///
    /// A limit forbids no strategy, but the plan depends on it: with a limit of at most 32 KiB (from
    /// a file to a pipe 12 KiB) the transfer most often reads and writes, and up to 256 KiB (from a
    /// file to a pipe or `/dev/null` 1 MiB) it prefers strategies that need no preparation. A clone
    /// shares whole blocks, and another strategy moves the rest; with [`Reflink::Always`] the limit
    /// must be a multiple of the block size, unless both files end there.
    ///
    /// Choose [`record_limit`](Self::record_limit) to stop after a number of lines, which allows
    /// only read and write, and may read beyond the last line.
    ///
    /// A message of a datagram socket is moved whole. One that is longer than the rest of the limit
    /// stays in the socket. The transfer asks for the length of a message before it reads it. If
    /// another reader takes that message in between, and the next one is longer than the limit
    /// allows, the transfer returns the next one in [`undelivered`](Report::undelivered). Event
    /// descriptors and some devices (`/dev/kmsg`) return a whole message or nothing: the transfer
    /// reads them with room for 8 KiB, and returns the part of a message that exceeds the limit. An
    /// empty datagram ends the transfer: see [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello world")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    ///
    /// let report = Transfer::new(&source, &sink).limit(6).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (6, Ended::Limit));
    ///
    /// let no_limit: Option<u64> = None;
    /// let report = Transfer::new(&source, &sink).limit(no_limit).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::Eof), "the pipe kept the rest");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn limit(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.settings.options.limit = bytes.into();
        self
    }

    /// Forbids strategies by which a later write to a file can change bytes that the transfer has
    /// already moved [default: false].
    ///
    /// By default the kernel passes the pages of a file to a pipe or socket without copying them.
    /// Until the reader has taken them they remain pages of the file, so that a write to the file
    /// changes them. A source that is a pipe or socket may hold pages of a file, too, because
    /// another process spliced or sent them there; the kernel passes them on to another pipe or
    /// socket.
    ///
    /// With `stable(true)` the transfer reads and writes such bytes. It still uses the fast
    /// strategies where the bytes cannot change: for a memfd sealed against writing and shrinking,
    /// and for files on read-only images.
    ///
    /// A sink that is a file or block device always receives a copy. But some strategies hold pages
    /// of the source in a pipe for a moment before the kernel copies them. If another process
    /// truncates the source in that moment, the sink receives zeros in place of up to a page. With
    /// `stable(true)` the transfer therefore reads and writes between files, or clones.
    ///
    /// Choose `stable(true)` if the file may change before the reader has taken the bytes. Prefer
    /// it to [`strategy(Strategy::Buffered)`](Self::strategy), which copies bytes that cannot
    /// change, too, and clones nothing. It costs the speed of the offload: sendfile measured 2.9
    /// times the speed of read and write over TCP.
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
        self.settings.options.stable = stable;
        self
    }

    /// Uses one strategy and no other [default: the best one, and others if it fails].
    ///
    /// A transfer that may choose is as fast or faster, and succeeds for pairs that one strategy
    /// does not serve. Choose a strategy for tests, for measurements, or if another one must not
    /// run. [`stable`](Self::stable) and [`reflink`](Self::reflink) forbid strategies for their
    /// effects, and leave the choice among the others.
    ///
    /// # Errors
    ///
    /// If the strategy cannot serve the pair, [`run`](Self::run) fails with an error that
    /// [`is_unsuitable`](crate::Error::is_unsuitable).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let transfer = Transfer::new(&zeros, &sink).limit(1 << 20).strategy(Strategy::Sendfile);
    /// assert_eq!(transfer.run()?.strategy(), Some(Strategy::Sendfile));
    ///
    /// let transfer = Transfer::new(&zeros, &sink).strategy(Strategy::Reflink);
    /// assert!(transfer.run().unwrap_err().is_unsuitable(), "/dev/zero has no blocks");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.options.strategy = Some(strategy);
        self
    }

    /// Returns what [`run`](Self::run) would do: the strategies, as chosen, fallback or skipped,
    /// each with the reason. It moves no bytes and no cursor. [`Strategy::Tee`] is only in the plan
    /// of a [`FanOut`](crate::FanOut::plan).
    ///
    /// `run` follows the same plan, except that it copies a small file, or clones a whole file,
    /// without making one.
    ///
    /// # Errors
    ///
    /// Every error of [`run`](Self::run) that is known before a byte moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (reader, _writer) = std::io::pipe()?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let plan = Transfer::new(&reader, &sink).inspect(|_| {}).plan()?;
    /// assert_eq!(plan.strategy(), Strategy::Buffered, "the bytes must pass through user space");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan(&self) -> Result<Plan> {
        let prepared = classify::prepare(
            &Linux,
            self.source.as_fd(),
            self.sink.as_fd(),
            &self.settings.options,
        );
        let (_, _, plan) = prepared.map_err(RunError::before_anything_moved)?;
        Ok(plan)
    }

    /// Moves the bytes and returns the report.
    ///
    /// The transfer waits with `poll(2)` for descriptors in non-blocking mode, and repeats
    /// interrupted calls. A socket whose own `SO_RCVTIMEO` or `SO_SNDTIMEO` expires ends the
    /// transfer with an error that [`is_timed_out`](crate::Error::is_timed_out).
    ///
    /// The transfer ends with [`Ended::Eof`] when a read of the source returns 0. An empty message
    /// of a datagram socket looks the same: it ends the transfer and is not passed on. A second
    /// transfer moves the messages that follow it.
    ///
    /// # Errors
    ///
    /// Before a byte moves:
    ///
    /// - `EISDIR`: an end is a directory.
    /// - `EBADF`: the source is not open for reading, or the sink not for writing.
    /// - `ESPIPE`: an offset for an end that has no positions.
    /// - `EINVAL`: an offset beyond 2⁶³−1, or for a sink that appends; the same pipe, or
    ///   overlapping ranges of one file, at both ends.
    /// - An error that [`is_unsuitable`](crate::Error::is_unsuitable): the requested strategy
    ///   cannot serve the pair.
    ///
    /// Later: every errno of the calls that move bytes. The [`Error`](crate::Error) contains the
    /// side that failed, the number of bytes that arrived, and the bytes that were read and did not
    /// arrive.
    ///
    /// # Kernel notes
    ///
    /// `splice(2)` returns 0 at the end of a TCP stream and also at its urgent mark. The transfer
    /// therefore confirms the end with a read, which gets past the mark. Urgent bytes are left out,
    /// as `read(2)` leaves them out, unless the socket has `SO_OOBINLINE`.
    ///
    /// A socket whose records the kernel decrypts (`TCP_ULP`, "tls") ends a transfer with `EIO` at
    /// a control record, an alert for example. The sink has received what precedes the record. Take
    /// it with `recvmsg(2)`, and start again for the bytes behind it.
    ///
    /// A read from a pipe in packet mode (`pipe2(O_DIRECT)`) ends behind the first packet, and
    /// discards the part of it that does not fit into the reader's buffer. If the pipe can hold
    /// more than a limit, a rate or the buffer allows, the transfer therefore splices what it may
    /// move into a private pipe, and the rest of a packet stays in the source. If there can be no
    /// such splice, it reads, and a packet at the limit loses its rest: the reader cannot see whether
    /// the pipe is in packet mode, without which the bytes beyond the limit belong to the next
    /// reader.
    ///
    /// - While fewer than two descriptors are free for the private pipe, a read takes all that the
    ///   source holds, whatever the rate and the step. The transfer then waits until its rate has
    ///   paid for it, and does not enlarge the source. The buffer is enlarged for such a read, also if only the last
    ///   quarter of the descriptors is free and nothing but its size makes the read short.
    /// - If the kernel refuses `splice(2)` or `pipe2(2)`, a read has room for a whole packet. A
    ///   packet behind a stream may lose its rest, as with every program that reads.
    ///
    /// `splice(2)` and `tee(2)` pass packets on as packets, which the reader of a sink does not
    /// expect: it loses the rest of a packet if it reads less than a whole one (4 KiB). If source
    /// and sink are pipes, the transfer therefore looks for packets before it passes pages on, and
    /// reads and writes once it has found one. Only a requested [`Strategy::Splice`] passes packets
    /// on.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Ended, Transfer};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// drop(writer);
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&source, &sink).run()?;
    /// assert_eq!((report.bytes(), report.ended()), (5, Ended::Eof));
    ///
    /// let directory = std::fs::File::open("/")?;
    /// let error = Transfer::new(&directory, &sink).run().unwrap_err();
    /// assert_eq!(error.to_string(), "the source cannot be used: it is a directory");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self) -> Result<Report> {
        self.run_with(Linux)
    }

    /// Begins the transfer, and returns the session whose steps the caller takes. It moves no byte
    /// before the first [`step`](Session::step).
    ///
    /// Choose it, rather than [`run`](Self::run), to serve many transfers in one thread, or to do
    /// something else between two steps.
    ///
    /// # Errors
    ///
    /// Every error of [`run`](Self::run) that is known before a byte moves.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Ended, Progressed, Transfer};
    ///
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut session = Transfer::new(zeros, sink).limit(10 << 20).start()?;
    /// let mut moved = 0;
    /// while let Progressed::Moved(n) = session.step(1 << 20)? {
    ///     moved += n;
    /// }
    /// let report = session.finish()?;
    /// assert_eq!((report.bytes(), moved, report.ended()), (10 << 20, 10 << 20, Ended::Limit));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(self) -> Result<Session<'a, Source, Sink>> {
        self.start_on(Linux).map(Session::new)
    }

    /// Replaces all options at once.
    #[cfg(test)]
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.settings.options = options;
        self
    }
}

#[cfg(test)]
impl<'a> Transfer<'a> {
    pub(crate) fn ends(&self) -> (BorrowedFd<'a>, BorrowedFd<'a>) {
        (self.source, self.sink)
    }
}

impl<Source: AsFd, Sink: AsFd> std::fmt::Debug for Transfer<'_, Source, Sink> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transfer")
            .field("source", &self.source.as_fd())
            .field("sink", &self.sink.as_fd())
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}
