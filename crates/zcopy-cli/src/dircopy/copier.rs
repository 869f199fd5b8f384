//! What is done about one entry of the tree.

use std::io;
use std::os::unix::ffi::OsStringExt as _;

use anyhow::Context as _;
use rustix::fs::FileType;

use super::batches;
use super::containment::Identity;
use super::counts::Counts;
use super::face::Face;
use super::folded_names::FoldedNames;
use super::gate::Gate;
use super::granularity::Granularities;
use super::interrupt::Interrupt;
use super::journaling::Journaling;
use super::links::Role;
use super::lookup::Known;
use super::manifest::journal_entry::JournalEntry;
use super::manifest::update::Line;
use super::reading::{Reader, is_interrupted, no_digest};
use super::settings::Settings;
use super::sharing::Sharing;
use super::symlinks::Symlinks;
use super::tree::{Entry, Waiting, WhileWaiting};
use super::written_back::UnwrittenFiles;
use crate::digest::Digest;

use file::{Draft, Way};

mod announce;
pub(super) mod damaged;
mod existing;
mod file;
mod other;
mod publish;

/// Why a file of the source has no copy.
pub(super) const MANIFEST_IN_THE_WAY: &str =
    "the destination has a manifest of this name, which is not replaced";

/// An entry, what it is among the names of its file, and what earlier runs recorded of it.
pub(super) struct Job {
    pub(super) entry: Entry,
    pub(super) role: Role,
    /// An error, if the manifests could not be read.
    pub(super) known: io::Result<Known>,
}

/// What is left to be done about an entry, in the order of the tree.
pub(super) enum Done {
    /// Nothing but its line.
    Settled { path: Vec<u8>, line: Line },
    /// The same, and more names may come.
    First {
        path: Vec<u8>,
        file: Identity,
        /// How many more names it had.
        n_more: u64,
        /// Unless it failed.
        settled: Option<Settled>,
    },
    /// It becomes a link.
    Further {
        entry: Waiting,
        file: Identity,
        known: Known,
    },
}

impl Done {
    /// How many bytes of memory it takes.
    fn weight(&self) -> usize {
        let path = match self {
            Self::Settled { path, .. } | Self::First { path, .. } => path.capacity(),
            Self::Further { entry, .. } => entry.name().count_bytes(),
        };
        size_of::<Option<Self>>() + path
    }
}

/// How many bytes of memory these take, all of one directory, which weighs so much if they wait.
pub(super) fn weight(batch: &[Done], of_directory: usize) -> usize {
    let is_kept = |done: &Done| matches!(done, Done::Further { .. });
    let kept = if batch.iter().any(is_kept) {
        of_directory
    } else {
        0
    };
    kept + batch.iter().map(Done::weight).sum::<usize>()
}

/// How it is known what a file of the destination holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Proof {
    /// This run has neither written nor read it.
    #[default]
    None,
    /// This run has written it.
    Written,
    /// This run has read it, and it has the digest of its line.
    Read,
}

/// What has become of an entry that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Its line in the new manifest.
    pub(super) line: Line,
    /// Which file bears its name in the destination. Known of a regular one that may have more names.
    pub(super) copy: Option<Identity>,
    /// Whether the journal has to tell of the line.
    pub(super) is_news: bool,
    /// How it is known what the file holds.
    pub(super) proof: Proof,
    /// Whether that is its copy, so that its further names can be linked to it, and not something that was left.
    pub(super) is_copy: bool,
    /// Whether the copy lacks something, and has a map that says what.
    pub(super) is_damaged: bool,
}

/// Deals with entries, in turn.
pub(super) struct Copier<'a> {
    pub(super) settings: &'a Settings,
    pub(super) face: &'a Face<'a>,
    pub(super) counts: &'a Counts,
    pub(super) sharing: &'a Sharing,
    /// How the file systems of the destination keep times.
    pub(super) granularities: &'a Granularities,
    pub(super) symlinks: &'a Symlinks,
    /// Through which go those who make short files.
    pub(super) gate: &'a Gate,
    pub(super) reader: Reader<'a>,
    /// How many entries are begun before the first of them is ended, so that clones are read from the disk together, and what is kept is hashed
    /// together.
    pub(super) most_ahead: usize,
    /// Finds names that the destination does not tell apart.
    pub(super) names: &'a FoldedNames<'a>,
    /// Whether directories stay open while links in them wait.
    pub(super) while_waiting: WhileWaiting,
    pub(super) journaling: &'a Journaling<'a>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) unwritten: &'a UnwrittenFiles,
    /// Entries that the journal gets when the batch ends.
    pub(super) news: Vec<(Vec<u8>, JournalEntry)>,
}

/// The journal entry for the new line of a path.
pub(super) fn news(path: &[u8], line: Line) -> Option<(Vec<u8>, JournalEntry)> {
    let entry = match line {
        Line::Keep => return None,
        Line::Set(file) => JournalEntry::Has(file),
        Line::Remove => JournalEntry::Removed,
    };
    Some((path.to_vec(), entry))
}

/// How far an entry has come.
enum Step<C> {
    /// Nothing is left to be done here.
    Done(Done),
    /// It has come so far, or failed.
    Going(Entry, Role, anyhow::Result<C>),
}

impl<C> Step<C> {
    /// How far it has come, unless it is done or has failed.
    fn reached(&self) -> Option<&C> {
        match self {
            Self::Going(_, _, Ok(reached)) => Some(reached),
            Self::Going(_, _, Err(_)) | Self::Done(_) => None,
        }
    }

    /// Goes on, unless it is done or has failed.
    fn then<D>(self, go_on: impl FnOnce(&Entry, C) -> anyhow::Result<D>) -> Step<D> {
        match self {
            Self::Done(done) => Step::Done(done),
            Self::Going(entry, role, reached) => {
                let reached = reached.and_then(|reached| go_on(&entry, reached));
                Step::Going(entry, role, reached)
            }
        }
    }
}

/// How far a copy has come.
enum Copied<'a> {
    /// It has been cloned, and is to be read.
    Cloned(Box<Draft<'a>>),
    /// All bytes have passed.
    Read(Read<'a>),
}

impl Copied<'_> {
    /// A copy that has come to its end.
    const fn over(settled: Settled) -> Self {
        Self::Read(Read::Over(settled))
    }
}

/// How far a copy has come whose bytes have passed.
enum Read<'a> {
    /// It is short: this is what it holds, which is to be hashed.
    Kept(Box<Draft<'a>>, Way, Vec<u8>),
    /// It is over.
    Over(Settled),
}

impl Read<'_> {
    /// What is to be hashed.
    fn kept(&self) -> Option<&[u8]> {
        match self {
            Self::Kept(_, _, kept) => Some(kept),
            Self::Over(_) => None,
        }
    }
}

impl<'a> Copier<'a> {
    /// Does all that needs no other entries. What goes wrong is complained of.
    pub(super) fn work(&mut self, batch: Vec<Job>) -> Vec<Done> {
        let gate = self.gate;
        let is_long = batches::is_long(&batch, self.settings.longest_short());
        let _passing = (!is_long).then(|| gate.pass());
        let mut done = Vec::with_capacity(batch.len());
        let mut batch = batch.into_iter().peekable();
        while batch.peek().is_some() {
            self.work_together(batch.by_ref().take(self.most_ahead), &mut done);
        }
        done
    }

    /// Takes each step with all of these, before it takes the next one.
    fn work_together(&mut self, jobs: impl Iterator<Item = Job>, done: &mut Vec<Done>) {
        let copied: Vec<_> = jobs.map(|job| self.begin(job)).collect();
        for step in &copied {
            if let Some(Copied::Cloned(draft)) = step.reached() {
                draft.read_ahead();
            }
        }
        let copied = copied.into_iter();
        let read = copied.map(|step| step.then(|entry, copied| self.read(entry, copied)));
        let read: Vec<_> = read.collect();
        let kept: Vec<_> = read
            .iter()
            .filter_map(|step| step.reached()?.kept())
            .collect();
        let digests = self.reader.tap.digests(&kept);
        self.announce_all(&read, &digests);
        let mut digests = digests.into_iter();
        for step in read {
            let settled = step.then(|entry, read| self.settle(entry, read, &mut digests));
            done.push(self.end(settled));
        }
        self.flush_news();
    }

    /// Copies an entry, or leaves its copy, whatever other names it has.
    pub(super) fn work_alone(&mut self, entry: &Entry, known: Known) -> anyhow::Result<Settled> {
        self.interrupt.check()?;
        let copied = self.copy_or_leave(entry, known)?;
        let read = self.read(entry, copied)?;
        let digests = self.reader.tap.digests(read.kept().as_slice());
        if let (Read::Kept(draft, ..), [digest]) = (&read, &digests[..]) {
            self.announce(entry, draft, Some(*digest));
        }
        self.settle(entry, read, &mut digests.into_iter())
    }

    fn begin(&mut self, job: Job) -> Step<Copied<'a>> {
        let Job { entry, role, known } = job;
        if let Err(interrupted) = self.interrupt.check() {
            return Step::Going(entry, role, Err(interrupted.into()));
        }
        let known = known.context("cannot read the manifests of the destination");
        match (role, known) {
            (Role::Further(file), Ok(known)) if !self.keeps_its_own(&entry) => {
                let entry = entry.wait(self.while_waiting);
                Step::Done(Done::Further { entry, file, known })
            }
            (role, known) => {
                let copied = known.and_then(|known| self.copy_or_leave(&entry, known));
                Step::Going(entry, role, copied)
            }
        }
    }

    fn copy_or_leave(&mut self, entry: &Entry, known: Known) -> anyhow::Result<Copied<'a>> {
        if known.is_manifest {
            return self.keep_manifest(entry).map(Copied::over);
        }
        if known.is_journal {
            // It says nothing about the destination.
            self.counts.others.add(1);
            return Ok(Copied::over(Settled::default()));
        }
        match entry.kind() {
            FileType::RegularFile => self.regular(entry, known),
            _ => self.other(entry, known).map(Copied::over),
        }
    }

    /// Gives a copy its name, once it has been hashed. Its digest, if it waits for one, is the next.
    fn settle(
        &mut self,
        entry: &Entry,
        read: Read<'_>,
        digests: &mut impl Iterator<Item = Digest>,
    ) -> anyhow::Result<Settled> {
        match read {
            Read::Kept(draft, way, _) => {
                let digest = digests.next().ok_or_else(no_digest)?;
                self.publish(entry, *draft, (way, Some(digest)))
                    .inspect_err(|_| self.cancel(entry))
            }
            Read::Over(settled) => Ok(settled),
        }
    }

    /// Says what has become of an entry.
    fn end(&mut self, settled: Step<Settled>) -> Done {
        let (entry, role, outcome) = match settled {
            Step::Done(done) => return done,
            Step::Going(entry, role, outcome) => (entry, role, outcome),
        };
        let path = entry.path();
        let settled = outcome
            .map_err(|error| {
                if !is_interrupted(&error) {
                    self.face.complain(&path, &error);
                }
            })
            .ok();
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
        let path = path.into_os_string().into_vec();
        if let Some(settled) = settled.filter(|settled| settled.is_news) {
            self.news.extend(news(&path, settled.line));
        }
        match role {
            Role::First(file, n_more) => Done::First {
                path,
                file,
                n_more,
                settled,
            },
            Role::Only | Role::Further(_) => Done::Settled {
                path,
                line: settled.unwrap_or_default().line,
            },
        }
    }
}
