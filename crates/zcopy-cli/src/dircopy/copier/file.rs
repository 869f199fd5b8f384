//! Regular files, which are cloned or written.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Advice, FileType, Mode, Stat};
use zcopy::{Ended, Reflink, Report, Side, SkipErrors, Sparse, Transfer};

use super::{Copied, Copier, Proof, Read, Settled};
use crate::digest::Digest;
use crate::dircopy::attributes::{self, Named, Permissions, Replaces};
use crate::dircopy::containment::identity;
use crate::dircopy::counts::Count;
use crate::dircopy::damage_map::{BadRange, DamageMap};
use crate::dircopy::hashing::Contents;
use crate::dircopy::interrupt::Interrupted;
use crate::dircopy::lookup::Known;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::{self, Durability, Replace};
use crate::dircopy::policy::{Decision, Policy, decide};
use crate::dircopy::reading::{
    AT_ONCE, flow_until, is_interrupted, is_untouched, limit, open_regular, read_error, size,
};
use crate::dircopy::tree::Entry;
use crate::{exit, sys};

/// Longer files are copied in steps, so that a signal ends the copy early: 64 MiB.
const LONGEST_UNWATCHED: u64 = 64 << 20;

/// Where a copy is under construction, in its directory.
type Place = place::Place<Arc<OwnedFd>>;

/// How a file's bytes got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Written,
    Shared,
}

/// What the destination has by the name that a copy is to get.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) replace: Replace,
    pub(super) known: Known,
    /// The map beside a damaged copy.
    pub(super) map: Option<DamageMap>,
}

impl Target {
    pub(super) fn new(replace: Replace, known: Known) -> Self {
        Self {
            replace,
            known,
            map: None,
        }
    }
}

/// A copy under construction.
pub(super) struct Draft<'a> {
    source: File,
    pub(super) stat: Stat,
    pub(super) place: Place,
    pub(super) target: Target,
    /// What cannot be read of the original.
    pub(super) damage: DamageMap,
    /// Counts what passes as it does.
    passed: Option<&'a Count>,
    /// How long it has become.
    pub(super) n_bytes: u64,
}

impl<'a> Draft<'a> {
    /// Begins a copy.
    fn begin(
        entry: &Entry,
        target: Target,
        permissions: Permissions,
        passed: Option<&'a Count>,
    ) -> anyhow::Result<Self> {
        let (source, stat) = entry.open().context("cannot open")?;
        if identity(&stat) != identity(entry.stat()) {
            bail!("it was replaced before it could be copied");
        }
        Ok(Self {
            place: begin_place(entry, &stat, permissions)?,
            source,
            stat,
            target,
            damage: DamageMap::default(),
            passed,
            n_bytes: 0,
        })
    }

    pub(super) fn replace(&self) -> Replace {
        self.target.replace
    }

    /// Has a short clone read from the disk: its pages are its own, and not in memory.
    pub(super) fn read_ahead(&self) {
        if size(&self.stat) < AT_ONCE as u64 {
            // Only time is lost if not.
            let _ = rustix::fs::fadvise(&self.place, 0, None, Advice::WillNeed);
        }
    }
}

/// Makes an empty file for a copy.
fn begin_place(entry: &Entry, stat: &Stat, permissions: Permissions) -> anyhow::Result<Place> {
    // Its owner has to be able to write, or he could not give it attributes.
    let private = Mode::RUSR | Mode::WUSR;
    let mode = match permissions {
        Permissions::Original => Mode::from_raw_mode(stat.st_mode & 0o777) | private,
        Permissions::Created { .. } => private,
    };
    Place::with_mode(Arc::clone(entry.destination_directory()), mode)
        .context("cannot create its copy")
}

impl<'a> Copier<'a> {
    /// Copies a regular file, and counts what passes as it does. A clone that is to be hashed is left to be [read](Self::read).
    pub(super) fn copy(
        &mut self,
        entry: &Entry,
        target: Target,
        passed: Option<&'a Count>,
    ) -> anyhow::Result<Copied<'a>> {
        let permissions = self.settings.preserve.permissions;
        let original_damage = self.damage_of_original(entry)?;
        let mut draft = Draft::begin(entry, target, permissions, passed)?;
        let wants_digest = self.settings.wants_digests();
        if !self.share(entry, &mut draft)? {
            let contents = self.write(entry, &mut draft, wants_digest)?;
            draft.damage = draft.damage.union(&original_damage);
            return self
                .publish_or_keep(entry, draft, Way::Written, contents)
                .map(Copied::Read);
        }
        draft.damage = original_damage;
        if wants_digest {
            return Ok(Copied::Cloned(Box::new(draft)));
        }
        if let Some(passed) = passed {
            passed.add(size(&draft.stat));
        }
        self.publish_or_keep(entry, draft, Way::Shared, None)
            .map(Copied::Read)
    }

    /// Reads a clone.
    pub(super) fn read(&mut self, entry: &Entry, copied: Copied<'a>) -> anyhow::Result<Read<'a>> {
        let mut draft = match copied {
            Copied::Cloned(draft) => *draft,
            Copied::Read(read) => return Ok(read),
        };
        let (file, size) = (draft.place.file(), size(&draft.stat));
        let contents = self.reader.contents_past_cache(file, size, draft.passed);
        let (way, contents) = match contents {
            Err(error) if self.settings.skips_errors && !is_interrupted(&error) => {
                // It shares the bad blocks of the original, whose good ones are written now.
                draft.place = begin_place(entry, &draft.stat, self.settings.preserve.permissions)?;
                draft.passed = None;
                let original_damage = std::mem::take(&mut draft.damage);
                let contents = self.write(entry, &mut draft, true)?;
                draft.damage = draft.damage.union(&original_damage);
                (Way::Written, contents)
            }
            contents => (Way::Shared, Some(contents.context("cannot read its copy")?)),
        };
        self.publish_or_keep(entry, draft, way, contents)
    }

    /// Gives a copy its name, unless it has to be hashed before.
    fn publish_or_keep(
        &mut self,
        entry: &Entry,
        draft: Draft<'a>,
        way: Way,
        contents: Option<Contents>,
    ) -> anyhow::Result<Read<'a>> {
        if !draft.damage.is_empty() {
            let settled = self.publish_damaged(entry, draft, way, contents);
            return settled.map(Read::Over);
        }
        let digest = match contents {
            Some(Contents::Kept(kept)) => return Ok(Read::Kept(Box::new(draft), way, kept)),
            Some(Contents::Digested(digest)) => Some(digest),
            None => None,
        };
        self.announce(entry, &draft, digest);
        self.publish(entry, draft, (way, digest))
            .inspect_err(|_| self.cancel(entry))
            .map(Read::Over)
    }

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
        let committed = place.try_commit(entry.name(), replace, self.settings.durability);
        if let Err(error) = &committed
            && self.settings.durability == Durability::Synced
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
                let what = match self.settings.durability {
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
    fn replaces<'e>(&self, entry: &'e Entry, replace: Replace) -> anyhow::Result<Replaces<'e>> {
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
    fn lose(&self, entry: &Entry, error: io::Error, what: &'static str) -> Settled {
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
    fn meet(
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

    /// Has the copy share the source's blocks, if the file systems can.
    fn share(&self, entry: &Entry, draft: &mut Draft<'_>) -> anyhow::Result<bool> {
        let Draft {
            source,
            stat,
            place,
            ..
        } = draft;
        let devices = (identity(stat).0, entry.directory().destination_device());
        if size(stat) == 0 || !self.sharing.may_share(devices) {
            return Ok(false);
        }
        let transfer = Transfer::new(source, place)
            .source_offset(0)
            .sink_offset(0)
            .reflink(Reflink::Always);
        match transfer.run() {
            Ok(report) if report.bytes() == size(stat) => {
                self.explain(entry, &report);
                draft.n_bytes = report.bytes();
                Ok(true)
            }
            Ok(_) => bail!("it changed while it was copied"),
            Err(error) if error.is_unsuitable() && error.bytes() == 0 => {
                self.sharing.learn(devices, &error);
                Ok(false)
            }
            Err(error) => Err(of_transfer(&error)),
        }
    }

    /// Writes the copy, and says what is written, if it is to be digested.
    fn write(
        &mut self,
        entry: &Entry,
        draft: &mut Draft<'_>,
        wants_digest: bool,
    ) -> anyhow::Result<Option<Contents>> {
        let Draft {
            source,
            stat,
            place,
            passed,
            damage,
            ..
        } = draft;
        let mut transfer = Transfer::new(source, place).limit(limit(size(stat)));
        transfer = if self.settings.skips_errors {
            // Zeros in place of what cannot be read become holes.
            let sparse = transfer.sparse(Sparse::Detect);
            let adaptive = sparse.skip_errors(SkipErrors::Adaptive);
            adaptive.on_skip(|skipped| {
                damage.push(BadRange {
                    offset: skipped.offset(),
                    bytes: skipped.bytes(),
                });
            })
        } else {
            transfer.sparse(Sparse::KeepUnwritten)
        };
        let (report, contents) = if wants_digest {
            let transfer = transfer.buffer_size(self.reader.block_size);
            let run = self.reader.run(transfer, size(stat), *passed);
            let (report, contents) = run.map_err(|error| of_transfer(&error))?;
            let contents = contents.ok_or_else(|| self.reader.no_contents())?;
            (report, Some(contents))
        } else {
            let interrupt = self.interrupt;
            let transfer = if size(stat) > LONGEST_UNWATCHED {
                transfer.observe(|_| flow_until(interrupt))
            } else {
                transfer
            };
            let report = transfer.run().map_err(|error| of_transfer(&error))?;
            if report.ended() == Ended::Stopped {
                bail!(Interrupted);
            }
            if let Some(passed) = passed {
                passed.add(report.bytes());
            }
            (report, None)
        };
        if report.bytes() != size(stat) && size(stat) > 0 {
            bail!("it changed while it was copied");
        }
        self.explain(entry, &report);
        draft.n_bytes = report.bytes();
        Ok(contents)
    }

    /// Reads the copy back from the disk.
    fn verify(&mut self, place: &Place, size: u64, digest: Option<Digest>) -> anyhow::Result<()> {
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

    fn explain(&self, entry: &Entry, report: &Report) {
        if self.settings.explains {
            self.face.remark(&entry.path(), &report.to_string());
        }
    }
}

/// What a transfer between a file and its copy failed of.
fn of_transfer(error: &zcopy::Error) -> anyhow::Error {
    let what = match error.side() {
        Side::Source => "cannot read",
        Side::Sink => "cannot write its copy",
        _ => "cannot copy",
    };
    anyhow!(read_error(error)).context(what)
}
