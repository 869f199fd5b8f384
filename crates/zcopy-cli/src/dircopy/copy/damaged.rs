//! Copies files of which some bytes cannot be read.
//!
//! A damaged copy has a [map](DamageMap) beside it and no line in the manifest. The map gets its
//! name before the damaged copy, and is removed after a whole copy has got its name. So no damaged
//! copy is ever without a map. A copy that has its recorded digest is whole, even if there is a
//! map.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::file::{PendingCopy, Started, Target};
use super::publish::{has_name, named, stat_of};
use super::resume::keep_after;
use super::{Copier, CopyResult};
use crate::dircopy::damage_map::{
    Damage, DamageMap, Described, EmptyFile, MapText, Rest, map_name, mapped_name, remove_map,
};
use crate::dircopy::hash::pool::Contents;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::policy::Policy;
use crate::dircopy::reporter::file_result::Action;
use crate::dircopy::schedule::lookup::{MapFile, PriorRecord};
use crate::dircopy::stat::identity;
use crate::dircopy::stat::is_regular;
use crate::dircopy::stat::size;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{Durability, Linked, Replace, place_link};
use crate::dircopy::write::metadata::Named;

/// The result of linking a name to a damaged copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DamagedLink {
    /// The name is linked to the copy. This was reported.
    Made,
    /// The name was linked to the copy already, or another copy was kept. This was reported.
    Left,
    /// The copy cannot have another name.
    Unable,
}

impl<'a> Copier<'a> {
    /// The map beside a copy, if bytes are missing. A map without damage, such as `ddrescue` leaves
    /// when it has read everything, is removed. A recorded file of this name, or one that the
    /// source has, is not a map of the copy.
    pub(crate) fn map_of_copy(
        &self,
        entry: &Entry,
        prior: PriorRecord,
    ) -> anyhow::Result<Option<DamageMap>> {
        if !entry.may_have_map() || prior.map_file == MapFile::Recorded {
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

    /// Removes the map beside a copy that is now whole.
    pub(crate) fn remove_map(&self, entry: &Entry) {
        let Named { directory, name } = entry.destination();
        if let Err(error) = remove_map(directory, name, self.settings.durability) {
            let error = anyhow!(error).context("its copy is whole, and its map cannot be removed");
            self.reporter.report_error(&entry.path(), &error);
        }
    }

    /// The damage that a map in the source lists: the original is itself a damaged copy.
    pub(crate) fn damage_of_original(entry: &Entry) -> anyhow::Result<DamageMap> {
        if !entry.may_have_source_map() {
            return Ok(DamageMap::default());
        }
        let Named { directory, name } = entry.source();
        let map = DamageMap::of_file(directory, name, EmptyFile::Other);
        let map = map.context("cannot read its map")?;
        Ok(map.unwrap_or_default())
    }

    /// Skips an entry that is the map of a damaged file: the copy of that file gets its own map. A
    /// map without damage and the map of an excluded file are copied like other files.
    pub(super) fn pass_over_map(&self, entry: &Entry) -> anyhow::Result<Option<CopyResult>> {
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
        // A part of a C string has no zero byte.
        let mapped = CString::new(mapped).unwrap_or_default();
        let found = rustix::fs::statat(directory, &mapped, AtFlags::empty()).ok();
        let found = found.filter(is_regular).map(|found| size(&found));
        let is_cut = text == MapText::Cut;
        let map = text.of_mapped(found, EmptyFile::Other);
        match found {
            _ if map.is_none_or(|map| map.is_empty()) => Ok(None),
            Some(_) => Ok(Some(CopyResult::skipped())),
            None if is_cut => Ok(None),
            None => {
                bail!("it is the map of a damaged file that is not there, and is not copied")
            }
        }
    }

    /// Copies a file that has a damaged copy in the destination, as the map beside it says.
    pub(super) fn complete(
        &mut self,
        entry: &Entry,
        existing: Option<Stat>,
        prior: PriorRecord,
        map: DamageMap,
    ) -> anyhow::Result<Started<'a>> {
        let bytes = Some(&self.counts.bytes);
        let Some(existing) = existing else {
            let target = Target {
                map: Some(map),
                ..Target::new(Replace::No, prior)
            };
            return self.copy(entry, target, bytes);
        };
        if prior.is_accepted {
            let result = self.leave(entry, &existing, prior)?;
            self.remove_map(entry);
            return Ok(Started::finished(result));
        }
        let expected = prior.expected();
        if !expected.is_empty() {
            let found = self.reader.digest_of_copy(entry, bytes, &expected);
            // A copy that cannot be read is not whole.
            if let Ok(found) = found
                && found.is_as_recorded
            {
                self.remove_map(entry);
                let line = self.listed(found.digest);
                return Ok(Started::finished(self.left(line, &existing, prior)));
            }
            self.interrupt.check()?;
        }
        if self.settings.policy == Policy::Never {
            let result = self.leave_damaged(entry, &existing, &map, Rest::Left);
            return Ok(Started::finished(result));
        }
        let target = Target {
            map: Some(map),
            ..Target::new(Replace::Yes, prior)
        };
        self.copy(entry, target, bytes)
    }

    /// Leaves a damaged copy, and reports it.
    fn leave_damaged(
        &self,
        entry: &Entry,
        existing: &Stat,
        map: &DamageMap,
        rest: Rest,
    ) -> CopyResult {
        self.reporter
            .report_damage(&entry.path(), &Damage { map, rest });
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(size(existing));
        self.counts.skipped.add(1);
        CopyResult {
            file: Some(identity(existing)),
            is_copy: true,
            is_damaged: true,
            action: Action::Skipped,
            ..CopyResult::default()
        }
    }

    /// Gives a damaged copy its map and its name. It replaces nothing but a copy of which more is
    /// missing.
    pub(super) fn publish_damaged(
        &mut self,
        entry: &Entry,
        mut copy: PendingCopy<'_>,
        contents: Option<Contents>,
    ) -> anyhow::Result<CopyResult> {
        let digest = contents.map(|contents| self.reader.client.digest_of(&contents));
        let damage = &copy.damage;
        let old = copy.target.map.take();
        let Target { replace, prior, .. } = copy.target;
        if damage.lost_bytes() >= size(&copy.stat) {
            // The disk may have been unplugged. A file of zeros is useless.
            bail!("cannot read any of its {}", damage.words());
        }
        match (&old, replace) {
            (None, Replace::Yes) => {
                bail!("cannot read {}; its existing copy is kept", damage.words());
            }
            (Some(old), Replace::Yes) if damage.lost_bytes() >= old.lost_bytes() => {
                let existing = entry.existing().context("cannot stat its copy")?;
                let existing = existing.context("its damaged copy has gone")?;
                return Ok(self.leave_damaged(entry, &existing, damage, Rest::Kept));
            }
            _ => {}
        }
        check_map_name(entry)?;
        if replace == Replace::No {
            self.ensure_free_name(entry)?;
        }
        self.prepare(entry, &copy, digest)?;
        // While the old copy has the name, the map has to be true of both copies.
        let both = match (&old, replace) {
            (Some(old), Replace::Yes) => Some(damage.union(old)),
            _ => None,
        };
        let replace_map = Replace::what_is_there(old.is_some());
        let map = both.as_ref().unwrap_or(damage);
        write_map(entry, map, size(&copy.stat), replace_map)?;
        self.cancel_announced(entry, prior);
        let file = identity(&stat_of(&copy.new_file)?);
        let new_file = &mut copy.new_file;
        let name = || new_file.try_commit(entry.name(), replace, Durability::Synced);
        if let Err(error) = named(name, copy.partial_log.as_mut()) {
            // If the copy has its name, it may have it on the disk too, and needs the map.
            let exists = entry.existing().is_ok_and(|found| found.is_some());
            if exists && !has_name(entry, file) && old.is_none() {
                self.remove_map(entry);
            }
            if let Some(log) = &copy.partial_log {
                keep_after(log, &error);
            }
            self.unwritten.keep(copy.new_file, &error);
            return Err(anyhow!(error).context("cannot give its copy the name"));
        }
        if both.is_some_and(|both| both != *damage) {
            write_map(entry, damage, size(&copy.stat), Replace::Yes)?;
        }
        let rest = Rest::Copied;
        let report = Damage { map: damage, rest };
        self.reporter.report_damage(&entry.path(), &report);
        self.count_copy(copy.method, copy.n_bytes);
        Ok(CopyResult {
            line: line_of_damaged(prior),
            file: Some(file),
            is_copy: true,
            is_damaged: true,
            action: copy.method.into(),
            ..CopyResult::default()
        })
    }

    /// Takes back the announcement of a killed run. So the record of the file stays, even if this
    /// run is killed too.
    fn cancel_announced(&self, entry: &Entry, prior: PriorRecord) {
        if prior.announced.is_some() {
            let path = entry.path();
            self.journal
                .add([(path.as_os_str().as_bytes(), JournalEntry::Cancelled)]);
        }
    }

    /// Refuses a copy whose name is taken. Call it before its map is written: the map could replace
    /// the map of another name.
    fn ensure_free_name(&self, entry: &Entry) -> anyhow::Result<()> {
        let Named { directory, name } = entry.destination();
        match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(io::Error::from(errno)).context("cannot stat its copy"),
            Ok(_) => {}
        }
        self.ensure_own_name(entry, PriorRecord::default())?;
        let error = io::Error::from(Errno::EXIST);
        Err(error).context("cannot give its copy the name")
    }

    /// Links an additional name of a damaged file to its damaged copy, unless it is linked already.
    /// The name gets a map too. It replaces nothing but a copy of which more is missing.
    pub(crate) fn link_damaged(
        &self,
        entry: &Entry,
        prior: PriorRecord,
        first: Named<'_>,
        existing: Option<&Stat>,
        copy: &Stat,
    ) -> anyhow::Result<DamagedLink> {
        let directory = first.directory.as_fd();
        let map = DamageMap::of_file(directory, first.name, EmptyFile::CutMap);
        let map = map.context("cannot read the map of its first name")?;
        let map = map.context("its first name is damaged, and has no map")?;
        let old = self.map_of_copy(entry, prior)?;
        let is_linked = existing.is_some_and(|existing| identity(existing) == identity(copy));
        if existing.is_some() && !is_linked {
            match &old {
                None => bail!("cannot read {}; its existing copy is kept", map.words()),
                Some(old) if map.lost_bytes() >= old.lost_bytes() => {
                    let (map, rest) = (&map, Rest::Kept);
                    self.reporter
                        .report_damage(&entry.path(), &Damage { map, rest });
                    return Ok(DamagedLink::Left);
                }
                Some(_) => {}
            }
        }
        check_map_name(entry)?;
        if existing.is_none() {
            self.ensure_free_name(entry)?;
        }
        let both = match &old {
            Some(old) if !is_linked => Some(map.union(old)),
            _ => None,
        };
        let replace_map = Replace::what_is_there(old.is_some());
        let size = size(copy);
        if !is_linked || old.as_ref() != Some(&map) {
            write_map(entry, both.as_ref().unwrap_or(&map), size, replace_map)?;
        }
        self.cancel_announced(entry, prior);
        let (rest, outcome) = if is_linked {
            (Rest::Kept, DamagedLink::Left)
        } else {
            let replace = Replace::what_is_there(existing.is_some());
            let linked = place_link(first, entry.destination(), replace, Durability::Synced);
            match Linked::from_result(linked).context("cannot link it to its first name")? {
                Linked::Made => (Rest::Copied, DamagedLink::Made),
                Linked::Unable(_) | Linked::Unproven => return Ok(DamagedLink::Unable),
            }
        };
        if both.is_some_and(|both| both != map) {
            write_map(entry, &map, size, Replace::Yes)?;
        }
        let map = &map;
        self.reporter
            .report_damage(&entry.path(), &Damage { map, rest });
        Ok(outcome)
    }
}

/// The line of a damaged copy: its record stays, without the announcement of a killed run.
pub(crate) fn line_of_damaged(prior: PriorRecord) -> Line {
    match (prior.announced, prior.recorded) {
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

/// Refuses a map whose name the copy of another file of the source needs.
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
