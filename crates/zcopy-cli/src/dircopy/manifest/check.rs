//! Verifies trees against their manifests.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;

use super::archive::{Archive, Verify};
use super::checksum::ChecksumAlgorithm;
use super::event::Event;
use super::lines::Lines;
use super::merge::Records;
use super::open_beneath;
use super::record::{Announced, FileDigest};
use super::report::{Counts, FileResult, Report, ReportFormat, Streams, Verdict};
use super::total::Total;
use super::unlisted::{Find, Unlisted, UnlistedFile};
use crate::dircopy::prescan::Total as Expected;
use crate::order::{Workshop, in_order};
use crate::{exit, outlet};

pub use options::Options;
pub(in crate::dircopy) use progress::Progress;

use verifier::{Job, Verifier};

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

/// Why a tree could not be verified to its end.
enum TreeError {
    /// The tree or its list could not be read.
    Unreadable((PathBuf, io::Error)),
    /// Standard output takes nothing.
    Output(io::Error),
}

/// A tree, and the digests that its files should have.
struct Tree<'a> {
    path: &'a Path,
    root: OwnedFd,
    list: List,
    /// Manifests that cannot be believed.
    damaged: Vec<(PathBuf, io::Error)>,
    /// Files without a record that are damaged, and others if these are looked for. None if a list
    /// was named.
    unlisted: Option<Unlisted>,
    /// The manifests, unless a list was named.
    archive: Option<Archive>,
}

/// Where the digests stand.
enum List {
    /// In a file that was named.
    File { path: PathBuf, lines: Lines<File> },
    /// In the manifests of the tree. Digests of other algorithms than this are left out.
    Records(Records, Option<ChecksumAlgorithm>),
}

impl List {
    fn next(&mut self, root: BorrowedFd<'_>, null: &File) -> io::Result<Option<Job>> {
        match self {
            Self::File { lines, .. } => Ok(lines.next()?.map(Job::Line)),
            Self::Records(records, only) => {
                while let Some(record) = records.next()? {
                    let is_wanted =
                        |file: FileDigest| only.is_none_or(|only| only == file.algorithm.into());
                    match record.resolve(root, null) {
                        Ok(Some(file)) if is_wanted(file) => {
                            return Ok(Some(Job::Record(record.path, file)));
                        }
                        Ok(_) => {}
                        // It is not known which digest the file has to have.
                        Err(error) => return Ok(Some(Job::Unreadable(record.path, error))),
                    }
                }
                Ok(None)
            }
        }
    }
}

impl<'a> Tree<'a> {
    /// Opens both, or tells which of them cannot be opened.
    fn open(path: &'a Path, options: &Options) -> Result<Self, (PathBuf, io::Error)> {
        let of_path = |error| (path.to_owned(), error);
        let root = open_beneath::directory(path).map_err(of_path)?;
        if let Some(file) = &options.hash_file {
            let opened = if file == Path::new("-") {
                let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
                stdin.map(File::from).map_err(io::Error::from)
            } else {
                File::open(file)
            };
            return Ok(Self {
                path,
                root,
                list: List::File {
                    path: file.clone(),
                    lines: Lines::of(opened.map_err(|error| (file.clone(), error))?),
                },
                damaged: Vec::new(),
                unlisted: None,
                archive: None,
            });
        }
        let archive = Archive::open(root.as_fd(), Verify::All, options.converts_paths);
        let archive = archive.map_err(of_path)?;
        if archive.is_empty() {
            return Err(of_path(io::Error::other("no manifest found")));
        }
        let damaged = archive.damaged().iter().map(|(name, damage)| {
            let message = format!("the manifest is damaged: {damage}");
            (path.join(name), io::Error::other(message))
        });
        let find = if options.is_strict {
            Find::All
        } else {
            Find::Damaged
        };
        let unlisted = Unlisted::find(root.as_fd(), &archive, find, options.most_open);
        Ok(Self {
            path,
            unlisted: Some(unlisted.map_err(of_path)?),
            list: List::Records(archive.records().map_err(of_path)?, options.hash),
            damaged: damaged.collect(),
            root,
            archive: Some(archive),
        })
    }

    /// Verifies every file that is listed, and adds the results to `total`.
    fn verify(
        mut self,
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
        let list_path = match &self.list {
            List::File { path, .. } => path.clone(),
            List::Records(..) => self.path.to_owned(),
        };
        let mut broken = None;
        let sized = match &self.list {
            List::Records(_, only) if progress.wants_total() => Some(*only),
            _ => None,
        };
        let is_last = options
            .directories
            .last()
            .is_none_or(|last| last == self.path);
        let is_over = AtomicBool::new(false);
        let archive = self.archive.as_ref();
        let list = &mut self.list;
        let root = self.root.as_fd();
        let next = || {
            list.next(root, null).unwrap_or_else(|error| {
                broken = Some(error);
                None
            })
        };
        let written = thread::scope(|scope| {
            let list_path = &list_path;
            let workshop = Workshop {
                next,
                start: || {
                    let mut verifier = Verifier::new(root, null, options, progress, scope);
                    move |job| verifier.verify(job, list_path)
                },
                weigh: FileResult::weight,
                deliver: |due: &mut dyn Iterator<Item = FileResult>| report.take(due),
            };
            if let (Some(only), Some(archive)) = (sized, archive) {
                let total = progress.total();
                let is_over = &is_over;
                let size = move || {
                    total_size(root, archive, only, total, is_over);
                    if is_last && !is_over.load(Ordering::Relaxed) {
                        total.complete();
                    }
                };
                // Without a thread no total is shown.
                let _ = thread::Builder::new().spawn_scoped(scope, size);
            }
            let written = in_order(options.n_threads, workshop);
            is_over.store(true, Ordering::Relaxed);
            written
        });
        written.map_err(TreeError::Output)?;
        if let Some(unlisted) = &mut self.unlisted {
            report_unlisted(unlisted, self.root.as_fd(), null, &mut report).map_err(|error| {
                match error {
                    UnlistedError::Unreadable(error) => {
                        TreeError::Unreadable((list_path.clone(), error))
                    }
                    UnlistedError::Output(error) => TreeError::Output(error),
                }
            })?;
        }
        let counts = report.counts;
        total.add_all(&counts);
        if let Some(error) = broken {
            return Err(TreeError::Unreadable((list_path, error)));
        }
        // An archive may be empty. Another list that names no file is a mistake.
        let is_empty_archive = matches!(self.list, List::Records(_, None)) && counts.files() == 0;
        if counts.files() == 0 && !is_empty_archive {
            let error = io::Error::other(match (&self.list, options.hash) {
                (List::Records(..), Some(hash)) => {
                    format!("no file is recorded with {}", hash.name())
                }
                _ => "no properly formatted checksum lines found".to_owned(),
            });
            return Err(TreeError::Unreadable((list_path, error)));
        }
        if options.has_summary {
            for warning in counts.warnings() {
                streams.say(&warning);
            }
        }
        let is_malformed = options.is_strict && counts.has_malformed();
        let is_verified = (counts.is_success() || is_empty_archive) && !is_malformed;
        Ok(if is_verified && self.damaged.is_empty() {
            Outcome::Verified
        } else {
            Outcome::Failed
        })
    }
}

/// Counts the files with a record and their bytes.
fn total_size(
    root: BorrowedFd<'_>,
    archive: &Archive,
    only: Option<ChecksumAlgorithm>,
    total: &Expected,
    is_over: &AtomicBool,
) {
    // Whatever fails here fails again in the verification.
    let Ok(mut records) = archive.records() else {
        return;
    };
    while let Ok(Some(record)) = records.next() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let file = record.file.or(record.announced.map(Announced::file));
        if file.is_none_or(|file| only.is_some_and(|only| only != file.algorithm.into())) {
            continue;
        }
        total.add(open_beneath::size(root, &record.path).unwrap_or(0));
    }
}

/// Why files without a record could not all be reported.
enum UnlistedError {
    /// A manifest or a temporary file could not be read.
    Unreadable(io::Error),
    /// Standard output takes nothing.
    Output(io::Error),
}

/// Reports files without a record.
fn report_unlisted(
    unlisted: &mut Unlisted,
    root: BorrowedFd<'_>,
    null: &File,
    report: &mut Report<'_, '_>,
) -> Result<(), UnlistedError> {
    while let Some(file) = unlisted
        .next(root, null)
        .map_err(UnlistedError::Unreadable)?
    {
        let UnlistedFile { path, is_damaged } = file;
        let verdict = if is_damaged {
            Verdict::Damaged
        } else {
            Verdict::Unlisted
        };
        let reported = report.take(&mut [FileResult { path, verdict }].into_iter());
        reported.map_err(UnlistedError::Output)?;
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
