//! A tree that is verified against its manifests or a list.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::expected::total_size;
use super::verifier::{Job, Verifier};
use super::{Options, Outcome, Progress};
use crate::dircopy::manifest::archive::{Archive, Verify};
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::lines::Lines;
use crate::dircopy::manifest::merge::Records;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::record::FileDigest;
use crate::dircopy::manifest::report::{Counts, FileResult, Report, Streams, Verdict};
use crate::dircopy::manifest::unlisted::{Find, Unlisted, UnlistedFile};
use crate::order::{Workshop, in_order};

/// Why a tree could not be verified to its end.
pub(super) enum TreeError {
    /// The tree or its list could not be read.
    Unreadable((PathBuf, io::Error)),
    /// Standard output takes nothing.
    Output(io::Error),
}

/// A tree, and the digests that its files should have.
pub(super) struct Tree<'a> {
    path: &'a Path,
    root: OwnedFd,
    list: List,
    /// Manifests that cannot be believed.
    pub(super) damaged: Vec<(PathBuf, io::Error)>,
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
    pub(super) fn open(path: &'a Path, options: &Options) -> Result<Self, (PathBuf, io::Error)> {
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
    pub(super) fn verify(
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
