//! Transfers one after another into one sink.

use std::os::fd::{AsFd, BorrowedFd};

use crate::fast_path::SeriesState;
use crate::transfer::Transfer;

/// Transfers one after another into one sink, as `cat` makes them: a small file costs less than by a [`Transfer`]
/// that knows nothing of others.
///
/// What is known of the sink is not asked again, where it cannot have changed, and the buffer serves for all. Nothing
/// else is passed on, and each transfer does what it would alone.
///
/// # Kernel notes
///
/// Of the sink its kind, identity and access mode are believed from one transfer to the next: no call changes these as long as
/// it is open. Whoever puts another file in the descriptor's place meanwhile, by `dup2(2)`, loses the check that source
/// and sink are not the same file.
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
    /// Transfers into `sink`, and none as yet.
    ///
    /// # Examples
    ///
    /// See [`Series`].
    pub fn new<Sink: AsFd + ?Sized>(sink: &'fd Sink) -> Self {
        Self {
            sink: sink.as_fd(),
            series_state: SeriesState::default(),
        }
    }

    /// The next transfer, from `source`, of everything it has. It takes all options of one.
    ///
    /// # Examples
    ///
    /// See [`Series`].
    pub fn transfer<'a, Source: AsFd + ?Sized>(&'a self, source: &'a Source) -> Transfer<'a> {
        let mut transfer = Transfer::new(source, &self.sink);
        transfer.series_state = Some(&self.series_state);
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
