//! Verifies trees against their sum files.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zcopy::Transfer;

use super::archive::{Archive, Verify};
use super::line;
use super::lines::Lines;
use super::name;
use super::open_beneath;
use super::record::{FileDigest, Record, Records};
use super::report::{Counts, FileResult, Report, Streams, Verdict};
use crate::digest::{Algorithm, Digest, Stream};
use crate::order::{Workshop, in_order};
use crate::quote::quoted;
use crate::{exit, outlet};

pub use options::Options;

mod options;

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
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.context("/dev/null")?;
    let mut streams = Streams { stdout, stderr };
    let here = [PathBuf::from(".")];
    let directories = match &options.directories[..] {
        [] => &here[..],
        directories => directories,
    };
    let mut outcome = Outcome::Verified;
    for directory in directories {
        let tree = match Tree::open(directory, options, &mut streams) {
            Ok(tree) => tree,
            Err((file, error)) => {
                streams.complain(&file, &error);
                outcome = Outcome::Failed;
                continue;
            }
        };
        if tree.verify(options, &nowhere, &mut streams)? == Outcome::Failed {
            outcome = Outcome::Failed;
        }
    }
    Ok(outcome)
}

/// A tree, and the digests that its files should have.
struct Tree<'a> {
    path: &'a Path,
    root: OwnedFd,
    list: List,
    /// Whether some manifest cannot be believed. It has been said which.
    is_damaged: bool,
}

/// Where the digests stand.
enum List {
    /// In a file that was named.
    File {
        path: PathBuf,
        lines: Lines<File>,
        algorithm: Algorithm,
    },
    /// In the manifests of the tree.
    Records(Records),
}

impl List {
    fn next(&mut self) -> io::Result<Option<Job>> {
        match self {
            Self::File {
                lines, algorithm, ..
            } => Ok(lines.next()?.map(|line| Job::Line(line, *algorithm))),
            Self::Records(records) => Ok(records.next()?.map(Job::Record)),
        }
    }
}

/// A file to be verified, or a line that names none.
enum Job {
    Line(Result<Vec<u8>, line::ParseLineError>, Algorithm),
    Record(Record),
}

impl<'a> Tree<'a> {
    /// Opens both, or tells which of them cannot be opened.
    fn open(
        path: &'a Path,
        options: &Options,
        streams: &mut Streams<'_>,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let root = open_beneath::directory(path).map_err(|error| (path.to_owned(), error))?;
        if let Some(file) = &options.hash_file {
            let opened = if file == Path::new("-") {
                let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3);
                stdin.map(File::from).map_err(io::Error::from)
            } else {
                File::open(file)
            };
            let algorithm = options.hash.unwrap_or_else(|| name::algorithm_of(file));
            let list = List::File {
                path: file.clone(),
                lines: Lines::of(opened.map_err(|error| (file.clone(), error))?),
                algorithm,
            };
            return Ok(Self {
                path,
                root,
                list,
                is_damaged: false,
            });
        }
        let of_path = |error| (path.to_owned(), error);
        let archive = Archive::open(root.as_fd(), options.hash, Verify::All).map_err(of_path)?;
        if archive.is_empty() {
            return Err(of_path(io::Error::other("no manifest found")));
        }
        for (name, damage) in archive.damaged() {
            let manifest = path.join(name.to_string());
            let manifest = quoted(manifest.as_os_str());
            streams.say(&format!("{manifest}: the manifest is damaged: {damage}"));
        }
        Ok(Self {
            path,
            list: List::Records(archive.records().map_err(of_path)?),
            is_damaged: !archive.damaged().is_empty(),
            root,
        })
    }

    /// Verifies every file that is listed.
    fn verify(
        mut self,
        options: &Options,
        nowhere: &File,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Outcome> {
        let mut tally = Report {
            streams,
            directory: self.path,
            filter: options.filter,
            names_directory: options.directories.len() > 1,
            counts: Counts::default(),
            lines: Vec::new(),
        };
        let mut broken = None;
        let list = &mut self.list;
        let next = || {
            list.next().unwrap_or_else(|error| {
                broken = Some(error);
                None
            })
        };
        let root = self.root.as_fd();
        in_order(
            options.n_threads,
            Workshop {
                next,
                start: || |job| verdict(job, root, nowhere),
                weigh: FileResult::weight,
                deliver: |due: &mut dyn Iterator<Item = FileResult>| tally.take(due),
            },
        )
        .context("write error")?;
        let counts = tally.counts;
        let is_archive = matches!(self.list, List::Records(_));
        let list = match &self.list {
            List::File { path, .. } => path,
            List::Records(_) => self.path,
        };
        if let Some(error) = broken {
            streams.complain(list, &error);
            return Ok(Outcome::Failed);
        }
        if !counts.has_lines() && !is_archive {
            let file = quoted(list.as_os_str());
            streams.say(&format!(
                "{file}: no properly formatted checksum lines found"
            ));
        } else if options.has_summary {
            for warning in counts.warnings() {
                streams.say(&warning);
            }
        }
        // An archive may be empty; another list that names no file is a mistake.
        let is_verified = counts.is_success() || is_archive && !counts.has_lines();
        Ok(if is_verified && !self.is_damaged {
            Outcome::Verified
        } else {
            Outcome::Failed
        })
    }
}

/// Verifies one file.
fn verdict(job: Job, root: BorrowedFd<'_>, nowhere: &File) -> FileResult {
    let (path, expected) = match job {
        Job::Line(line, algorithm) => match line.and_then(|line| line::parse(&line)) {
            Ok(line) => {
                let algorithm = line.algorithm.unwrap_or(algorithm);
                let digest = line.digest;
                (line.path, FileDigest { algorithm, digest })
            }
            Err(_) => {
                return FileResult {
                    path: Vec::new(),
                    verdict: Verdict::Malformed,
                };
            }
        },
        Job::Record(Record { path, file }) => (path, file),
    };
    let found =
        open_beneath::open(root, &path).and_then(|file| digest(&file, expected.algorithm, nowhere));
    FileResult {
        path,
        verdict: match found {
            Ok(found) if found == expected.digest => Verdict::Matches,
            Ok(_) => Verdict::Differs,
            Err(error) => Verdict::Unreadable(error),
        },
    }
}

/// The digest of all that the file holds.
pub(super) fn digest(file: &File, algorithm: Algorithm, nowhere: &File) -> io::Result<Digest> {
    let mut stream = Stream::new(algorithm);
    let transfer = Transfer::new(file, nowhere).inspect(|bytes| stream.update(bytes));
    transfer.run().map_err(|error| exit::cause(&error))?;
    Ok(stream.finish())
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
