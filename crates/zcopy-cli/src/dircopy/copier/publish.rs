//! A copy that gets its name.

use super::file::{Draft, Place, Target, Way};
use super::{Copier, Proof, Settled};
use crate::digest::Digest;
use crate::dircopy::attributes::{self, Named, Permissions, Replaces};
use crate::dircopy::containment::identity;
use crate::dircopy::lookup::Known;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::{Durability, Replace};
use crate::dircopy::policy::{Decision, Policy, decide};
use crate::dircopy::reading::{is_untouched, open_regular, size};
use crate::dircopy::tree::Entry;
use crate::{exit, sys};
use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Advice, FileType, Stat};
use std::io;

impl Copier<'_> {
    /// Gives a copy its name: all its bytes have been written and are what they should be. Before, its attributes are set, and of one that was
    /// written a descriptor is closed without a word of anything gone wrong.
    ///
    /// Should the last close fail all the same, the file is there, is reported, and has no line.
    pub(super) fn publish(
        &mut self,
        entry: &Entry,
        draft: Draft<'_>,
        (way, digest): (Way, Option<Digest>),
    ) -> anyhow::Result<Settled> {
        if let Some(digest) = digest {
            self.compare_original_with_record(&draft.target, digest)?;
        }
        self.prepare_copy(entry, &draft, way, digest)?;
        let Draft {
            stat,
            mut place,
            target: Target { replace, map, .. },
            n_bytes,
            ..
        } = draft;
        if replace == Replace::Yes {
            self.journaling.allow_replacing()?;
        }
        let file = rustix::fs::fstat(&place).map_err(io::Error::from);
        let new = identity(&file.context("cannot stat its copy")?);
        // A damaged copy may not come back once its map is gone.
        let durability = match map {
            Some(_) => Durability::Synced,
            None => self.settings.durability,
        };
        let committed = place.try_commit(entry.name(), replace, durability);
        if let Err(error) = &committed
            && durability == Durability::Synced
            && error.kind() != io::ErrorKind::AlreadyExists
            && entry
                .existing()
                .is_ok_and(|found| found.is_some_and(|found| identity(&found) == new))
        {
            let error = io::Error::new(error.kind(), exit::worded(error));
            return Ok(self.lose(entry, error, "cannot give its copy the name for certain"));
        }
        let exclusivity = match committed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.ensure_own_name(entry, Known::default())?;
                // Another run may have been here.
                drop(place);
                let met = self.meet(entry, &stat, digest)?;
                return met.ok_or_else(|| anyhow!(error).context("cannot give its copy the name"));
            }
            Err(error) => {
                let what = match durability {
                    Durability::Cached => "cannot give its copy the name",
                    Durability::Synced => "cannot give its copy the name, or not for certain",
                };
                self.unwritten.keep(place, &error);
                return Err(anyhow!(error).context(what));
            }
            Ok(exclusivity) => exclusivity,
        };
        self.face.report_exclusivity(exclusivity);
        let file = place.into_file();
        let copy = if entry.stat().st_nlink > 1 {
            // Its further names will be links to this file and no other.
            match rustix::fs::fstat(&file).map_err(io::Error::from) {
                Ok(copy) => Some(identity(&copy)),
                Err(error) => return Ok(self.lose(entry, error, "cannot stat its copy")),
            }
        } else {
            None
        };
        if let Err(error) = sys::close_file(file.into()) {
            return Ok(self.lose(entry, error, "cannot close its copy"));
        }
        if map.is_some() {
            self.remove_map(entry);
        }
        self.counts.files.add(1);
        self.counts.bytes_of_files.add(n_bytes);
        match way {
            Way::Written => self.counts.copied.add(1),
            Way::Shared => self.counts.cloned.add(1),
        }
        let line = match digest.filter(|_| self.settings.leaves_sums) {
            Some(digest) => self.listed(digest),
            None => Line::Remove,
        };
        Ok(Settled {
            line,
            // The journal was told what is added.
            is_news: replace == Replace::Yes || line == Line::Remove,
            proof: Proof::Written,
            copy,
            is_copy: true,
            is_damaged: false,
        })
    }

    /// What a copy takes the place of, if its mode depends on that.
    pub(super) fn replaces<'e>(
        &self,
        entry: &'e Entry,
        replace: Replace,
    ) -> anyhow::Result<Replaces<'e>> {
        let existing = match (self.settings.preserve.permissions, replace) {
            (Permissions::Created { .. }, Replace::Yes) => entry.existing(),
            _ => Ok(None),
        };
        let existing = existing.context("cannot stat its copy")?;
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(match existing.filter(is_file) {
            Some(stat) => {
                let mode = attributes::mode_to_hand_on(entry.destination(), &stat);
                Replaces::Mode(mode.context("cannot examine its copy")?)
            }
            None => Replaces::Nothing {
                directory: entry.destination().directory,
            },
        })
    }

    /// Does what is done to a copy before it gets its name: the original is looked at again, the
    /// copy verified, if it has a digest, and given its attributes, and the kernel asked for errors
    /// of the writes.
    pub(super) fn prepare_copy(
        &mut self,
        entry: &Entry,
        draft: &Draft<'_>,
        way: Way,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        let Draft {
            source,
            stat,
            place,
            damage,
            ..
        } = draft;
        if !is_untouched(source, stat).context("cannot stat")? {
            bail!("it changed while it was copied");
        }
        if self.settings.verifies && (digest.is_some() || damage.is_empty()) {
            self.verify(place, size(stat), digest)?;
        }
        let preserve = self.settings.preserve;
        let replaces = self.replaces(entry, draft.replace())?;
        let applied = if entry.directory().hands_down() {
            attributes::apply(source, place, stat, preserve, replaces)
        } else {
            attributes::apply_to_new(source, place, stat, preserve, replaces)
        };
        if let Err(error) = applied {
            self.face.complain_of_attributes(&entry.path(), error);
        }
        // Of a clone nothing waits to be written.
        if way == Way::Written {
            place.settle().context("cannot write its copy")?;
        }
        Ok(())
    }

    /// Reports a copy that has its name, and may not have its contents.
    pub(super) fn lose(&self, entry: &Entry, error: io::Error, what: &'static str) -> Settled {
        let error = anyhow!(error).context(what);
        self.face.complain(&entry.path(), &error);
        Settled {
            line: Line::Remove,
            is_news: true,
            ..Settled::default()
        }
    }

    /// Takes what has come to bear the name meanwhile, if it is what would have: another run's copy. None if it is not: it may be that of
    /// a name that this file system does not tell from this one.
    pub(super) fn meet(
        &mut self,
        entry: &Entry,
        stat: &Stat,
        digest: Option<Digest>,
    ) -> anyhow::Result<Option<Settled>> {
        let Named { directory, name } = entry.destination();
        let (file, existing) = open_regular(directory, name).context("cannot open its copy")?;
        let kept = |time| self.granularities.kept(entry, time);
        match decide(Policy::Default, stat, &existing, kept) {
            Decision::Skip => {}
            Decision::CompareInDoubt if digest.is_some() => {}
            _ => return Ok(None),
        }
        if let Some(digest) = digest {
            let read = self.reader.digest_of(&file, size(&existing), None);
            if read.context("cannot read its copy")? != digest {
                return Ok(None);
            }
        }
        let line = digest.map_or(Line::Keep, |digest| self.listed(digest));
        Ok(Some(self.left(line, &existing, Known::default(), true)))
    }

    /// Reads the copy back from the disk.
    pub(super) fn verify(
        &mut self,
        place: &Place,
        size: u64,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        // Pages that have not been written cannot be dropped.
        rustix::fs::fdatasync(place)
            .map_err(io::Error::from)
            .context("cannot write its copy")?;
        // A file system without a disk keeps its pages.
        let _ = rustix::fs::fadvise(place, 0, None, Advice::DontNeed);
        let read = self.reader.contents_past_cache(place.file(), size, None);
        let read = read.context("cannot read its copy")?;
        if Some(self.reader.tap.digest_of(&read)) != digest {
            bail!("its copy does not read as it was written");
        }
        Ok(())
    }
}
