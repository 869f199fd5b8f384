//! Verifies trees against their sum files.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zcopy::Transfer;

use super::line;
use super::lines::Lines;
use super::name;
use super::open_beneath;
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

/// A tree, and the sum file for it.
struct Tree<'a> {
    path: &'a Path,
    root: OwnedFd,
    sum_file: PathBuf,
    sums: File,
    algorithm: Algorithm,
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
            algorithm: options
                .hash
                .unwrap_or_else(|| name::algorithm_of(&sum_file)),
            sum_file,
            sums,
        })
    }

    /// Verifies every file that the sum file lists.
    fn verify(
        self,
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
        let mut lines = Lines::of(&self.sums);
        let next = || {
            lines.next().unwrap_or_else(|error| {
                broken = Some(error);
                None
            })
        };
        let (root, algorithm) = (self.root.as_fd(), self.algorithm);
        in_order(
            options.n_threads,
            Workshop {
                next,
                start: || |line| verdict(line, root, algorithm, nowhere),
                weigh: FileResult::weight,
                deliver: |due: &mut dyn Iterator<Item = FileResult>| tally.take(due),
            },
        )
        .context("write error")?;
        let counts = tally.counts;
        if let Some(error) = broken {
            streams.complain(&self.sum_file, &error);
            return Ok(Outcome::Failed);
        }
        if !counts.has_lines() {
            let file = quoted(self.sum_file.as_os_str());
            streams.say(&format!(
                "{file}: no properly formatted checksum lines found"
            ));
        } else if options.has_summary {
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
    algorithm: Option<Algorithm>,
    streams: &mut Streams<'_>,
) -> Result<(PathBuf, File), (PathBuf, io::Error)> {
    let names = name::all_in(path).map_err(|error| (path.to_owned(), error))?;
    for name in names {
        if algorithm.is_some_and(|algorithm| algorithm != name.algorithm()) {
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

/// What comes of one line.
fn verdict(
    line: Result<Vec<u8>, line::ParseLineError>,
    root: BorrowedFd<'_>,
    algorithm: Algorithm,
    nowhere: &File,
) -> FileResult {
    let Ok(line) = line.and_then(|line| line::parse(&line)) else {
        return FileResult {
            path: Vec::new(),
            verdict: Verdict::Malformed,
        };
    };
    let algorithm = line.algorithm.unwrap_or(algorithm);
    let found =
        open_beneath::open(root, &line.path).and_then(|file| digest(&file, algorithm, nowhere));
    FileResult {
        path: line.path,
        verdict: match found {
            Ok(found) if found == line.digest => Verdict::Matches,
            Ok(_) => Verdict::Differs,
            Err(error) => Verdict::Unreadable(error),
        },
    }
}

/// The digest of all that the file holds.
fn digest(file: &File, algorithm: Algorithm, nowhere: &File) -> io::Result<Digest> {
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

#[cfg(test)]
mod tests;
