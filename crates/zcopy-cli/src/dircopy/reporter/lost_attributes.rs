//! Attributes of entries that are being copied and could not be kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The messages about attributes that could not be kept, by the paths of entries whose results have
/// not been written.
#[derive(Debug, Default)]
pub(super) struct LostAttributes(Mutex<HashMap<PathBuf, String>>);

impl LostAttributes {
    pub(super) fn add(&self, path: &Path, message: String) {
        self.lock().insert(path.to_owned(), message);
    }

    pub(super) fn take(&self, path: &Path) -> Option<String> {
        self.lock().remove(path)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
