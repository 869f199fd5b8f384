//! Copies symbolic links and special files.

use std::io;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FileType, Mode, Stat};

use super::symlinks::NofollowTarget;
use super::{Copier, CopyResult};
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::mtime::Time;
use crate::dircopy::policy::Policy;
use crate::dircopy::reporter::file_result::Action;
use crate::dircopy::schedule::lookup::PriorRecord;
use crate::dircopy::stat::{file_type, is_regular};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{Replace, SpecialFile, place_other};
use crate::dircopy::write::limitation::Limitation;
use crate::dircopy::write::metadata::Named;

impl Copier<'_> {
    /// Copies an entry that is not a regular file, or leaves its copy.
    pub(super) fn copy_other(
        &mut self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<CopyResult> {
        let existing = entry.existing().context("cannot stat its copy")?;
        if prior.is_accepted {
            // The user accepts the file in the destination.
            return match existing.filter(is_regular) {
                Some(existing) => self.leave(entry, &existing, prior),
                None => bail!("its copy is not a regular file, and cannot be accepted"),
            };
        }
        if existing.is_some()
            && let Some(refused) = self.refuse_other_name(entry, prior)?
        {
            return Ok(refused);
        }
        let is_left = match (self.settings.policy, &existing) {
            (_, None) | (Policy::Always, _) => false,
            (Policy::Never, Some(_)) => true,
            (Policy::Default | Policy::Update, Some(existing)) => is_alike(entry, existing),
        };
        if let Some(existing) = &existing
            && is_left
            && self.settings.verifies_existing
            && !is_alike(entry, existing)
        {
            bail!("its copy differs from it");
        }
        let stays_file = is_left && existing.as_ref().is_some_and(is_regular);
        if let Some(existing) = &existing
            && !is_left
            && is_regular(existing)
            && prior.recorded.is_some()
            && self.settings.policy != Policy::Always
            && Time::modified(entry.stat()) <= Time::modified(existing)
        {
            bail!(
                "it is not newer than the recorded file that it would replace; --overwrite-policy=always replaces it"
            );
        }
        if !is_left {
            if prior.recorded.is_some() || prior.announced.is_some() {
                self.settle_announcement(entry, prior)?;
                let path = entry.path();
                let cleared = (path.as_os_str().as_bytes(), Announced::Clears);
                let durability = prior.durability_of(Announced::Clears, self.settings.durability);
                self.journal.announce([cleared], durability);
                self.journal.allow_name(Replace::Yes, durability)?;
            }
            if let Err(error) = self.place(entry, existing.as_ref()) {
                let found = entry.existing().ok().flatten();
                if !found.is_some_and(|found| is_alike(entry, &found)) {
                    return Err(error);
                }
                // The copy has the name, but maybe not on the disk. The recorded file is gone.
                self.reporter.report_error(&entry.path(), &error);
                return Ok(CopyResult {
                    line: Line::Remove,
                    needs_journal: !prior.expected().is_empty(),
                    ..CopyResult::default()
                });
            }
        }
        self.counts.others.add(1);
        let is_copy = !is_left
            || existing
                .as_ref()
                .is_some_and(|existing| is_alike(entry, existing));
        Ok(CopyResult {
            line: if stays_file { Line::Keep } else { Line::Remove },
            needs_journal: !stays_file && !prior.expected().is_empty(),
            is_copy,
            action: if is_left {
                Action::Skipped
            } else {
                Action::Made
            },
            is_replacement: !is_left && existing.is_some(),
            ..CopyResult::default()
        })
    }

    /// Makes the copy, unless another process has just made it.
    fn place(&self, entry: &Entry, existing: Option<&Stat>) -> anyhow::Result<()> {
        let replace = Replace::what_is_there(existing.is_some());
        let (source, destination) = (entry.source(), entry.destination());
        let (stat, durability) = (entry.stat(), self.settings.durability);
        match entry.kind() {
            FileType::Socket => bail!("it is a socket, which is not copied"),
            FileType::Unknown => bail!("it is of an unknown kind"),
            _ => {}
        }
        let replaced_mode = existing
            .filter(|existing| file_type(existing) == entry.kind())
            .map(|existing| Mode::from_raw_mode(existing.st_mode & 0o777));
        let other = SpecialFile::read(source, stat).context("cannot read")?;
        let mut other = other.preserve(self.settings.preserve, replaced_mode);
        let device = entry.directory().destination_device();
        if entry.kind() == FileType::Symlink
            && self.symlinks.nofollow_target(destination.directory, device)
                == NofollowTarget::Target
        {
            other = other.without_attributes();
            self.reporter
                .report_limitation(Limitation::SymlinkAttributes);
        }
        let placed = place_other(&other, destination, replace, durability);
        if let Err(error) = &placed
            && error.kind() == io::ErrorKind::AlreadyExists
        {
            self.ensure_own_name(entry, PriorRecord::default())?;
            let Named { directory, name } = destination;
            let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            if found.is_ok_and(|found| is_alike(entry, &found)) {
                return Ok(());
            }
        }
        let placed = placed.context("cannot make its copy")?;
        self.reporter.report_exclusivity(placed.exclusivity);
        if let Err(error) = placed.attributes {
            self.reporter.report_metadata_error(&entry.path(), &error);
        }
        Ok(())
    }
}

/// Whether an entry that is not a regular file and its copy are alike.
fn is_alike(entry: &Entry, existing: &Stat) -> bool {
    let kind = file_type(existing);
    if kind != entry.kind() {
        return false;
    }
    match kind {
        FileType::Symlink => {
            let target = |named: Named<'_>| {
                rustix::fs::readlinkat(named.directory, named.name, Vec::new()).ok()
            };
            let original = target(entry.source());
            original.is_some() && original == target(entry.destination())
        }
        FileType::CharacterDevice | FileType::BlockDevice => {
            entry.stat().st_rdev == existing.st_rdev
        }
        _ => true,
    }
}
