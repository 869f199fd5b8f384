//! What can be told of everything in a tree, so that two can be compared.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};
use walkdir::WalkDir;
use zcopy_cli::dircopy::manifest::name::Name;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Type and permissions, in octal digits.
    mode: String,
    owner: (u32, u32),
    modified: (i64, i64),
    device: u64,
    /// The digest of a file, where a link leads.
    contents: Vec<u8>,
    xattrs: BTreeMap<CString, Vec<u8>>,
    /// How many names a file has, and the first of them in this tree.
    names: (u64, PathBuf),
}

/// Returns the facts in which two trees have to be alike. Other functions compare the extended
/// attributes of special files and links.
pub(super) fn of(tree: &Path) -> BTreeMap<PathBuf, Facts> {
    let mut firsts = BTreeMap::new();
    let entries = WalkDir::new(tree).sort_by_file_name();
    let entries = entries.into_iter().map(Result::unwrap);
    entries
        .filter(|entry| !(entry.depth() == 1 && is_sums(entry.path())))
        .map(|entry| {
            let relative = entry.path().strip_prefix(tree).unwrap().to_owned();
            let stat = rustix::fs::lstat(entry.path()).unwrap();
            let first = firsts
                .entry((stat.st_dev, stat.st_ino))
                .or_insert_with(|| relative.clone());
            let facts = facts(entry.path(), &stat, first.clone());
            (relative, facts)
        })
        .collect()
}

#[allow(clippy::unnecessary_cast, reason = "not on every processor")]
fn facts(path: &Path, stat: &Stat, first: PathBuf) -> Facts {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let is_open = matches!(kind, FileType::RegularFile | FileType::Directory);
    let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap();
    Facts {
        mode: format!("{:o}", stat.st_mode),
        owner: (stat.st_uid, stat.st_gid),
        modified: (stat.st_mtime as i64, nanoseconds),
        device: stat.st_rdev as u64,
        contents: match kind {
            FileType::RegularFile => blake3(path).to_vec(),
            FileType::Symlink => fs::read_link(path).unwrap().into_os_string().into_vec(),
            _ => Vec::new(),
        },
        xattrs: if is_open {
            xattrs(path)
        } else {
            BTreeMap::new()
        },
        names: match kind {
            FileType::Directory => (0, PathBuf::new()),
            _ => (stat.st_nlink as u64, first),
        },
    }
}

/// The extended attributes, access lists among them.
pub(super) fn xattrs(path: &Path) -> BTreeMap<CString, Vec<u8>> {
    let mut list = vec![0; 64 << 10];
    let n = rustix::fs::llistxattr(path, &mut list).unwrap();
    let names = list[..n].split_inclusive(|byte| *byte == 0);
    let value = |name: &[u8]| {
        let name = CString::from_vec_with_nul(name.to_vec()).unwrap();
        let mut value = vec![0; 64 << 10];
        let n = rustix::fs::lgetxattr(path, &name, &mut value).unwrap();
        value.truncate(n);
        (name, value)
    };
    names.map(value).collect()
}

/// Every name of one stands for the same in the other.
#[track_caller]
pub(super) fn assert_same(source: &Path, copy: &Path) {
    let (expected, found) = (of(source), of(copy));
    for (path, expected) in &expected {
        let found = found.get(path);
        let found = found.unwrap_or_else(|| panic!("{} is missing", path.display()));
        assert_eq!(found, expected, "{}", path.display());
    }
    let more: Vec<_> = found
        .keys()
        .filter(|path| !expected.contains_key(*path))
        .collect();
    assert!(more.is_empty(), "besides that there is {more:?}");
}

/// The paths of all regular files, in the order of their bytes.
pub(super) fn files_of(tree: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(tree).into_iter().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().strip_prefix(tree).unwrap().to_owned())
        .collect();
    files.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    files
}

/// The same without manifests.
pub(super) fn copies_in(tree: &Path) -> Vec<PathBuf> {
    let mut files = files_of(tree);
    files.retain(|path| !is_sums(path));
    files
}

fn is_sums(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let manifest = name.strip_suffix(".info").unwrap_or(name);
        manifest.parse::<Name>().is_ok()
    })
}

/// The digest that is computed fastest: many trees are compared.
pub(super) fn blake3(path: &Path) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path).unwrap()).unwrap();
    *hasher.finalize().as_bytes()
}

/// By another hand, so that a mistake of ours is not made twice.
pub(super) fn sha256(path: &Path) -> Vec<u8> {
    Sha256::digest(fs::read(path).unwrap()).to_vec()
}

/// The same in hexadecimal digits.
pub(super) fn hexadecimal(path: &Path) -> String {
    let digest = <[u8; 32]>::try_from(sha256(path)).unwrap();
    zcopy_cli::common::digest::Digest::from_bytes(digest).to_string()
}
