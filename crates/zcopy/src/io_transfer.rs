//! [`IoTransfer`]: moves bytes between a descriptor and a reader or writer.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Callbacks, CallersEnd, CallersReader, CallersWriter, Engine, IoEngine};
use crate::error::{Result, RunError};
use crate::fd_info::{FdInfo, Kind};
use crate::options::Options;
use crate::plan;
use crate::preflight;
use crate::rate::RateLimiter;
use crate::report::Report;
use crate::side::Side;
use crate::stop::Stop;
use crate::sys::{Kernel, Linux};

#[cfg(doc)]
use crate::{Ended, FilterTransfer, Strategy, Transfer};

mod ends;
mod options;

pub use ends::{FromReader, ToWriter};

/// Moves the bytes of a reader to a descriptor, or those of a descriptor to a writer.
///
/// [`Transfer::from_reader`] and [`Transfer::to_writer`] create it. A reader is anything that
/// implements [`Read`], and a writer anything that implements [`Write`]. The bytes are read and
/// written through a buffer ([`Strategy::Buffered`]). The report, the errors and the options are
/// those of a [`Transfer`], as far as they make sense here: the methods below are all options. The
/// end that is a descriptor behaves as in a `Transfer`.
///
/// | ends | choose |
/// |---|---|
/// | two descriptors | [`Transfer`]: the kernel moves the bytes |
/// | a `BufReader` around a descriptor | [`copy_buffered`](crate::copy_buffered): what is in the buffer, then as a `Transfer` |
/// | two descriptors, whose bytes a function of yours changes | [`FilterTransfer`]: reads ahead in a thread |
/// | a reader, or a writer, and a descriptor | `IoTransfer` |
/// | a reader and a writer | [`std::io::copy`] |
///
/// A `TcpStream` or a `File` is a descriptor, and a `Transfer` moves its bytes faster than an
/// `IoTransfer`. A hasher alone needs no writer: [`Transfer::inspect`] shows it every byte on the
/// way to a sink.
///
/// # Examples
///
/// A reader that changes the bytes of another reader, as a decompressor does:
///
/// ```
/// use std::io::{self, Read};
/// use zcopy::Transfer;
///
/// struct Uppercase<R>(R);
///
/// impl<R: Read> Read for Uppercase<R> {
///     fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
///         let n = self.0.read(buffer)?;
///         buffer[..n].make_ascii_uppercase();
///         Ok(n)
///     }
/// }
///
/// let (pipe, sink) = io::pipe()?;
/// let reader = Uppercase("one\ntwo\n".as_bytes());
/// let report = Transfer::from_reader(reader, sink).records(b'\n').run()?;
/// assert_eq!((report.bytes(), report.records()), (8, 2));
/// assert_eq!(io::read_to_string(pipe)?, "ONE\nTWO\n");
/// # Ok::<(), io::Error>(())
/// ```
///
/// # Errors of the reader or writer
///
/// The [error](crate::Error) names the side and the method (`read`, `write` or `flush`), and its
/// cause is the very error that the method returned: see
/// [`Error::io_error`](crate::Error::io_error). Its [`bytes`](crate::Error::bytes) are those that
/// the sink or the writer has accepted.
///
/// - [`Interrupted`](std::io::ErrorKind::Interrupted) is no failure: the transfer calls the method
///   again.
/// - [`WouldBlock`](std::io::ErrorKind::WouldBlock) is one. No descriptor is known to wait for, and
///   a reader around a socket in blocking mode returns it when the time-out of that socket has
///   expired; the error [`is_timed_out`](crate::Error::is_timed_out). If the reader or writer is
///   non-blocking, pass it as `&mut`, wait until it is ready, and run another transfer, which
///   continues.
/// - A writer that accepts 0 bytes fails with [`WriteZero`](std::io::ErrorKind::WriteZero).
///
/// Bytes that have been read and not accepted are [undelivered](Report::undelivered). Those of a
/// reader always are, because a reader cannot take them back. Those of a file go back to it, as in
/// a `Transfer`: its cursor ends behind the last byte that the writer has accepted.
///
/// # Threads
///
/// The transfer is `Send` if both ends are.
///
/// # Kernel notes
///
/// The transfer reads and writes as [`Strategy::Buffered`] does: it waits for descriptors in
/// non-blocking mode, gathers whole blocks for a sink that is open with `O_DIRECT`, reads messages
/// of a datagram socket whole, and writes messages of at most 32 KiB to one. It does not enlarge
/// pipes. A call of the reader or writer counts as a [call](crate::Attempt::calls).
///
/// Writing to a closed pipe raises `SIGPIPE`, and exceeding `RLIMIT_FSIZE` raises `SIGXFSZ`: see
/// [`Transfer`].
#[must_use = "a transfer does nothing until it is run"]
pub struct IoTransfer<'a, Source, Sink> {
    source: Source,
    sink: Sink,
    settings: Settings<'a>,
}

/// The options and callbacks of a transfer, without its ends.
#[derive(Default)]
struct Settings<'a> {
    options: Options,
    callbacks: Callbacks<'a>,
    rate_limiter: Option<RateLimiter>,
    stop: Option<Stop>,
}

impl<Source, Sink> IoTransfer<'_, Source, Sink> {
    pub(crate) fn new(source: Source, sink: Sink) -> Self {
        Self {
            source,
            sink,
            settings: Settings::default(),
        }
    }

    /// Replaces all options at once.
    #[cfg(test)]
    pub(crate) fn with_options(mut self, options: Options) -> Self {
        self.settings.options = options;
        self
    }
}

impl<R: Read, Sink: AsFd> IoTransfer<'_, FromReader<R>, Sink> {
    /// Writes from `bytes` bytes behind the start of the sink [default: the cursor], and leaves the
    /// cursor where it is, as [`Transfer::sink_offset`].
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with `ESPIPE` if the sink is neither a regular file nor a block
    /// device, and with `EINVAL` beyond 2⁶³−1 or if the sink was opened with `O_APPEND`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Read, Seek};
    /// use zcopy::Transfer;
    ///
    /// let mut file = tempfile::tempfile()?;
    /// Transfer::from_reader(&b"hello world"[..], &file).sink_offset(0).run()?;
    /// Transfer::from_reader(&b"there"[..], &file).sink_offset(6).run()?;
    /// assert_eq!(file.stream_position()?, 0);
    /// assert_eq!(std::io::read_to_string(&mut file)?, "hello there");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sink_offset(mut self, bytes: u64) -> Self {
        self.settings.options.sink_offset = Some(bytes);
        self
    }

    /// Moves the bytes and returns the report.
    ///
    /// The transfer ends with [`Ended::Eof`] when a read returns 0. It reads no byte beyond a
    /// [limit](Self::limit).
    ///
    /// # Errors
    ///
    /// Before a byte moves: a sink that is a directory (`EISDIR`) or is not open for writing
    /// (`EBADF`), and an [offset](Self::sink_offset) that it does not accept. Later: every errno of
    /// `write(2)`, and the errors of the [reader](IoTransfer#errors-of-the-reader-or-writer).
    ///
    /// # Panics
    ///
    /// Panics if the reader panics, or if it returns more bytes than there was room for. The sink
    /// then has the bytes that the observer has counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Side, Transfer};
    ///
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    /// let error = Transfer::from_reader(&b"hello"[..], &full).run().unwrap_err();
    /// assert_eq!((error.side(), error.bytes()), (Side::Sink, 0));
    /// assert_eq!(error.undelivered(), b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self) -> Result<Report> {
        self.run_with(Linux)
    }

    /// Runs on the given kernel. Tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel>(self, kernel: K) -> Result<Report> {
        let (fd, options) = (self.sink.as_fd(), &self.settings.options);
        let mut info = prepare(&kernel, Side::Sink, fd, options)?;
        let own = classify::reopen_terminal(&kernel, fd, &mut info, Side::Sink, options);
        let fd = own.as_ref().map_or(fd, AsFd::as_fd);
        let sink = Endpoint::new(fd, info, options.sink_offset);
        let source = Endpoint::new(fd, FdInfo::io(), None);
        let end = CallersReader(self.source.0);
        self.settings.run(kernel, source, sink, end)
    }
}

impl<Source: AsFd, W: Write> IoTransfer<'_, Source, ToWriter<W>> {
    /// Reads from `bytes` bytes behind the start of the source [default: the cursor], and leaves
    /// the cursor where it is, as [`Transfer::source_offset`].
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with `ESPIPE` if the source is neither a regular file nor a block
    /// device, and with `EINVAL` beyond 2⁶³−1.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-to-writer-{}", std::process::id()));
    /// std::fs::write(&path, "hello world")?;
    /// let mut word = Vec::new();
    /// let file = std::fs::File::open(&path)?;
    /// Transfer::to_writer(&file, &mut word).source_offset(6).run()?;
    /// assert_eq!(word, b"world");
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn source_offset(mut self, bytes: u64) -> Self {
        self.settings.options.source_offset = Some(bytes);
        self
    }

    /// Moves the bytes, flushes the writer, and returns the report.
    ///
    /// The transfer ends with [`Ended::Eof`] when a read returns 0; an empty message of a datagram
    /// socket looks the same. The writer is flushed however the transfer ends, unless the writer
    /// itself has failed.
    ///
    /// # Errors
    ///
    /// Before a byte moves: a source that is a directory (`EISDIR`) or is not open for reading
    /// (`EBADF`), and an [offset](Self::source_offset) that it does not accept. Later: every errno
    /// of `read(2)`, and the errors of the [writer](IoTransfer#errors-of-the-reader-or-writer). If
    /// only `flush` fails, the error counts every byte that the writer has accepted.
    ///
    /// # Panics
    ///
    /// Panics if the writer panics, or if it accepts more bytes than it was given. Bytes that have
    /// been read and not accepted at that moment are lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{ErrorKind, Seek};
    /// use zcopy::{Side, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-run-writer-{}", std::process::id()));
    /// std::fs::write(&path, "hello world")?;
    /// let mut source = std::fs::File::open(&path)?;
    ///
    /// // A slice is a writer that accepts as many bytes as it has.
    /// let mut room = [0; 5];
    /// let error = Transfer::to_writer(&source, &mut room[..]).run().unwrap_err();
    /// assert_eq!((error.side(), error.bytes()), (Side::Sink, 5));
    /// assert_eq!(error.io_error_kind(), ErrorKind::WriteZero);
    /// assert_eq!(&room, b"hello");
    /// assert_eq!(source.stream_position()?, 5);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(self) -> Result<Report> {
        self.run_with(Linux)
    }

    /// Runs on the given kernel. Tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel>(self, kernel: K) -> Result<Report> {
        let (fd, options) = (self.source.as_fd(), &self.settings.options);
        let mut info = prepare(&kernel, Side::Source, fd, options)?;
        let own = classify::reopen_terminal(&kernel, fd, &mut info, Side::Source, options);
        let fd = own.as_ref().map_or(fd, AsFd::as_fd);
        let source = Endpoint::new(fd, info, options.source_offset);
        let sink = Endpoint::new(fd, FdInfo::io(), None);
        let end = CallersWriter::new(self.sink.0);
        self.settings.run(kernel, source, sink, end)
    }
}

impl<'a> Settings<'a> {
    /// Runs the transfer between these endpoints, one of which is a placeholder for `end`.
    fn run<'e, K: Kernel>(
        self,
        kernel: K,
        source: Endpoint<'e>,
        sink: Endpoint<'e>,
        end: impl CallersEnd,
    ) -> Result<Report>
    where
        'a: 'e,
    {
        let mut engine = IoEngine::new(kernel, source, sink, end, self.options, self.callbacks);
        engine.context().share_rate_limiter(self.rate_limiter);
        engine.context().stop = self.stop;
        drive::run(&mut engine)
    }
}

/// Classifies the descriptor at this side, and checks the input. Moves nothing.
fn prepare<K: Kernel>(
    kernel: &K,
    side: Side,
    fd: BorrowedFd<'_>,
    options: &Options,
) -> Result<FdInfo> {
    let classified = classify::classify(kernel, side, fd).and_then(|mut info| {
        let is_long = info.size.is_some_and(|size| size > plan::OFFLOAD_ABOVE);
        // An observer is told how much is left behind the cursor.
        let needs_facts = is_long || info.direct || info.kind == Kind::Block || options.observed;
        if needs_facts {
            info.classify_fully(kernel, fd);
        }
        match side {
            Side::Source => preflight::check(&info, &FdInfo::io(), options)?,
            Side::Sink | Side::Neither => preflight::check(&FdInfo::io(), &info, options)?,
        }
        Ok(info)
    });
    classified.map_err(RunError::before_anything_moved)
}
