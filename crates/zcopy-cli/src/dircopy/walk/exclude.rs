//! Excludes entries from a copy by patterns, and includes some of them all the same.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use regex::{RegexSet, RegexSetBuilder};

use crate::common::cli::value;

mod glob;

/// Shell patterns of entries to exclude, and of entries to include all the same. Of the patterns
/// that match an entry, the first decides. An entry that no pattern matches is included.
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
    /// The effect of each rule, in their order. Empty if all rules exclude.
    effects: Vec<Effect>,
}

/// What a rule does with the entries that its pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Exclude,
    Include,
}

/// A pattern with its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) pattern: OsString,
    pub(crate) effect: Effect,
}

impl Rule {
    /// A rule that excludes what the pattern matches.
    pub(crate) fn exclude(pattern: OsString) -> Self {
        let effect = Effect::Exclude;
        Self { pattern, effect }
    }

    /// A rule that excludes the directory with this path from the root.
    pub(crate) fn exclude_directory(path: &[u8]) -> Self {
        let mut pattern = vec![b'/'];
        for byte in path {
            if matches!(byte, b'*' | b'?' | b'[' | b']' | b'{' | b'}' | b'\\') {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
        pattern.push(b'/');
        Self::exclude(OsString::from_vec(pattern))
    }
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
    names: Option<Set>,
    paths: Option<Set>,
}

/// Patterns that are matched together.
#[derive(Clone, Debug)]
struct Set {
    patterns: RegexSet,
    /// The place of each pattern among all rules, in ascending order.
    places: Vec<usize>,
}

/// The most memory for the automaton of one set, in bytes. 256 MiB suffice for more than ten
/// thousand patterns.
const MAX_AUTOMATON_BYTES: usize = 256 << 20;

impl Exclude {
    /// Compiles patterns that exclude.
    ///
    /// # Errors
    ///
    /// Those of [`from_rules`](Self::from_rules).
    pub(crate) fn new<P: AsRef<OsStr>>(
        patterns: impl IntoIterator<Item = P>,
    ) -> Result<Self, PatternError> {
        let patterns = patterns.into_iter();
        let rules = patterns.map(|pattern| Rule::exclude(pattern.as_ref().to_owned()));
        Self::from_rules(&rules.collect::<Vec<_>>())
    }

    /// Compiles the patterns of rules.
    ///
    /// # Errors
    ///
    /// The first pattern that is malformed or cannot match any path.
    pub(crate) fn from_rules(rules: &[Rule]) -> Result<Self, PatternError> {
        let mut sets = [const { (Vec::new(), Vec::new()) }; 4];
        for (place, Rule { pattern, .. }) in rules.iter().enumerate() {
            let all = glob::text(pattern.as_bytes());
            let (bare, is_directory) = match all.strip_suffix('/') {
                Some(bare) => (bare, true),
                None => (&*all, false),
            };
            let is_path = bare.contains('/');
            let bare = bare.strip_prefix('/').unwrap_or(bare);
            if bare.split('/').any(|name| matches!(name, "" | "." | "..")) {
                return Err(PatternError::NoName(pattern.clone()));
            }
            let regex = glob::to_regex(bare).map_err(|cause| PatternError::Malformed {
                pattern: pattern.clone(),
                cause,
            })?;
            let (patterns, places) =
                &mut sets[usize::from(is_directory) * 2 + usize::from(is_path)];
            patterns.push(regex);
            places.push(place);
        }
        let [names, paths, directory_names, directory_paths] = sets.map(|(patterns, places)| {
            if patterns.is_empty() {
                return Ok(None);
            }
            let set = RegexSetBuilder::new(patterns)
                .dot_matches_new_line(true)
                .size_limit(MAX_AUTOMATON_BYTES)
                .build();
            let set = set.map(|patterns| Set { patterns, places });
            set.map(Some).map_err(PatternError::TooMany)
        });
        let includes = rules.iter().any(|rule| rule.effect == Effect::Include);
        let effects = rules.iter().filter(|_| includes).map(|rule| rule.effect);
        Ok(Self {
            effects: effects.collect(),
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

    /// Whether there are no patterns.
    pub(crate) fn is_empty(&self) -> bool {
        let sets = [&self.any, &self.directories];
        sets.iter()
            .all(|patterns| patterns.names.is_none() && patterns.paths.is_none())
    }

    /// Whether an entry is excluded. `path` is called only if a pattern has a `/`.
    pub(crate) fn matches<P: AsRef<Path>>(
        &self,
        name: &OsStr,
        is_directory: bool,
        path: impl Fn() -> P,
    ) -> bool {
        if self.effects.is_empty() {
            return self.any.matches(name, &path)
                || is_directory && self.directories.matches(name, &path);
        }
        let directories = is_directory.then_some(&self.directories);
        let patterns = [Some(&self.any), directories].into_iter().flatten();
        let first = patterns
            .filter_map(|patterns| patterns.first(name, &path))
            .min();
        first.is_some_and(|first| self.effects[first] == Effect::Exclude)
    }
}

impl Patterns {
    fn matches<P: AsRef<Path>>(&self, name: &OsStr, path: impl Fn() -> P) -> bool {
        let matches = |set: &Set, text: &OsStr| set.patterns.is_match(&glob::text(text.as_bytes()));
        let names = self.names.as_ref();
        let paths = self.paths.as_ref();
        names.is_some_and(|set| matches(set, name))
            || paths.is_some_and(|set| matches(set, path().as_ref().as_os_str()))
    }

    /// The place of the first rule that matches.
    fn first<P: AsRef<Path>>(&self, name: &OsStr, path: impl Fn() -> P) -> Option<usize> {
        let names = self.names.as_ref().and_then(|set| set.first(name));
        let paths = self.paths.as_ref();
        let paths = paths.and_then(|set| set.first(path().as_ref().as_os_str()));
        names.into_iter().chain(paths).min()
    }
}

impl Set {
    fn first(&self, text: &OsStr) -> Option<usize> {
        let matching = self.patterns.matches(&glob::text(text.as_bytes()));
        let first = matching.into_iter().next()?;
        Some(self.places[first])
    }
}

#[cfg(test)]
mod tests;
