//! The options of a verification.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::thread;

use super::report::{ReportFilter, ReportFormat};
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::kind::ManifestKind;

/// The options of a verification: what to verify, and what to report.
#[derive(Clone, Debug)]
#[must_use = "nothing is verified until it is given to check"]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
pub struct Options {
    pub(super) directories: Vec<PathBuf>,
    pub(super) hash_file: Option<PathBuf>,
    pub(super) hash: Option<ChecksumAlgorithm>,
    kind: Option<ManifestKind>,
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
    /// Verifies the working directory against its manifests, on all processors, and reports
    /// everything.
    pub fn new() -> Self {
        Self {
            directories: Vec::new(),
            hash_file: None,
            hash: None,
            kind: None,
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
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directories.push(directory.into());
        self
    }

    /// Verifies every tree against this list. `-` is standard input.
    pub fn hash_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.hash_file = Some(file.into());
        self
    }

    /// Sets the algorithm of the lines without a tag. Lines with a different number of digits are
    /// improperly formatted then. By default the number of digits and the name of the list
    /// [imply](ChecksumAlgorithm::from_list) the algorithm. Without a list, records of other
    /// algorithms are skipped.
    pub fn hash(mut self, algorithm: impl Into<ChecksumAlgorithm>) -> Self {
        self.hash = Some(algorithm.into());
        self
    }

    /// Sets the kind of the manifests. By default each kind that the root of a tree has is verified,
    /// one after another.
    pub fn manifest(mut self, kind: ManifestKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// The kinds of the manifests to verify in the root of a tree. There is at least one.
    pub(super) fn kinds_in(&self, root: BorrowedFd<'_>) -> io::Result<Vec<ManifestKind>> {
        if let Some(kind) = self.kind {
            return Ok(vec![kind]);
        }
        let mut kinds = ManifestKind::present(root)?;
        if kinds.is_empty() {
            kinds.push(ManifestKind::default());
        }
        Ok(kinds)
    }

    /// Whether a path with backslashes, in a line without escapes, is tried with slashes in their
    /// place if it does not exist as it stands. Lists from Windows have such paths. Default: yes.
    pub fn convert_paths(mut self, convert_paths: bool) -> Self {
        self.converts_paths = convert_paths;
        self
    }

    /// Does not report files that have their digests, like `sha256sum --quiet`.
    pub fn silent(mut self, silent: bool) -> Self {
        self.filter = if silent {
            ReportFilter::Failures
        } else {
            ReportFilter::Everything
        };
        self
    }

    /// Adds to the line of each file the algorithm, the number of bytes and the rate. Default: no.
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
    pub fn json(mut self, json: bool) -> Self {
        self.format = if json {
            ReportFormat::Json
        } else {
            ReportFormat::Text
        };
        self
    }

    /// Whether the warnings and the [total](Self::total) are written at the end. Default: yes.
    pub fn summary(mut self, summary: bool) -> Self {
        self.has_summary = summary;
        self
    }

    /// Whether standard error gets a total at the end: files, bytes, time, rate and results.
    /// Default: no.
    pub fn total(mut self, total: bool) -> Self {
        self.has_total = total;
        self
    }

    /// How many bytes each thread reads at once. Default: depends on the file.
    pub fn block_size(mut self, block_size: NonZeroUsize) -> Self {
        self.block_size = Some(block_size);
        self
    }

    /// Hashes each file of 256 KiB and more in a thread beside the one that reads it. This many
    /// blocks may wait between the two. By default the thread that reads a file hashes it too.
    pub fn queue_size(mut self, queue_size: NonZeroUsize) -> Self {
        self.queue_size = Some(queue_size);
        self
    }

    /// Whether files that no manifest lists are failures, and, with a [list](Self::hash_file),
    /// improperly formatted lines. Default: no.
    pub fn strict(mut self, strict: bool) -> Self {
        self.is_strict = strict;
        self
    }

    /// How many threads read. Default: the number of processors.
    pub fn threads(mut self, n_threads: NonZeroUsize) -> Self {
        self.n_threads = n_threads.get();
        self
    }

    /// How many levels of a tree are open at once while it is searched for unlisted files. Default:
    /// 64.
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
