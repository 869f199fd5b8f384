//! Files that cannot be read everywhere, and copies that lack something.
//!
//! A damaged copy has a [map](DamageMap) beside it and no line in the manifest. The map gets its name
//! first, so that at no moment there is a damaged copy without one; a copy that is whole gets its
//! name before the map is removed. A file that is recorded is whole, whatever a map says: its digest
//! tells.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::file::{Draft, Target, Way};
use super::{Copied, Copier, Settled};
use crate::dircopy::attributes::Named;
use crate::dircopy::containment::identity;
use crate::dircopy::damage_map::{
    Damage, DamageMap, Described, EmptyFile, MapText, Rest, map_name, mapped_name, remove_map,
};
use crate::dircopy::hashing::Contents;
use crate::dircopy::lookup::{Known, MapFile};
use crate::dircopy::manifest::journal_entry::JournalEntry;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::{Durability, Linked, Replace, place_link};
use crate::dircopy::policy::Policy;
use crate::dircopy::reading::size;
use crate::dircopy::tree::Entry;

impl<'a> Copier<'a> {
    /// The map beside a copy, if it lacks something. A map of which ddrescue has read everything is
    /// removed. A file that was copied, or is going to be, is no such map.
    pub(in crate::dircopy) fn map_of_copy(
        &self,
        entry: &Entry,
        known: Known,
    ) -> anyhow::Result<Option<DamageMap>> {
        if !entry.may_have_map() || known.map_file == MapFile::Recorded {
            return Ok(None);
        }
        let Named { directory, name } = entry.destination();
        let is_in_source = entry.may_have_source_map();
        let empty = if is_in_source {
            EmptyFile::Other
        } else {
            EmptyFile::CutMap
        };
        let map = DamageMap::of_file(directory, name, empty);
        let map = map.context("cannot read the map of its copy")?;
        if map.as_ref().is_some_and(DamageMap::is_empty) {
            if !is_in_source {
                self.remove_map(entry);
            }
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
        let map = DamageMap::of_file(directory, name, EmptyFile::Other);
        let map = map.context("cannot read its map")?;
        let map = map.unwrap_or_default();
        if !map.is_empty() && !self.settings.skips_errors {
            bail!("it is a damaged copy itself, and lacks {}", map.words());
        }
        Ok(map)
    }

    /// Passes over an entry that is the map of another, whose copy gets a map of its own. A map
    /// without damage is a file like others, and so is the map of a file that is excluded.
    pub(super) fn pass_over_map(&self, entry: &Entry) -> anyhow::Result<Option<Settled>> {
        let Some(mapped) = mapped_name(entry.name().to_bytes()) else {
            return Ok(None);
        };
        let Named { directory, name } = entry.source();
        let text = MapText::read(directory, name).context("cannot read")?;
        if matches!(text, MapText::Other | MapText::Empty) {
            return Ok(None);
        }
        let path = || entry.path().with_file_name(OsStr::from_bytes(mapped));
        let exclude = &self.settings.exclude;
        if exclude.matches(OsStr::from_bytes(mapped), false, path) {
            return Ok(None);
        }
        // A part of a name has no zero byte.
        let mapped = CString::new(mapped).unwrap_or_default();
        let found = rustix::fs::statat(directory, &mapped, AtFlags::empty()).ok();
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let found = found.filter(is_file).map(|found| size(&found));
        let is_cut = text == MapText::Cut;
        let map = text.of_mapped(found, EmptyFile::Other);
        match found {
            _ if map.is_none_or(|map| map.is_empty()) => Ok(None),
            Some(_) => Ok(Some(Settled::default())),
            None if is_cut => Ok(None),
            None => {
                bail!("it is the map of a damaged file that is not there, and is not copied")
            }
        }
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
        mut draft: Draft<'_>,
        way: Way,
        contents: Option<Contents>,
    ) -> anyhow::Result<Settled> {
        let digest = contents.map(|contents| self.reader.tap.digest_of(&contents));
        let damage = std::mem::take(&mut draft.damage);
        let old = draft.target.map.take();
        let Target { replace, known, .. } = draft.target;
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
        if replace == Replace::No {
            self.ensure_free_name(entry)?;
        }
        self.prepare_copy(entry, &draft, way, digest)?;
        // As long as the old copy has the name, the map is also true of that.
        let before = match (&old, replace) {
            (Some(old), Replace::Yes) => Some(damage.union(old)),
            _ => None,
        };
        let replace_map = Replace::what_is_there(old.is_some());
        let map = before.as_ref().unwrap_or(&damage);
        write_map(entry, map, size(&draft.stat), replace_map)?;
        self.cancel_announced(entry, known);
        let (stat, n_bytes, mut place) = (draft.stat, draft.n_bytes, draft.place);
        let copy = rustix::fs::fstat(&place).map_err(io::Error::from);
        let copy = identity(&copy.context("cannot stat its copy")?);
        if let Err(error) = place.try_commit(entry.name(), replace, Durability::Synced) {
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
        if before.is_some_and(|before| before != damage) {
            write_map(entry, &damage, size(&stat), Replace::Yes)?;
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

    /// Refuses a copy whose name is taken, before the map that may be that of another name is
    /// written.
    fn ensure_free_name(&self, entry: &Entry) -> anyhow::Result<()> {
        let Named { directory, name } = entry.destination();
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(io::Error::from(errno)).context("cannot stat its copy"),
            Ok(_) => {}
        }
        self.ensure_own_name(entry, Known::default())?;
        let error = io::Error::from(Errno::EXIST);
        Err(error).context("cannot give its copy the name")
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
        let directory = first.directory.as_fd();
        let map = DamageMap::of_file(directory, first.name, EmptyFile::CutMap);
        let map = map.context("cannot read the map of its first name")?;
        let map = map.context("its first name is damaged, and has no map")?;
        let old = self.map_of_copy(entry, known)?;
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
        if existing.is_none() {
            self.ensure_free_name(entry)?;
        }
        let before = match &old {
            Some(old) if !is_linked => Some(map.union(old)),
            _ => None,
        };
        let replace_map = Replace::what_is_there(old.is_some());
        let size = size(copy);
        write_map(entry, before.as_ref().unwrap_or(&map), size, replace_map)?;
        self.cancel_announced(entry, known);
        if !is_linked {
            let replace = Replace::what_is_there(existing.is_some());
            let linked = place_link(first, entry.destination(), replace, Durability::Synced);
            match Linked::from_result(linked).context("cannot link it to its first name")? {
                Linked::Made => {}
                Linked::Unable(_) | Linked::Unproven => return Ok(false),
            }
        }
        if before.is_some_and(|before| before != map) {
            write_map(entry, &map, size, Replace::Yes)?;
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

/// Writes the map of a copy.
fn write_map(entry: &Entry, map: &DamageMap, size: u64, replace: Replace) -> anyhow::Result<()> {
    let path = entry.path();
    let described = Described { path: &path, size };
    let directory = entry.destination_directory();
    map.write(directory, entry.name(), described, replace)
        .with_context(|| {
            let map = map_name(entry.name());
            let map = String::from_utf8_lossy(map.to_bytes()).into_owned();
            format!("it is damaged, and its map '{map}' cannot be written")
        })
}

/// Refuses to write a map where a file of the source goes.
fn check_map_name(entry: &Entry) -> anyhow::Result<()> {
    if !entry.may_have_source_map() {
        return Ok(());
    }
    let Named { directory, name } = entry.source();
    let map = DamageMap::of_file(directory, name, EmptyFile::Other);
    let is_damaged = map.is_ok_and(|map| map.is_some_and(|map| !map.is_empty()));
    let exists = || rustix::fs::statat(directory, map_name(name), AtFlags::SYMLINK_NOFOLLOW);
    if is_damaged || exists().is_err_and(|errno| errno == Errno::NOENT) {
        return Ok(());
    }
    bail!("it is damaged, and its map cannot be written: the source has a file of that name");
}
