//! Takes each step of a copy for several entries before the next step begins.
//!
//! So clones are read from the disk together, short files are hashed together, and durable copies
//! are brought to the disk together.

use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::FileType;

use super::announce::journal_entry;
use super::existing::DiffersFromRecord;
use super::file::{ReadCopy, Started};
use super::sync_together::GroupSync;
use super::{Copier, CopyResult, EntryResult};
use crate::dircopy::hash::reader::no_digest;
use crate::dircopy::hash::transfers::is_interrupted;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::reporter::file_result::FileResult;
use crate::dircopy::schedule::Role;
use crate::dircopy::schedule::{Batch, Job};
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::Durability;

/// A job under way.
enum Task<T> {
    /// The finisher does the rest.
    Handed(EntryResult),
    Copy {
        entry: Entry,
        role: Role,
        step: anyhow::Result<T>,
    },
}

impl<T> Task<T> {
    /// The result of the last step, unless it failed.
    fn reached(&self) -> Option<(&Entry, &T)> {
        match self {
            Self::Copy {
                entry,
                step: Ok(step),
                ..
            } => Some((entry, step)),
            Self::Copy { step: Err(_), .. } | Self::Handed(_) => None,
        }
    }

    /// Takes the next step, unless the last one failed.
    fn then<U>(self, next: impl FnOnce(&Entry, T) -> anyhow::Result<U>) -> Task<U> {
        match self {
            Self::Handed(result) => Task::Handed(result),
            Self::Copy { entry, role, step } => {
                let step = step.and_then(|step| next(&entry, step));
                Task::Copy { entry, role, step }
            }
        }
    }
}

impl<'a> Copier<'a> {
    /// Copies the entries of a batch, except for additional names of files. Reports what fails.
    pub(crate) fn copy_batch(&mut self, batch: Batch) -> Vec<EntryResult> {
        let creators = self.creators;
        let is_long = batch.is_long();
        let _permit = (!is_long).then(|| creators.acquire());
        let mut results = Vec::with_capacity(batch.jobs.len());
        let mut batch = batch.jobs.into_iter().peekable();
        while batch.peek().is_some() {
            let jobs = batch.by_ref().take(self.group_size).collect();
            self.copy_group(jobs, &mut results);
        }
        results
    }

    /// Copies entries of one directory.
    fn copy_group(&mut self, jobs: Vec<Job>, results: &mut Vec<EntryResult>) {
        let sync = jobs.first().and_then(|job| {
            let device = job.entry.directory().destination_device();
            let directory = job.entry.destination_directory().as_fd();
            let syncs_together = self.syncs.together_on() == Some(device);
            syncs_together.then(|| GroupSync::begin(directory, jobs.len()))?
        });
        let jobs = jobs.into_iter();
        let started: Vec<_> = jobs.map(|job| self.start_job(job)).collect();
        for (_, started) in started.iter().filter_map(Task::reached) {
            if let Started::Cloned(copy) = started {
                copy.read_ahead();
            }
        }
        let started = started.into_iter();
        let read = started.map(|task| task.then(|entry, copy| self.read_clone(entry, copy)));
        let read: Vec<_> = read.collect();
        let hashed = self.hash_together(read).into_iter();
        let prepared = hashed.map(|task| {
            task.then(|entry, hashed| {
                if let ReadCopy::Unannounced(copy, digest) = &hashed {
                    self.prepare_announcement(entry, copy, *digest)?;
                }
                Ok(hashed)
            })
        });
        let hashed: Vec<_> = prepared.collect();
        self.announce_together(&hashed);
        let published = match sync {
            Some(sync) => self.publish_synced(hashed, &sync),
            None => self.publish_each(hashed),
        };
        for task in published {
            results.push(self.end_job(task));
        }
        self.flush_journal_queue();
    }

    /// Gives announced copies their names, one after another.
    fn publish_each(&mut self, announced: Vec<Task<ReadCopy<'a>>>) -> Vec<Task<CopyResult>> {
        let durability = self.settings.durability;
        let published = announced.into_iter().map(|task| {
            task.then(|entry, hashed| match hashed {
                ReadCopy::Finished(result) => Ok(result),
                ReadCopy::Unhashed(..) => Err(no_digest()),
                ReadCopy::Unannounced(copy, digest) => {
                    self.prepare_or_cancel(entry, &copy, digest)?;
                    self.publish(entry, *copy, digest, durability)
                }
            })
        });
        published.collect()
    }

    /// Brings announced copies to the disk together, and gives them their names.
    fn publish_synced(
        &mut self,
        announced: Vec<Task<ReadCopy<'a>>>,
        sync: &GroupSync,
    ) -> Vec<Task<CopyResult>> {
        let prepared = announced.into_iter().map(|task| {
            task.then(|entry, hashed| {
                if let ReadCopy::Unannounced(copy, digest) = &hashed {
                    self.prepare_or_cancel(entry, copy, *digest)?;
                }
                Ok(hashed)
            })
        });
        let prepared: Vec<_> = prepared.collect();
        let is_new = |task: &Task<ReadCopy<'_>>| {
            matches!(task.reached(), Some((_, ReadCopy::Unannounced(..))))
        };
        let are_new: Vec<_> = prepared.iter().map(is_new).collect();
        let n_new = are_new.iter().filter(|is_new| **is_new).count();
        let are_synced = sync.sync_files(n_new);
        let durability = if are_synced {
            Durability::Cached
        } else {
            self.settings.durability
        };
        let published = prepared.into_iter().map(|task| {
            task.then(|entry, hashed| match hashed {
                ReadCopy::Finished(result) => Ok(result),
                ReadCopy::Unhashed(..) => Err(no_digest()),
                ReadCopy::Unannounced(copy, digest) => {
                    self.publish(entry, *copy, digest, durability)
                }
            })
        });
        let published: Vec<_> = published.collect();
        if !are_synced || n_new == 0 {
            return published;
        }
        let Err(error) = sync.sync_names() else {
            return published;
        };
        let uncertain = published.into_iter().zip(are_new).map(|(task, is_new)| {
            task.then(|entry, result| {
                Ok(if is_new {
                    self.report_uncertain_name(entry, &error)
                } else {
                    result
                })
            })
        });
        uncertain.collect()
    }

    fn start_job(&mut self, job: Job) -> Task<Started<'a>> {
        let Job { entry, role, prior } = job;
        let prior = match self.interrupt.check() {
            Ok(()) => prior.context("cannot read the manifests of the destination"),
            Err(interrupted) => Err(interrupted.into()),
        };
        let prior = prior.and_then(|prior| {
            let refusal = self.settings.manifest.refusal(&entry.path(), entry.kind());
            refusal.map_or(Ok(prior), |refusal| Err(refusal.into()))
        });
        if let (Role::Additional { file }, Ok(prior)) = (role, &prior)
            && !prior.is_accepted
            && !self.stays_as_it_is(&entry)
        {
            return Task::Handed(EntryResult::Additional {
                entry: entry.wait(self.deferred_dirs),
                file,
                prior: Box::new(*prior),
            });
        }
        self.reporter.begin_file(|| entry.path());
        let step = prior.and_then(|prior| self.start(&entry, prior));
        Task::Copy { entry, role, step }
    }

    /// Hashes all files that have not been hashed.
    fn hash_together(&self, read: Vec<Task<ReadCopy<'a>>>) -> Vec<Task<ReadCopy<'a>>> {
        let unhashed = read.iter().filter_map(|task| match task.reached()? {
            (_, ReadCopy::Unhashed(_, contents)) => Some(&contents[..]),
            (_, ReadCopy::Unannounced(..) | ReadCopy::Finished(_)) => None,
        });
        let contents: Vec<_> = unhashed.collect();
        let digests = self.reader.client.digests(&contents);
        let mut digests = digests.into_iter();
        let hashed = read.into_iter().map(|task| {
            task.then(|_, read| match read {
                ReadCopy::Unhashed(copy, _) => {
                    let digest = digests.next().ok_or_else(no_digest)?;
                    Ok(ReadCopy::Unannounced(copy, Some(digest)))
                }
                read => Ok(read),
            })
        });
        hashed.collect()
    }

    /// Announces the copies of a group to the journal, with one write and at most one sync.
    fn announce_together(&self, hashed: &[Task<ReadCopy<'_>>]) {
        let copies = hashed.iter().filter_map(|task| match task.reached()? {
            (entry, ReadCopy::Unannounced(copy, digest)) => Some((entry, &**copy, *digest)),
            (_, ReadCopy::Unhashed(..) | ReadCopy::Finished(_)) => None,
        });
        self.announce_all(copies);
    }

    /// Writes the result of an entry, for programs.
    pub(crate) fn report_file(&self, entry: &Entry, path: &Path, result: CopyResult) {
        self.reporter.report_file(path, || {
            let manifest = self.settings.manifest;
            let checksums: Vec<_> = match result.line {
                Line::Set(file) => file.checksums().collect(),
                Line::Keep | Line::Differs(_) | Line::Remove => Vec::new(),
            };
            let digests = checksums.iter().map(|(algorithm, checksum)| {
                let text = manifest.text_of(*algorithm, checksum);
                (manifest.name_of(*algorithm), text)
            });
            let digests: Vec<_> = digests.collect();
            let (algorithm, digest) = digests.first().cloned().unzip();
            FileResult {
                kind: entry.kind().into(),
                action: result.action,
                is_replacement: result.is_replacement,
                resumed_bytes: result.resumed_bytes,
                bytes: if entry.kind() == FileType::RegularFile {
                    size(entry.stat())
                } else {
                    0
                },
                algorithm,
                digest,
                digests: digests.into_iter().collect(),
            }
        });
    }

    /// Reports what failed, and makes the result for the finisher.
    fn end_job(&mut self, task: Task<CopyResult>) -> EntryResult {
        let (entry, role, step) = match task {
            Task::Handed(result) => return result,
            Task::Copy { entry, role, step } => (entry, role, step),
        };
        self.pass_by(&entry);
        let path = entry.path();
        self.reporter.end_file(&path);
        let mut kept = Line::Keep;
        let copy = match step {
            Ok(copy) => Some(copy),
            Err(error) if is_interrupted(&error) => None,
            Err(error) => {
                entry.directory().keep_partial(entry.name());
                if let Some(DiffersFromRecord { found }) = error.downcast_ref() {
                    kept = Line::Differs(*found);
                }
                self.reporter.report_error(&path, &error);
                self.report_file(&entry, &path, CopyResult::default());
                None
            }
        };
        if let Some(copy) = copy {
            self.report_file(&entry, &path, copy);
        }
        if let Err(error) = entry.done() {
            self.reporter.report_walk_error(&error);
        }
        let path = path.into_os_string().into_vec();
        if let Some(copy) = copy.filter(|copy| copy.needs_journal) {
            let journal_entry = journal_entry(copy.line).map(|entry| (path.clone(), entry));
            self.journal_queue.extend(journal_entry);
        }
        match role {
            Role::First { file, n_more } => EntryResult::First {
                path,
                file,
                n_more,
                copy,
            },
            Role::Only | Role::Additional { .. } => EntryResult::Settled {
                path,
                line: copy.map_or(kept, |copy| copy.line),
            },
        }
    }
}
