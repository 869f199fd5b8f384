//! Where a directory is in the tree.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use super::follow_link::FollowLink;

/// The names of the directories from the root to one of them, as a linked list.
///
/// In a tree of thousands of levels, a whole path for each would take memory in proportion to the
/// square of their number.
#[derive(Debug)]
pub(crate) struct PathNode {
    parent: Option<Arc<PathNode>>,
    /// Empty for the root.
    name: CString,
    follow: FollowLink,
}

impl PathNode {
    /// The node of the root.
    pub(super) fn root() -> Self {
        Self {
            parent: None,
            name: CString::default(),
            follow: FollowLink::No,
        }
    }

    pub(super) fn below(parent: &Arc<Self>, name: &CStr, follow: FollowLink) -> Self {
        Self {
            parent: Some(Arc::clone(parent)),
            name: name.to_owned(),
            follow,
        }
    }

    /// The path from the root of an entry of this directory.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
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

    /// The names from the root to this directory, and whether each is a symbolic link to follow.
    pub(super) fn steps(&self) -> Vec<(&CStr, FollowLink)> {
        let mut steps = Vec::new();
        let mut at = self;
        while let Some(parent) = &at.parent {
            steps.push((&*at.name, at.follow));
            at = parent;
        }
        steps.reverse();
        steps
    }

    /// Whether this is the root.
    pub(crate) fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

impl Drop for PathNode {
    /// Drops one level after the other: recursion through thousands of levels would overflow the
    /// stack.
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(node) = next {
            next = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}
