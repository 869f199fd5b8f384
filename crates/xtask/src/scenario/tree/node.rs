//! The entries of a tree after a run.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use rustix::fs::lgetxattr;

use super::ATTRIBUTE;

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// The bytes of a file, or the target of a symbolic link.
    pub(super) bytes: Vec<u8>,
    pub(super) mode: u32,
    pub(super) modified: SystemTime,
    pub(super) attribute: Option<Vec<u8>>,
}

/// The entries of a tree by their paths from its root, and the inode number of each. The root's
/// path is empty.
pub(super) type Tree = BTreeMap<PathBuf, (Node, u64)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

/// Reads a tree.
///
/// # Errors
///
/// An entry cannot be read.
pub(super) fn read_tree(root: &Path) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    let mut names = vec![PathBuf::new()];
    while let Some(name) = names.pop() {
        let path = root.join(&name);
        let (node, inode) = read_node(&path).with_context(|| path.display().to_string())?;
        if node.kind == Kind::Directory {
            for entry in fs::read_dir(&path)? {
                names.push(name.join(entry?.file_name()));
            }
        }
        tree.insert(name, (node, inode));
    }
    Ok(tree)
}

/// Reads an entry, and gives its inode number.
fn read_node(path: &Path) -> anyhow::Result<(Node, u64)> {
    let metadata = path.symlink_metadata()?;
    let kind = match metadata.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    };
    let bytes = match kind {
        Kind::File => fs::read(path)?,
        Kind::Symlink => fs::read_link(path)?.as_os_str().as_bytes().to_vec(),
        Kind::Directory | Kind::Other => Vec::new(),
    };
    let mut value = [0; 64];
    let attribute = lgetxattr(path, ATTRIBUTE, &mut value[..]).ok();
    let node = Node {
        kind,
        bytes,
        mode: metadata.mode() & 0o7777,
        modified: metadata.modified()?,
        attribute: attribute.map(|n| value[..n].to_vec()),
    };
    Ok((node, metadata.ino()))
}
