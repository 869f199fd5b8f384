//! The options of a verification.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use super::report::{ReportFilter, ReportFormat};
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;

/// The options of a verification: what to verify, and what to report.
///
/// # Examples
///
/// See [`check_into`](super::check_into).
#[derive(Clone, Debug)]
#[must_use = "nothing is verified until it is given to check"]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
pub struct Options {
    pub(super) directories: Vec<PathBuf>,
    pub(super) hash_file: Option<PathBuf>,
    pub(super) hash: Option<ChecksumAlgorithm>,
    pub(super) converts_paths: bool,
    pub(super) is_strict: bool,
    pub(super) filter: ReportFilter,
    pub(super) format: ReportFormat,
    pub(super) has_summary: bool,
    pub(super) has_total: bool,
    pub(super) n_threads: usize,
    /// How many levels of a tree are open at once while it is searched for unlisted files.
    pub(super) most_open: usize,
    pub(super) block_size: Option<NonZeroUsize>,
    pub(super) queue_size: Option<NonZeroUsize>,
}

impl Options {
    /// Verifies the working directory against its manifests, on all processors, and reports everything.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn new() -> Self {
        Self {
            directories: Vec::new(),
            hash_file: None,
            hash: None,
            converts_paths: true,
            is_strict: false,
            filter: ReportFilter::Everything,
            format: ReportFormat::Text,
            has_summary: true,
            has_total: false,
            n_threads: thread::available_parallelism().map_or(1, NonZeroUsize::get),
            most_open: 64,
            block_size: None,
            queue_size: None,
        }
    }

    /// Adds a tree. The first one replaces the working directory.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directories.push(directory.into());
        self
    }

    /// Verifies every tree against this list. `-` is standard input.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn hash_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.hash_file = Some(file.into());
        self
    }

    /// Sets the algorithm of the lines without a tag. Lines with a different number of digits are
    /// improperly formatted then. By default the number of digits and the name of the list
    /// [imply](ChecksumAlgorithm::from_list) the algorithm. Without a list, records of other algorithms
    /// are skipped.
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
    pub fn hash(mut self, algorithm: impl Into<ChecksumAlgorithm>) -> Self {
        self.hash = Some(algorithm.into());
        self
    }

    /// Whether a path with backslashes, in a line without escapes, is tried with slashes in their
    /// place if it does not exist as it stands. Lists from Windows have such paths. Default: yes.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
    ///
    /// let tree = tempfile::tempdir()?;
    /// std::fs::create_dir(tree.path().join("dir"))?;
    /// std::fs::write(tree.path().join("dir/empty"), "")?;
    /// let line = "d41d8cd98f00b204e9800998ecf8427e  dir\\empty\n";
    /// std::fs::write(tree.path().join("md5sums"), line)?;
    ///
    /// let options = Options::new().directory(tree.path()).hash_file(tree.path().join("md5sums"));
    /// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    /// let outcome = check_into(&options, &mut stdout, &mut stderr)?;
    /// assert_eq!(outcome, Outcome::Verified);
    /// let outcome = check_into(&options.convert_paths(false), &mut stdout, &mut stderr)?;
    /// assert_eq!(outcome, Outcome::Failed);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn convert_paths(mut self, convert_paths: bool) -> Self {
        self.converts_paths = convert_paths;
        self
    }

    /// Does not report files that have their digests, like `sha256sum --quiet`.
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

    /// Adds to the line of each file the algorithm, the number of bytes and the rate. Default: no.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.format = if verbose {
            ReportFormat::Verbose
        } else {
            ReportFormat::Text
        };
        self
    }

    /// Writes JSON objects to standard output, one a line, instead of text: an event `file` for
    /// each file, `error` for each tree or list that could not be read, and `summary` at the end.
    /// This overrides [`verbose`](Self::verbose).
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::dircopy::manifest::check::{Options, check_into};
    ///
    /// let tree = tempfile::tempdir()?;
    /// std::fs::write(tree.path().join("sums"), "d41d8cd98f00b204e9800998ecf8427e  a\n")?;
    ///
    /// let options = Options::new().directory(tree.path()).hash_file(tree.path().join("sums"));
    /// let mut stdout = Vec::new();
    /// let _ = check_into(&options.json(true), &mut stdout, &mut std::io::sink())?;
    /// let stdout = String::from_utf8(stdout)?;
    /// let lines: Vec<&str> = stdout.lines().collect();
    /// assert!(lines[0].starts_with(r#"{"event":"file","#) && lines[0].contains(r#""missing""#));
    /// assert!(lines[1].starts_with(r#"{"event":"summary","state":"failed","#));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn json(mut self, json: bool) -> Self {
        self.format = if json {
            ReportFormat::Json
        } else {
            ReportFormat::Text
        };
        self
    }

    /// Whether the warnings and the [total](Self::total) are written at the end. Default: yes.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn summary(mut self, summary: bool) -> Self {
        self.has_summary = summary;
        self
    }

    /// Whether standard error gets a total at the end: files, bytes, time, rate and results.
    /// Default: no.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::dircopy::manifest::check::{Options, check_into};
    ///
    /// let tree = tempfile::tempdir()?;
    /// std::fs::write(tree.path().join("a"), "")?;
    /// std::fs::write(tree.path().join("sums"), "d41d8cd98f00b204e9800998ecf8427e  a\n")?;
    ///
    /// let options = Options::new().directory(tree.path()).hash_file(tree.path().join("sums"));
    /// let mut stderr = Vec::new();
    /// let _ = check_into(&options.total(true), &mut std::io::sink(), &mut stderr)?;
    /// let stderr = String::from_utf8(stderr)?;
    /// assert!(stderr.contains(": 1 file, 0 bytes in "));
    /// assert!(stderr.ends_with(": 1 matching, 0 differing, 0 missing, 0 unreadable\n"));
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn total(mut self, total: bool) -> Self {
        self.has_total = total;
        self
    }

    /// How many bytes each thread reads at once. Default: depends on the file.
    ///
    /// # Examples
    ///
    /// See [`queue_size`](Self::queue_size).
    pub fn block_size(mut self, block_size: NonZeroUsize) -> Self {
        self.block_size = Some(block_size);
        self
    }

    /// Hashes each file of 256 KiB and more in a thread beside the one that reads it. This many
    /// blocks may wait between the two. By default the thread that reads a file hashes it too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
    ///
    /// let tree = tempfile::tempdir()?;
    /// std::fs::write(tree.path().join("zeros"), vec![0; 1 << 20])?;
    /// let line = "b6d81b360a5672d80c27430f39153e2c  zeros\n";
    /// std::fs::write(tree.path().join("sums"), line)?;
    ///
    /// let options = Options::new().directory(tree.path()).hash_file(tree.path().join("sums"));
    /// let options = options.queue_size(NonZeroUsize::new(4).unwrap());
    /// let options = options.block_size(NonZeroUsize::new(64 << 10).unwrap());
    /// let outcome = check_into(&options, &mut std::io::sink(), &mut std::io::sink())?;
    /// assert_eq!(outcome, Outcome::Verified);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn queue_size(mut self, queue_size: NonZeroUsize) -> Self {
        self.queue_size = Some(queue_size);
        self
    }

    /// Whether files that no manifest lists are failures, and, with a [list](Self::hash_file),
    /// improperly formatted lines. Default: no.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy_cli::digest::{Algorithm, Stream};
    /// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
    ///
    /// let tree = tempfile::tempdir()?;
    /// let digest = Stream::new(Algorithm::Sha256).finish();
    /// let line = format!("{digest}  listed\n");
    /// std::fs::write(tree.path().join("shasum.2026-11-21.18.14.38.txt"), line)?;
    /// for file in ["listed", "other"] {
    ///     std::fs::write(tree.path().join(file), "")?;
    /// }
    ///
    /// let options = Options::new().directory(tree.path());
    /// let mut stdout = Vec::new();
    /// let outcome = check_into(&options.strict(true), &mut stdout, &mut std::io::sink())?;
    /// assert_eq!(outcome, Outcome::Failed);
    /// assert_eq!(stdout, b"listed: OK\nother: FAILED not listed\n");
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    pub fn strict(mut self, strict: bool) -> Self {
        self.is_strict = strict;
        self
    }

    /// How many threads read. Default: the number of processors.
    ///
    /// # Examples
    ///
    /// See [`check_into`](super::check_into).
    pub fn threads(mut self, n_threads: NonZeroUsize) -> Self {
        self.n_threads = n_threads.get();
        self
    }

    /// How many levels of a tree are open at once while it is searched for unlisted files. Default: 64.
    pub(crate) fn most_open(mut self, n_levels: usize) -> Self {
        self.most_open = n_levels;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}
