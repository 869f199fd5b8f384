//! Decides whether the existing copy of a file is left, compared or replaced.

use std::ffi::CString;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{FileType, Stat};

use super::file::{PendingCopy, Started, Target, Version};
use super::{Copier, CopyResult, MANIFEST_IN_THE_WAY, Proof};
use crate::common::digest::{AlgorithmSet, Digest};
use crate::dircopy::damage_map::{DamageMap, EmptyFile, mapped_name};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::reader::FoundDigest;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::mtime::Time;
use crate::dircopy::policy::{self, Decision, Policy, decide, is_newer_version};
use crate::dircopy::reporter::file_result::Action;
use crate::dircopy::schedule::lookup::{Modified, PriorRecord};
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::identity;
use crate::dircopy::stat::is_regular;
use crate::dircopy::stat::open_regular;
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::Replace;
use crate::dircopy::write::metadata::Named;

/// The error of a copy that has another digest than was recorded.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("its copy differs from the digest that it was recorded with")]
pub(super) struct DiffersFromRecord {
    /// The digest that the copy has.
    pub(super) found: FileDigest,
}

/// The error of an original that differs from its copy, which is as it was recorded.
const DIFFERS_FROM_COPY: &str = "it differs from its copy, which is as it was recorded; --overwrite-policy=always replaces the copy";

/// The error of an original that differs from its copy in an archive with a history.
const DIFFERS_FROM_FIRST: &str = "it differs from the first digest that the history has of it";

/// The error of an original that differs, as its copy does, from the digest that was recorded.
const CANNOT_REPAIR: &str =
    "it differs from the digest that its copy was recorded with, so that it cannot repair the copy";

impl<'a> Copier<'a> {
    /// Leaves a manifest of the destination, which no file of the source replaces.
    pub(super) fn keep_manifest(&mut self, entry: &Entry) -> anyhow::Result<CopyResult> {
        let existing = entry.existing().context("cannot stat its copy")?;
        let is_alike = |existing: &Stat| {
            existing.st_size == entry.stat().st_size && entry.kind() == FileType::RegularFile
        };
        let Some(existing) = existing.filter(is_alike) else {
            bail!(MANIFEST_IN_THE_WAY);
        };
        let found = self.reader.digest_of_copy(entry, None, &[])?;
        let original = self.reader.digest_of_original(entry, &[])?;
        if found.digest != original.digest {
            bail!(MANIFEST_IN_THE_WAY);
        }
        Ok(CopyResult {
            is_copy: false,
            ..self.left(Line::Keep, &existing, PriorRecord::default())
        })
    }

    /// Whether the file that has an additional name in the destination stays, instead of being
    /// replaced by a link.
    pub(super) fn stays_as_it_is(&self, entry: &Entry) -> bool {
        // If it cannot be found out now, linking fails and reports why.
        let existing = entry.existing().ok().flatten();
        existing.is_some_and(|existing| {
            policy::keeps_existing_name(self.settings.policy, entry.stat(), &existing)
        })
    }

    /// Refuses an entry if its name in the destination belongs to another entry.
    ///
    /// # Errors
    ///
    /// The name belongs to another entry, or the names cannot be compared.
    pub(crate) fn ensure_own_name(&self, entry: &Entry, prior: PriorRecord) -> anyhow::Result<()> {
        let other = self.names.of_entry(entry, prior);
        match other.context("cannot compare its name with others")? {
            None => Ok(()),
            Some(other) => Err(anyhow!(other).context("not copied")),
        }
    }

    /// Reports an entry if its name in the destination belongs to another entry. The existing file
    /// and the records of both entries stay. An announcement of a killed run is dropped if the
    /// entry has no record.
    pub(crate) fn refuse_other_name(
        &self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<Option<CopyResult>> {
        let other = self.names.of_entry(entry, prior);
        let Some(other) = other.context("cannot compare its name with others")? else {
            return Ok(None);
        };
        let error = anyhow!(other).context("not copied");
        self.reporter.report_error(&entry.path(), &error);
        let line = if prior.recorded.is_none() && prior.announced.is_some() {
            Line::Remove
        } else {
            Line::Keep
        };
        Ok(Some(CopyResult {
            line,
            needs_journal: line == Line::Remove,
            ..CopyResult::default()
        }))
    }

    /// Starts the copy of a regular file, or leaves its copy.
    pub(super) fn start_regular(
        &mut self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<Started<'a>> {
        if let Some(result) = self.pass_over_map(entry)? {
            return Ok(Started::finished(result));
        }
        let existing = entry.existing().context("cannot stat its copy")?;
        if existing.is_some()
            && let Some(refused) = self.refuse_other_name(entry, prior)?
        {
            return Ok(Started::finished(refused));
        }
        if existing.as_ref().is_none_or(is_regular)
            && let Some(map) = self.map_of_copy(entry, prior)?
        {
            return self.complete(entry, existing, prior, map);
        }
        let bytes = Some(&self.counts.bytes);
        let version = if self.is_newer_than_record(entry, existing.as_ref(), prior) {
            Version::Unknown
        } else {
            Version::Recorded
        };
        let target = |replace| Target {
            version,
            ..Target::new(replace, prior)
        };
        let Some(existing) = existing else {
            return self.copy(entry, target(Replace::No), bytes);
        };
        if prior.is_accepted && is_regular(&existing) {
            return self.leave(entry, &existing, prior).map(Started::finished);
        }
        match self.decide(self.settings.policy, entry, &existing) {
            Decision::Copy => self.copy(entry, target(Replace::Yes), bytes),
            Decision::Skip => self.leave_or_repair(entry, &existing, prior),
            decision @ (Decision::Compare | Decision::CompareInDoubt) => {
                self.compare(entry, &existing, prior, decision)
            }
        }
    }

    /// Whether an original may have another digest than its copy was recorded with: it was modified
    /// after its copy, or after all records were made if the copy is gone, or the user says so.
    pub(crate) fn is_newer_than_record(
        &self,
        entry: &Entry,
        existing: Option<&Stat>,
        prior: PriorRecord,
    ) -> bool {
        let is_after_records = prior.modified == Modified::AfterRecords;
        let is_newer = || {
            let existing = existing.filter(|existing| is_regular(existing));
            let is_modified = existing.map_or(is_after_records, |existing| {
                // The file system of the copy may have rounded its time down.
                let may_be_newer = Time::modified(entry.stat()) > Time::modified(existing);
                is_newer_version(entry.stat(), existing) || is_after_records && may_be_newer
            });
            is_modified || prior.is_accepted || self.settings.policy == Policy::Always
        };
        !self.settings.manifest.keeps_first_digest() && is_newer()
    }

    /// Leaves a copy. With `--overwrite-policy update` a copy that differs from its record is
    /// replaced by an original that has the recorded digest, even if the copy is newer.
    fn leave_or_repair(
        &mut self,
        entry: &Entry,
        existing: &Stat,
        prior: PriorRecord,
    ) -> anyhow::Result<Started<'a>> {
        match self.leave(entry, existing, prior) {
            Err(error)
                if self.settings.policy == Policy::Update && error.is::<DiffersFromRecord>() =>
            {
                let original = self.reader.digest_of_original(entry, &prior.expected())?;
                if !original.is_as_recorded {
                    return Err(error);
                }
                // The bytes of the copy have been counted.
                self.copy(entry, Target::new(Replace::Yes, prior), None)
            }
            result => result.map(Started::finished),
        }
    }

    /// Compares a copy with its original, and replaces the copy if they differ.
    fn compare(
        &mut self,
        entry: &Entry,
        existing: &Stat,
        prior: PriorRecord,
        decision: Decision,
    ) -> anyhow::Result<Started<'a>> {
        let (bytes, expected) = (Some(&self.counts.bytes), prior.expected());
        let found = self.reader.digest_of_copy(entry, bytes, &expected)?;
        let original = self.reader.digest_of_original(entry, &expected)?;
        if found.digest == original.digest {
            let line = self.compare_with_record(found, prior)?;
            return Ok(Started::finished(self.left(line, existing, prior)));
        }
        let may_be_newer = decision == Decision::CompareInDoubt
            && found.is_as_recorded
            && !self.settings.manifest.keeps_first_digest();
        if !original.is_as_recorded && !may_be_newer {
            bail!(if !found.is_as_recorded {
                CANNOT_REPAIR
            } else if self.settings.manifest.keeps_first_digest() {
                DIFFERS_FROM_FIRST
            } else {
                DIFFERS_FROM_COPY
            });
        }
        // The bytes of the copy have been counted.
        self.copy(entry, Target::new(Replace::Yes, prior), None)
    }

    /// Decides whether a regular file replaces `existing`.
    pub(super) fn decide(&self, policy: Policy, entry: &Entry, existing: &Stat) -> Decision {
        decide(policy, entry.stat(), existing, |time| {
            self.granularities.rounding(entry, time)
        })
    }

    /// Refuses a copy of an original that is no newer version than the recorded one and has another
    /// digest. `digest` is the digest of the copy, if it was hashed.
    ///
    /// # Errors
    ///
    /// The digests differ; the copy cannot be read.
    pub(super) fn compare_original_with_record(
        &mut self,
        copy: &PendingCopy<'_>,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        let target = &copy.target;
        let expected = target.prior.expected();
        if target.version != Version::Recorded || expected.is_empty() {
            return Ok(());
        }
        let algorithm = self.settings.algorithm;
        let own = AlgorithmSet::from(algorithm);
        let is_other = |file: &FileDigest| !own.intersects(file.algorithm.into());
        let has_other_algorithm = expected.iter().any(is_other);
        let is_as_recorded = match digest.map(|digest| FileDigest { algorithm, digest }) {
            Some(file) if expected.iter().any(|one| file.agrees_with(*one)) => true,
            Some(_) if !has_other_algorithm => false,
            // The run makes no digests, or digests of another algorithm.
            _ => {
                let found = self.reader.compare_file(copy.new_file.file(), &expected);
                found.context("cannot read its copy")?
            }
        };
        if !is_as_recorded && self.settings.manifest.keeps_first_digest() {
            bail!(DIFFERS_FROM_FIRST);
        }
        match (is_as_recorded, target.replace) {
            (true, _) => Ok(()),
            (false, Replace::No) => bail!(
                "it differs from the digest of its copy, which is gone; --overwrite-policy=always copies it"
            ),
            (false, Replace::Yes) => bail!(
                "it differs from the digest that its copy was recorded with, and is no newer than the copy; \
                 --overwrite-policy=always replaces the copy"
            ),
        }
    }

    /// Leaves an existing copy. Reads it if its digest is needed.
    pub(super) fn leave(
        &mut self,
        entry: &Entry,
        existing: &Stat,
        prior: PriorRecord,
    ) -> anyhow::Result<CopyResult> {
        if !is_regular(existing) {
            if self.settings.verifies_existing {
                bail!("its copy is no regular file");
            }
            // The policy never replaces it. The manifest lists regular files alone.
            self.count_left(0);
            return Ok(CopyResult::skipped());
        }
        if prior.recorded.is_none() && is_damage_map(entry)? {
            // It is the map of a damaged copy, and no copy of the entry.
            self.count_left(0);
            return Ok(CopyResult::skipped());
        }
        // A file with the same size and time is taken for the copy. Only additional names need to
        // know.
        let is_same = entry.stat().st_nlink > 1
            && self.decide(Policy::Update, entry, existing) == Decision::Compare;
        let bytes = &self.counts.bytes;
        let Settings {
            algorithm,
            manifest,
            hashes_skipped,
            verifies_existing,
            ..
        } = self.settings;
        let own = AlgorithmSet::from(*algorithm);
        let is_complete = |file: &FileDigest| AlgorithmSet::from(file.algorithm).includes(own);
        let lacks_record = manifest.lists_all() && !prior.expected().iter().any(is_complete);
        let is_read = *hashes_skipped || *verifies_existing || prior.is_accepted || lacks_record;
        if !is_read && !prior.is_doubtful() {
            bytes.add(size(entry.stat()));
            return Ok(CopyResult {
                is_copy: is_same,
                ..self.left(Line::Keep, existing, prior)
            });
        }
        let found = self
            .reader
            .digest_of_copy(entry, Some(bytes), &prior.expected())?;
        let line = self.compare_with_record(found, prior)?;
        if *verifies_existing && !prior.is_accepted {
            let original = self.reader.digest_of_original(entry, &[])?;
            if found.digest != original.digest {
                self.reporter
                    .report_error(&entry.path(), &anyhow!("its copy differs from it"));
                // A copy without a record gets none: its digest would vouch for it, and that of the
                // original is of bytes that the copy never had.
                return Ok(CopyResult::default());
            }
        }
        Ok(CopyResult {
            is_copy: is_same || *verifies_existing,
            ..self.left(line, existing, prior)
        })
    }

    /// Compares the digest of a copy with its record. Returns the line of the copy.
    ///
    /// # Errors
    ///
    /// The digests differ. The record stays, so that every check fails until the copy is repaired.
    pub(super) fn compare_with_record(
        &self,
        found: FoundDigest,
        prior: PriorRecord,
    ) -> anyhow::Result<Line> {
        if !found.is_as_recorded && !prior.is_accepted {
            let algorithm = self.settings.algorithm;
            let digest = found.digest;
            let found = FileDigest { algorithm, digest };
            bail!(DiffersFromRecord { found });
        }
        Ok(self.listed(found.digest))
    }

    /// Compares the digest of a copy with the record of an additional name.
    ///
    /// # Errors
    ///
    /// As [`compare_with_record`](Self::compare_with_record).
    pub(crate) fn compare_link_with_record(
        &mut self,
        entry: &Entry,
        found: FileDigest,
        prior: PriorRecord,
    ) -> anyhow::Result<()> {
        let expected = prior.expected();
        let is_expected = expected.iter().any(|file| found.agrees_with(*file));
        if prior.is_accepted || expected.is_empty() || is_expected {
            return Ok(());
        }
        // The record may be of another algorithm.
        let found = self.reader.digest_of_copy(entry, None, &expected)?;
        self.compare_with_record(found, prior).map(|_| ())
    }

    /// Whether an original has the contents of a copy, which has another name and this line.
    /// [`Line::Keep`] has the copy read.
    pub(crate) fn has_contents_of(
        &mut self,
        entry: &Entry,
        copy: Named<'_>,
        line: Line,
    ) -> anyhow::Result<bool> {
        let original = self.reader.digest_of_original(entry, &[])?.digest;
        let copied = match line {
            Line::Set(file) if file.algorithm == self.settings.algorithm => file.digest,
            _ => {
                let opened = open_regular(copy.directory, copy.name);
                let (file, stat) = opened.context("cannot open the copy of its first name")?;
                let digest = self.reader.digest_of(&file, size(&stat), None);
                digest.context("cannot read the copy of its first name")?
            }
        };
        Ok(copied == original)
    }

    /// The line of a file with this digest.
    pub(super) fn listed(&self, digest: Digest) -> Line {
        if self.settings.writes_manifest {
            Line::Set(FileDigest {
                algorithm: self.settings.algorithm,
                digest,
            })
        } else {
            Line::Keep
        }
    }

    /// Counts a regular file whose name was left as it is, and the bytes of its copy.
    fn count_left(&self, n_bytes: u64) {
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(n_bytes);
        self.counts.skipped.add(1);
    }

    /// Counts a copy that was left. Returns its result.
    pub(super) fn left(&self, line: Line, existing: &Stat, prior: PriorRecord) -> CopyResult {
        self.count_left(size(existing));
        let is_recorded = prior.announced.is_none() && prior.recorded.map(Line::Set) == Some(line);
        CopyResult {
            line,
            needs_journal: line != Line::Keep && !is_recorded,
            file: Some(identity(existing)),
            proof: match line {
                Line::Keep | Line::Differs(_) | Line::Remove => Proof::None,
                Line::Set(_) => Proof::Read,
            },
            is_copy: true,
            is_damaged: false,
            action: Action::Skipped,
            is_replacement: false,
            resumed_bytes: 0,
        }
    }
}

/// Whether the existing file of an entry is the map of a damaged copy.
fn is_damage_map(entry: &Entry) -> anyhow::Result<bool> {
    let Named { directory, name } = entry.destination();
    let Some(mapped) = mapped_name(name.to_bytes()) else {
        return Ok(false);
    };
    let mapped = CString::new(mapped)?;
    let map = DamageMap::of_file(directory, &mapped, EmptyFile::Other);
    let map = map.context("cannot read its copy")?;
    Ok(map.is_some_and(|map| !map.is_empty()))
}
