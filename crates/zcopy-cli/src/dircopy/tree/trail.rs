//! Where a directory is in the tree.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use super::entry::Way;

/// The name of a directory, and those above it. It opens nothing and keeps nothing open.
///
/// A path of its own for each of thousands of levels would take their number squared.
#[derive(Debug)]
pub(in crate::dircopy) struct Trail {
    parent: Option<Arc<Trail>>,
    /// The root has none.
    name: CString,
    way: Way,
}

impl Trail {
    /// That of the root.
    pub(super) fn root() -> Self {
        Self {
            parent: None,
            name: CString::default(),
            way: Way::Direct,
        }
    }

    pub(super) fn below(parent: &Arc<Self>, name: &CStr, way: Way) -> Self {
        Self {
            parent: Some(Arc::clone(parent)),
            name: name.to_owned(),
            way,
        }
    }

    /// The path from the root of what bears a name in this directory.
    pub(in crate::dircopy) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let steps = self.steps();
        let names = steps.iter().map(|(name, _)| name.to_bytes());
        let names: Vec<&[u8]> = names.chain([name]).collect();
        names.join(&b'/')
    }

    /// The path from the root of the directory itself; empty for the root.
    pub(super) fn path(&self) -> Vec<u8> {
        match &self.parent {
            Some(parent) => parent.path_of(self.name.to_bytes()),
            None => Vec::new(),
        }
    }

    /// The names from the root to this directory, and how each is reached.
    pub(super) fn steps(&self) -> Vec<(&CStr, Way)> {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            steps.push((&*at.name, at.way));
            at = parent;
        }
        steps.reverse();
        steps
    }

    /// Whether this is the root.
    pub(in crate::dircopy) fn is_root(&self) -> bool {
        self.parent.is_none()
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
