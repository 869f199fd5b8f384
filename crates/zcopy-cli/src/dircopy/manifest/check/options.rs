//! What to verify, and what to say of it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use crate::digest::Algorithm;
#[cfg(doc)]
use crate::dircopy::manifest::name::algorithm_of;
use crate::dircopy::manifest::report::ReportFilter;

/// What to verify, and what to say of it.
///
/// # Examples
///
/// See [`check_into`](super::check_into).
#[derive(Clone, Debug)]
#[must_use = "nothing is verified until it is given to check"]
pub struct Options {
    pub(super) directories: Vec<PathBuf>,
    pub(super) hash_file: Option<PathBuf>,
    pub(super) hash: Option<Algorithm>,
    pub(super) filter: ReportFilter,
    pub(super) has_summary: bool,
    pub(super) n_threads: usize,
}

impl Options {
    /// Verifies the working directory against the newest sum file in it, on all processors, and tells everything.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn new() -> Self {
        Self {
            directories: Vec::new(),
            hash_file: None,
            hash: None,
            filter: ReportFilter::Everything,
            has_summary: true,
            n_threads: thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }

    /// Verifies this tree too. The first takes the place of the working directory.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directories.push(directory.into());
        self
    }

    /// Verifies every tree against this sum file, of which `-` is standard input.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn hash_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.hash_file = Some(file.into());
        self
    }

    /// By which algorithm digests are whose lines do not tell. Without it the [name](algorithm_of) of the sum file does. Sum files
    /// that are called after the other algorithm are not looked for.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
    /// use zcopy_cli::digest::{Algorithm, Stream};
    ///
    /// let tree = tempfile::tempdir()?;
    /// std::fs::write(tree.path().join("empty"), "")?;
    /// let digest = Stream::new(Algorithm::Blake3).finish();
    /// std::fs::write(tree.path().join("sums"), format!("{digest}  empty\n"))?;
    ///
    /// let options = Options::new().directory(tree.path()).hash_file(tree.path().join("sums"));
    /// let mut says = Vec::new();
    /// let outcome = check_into(&options, &mut says, &mut std::io::sink())?;
    /// assert_eq!((outcome, &says[..]), (Outcome::Failed, &b"empty: FAILED\n"[..]));
    /// let outcome = check_into(&options.hash(Algorithm::Blake3), &mut says, &mut std::io::sink())?;
    /// assert_eq!(outcome, Outcome::Verified);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn hash(mut self, algorithm: Algorithm) -> Self {
        self.hash = Some(algorithm);
        self
    }

    /// Says nothing of files that have their digests, as `sha256sum --quiet`.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn silent(mut self, silent: bool) -> Self {
        self.filter = if silent {
            ReportFilter::Failures
        } else {
            ReportFilter::Everything
        };
        self
    }

    /// Whether it is told at the end how many lines came to what. Default: yes.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn summary(mut self, summary: bool) -> Self {
        self.has_summary = summary;
        self
    }

    /// How many threads read. Default: as many as there are processors.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn threads(mut self, n_threads: NonZeroUsize) -> Self {
        self.n_threads = n_threads.get();
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
