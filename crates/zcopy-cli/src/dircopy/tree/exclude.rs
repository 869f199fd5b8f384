//! What is left out of a copy, by name.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Shell patterns of what is left out.
///
/// A pattern without `/` matches names, wherever they are; one with `/` matches paths from the root, and its `*` no `/`, but
/// `**` does. One that ends in `/` matches directories alone. A directory that is left out is not entered.
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
    #[error(transparent)]
    Malformed(globset::Error),
    /// Names are never empty, `.` or `..`.
    #[error("glob '{0}' can match nothing: no path has such a name")]
    NoName(String),
}

/// Patterns of names, and of paths.
#[derive(Clone, Debug, Default)]
struct Patterns {
    names: GlobSet,
    paths: GlobSet,
}

impl Exclude {
    /// Reads the patterns.
    ///
    /// # Errors
    ///
    /// The first that is malformed, or could match no path.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, PatternError> {
        let mut sets = [const { Vec::new() }; 4];
        for pattern in patterns {
            let pattern = pattern.as_ref();
            let (bare, is_directory) = match pattern.strip_suffix('/') {
                Some(bare) => (bare, true),
                None => (pattern, false),
            };
            let is_path = bare.contains('/');
            let bare = bare.strip_prefix('/').unwrap_or(bare);
            if bare.split('/').any(|name| matches!(name, "" | "." | "..")) {
                return Err(PatternError::NoName(pattern.to_owned()));
            }
            let glob = GlobBuilder::new(bare).literal_separator(true).build();
            let glob = glob.map_err(PatternError::Malformed)?;
            sets[usize::from(is_directory) * 2 + usize::from(is_path)].push(glob);
        }
        let [names, paths, directory_names, directory_paths] = sets.map(|globs| {
            let mut set = GlobSetBuilder::new();
            for glob in globs {
                set.add(glob);
            }
            set.build().map_err(PatternError::Malformed)
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
        self.names.is_match(name) || !self.paths.is_empty() && self.paths.is_match(path())
    }
}
