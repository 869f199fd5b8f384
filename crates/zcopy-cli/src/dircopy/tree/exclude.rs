//! What is left out of a copy, by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use regex::{RegexSet, RegexSetBuilder};

use crate::quote::quoted;

mod glob;

/// Shell patterns of what is left out.
///
/// A pattern without `/` matches names, wherever they are; one with `/` matches paths from the root, and its `*` no `/`, but
/// `**` does. One that ends in `/` matches directories alone. A directory that is left out is not entered.
///
/// Patterns and names are bytes. `?` and `[…]` match one character of UTF-8, or one byte that belongs to none, in every locale. A
/// shell does the same in a UTF-8 locale, except in names that are not UTF-8 as a whole, where it matches bytes.
///
/// # Examples
///
/// ```
/// use zcopy_cli::dircopy::tree::Exclude;
///
/// Exclude::new(["*.o", "target/", "/doc/**/*.html"])?;
/// assert!(Exclude::new(["[a"]).is_err());
/// # Ok::<(), zcopy_cli::dircopy::tree::PatternError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exclude {
    any: Patterns,
    directories: Patterns,
}

/// A pattern that is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It is malformed.
    #[error("error parsing glob {}: {cause}", in_quotes(pattern))]
    Malformed {
        /// The pattern.
        pattern: OsString,
        /// What is wrong with it.
        cause: globset::ErrorKind,
    },
    /// Names are never empty, `.` or `..`.
    #[error("glob {} can match nothing: no path has such a name", in_quotes(.0))]
    NoName(OsString),
    /// All patterns together take too much memory.
    #[error("too many globs")]
    TooMany(#[source] regex::Error),
}

/// The pattern as it is shown: in quotes, whatever it is.
fn in_quotes(pattern: &OsStr) -> String {
    match quoted(pattern) {
        shown if *shown == *pattern => format!("'{shown}'"),
        shown => shown,
    }
}

/// Patterns of names, and of paths.
#[derive(Clone, Debug, Default)]
struct Patterns {
    /// `None` if there are none.
    names: Option<RegexSet>,
    paths: Option<RegexSet>,
}

/// How much memory the automaton of all patterns may take, in bytes: 256 MiB, which are thousands of patterns.
const MOST_MEMORY: usize = 256 << 20;

impl Exclude {
    /// Reads the patterns.
    ///
    /// # Errors
    ///
    /// The first that is malformed, or could match no path.
    pub fn new<P: AsRef<OsStr>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, PatternError> {
        let mut sets = [const { Vec::new() }; 4];
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let all = glob::text(pattern.as_bytes());
            let (bare, is_directory) = match all.strip_suffix('/') {
                Some(bare) => (bare, true),
                None => (&*all, false),
            };
            let is_path = bare.contains('/');
            let bare = bare.strip_prefix('/').unwrap_or(bare);
            if bare.split('/').any(|name| matches!(name, "" | "." | "..")) {
                return Err(PatternError::NoName(pattern.to_owned()));
            }
            let regex = glob::to_regex(bare).map_err(|cause| PatternError::Malformed {
                pattern: pattern.to_owned(),
                cause,
            })?;
            sets[usize::from(is_directory) * 2 + usize::from(is_path)].push(regex);
        }
        let [names, paths, directory_names, directory_paths] = sets.map(|patterns| {
            if patterns.is_empty() {
                return Ok(None);
            }
            let set = RegexSetBuilder::new(patterns)
                .dot_matches_new_line(true)
                .size_limit(MOST_MEMORY)
                .build();
            set.map(Some).map_err(PatternError::TooMany)
        });
        Ok(Self {
            any: Patterns {
                names: names?,
                paths: paths?,
            },
            directories: Patterns {
                names: directory_names?,
                paths: directory_paths?,
            },
        })
    }

    /// Whether what bears this name is left out. Its path is only asked for if a pattern has a `/`.
    pub(in crate::dircopy) fn matches<P: AsRef<Path>>(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: impl Fn() -> P,
    ) -> bool {
        self.any.matches(name, &path) || is_directory && self.directories.matches(name, &path)
    }
}

impl Patterns {
    fn matches<P: AsRef<Path>>(&self, name: &OsStr, path: impl Fn() -> P) -> bool {
        let matches = |set: &RegexSet, text: &OsStr| set.is_match(&glob::text(text.as_bytes()));
        let names = self.names.as_ref();
        let paths = self.paths.as_ref();
        names.is_some_and(|set| matches(set, name))
            || paths.is_some_and(|set| matches(set, path().as_ref().as_os_str()))
    }
}

#[cfg(test)]
mod tests;
