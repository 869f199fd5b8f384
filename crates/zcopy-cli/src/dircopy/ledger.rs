//! What is done in the order of the tree: lines of the manifest, and further names of files that have been copied.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::attributes::Named;
use super::containment::{Identity, identity};
use super::copier::{Copier, Done, MANIFEST_IN_THE_WAY, Proof, Settled, news};
use super::counts::{Count, Counts};
use super::face::Face;
use super::journaling::Journaling;
use super::limitation::Limitation;
use super::lookup::Known;
use super::manifest::journal_entry::JournalEntry;
use super::manifest::record::Announced;
use super::manifest::update::{Line, Update};
use super::place::{Linked, Replace, place_link, place_proven_link};
use super::reading::is_interrupted;
use super::settings::Settings;
use super::tree::{Entry, Opened, Root};

/// Takes what has become of entries, in the order of their paths.
pub(super) struct Ledger<'a> {
    settings: &'a Settings,
    face: &'a Face<'a>,
    counts: &'a Counts,
    root: &'a Root,
    /// None, if none is wanted, or it could not be written.
    manifest: Option<Update<'a>>,
    journaling: &'a Journaling<'a>,
    /// The files of which more names may come.
    firsts: HashMap<Identity, First>,
    /// What is known of file systems of the destination, by their devices.
    identities: HashMap<u64, Identities>,
}

/// Whether names of one file can be told from names of different ones, by inode numbers and link counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identities {
    /// A link has been made, and it was the file.
    Reliable,
    /// A link has been made, and it did not seem to be the file.
    Unreliable,
}

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

/// The name under which a file was met first, or first copied.
struct First {
    path: Vec<u8>,
    /// How many more names there will be.
    n_more: u64,
    /// What has become of it, unless it failed.
    settled: Option<Settled>,
    /// Earlier copies of the same file, which have as many names as they can.
    full: Vec<Identity>,
}

impl First {
    /// Has further names be linked to this copy.
    fn replace(&mut self, entry: &Entry, settled: Settled) {
        self.path = entry.path().into_os_string().into_vec();
        self.settled = Some(settled);
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        (settings, face, counts): (&'a Settings, &'a Face<'a>, &'a Counts),
        root: &'a Root,
        manifest: Option<Update<'a>>,
        journaling: &'a Journaling<'a>,
    ) -> Self {
        Self {
            settings,
            face,
            counts,
            root,
            manifest,
            journaling,
            firsts: HashMap::new(),
            identities: HashMap::new(),
        }
    }

    /// Takes what has become of the next entries.
    pub(super) fn take(&mut self, all: &mut dyn Iterator<Item = Done>, copier: &mut Copier<'_>) {
        // The directory of the last link, which probably is that of the next.
        let mut opened: Option<Arc<Opened>> = None;
        for done in all {
            match done {
                Done::Settled { path, line } => {
                    self.list(line, &path);
                }
                Done::First {
                    path,
                    file,
                    n_more,
                    settled,
                } => {
                    let line = settled.unwrap_or_default().line;
                    // Further names get the same line.
                    let line = self.list(line, &path);
                    let first = First {
                        path,
                        n_more,
                        settled: settled.map(|settled| Settled { line, ..settled }),
                        full: Vec::new(),
                    };
                    self.firsts.insert(file, first);
                }
                Done::Further { entry, file, known } => {
                    let path = entry.path();
                    if !entry.is_open() {
                        drop(opened.take());
                    }
                    match entry.resume() {
                        Ok(entry) => {
                            opened = Some(Arc::clone(entry.opened()));
                            self.link(entry, file, known, copier);
                        }
                        Err(trouble) => {
                            self.face.complain_of(&trouble);
                            self.list(Line::Keep, path.as_os_str().as_bytes());
                            self.forget_name(file);
                        }
                    }
                }
            }
        }
    }

    /// Returns the manifest, if it could be written so far.
    pub(super) fn into_manifest(self) -> Option<Update<'a>> {
        self.manifest
    }

    /// Sets the line of a path. Returns the line that another name of the same file gets.
    fn list(&mut self, line: Line, path: &[u8]) -> Line {
        let Some(manifest) = &mut self.manifest else {
            return line;
        };
        match manifest.set(path, line) {
            Ok(recorded) => match line {
                // Another name may be recorded by itself.
                Line::Keep => recorded.map_or(Line::Keep, Line::Set),
                line => line,
            },
            Err(error) => {
                complain_of_manifest(self.face, error);
                self.manifest = None;
                line
            }
        }
    }

    /// Makes a link to the copy of the same file. If there is none, or it cannot have another name, this becomes a copy.
    fn link(&mut self, entry: Entry, file: Identity, known: Known, copier: &mut Copier<'_>) {
        let path = entry.path();
        let bytes = path.as_os_str().as_bytes();
        let outcome = match self.firsts.remove(&file) {
            // The first name's turn comes first, so that there is one.
            None => Err(anyhow!("its first name is not known")),
            Some(mut first) => {
                let outcome = self.link_or_copy(&mut first, &entry, known, copier);
                first.n_more -= 1;
                if first.n_more > 0 {
                    self.firsts.insert(file, first);
                }
                outcome
            }
        };
        if let Ok(line) = outcome
            && known.recorded.map(Line::Set) != Some(line)
        {
            let news = news(bytes, line);
            self.journaling
                .add(news.iter().map(|(path, entry)| (&path[..], *entry)));
        }
        copier.flush_news();
        let line = outcome.unwrap_or_else(|error| {
            if !is_interrupted(&error) {
                self.face.complain(&path, &error);
            }
            Line::Keep
        });
        let line = self.list(line, bytes);
        if let Some(First {
            path,
            settled: Some(settled),
            ..
        }) = self.firsts.get_mut(&file)
            && path == bytes
        {
            settled.line = line;
        }
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
    }

    /// Waits for one name less of a file.
    fn forget_name(&mut self, file: Identity) {
        if let Some(first) = self.firsts.get_mut(&file) {
            first.n_more -= 1;
            if first.n_more == 0 {
                self.firsts.remove(&file);
            }
        }
    }

    fn link_or_copy(
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
        let has_map = copier.map_of_copy(entry)?.is_some();
        let is_name_of = |existing: &Stat| {
            let existing_file = identity(existing);
            existing.st_nlink > 1 && (existing_file == found || first.full.contains(&existing_file))
        };
        if existing.as_ref().is_some_and(is_name_of) {
            if let Line::Set(found) = line {
                copier.compare_link_with_record(entry, found, known)?;
            }
            if has_map && proof != Proof::None {
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
        let announced = known.announced;
        if announced.is_some() {
            let path = entry.path();
            let clears = JournalEntry::Announced(Announced::Clears);
            self.journaling.add([(path.as_os_str().as_bytes(), clears)]);
        }
        if !copier.link_damaged(entry, named, existing, found)? {
            return Ok(Outcome::NotLinked(NotLinked::Unable));
        }
        self.count(entry, &self.counts.linked);
        let line = announced.map_or(Line::Keep, |_| Line::Remove);
        Ok(Outcome::Settled(line))
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

/// Reports that there will be no manifest.
pub(super) fn complain_of_manifest(face: &Face<'_>, error: io::Error) {
    let error = anyhow!(error).context("cannot write the manifest");
    face.complain("".as_ref(), &error);
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
