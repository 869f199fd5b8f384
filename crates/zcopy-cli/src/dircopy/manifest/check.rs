//! Verifies trees against their manifests.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context as _;

use super::event::Event;
use super::report::{Counts, ReportFormat, Streams};
use super::total::Total;
use crate::{exit, outlet};

pub use options::Options;
pub(in crate::dircopy) use progress::Progress;

use tree::{Tree, TreeError};

mod expected;
mod hash_thread;
mod options;
mod progress;
mod tree;
mod verifier;

/// What came of verifying.
///
/// # Examples
///
/// See [`check_into`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it is the only way to tell"]
pub enum Outcome {
    /// Every file that is listed has its digest.
    Verified,
    /// One has another, or could not be read, or there was no list. It has been said which.
    Failed,
}

/// Verifies trees against their manifests, and says on standard output and standard error what came of it.
///
/// # Errors
///
/// As [`check_into`].
///
/// # Examples
///
/// ```
/// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check};
///
/// let tree = tempfile::tempdir()?;
/// assert_eq!(check(&Options::new().directory(tree.path()))?, Outcome::Failed);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn check(options: &Options) -> anyhow::Result<Outcome> {
    check_into(options, &mut Stdout, &mut io::stderr())
}

/// Verifies trees against their manifests, and says what came of it where the caller likes.
///
/// For each file there is a line, in the order of the paths, or of the list that was named, in `sha256sum`'s words: `NAME: OK`, `NAME: FAILED`, or
/// `NAME: FAILED open or read`, with names [quoted](crate::quote::quoted) as `sha256sum` 9.12 does it. Of several trees the lines name the tree too. What else is
/// the matter goes to `stderr`, with `sha256sum`'s warnings at the end of each tree.
///
/// Without a [list](Options::hash_file) every path that any manifest in the root of the tree knows is
/// verified against its newest line. A manifest that is damaged is a failure, and so is a file that
/// no manifest lists and of which a map beside it says that bytes are missing: `NAME: FAILED damaged`.
///
/// Paths in a manifest are relative to the tree. Here this is stricter than `sha256sum`: a path that is absolute, or leads out of the tree by
/// `..` or by a symbolic link, is not opened, and neither is what is no regular file; they could not be read. And the
/// name `-` is a file.
///
/// Lines that are none are counted and change nothing else, unless there are no others.
///
/// With [`json`](Options::json) `stdout` gets objects instead of these lines. `stderr` gets the same
/// messages.
///
/// # Errors
///
/// `stdout` takes nothing; there is no `/dev/null`. All else is an [`Outcome`].
///
/// # Examples
///
/// ```
/// use zcopy_cli::dircopy::manifest::check::{Options, Outcome, check_into};
/// use zcopy_cli::digest::{Algorithm, Stream};
/// use zcopy_cli::dircopy::manifest::line;
///
/// let tree = tempfile::tempdir()?;
/// std::fs::write(tree.path().join("good"), "")?;
/// std::fs::write(tree.path().join("bad"), "x")?;
/// let digest = Stream::new(Algorithm::Sha256).finish();
/// let mut sums = Vec::new();
/// line::write(&digest, b"good", &mut sums);
/// line::write(&digest, b"bad", &mut sums);
/// std::fs::write(tree.path().join("shasum.2026-11-21.18.14.38.txt"), sums)?;
///
/// let options = Options::new().directory(tree.path());
/// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
/// let outcome = check_into(&options, &mut stdout, &mut stderr)?;
/// assert_eq!(outcome, Outcome::Failed);
/// assert_eq!(stdout, b"bad: FAILED\ngood: OK\n");
/// assert!(stderr.ends_with(b": WARNING: 1 computed checksum did NOT match\n"));
///
/// let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
/// let _ = check_into(&options.silent(true).summary(false), &mut stdout, &mut stderr)?;
/// assert_eq!((&stdout[..], &stderr[..]), (&b"bad: FAILED\n"[..], &b""[..]));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn check_into(
    options: &Options,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
) -> anyhow::Result<Outcome> {
    let progress = Progress::default();
    let checked = check_trees(options, stdout, stderr, &progress)?;
    write_total(options, &checked.total, stdout, stderr)?;
    Ok(checked.outcome)
}

/// The result of [`check_trees`].
pub(in crate::dircopy) struct Checked {
    pub(in crate::dircopy) outcome: Outcome,
    pub(in crate::dircopy) total: Total,
}

/// Does what [`check_into`] does, except for the total at the end, and tells `progress` how far it
/// is.
pub(in crate::dircopy) fn check_trees(
    options: &Options,
    stdout: &mut (dyn Write + Send),
    stderr: &mut (dyn Write + Send),
    progress: &Progress,
) -> anyhow::Result<Checked> {
    let started = Instant::now();
    let null = File::options().write(true).open("/dev/null");
    let null = null.context("/dev/null")?;
    let mut streams = Streams { stdout, stderr };
    let here = [PathBuf::from(".")];
    let directories = match &options.directories[..] {
        [] => &here[..],
        directories => directories,
    };
    let mut outcome = Outcome::Verified;
    let mut counts = Counts::default();
    let mut n_errors = 0;
    for directory in directories {
        let mut complain = |(file, error): (PathBuf, io::Error), streams: &mut Streams<'_>| {
            n_errors += 1;
            complain_of_list(&file, &error, options.format, streams)
        };
        let checked = match Tree::open(directory, options) {
            Ok(mut tree) => {
                for damage in &mut tree.damaged {
                    let damage = (damage.0.clone(), io::Error::other(damage.1.to_string()));
                    complain(damage, &mut streams)?;
                }
                tree.verify(options, &null, progress, &mut streams, &mut counts)
            }
            Err(error) => Err(TreeError::Unreadable(error)),
        };
        match checked {
            Ok(Outcome::Verified) => {}
            Ok(Outcome::Failed) => outcome = Outcome::Failed,
            Err(TreeError::Unreadable(error)) => {
                complain(error, &mut streams)?;
                outcome = Outcome::Failed;
            }
            Err(TreeError::Output(error)) => return Err(error).context("write error"),
        }
    }
    let total = Total::new(counts, n_errors, progress.bytes(), started.elapsed());
    Ok(Checked { outcome, total })
}

/// Reports a tree or a list that cannot be read.
fn complain_of_list(
    file: &Path,
    error: &io::Error,
    format: ReportFormat,
    streams: &mut Streams<'_>,
) -> anyhow::Result<()> {
    streams.complain(file, error);
    if format == ReportFormat::Json {
        let path = file.to_string_lossy();
        let message = exit::worded(error);
        let event = Event::Error { path, message };
        let written = streams.stdout.write_all(event.line().as_bytes());
        written.context("write error")?;
    }
    Ok(())
}

/// Writes the total, if the options ask for one.
pub(in crate::dircopy) fn write_total(
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
            streams.say(&line);
        }
    }
    Ok(())
}

/// Standard output, at once.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        outlet::write_all(rustix::stdio::stdout(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
