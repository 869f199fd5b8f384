//! The files that are being copied or read.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The files that are being copied or read, in the order in which they were begun.
#[derive(Debug, Default)]
pub(super) struct FilesUnderWay(Mutex<Vec<PathBuf>>);

impl FilesUnderWay {
    pub(super) fn begin(&self, path: PathBuf) {
        self.lock().push(path);
    }

    pub(super) fn end(&self, path: &Path) {
        let mut files = self.lock();
        if let Some(place) = files.iter().position(|file| file == path) {
            files.remove(place);
        }
    }

    /// The file that has been under way for the longest time: among short files, the long one.
    pub(super) fn oldest(&self) -> Option<PathBuf> {
        self.lock().first().cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
