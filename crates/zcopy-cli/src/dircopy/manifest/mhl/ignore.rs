//! Files that a history leaves out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::dircopy::walk::Exclude;

/// The patterns of every history.
const DEFAULT: [&str; 3] = [".DS_Store", "ascmhl", "ascmhl/"];

/// The patterns of a history: those of `.gitignore`, without exceptions.
#[derive(Clone, Debug)]
pub(crate) struct Ignore {
    patterns: Vec<String>,
    compiled: Exclude,
}

impl Ignore {
    /// The default patterns, and those of the newest generation. One that cannot be compiled
    /// matches nothing.
    pub(super) fn new(patterns: Vec<String>) -> Self {
        let mut all: Vec<String> = DEFAULT.map(str::to_owned).to_vec();
        all.extend(
            patterns
                .into_iter()
                .filter(|one| !DEFAULT.contains(&&**one)),
        );
        let is_valid = |pattern: &&String| Exclude::new([pattern]).is_ok();
        let valid = all.iter().filter(is_valid);
        let compiled = Exclude::new(valid).unwrap_or_default();
        Self {
            patterns: all,
            compiled,
        }
    }

    pub(super) fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether an entry is left out by its own name or path.
    pub(super) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        matches(&self.compiled, path, is_directory)
    }

    /// Whether a file or a directory above it is left out.
    pub(crate) fn matches_file(&self, path: &[u8]) -> bool {
        matches_with_above(&self.compiled, path, false)
    }

    /// Whether a file that a generation lists is left out now: the patterns of every history
    /// match no such file.
    pub(super) fn matches_listed(&self, path: &[u8]) -> bool {
        self.patterns.len() > DEFAULT.len() && self.matches_file(path)
    }
}

/// Whether an entry is left out by its own name or path.
fn matches(exclude: &Exclude, path: &[u8], is_directory: bool) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let path = Path::new(OsStr::from_bytes(path));
    exclude.matches(OsStr::from_bytes(name), is_directory, || path)
}

/// Whether an entry or a directory above it is left out. The path of a directory may end in a slash.
pub(super) fn matches_with_above(exclude: &Exclude, path: &[u8], is_directory: bool) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let mut above = slashes.map(|(at, _)| &path[..at]);
    let path = path.strip_suffix(b"/").unwrap_or(path);
    above.any(|directory| matches(exclude, directory, true)) || matches(exclude, path, is_directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_and_what_patterns_name_are_left_out() {
        let ignore = Ignore::new(vec!["*.tmp".to_owned(), "/proxies/".to_owned()]);
        for path in [
            "ascmhl/0001.mhl",
            "a/ascmhl/x",
            "a/.DS_Store",
            "b/c.tmp",
            "proxies/a",
        ] {
            assert!(ignore.matches_file(path.as_bytes()), "{path}");
        }
        for path in ["a/ascmhl.txt", "a/proxies/b", "tmp"] {
            assert!(!ignore.matches_file(path.as_bytes()), "{path}");
        }
    }
}
