//! Files: shared blocks, holes, the page cache and the disk.

use super::Transfer;
use crate::options::{Cache, Reflink, Sparse, SyncData};

#[cfg(doc)]
use crate::Strategy;

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Decides whether two files may share blocks on the disk [default: [`Reflink::Auto`]].
    ///
    /// A clone takes no time and no space until one of the files is written to, and keeps holes.
    /// Choose [`Reflink::Never`] for a backup that must survive damage to the original's blocks; it
    /// also rules out `copy_file_range(2)`, which may share blocks. Choose [`Reflink::Always`] if a
    /// full copy would take too much space. [`sparse`](Self::sparse) decides about holes only, and
    /// [`cache`](Self::cache) about memory only.
    ///
    /// # Errors
    ///
    /// With [`Reflink::Always`], [`run`](Self::run) fails with an error that
    /// [`is_unsuitable`](crate::Error::is_unsuitable) if the files cannot share blocks; if an
    /// offset or the limit divides a block, except where both files end; with [several
    /// sinks](Self::also_to); if another [`strategy`](Self::strategy) is requested; and with the
    /// options that no clone can serve: [`inspect`](Self::inspect), [`records`](Self::records) and
    /// its limits, a [rate limit](Self::rate_limit), [`Sparse::Detect`] and [`Sparse::Fill`].
    /// [`skip_errors`](Self::skip_errors) is allowed, and skips nothing then.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Reflink, Strategy, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-never-{}", std::process::id()));
    /// std::fs::write(&path, [b'a'; 100_000])?;
    /// let source = std::fs::File::open(&path)?;
    /// let copy_path = path.with_extension("copy");
    /// let sink = std::fs::File::create(&copy_path)?;
    ///
    /// let report = Transfer::new(&source, &sink).reflink(Reflink::Never).run()?;
    /// assert!(report.attempts().iter().all(|attempt| attempt.strategy() != Strategy::Reflink));
    /// assert_eq!(std::fs::read(&copy_path)?, [b'a'; 100_000]);
    /// std::fs::remove_file(path)?;
    /// std::fs::remove_file(copy_path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reflink(mut self, reflink: Reflink) -> Self {
        self.settings.options.reflink = reflink;
        self
    }

    /// Decides whether holes of the source, or zeros, become holes of the sink
    /// [default: [`Sparse::Keep`]].
    ///
    /// [`Sparse::Keep`] suits copies between files, and costs a search only where the source has
    /// holes. Choose [`Sparse::Detect`] to make a file sparse that is not, or whose source is a
    /// pipe; into a regular file it allows only read and write. Choose [`Sparse::Fill`] to allocate
    /// every block of the sink; it rules out clones and `copy_file_range(2)`, which keep holes.
    /// Choose [`Sparse::KeepUnwritten`] for files with large preallocated parts, such as images of
    /// virtual machines.
    ///
    /// The transfer may read and write a file of at most 32 KiB without a search for holes. The
    /// sink then receives them as zeros.
    ///
    /// # Errors
    ///
    /// With [`Sparse::Detect`] and [several sinks](Self::also_to),
    /// [`FanOut::run`](crate::FanOut::run) fails with `EINVAL`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::unix::fs::MetadataExt;
    /// use zcopy::{Sparse, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-keep-{}", std::process::id()));
    /// std::fs::File::create(&path)?.set_len(1 << 20)?;
    /// let source = std::fs::File::open(&path)?;
    /// let copy_path = path.with_extension("copy");
    /// let sink = std::fs::File::create(&copy_path)?;
    ///
    /// let report = Transfer::new(&source, &sink).sparse(Sparse::Keep).run()?;
    /// assert_eq!((report.bytes(), report.hole_bytes()), (1 << 20, 1 << 20));
    /// assert_eq!((sink.metadata()?.len(), sink.metadata()?.blocks()), (1 << 20, 0));
    /// std::fs::remove_file(path)?;
    /// std::fs::remove_file(copy_path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sparse(mut self, sparse: Sparse) -> Self {
        self.settings.options.sparse = sparse;
        self
    }

    /// Decides whether pages of the files stay in the page cache [default: [`Cache::Keep`]].
    ///
    /// Choose [`Cache::DropBehind`] for a large copy that should not displace the cached files of
    /// other processes. It rules out no strategy, but waits for the disk, so that a copy that would
    /// fit into memory takes longer. It does not make bytes durable: see
    /// [`sync_data`](Self::sync_data).
    ///
    /// # Errors
    ///
    /// With [`Cache::DropBehind`], [`run`](Self::run) fails with `EIO`, `ENOSPC` or `EDQUOT`, on
    /// the sink's side, if the disk cannot take bytes that the sink had accepted.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Cache, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-drop-{}", std::process::id()));
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create(&path)?;
    /// Transfer::new(&zeros, &sink).limit(1 << 20).cache(Cache::DropBehind).run()?;
    /// assert_eq!(sink.metadata()?.len(), 1 << 20);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cache(mut self, cache: Cache) -> Self {
        self.settings.options.cache = cache;
        self
    }

    /// Decides when the transfer writes accepted bytes to the disk
    /// [default: [`SyncData::Never`], which leaves it to the kernel].
    ///
    /// Choose [`SyncData::EachStep`] if the bytes that an observer has counted must survive a loss
    /// of power. It waits for the disk after every step. Choose [`SyncData::AtEnd`], which waits
    /// once, if only the end of the transfer matters: to replace a file by a copy, for example.
    /// [`cache`](Self::cache) starts the same writes, but flushes no cache of the disk.
    ///
    /// With several sinks the transfer syncs each. Bytes that the disk turns out not to take count
    /// all the same, because the sink has accepted them. The option rules out no strategy.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails, on the sink's side, with the errors of `fdatasync(2)` other than
    /// `EINVAL` and `EROFS`, which mean that the file has no disk.
    ///
    /// # Kernel notes
    ///
    /// A disk may take long to answer, and the observer gets no [`tick`](Self::tick) meanwhile.
    /// `fdatasync(2)` writes the contents and the length of the file. For a new file, the entry in
    /// its directory needs an `fsync(2)` of the directory.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SyncData, Transfer};
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-durable-{}", std::process::id()));
    /// let zeros = std::fs::File::open("/dev/zero")?;
    /// let sink = std::fs::File::create(&path)?;
    /// let transfer = Transfer::new(&zeros, &sink).limit(1 << 20);
    /// assert_eq!(transfer.sync_data(SyncData::AtEnd).run()?.bytes(), 1 << 20);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # References
    /// - [fdatasync(2)](https://man7.org/linux/man-pages/man2/fdatasync.2.html)
    pub fn sync_data(mut self, when: SyncData) -> Self {
        self.settings.options.sync_data = when;
        self
    }
}
