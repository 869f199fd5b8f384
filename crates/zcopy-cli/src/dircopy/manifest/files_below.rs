//! All regular files below the root of a tree.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{AtFlags, FileType};

use super::open_beneath;
use crate::dircopy::listing;

/// The paths of regular files below a root, in no order. No link is followed.
///
/// Directories are opened one at a time, each from the root on, so that a deep tree takes no
/// descriptors, and no path is too long. Of a directory only the names are kept that are still to be
/// visited.
#[derive(Debug)]
pub(super) struct FilesBelow<'r, W> {
    root: BorrowedFd<'r>,
    /// Whether a file with this name is wanted.
    is_wanted: W,
    /// The path of the directory at hand.
    path: Vec<u8>,
    /// The wanted files in it.
    files: NameList,
    /// The directories in it, and in those above.
    levels: Vec<Level>,
    has_begun: bool,
}

/// The directories in one directory.
#[derive(Debug)]
struct Level {
    path_len: usize,
    directories: NameList,
}

/// Names, each of which is taken once.
#[derive(Debug, Default)]
struct NameList {
    /// Each name, and a zero byte.
    names: Vec<u8>,
    next: usize,
}

impl NameList {
    fn push(&mut self, name: &CStr) {
        self.names.extend_from_slice(name.to_bytes_with_nul());
    }

    fn next(&mut self) -> Option<&[u8]> {
        let rest = self.names.get(self.next..)?;
        let len = memchr::memchr(0, rest)?;
        self.next += len + 1;
        Some(&rest[..len])
    }
}

impl<'r, W: Fn(&[u8]) -> bool> FilesBelow<'r, W> {
    pub(super) fn new(root: BorrowedFd<'r>, is_wanted: W) -> Self {
        Self {
            root,
            is_wanted,
            path: Vec::new(),
            files: NameList::default(),
            levels: Vec::new(),
            has_begun: false,
        }
    }

    /// Reads the names in the directory at hand. What was read before an error is good.
    fn enter(&mut self) -> io::Result<()> {
        let directory = open_beneath::open_directory(self.root, &self.path)?;
        let (mut files, mut directories) = (NameList::default(), NameList::default());
        let read = listing::each(directory.as_fd(), |name, kind| {
            let kind = match kind {
                FileType::Unknown => {
                    let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
                    found.map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode))
                }
                kind => kind,
            };
            match kind {
                FileType::Directory => directories.push(name),
                FileType::RegularFile if (self.is_wanted)(name.to_bytes()) => files.push(name),
                _ => {}
            }
        });
        self.files = files;
        self.levels.push(Level {
            path_len: self.path.len(),
            directories,
        });
        Ok(read?)
    }
}

impl<W: Fn(&[u8]) -> bool> Iterator for FilesBelow<'_, W> {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<io::Result<Vec<u8>>> {
        if !self.has_begun {
            self.has_begun = true;
            if let Err(error) = self.enter() {
                return Some(Err(error));
            }
        }
        loop {
            if let Some(name) = self.files.next() {
                let mut path = self.path.clone();
                push(&mut path, name);
                return Some(Ok(path));
            }
            let level = self.levels.last_mut()?;
            self.path.truncate(level.path_len);
            let Some(name) = level.directories.next() else {
                self.levels.pop();
                continue;
            };
            push(&mut self.path, name);
            if let Err(error) = self.enter() {
                return Some(Err(error));
            }
        }
    }
}

/// Adds a name to a path.
fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dircopy::ground::{open, scratch};

    #[test]
    fn every_wanted_file_is_found_once_and_links_are_not_followed() {
        let scratch = scratch();
        let root = scratch.path();
        for directory in ["a/b/c", "d", "empty"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for file in ["1", "a/2", "a/b/3", "a/b/c/4", "d/5", "d/unwanted"] {
            fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::os::unix::fs::symlink("1", root.join("d/link")).unwrap();
        let opened = open(root);
        let files = FilesBelow::new(opened.as_fd(), |name| name != b"unwanted");
        let mut files: Vec<_> = files
            .map(|path| String::from_utf8(path.unwrap()).unwrap())
            .collect();
        files.sort_unstable();
        assert_eq!(files, ["1", "a/2", "a/b/3", "a/b/c/4", "d/5"]);
    }
}
