//! Durability: when a [`Transfer`] writes the bytes of its sink to the disk.

use super::Transfer;
use crate::options::SyncData;

impl Transfer<'_> {
    /// Decides when the transfer writes accepted bytes to the disk
    /// [default: [`SyncData::Never`], which leaves it to the kernel].
    ///
    /// Choose [`SyncData::EachStep`] if the bytes that an observer has counted must survive a loss
    /// of power. It waits for the disk after every step. If only the end of the transfer matters,
    /// call [`File::sync_data`](std::fs::File::sync_data) after it, which costs one wait.
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
    /// assert_eq!(transfer.sync_data(SyncData::EachStep).run()?.bytes(), 1 << 20);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # References
    /// - [fdatasync(2)](https://man7.org/linux/man-pages/man2/fdatasync.2.html)
    pub fn sync_data(mut self, when: SyncData) -> Self {
        self.options.sync_data = when;
        self
    }
}
