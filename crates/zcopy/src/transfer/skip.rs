//! Read errors: bad blocks of the source that a [`Transfer`] skips.

use super::Transfer;
use crate::options::SkipErrors;
use crate::report::BadRange;

#[cfg(doc)]
use crate::{Reflink, Report, Sparse, Strategy};

impl<'a, Source, Sink> Transfer<'a, Source, Sink> {
    /// Decides whether the transfer skips blocks of the source that cannot be read
    /// [default: [`SkipErrors::Never`], which fails].
    ///
    /// The sink receives zeros in place of a bad block, so that all bytes behind it keep their
    /// positions. These zeros count as [bytes](Report::bytes) and as
    /// [skipped bytes](Report::skipped_bytes), are passed to the [inspector](Self::inspect), and
    /// become holes under [`Sparse::Detect`].
    ///
    /// Choose [`SkipErrors::Adaptive`] to lose the fewest bytes: it makes several failing reads for
    /// each bad range. Choose [`SkipErrors::Block`] to save time: it makes one failing read for
    /// each bad block of the given size, and loses the good bytes behind the error in that block.
    /// [`on_skip`](Self::on_skip) reports each skipped range.
    ///
    /// Without read errors, the option costs only the strategies that it rules out:
    /// [`Strategy::Reflink`], and [`Strategy::CopyFileRange`] where it may share blocks. A small
    /// file takes the path of longer transfers, which costs some more system calls. On a failing
    /// disk each failing read takes seconds.
    ///
    /// The transfer moves bytes by its fastest strategy up to the first bad block, and by
    /// [`Strategy::Buffered`] from there. The smallest piece that it skips is the smallest that the
    /// source can be read in: a block of the file system, usually of 4 KiB, through the page cache;
    /// or down to 512 bytes if the source is opened with `O_DIRECT` or its file system is unknown.
    /// It skips nothing beyond the end of the source or the limit.
    ///
    /// # Errors
    ///
    /// The transfer skips errors that concern one position: `EIO`, `ENODATA`, `EILSEQ`,
    /// `EREMOTEIO`, `ETIMEDOUT`, `ETIME`, `EUCLEAN` and `EBADMSG`. It fails with every other error,
    /// such as `ENODEV` for a disk that is gone. It fails with every error if the source is neither
    /// a regular file nor a block device, or if it claims to be empty, and with a requested
    /// [strategy](Self::strategy) other than [`Strategy::Buffered`].
    ///
    /// With [several sinks](Self::also_to), [`FanOut::run`](crate::FanOut::run) fails with
    /// `EINVAL`.
    ///
    /// # Kernel notes
    ///
    /// A clone reads nothing: it would miss bad blocks and share them. The transfer therefore
    /// clones nothing, unless [`Reflink::Always`] asks for it.
    ///
    /// The page cache reads ahead in folios of up to 2048 pages, and no page of a folio can be read
    /// while one of its blocks is bad. The transfer therefore drops the clean pages of the source
    /// around each bad block (`POSIX_FADV_DONTNEED`, which also starts to write back dirty pages),
    /// and reads the blocks one by one in single pages through a second descriptor
    /// (`POSIX_FADV_RANDOM`). If the file cannot be opened again (no `/proc`, no permission), or
    /// its pages cannot be dropped because they are mapped, good blocks next to a bad one can be
    /// lost.
    ///
    /// A failing disk retries for seconds, and the read does not return meanwhile, so that a
    /// [tick](Self::tick) comes late. The transfer calls the observer after each read that fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SkipErrors, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let report = Transfer::new(&source, &sink).skip_errors(SkipErrors::Adaptive).run()?;
    /// assert!(report.bytes() > 0);
    /// assert_eq!(report.skipped_bytes(), 0, "every byte can be read");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn skip_errors(mut self, skip: SkipErrors) -> Self {
        self.settings.options.skip_errors = skip;
        self
    }

    /// Calls `on_skip` for each range of the source that the transfer [skips](Self::skip_errors),
    /// before it writes the zeros [default: no callback]. A long range may be reported in several
    /// parts. Without `skip_errors` nothing is skipped, and the callback is never called.
    ///
    /// Choose it to record which ranges were lost. [`Report::skipped_bytes`] has their total
    /// length, and needs no callback. The callback rules out no strategy. The transfer waits until
    /// it returns.
    ///
    /// # Panics
    ///
    /// A panic of `on_skip` propagates as with [`observe`](Self::observe).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SkipErrors, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut lost = Vec::new();
    /// Transfer::new(&source, &sink)
    ///     .skip_errors(SkipErrors::Adaptive)
    ///     .on_skip(|range| lost.push((range.offset(), range.bytes())))
    ///     .run()?;
    /// assert_eq!(lost, [], "every byte can be read");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn on_skip(mut self, on_skip: impl FnMut(&BadRange) + Send + 'a) -> Self {
        self.settings.callbacks.on_skip = Some(Box::new(on_skip));
        self
    }
}
