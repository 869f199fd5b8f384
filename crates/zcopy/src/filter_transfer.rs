//! Bytes that become others on their way: [`FilterTransfer`] looks at both ends, and hands over to the loop.

use std::os::fd::{AsFd, BorrowedFd};

use crate::classify;
use crate::drive;
use crate::endpoint::Endpoint;
use crate::engine::{FilterEngine, FilterState, Source, read_ahead};
use crate::error::{Result, RunError};
use crate::fd_info::{FdInfo, Kind};
use crate::filter::Filter;
use crate::plan::{self, Plan};
use crate::preflight;
use crate::report::Report;
use crate::side::Side;
use crate::sys::{Kernel, Linux};

/// Gives a sink what a [`Filter`] makes of the bytes of one source after the other, as a filter does.
///
/// Nothing is held back: what has been read is filtered, and what has been made of it is written, before more is
/// waited for. Memory stays the same, however long the sources are. All ends are borrowed and stay the caller's.
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
/// let mut louder = FilterTransfer::new(&sink, |input: Input<'_>, room: &mut [u8]| {
///     let n = input.bytes.len().min(room.len());
///     room[..n].copy_from_slice(&input.bytes[..n]);
///     room[..n].make_ascii_uppercase();
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
/// A filter that needs to see a whole line takes none but whole ones:
///
/// ```
/// use std::io::Write;
/// use zcopy::{Input, Remaining, FilterTransfer, Filter, Filtered};
///
/// /// Lets no line pass that starts with `#`. One that is longer than 64 KiB may count as several.
/// struct WithoutComments;
///
/// impl Filter for WithoutComments {
///     fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
///         let end = input.bytes.iter().position(|byte| *byte == b'\n');
///         let consumed = match (end, input.remaining) {
///             (Some(end), _) => end + 1,
///             (None, Remaining::More) => return Filtered::NEED_MORE,
///             (None, _) => input.bytes.len(),
///         };
///         if input.bytes.starts_with(b"#") {
///             return Filtered { consumed, produced: 0 };
///         }
///         let consumed = consumed.min(room.len());
///         room[..consumed].copy_from_slice(&input.bytes[..consumed]);
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
/// assert_eq!(filter.run(&source)?.bytes(), 4, "a line may go on in the next source");
/// assert_eq!(filter.finish()?.bytes(), 5, "it does not");
///
/// drop(sink);
/// assert_eq!(std::io::read_to_string(reader)?, "one\nthree");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Kernel notes
///
/// The bytes are read and written: no call changes any on the way. A regular file or block device of which 1 MiB or
/// more is left is read by a thread of its own, up to 1 MiB ahead of the filter, where there are two processors. Pipes
/// are [enlarged](Self::grow_pipes).
///
/// What is made of one message is one message, up to 192 KiB, if the source keeps them apart. Of other sources a sink
/// that does is given 32 KiB at once, which every family takes.
///
/// Ends opened with `O_DIRECT` take any length at any place. What is no whole block, and whatever comes after it, goes
/// through the same file opened once more, as with [`Transfer`](crate::Transfer); but nothing waits until a block
/// is complete.
///
/// `SIGPIPE` and `SIGXFSZ` are the process's own affair: see [`Transfer`](crate::Transfer).
#[must_use = "nothing is filtered until it is run"]
pub struct FilterTransfer<'a, R> {
    sink: BorrowedFd<'a>,
    filter: R,
    pub(crate) state: FilterState,
}

impl<'a, R: Filter> FilterTransfer<'a, R> {
    /// What `filter` makes goes to `sink`.
    ///
    /// # Examples
    ///
    /// See [`FilterTransfer`].
    pub fn new<Sink: AsFd + ?Sized>(sink: &'a Sink, filter: R) -> Self {
        Self {
            sink: sink.as_fd(),
            filter,
            state: FilterState::new(),
        }
    }

    /// Whether pipes at both ends may be enlarged, which takes fewer turns of the processes. Default: true. It is done once in a run, when
    /// 32 KiB have come, or are known to, within the user's budget; the report says so.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Input, FilterTransfer, Filtered};
    ///
    /// let zeros = tempfile::tempfile()?;
    /// zeros.set_len(40_000)?;
    /// let (_reader, sink) = std::io::pipe()?;
    /// let as_it_is = |input: Input<'_>, room: &mut [u8]| {
    ///     let n = input.bytes.len().min(room.len());
    ///     room[..n].copy_from_slice(&input.bytes[..n]);
    ///     Filtered { consumed: n, produced: n }
    /// };
    /// let report = FilterTransfer::new(&sink, as_it_is).grow_pipes(false).run(&zeros)?;
    /// assert_eq!(report.grown_sink(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn grow_pipes(mut self, grow: bool) -> Self {
        self.state.may_grow = grow;
        self
    }

    /// What [`run`](Self::run) would do. Nothing is touched.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), for everything that is known before anything is read.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Input, FilterTransfer, Filtered, Strategy};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let null = std::fs::File::create("/dev/null")?;
    /// let nothing = |input: Input<'_>, _: &mut [u8]| Filtered { consumed: input.bytes.len(), produced: 0 };
    /// let plan = FilterTransfer::new(&null, nothing).plan(&source)?;
    /// assert_eq!(plan.strategy(), Strategy::Buffered);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn plan<Source: AsFd + ?Sized>(&self, source: &Source) -> Result<Plan> {
        let prepared = prepare(&Linux, source.as_fd(), self.sink);
        prepared
            .map(|(source, sink)| plan::plan_filtered(&source, &sink))
            .map_err(RunError::before_anything_moved)
    }

    /// Filters everything that `source` has. What the filter has not taken by then stays, to be shown to it with the
    /// bytes of the next source, or at the [end](Self::finish).
    ///
    /// Descriptors in non-blocking mode are waited for by `poll(2)`; interrupted calls are made again.
    ///
    /// The report counts the bytes that the sink has accepted.
    ///
    /// # Errors
    ///
    /// Before anything is read: a directory (`EISDIR`), a descriptor that is open the wrong way (`EBADF`), the same pipe, or
    /// the same file with something left to read, at both ends (`EINVAL`). Later: whatever the kernel says, with the side
    /// it speaks of. A socket whose own `SO_RCVTIMEO` or `SO_SNDTIMEO` expires ends it with an error of kind
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock).
    ///
    /// If it is the source that fails, what came before has been filtered, and the next source may follow.
    ///
    /// If it is the sink, then [`undelivered`](crate::Error::undelivered) is what was made and not accepted. What the
    /// filter had not taken by then is given back to a source that can be rewound: its cursor stands behind the
    /// last byte that was taken. Of any other source it stays, and is the first to be filtered if this goes on.
    ///
    /// If it is neither, the filter took nothing of bytes that it [had to take](Remaining). They are given back too, or stay.
    ///
    /// # Panics
    ///
    /// If the filter says that it took or made more than there was; if it panics itself. Then the source's cursor is
    /// wherever it was read to.
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
    /// // Whole words, louder.
    /// let louder = |input: Input<'_>, room: &mut [u8]| {
    ///     let end = input.bytes.iter().position(|byte| *byte == b' ').map_or(0, |end| end + 1);
    ///     room[..end].copy_from_slice(&input.bytes[..end]);
    ///     room[..end].make_ascii_uppercase();
    ///     Filtered { consumed: end, produced: end }
    /// };
    /// let error = FilterTransfer::new(&full, louder).run(&source).unwrap_err();
    /// assert_eq!((error.side(), error.undelivered()), (Side::Sink, &b"HELLO "[..]));
    /// assert_eq!(source.stream_position()?, 6);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn run<Source: AsFd + ?Sized>(&mut self, source: &Source) -> Result<Report> {
        self.run_with(Linux, source.as_fd())
    }

    /// Runs on the given kernel. Tests give it a simulated one.
    pub(crate) fn run_with<K: Kernel>(
        &mut self,
        kernel: K,
        source: BorrowedFd<'_>,
    ) -> Result<Report> {
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
            return drive::run(&mut FilterEngine::new(
                kernel, own, None, sink, filter, state,
            ));
        };
        // The thread reads by an end of its own; this one goes back over what was not taken.
        std::thread::scope(|scope| {
            let ahead = read_ahead::start(scope, reader_kernel, source());
            drive::run(&mut FilterEngine::new(
                kernel, own, ahead, sink, filter, state,
            ))
        })
    }

    /// Says to the filter that nothing more will come, and gives the sink what it makes of what it has not taken yet. Without
    /// it, that goes with the `FilterTransfer`.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run), of the sink. What the filter had not taken by then is still [waiting](Self::waiting).
    ///
    /// # Panics
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// See [`FilterTransfer`] and [`waiting`](Self::waiting).
    pub fn finish(&mut self) -> Result<Report> {
        self.finish_with(Linux)
    }

    /// Finishes on the given kernel. Tests give it a simulated one.
    pub(crate) fn finish_with<K: Kernel>(&mut self, kernel: K) -> Result<Report> {
        let prepared = classify::classify(&kernel, Side::Sink, self.sink);
        let prepared = prepared.and_then(|sink| preflight::check_sink(&sink).map(|()| sink));
        let to = prepared.map_err(RunError::before_anything_moved)?;
        let to = Endpoint::new(self.sink, to, None);
        let (filter, state) = (&mut self.filter, &mut self.state);
        drive::run(&mut FilterEngine::new(
            kernel, None, None, to, filter, state,
        ))
    }

    /// What has been read and the filter has not taken: the beginning of a line, say, or what could not be given back to a pipe when
    /// the sink failed.
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
    /// let mut lines = FilterTransfer::new(&full, |input: Input<'_>, room: &mut [u8]| {
    ///     let end = input.bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    ///     room[..end].copy_from_slice(&input.bytes[..end]);
    ///     Filtered { consumed: end, produced: end }
    /// });
    /// let error = lines.run(&source).unwrap_err();
    /// assert_eq!(error.undelivered(), b"one\n");
    /// assert_eq!(lines.waiting(), b"two");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        self.state.waiting()
    }
}

impl<R> std::fmt::Debug for FilterTransfer<'_, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilterTransfer")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

/// Looks at both ends, and refuses what cannot work. Touches nothing.
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
