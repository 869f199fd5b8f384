//! What a [`Transfer`] can be told about a source that cannot be read everywhere.

use super::Transfer;
use crate::options::SkipErrors;
use crate::report::BadRange;

#[cfg(doc)]
use crate::{Report, Sparse, Strategy};

impl<'a> Transfer<'a> {
    /// What becomes of places where the source cannot be read. Default: [`SkipErrors::Never`].
    ///
    /// They are skipped, and the sink gets zeros in their place, so that everything behind them is where
    /// it belongs. The zeros count as [bytes](Report::bytes) and as [skipped](Report::skipped_bytes), are
    /// shown to whoever [inspects](Self::inspect), and become holes where [zeros do](Sparse::Detect).
    /// What lies before and behind a bad block, up to the smallest piece that the source can be read in,
    /// is not lost: pages of the cache hold whole blocks of the file system, 4 KiB as a rule; a file system
    /// of which no more is known, or a source opened with `O_DIRECT`, is read in pieces down to 512
    /// bytes. Nothing is skipped beyond the end of the source, or the limit.
    ///
    /// The transfer goes its fastest way up to the first bad block, and by [`Strategy::Buffered`] from
    /// there.
    ///
    /// # Errors
    ///
    /// Skipped are the errors that speak of one place: `EIO`, `ENODATA`, `EILSEQ`, `EREMOTEIO`,
    /// `ETIMEDOUT`, `ETIME`, `EUCLEAN` and `EBADMSG`. Any other fails the transfer, such as `ENODEV` when a
    /// disk has gone. Every error does so if the source is neither a regular file nor a block device, or
    /// claims to be empty; and if a [strategy](Self::strategy) other than [`Strategy::Buffered`] is
    /// insisted on.
    ///
    /// [`run`](Self::run) refuses to skip anything for [several sinks](Self::also_to), or for one that is
    /// served as several are (`EINVAL`).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SkipErrors, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&source, &sink)
    ///     .skip_errors(SkipErrors::Adaptive)
    ///     .on_skip(|skipped| eprintln!("{} bytes at {}", skipped.bytes(), skipped.offset()))
    ///     .run()?;
    /// assert_eq!(report.skipped_bytes(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Kernel notes
    ///
    /// A clone reads nothing, and so would meet no bad block, and share it: nothing is cloned, unless [that](crate::Reflink::Always) is asked for.
    ///
    /// The cache holds what is read ahead in folios of up to 2048 pages, none of which can be read while one block of it is bad. So
    /// around each bad block the cache's clean pages of the source are dropped, and its blocks read one by one, in single pages, through
    /// an opening of the transfer's own: `POSIX_FADV_DONTNEED`, which also begins to write back what is dirty there, and
    /// `POSIX_FADV_RANDOM`. Where the file cannot be opened once more (no `/proc`, no permission), or its pages cannot be dropped (they
    /// are mapped), good blocks beside a bad one can be lost.
    ///
    /// A failing disk tries again for seconds, in which no call returns, so that a
    /// [tick](Self::tick) comes late. The observer is called after each failing read.
    pub fn skip_errors(mut self, skip: SkipErrors) -> Self {
        self.options.skip_errors = skip;
        self
    }

    /// Calls `on_skip` for each stretch that is skipped, before its zeros are written. A long one may be
    /// told in several pieces.
    ///
    /// # Panics
    ///
    /// As [`observe`](Self::observe).
    ///
    /// # Examples
    ///
    /// See [`BadRange`].
    pub fn on_skip(mut self, on_skip: impl FnMut(&BadRange) + 'a) -> Self {
        self.on_skip = Some(Box::new(on_skip));
        self
    }
}
