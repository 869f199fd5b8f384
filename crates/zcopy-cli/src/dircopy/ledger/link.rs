//! Further names of a file, which become links to its copy, or copies of their own.

use super::{First, Identities, Ledger};
use crate::dircopy::attributes::Named;
use crate::dircopy::containment::{Identity, identity};
use crate::dircopy::copier::damaged::line_of_damaged;
use crate::dircopy::copier::{Copier, MANIFEST_IN_THE_WAY, Proof, Settled};
use crate::dircopy::counts::Count;
use crate::dircopy::limitation::Limitation;
use crate::dircopy::lookup::Known;
use crate::dircopy::manifest::journal_entry::JournalEntry;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::update::Line;
use crate::dircopy::place::{Linked, Replace, place_link, place_proven_link};
use crate::dircopy::tree::Entry;
use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// What has become of a link.
enum Link {
    Made,
    NotMade(NotLinked),
    /// The name has changed, and may stand for something else. That was reported.
    Doubtful,
}

/// What has become of a further name.
enum Outcome {
    /// It is a name of the copy, and has this line.
    Settled(Line),
    /// It is to become a copy of its own, or stays one.
    NotLinked(NotLinked),
}

/// Why a further name has not become a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotLinked {
    /// Links cannot be made, or not be told from other files.
    Unable,
    /// The copy has as many names as it can have.
    TooMany,
    /// What bears the first name is not the copy.
    Lost,
    /// Nobody has proven that the copy is what this name was recorded with.
    Doubtful,
}

impl Ledger<'_> {
    pub(super) fn link_or_copy(
        &mut self,
        first: &mut First,
        entry: &Entry,
        known: Known,
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<Line> {
        let Some(copy) = first.settled.filter(|settled| settled.is_copy) else {
            let settled = copier.work_alone(entry, known)?;
            first.replace(entry, settled);
            return Ok(settled.line);
        };
        let not_linked = match self.link_to(first, copy, (entry, known), copier)? {
            Outcome::Settled(line) => return Ok(line),
            Outcome::NotLinked(not_linked) => not_linked,
        };
        let settled = copier.work_alone(entry, known)?;
        if settled.proof == Proof::Written {
            self.counts.links_copied.add(1);
            if not_linked != NotLinked::Doubtful {
                self.face.report_limitation(Limitation::HardLinks);
            }
        }
        if settled.is_copy && matches!(not_linked, NotLinked::TooMany | NotLinked::Lost) {
            if not_linked == NotLinked::TooMany {
                first.full.extend(copy.copy);
            }
            // Later names are linked to this copy.
            first.replace(entry, settled);
        }
        Ok(settled.line)
    }

    fn link_to(
        &mut self,
        first: &First,
        Settled {
            line,
            copy,
            proof,
            is_damaged,
            ..
        }: Settled,
        (entry, known): (&Entry, Known),
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<Outcome> {
        if known.is_manifest {
            bail!(MANIFEST_IN_THE_WAY);
        }
        let existing = entry.existing().context("cannot stat its copy")?;
        if existing.is_some()
            && let Some(refused) = copier.refuse_other_name(entry, known)?
        {
            return Ok(Outcome::Settled(refused.line));
        }
        let path = Path::new(OsStr::from_bytes(&first.path));
        let opened = self.open_parent(path);
        let (directory, name) = opened.context("cannot find its first name")?;
        let named = Named {
            directory: directory.as_fd(),
            name: &name,
        };
        let found = find_copy(named, copy, entry.kind());
        let found = found.context("cannot link it to its first name")?;
        let Some(found) = found else {
            return Ok(Outcome::NotLinked(NotLinked::Lost));
        };
        if is_damaged {
            return self.link_damaged(entry, known, (named, &found), existing.as_ref(), copier);
        }
        let found = identity(&found);
        let has_map = copier.map_of_copy(entry, known)?.is_some();
        let is_name_of = |existing: &Stat| {
            let existing_file = identity(existing);
            existing.st_nlink > 1 && (existing_file == found || first.full.contains(&existing_file))
        };
        if existing.as_ref().is_some_and(is_name_of) {
            if let Line::Set(found) = line {
                copier.compare_link_with_record(entry, found, known)?;
            }
            if has_map && proof == Proof::Read {
                bail!("it is damaged, as its map tells, but its first name has no map");
            }
            if has_map && proof == Proof::Written {
                copier.remove_map(entry);
            }
            self.count(entry, &self.counts.skipped);
            return Ok(Outcome::Settled(line));
        }
        let expected = known.expected();
        let has_record = matches!(line, Line::Set(file) if expected.contains(&file));
        let is_proven = match proof {
            Proof::None => false,
            Proof::Written => true,
            Proof::Read => has_record,
        };
        if existing.is_some() && !expected.is_empty() && !is_proven {
            // The first name was left, and what it holds is not what this one was recorded with.
            return Ok(Outcome::NotLinked(NotLinked::Doubtful));
        }
        let replace = Replace::what_is_there(existing.is_some());
        match self.make_link((named, found), entry, line, replace, copier)? {
            Link::Made => {}
            Link::NotMade(not_linked) => return Ok(Outcome::NotLinked(not_linked)),
            Link::Doubtful => return Ok(Outcome::Settled(Line::Remove)),
        }
        if has_map && proof != Proof::None {
            copier.remove_map(entry);
        }
        self.count(entry, &self.counts.linked);
        // Its own record speaks of what was there before.
        Ok(Outcome::Settled(match line {
            Line::Keep => Line::Remove,
            line => line,
        }))
    }

    /// Makes a link to the copy of which `first` is the name and the file. `line` is the link's.
    fn make_link(
        &mut self,
        first: (Named<'_>, Identity),
        entry: &Entry,
        line: Line,
        replace: Replace,
        copier: &Copier<'_>,
    ) -> anyhow::Result<Link> {
        let (named, found) = first;
        let announced = match (line, replace) {
            (Line::Set(file), Replace::No) => Some(Announced::Adds(file)),
            (Line::Set(file), Replace::Yes) => Some(Announced::Replaces(file)),
            (Line::Keep | Line::Remove, Replace::Yes) => Some(Announced::Clears),
            (Line::Keep | Line::Remove, Replace::No) => None,
        };
        let own_path = entry.path();
        let journal = |entry| {
            let path = own_path.as_os_str().as_bytes();
            self.journaling.add([(path, entry)]);
        };
        let is_announced = Cell::new(false);
        let announce = || {
            if let Some(announced) = announced {
                is_announced.set(true);
                journal(JournalEntry::Announced(announced));
            }
            match replace {
                Replace::Yes => self.journaling.allow_replacing().map_err(io::Error::other),
                Replace::No => Ok(()),
            }
        };
        let cancel = || {
            if is_announced.get() {
                journal(JournalEntry::Cancelled);
            }
        };
        let device = entry.directory().destination_device();
        let (destination, durability) = (entry.destination(), self.settings.durability);
        let identities = self.identities.get(&device).copied();
        if identities == Some(Identities::Unreliable) {
            return Ok(Link::NotMade(NotLinked::Unable));
        }
        let linked = if identities.is_some() && replace == Replace::No {
            announce()?;
            Linked::from_result(place_link(named, destination, replace, durability))
        } else {
            place_proven_link(named, found, destination, replace, durability, announce)
        };
        // The name may have come to lead to something else in between.
        let leads_to_copy = || match find_copy(entry.destination(), Some(found), entry.kind()) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(anyhow!("what bears the name is not the copy")),
            Err(error) => Err(error),
        };
        let leads_to_copy = || leads_to_copy().context("cannot link it");
        let (failure, has_name) = match linked {
            Ok(Linked::Made) => (leads_to_copy().err(), true),
            Ok(Linked::Unable(error)) => {
                cancel();
                let errno = Errno::from_io_error(&error);
                return Ok(Link::NotMade(match errno {
                    Some(Errno::MLINK) => NotLinked::TooMany,
                    _ => NotLinked::Unable,
                }));
            }
            Ok(Linked::Unproven) => {
                cancel();
                let found = find_copy(named, Some(found), entry.kind());
                if found.is_ok_and(|found| found.is_none()) {
                    return Ok(Link::NotMade(NotLinked::Lost));
                }
                self.identities.insert(device, Identities::Unreliable);
                return Ok(Link::NotMade(NotLinked::Unable));
            }
            // Another run may have been here.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let own = copier.ensure_own_name(entry, Known::default());
                (own.err().or_else(|| leads_to_copy().err()), false)
            }
            Err(error) => {
                let error = anyhow!(error).context("cannot link it to its first name");
                (Some(error), leads_to_copy().is_ok())
            }
        };
        match failure {
            None => {}
            Some(error) if has_name => {
                // What it was recorded with is gone.
                self.face.complain(&own_path, &error);
                return Ok(Link::Doubtful);
            }
            Some(error) => {
                cancel();
                return Err(error);
            }
        }
        if has_name {
            self.identities.insert(device, Identities::Reliable);
        }
        Ok(Link::Made)
    }

    /// Makes a link to a damaged copy.
    fn link_damaged(
        &self,
        entry: &Entry,
        known: Known,
        (named, found): (Named<'_>, &Stat),
        existing: Option<&Stat>,
        copier: &Copier<'_>,
    ) -> anyhow::Result<Outcome> {
        let device = entry.directory().destination_device();
        if matches!(self.identities.get(&device), Some(Identities::Unreliable)) {
            return Ok(Outcome::NotLinked(NotLinked::Unable));
        }
        if !copier.link_damaged(entry, known, named, existing, found)? {
            return Ok(Outcome::NotLinked(NotLinked::Unable));
        }
        self.count(entry, &self.counts.linked);
        Ok(Outcome::Settled(line_of_damaged(known)))
    }

    /// Counts an entry, and if it is a regular file, what has become of it.
    fn count(&self, entry: &Entry, files: &Count) {
        if entry.kind() == FileType::RegularFile {
            self.counts.files.add(1);
            files.add(1);
        } else {
            self.counts.others.add(1);
        }
    }

    /// The directory of the destination that holds what has this path, and its name there.
    fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = self.root.open_destination(parent)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok((directory, CString::new(name.into_vec())?))
    }
}

/// The file that bears a name, if it is the copy, of which this is known.
///
/// # Errors
///
/// What `fstatat(2)` says.
fn find_copy(
    named: Named<'_>,
    copy: Option<Identity>,
    kind: FileType,
) -> anyhow::Result<Option<Stat>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statat(named.directory, named.name, flags).map_err(io::Error::from);
    let found = found.context("cannot stat the copy")?;
    let is_other = copy.is_some_and(|copy| copy != identity(&found));
    let is_copy = !is_other && FileType::from_raw_mode(found.st_mode) == kind;
    Ok(is_copy.then_some(found))
}
