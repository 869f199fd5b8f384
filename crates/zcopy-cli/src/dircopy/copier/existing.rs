//! Copies that the destination has already: whether they are left, compared or replaced.

use super::file::Target;
use super::{Copied, Copier, MANIFEST_IN_THE_WAY, Proof, Settled};
use crate::digest::Digest;
use crate::dircopy::containment::identity;
use crate::dircopy::lookup::{Known, Modified};
use crate::dircopy::manifest::record::FileDigest;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::Replace;
use crate::dircopy::policy::{self, Decision, Policy, decide};
use crate::dircopy::reading::{CopyDigest, size};
use crate::dircopy::settings::Settings;
use crate::dircopy::tree::Entry;
use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{FileType, Stat};

/// The error of a copy that is not what was recorded.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("its copy differs from the digest that it was recorded with")]
struct DiffersFromRecord;

/// The error of an original that is not what was recorded.
const CANNOT_REPAIR: &str =
    "it differs from the digest that its copy was recorded with, so that it cannot repair the copy";

impl<'a> Copier<'a> {
    /// Leaves a manifest of the destination, which no file of the source replaces.
    pub(super) fn keep_manifest(&mut self, entry: &Entry) -> anyhow::Result<Settled> {
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

    /// Whether a further name of a file is left to what bears it already.
    pub(super) fn keeps_its_own(&self, entry: &Entry) -> bool {
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
    pub(in crate::dircopy) fn ensure_own_name(
        &self,
        entry: &Entry,
        known: Known,
    ) -> anyhow::Result<()> {
        let other = self.names.of_entry(entry, known);
        match other.context("cannot compare its name with others")? {
            None => Ok(()),
            Some(other) => Err(anyhow!(other).context("not copied")),
        }
    }

    /// Reports an entry if what bears its name belongs to another one, which stays. The records of
    /// both stay, too, but not what a killed run did not come to make.
    pub(in crate::dircopy) fn refuse_other_name(
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
    pub(super) fn regular(&mut self, entry: &Entry, known: Known) -> anyhow::Result<Copied<'a>> {
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
            && let Some(map) = self.map_of_copy(entry, known)?
        {
            return self.complete(entry, existing, known, map);
        }
        let target = |replace| Target::new(replace, known);
        let is_forced = self.settings.policy == Policy::Always || known.is_accepted;
        let is_recorded_version = !is_forced && known.modified == Modified::BeforeRecords;
        let Some(existing) = existing else {
            let target = Target {
                is_same_version: is_recorded_version,
                ..target(Replace::No)
            };
            return self.copy(entry, target, bytes);
        };
        let is_file = is_regular(&existing);
        if known.is_accepted && is_file {
            return self.leave(entry, &existing, known).map(Copied::over);
        }
        let decision = self.decide(self.settings.policy, entry, &existing);
        let is_in_doubt = decision == Decision::CompareInDoubt;
        match decision {
            Decision::Copy => {
                let target = Target {
                    is_same_version: is_recorded_version && self.has_same_time(entry, &existing),
                    ..target(Replace::Yes)
                };
                self.copy(entry, target, bytes)
            }
            Decision::Skip => match self.leave(entry, &existing, known) {
                // The copy is newer, since something has changed it.
                Err(error)
                    if self.settings.policy == Policy::Update
                        && error.is::<DiffersFromRecord>() =>
                {
                    let expected = known.expected();
                    let (_, is_as_recorded) = self.reader.digest_of_original(entry, &expected)?;
                    if !is_as_recorded {
                        return Err(error);
                    }
                    self.copy(entry, target(Replace::Yes), None)
                }
                settled => settled.map(Copied::over),
            },
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
                    bail!(CANNOT_REPAIR);
                } else {
                    // What it holds has been counted.
                    self.copy(entry, target(Replace::Yes), None)
                }
            }
        }
    }

    /// What to do about a regular file, where the destination has this.
    pub(super) fn decide(&self, policy: Policy, entry: &Entry, existing: &Stat) -> Decision {
        decide(policy, entry.stat(), existing, |time| {
            self.granularities.kept(entry, time)
        })
    }

    /// Whether a copy was modified when its original was, as far as the destination keeps times.
    fn has_same_time(&self, entry: &Entry, existing: &Stat) -> bool {
        let mut same_size = *existing;
        same_size.st_size = entry.stat().st_size;
        self.decide(Policy::Update, entry, &same_size) == Decision::Compare
    }

    /// Refuses an original that is no newer than its copy and has another digest than was recorded.
    ///
    /// # Errors
    ///
    /// It is such an original.
    pub(super) fn compare_original_with_record(
        &self,
        target: &Target,
        digest: Digest,
    ) -> anyhow::Result<()> {
        let Known {
            recorded: Some(recorded),
            announced: None,
            ..
        } = target.known
        else {
            return Ok(());
        };
        if !target.is_same_version
            || recorded.algorithm != self.settings.algorithm
            || recorded.digest == digest
        {
            return Ok(());
        }
        match target.replace {
            Replace::No => bail!(
                "it differs from the digest of its copy, which is gone; --overwrite-policy=always copies it"
            ),
            Replace::Yes => bail!(CANNOT_REPAIR),
        }
    }

    /// Leaves what bears the name in the destination, read or not.
    pub(super) fn leave(
        &mut self,
        entry: &Entry,
        existing: &Stat,
        known: Known,
    ) -> anyhow::Result<Settled> {
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
    pub(super) fn compare_with_record(
        &self,
        found: CopyDigest,
        known: Known,
    ) -> anyhow::Result<Line> {
        if !found.is_as_recorded && !known.is_accepted {
            bail!(DiffersFromRecord);
        }
        Ok(self.listed(found.digest))
    }

    /// Compares another name of a copy that has this digest with what the name was recorded with.
    ///
    /// # Errors
    ///
    /// As [`compare_with_record`](Self::compare_with_record).
    pub(in crate::dircopy) fn compare_link_with_record(
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
    pub(super) fn listed(&self, digest: Digest) -> Line {
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
    pub(super) fn left(&self, line: Line, existing: &Stat, known: Known, is_copy: bool) -> Settled {
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
