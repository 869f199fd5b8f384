//! Links additional names of files to their copies, or copies them by themselves.

use std::cell::Cell;
use std::collections::hash_map;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::{Finisher, First, Identities};
use crate::dircopy::copy::damaged::{DamagedLink, line_of_damaged};
use crate::dircopy::copy::{Copier, CopyResult, MANIFEST_IN_THE_WAY, Proof};
use crate::dircopy::counts::Count;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::reporter::file_result::Action;
use crate::dircopy::schedule::lookup::PriorRecord;
use crate::dircopy::stat::file_type;
use crate::dircopy::stat::{Identity, identity};
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{
    LinkSource, Linked, Replace, place_link, place_proven_link,
};
use crate::dircopy::write::file_system;
use crate::dircopy::write::limitation::Limitation;
use crate::dircopy::write::metadata::Named;

/// The error of a copy that another name is not linked to.
const LINK_DIFFERS: &str = "its copy differs from it, and its other names are not linked to it";

/// The result of an additional name.
enum Outcome {
    /// The name needs no copy. This is its result.
    Settled(CopyResult),
    NotLinked(NotLinked),
}

impl Outcome {
    fn skipped(line: Line) -> Self {
        Self::Settled(CopyResult {
            line,
            ..CopyResult::skipped()
        })
    }

    fn linked(line: Line, replace: Replace) -> Self {
        Self::Settled(CopyResult {
            line,
            action: Action::Linked,
            is_replacement: replace == Replace::Yes,
            ..CopyResult::default()
        })
    }
}

/// The result of making a link.
enum Link {
    Made,
    NotMade(NotLinked),
    /// The name has changed, and may be another file's. This was reported.
    Doubtful,
}

/// Why an additional name has not become a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotLinked {
    /// The file system has no links, or does not tell files apart.
    Unable,
    /// The copy has as many names as the file system allows.
    TooMany,
    /// The first name is no longer a name of the copy.
    Lost,
    /// The copy may not be what this name was recorded with.
    Doubtful,
    /// The copy differs from the original.
    Differs,
}

/// The copy that names are linked to.
struct FirstCopy<'a> {
    name: Named<'a>,
    stat: Stat,
}

impl Finisher<'_> {
    /// Links an additional name to the copy of its file, or copies the name by itself.
    pub(super) fn link_or_copy(
        &mut self,
        first: &mut First,
        entry: &Entry,
        prior: PriorRecord,
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<CopyResult> {
        let Some(copy) = first.copy.filter(|copy| copy.is_copy) else {
            let own_copy = copier.copy_alone(entry, prior)?;
            first.replace(entry, own_copy);
            return Ok(own_copy);
        };
        let not_linked = match self.link(first, copy, entry, prior, copier)? {
            Outcome::Settled(result) => return Ok(result),
            Outcome::NotLinked(not_linked) => not_linked,
        };
        let own_copy = copier.copy_alone(entry, prior)?;
        if own_copy.proof == Proof::Written {
            self.counts.links_copied.add(1);
            if !matches!(not_linked, NotLinked::Doubtful | NotLinked::Differs) {
                self.reporter.report_limitation(Limitation::HardLinks);
            }
        }
        let is_replaced = match not_linked {
            NotLinked::TooMany | NotLinked::Lost | NotLinked::Differs => true,
            NotLinked::Unable | NotLinked::Doubtful => false,
        };
        if own_copy.is_copy && is_replaced {
            if not_linked == NotLinked::TooMany {
                first.full.extend(copy.file);
            }
            // Later names are linked to this copy.
            first.replace(entry, own_copy);
        }
        Ok(own_copy)
    }

    /// Links an additional name to `copy`, which has the first name.
    fn link(
        &mut self,
        first: &mut First,
        copy: CopyResult,
        entry: &Entry,
        prior: PriorRecord,
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<Outcome> {
        let CopyResult { line, proof, .. } = copy;
        if prior.is_manifest {
            bail!(MANIFEST_IN_THE_WAY);
        }
        let existing = entry.existing().context("cannot stat its copy")?;
        if existing.is_some()
            && let Some(refused) = copier.refuse_other_name(entry, prior)?
        {
            return Ok(Outcome::Settled(refused));
        }
        let opened = self.open_parent(Path::new(OsStr::from_bytes(&first.path)));
        let (directory, name) = opened.context("cannot find its first name")?;
        let name = Named {
            directory: directory.as_fd(),
            name: &name,
        };
        let found = find_copy(name, copy.file, entry.kind());
        let Some(stat) = found.context("cannot link it to its first name")? else {
            return Ok(Outcome::NotLinked(NotLinked::Lost));
        };
        let source = FirstCopy { name, stat };
        if copy.is_damaged {
            return self.link_damaged(&source, entry, prior, existing.as_ref(), copier);
        }
        if !Copier::damage_of_original(entry)?.is_empty() {
            // It has a map in the source, and the first name has none.
            return Ok(Outcome::NotLinked(NotLinked::Doubtful));
        }
        let file = identity(&stat);
        let has_map = copier.map_of_copy(entry, prior)?.is_some();
        let is_linked = |existing: &Stat| {
            let existing_file = identity(existing);
            existing.st_nlink > 1 && (existing_file == file || first.full.contains(&existing_file))
        };
        if existing.as_ref().is_some_and(is_linked) {
            if proof == Proof::None && prior.recorded.is_some() && prior.announced.is_none() {
                // Nothing was read, and its own record stays.
                self.count(entry, &self.counts.skipped);
                return Ok(Outcome::skipped(Line::Keep));
            }
            if let Line::Set(found) = line {
                copier.compare_link_with_record(entry, found, prior)?;
            }
            // The copy has the digest that this name was recorded with, or is accepted as it is.
            let is_known = prior.is_accepted || !prior.expected().is_empty();
            if has_map && proof == Proof::Read && !is_known {
                bail!("it is damaged, as its map tells, but its first name has no map");
            }
            if has_map && (proof != Proof::None || prior.is_accepted) {
                copier.remove_map(entry);
            }
            self.count(entry, &self.counts.skipped);
            return Ok(Outcome::skipped(line));
        }
        let expected = prior.expected();
        // Without having been read, the first name proves nothing about an existing file.
        let is_comparable = proof != Proof::None || existing.is_none();
        let is_as_recorded =
            is_comparable && matches!(line, Line::Set(file) if expected.contains(&file));
        let is_newer =
            proof == Proof::Written && copier.is_newer_than_record(entry, existing.as_ref(), prior);
        if !expected.is_empty() && !is_as_recorded && !is_newer {
            // Copied by itself, the name is compared with its own record.
            return Ok(Outcome::NotLinked(NotLinked::Doubtful));
        }
        if !self.is_same_file(&source, line, entry, copier)? {
            return Ok(Outcome::NotLinked(NotLinked::Unable));
        }
        if proof == Proof::None && !self.is_true_copy(&source, first, entry, copier)? {
            return Ok(Outcome::NotLinked(NotLinked::Differs));
        }
        let replace = Replace::what_is_there(existing.is_some());
        copier.settle_announcement(entry, prior)?;
        match self.make_link(&source, entry, prior, line, replace, copier)? {
            Link::Made => {}
            Link::NotMade(not_linked) => return Ok(Outcome::NotLinked(not_linked)),
            Link::Doubtful => {
                let line = Line::Remove;
                return Ok(Outcome::Settled(CopyResult {
                    line,
                    ..CopyResult::default()
                }));
            }
        }
        if has_map && proof != Proof::None {
            copier.remove_map(entry);
        }
        self.count(entry, &self.counts.linked);
        if replace == Replace::Yes {
            self.counts.replaced.add(1);
        }
        let line = match line {
            // The record of this name is of the file that the link replaced.
            Line::Keep => Line::Remove,
            line => line,
        };
        Ok(Outcome::linked(line, replace))
    }

    /// Whether an additional name is one of the file that was copied to `copy`, with this line. A
    /// file system over a network or in user space may give two files one inode number, if it shows
    /// several file systems as one. There the contents tell.
    fn is_same_file(
        &mut self,
        copy: &FirstCopy<'_>,
        line: Line,
        entry: &Entry,
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<bool> {
        if entry.kind() != FileType::RegularFile {
            return Ok(true);
        }
        let has_unique_numbers = match self.unique_numbers.entry(identity(entry.stat()).0) {
            hash_map::Entry::Occupied(known) => *known.get(),
            hash_map::Entry::Vacant(unknown) => {
                let (file, _) = entry.open().context("cannot open")?;
                *unknown.insert(file_system::has_unique_inode_numbers(file))
            }
        };
        Ok(has_unique_numbers || copier.has_contents_of(entry, copy.name, line)?)
    }

    /// Whether a copy that this run has left unread has the contents of the original. Its size and
    /// its time alone say so until then, and another name would get its damage.
    fn is_true_copy(
        &self,
        copy: &FirstCopy<'_>,
        first: &mut First,
        entry: &Entry,
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<bool> {
        first.is_true = first.is_true
            || entry.kind() != FileType::RegularFile
            || copier.has_contents_of(entry, copy.name, Line::Keep)?;
        if first.is_true {
            return Ok(true);
        }
        let path = Path::new(OsStr::from_bytes(&first.path));
        self.reporter.report_error(path, &anyhow!(LINK_DIFFERS));
        Ok(false)
    }

    /// Makes a link. Its line will be `line`.
    fn make_link(
        &mut self,
        source: &FirstCopy<'_>,
        entry: &Entry,
        prior: PriorRecord,
        line: Line,
        replace: Replace,
        copier: &Copier<'_>,
    ) -> anyhow::Result<Link> {
        let (name, file) = (source.name, identity(&source.stat));
        let announced = match (line, replace) {
            (Line::Set(file), Replace::No) => Some(Announced::Adds(file)),
            (Line::Set(file), Replace::Yes) => Some(Announced::Replaces(file)),
            (Line::Keep | Line::Differs(_) | Line::Remove, Replace::Yes) => Some(Announced::Clears),
            (Line::Keep | Line::Differs(_) | Line::Remove, Replace::No) => None,
        };
        let own_path = entry.path();
        let path = own_path.as_os_str().as_bytes();
        let is_announced = Cell::new(false);
        let announce = || {
            if let Some(announced) = announced {
                is_announced.set(true);
                let durability = prior.durability_of(announced, self.settings.durability);
                self.journal.announce([(path, announced)], durability);
                self.journal
                    .allow_name(replace, durability)
                    .map_err(io::Error::other)?;
            }
            Ok(())
        };
        let cancel = || {
            if is_announced.get() {
                self.journal.add([(path, JournalEntry::Cancelled)]);
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
            Linked::from_result(place_link(name, destination, replace, durability))
        } else {
            let existing = LinkSource {
                named: name,
                identity: file,
            };
            place_proven_link(existing, destination, replace, durability, announce)
        };
        // Another process may have replaced the file.
        let ensure_linked = || match find_copy(entry.destination(), Some(file), entry.kind()) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(anyhow!("the name belongs to another file")),
            Err(error) => Err(error),
        };
        let ensure_linked = || ensure_linked().context("cannot link it");
        let (failure, has_name) = match linked {
            Ok(Linked::Made) => (ensure_linked().err(), true),
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
                let found = find_copy(name, Some(file), entry.kind());
                if found.is_ok_and(|found| found.is_none()) {
                    return Ok(Link::NotMade(NotLinked::Lost));
                }
                self.identities.insert(device, Identities::Unreliable);
                return Ok(Link::NotMade(NotLinked::Unable));
            }
            // Another process may have made the link.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let own = copier.ensure_own_name(entry, PriorRecord::default());
                (own.err().or_else(|| ensure_linked().err()), false)
            }
            Err(error) => {
                let error = anyhow!(error).context("cannot link it to its first name");
                (Some(error), ensure_linked().is_ok())
            }
        };
        match failure {
            None => {}
            Some(error) if has_name => {
                // The recorded file is gone.
                self.reporter.report_error(&own_path, &error);
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
        source: &FirstCopy<'_>,
        entry: &Entry,
        prior: PriorRecord,
        existing: Option<&Stat>,
        copier: &Copier<'_>,
    ) -> anyhow::Result<Outcome> {
        let device = entry.directory().destination_device();
        if self.identities.get(&device) == Some(&Identities::Unreliable) {
            return Ok(Outcome::NotLinked(NotLinked::Unable));
        }
        match copier.link_damaged(entry, prior, source.name, existing, &source.stat)? {
            DamagedLink::Unable => Ok(Outcome::NotLinked(NotLinked::Unable)),
            DamagedLink::Made => {
                self.count(entry, &self.counts.linked);
                let replace = Replace::what_is_there(existing.is_some());
                Ok(Outcome::linked(line_of_damaged(prior), replace))
            }
            DamagedLink::Left => {
                self.count(entry, &self.counts.skipped);
                Ok(Outcome::skipped(line_of_damaged(prior)))
            }
        }
    }

    /// Counts an entry: a regular file in `files` too.
    fn count(&self, entry: &Entry, files: &Count) {
        if entry.kind() == FileType::RegularFile {
            self.counts.files.add(1);
            files.add(1);
        } else {
            self.counts.others.add(1);
        }
    }

    /// Opens the parent directory of a path of the destination. Returns the name in it too.
    fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = self.root.open_destination(parent)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok((directory, CString::new(name.into_vec())?))
    }
}

/// Examines the file that has a name. Returns `None` unless it has the kind of the original, and
/// the identity `copy` if that is given.
///
/// # Errors
///
/// The errors of `fstatat(2)`.
fn find_copy(
    name: Named<'_>,
    copy: Option<Identity>,
    kind: FileType,
) -> anyhow::Result<Option<Stat>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statat(name.directory, name.name, flags).map_err(io::Error::from);
    let found = found.context("cannot stat the copy")?;
    let is_other = copy.is_some_and(|copy| copy != identity(&found));
    let is_copy = !is_other && file_type(&found) == kind;
    Ok(is_copy.then_some(found))
}
