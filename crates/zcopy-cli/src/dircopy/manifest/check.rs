//! Verifies trees against their sum files.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;

use super::checksum::ChecksumAlgorithm;
use super::event::Event;
use super::lines::Lines;
use super::name;
use super::open_beneath;
use super::report::{Counts, FileResult, Report, ReportFormat, Streams};
use super::total::Total;
use crate::order::{Workshop, in_order};
use crate::quote::quoted;
use crate::{exit, outlet};

pub use options::Options;
pub(in crate::dircopy) use progress::Progress;

use verifier::Verifier;

mod hash_thread;
mod options;
mod progress;
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

/// Verifies trees against their sum files, and says on standard output and standard error what came of it.
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

/// Verifies trees against their sum files, and says what came of it where the caller likes.
///
/// For each file there is a line, in the order of the sum file, in `sha256sum`'s words: `NAME: OK`, `NAME: FAILED`, or
/// `NAME: FAILED open or read`, with names [`quoted`] as `sha256sum` 9.12 does it. Of several trees the lines name the tree too. What else is
/// the matter goes to `stderr`, with `sha256sum`'s warnings at the end of each tree.
///
/// Without a [sum file](Options::hash_file) a tree is verified against the newest in it that was written completely, as
/// its [name](name::Name) tells: one whose last line has no newline is passed over, which is said.
///
/// Paths in a sum file are relative to the tree. Here this is stricter than `sha256sum`: a path that is absolute, or leads out of the tree by
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
/// assert_eq!(stdout, b"good: OK\nbad: FAILED\n");
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
        let checked = Tree::open(directory, options, &mut streams)
            .map_err(TreeError::Unreadable)
            .and_then(|tree| tree.verify(options, &null, progress, &mut streams, &mut counts));
        match checked {
            Ok(Outcome::Verified) => {}
            Ok(Outcome::Failed) => outcome = Outcome::Failed,
            Err(TreeError::Unreadable((file, error))) => {
                streams.complain(&file, &error);
                if options.format == ReportFormat::Json {
                    let path = file.to_string_lossy();
                    let message = exit::worded(&error);
                    let event = Event::Error { path, message };
                    let written = streams.stdout.write_all(event.line().as_bytes());
                    written.context("write error")?;
                }
                n_errors += 1;
                outcome = Outcome::Failed;
            }
            Err(TreeError::Output(error)) => return Err(error).context("write error"),
        }
    }
    let total = Total::new(counts, n_errors, progress.bytes(), started.elapsed());
    Ok(Checked { outcome, total })
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

/// Why a tree could not be verified to its end.
enum TreeError {
    /// The tree or its list could not be read.
    Unreadable((PathBuf, io::Error)),
    /// Standard output takes nothing.
    Output(io::Error),
}

/// A tree, and the sum file for it.
struct Tree<'a> {
    path: &'a Path,
    root: OwnedFd,
    sum_file: PathBuf,
    sums: File,
}

impl<'a> Tree<'a> {
    /// Opens both, or tells which of them cannot be opened.
    fn open(
        path: &'a Path,
        options: &Options,
        streams: &mut Streams<'_>,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let root = open_beneath::directory(path).map_err(|error| (path.to_owned(), error))?;
        let (sum_file, sums) = if let Some(file) = &options.hash_file {
            let opened = if file == Path::new("-") {
                let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
                stdin.map(File::from).map_err(io::Error::from)
            } else {
                File::open(file)
            };
            (file.clone(), opened.map_err(|error| (file.clone(), error))?)
        } else {
            newest(path, root.as_fd(), options.hash, streams)?
        };
        Ok(Self {
            path,
            root,
            sum_file,
            sums,
        })
    }

    /// Verifies every file that the sum file lists, and adds the results to `total`.
    fn verify(
        self,
        options: &Options,
        null: &File,
        progress: &Progress,
        streams: &mut Streams<'_>,
        total: &mut Counts,
    ) -> Result<Outcome, TreeError> {
        let mut report = Report {
            streams,
            directory: self.path,
            filter: options.filter,
            format: options.format,
            names_directory: options.directories.len() > 1,
            counts: Counts::default(),
            lines: Vec::new(),
        };
        let mut broken = None;
        let mut lines = Lines::of(&self.sums);
        let next = || {
            lines.next().unwrap_or_else(|error| {
                broken = Some(error);
                None
            })
        };
        let (root, list) = (self.root.as_fd(), &self.sum_file);
        let written = thread::scope(|scope| {
            let workshop = Workshop {
                next,
                start: || {
                    let mut verifier = Verifier::new(root, null, options, progress, scope);
                    move |line| verifier.verify(line, list)
                },
                weigh: FileResult::weight,
                deliver: |due: &mut dyn Iterator<Item = FileResult>| report.take(due),
            };
            in_order(options.n_threads, workshop)
        });
        let counts = report.counts;
        total.add_all(&counts);
        written.map_err(TreeError::Output)?;
        if let Some(error) = broken {
            return Err(TreeError::Unreadable((self.sum_file, error)));
        }
        if counts.files() == 0 {
            let error = io::Error::other("no properly formatted checksum lines found");
            return Err(TreeError::Unreadable((self.sum_file, error)));
        }
        if options.has_summary {
            for warning in counts.warnings() {
                streams.say(&warning);
            }
        }
        Ok(if counts.is_success() {
            Outcome::Verified
        } else {
            Outcome::Failed
        })
    }
}

/// The newest sum file in the directory that was written to its end.
fn newest(
    path: &Path,
    root: BorrowedFd<'_>,
    algorithm: Option<ChecksumAlgorithm>,
    streams: &mut Streams<'_>,
) -> Result<(PathBuf, File), (PathBuf, io::Error)> {
    let names = name::all_in(path).map_err(|error| (path.to_owned(), error))?;
    for name in names {
        if algorithm.is_some_and(|algorithm| algorithm != name.algorithm().into()) {
            continue;
        }
        let name = name.to_string();
        let full = path.join(&name);
        let opened = open_beneath::open(root, name.as_bytes())
            .and_then(|file| is_complete(&file).map(|is_complete| (file, is_complete)));
        match opened {
            Ok((file, true)) => return Ok((full, file)),
            Ok((_, false)) => {
                let full = quoted(full.as_os_str());
                streams.say(&format!("{full}: passed over: its last line is cut off"));
            }
            Err(error) => return Err((full, error)),
        }
    }
    Err((path.to_owned(), io::Error::other("no sum file found")))
}

/// Whether the last line has its newline.
fn is_complete(mut file: &File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(last == *b"\n")
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

#[cfg(test)]
mod tests;
