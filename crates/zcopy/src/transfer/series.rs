//! [`Series`]: transfers one after another into one sink.

use std::os::fd::{AsFd, BorrowedFd};

use crate::fast_path::SeriesState;
use crate::transfer::Transfer;

/// Runs transfers one after another into one sink, as `cat` does. A small file costs fewer system
/// calls than with a [`Transfer`] of its own.
///
/// The series keeps the buffer and the facts about the sink that cannot change, so that later
/// transfers need not ask the kernel again. Nothing else passes from one transfer to the next: each
/// has the options, the report and the errors that it would have outside a series.
///
/// It saves calls for files that the transfer reads and writes without a plan: of at most 32 KiB,
/// 12 KiB into a pipe, or of at most 64 KiB into `/dev/null` and 256 KiB into a file, depending on
/// the file system.
/// These transfers may have the options [`grow_pipes`](Transfer::grow_pipes),
/// [`pipe_size`](Transfer::pipe_size), [`reflink`](Transfer::reflink) other than `Always`, and
/// [`sparse`](Transfer::sparse) other than `Detect`. With any other option, or a larger file, a
/// transfer of a series costs what it costs outside.
///
/// # Kernel notes
///
/// The series relies on the type, the identity and the access mode of the sink, which no call
/// changes while it is open. If another thread replaces the descriptor by `dup2(2)` meanwhile,
/// transfers no longer detect that source and sink are the same file.
///
/// # Examples
///
/// ```
/// use zcopy::Series;
///
/// let (mut reader, writer) = std::io::pipe()?;
/// let dir = std::env::temp_dir();
/// let paths = ["one ", "two"].map(|text| {
///     let path = dir.join(format!("zcopy-doc-series-{}-{}", std::process::id(), text.trim()));
///     std::fs::write(&path, text).map(|()| path)
/// });
///
/// let series = Series::new(&writer);
/// for path in paths {
///     let path = path?;
///     let report = series.transfer(&std::fs::File::open(&path)?).run()?;
///     assert!(report.bytes() > 0);
///     std::fs::remove_file(path)?;
/// }
/// drop(writer);
/// assert_eq!(std::io::read_to_string(&mut reader)?, "one two");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "nothing is transferred until its transfers are run"]
pub struct Series<'fd> {
    sink: BorrowedFd<'fd>,
    series_state: SeriesState,
}

impl<'fd> Series<'fd> {
    /// Creates a series of transfers into `sink`.
    pub fn new<Sink: AsFd + ?Sized>(sink: &'fd Sink) -> Self {
        Self {
            sink: sink.as_fd(),
            series_state: SeriesState::default(),
        }
    }

    /// Returns a transfer of everything that `source` has into the sink of the series. It has all
    /// options of a [`Transfer`], and moves nothing until [`run`](Transfer::run).
    pub fn transfer<Source: AsFd>(&self, source: Source) -> Transfer<'_, Source> {
        let mut transfer = Transfer::new(source, self.sink);
        transfer.settings.series_state = Some(&self.series_state);
        transfer
    }
}

impl std::fmt::Debug for Series<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Series")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}
