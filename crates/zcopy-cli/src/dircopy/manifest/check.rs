//! Verifies trees against their manifests.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::io::fd_writer;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::null::open_null;
use crate::dircopy::interrupt::Interrupt;
use counts::Counts;
use event::Event;
use report::{ReportFormat, Streams};
use total::{ErrorCounts, Total};

pub use options::Options;
pub(crate) use progress::Progress;

use root::{Expected, ListError, Root};
use tree::{Tree, TreeError};

pub(crate) mod event;
pub(crate) mod total;

mod counts;
mod expected;
mod hash_thread;
mod options;
mod progress;
mod recheck;
mod report;
mod root;
mod suspects;
mod tree;
mod unlisted;
mod verdict;
mod verifier;

/// The result of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the verification may have failed"]
pub enum Outcome {
    /// Every listed file has its digest.
    Verified,
    /// A file has another digest or could not be read, or there was no list. Each failure has been
    /// reported.
    Failed,
}

/// Verifies trees against their manifests, and reports to standard output and standard error.
///
/// # Errors
///
/// The errors of [`check_into`].
pub fn check(options: &Options) -> anyhow::Result<Outcome> {
    check_into(options, &mut Stdout, &mut io::stderr())
}

/// Verifies trees against their manifests, and reports to `stdout` and `stderr`.
///
/// `stdout` gets a line for each file, in the order of the paths, or of the list that was named.
/// The lines are `sha256sum`'s: `NAME: OK`, `NAME: FAILED`, or `NAME: FAILED open or read`, with
/// names [quoted] as `sha256sum` 9.12 does it. If there are several trees, each line also names the
/// tree. `stderr` gets all errors, and `sha256sum`'s warnings at the end of each tree.
///
/// Without a [list](Options::hash_file) every path that any manifest in the root of the tree knows
/// is verified against its newest line. Where a tree has manifests of several kinds, its files are
/// verified against each of them, one after another, and each time count anew. A damaged manifest
/// is a failure. So is a file that no manifest lists, if a map beside it says that bytes are
/// missing: `NAME: FAILED damaged`.
///
/// If another run changes the tree meanwhile, a file may differ from the record that was read at
/// the beginning. At the end such files are verified once more, against the records of that moment,
/// and their lines come last.
///
/// Paths in a manifest are relative to the tree. This is stricter than `sha256sum`: a path fails
/// with `open or read` if it is absolute, if it leads out of the tree by `..` or by a symbolic
/// link, or if it names no regular file. The name `-` is a file.
///
/// Malformed lines are counted. They are a failure only with [`strict`](Options::strict), or if the
/// list has no other lines.
///
/// With [`json`](Options::json) `stdout` gets objects instead of these lines. `stderr` gets the
/// same messages.
///
/// # Errors
///
/// `stdout` cannot be written to, or `/dev/null` cannot be opened. Every other error is reported,
/// and the result is [`Outcome::Failed`].
pub fn check_into(
    options: &Options,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
) -> anyhow::Result<Outcome> {
    let progress = Progress::default();
    let interrupt = Interrupt::default();
    let checked = check_trees(options, stdout, stderr, &progress, &interrupt)?;
    write_total(options, &checked.total, stdout, stderr)?;
    Ok(checked.outcome)
}

/// The result of [`check_trees`].
pub(crate) struct Checked {
    pub(crate) outcome: Outcome,
    pub(crate) total: Total,
}

/// The options and the state that the trees of a verification share.
#[derive(Clone, Copy, Debug)]
struct Shared<'a> {
    options: &'a Options,
    /// `/dev/null`, opened for writing.
    null: &'a File,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

impl Shared<'_> {
    /// Whether files with digests of this algorithm are verified.
    fn wants(self, file: FileDigest) -> bool {
        let only = self.options.hash;
        only.is_none_or(|only| file.checksum(only).is_some())
    }
}

/// Does what [`check_into`] does, except for the total at the end, and counts in `progress`.
/// A signal that `interrupt` catches ends it early.
pub(crate) fn check_trees(
    options: &Options,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<Checked> {
    let started = Instant::now();
    let null = open_null()?;
    let shared = Shared {
        options,
        null: &null,
        progress,
        interrupt,
    };
    let mut streams = Streams { stdout, stderr };
    let here = [PathBuf::from(".")];
    let directories = match &options.directories[..] {
        [] => &here[..],
        directories => directories,
    };
    progress.expect_trees(directories.len());
    let mut results = Results::default();
    for directory in directories {
        if interrupt.is_requested() {
            break;
        }
        results.check_tree(directory, shared, &mut streams)?;
    }
    let Results {
        has_failed,
        counts,
        errors,
    } = results;
    let outcome = if has_failed {
        Outcome::Failed
    } else {
        Outcome::Verified
    };
    let (bytes, elapsed) = (progress.bytes(), started.elapsed());
    let total = Total::new(outcome, counts, errors, bytes, elapsed);
    Ok(Checked { outcome, total })
}

/// The results of several trees.
#[derive(Debug, Default)]
struct Results {
    has_failed: bool,
    counts: Counts,
    errors: ErrorCounts,
}

impl Results {
    /// Verifies a tree against the list, or against each kind of manifests that it has.
    fn check_tree(
        &mut self,
        directory: &Path,
        shared: Shared<'_>,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        let Shared {
            options, progress, ..
        } = shared;
        let root = match Root::open(directory, options) {
            Ok(root) => root,
            Err(error) => {
                progress.add_counted_tree();
                return self.add_error(&error, options.format, streams);
            }
        };
        let all_expected = root.expected();
        progress.expect_more_trees(all_expected.len() - 1);
        let is_told = all_expected.len() > 1 && options.has_summary && options.has_total;
        for expected in all_expected {
            if shared.interrupt.is_requested() {
                break;
            }
            if let Expected::Manifests(kind) = expected
                && is_told
            {
                let (tree, word) = (quoted(directory.as_os_str()), kind.word());
                streams.write_message(&format!(
                    "{tree}: verifying against its manifests (--manifest={word})"
                ));
            }
            let verified = match Tree::open(&root, expected, shared) {
                Ok(tree) => {
                    for error in &tree.damaged {
                        self.errors.damaged_manifests += 1;
                        report_list_error(error, options.format, streams)?;
                    }
                    for error in &tree.unsearched {
                        self.add_error(error, options.format, streams)?;
                    }
                    tree.verify(streams, &mut self.counts)
                }
                Err(error) => {
                    progress.add_counted_tree();
                    Err(TreeError::List(error))
                }
            };
            match verified {
                Ok(Outcome::Verified) => {}
                Ok(Outcome::Failed) => self.has_failed = true,
                Err(TreeError::List(error)) => self.add_error(&error, options.format, streams)?,
                Err(TreeError::Output(error)) => return Err(error).context("write error"),
            }
        }
        Ok(())
    }

    /// Reports and counts a tree or a list that cannot be read.
    fn add_error(
        &mut self,
        error: &ListError,
        format: ReportFormat,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<()> {
        self.errors.others += 1;
        self.has_failed = true;
        report_list_error(error, format, streams)
    }
}

/// Reports a tree, a manifest or a list that cannot be read.
fn report_list_error(
    ListError { path, error }: &ListError,
    format: ReportFormat,
    streams: &mut Streams<'_>,
) -> anyhow::Result<()> {
    streams.report_error(path, error);
    if format == ReportFormat::Json {
        let path = path.to_string_lossy();
        let message = message::worded(error);
        let event = Event::Error { path, message };
        let written = streams.stdout.write_all(event.line().as_bytes());
        written.context("write error")?;
    }
    Ok(())
}

/// Writes the total, if the options ask for one.
pub(crate) fn write_total(
    options: &Options,
    total: &Total,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
) -> anyhow::Result<()> {
    if !options.has_summary {
        return Ok(());
    }
    if options.format == ReportFormat::Json {
        let line = Event::Summary(total).line();
        stdout.write_all(line.as_bytes()).context("write error")?;
    } else if options.has_total {
        let mut streams = Streams { stdout, stderr };
        for line in total.lines() {
            streams.write_message(&line);
        }
    }
    Ok(())
}

/// Standard output, unbuffered.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        fd_writer::write_all(rustix::stdio::stdout(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Standard output that cuts a manifest when it gets the first result.
    struct Cutter(PathBuf);

    impl Write for Cutter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            std::fs::write(&self.0, "")?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_total_counts_files_of_a_manifest_that_is_cut_meanwhile() {
        let tree = tempfile::tempdir().unwrap();
        let manifest = tree.path().join("shasum.2026-11-21.18.14.38.txt");
        let digest = "0".repeat(64);
        let lines: Vec<_> = (0..20_000).map(|n| format!("{digest}  {n:06}\n")).collect();
        std::fs::write(&manifest, lines.concat()).unwrap();
        std::fs::write(tree.path().join("unlisted"), "").unwrap();
        let options = Options::new().directory(tree.path()).strict(true);
        let options = options.total(true).threads(std::num::NonZeroUsize::MIN);
        let mut stderr = Vec::new();
        let outcome = check_into(&options, &mut Cutter(manifest), &mut stderr).unwrap();
        assert_eq!(outcome, Outcome::Failed);
        let stderr = String::from_utf8(stderr).unwrap();
        let last = stderr.lines().last().unwrap();
        assert!(last.contains(": 0 matching, 0 differing, "), "{last}");
        assert!(!last.contains(" 0 missing"), "{last}");
    }
}
