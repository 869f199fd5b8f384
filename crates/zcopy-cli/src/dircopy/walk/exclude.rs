//! Excludes entries from a copy by patterns.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use regex::{RegexSet, RegexSetBuilder};

use crate::common::cli::value;

mod glob;

/// Shell patterns of entries to exclude.
///
/// A pattern without `/` matches names in all directories. A pattern with `/` matches paths from
/// the root: its `*` does not match `/`, its `**` does. A pattern that ends in `/` matches only
/// directories. An excluded directory is not entered.
///
/// Patterns and names are bytes. In every locale `?` and `[…]` match one UTF-8 character, or one
/// byte that is not part of a character. A shell in a UTF-8 locale does the same, except in names
/// that are not UTF-8 as a whole, where it matches bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclude {
    any: Patterns,
    directories: Patterns,
}

/// An invalid pattern.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PatternError {
    /// The pattern is malformed.
    #[error("{}: {cause}", value::invalid("glob", pattern))]
    Malformed {
        /// The pattern.
        pattern: OsString,
        /// The error in it.
        cause: globset::ErrorKind,
    },
    /// The pattern has a name that is empty, `.` or `..`.
    #[error("{}: no path has such a name", value::invalid("glob", .0))]
    NoName(OsString),
    /// The patterns together take too much memory.
    #[error("too many globs")]
    TooMany(#[source] regex::Error),
}

/// Patterns for names and for paths.
#[derive(Clone, Debug, Default)]
struct Patterns {
    /// `None` without such patterns.
    names: Option<RegexSet>,
    paths: Option<RegexSet>,
}

/// The most memory for the automaton of one set, in bytes. 256 MiB suffice for more than ten
/// thousand patterns.
const MAX_AUTOMATON_BYTES: usize = 256 << 20;

impl Exclude {
    /// Compiles the patterns.
    ///
    /// # Errors
    ///
    /// The first pattern that is malformed or cannot match any path.
    pub(crate) fn new<P: AsRef<OsStr>>(
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
                .size_limit(MAX_AUTOMATON_BYTES)
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

    /// Whether an entry is excluded. `path` is called only if a pattern has a `/`.
    pub(crate) fn matches<P: AsRef<Path>>(
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
