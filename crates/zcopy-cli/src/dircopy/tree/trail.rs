//! Where a directory is in the tree.

use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The name of a directory, and those above it. It opens nothing and keeps nothing open.
///
/// A path of its own for each of thousands of levels would take their number squared.
#[derive(Debug, Default)]
pub(super) struct Trail {
    parent: Option<Arc<Trail>>,
    /// The root has none.
    name: CString,
}

impl Trail {
    pub(super) fn below(parent: &Arc<Self>, name: &CStr) -> Self {
        Self {
            parent: Some(Arc::clone(parent)),
            name: name.to_owned(),
        }
    }

    /// The path from the root of what bears a name in this directory.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut names = vec![name];
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(at.name.to_bytes());
            at = parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The path from the root of the directory itself; empty for the root.
    pub(super) fn path(&self) -> Vec<u8> {
        match &self.parent {
            Some(parent) => parent.path_of(self.name.to_bytes()),
            None => Vec::new(),
        }
    }
}

impl Drop for Trail {
    /// One level after another: thousands of them inside each other would not fit the stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(trail) = next {
            next = Arc::into_inner(trail).and_then(|mut trail| trail.parent.take());
        }
    }
}
