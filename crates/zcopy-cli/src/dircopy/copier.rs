//! What is done about one entry of the tree.

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{FileType, Stat};

use super::batches;
use super::containment::{Identity, identity};
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
use super::manifest::record::{Announced, FileDigest};
use super::manifest::update::Line;
use super::place::Replace;
use super::policy::{self, Decision, Policy, decide};
use super::reading::{CopyDigest, Reader, is_interrupted, no_digest, size};
use super::settings::Settings;
use super::sharing::Sharing;
use super::symlinks::Symlinks;
use super::tree::{Entry, Waiting, WhileWaiting};
use super::written_back::UnwrittenFiles;
use crate::digest::Digest;

use file::{Draft, Target, Way};

mod damaged;
mod file;
mod other;

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

    /// Tells the journal of all files at once that are about to get their names.
    fn announce_all(&self, read: &[Step<Read<'_>>], digests: &[Digest]) {
        let kept = read.iter().filter_map(|step| match step {
            Step::Going(entry, _, Ok(Read::Kept(draft, ..))) => Some((entry, draft)),
            _ => None,
        });
        let announced: Vec<_> = kept
            .zip(digests)
            .map(|((entry, draft), digest)| {
                let path = entry.path().into_os_string().into_vec();
                let announced = self.announced(draft, Some(*digest));
                (path, JournalEntry::Announced(announced))
            })
            .collect();
        self.journaling
            .add(announced.iter().map(|(path, entry)| (&path[..], *entry)));
    }

    fn announced(&self, draft: &Draft<'_>, digest: Option<Digest>) -> Announced {
        let algorithm = self.settings.algorithm;
        let file = digest.map(|digest| FileDigest { algorithm, digest });
        match (file.filter(|_| self.settings.leaves_sums), draft.replace()) {
            (None, _) => Announced::Clears,
            (Some(file), Replace::No) => Announced::Adds(file),
            (Some(file), Replace::Yes) => Announced::Replaces(file),
        }
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

    /// Tells the journal of a file that is about to get its name.
    fn announce(&self, entry: &Entry, draft: &Draft<'_>, digest: Option<Digest>) {
        let path = entry.path();
        let announced = JournalEntry::Announced(self.announced(draft, digest));
        self.journaling
            .add([(path.as_os_str().as_bytes(), announced)]);
    }

    /// Writes the entries of the batch to the journal.
    pub(super) fn flush_news(&mut self) {
        let news = std::mem::take(&mut self.news);
        self.journaling
            .add(news.iter().map(|(path, entry)| (&path[..], *entry)));
    }

    /// Tells the journal of a file that has not got its name.
    fn cancel(&mut self, entry: &Entry) {
        let path = entry.path().into_os_string().into_vec();
        self.news.push((path, JournalEntry::Cancelled));
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

    /// Leaves a manifest of the destination, which no file of the source replaces.
    fn keep_manifest(&mut self, entry: &Entry) -> anyhow::Result<Settled> {
        let existing = entry.existing().context("cannot stat its copy")?;
        let is_alike = |existing: &Stat| {
            existing.st_size == entry.stat().st_size && entry.kind() == FileType::RegularFile
        };
        let Some(existing) = existing.filter(is_alike) else {
            bail!(MANIFEST_IN_THE_WAY);
        };
        let found = self.reader.digest_of_copy(entry, None, &[])?;
        let (original, _) = self.reader.digest_of_original(entry, &[])?;
        if found.digest != original {
            bail!(MANIFEST_IN_THE_WAY);
        }
        Ok(self.left(Line::Keep, &existing, Known::default(), false))
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

    /// Whether a further name of a file is left to what bears it already.
    fn keeps_its_own(&self, entry: &Entry) -> bool {
        // Should it not be known, the link will tell.
        let existing = entry.existing().ok().flatten();
        existing.is_some_and(|existing| {
            policy::keeps_its_own(self.settings.policy, entry.stat(), &existing)
        })
    }

    /// Refuses an entry if what bears its name belongs to another one.
    ///
    /// # Errors
    ///
    /// It does, or that cannot be found out.
    pub(super) fn ensure_own_name(&self, entry: &Entry, known: Known) -> anyhow::Result<()> {
        let other = self.names.of_entry(entry, known);
        match other.context("cannot compare its name with others")? {
            None => Ok(()),
            Some(other) => Err(anyhow!(other).context("not copied")),
        }
    }

    /// Reports an entry if what bears its name belongs to another one, which stays. The records of
    /// both stay, too, but not what a killed run did not come to make.
    pub(super) fn refuse_other_name(
        &self,
        entry: &Entry,
        known: Known,
    ) -> anyhow::Result<Option<Settled>> {
        let other = self.names.of_entry(entry, known);
        let Some(other) = other.context("cannot compare its name with others")? else {
            return Ok(None);
        };
        let error = anyhow!(other).context("not copied");
        self.face.complain(&entry.path(), &error);
        let is_made = known.recorded.is_some() || known.announced.is_none();
        let line = if is_made { Line::Keep } else { Line::Remove };
        Ok(Some(Settled {
            line,
            is_news: line == Line::Remove,
            ..Settled::default()
        }))
    }

    /// Copies a regular file, or leaves its copy as it is.
    fn regular(&mut self, entry: &Entry, known: Known) -> anyhow::Result<Copied<'a>> {
        let counts = self.counts;
        let bytes = Some(&counts.bytes);
        if let Some(settled) = self.pass_over_map(entry)? {
            return Ok(Copied::over(settled));
        }
        let existing = entry.existing().context("cannot stat its copy")?;
        let is_regular =
            |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if existing.is_some()
            && let Some(refused) = self.refuse_other_name(entry, known)?
        {
            return Ok(Copied::over(refused));
        }
        if existing.as_ref().is_none_or(is_regular)
            && let Some(map) = self.map_of_copy(entry)?
        {
            return self.complete(entry, existing, known, map);
        }
        let target = |replace| Target::new(replace, known);
        let Some(existing) = existing else {
            return self.copy(entry, target(Replace::No), bytes);
        };
        let is_file = is_regular(&existing);
        if known.is_accepted && is_file {
            return self.leave(entry, &existing, known).map(Copied::over);
        }
        let decision = self.decide(self.settings.policy, entry, &existing);
        let is_in_doubt = decision == Decision::CompareInDoubt;
        match decision {
            Decision::Copy => self.copy(entry, target(Replace::Yes), bytes),
            Decision::Skip => self.leave(entry, &existing, known).map(Copied::over),
            Decision::Compare | Decision::CompareInDoubt => {
                let found = self
                    .reader
                    .digest_of_copy(entry, bytes, &known.expected())?;
                let expected = known.expected();
                let (original, is_as_recorded) =
                    self.reader.digest_of_original(entry, &expected)?;
                if found.digest == original {
                    let line = self.compare_with_record(found, known)?;
                    Ok(Copied::over(self.left(line, &existing, known, true)))
                } else if !(is_as_recorded || is_in_doubt && found.is_as_recorded) {
                    bail!(
                        "it differs from the digest that its copy was recorded with, so that it cannot repair the copy"
                    );
                } else {
                    // What it holds has been counted.
                    self.copy(entry, target(Replace::Yes), None)
                }
            }
        }
    }

    /// What to do about a regular file, where the destination has this.
    fn decide(&self, policy: Policy, entry: &Entry, existing: &Stat) -> Decision {
        decide(policy, entry.stat(), existing, |time| {
            self.granularities.kept(entry, time)
        })
    }

    /// Leaves what bears the name in the destination, read or not.
    fn leave(&mut self, entry: &Entry, existing: &Stat, known: Known) -> anyhow::Result<Settled> {
        if FileType::from_raw_mode(existing.st_mode) != FileType::RegularFile {
            if self.settings.verifies_existing {
                bail!("what bears its name is no regular file");
            }
            // It is never replaced, and has no line.
            self.counts.others.add(1);
            return Ok(Settled::default());
        }
        // What has the same length and time is taken for its copy. That matters only to further names.
        let is_same = entry.stat().st_nlink > 1
            && self.decide(Policy::Update, entry, existing) == Decision::Compare;
        let bytes = &self.counts.bytes;
        let Settings {
            lists_skipped,
            verifies_existing,
            ..
        } = self.settings;
        if !lists_skipped && !verifies_existing && !known.is_accepted && !known.is_doubtful() {
            bytes.add(size(entry.stat()));
            return Ok(self.left(Line::Keep, existing, known, is_same));
        }
        let found = self
            .reader
            .digest_of_copy(entry, Some(bytes), &known.expected())?;
        let line = self.compare_with_record(found, known)?;
        if *verifies_existing {
            let (original, _) = self.reader.digest_of_original(entry, &[])?;
            if found.digest != original && !known.is_accepted {
                self.face
                    .complain(&entry.path(), &anyhow!("its copy differs from it"));
                // The line says what the copy should be, until it is.
                let line = if known.expected().is_empty() {
                    self.listed(original)
                } else {
                    Line::Keep
                };
                return Ok(Settled {
                    line,
                    is_news: line != Line::Keep,
                    ..Settled::default()
                });
            }
        }
        let is_copy = is_same || *verifies_existing;
        Ok(self.left(line, existing, known, is_copy))
    }

    /// Compares a copy that was read with the digest that it was recorded with.
    ///
    /// # Errors
    ///
    /// They differ. The record stays, so that every check fails until the copy is repaired.
    fn compare_with_record(&self, found: CopyDigest, known: Known) -> anyhow::Result<Line> {
        if !found.is_as_recorded && !known.is_accepted {
            bail!("its copy differs from the digest that it was recorded with");
        }
        Ok(self.listed(found.digest))
    }

    /// Compares another name of a copy that has this digest with what the name was recorded with.
    ///
    /// # Errors
    ///
    /// As [`compare_with_record`](Self::compare_with_record).
    pub(super) fn compare_link_with_record(
        &mut self,
        entry: &Entry,
        found: FileDigest,
        known: Known,
    ) -> anyhow::Result<()> {
        let expected = known.expected();
        if known.is_accepted || expected.is_empty() || expected.contains(&found) {
            return Ok(());
        }
        // It may have been recorded by another algorithm.
        let found = self.reader.digest_of_copy(entry, None, &expected)?;
        self.compare_with_record(found, known).map(|_| ())
    }

    /// The line of a file with this digest.
    fn listed(&self, digest: Digest) -> Line {
        if self.settings.leaves_sums {
            Line::Set(FileDigest {
                algorithm: self.settings.algorithm,
                digest,
            })
        } else {
            Line::Keep
        }
    }

    /// Counts a regular file that was left.
    fn left(&self, line: Line, existing: &Stat, known: Known, is_copy: bool) -> Settled {
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(size(existing));
        self.counts.skipped.add(1);
        let is_recorded = known.announced.is_none() && known.recorded.map(Line::Set) == Some(line);
        Settled {
            line,
            is_news: line != Line::Keep && !is_recorded,
            copy: Some(identity(existing)),
            proof: match line {
                Line::Keep | Line::Remove => Proof::None,
                Line::Set(_) => Proof::Read,
            },
            is_copy,
            is_damaged: false,
        }
    }
}
