//! The directory that is copied, in two versions, and what a copy of it may hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The versions of a source: what each run copies.
pub(super) const VERSIONS: [usize; 2] = [1, 2];

/// A file, the length of its contents, and the versions in which they are new.
struct Original {
    path: String,
    len: usize,
    new_in: &'static [usize],
}

/// What becomes new in the second version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    /// Files that the first version lacks, and the contents of others.
    Any,
    /// Files that the first version lacks: a history of ASC MHL takes no changes.
    Additions,
}

/// The source.
#[derive(Debug)]
pub(super) struct Source {
    dir: TempDir,
    changes: Changes,
}

fn originals(changes: Changes) -> Vec<Original> {
    let original = |path: &str, len, new_in| Original {
        path: path.to_owned(),
        len,
        new_in,
    };
    let mut originals = vec![
        original("constant", 5000, &[1]),
        original("changed", 9000, &[1, 2]),
        original("long", 700_000, &[1]),
        original("d/long and changed", 300_000, &[1, 2]),
        original("d/e/added", 3000, &[2]),
        original("d/empty", 0, &[1]),
    ];
    // Several are synced together.
    for n in 0..24 {
        let new_in: &[usize] = if n % 3 == 0 { &[1, 2] } else { &[1] };
        originals.push(original(&format!("many/{n:02}"), 100 + n * 331, new_in));
    }
    if changes == Changes::Additions {
        for original in &mut originals {
            original.new_in = &original.new_in[..1];
        }
    }
    originals
}

/// The contents of a file in a version in which they are new.
fn contents(original: &Original, version: usize) -> Vec<u8> {
    let line = format!("{} {version} ", original.path);
    line.bytes().cycle().take(original.len).collect()
}

impl Source {
    /// The source in its first version.
    pub(super) fn new(changes: Changes) -> anyhow::Result<Self> {
        let source = Self {
            dir: TempDir::with_prefix("zcopy-source-")?,
            changes,
        };
        source.become_version(1)?;
        Ok(source)
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes the files that are new in this version.
    pub(super) fn become_version(&self, version: usize) -> anyhow::Result<()> {
        for original in originals(self.changes) {
            if original.new_in.contains(&version) {
                let path = self.path().join(&original.path);
                fs::create_dir_all(path.parent().unwrap_or(self.path()))?;
                fs::write(&path, contents(&original, version))?;
            }
        }
        Ok(())
    }

    /// Says what is wrong with a copy into which the runs of the first `n_ended` versions have ended,
    /// and the next one perhaps begun.
    ///
    /// # Errors
    ///
    /// The copy cannot be read.
    pub(super) fn judge(&self, copy: &Path, n_ended: usize) -> anyhow::Result<Vec<String>> {
        let found = if copy.exists() {
            files(copy)?
        } else {
            BTreeMap::new()
        };
        let mut wrong = Vec::new();
        for original in &originals(self.changes) {
            let ended = original
                .new_in
                .iter()
                .filter(|version| **version <= n_ended);
            let oldest = ended.max();
            let possible: Vec<_> = original
                .new_in
                .iter()
                .filter(|version| oldest.is_none_or(|oldest| *version >= oldest))
                .collect();
            match found.get(Path::new(&original.path)) {
                None if oldest.is_some() => wrong.push(format!("{}: it is gone", original.path)),
                Some(bytes)
                    if !possible
                        .iter()
                        .any(|version| contents(original, **version) == *bytes) =>
                {
                    let len = bytes.len();
                    wrong.push(format!(
                        "{}: its {len} bytes are of none of the versions {possible:?}",
                        original.path
                    ));
                }
                _ => {}
            }
        }
        Ok(wrong)
    }
}

/// The files of a copy that have names of their own, with their contents.
fn files(copy: &Path) -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![copy.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (name, path, kind) = (entry.file_name(), entry.path(), entry.file_type()?);
            let is_ours = name.to_string_lossy().starts_with(".zc-dircopy-");
            if kind.is_dir() {
                directories.push(path);
            } else if kind.is_file() && !is_ours {
                let relative = path.strip_prefix(copy)?.to_owned();
                files.insert(relative, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}
