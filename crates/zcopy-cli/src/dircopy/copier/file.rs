//! Regular files, which are cloned or written.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Advice, Mode, Stat};
use zcopy::{Ended, Reflink, Report, Side, SkipErrors, Sparse, Transfer};

use super::{Copied, Copier, Read};
use crate::dircopy::attributes::Permissions;
use crate::dircopy::containment::identity;
use crate::dircopy::counts::Count;
use crate::dircopy::damage_map::{BadRange, DamageMap};
use crate::dircopy::hashing::Contents;
use crate::dircopy::interrupt::Interrupted;
use crate::dircopy::lookup::Known;
use crate::dircopy::place::{self, Replace};
use crate::dircopy::reading::{AT_ONCE, flow_until, is_interrupted, limit, read_error, size};
use crate::dircopy::tree::Entry;

/// Longer files are copied in steps, so that a signal ends the copy early: 64 MiB.
const LONGEST_UNWATCHED: u64 = 64 << 20;

/// Where a copy is under construction, in its directory.
pub(super) type Place = place::Place<Arc<OwnedFd>>;

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
    /// Whether the copy has to have the recorded digest, because nothing tells that the original is
    /// a newer version.
    pub(super) is_same_version: bool,
}

impl Target {
    pub(super) fn new(replace: Replace, known: Known) -> Self {
        Self {
            replace,
            known,
            map: None,
            is_same_version: false,
        }
    }
}

/// A copy under construction.
pub(super) struct Draft<'a> {
    pub(super) source: File,
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
