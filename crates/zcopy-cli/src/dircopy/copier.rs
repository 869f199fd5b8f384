//! What is done about one entry of the tree.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, Stat};
use zcopy::{Reflink, Side, Transfer};

use super::attributes::{self, Named};
use super::containment::{Identity, identity};
use super::counts::Counts;
use super::face::Face;
use super::hashing::Tap;
use super::links::Role;
use super::place::{Place, Replace, place_special, place_symlink};
use super::policy::{self, Decision, Policy, decide};
use super::settings::Settings;
use super::sharing::Sharing;
use super::tree::Entry;
use crate::digest::Digest;
use crate::{exit, sys};

/// An entry, and what it is among the names of its file.
pub(super) struct Job {
    pub(super) entry: Entry,
    pub(super) role: Role,
}

/// What is left to be done about an entry, in the order of the tree.
pub(super) enum Done {
    /// Nothing but its line.
    Settled {
        path: Vec<u8>,
        digest: Option<Digest>,
    },
    /// The same, and more names may come.
    First {
        path: Vec<u8>,
        digest: Option<Digest>,
        file: Identity,
        /// How many more names it had.
        n_more: u64,
        /// What others can be linked to, if that went well: which file it is, if it is a regular one.
        copy: Option<Placed>,
    },
    /// It becomes a link.
    Further { entry: Entry, file: Identity },
}

impl Done {
    /// How many bytes of memory it takes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Option<Self>>()
            + match self {
                Self::Settled { path, .. } | Self::First { path, .. } => path.capacity(),
                // It keeps its directory open, and descriptors are scarcer.
                Self::Further { .. } => WAITING_LINK,
            }
    }
}

/// What a link that waits for its turn weighs, in bytes: so that at most 512 do.
const WAITING_LINK: usize = 16 << 10;

/// What bears an entry's name in the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// Which file it is, if it is a regular one.
    pub(super) file: Option<Identity>,
}

/// What has become of an entry.
struct Settled {
    /// What its line is to say, if it is to have one.
    digest: Option<Digest>,
    /// Which file its copy is, if it is a regular one.
    copy: Option<Identity>,
}

/// Deals with entries, one after another.
pub(super) struct Copier<'a> {
    pub(super) settings: &'a Settings,
    pub(super) face: &'a Face<'a>,
    pub(super) counts: &'a Counts,
    pub(super) sharing: &'a Sharing,
    pub(super) tap: Tap<'a>,
    /// `/dev/null`, into which is read what is only to be hashed.
    pub(super) nowhere: &'a File,
}

/// From this size on files share their blocks if they are to be hashed too: 64 KiB. To clone less and to read the clone back from the
/// disk takes several times as long as to write what has been read.
const LEAST_SHARED: u64 = 64 << 10;

/// Whether what passes is counted as progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}

/// How a file's bytes got there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Written,
    Shared,
}

impl Copier<'_> {
    /// Does all that needs no other entry. What goes wrong is complained of.
    pub(super) fn work(&mut self, job: Job) -> Done {
        let Job { entry, role } = job;
        if let Role::Further(file) = role
            && !self.keeps_its_own(&entry)
        {
            return Done::Further { entry, file };
        }
        let path = entry.path();
        let outcome = match entry.kind() {
            FileType::RegularFile => self.regular(&entry),
            _ => self.other(&entry),
        };
        let (digest, copy) = match outcome {
            Ok(Settled { digest, copy }) => (digest, Some(Placed { file: copy })),
            Err(error) => {
                self.face.complain(&path, &error);
                (None, None)
            }
        };
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
        let path = path.into_os_string().as_bytes().to_vec();
        match role {
            Role::First(file, n_more) => Done::First {
                path,
                digest,
                file,
                n_more,
                copy,
            },
            Role::Only | Role::Further(_) => Done::Settled { path, digest },
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

    /// Copies a regular file, or leaves its copy as it is.
    fn regular(&mut self, entry: &Entry) -> anyhow::Result<Settled> {
        let existing = entry.existing().context("cannot stat its copy")?;
        let replace = Replace::what_is_there(existing.is_some());
        match decide(self.settings.policy, entry.stat(), existing.as_ref()) {
            Decision::Copy => self.copy(entry, replace, Counted::Yes),
            Decision::Skip => self.leave(entry, existing.as_ref()),
            Decision::Compare => {
                let copy = self.digest_of_copy(entry, Counted::Yes)?;
                let original = self.digest_of_original(entry)?;
                if copy == original {
                    Ok(self.leave_counted(copy, existing.as_ref()))
                } else {
                    self.copy(entry, replace, Counted::No)
                }
            }
        }
    }

    /// Leaves what bears the name in the destination.
    fn leave(&mut self, entry: &Entry, existing: Option<&Stat>) -> anyhow::Result<Settled> {
        let is_regular = existing
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if !is_regular {
            // Something else that is never replaced has no line.
            self.counts.skipped.add(1);
            return Ok(Settled {
                digest: None,
                copy: None,
            });
        }
        if self.settings.verifies_existing {
            let copy = self.digest_of_copy(entry, Counted::Yes)?;
            if copy != self.digest_of_original(entry)? {
                bail!("its copy differs from it");
            }
            return Ok(self.leave_counted(copy, existing));
        }
        if self.settings.leaves_sums && self.settings.hashes_skipped {
            let copy = self.digest_of_copy(entry, Counted::Yes)?;
            return Ok(self.leave_counted(copy, existing));
        }
        self.counts.bytes.add(size(entry.stat()));
        self.counts.files.add(1);
        self.counts.skipped.add(1);
        Ok(Settled {
            digest: None,
            copy: existing.map(identity),
        })
    }

    /// Counts a file that was left and read.
    fn leave_counted(&self, digest: Digest, existing: Option<&Stat>) -> Settled {
        self.counts.files.add(1);
        self.counts.skipped.add(1);
        let has_line = self.settings.leaves_sums && self.settings.hashes_skipped;
        Settled {
            digest: has_line.then_some(digest),
            copy: existing.map(identity),
        }
    }

    /// Copies a regular file.
    ///
    /// The copy gets its name when all its bytes have been written and are what they should be, its attributes are set, and a descriptor of
    /// it was closed without a word of anything gone wrong.
    fn copy(
        &mut self,
        entry: &Entry,
        replace: Replace,
        counted: Counted,
    ) -> anyhow::Result<Settled> {
        let (source, stat) = entry.open().context("cannot open")?;
        if identity(&stat) != identity(entry.stat()) {
            bail!("it was replaced before it could be copied");
        }
        // Its owner has to be able to write, or he could not give it attributes.
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777) | Mode::RUSR | Mode::WUSR;
        let place = Place::with_mode(Arc::clone(entry.directory().destination()), mode)
            .context("cannot create its copy")?;
        let wants_digest = self.settings.leaves_sums || self.settings.verifies;
        let least = if wants_digest { LEAST_SHARED } else { 1 };
        let way = if size(&stat) < least {
            None
        } else {
            self.share(entry, &source, &stat, &place)?
        };
        let (way, digest) = match way {
            Some(way) if wants_digest => {
                let read = self.digest_of(place.file(), size(&stat), counted);
                (way, Some(read.context("cannot read its copy")?))
            }
            Some(way) => {
                self.count(size(&stat), counted);
                (way, None)
            }
            None => {
                let digest = self.write(entry, &source, &stat, &place, (wants_digest, counted))?;
                (Way::Written, digest)
            }
        };
        if !is_untouched(&source, &stat).context("cannot stat")? {
            bail!("it changed while it was copied");
        }
        if self.settings.verifies {
            self.verify(&place, size(&stat), digest)?;
        }
        if let Err(error) = attributes::apply(&source, &place, &stat) {
            self.face.complain(&entry.path(), &anyhow!(error));
        }
        settle(&place).context("cannot write its copy")?;
        let committed = place.commit(entry.name(), replace, self.settings.durability);
        let file = match committed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Another run may have been here.
                let met = self.meet(entry, &stat, digest)?;
                return met.ok_or_else(|| anyhow!(error).context("cannot give its copy the name"));
            }
            committed => committed.context("cannot give its copy the name")?,
        };
        let copy = rustix::fs::fstat(&file).map_err(io::Error::from);
        let copy = identity(&copy.context("cannot stat its copy")?);
        sys::close_file(file.into()).context("cannot close its copy")?;
        self.counts.files.add(1);
        match way {
            Way::Written => self.counts.copied.add(1),
            Way::Shared => self.counts.cloned.add(1),
        }
        Ok(Settled {
            digest: digest.filter(|_| self.settings.leaves_sums),
            copy: Some(copy),
        })
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
        if decide(Policy::Default, stat, Some(&existing)) != Decision::Skip {
            return Ok(None);
        }
        if let Some(digest) = digest {
            let read = self.digest_of(&file, size(&existing), Counted::No);
            if read.context("cannot read its copy")? != digest {
                return Ok(None);
            }
        }
        self.counts.files.add(1);
        self.counts.skipped.add(1);
        Ok(Some(Settled {
            digest: digest.filter(|_| self.settings.leaves_sums),
            copy: Some(identity(&existing)),
        }))
    }

    /// Has the copy share the source's blocks, where the file systems can.
    fn share(
        &self,
        entry: &Entry,
        source: &File,
        stat: &Stat,
        place: &Place<Arc<OwnedFd>>,
    ) -> anyhow::Result<Option<Way>> {
        let devices = (identity(stat).0, entry.directory().destination_device());
        if !self.sharing.may_share(devices) {
            return Ok(None);
        }
        let transfer = Transfer::new(source, place)
            .source_offset(0)
            .sink_offset(0)
            .reflink(Reflink::Always);
        match transfer.run() {
            Ok(report) if report.bytes() == size(stat) => {
                self.explain(entry, &report);
                Ok(Some(Way::Shared))
            }
            Ok(_) => bail!("it changed while it was copied"),
            Err(error) if error.is_unsuitable() && error.bytes() == 0 => {
                self.sharing.learn(devices, &error);
                Ok(None)
            }
            Err(error) => Err(of_transfer(&error)),
        }
    }

    /// Writes the copy, and digests what is written.
    fn write(
        &mut self,
        entry: &Entry,
        source: &File,
        stat: &Stat,
        place: &Place<Arc<OwnedFd>>,
        (wants_digest, counted): (bool, Counted),
    ) -> anyhow::Result<Option<Digest>> {
        let counts = (counted == Counted::Yes).then_some(&self.counts.bytes);
        let transfer = Transfer::new(source, place);
        let (report, digest) = if wants_digest {
            let mut flow = self.tap.begin(size(stat));
            let transfer = transfer.buffer_size(self.settings.block_size);
            let run = transfer.inspect(|bytes| {
                flow.push(bytes);
                if let Some(counts) = counts {
                    counts.add(bytes.len() as u64);
                }
            });
            let report = run.run().map_err(|error| of_transfer(&error))?;
            (report, Some(flow.finish().ok_or_else(no_digest)?))
        } else {
            let report = transfer.run().map_err(|error| of_transfer(&error))?;
            self.count(report.bytes(), counted);
            (report, None)
        };
        // What claims to be empty, as in /proc, may hold anything.
        if report.bytes() != size(stat) && size(stat) > 0 {
            bail!("it changed while it was copied");
        }
        self.explain(entry, &report);
        Ok(digest)
    }

    /// Reads the copy back from the disk.
    fn verify(
        &mut self,
        place: &Place<Arc<OwnedFd>>,
        size: u64,
        digest: Option<Digest>,
    ) -> anyhow::Result<()> {
        // Pages that have not been written cannot be dropped.
        rustix::fs::fdatasync(place)
            .map_err(io::Error::from)
            .context("cannot write its copy")?;
        // A file system without a disk keeps its pages.
        let _ = rustix::fs::fadvise(place, 0, None, Advice::DontNeed);
        let read = self.digest_of(place.file(), size, Counted::No);
        if Some(read.context("cannot read its copy")?) != digest {
            bail!("its copy does not read as it was written");
        }
        Ok(())
    }

    fn digest_of_original(&mut self, entry: &Entry) -> anyhow::Result<Digest> {
        let (file, stat) = entry.open().context("cannot open")?;
        let digest = self.digest_of(&file, size(&stat), Counted::No);
        let digest = digest.context("cannot read")?;
        if !is_untouched(&file, &stat).context("cannot stat")? {
            bail!("it changed while it was read");
        }
        Ok(digest)
    }

    fn digest_of_copy(&mut self, entry: &Entry, counted: Counted) -> anyhow::Result<Digest> {
        let Named { directory, name } = entry.destination();
        let (file, stat) = open_regular(directory, name).context("cannot open its copy")?;
        let digest = self.digest_of(&file, size(&stat), counted);
        let digest = digest.context("cannot read its copy")?;
        if !is_untouched(&file, &stat).context("cannot stat its copy")? {
            bail!("its copy changed while it was read");
        }
        Ok(digest)
    }

    /// The digest of all that a file holds, wherever it stands.
    fn digest_of(&mut self, file: &File, size: u64, counted: Counted) -> anyhow::Result<Digest> {
        let counts = (counted == Counted::Yes).then_some(&self.counts.bytes);
        let mut flow = self.tap.begin(size);
        let transfer = Transfer::new(file, self.nowhere)
            .source_offset(0)
            .buffer_size(self.settings.block_size)
            .inspect(|bytes| {
                flow.push(bytes);
                if let Some(counts) = counts {
                    counts.add(bytes.len() as u64);
                }
            });
        transfer
            .run()
            .map_err(|error| anyhow!(exit::cause(&error)))?;
        flow.finish().ok_or_else(no_digest)
    }

    /// Copies what is not a regular file, or leaves it.
    fn other(&self, entry: &Entry) -> anyhow::Result<Settled> {
        let settled = Settled {
            digest: None,
            copy: None,
        };
        let existing = entry.existing().context("cannot stat its copy")?;
        let is_left = match (self.settings.policy, &existing) {
            (_, None) | (Policy::Always, _) => false,
            (Policy::Never, Some(_)) => true,
            (Policy::Default | Policy::Update, Some(existing)) => is_alike(entry, existing),
        };
        if is_left {
            self.counts.others.add(1);
            return Ok(settled);
        }
        let (source, destination) = (entry.source(), entry.destination());
        let (stat, durability) = (entry.stat(), self.settings.durability);
        let replace = Replace::what_is_there(existing.is_some());
        let placed = match entry.kind() {
            FileType::Symlink => place_symlink(source, stat, destination, replace, durability),
            FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice => {
                place_special(source, stat, destination, replace, durability)
            }
            FileType::Socket => bail!("it is a socket, which is not copied"),
            _ => bail!("it is of an unknown kind"),
        };
        let placed = match placed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Another run may have been here.
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let met = rustix::fs::statat(destination.directory, destination.name, flags);
                if !met.is_ok_and(|met| is_alike(entry, &met)) {
                    return Err(anyhow!(error).context("cannot make its copy"));
                }
                self.counts.others.add(1);
                return Ok(settled);
            }
            placed => placed.context("cannot make its copy")?,
        };
        if let Err(error) = placed.attributes {
            self.face.complain(&entry.path(), &anyhow!(error));
        }
        self.counts.others.add(1);
        Ok(settled)
    }

    fn count(&self, bytes: u64, counted: Counted) {
        if counted == Counted::Yes {
            self.counts.bytes.add(bytes);
        }
    }

    fn explain(&self, entry: &Entry, report: &zcopy::Report) {
        if self.settings.explains {
            self.face.remark(&entry.path(), &report.to_string());
        }
    }
}

/// Opens a regular file in a directory of the destination, and no link to one.
fn open_regular(directory: impl AsFd, name: &CStr) -> io::Result<(File, Stat)> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok((file.into(), stat))
}

/// Has the kernel say what went wrong with the writes so far, if it keeps that for `close(2)`, as over a network it does.
///
/// # Errors
///
/// What `close(2)` says of another descriptor of the file.
pub(super) fn settle(file: impl AsFd) -> io::Result<()> {
    sys::close_file(rustix::io::fcntl_dupfd_cloexec(file, 3)?)
}

/// Whether nobody has touched a file since it was looked at: its size, its times of modification and change, and which it is.
fn is_untouched(file: &File, before: &Stat) -> io::Result<bool> {
    let version = |stat: &Stat| {
        let modified = (stat.st_mtime, stat.st_mtime_nsec);
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        (identity(stat), stat.st_size, modified, changed)
    };
    Ok(version(before) == version(&rustix::fs::fstat(file)?))
}

/// Whether something that is no regular file is what its copy is.
fn is_alike(entry: &Entry, existing: &Stat) -> bool {
    let kind = FileType::from_raw_mode(existing.st_mode);
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

/// How many bytes a file claims to have.
pub(super) fn size(stat: &Stat) -> u64 {
    // No size is negative.
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// What a transfer between a file and its copy failed of.
fn of_transfer(error: &zcopy::Error) -> anyhow::Error {
    let what = match error.side() {
        Side::Source => "cannot read",
        Side::Sink => "cannot write its copy",
        _ => "cannot copy",
    };
    anyhow!(exit::cause(error)).context(what)
}

fn no_digest() -> anyhow::Error {
    anyhow!("cannot hash: the thread that does so has ended")
}
