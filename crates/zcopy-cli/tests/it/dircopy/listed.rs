//! Manifests, as they are found.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use zcopy_cli::common::digest::{Algorithm, Digest};
use zcopy_cli::dircopy::manifest::{line, name};

use super::{digest_of, facts};

/// A manifest.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) path: PathBuf,
    /// Path and digest of each line, in their order.
    pub(super) lines: Vec<(PathBuf, Digest)>,
}

impl Sums {
    /// All in a directory, the newest first.
    pub(super) fn all_in(directory: &Path) -> Vec<Self> {
        let names = name::all_in(directory).unwrap();
        let sums = names.iter().map(|name| directory.join(name.to_string()));
        sums.map(Self::read).collect()
    }

    #[track_caller]
    pub(super) fn newest_in(directory: &Path) -> Self {
        let newest = Self::all_in(directory).into_iter().next();
        newest.expect("there is no manifest")
    }

    pub(super) fn read(path: PathBuf) -> Self {
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "it is cut off");
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let lines = lines.filter(|line| !line.starts_with(b"#"));
        let lines = lines.map(|line| {
            let line = line::parse(line).unwrap();
            // The one name that stands for something else.
            let is_dash = line.path == b"./-";
            let path = if is_dash { b"-" } else { &line.path[..] };
            (OsStr::from_bytes(path).into(), line.digest)
        });
        let lines = lines.collect();
        Self { path, lines }
    }

    /// The bytes of all lines that stand for files.
    pub(super) fn without_comments(&self) -> Vec<u8> {
        let bytes = fs::read(&self.path).unwrap();
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<_> = lines.filter(|line| !line.starts_with(b"#")).collect();
        lines.concat()
    }

    pub(super) fn paths(&self) -> Vec<&Path> {
        self.lines.iter().map(|(path, _)| &**path).collect()
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        name::algorithm_of(&self.path)
    }

    /// Lines stand for these files, in this order.
    #[track_caller]
    pub(super) fn lists(&self, paths: &[&str]) -> &Self {
        let paths: Vec<_> = paths.iter().map(Path::new).collect();
        assert_eq!(self.paths(), paths);
        self
    }

    /// Every regular file of the tree has a line, and they are sorted.
    #[track_caller]
    pub(super) fn is_whole(&self, tree: &Path) -> &Self {
        let files = facts::files_of(tree);
        let files: Vec<_> = files.iter().map(PathBuf::as_path).collect();
        assert_eq!(self.paths(), files);
        self
    }

    /// Every file that has a line is in the tree, with that digest.
    #[track_caller]
    pub(super) fn holds_in(&self, tree: &Path) -> &Self {
        for (path, digest) in &self.lines {
            let bytes = fs::read(tree.join(path));
            let bytes = bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let found = digest_of(self.algorithm(), &bytes);
            assert_eq!(found, *digest, "{}", path.display());
        }
        self
    }

    /// `sha256sum -c` is content with the tree.
    #[track_caller]
    pub(super) fn satisfies_sha256sum(&self, tree: &Path) -> &Self {
        if self.lines.is_empty() {
            // It would complain of that.
            return self;
        }
        let check = Command::new("sha256sum")
            .args(["--strict", "--quiet", "-c"])
            .arg(&self.path)
            .current_dir(tree)
            .output()
            .unwrap();
        assert!(check.status.success(), "{check:?}");
        self
    }
}
