//! [`FilterTransfer`]: moves bytes through a [`Filter`] to a sink.

use std::os::fd::{AsFd, BorrowedFd};

use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{Engine, FilterEngine, FilterState, Source, read_ahead};
use crate::error::{Result, RunError};
use crate::fd_info::{FdInfo, Kind};
use crate::filter::Filter;
use crate::plan::{self, Plan};
use crate::preflight;
use crate::report::Report;
use crate::side::Side;
use crate::sys::{Kernel, Linux};

/// Writes what a [`Filter`] makes of the bytes of one or more sources to a sink.
///
/// Nothing is held back: before the transfer waits for more input, it filters everything that it
/// has read and writes everything that the filter has produced. Memory use does not depend on the
/// length of the sources. The descriptors are borrowed and stay open.
///
/// To look at bytes without changing them, use [`Transfer::inspect`](crate::Transfer::inspect). It
/// writes the bytes from the buffer that they were read into, and so saves the copy that a filter
/// makes from its input to its output.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// use zcopy::{Input, FilterTransfer, Filtered};
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"louder")?;
/// drop(writer);
/// let (reader, sink) = std::io::pipe()?;
///
/// let mut louder = FilterTransfer::new(&sink, |input: Input<'_>, output: &mut [u8]| {
///     let n = input.bytes.len().min(output.len());
///     output[..n].copy_from_slice(&input.bytes[..n]);
///     output[..n].make_ascii_uppercase();
///     Filtered { consumed: n, produced: n }
/// });
/// let report = louder.run(&source)?;
/// assert_eq!(report.bytes(), 6);
/// louder.finish()?;
///
/// drop(sink);
/// assert_eq!(std::io::read_to_string(reader)?, "LOUDER");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A filter that needs whole lines consumes only whole lines:
///
/// ```
/// use std::io::Write;
/// use zcopy::{Input, Remaining, FilterTransfer, Filter, Filtered};
///
/// /// Drops lines that start with `#`. A line longer than 64 KiB may count as several.
/// struct WithoutComments;
///
/// impl Filter for WithoutComments {
///     fn filter(&mut self, input: Input<'_>, output: &mut [u8]) -> Filtered {
///         let end = input.bytes.iter().position(|byte| *byte == b'\n');
///         let consumed = match (end, input.remaining) {
///             (Some(end), _) => end + 1,
///             (None, Remaining::More) => return Filtered::NEED_MORE,
///             (None, _) => input.bytes.len(),
///         };
///         if input.bytes.starts_with(b"#") {
///             return Filtered { consumed, produced: 0 };
///         }
///         let consumed = consumed.min(output.len());
///         output[..consumed].copy_from_slice(&input.bytes[..consumed]);
///         Filtered { consumed, produced: consumed }
///     }
/// }
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"one\n# two\nthree")?;
/// drop(writer);
/// let (reader, sink) = std::io::pipe()?;
///
/// let mut filter = FilterTransfer::new(&sink, WithoutComments);
/// assert_eq!(filter.run(&source)?.bytes(), 4, "the last line may continue in the next source");
/// assert_eq!(filter.finish()?.bytes(), 5, "no source follows");
///
/// drop(sink);
/// assert_eq!(std::io::read_to_string(reader)?, "one\nthree");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Kernel notes
///
/// All bytes are read and written, because no system call changes bytes on the way. If 1 MiB or
/// more is left in a regular file or block device and the process may use two processors, a thread
/// reads up to 1 MiB ahead of the filter. Pipes are [enlarged](Self::grow_pipes).
///
/// A pipe is read 64 KiB at a time. If its writer has sent more than that and then sets `O_DIRECT`,
/// the first packet may lose a part, as with every reader that has less room than the pipe.
///
/// If source and sink keep messages apart, the bytes produced from one message are sent as one
/// message of at most 192 KiB. From other sources, a sink that keeps messages apart receives at
/// most 32 KiB per message, which every address family accepts.
///
/// The filter may produce any number of bytes for a sink that is open with `O_DIRECT`. Whole blocks
/// are written directly. A partial block, and everything after it, goes through the same file
/// opened once more, as with [`Transfer`](crate::Transfer); but no bytes wait for a block to become
/// complete.
///
/// Writing to a closed pipe raises `SIGPIPE`, and exceeding `RLIMIT_FSIZE` raises `SIGXFSZ`: see
/// [`Transfer`](crate::Transfer).
#[must_use = "nothing is filtered until it is run"]
pub struct FilterTransfer<'a, R> {
    sink: BorrowedFd<'a>,
    filter: R,
    pub(crate) state: FilterState,
}

impl<'a, R: Filter> FilterTransfer<'a, R> {
    /// Creates a transfer that writes what `filter` produces to `sink`. Nothing moves until
    /// [`run`](Self::run).
    pub fn new<Sink: AsFd + ?Sized>(sink: &'a Sink, filter: R) -> Self {
        Self {
            sink: sink.as_fd(),
            filter,
            state: FilterState::new(),
        }
    }

    /// Sets whether pipes at both ends may be enlarged to 1 MiB [default: true].
    ///
    /// With larger pipes the processes at both ends wait for each other less often. They are
    /// enlarged once per run, after more than 64 KiB have been read or if the source is known to be
    /// longer, within the user's limit on pipe memory (pipe(7), `pipe-user-pages-soft`). A refusal
    /// is no error. [`Report::grown_source`] and [`Report::grown_sink`] return the new capacities.
    ///
    /// Choose `false` if another program relies on the capacity, or if other pipes of the user need
    /// the memory. It is the only option of a filter: to limit the bytes, the rate or the pipe
    /// size, put a [`Transfer`](crate::Transfer) and a pipe between the source and the filter.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Input, FilterTransfer, Filtered};
    ///
    /// let zeros = tempfile::tempfile()?;
    /// zeros.set_len(100_000)?;
    /// let (mut reader, sink) = std::io::pipe()?;
    /// let reading = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    /// let identity = |input: Input<'_>, output: &mut [u8]| {
    ///     let n = input.bytes.len().min(output.len());
    ///     output[..n].copy_from_slice(&input.bytes[..n]);
    ///     Filtered { consumed: n, produced: n }
    /// };
    /// let report = FilterTransfer::new(&sink, identity).grow_pipes(false).run(&zeros)?;
    /// assert_eq!(report.grown_sink(), None);
    /// drop(sink);
    /// assert_eq!(reading.join().expect("the reader does not panic")?, 100_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.state.may_grow = grow;
        self
    }

    /// Returns how [`run`](Self::run) would read and write, without moving anything.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](Self::run) that are known before anything is read.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Input, FilterTransfer, Filtered, Strategy};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let discard = |input: Input<'_>, _: &mut [u8]| {
    ///     Filtered { consumed: input.bytes.len(), produced: 0 }
    /// };
    /// let plan = FilterTransfer::new(&null, discard).plan(&source)?;
    /// assert_eq!(plan.strategy(), Strategy::Buffered);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan(&self, source: impl AsFd) -> Result<Plan> {
        let prepared = prepare(&Linux, source.as_fd(), self.sink);
        prepared
            .map(|(source, sink)| plan::plan_filtered(&source, &sink))
            .map_err(RunError::before_anything_moved)
    }

    /// Filters all bytes of `source` and returns a report that counts the bytes that the sink has
    /// accepted.
    ///
    /// Bytes that the filter has not consumed at the end of `source` are kept. The filter receives
    /// them again with the bytes of the next source, or in [`finish`](Self::finish).
    ///
    /// Descriptors in non-blocking mode are waited for with `poll(2)`. Interrupted calls are
    /// repeated.
    ///
    /// # Errors
    ///
    /// Before anything is read: a directory (`EISDIR`), a descriptor that is open the wrong way
    /// (`EBADF`), the same pipe at both ends, or the same file at both ends with something left to
    /// read (`EINVAL`). Later: the error of the system call, with the [side](crate::Error::side) it
    /// concerns. If the `SO_RCVTIMEO` or `SO_SNDTIMEO` of a socket expires, the error
    /// [`is_timed_out`](crate::Error::is_timed_out).
    ///
    /// - If the source fails, the bytes before the error have been filtered, and the next source
    ///   may be run.
    /// - If the sink fails, [`undelivered`](crate::Error::undelivered) returns the bytes that the
    ///   filter has produced and the sink has not accepted. A source that can seek is rewound to
    ///   the first byte that the filter has not consumed. If it cannot seek, or another process has
    ///   moved its cursor, the bytes that the filter has not consumed are
    ///   [kept](Self::pending_input), and are filtered first in the next run. Of a file whose cursor
    ///   was moved, up to 1 MiB has been read ahead; where memory for these bytes is refused, the
    ///   last of them are lost.
    /// - If neither side fails, the filter did not consume bytes that it [has to
    ///   consume](crate::Remaining). The source is rewound, or the bytes are kept, as above.
    ///
    /// # Panics
    ///
    /// Panics if the filter panics, or if it returns more consumed or produced bytes than there
    /// were. The cursor of the source then stands behind the last byte that was read. The
    /// transfer keeps what earlier calls have produced, apart from the [pending
    /// input](Self::pending_input), and writes it first in the next run or in
    /// [`finish`](Self::finish).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Seek;
    /// use zcopy::{Input, FilterTransfer, Filtered, Side};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-filter-{}", std::process::id()));
    /// std::fs::write(&path, "hello world")?;
    /// let mut source = std::fs::File::open(&path)?;
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// // Converts whole words to upper case.
    /// let louder = |input: Input<'_>, output: &mut [u8]| {
    ///     let end = input.bytes.iter().position(|byte| *byte == b' ').map_or(0, |end| end + 1);
    ///     output[..end].copy_from_slice(&input.bytes[..end]);
    ///     output[..end].make_ascii_uppercase();
    ///     Filtered { consumed: end, produced: end }
    /// };
    /// let error = FilterTransfer::new(&full, louder).run(&source).unwrap_err();
    /// assert_eq!((error.side(), error.undelivered()), (Side::Sink, &b"HELLO "[..]));
    /// assert_eq!(source.stream_position()?, 6);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run(&mut self, source: impl AsFd) -> Result<Report> {
        self.run_with(Linux, source.as_fd())
    }

    /// Runs on the given kernel. Tests pass a simulated one.
    pub(crate) fn run_with<K: Kernel>(
        &mut self,
        kernel: K,
        source: BorrowedFd<'_>,
    ) -> Result<Report> {
        let started = kernel.now();
        let prepared = prepare(&kernel, source, self.sink);
        let (from, to) = prepared.map_err(RunError::before_anything_moved)?;
        let reader_kernel = kernel.for_another_thread().filter(|_| {
            read_ahead::is_worth_it(&from)
                && *self
                    .state
                    .has_processor
                    .get_or_init(read_ahead::has_processor)
        });
        let source = || Endpoint::new(source, from, None);
        let sink = Endpoint::new(self.sink, to, None);
        let (filter, state) = (&mut self.filter, &mut self.state);
        let own = Some(Source::new(source()));
        let Some(reader_kernel) = reader_kernel else {
            let mut engine = FilterEngine::new(kernel, own, None, sink, filter, state);
            engine.context().started = started;
            return drive::run(&mut engine);
        };
        // The thread reads through an endpoint of its own. `own` rewinds the source over the bytes
        // that were not consumed.
        std::thread::scope(|scope| {
            // The memory of the engine is allocated before that of the thread. If it is refused, the
            // first step of the engine fails.
            let has_memory = state.allocate().is_ok();
            let ahead = has_memory.then(|| read_ahead::start(scope, reader_kernel, source()));
            let ahead = ahead.flatten();
            let mut engine = FilterEngine::new(kernel, own, ahead, sink, filter, state);
            engine.context().started = started;
            drive::run(&mut engine)
        })
    }

    /// Passes the remaining bytes to the filter as the [last](crate::Remaining::End) ones and
    /// writes what it produces.
    ///
    /// Without this call, dropping the `FilterTransfer` discards the bytes that the filter has not
    /// consumed. The second example of [`FilterTransfer`] shows both.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`run`](Self::run) that concern the sink. Bytes that the filter has
    /// not consumed by then are still [kept](Self::pending_input).
    ///
    /// # Panics
    ///
    /// Panics like [`run`](Self::run).
    pub fn finish(&mut self) -> Result<Report> {
        self.finish_with(Linux)
    }

    /// Finishes on the given kernel. Tests pass a simulated one.
    pub(crate) fn finish_with<K: Kernel>(&mut self, kernel: K) -> Result<Report> {
        let started = kernel.now();
        let prepared = classify::classify(&kernel, Side::Sink, self.sink);
        let prepared = prepared.and_then(|sink| preflight::check_sink(&sink).map(|()| sink));
        let to = prepared.map_err(RunError::before_anything_moved)?;
        let to = Endpoint::new(self.sink, to, None);
        let (filter, state) = (&mut self.filter, &mut self.state);
        let mut engine = FilterEngine::new(kernel, None, None, to, filter, state);
        engine.context().started = started;
        drive::run(&mut engine)
    }

    /// Returns the bytes that have been read and that the filter has not consumed: the start of a
    /// line, for example, or bytes that could not be returned to a pipe when the sink failed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::Write;
    /// use zcopy::{Input, FilterTransfer, Filtered};
    ///
    /// let (source, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"one\ntwo")?;
    /// drop(writer);
    /// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    ///
    /// let mut lines = FilterTransfer::new(&full, |input: Input<'_>, output: &mut [u8]| {
    ///     let end = input.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    ///     output[..end].copy_from_slice(&input.bytes[..end]);
    ///     Filtered { consumed: end, produced: end }
    /// });
    /// let error = lines.run(&source).unwrap_err();
    /// assert_eq!(error.undelivered(), b"one\n");
    /// assert_eq!(lines.pending_input(), b"two");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn pending_input(&self) -> &[u8] {
        self.state.pending_input()
    }
}

impl<R> std::fmt::Debug for FilterTransfer<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterTransfer")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

/// Classifies both ends and checks the input. Moves nothing.
pub(crate) fn prepare<K: Kernel>(
    kernel: &K,
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
) -> std::result::Result<(FdInfo, FdInfo), RunError> {
    let mut from = classify::classify(kernel, Side::Source, source)?;
    let to = classify::classify(kernel, Side::Sink, sink)?;
    let is_long = from.size.is_some_and(|size| size >= read_ahead::LONG);
    if is_long || from.direct || from.kind == Kind::Block || from.is_same(&to) {
        from.classify_fully(kernel, source);
    }
    preflight::check_filtered(&from, &to)?;
    Ok((from, to))
}
