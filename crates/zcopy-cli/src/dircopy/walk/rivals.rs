//! Names of the source that the destination may not tell apart.

use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the source that the destination may not tell apart, and their keys, sorted. The first call of [`get`](Self::get) finds
/// them.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    found: Mutex<Option<Arc<[RivalName]>>>,
}

/// A name of the source that the destination may not tell from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RivalName {
    /// Equal for names that the destination may not tell apart.
    pub(crate) key: u64,
    pub(crate) name: CString,
}

impl Rivals {
    pub(super) fn get(
        &self,
        find: impl FnOnce() -> io::Result<Vec<RivalName>>,
    ) -> io::Result<Arc<[RivalName]>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let rivals = match &*found {
            Some(rivals) => Arc::clone(rivals),
            None => find()?.into(),
        };
        Ok(Arc::clone(found.insert(rivals)))
    }
}
