//! What a [`Transfer`] can be told about the disk.

use super::Transfer;
use crate::options::SyncData;

impl Transfer<'_> {
    /// When what the sink has accepted is brought to the disk itself. Default: [`SyncData::Never`].
    ///
    /// With several sinks each is told to. Bytes that the disk turns out not to take are counted all the same: the
    /// sink has accepted them.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails, on the sink's side, with what `fdatasync(2)` says of the disk.
    ///
    /// # Examples
    ///
    /// See [`SyncData`].
    ///
    /// # Kernel notes
    ///
    /// A disk may take long to answer, and no [`tick`](Self::tick) comes meanwhile. The contents and the length
    /// of the file are brought there; that it stands in its directory is for an `fsync(2)` of the
    /// directory to say.
    ///
    /// # References
    /// - [fdatasync(2)](https://man7.org/linux/man-pages/man2/fdatasync.2.html)
    pub fn sync_data(mut self, when: SyncData) -> Self {
        self.options.sync_data = when;
        self
    }
}
