//! Files that cannot be read everywhere, and copies that lack something.
//!
//! A damaged copy has a [map](DamageMap) beside it and no line in the manifest. The map gets its name
//! first, so that at no moment there is a damaged copy without one; a copy that is whole gets its
//! name before the map is removed. A file that is recorded is whole, whatever a map says: its digest
//! tells.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType, Stat};

use super::file::{Draft, Target, Way};
use super::{Copied, Copier, Settled};
use crate::dircopy::attributes::Named;
use crate::dircopy::containment::identity;
use crate::dircopy::damage_map::{
    Damage, DamageMap, Described, Rest, map_name, mapped_name, remove_map,
};
use crate::dircopy::hashing::Contents;
use crate::dircopy::lookup::Known;
use crate::dircopy::manifest::journal_entry::JournalEntry;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::{Linked, Replace, place_link};
use crate::dircopy::policy::Policy;
use crate::dircopy::reading::size;
use crate::dircopy::tree::Entry;

impl<'a> Copier<'a> {
    /// The map beside a copy, if it lacks something. A map of which ddrescue has read everything is
    /// removed.
    pub(in crate::dircopy) fn map_of_copy(
        &self,
        entry: &Entry,
    ) -> anyhow::Result<Option<DamageMap>> {
        if !entry.may_have_map() {
            return Ok(None);
        }
        let Named { directory, name } = entry.destination();
        let map = DamageMap::of_file(directory, name).context("cannot read the map of its copy")?;
        if map.as_ref().is_some_and(DamageMap::is_empty) {
            self.remove_map(entry);
            return Ok(None);
        }
        Ok(map)
    }

    /// Removes the map of a copy that is whole now.
    pub(in crate::dircopy) fn remove_map(&self, entry: &Entry) {
        let Named { directory, name } = entry.destination();
        if let Err(error) = remove_map(directory, name, self.settings.durability) {
            let error = anyhow!(error).context("its copy is whole, and its map cannot be removed");
            self.face.complain(&entry.path(), &error);
        }
    }

    /// The damage of an original that is itself the copy of a damaged file.
    pub(super) fn damage_of_original(&self, entry: &Entry) -> anyhow::Result<DamageMap> {
        if !entry.may_have_source_map() {
            return Ok(DamageMap::default());
        }
        let Named { directory, name } = entry.source();
        let map = DamageMap::of_file(directory, name).context("cannot read its map")?;
        let map = map.unwrap_or_default();
        if !map.is_empty() && !self.settings.skips_errors {
            bail!("it is a damaged copy itself, and lacks {}", map.words());
        }
        Ok(map)
    }

    /// Passes over an entry that is the map of another. The other's copy gets a map of its own.
    pub(super) fn pass_over_map(&self, entry: &Entry) -> anyhow::Result<Option<Settled>> {
        let Some(mapped) = mapped_name(entry.name().to_bytes()) else {
            return Ok(None);
        };
        let Named { directory, name } = entry.source();
        let map = DamageMap::read(directory, name).context("cannot read")?;
        if map.is_none() {
            return Ok(None);
        }
        // A part of a name has no zero byte.
        let mapped = CString::new(mapped).unwrap_or_default();
        let found = rustix::fs::statat(directory, &mapped, AtFlags::empty());
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !found.is_ok_and(|found| is_file(&found)) {
            bail!("it is the map of a damaged file that is not there, and is not copied");
        }
        self.counts.others.add(1);
        Ok(Some(Settled::default()))
    }

    /// Copies a file of which the destination may have a damaged copy.
    pub(super) fn complete(
        &mut self,
        entry: &Entry,
        existing: Option<Stat>,
        known: Known,
        map: DamageMap,
    ) -> anyhow::Result<Copied<'a>> {
        let bytes = Some(&self.counts.bytes);
        let mut target = Target {
            replace: Replace::No,
            known,
            map: Some(map),
            is_same_version: false,
        };
        let Some(existing) = existing else {
            return self.copy(entry, target, bytes);
        };
        if known.is_accepted {
            let settled = self.leave(entry, &existing, known)?;
            self.remove_map(entry);
            return Ok(Copied::over(settled));
        }
        let expected = known.expected();
        if !expected.is_empty() {
            let found = self.reader.digest_of_copy(entry, bytes, &expected);
            // One that cannot be read is not whole.
            if let Ok(found) = found
                && found.is_as_recorded
            {
                self.remove_map(entry);
                let line = self.listed(found.digest);
                return Ok(Copied::over(self.left(line, &existing, known, true)));
            }
            self.interrupt.check()?;
        }
        if self.settings.policy == Policy::Never {
            let map = target.map.unwrap_or_default();
            return Ok(Copied::over(self.leave_damaged(
                entry,
                &existing,
                &map,
                Rest::Left,
            )));
        }
        target.replace = Replace::Yes;
        self.copy(entry, target, bytes)
    }

    /// Reports a damaged copy that stays as it is.
    fn leave_damaged(
        &self,
        entry: &Entry,
        existing: &Stat,
        map: &DamageMap,
        rest: Rest,
    ) -> Settled {
        self.face
            .report_damage(&entry.path(), &Damage { map, rest });
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(size(existing));
        self.counts.skipped.add(1);
        Settled {
            copy: Some(identity(existing)),
            is_copy: true,
            is_damaged: true,
            ..Settled::default()
        }
    }

    /// Gives a damaged copy its name, and its map. What was there stays, unless it is a copy that
    /// lacks more.
    pub(super) fn publish_damaged(
        &mut self,
        entry: &Entry,
        draft: Draft<'_>,
        way: Way,
        contents: Option<Contents>,
    ) -> anyhow::Result<Settled> {
        let digest = contents.map(|contents| self.reader.tap.digest_of(&contents));
        let damage = draft.damage.clone();
        let Target {
            replace,
            known,
            map: old,
            is_same_version: _,
        } = draft.target.clone();
        if damage.lost_bytes() >= size(&draft.stat) {
            // The disk may be gone, and a file of zeros helps nobody.
            bail!("cannot read any of its {}", damage.words());
        }
        match (&old, replace) {
            (None, Replace::Yes) => {
                bail!("cannot read {}; its existing copy is kept", damage.words());
            }
            (Some(old), Replace::Yes) if damage.lost_bytes() >= old.lost_bytes() => {
                let existing = entry.existing().context("cannot stat its copy")?;
                let existing = existing.context("its damaged copy has gone")?;
                return Ok(self.leave_damaged(entry, &existing, &damage, Rest::Kept));
            }
            _ => {}
        }
        check_map_name(entry)?;
        self.prepare_copy(entry, &draft, way, digest)?;
        // As long as the old copy has the name, the map is also true of that.
        let before = match (&old, replace) {
            (Some(old), Replace::Yes) => damage.union(old),
            _ => damage.clone(),
        };
        self.write_map(entry, &before, size(&draft.stat))?;
        self.cancel_announced(entry, known);
        let (stat, n_bytes, mut place) = (draft.stat, draft.n_bytes, draft.place);
        let copy = rustix::fs::fstat(&place).map_err(io::Error::from);
        let copy = identity(&copy.context("cannot stat its copy")?);
        if let Err(error) = place.try_commit(entry.name(), replace, self.settings.durability) {
            let exists = entry.existing().is_ok_and(|found| found.is_some());
            // Whether the name is on the disk may be unknown, and then the map stays.
            let has_name = entry
                .existing()
                .is_ok_and(|found| found.is_some_and(|found| identity(&found) == copy));
            if exists && !has_name && old.is_none() {
                self.remove_map(entry);
            }
            self.unwritten.keep(place, &error);
            return Err(anyhow!(error).context("cannot give its copy the name"));
        }
        if before != damage {
            self.write_map(entry, &damage, size(&stat))?;
        }
        let rest = Rest::Copied;
        let report = Damage { map: &damage, rest };
        self.face.report_damage(&entry.path(), &report);
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(n_bytes);
        match way {
            Way::Written => self.counts.copied.add(1),
            Way::Shared => self.counts.cloned.add(1),
        }
        Ok(Settled {
            line: line_of_damaged(known),
            copy: Some(copy),
            is_copy: true,
            is_damaged: true,
            ..Settled::default()
        })
    }

    /// Tells the journal that a file which a killed run announced is not there. What is recorded of
    /// the file stays, whatever moment this run is killed at.
    fn cancel_announced(&self, entry: &Entry, known: Known) {
        if known.announced.is_some() {
            let path = entry.path();
            self.journaling
                .add([(path.as_os_str().as_bytes(), JournalEntry::Cancelled)]);
        }
    }

    /// Writes the map of a copy.
    pub(in crate::dircopy) fn write_map(
        &self,
        entry: &Entry,
        map: &DamageMap,
        size: u64,
    ) -> anyhow::Result<()> {
        let path = entry.path();
        let described = Described { path: &path, size };
        let directory = entry.destination_directory();
        let durability = self.settings.durability;
        map.write(directory, entry.name(), described, durability)
            .with_context(|| {
                let map = map_name(entry.name());
                let map = String::from_utf8_lossy(map.to_bytes()).into_owned();
                format!("it is damaged, and its map '{map}' cannot be written")
            })
    }

    /// Links a further name of a damaged file to its damaged copy. That name gets a map too. Another
    /// file stays, unless it is a damaged copy that lacks more. False, if the copy cannot have
    /// another name.
    pub(in crate::dircopy) fn link_damaged(
        &self,
        entry: &Entry,
        known: Known,
        first: Named<'_>,
        existing: Option<&Stat>,
        copy: &Stat,
    ) -> anyhow::Result<bool> {
        let map = DamageMap::of_file(first.directory.as_fd(), first.name);
        let map = map.context("cannot read the map of its first name")?;
        let map = map.context("its first name is damaged, and has no map")?;
        let old = self.map_of_copy(entry)?;
        let is_linked = existing.is_some_and(|existing| identity(existing) == identity(copy));
        if existing.is_some() && !is_linked {
            match &old {
                None => bail!("cannot read {}; its existing copy is kept", map.words()),
                Some(old) if map.lost_bytes() >= old.lost_bytes() => {
                    let (map, rest) = (&map, Rest::Kept);
                    self.face
                        .report_damage(&entry.path(), &Damage { map, rest });
                    return Ok(true);
                }
                Some(_) => {}
            }
        }
        check_map_name(entry)?;
        let before = match &old {
            Some(old) if !is_linked => map.union(old),
            _ => map.clone(),
        };
        self.write_map(entry, &before, size(copy))?;
        self.cancel_announced(entry, known);
        if !is_linked {
            let replace = Replace::what_is_there(existing.is_some());
            let durability = self.settings.durability;
            let linked = place_link(first, entry.destination(), replace, durability);
            match Linked::from_result(linked).context("cannot link it to its first name")? {
                Linked::Made => {}
                Linked::Unable(_) | Linked::Unproven => return Ok(false),
            }
        }
        if before != map {
            self.write_map(entry, &map, size(copy))?;
        }
        let (map, rest) = (&map, Rest::Copied);
        self.face
            .report_damage(&entry.path(), &Damage { map, rest });
        Ok(true)
    }
}

/// The line of a damaged copy: the digest that was recorded tells what it should hold. What a killed
/// run announced did not happen.
pub(in crate::dircopy) fn line_of_damaged(known: Known) -> Line {
    match (known.announced, known.recorded) {
        (None, _) => Line::Keep,
        (Some(_), Some(recorded)) => Line::Set(recorded),
        (Some(_), None) => Line::Remove,
    }
}

/// Refuses to write a map where a file of the source goes.
fn check_map_name(entry: &Entry) -> anyhow::Result<()> {
    if !entry.may_have_source_map() {
        return Ok(());
    }
    let map = map_name(entry.name());
    let directory = entry.source().directory;
    if DamageMap::read(directory, &map).is_ok_and(|map| map.is_some()) {
        return Ok(());
    }
    bail!("it is damaged, and its map cannot be written: the source has a file of that name");
}
