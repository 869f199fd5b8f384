//! A value that several threads can share: a `RefCell` that is `Sync`.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value behind a lock, with the interface of a `RefCell`.
///
/// Callbacks of a transfer must be `Send`, and those of the tests look at the simulated kernel. A
/// test that has panicked may leave the lock poisoned; the destructors that run then still need the
/// value.
#[derive(Debug, Default)]
pub(crate) struct Shared<T>(RwLock<T>);

impl<T> Shared<T> {
    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn borrow_mut(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
