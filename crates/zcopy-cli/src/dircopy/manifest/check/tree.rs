//! A tree that is verified against its manifests or a list.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::thread;

use super::counts::Counts;
use super::expected::{Counted, count_files};
use super::recheck::Recheck;
use super::report::{Report, Streams};
use super::root::{Expected, ListError, Root};
use super::suspects::{RootState, Suspects};
use super::unlisted::{Find, Unlisted, UnlistedFile};
use super::verdict::{FileResult, Verdict};
use super::verifier::{Job, Verifier};
use super::{Outcome, Shared};
use crate::common::cli::quote::quoted;
use crate::common::parallel::{OrderedJobs, in_order};
use crate::common::threads;
use crate::dircopy::manifest::bag::PathBase;
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::read::archive::{Archive, Verify};
use crate::dircopy::manifest::read::lines::Lines;
use crate::dircopy::manifest::read::merge::Records;
use crate::dircopy::stop_flag::{StopFlag, StopOnDrop};

/// How often a file is verified again at most. Runs on the tree may follow one another.
const MAX_RECHECKS: usize = 5;

/// Why a tree could not be verified to its end.
pub(super) enum TreeError {
    /// The tree or its list cannot be read.
    List(ListError),
    /// Standard output cannot be written to.
    Output(io::Error),
}

/// A tree, and the digests that its files should have.
pub(super) struct Tree<'a> {
    shared: Shared<'a>,
    path: &'a Path,
    root: BorrowedFd<'a>,
    /// The kind of its manifests. `None` if the digests come from a list.
    kind: Option<ManifestKind>,
    digests: Digests,
    /// Failures that another run may have caused. `None` if the digests come from a list.
    suspects: Option<Suspects>,
    /// The damaged manifests.
    pub(super) damaged: Vec<ListError>,
    /// Directories that were not searched for files without a record.
    pub(super) unsearched: Vec<ListError>,
}

/// The source of the digests.
enum Digests {
    /// The list that was named.
    List { path: PathBuf, lines: Lines<File> },
    /// The manifests of the tree.
    Archive(Box<ArchiveDigests>),
    /// The manifests of the tree, which are closed, and which are read once more.
    Recheck(Box<Recheck>),
}

/// The digests in the manifests of a tree.
struct ArchiveDigests {
    archive: Archive,
    records: Records,
    /// Files without a record that are damaged; and with `--strict` all files without one.
    unlisted: Unlisted,
}

/// The files to verify, one after another.
enum Jobs<'a> {
    Lines(&'a mut Lines<File>),
    Archive {
        records: &'a mut Records,
        unlisted: &'a mut Unlisted,
    },
    Recheck(&'a mut Recheck),
}

impl Jobs<'_> {
    fn next(&mut self, root: BorrowedFd<'_>, shared: Shared<'_>) -> io::Result<Option<Job>> {
        let is_over = shared.interrupt.is_requested();
        let (records, unlisted) = match self {
            Self::Lines(_) | Self::Archive { .. } if is_over => return Ok(None),
            Self::Lines(lines) => return Ok(lines.next()?.map(Job::Line)),
            Self::Archive { records, unlisted } => (records, unlisted),
            Self::Recheck(recheck) => return Ok(recheck.next(root, shared)),
        };
        while let Some(record) = records.next()? {
            match record.resolve(root, ReadOptions::unlimited(shared.null)) {
                Ok(Some(file)) if shared.wants(file) => {
                    return Ok(Some(Job::Record(record.path, file)));
                }
                Ok(_) => {}
                // Only the contents of the file tell which digest it should have.
                Err(error) => {
                    unlisted.leave_out(&record.path);
                    return Ok(Some(Job::Unreadable(record.path, error)));
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Tree<'a> {
    /// Opens the manifests of a tree, or the list.
    pub(super) fn open(
        of: &'a Root<'_>,
        expected: Expected,
        shared: Shared<'a>,
    ) -> Result<Self, ListError> {
        let (path, root) = (of.path, of.directory.as_fd());
        let in_tree = |error| ListError {
            path: path.to_owned(),
            error,
        };
        let options = shared.options;
        if let Some(list) = &options.hash_file {
            let in_list = |error| ListError {
                path: list.clone(),
                error,
            };
            return Ok(Self {
                shared,
                path,
                root,
                kind: None,
                digests: Digests::List {
                    path: list.clone(),
                    lines: Lines::of(open_list(list).map_err(in_list)?),
                },
                suspects: None,
                damaged: Vec::new(),
                unsearched: Vec::new(),
            });
        }
        let kind = match expected {
            Expected::Manifests(kind) => kind,
            Expected::List => ManifestKind::default(),
        };
        let before = RootState::read(root).map_err(in_tree)?;
        let converts_paths = options.converts_paths;
        let archive =
            Archive::open_kind(kind, root, Verify::All, converts_paths, PathBase::Bag, None);
        let archive = archive.map_err(in_tree)?;
        if archive.is_empty() && archive.damaged().is_empty() {
            return Err(in_tree(io::Error::other("no manifest found")));
        }
        let damaged = archive.damaged().iter();
        let damaged = damaged.map(|damaged| ListError::of_damaged(path, damaged));
        let damaged = damaged.collect();
        let find = if options.is_strict || kind.lists_all() {
            Find::All
        } else {
            Find::Damaged
        };
        let others = of.kinds.iter().copied().filter(|other| *other != kind);
        let others: Vec<_> = others.collect();
        let unlisted = Unlisted::find(root, &archive, &others, find, options.most_open);
        let mut unlisted = unlisted.map_err(in_tree)?;
        let unsearched = unlisted.take_unsearched().into_iter();
        let unsearched = unsearched.map(|failure| ListError::of_unsearched(path, &failure));
        Ok(Self {
            shared,
            path,
            kind: Some(kind),
            digests: Digests::Archive(Box::new(ArchiveDigests {
                unlisted,
                records: archive.records().map_err(in_tree)?,
                archive,
            })),
            suspects: Some(Suspects::new(before)),
            damaged,
            unsearched: unsearched.collect(),
            root,
        })
    }

    /// Verifies every listed file, and adds the results to `total`.
    pub(super) fn verify(
        mut self,
        streams: &mut Streams<'_>,
        total: &mut Counts,
    ) -> Result<Outcome, TreeError> {
        let options = self.shared.options;
        let mut report = Report {
            streams,
            directory: self.path,
            filter: options.filter,
            format: options.format,
            names_directory: options.directories.len() > 1,
            counts: Counts::default(),
            suspected: None,
            lines: Vec::new(),
        };
        let listed = self.verify_listed(&mut report);
        let reported = match &listed {
            Ok(()) | Err(TreeError::List(_)) => self.report_unlisted(&mut report),
            Err(TreeError::Output(_)) => Ok(()),
        };
        let reported = match reported {
            Err(TreeError::Output(error)) => Err(TreeError::Output(error)),
            reported => self.recheck(&mut report).and(reported),
        };
        let (counts, suspected) = (report.counts, report.suspected);
        total.add_all(&counts);
        reported?;
        listed?;
        // An archive may be empty. A list that names no file is a mistake.
        let may_be_empty = !matches!(self.digests, Digests::List { .. }) && options.hash.is_none();
        let is_empty = counts.files() == 0;
        if is_empty && !may_be_empty && !self.shared.interrupt.is_requested() {
            let message = match (&self.digests, options.hash) {
                (Digests::Archive(_) | Digests::Recheck(_), Some(hash)) => {
                    format!("no file is recorded with {}", hash.name())
                }
                _ => "no properly formatted checksum lines found".to_owned(),
            };
            return Err(self.list_error(io::Error::other(message)));
        }
        if options.has_summary {
            for warning in counts.warnings() {
                streams.write_message(&warning);
            }
            // With --quiet the messages are those of sha256sum -c --quiet.
            if let Digests::List { path, .. } = &self.digests
                && options.has_total
                && counts.has_no_match()
                && let Some(used) = suspected
                && let Some(other) = used.other_of_same_length()
            {
                let (path, used, other) = (quoted(path.as_os_str()), used.name(), other.name());
                streams.write_message(&format!(
                    "{path}: no file has the {used} that is listed; \
                     if the digests are of {other}, give --hash={other}"
                ));
            }
        }
        let is_malformed = options.is_strict && counts.has_malformed();
        let is_verified = (counts.is_success() || is_empty) && !is_malformed;
        let is_whole = self.damaged.is_empty() && self.unsearched.is_empty();
        Ok(if is_verified && is_whole {
            Outcome::Verified
        } else {
            Outcome::Failed
        })
    }

    /// Verifies every listed file and reports the results.
    fn verify_listed(&mut self, report: &mut Report<'_, '_>) -> Result<(), TreeError> {
        let (shared, root) = (self.shared, self.root);
        let suspects = &mut self.suspects;
        let (list_path, mut jobs, archive) = match &mut self.digests {
            Digests::List { path, lines } => (path.as_path(), Jobs::Lines(lines), None),
            Digests::Archive(digests) => {
                let ArchiveDigests {
                    archive,
                    records,
                    unlisted,
                } = &mut **digests;
                let jobs = Jobs::Archive { records, unlisted };
                (self.path, jobs, Some(&*archive))
            }
            Digests::Recheck(recheck) => (self.path, Jobs::Recheck(recheck), None),
        };
        let Shared {
            options, progress, ..
        } = shared;
        let archive = archive.filter(|_| progress.wants_total());
        let mut broken = None;
        let next = || {
            jobs.next(root, shared).unwrap_or_else(|error| {
                broken = Some(error);
                None
            })
        };
        let stop = StopFlag::default();
        let written = thread::scope(|scope| {
            let ordered_jobs = OrderedJobs {
                next,
                start: || {
                    let mut verifier = Verifier::new(root, shared, scope);
                    move |job| verifier.verify(job, list_path)
                },
                weigh: FileResult::weight,
                deliver: |due: &mut dyn Iterator<Item = FileResult>| {
                    let Some(suspects) = suspects else {
                        return report.take(due);
                    };
                    let keep = |result: FileResult| {
                        let n_bytes = result.bytes();
                        let result = suspects.keep(root, result);
                        if result.is_none() {
                            progress.take_back_failure(n_bytes);
                        }
                        result
                    };
                    report.take(&mut due.filter_map(keep))
                },
            };
            let _stop = StopOnDrop(&stop);
            if let Some(archive) = archive {
                let stop = &stop;
                let count = move || {
                    let total = progress.total();
                    if count_files(root, archive, options.hash, total, stop) == Counted::All {
                        progress.add_counted_tree();
                    }
                };
                // Without a thread no total is shown.
                let _ = threads::spawn_scoped(scope, count);
            }
            in_order(options.n_threads, ordered_jobs)
        });
        written.map_err(TreeError::Output)?;
        broken.map_or(Ok(()), |error| Err(self.list_error(error)))
    }

    /// Reports files without a record.
    fn report_unlisted(&mut self, report: &mut Report<'_, '_>) -> Result<(), TreeError> {
        let Digests::Archive(digests) = &mut self.digests else {
            return Ok(());
        };
        let (root, null) = (self.root, self.shared.null);
        while !self.shared.interrupt.is_requested() {
            let UnlistedFile { path, is_damaged } = match digests.unlisted.next(root, null) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.list_error(error)),
            };
            let verdict = if is_damaged {
                Verdict::Damaged
            } else {
                Verdict::Unlisted
            };
            let mut result = Some(FileResult { path, verdict });
            if let Some(suspects) = &mut self.suspects {
                result = result.and_then(|result| suspects.keep(root, result));
            }
            let reported = report.take(&mut result.into_iter());
            reported.map_err(TreeError::Output)?;
        }
        Ok(())
    }

    /// Verifies the files again whose failures another run may have caused, against the records
    /// that the tree has now.
    fn recheck(&mut self, report: &mut Report<'_, '_>) -> Result<(), TreeError> {
        for n_left in (0..MAX_RECHECKS).rev() {
            let Some(suspects) = self.suspects.take_if(|suspects| suspects.has_results()) else {
                break;
            };
            // The run may still be at work. The last look reports what fails.
            let before = RootState::read(self.root).ok();
            self.suspects = before.filter(|_| n_left > 0).map(Suspects::new);
            // This closes the manifests, so that there are descriptors for those of the next look.
            self.digests = Digests::Recheck(Box::new(Recheck::none()));
            let recheck = Recheck::new(self.root, self.kind, self.shared, suspects);
            self.digests = Digests::Recheck(Box::new(recheck));
            self.verify_listed(report)?;
        }
        self.suspects = None;
        Ok(())
    }

    /// The error of a list or an archive that cannot be read to its end.
    fn list_error(&self, error: io::Error) -> TreeError {
        let path = match &self.digests {
            Digests::List { path, .. } => path,
            Digests::Archive(_) | Digests::Recheck(_) => self.path,
        };
        TreeError::List(ListError {
            path: path.to_owned(),
            error,
        })
    }
}

/// Opens a list. `-` is standard input.
fn open_list(list: &Path) -> io::Result<File> {
    if list == Path::new("-") {
        let stdin = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        Ok(stdin.into())
    } else {
        File::open(list)
    }
}
