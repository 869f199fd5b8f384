//! Runs `zc-dircopy`: copies a tree, or verifies trees.

pub(crate) mod accepted_maps;
pub(crate) mod amend;
pub(crate) mod check;
pub(crate) mod copy_tree;
pub(crate) mod lock;
pub(crate) mod manifest;
pub(crate) mod write_back;
