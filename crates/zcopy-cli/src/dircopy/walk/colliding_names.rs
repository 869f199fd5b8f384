//! Names of the source that the destination may not tell apart.

use std::ffi::CString;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the source that the destination may not tell apart, and their keys, sorted. The first
/// call of [`get`](Self::get) finds them.
#[derive(Debug, Default)]
pub(super) struct CollidingNames {
    found: Mutex<Option<Arc<[CollidingName]>>>,
}

/// A name of the source that the destination may not tell from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CollidingName {
    /// Equal for names that the destination may not tell apart.
    pub(crate) key: u64,
    pub(crate) name: CString,
}

impl CollidingNames {
    pub(super) fn get(
        &self,
        find: impl FnOnce() -> io::Result<Vec<CollidingName>>,
    ) -> io::Result<Arc<[CollidingName]>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let colliding = match &*found {
            Some(colliding) => Arc::clone(colliding),
            None => find()?.into(),
        };
        Ok(Arc::clone(found.insert(colliding)))
    }
}
