//! `--delete`: moves entries of the destination that the source lacks into a dated folder in it.
//!
//! Nothing is unlinked, and nothing is read: each entry is moved by one rename(2). Its records follow
//! it. The journal announces them before: if the run is killed, the records of the old and of the
//! new path count for whichever has the file.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::copy_tree::Context;
use super::manifest::Reported;
use crate::common::cli::quote::quoted;
use crate::dircopy::copy::run_journal::RunJournal;
use crate::dircopy::damage_map::mapped_name;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::INFO;
use crate::dircopy::manifest::bag;
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl;
use crate::dircopy::manifest::name::{Name, local_time};
use crate::dircopy::manifest::read::archive::Archive;
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::manifest::write::update::Line;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::{identity, permissions};
use crate::dircopy::walk::open_beneath;
use crate::dircopy::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use crate::dircopy::walk::spelling::key::fold;
use crate::dircopy::walk::{Root, containment, listing};
use crate::dircopy::write::atomic_file::{Durability, Replace, temp_name};

/// The beginning of the name of a folder with what was moved.
const PREFIX: &str = "deleted.";

/// The most folders of one second.
const MAX_FOLDERS: u32 = 1000;

/// Whether this is the name of a folder with what was moved: `deleted.YYYY-MM-DD.HH.MM.SS`, perhaps
/// with a number behind it.
fn is_folder(name: &[u8]) -> bool {
    const DIGITS: &[u8] = b"0000-00-00.00.00.00";
    let Some(time) = name.strip_prefix(PREFIX.as_bytes()) else {
        return false;
    };
    let Some((time, rest)) = time.split_at_checked(DIGITS.len()) else {
        return false;
    };
    let is_alike = |(byte, pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        pattern => byte == pattern,
    };
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    time.iter().zip(DIGITS).all(is_alike)
        && (rest.is_empty() || rest.strip_prefix(b".").is_some_and(is_number))
}

/// Refuses to move anything while the journal of a killed run is left: it may announce files that
/// have not got their names, and only a run that copies finds out which.
pub(super) fn check_journals(
    settings: &Settings,
    reporter: &Reporter<'_>,
    archive: &Archive,
) -> Result<(), Reported> {
    if !settings.deletes || !archive.has_journals() {
        return Ok(());
    }
    let error = anyhow!(
        "a run was killed here, and --delete would move files whose digests are not certain yet; \
         run without --delete first"
    );
    reporter.report_destination_error(&settings.destination, &error);
    Err(Reported)
}

/// Refuses a source that lies in the destination: it would be moved.
///
/// # Errors
///
/// A message with both paths; the errors of `open(2)` on the way up.
pub(super) fn check_source(
    settings: &Settings,
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
) -> anyhow::Result<()> {
    let root = rustix::fs::fstat(destination).map_err(io::Error::from)?;
    containment::check_open(&root, source).map_err(|error| {
        if error.kind() != io::ErrorKind::InvalidInput {
            return anyhow!(error).context("cannot look whether the destination holds it");
        }
        let destination = quoted(settings.destination.as_os_str());
        anyhow!("the source is inside the destination {destination}, and --delete would move it")
    })
}

/// An entry of the destination that the source lacks.
#[derive(Debug)]
pub(super) struct Gone {
    /// The path from the root.
    pub(super) path: Vec<u8>,
    pub(super) kind: FileType,
}

/// Finds the entries of the destination that the source lacks, in the order of their paths.
/// Excluded entries, manifests, journals, maps of damaged files and folders of earlier runs are no
/// such entries.
///
/// The entries of a directory that the source lacks are not listed, unless some of them are
/// excluded: then the directory stays with these, and the others are listed in its place. A part of
/// it that cannot be read stays, too.
///
/// If a directory of the source cannot be read to its end, nothing in it is taken to be gone, and
/// the error is reported. The same goes for a source without any entry: a disk that is not mounted
/// looks like that.
pub(super) fn find(
    settings: &Settings,
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
    archive: &Archive,
    most_open: usize,
    reporter: &Reporter<'_>,
) -> Vec<Gone> {
    let options = ScanOptions {
        follows_symlinks: false,
        one_file_system: true,
        most_open,
    };
    let report = |path: &[u8], error: io::Error, context: &'static str| {
        let error = anyhow!(error).context(context);
        reporter.report_error(Path::new(OsStr::from_bytes(path)), &error);
    };
    let own = OwnNames::of(settings, destination);
    let mut gone = GoneEntries::default();
    let mut current: Option<(Vec<u8>, Option<Originals>)> = None;
    let mut is_empty = false;
    scan(destination, options, |found| {
        let found = match found {
            Ok(found) => found,
            Err(Failure { path, error }) => {
                report(&path, error, "cannot look for what is gone");
                gone.keep(&path);
                return Next::Pass;
            }
        };
        let (directory, path) = (found.directory_path(), found.path());
        if gone.has(&directory) {
            if is_excluded(settings, &found, &path) {
                gone.keep(&path);
                return Next::Pass;
            }
            gone.add(path, found.kind);
            return Next::Enter;
        }
        if current.as_ref().is_none_or(|(path, _)| *path != directory) {
            current = None;
            let originals = Originals::read(settings, source, &directory).unwrap_or_else(|error| {
                let failed = "nothing is moved out of its copy: cannot read directory";
                report(&directory, error, failed);
                None
            });
            is_empty |= directory.is_empty() && originals.as_ref().is_some_and(Originals::is_empty);
            current = Some((directory, originals));
        }
        let Some((directory, Some(originals))) = &current else {
            return Next::Pass;
        };
        if is_empty {
            return Next::Stop;
        }
        let is_own = || own.has(&found) || archive.owns(found.name.to_bytes());
        if directory.is_empty() && is_own()
            || temp_name::is_temp_name(found.name.to_bytes())
            || is_excluded(settings, &found, &path)
        {
            return Next::Pass;
        }
        match originals.has(&found) {
            Ok(true) => Next::Enter,
            Ok(false) => {
                gone.add(path, found.kind);
                if settings.exclude.is_empty() {
                    Next::Pass
                } else {
                    Next::Enter
                }
            }
            Err(errno) => {
                report(&path, errno.into(), "cannot look whether it is gone");
                Next::Pass
            }
        }
    });
    if is_empty {
        let error = anyhow!("it has no entries, and nothing is moved: is it mounted?");
        reporter.report_destination_error(&settings.source, &error);
    }
    gone.finish()
}

/// The entries that the source lacks, with those in directories that it lacks.
#[derive(Debug, Default)]
struct GoneEntries {
    kinds: HashMap<Vec<u8>, FileType>,
    /// The entries that stay, and the directories above them.
    kept: HashSet<Vec<u8>>,
}

impl GoneEntries {
    fn add(&mut self, path: Vec<u8>, kind: FileType) {
        self.kinds.insert(path, kind);
    }

    fn has(&self, path: &[u8]) -> bool {
        self.kinds.contains_key(path)
    }

    /// Keeps an entry, and the directories that it is in.
    fn keep(&mut self, path: &[u8]) {
        let mut path = Some(path);
        while let Some(kept) = path {
            // Those above it are kept already.
            if !self.kept.insert(kept.to_vec()) {
                break;
            }
            path = parent(kept);
        }
    }

    /// The entries to move, in the order of their paths.
    fn finish(self) -> Vec<Gone> {
        let Self { kinds, kept } = self;
        let moves_with_parent = |path: &[u8]| {
            parent(path).is_some_and(|up| kinds.contains_key(up) && !kept.contains(up))
        };
        let moved = kinds
            .iter()
            .filter(|(path, _)| !kept.contains(*path) && !moves_with_parent(path));
        let mut gone: Vec<_> = moved
            .map(|(path, kind)| Gone {
                path: path.clone(),
                kind: *kind,
            })
            .collect();
        gone.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        gone
    }
}

/// The path of the directory of an entry, unless that is the root.
fn parent(path: &[u8]) -> Option<&[u8]> {
    memchr::memrchr(b'/', path).map(|slash| &path[..slash])
}

fn is_excluded(settings: &Settings, found: &Found<'_>, path: &[u8]) -> bool {
    let name = OsStr::from_bytes(found.name.to_bytes());
    let is_directory = found.kind == FileType::Directory;
    let whole_path = || Path::new(OsStr::from_bytes(path));
    settings.exclude.matches(name, is_directory, whole_path)
}

/// The entries of the root that the tool has made beside the copies. They stay, of whichever kind
/// the manifest of this run is.
#[derive(Clone, Copy, Debug)]
enum OwnNames {
    /// The directory is the payload of a bag. The manifests in it are copies.
    Payload,
    /// The root of an archive.
    Archive,
    /// The root of an archive that is a bag, too.
    Bag,
}

impl OwnNames {
    fn of(settings: &Settings, root: BorrowedFd<'_>) -> Self {
        match settings.manifest {
            ManifestKind::Bag => Self::Payload,
            ManifestKind::Sums | ManifestKind::Mhl if bag::is_in(root) => Self::Bag,
            ManifestKind::Sums | ManifestKind::Mhl => Self::Archive,
        }
    }

    /// Whether an entry of the root is one of them.
    fn has(self, found: &Found<'_>) -> bool {
        let name = found.name.to_bytes();
        let is_directory = found.kind == FileType::Directory;
        if is_journal(name) || is_directory && is_folder(name) {
            return true;
        }
        let is_manifest = || {
            if is_directory {
                name == mhl::DIRECTORY.as_bytes()
            } else {
                is_list(name)
            }
        };
        match self {
            Self::Payload => false,
            Self::Archive => is_manifest(),
            Self::Bag => is_manifest() || bag::has_name(name, is_directory),
        }
    }
}

/// Whether this is the name of a list of digests, or of the comments of one.
fn is_list(name: &[u8]) -> bool {
    let Ok(name) = str::from_utf8(name) else {
        return false;
    };
    name.strip_suffix(INFO)
        .unwrap_or(name)
        .parse::<Name>()
        .is_ok()
}

/// The names in one directory of the source.
struct Originals {
    directory: OwnedFd,
    /// By their folded spelling.
    names: HashMap<Vec<u8>, Vec<CString>>,
}

impl Originals {
    /// Reads a directory. `None` if the walk does not enter it, or it is no directory.
    fn read(settings: &Settings, source: BorrowedFd<'_>, path: &[u8]) -> io::Result<Option<Self>> {
        let path = Path::new(OsStr::from_bytes(path));
        let opened = if settings.follows_symlinks {
            open_following(source, path)
        } else {
            open_beneath(source, path)
        };
        let directory = match opened {
            Ok(directory) => directory,
            // It is a file, or a link. The copy of the directory is in its way, and stays.
            Err(error) if error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if settings.one_file_system {
            let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| identity(&stat).0);
            if device(directory.as_fd())? != device(source)? {
                return Ok(None);
            }
        }
        let mut names = HashMap::<Vec<u8>, Vec<CString>>::new();
        listing::each(directory.as_fd(), |name, _| {
            let spellings = names.entry(fold(name.to_bytes())).or_default();
            spellings.push(name.to_owned());
        })?;
        Ok(Some(Self { directory, names }))
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the directory has an entry of this name, by any spelling that the destination takes
    /// for the same, or the file that the entry is a map of.
    fn has(&self, found: &Found<'_>) -> Result<bool, Errno> {
        if self.has_name(found, found.name)? {
            return Ok(true);
        }
        let mapped = mapped_name(found.name.to_bytes()).and_then(|name| CString::new(name).ok());
        mapped.map_or(Ok(false), |mapped| self.has_name(found, &mapped))
    }

    fn has_name(&self, found: &Found<'_>, name: &CStr) -> Result<bool, Errno> {
        // The listing may miss a name that was made meanwhile.
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Ok(true),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let Some(spellings) = self.names.get(&fold(name.to_bytes())) else {
            return Ok(false);
        };
        let stat =
            |name: &CStr| rustix::fs::statat(found.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = identity(&stat(found.name)?);
        let is_same = |name: &CString| stat(name).is_ok_and(|stat| identity(&stat) == own);
        Ok(spellings
            .iter()
            .any(|spelling| spelling.as_c_str() == name || is_same(spelling)))
    }
}

/// Opens a directory of the source by a path that may lead through links.
fn open_following(source: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open_beneath(source, Path::new(""))?;
    for name in path {
        directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
    }
    Ok(directory)
}

/// Moves entries into a new folder, and reports what cannot be moved. Returns the lines that the
/// manifest gets for it, in the order of their paths.
pub(super) fn move_all(
    gone: &[Gone],
    root: &Root,
    archive: &Archive,
    journal: &RunJournal<'_>,
    context: Context<'_>,
    durability: Durability,
) -> io::Result<Vec<(Vec<u8>, Line)>> {
    let (reporter, destination) = (context.reporter, root.destination().as_fd());
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    let mut records = records_of(gone, archive)?;
    let (folder, opened) = make_folder(destination)?;
    let mut lines = Vec::new();
    for (place, entry) in gone.iter().enumerate() {
        if context.interrupt.is_requested() {
            break;
        }
        let records = records.remove(&place).unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let moved = Mover {
            destination,
            folder: opened.as_fd(),
            folder_name: folder.as_bytes(),
            journal,
        }
        .move_entry(entry, &records);
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                reporter.report_error(path, &error);
                continue;
            }
        };
        context.counts.moved.add(1);
        reporter.report_moved(path, &Path::new(&folder).join(path));
        for (path, file) in records {
            lines.push((new_path(folder.as_bytes(), &path), Line::Set(file)));
            lines.push((path, Line::Remove));
        }
        // Its records follow it even so.
        if let Err(error) = moved.finish(durability) {
            reporter.report_error(path, &error);
        }
    }
    drop(opened);
    // Nothing could be moved, and the folder is empty.
    let _ = rustix::fs::unlinkat(destination, &*folder, AtFlags::REMOVEDIR);
    lines.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(lines)
}

/// A recorded path and its digest.
type FileRecord = (Vec<u8>, FileDigest);

/// The records of the entries and of what is in them, by the place of the entry.
fn records_of(gone: &[Gone], archive: &Archive) -> io::Result<HashMap<usize, Vec<FileRecord>>> {
    let mut found = HashMap::<usize, Vec<FileRecord>>::new();
    if archive.is_empty() {
        return Ok(found);
    }
    let places: HashMap<&[u8], usize> = gone
        .iter()
        .enumerate()
        .map(|(place, entry)| (&*entry.path, place))
        .collect();
    let mut records = archive.records()?;
    while let Some(record) = records.next()? {
        let path = &record.path;
        let parents = memchr::memchr_iter(b'/', path).map(|slash| &path[..slash]);
        let place = parents
            .chain([&path[..]])
            .find_map(|path| places.get(path).copied());
        let file = match (record.file, record.announced) {
            (Some(file), None) | (_, Some(Announced::Adds(file))) => Some(file),
            // It would have to be read.
            _ => None,
        };
        if let (Some(place), Some(file)) = (place, file) {
            found.entry(place).or_default().push((record.path, file));
        }
    }
    Ok(found)
}

/// Makes a folder with the time in its name. Returns the name, too.
fn make_folder(destination: BorrowedFd<'_>) -> io::Result<(String, OwnedFd)> {
    let time = local_time().strftime("%Y-%m-%d.%H.%M.%S").to_string();
    for nth in 1..=MAX_FOLDERS {
        let name = match nth {
            1 => format!("{PREFIX}{time}"),
            nth => format!("{PREFIX}{time}.{nth}"),
        };
        match rustix::fs::mkdirat(destination, &*name, Mode::RWXU) {
            Ok(()) => {
                let opened = open_beneath(destination, Path::new(&name))?;
                take_attributes(destination, &opened);
                return Ok((name, opened));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Gives a new directory the owner and the mode of the one whose entries it gets, so that nobody
/// else may read them.
fn take_attributes(from: BorrowedFd<'_>, new: &OwnedFd) {
    if let Ok(stat) = rustix::fs::fstat(from) {
        use rustix::fs::{Gid, Uid};
        let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        // Without it the directory stays private.
        if rustix::fs::fchown(new, Some(owner.0), Some(owner.1)).is_ok() {
            let _ = rustix::fs::fchmod(new, permissions(&stat) | Mode::RWXU);
        }
    }
}

fn new_path(folder: &[u8], path: &[u8]) -> Vec<u8> {
    [folder, b"/", path].concat()
}

/// A directory that was opened up to its owner.
struct OpenedUp {
    directory: OwnedFd,
    mode: Mode,
}

impl OpenedUp {
    /// Opens up a directory that its owner may not write to. `None` if that changes nothing.
    fn open(directory: OwnedFd) -> Option<Self> {
        let mode = permissions(&rustix::fs::fstat(&directory).ok()?);
        let is_changed =
            !mode.contains(Mode::RWXU) && rustix::fs::fchmod(&directory, mode | Mode::RWXU).is_ok();
        is_changed.then_some(Self { directory, mode })
    }

    fn restore(self) -> Result<(), Errno> {
        rustix::fs::fchmod(self.directory, self.mode)
    }
}

/// Moves an entry to another directory. Directories that their owner may not write to are opened up
/// for that: the one that has the entry, and the entry, whose `..` changes. Returns whether they
/// have their modes again.
fn rename(
    from: &OwnedFd,
    name: &OsStr,
    kind: FileType,
    to: &OwnedFd,
) -> Result<Result<(), Errno>, Errno> {
    let rename = || rustix::fs::renameat(from, name, to, name);
    let mut moved = rename();
    let mut restored = Ok(());
    if moved == Err(Errno::ACCESS) {
        let parent = open_beneath(from.as_fd(), Path::new("")).ok();
        let parent = parent.and_then(OpenedUp::open);
        moved = rename();
        if moved == Err(Errno::ACCESS) && kind == FileType::Directory {
            let entry = open_beneath(from.as_fd(), Path::new(name)).ok();
            if let Some(entry) = entry.and_then(OpenedUp::open) {
                moved = rename();
                restored = entry.restore();
            }
        }
        if let Some(parent) = parent {
            restored = restored.and(parent.restore());
        }
    }
    moved.map(|()| restored)
}

/// An entry that was moved.
struct Moved {
    from: OwnedFd,
    to: OwnedFd,
    /// Whether the directories that were opened up have their modes again.
    restored: Result<(), Errno>,
}

impl Moved {
    /// Brings the move to the disk. Returns the first error.
    fn finish(self, durability: Durability) -> anyhow::Result<()> {
        let synced = match durability {
            Durability::Synced => {
                let synced = [self.to, self.from].map(rustix::fs::fsync);
                synced.into_iter().find(Result::is_err).unwrap_or(Ok(()))
            }
            Durability::Cached => Ok(()),
        };
        self.restored
            .map_err(io::Error::from)
            .context("it is moved, but a directory could not get its mode back")?;
        synced
            .map_err(io::Error::from)
            .context("it is moved, but a loss of power may undo that")
    }
}

/// Moves entries of the destination into a folder.
struct Mover<'a> {
    destination: BorrowedFd<'a>,
    folder: BorrowedFd<'a>,
    folder_name: &'a [u8],
    journal: &'a RunJournal<'a>,
}

impl Mover<'_> {
    /// Moves an entry, or leaves nothing in the folder for it.
    fn move_entry(&self, entry: &Gone, records: &[FileRecord]) -> anyhow::Result<Moved> {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        let parent = path.parent().unwrap_or(Path::new(""));
        let moved = self.try_to_move(entry, path, parent, records);
        if moved.is_err() {
            self.remove_empty(parent);
        }
        moved
    }

    fn try_to_move(
        &self,
        entry: &Gone,
        path: &Path,
        parent: &Path,
        records: &[FileRecord],
    ) -> anyhow::Result<Moved> {
        let name = path.file_name().unwrap_or_default();
        let from = open_beneath(self.destination, parent).context("cannot open its directory")?;
        let to = self
            .make_parents(parent)
            .context("cannot make its directory")?;
        let new_paths = records
            .iter()
            .map(|(path, _)| new_path(self.folder_name, path));
        let new_paths: Vec<_> = new_paths.collect();
        let mut announced = Ok(());
        if !records.is_empty() {
            let moves = records.iter().zip(&new_paths);
            self.journal
                .announce_moves(moves.map(|((path, file), new)| (&**path, &**new, *file)));
            announced = self.journal.allow_name(Replace::Yes, Durability::Synced);
        }
        let restored = announced.and_then(|()| {
            rename(&from, name, entry.kind, &to).map_err(|errno| anyhow!(io::Error::from(errno)))
        });
        let restored = restored.map_err(|error| {
            let stays = records
                .iter()
                .map(|(path, file)| (&**path, JournalEntry::Has(*file)));
            let cancelled = new_paths
                .iter()
                .map(|path| (&**path, JournalEntry::Cancelled));
            self.journal.add(stays.chain(cancelled));
            error.context("cannot move it")
        })?;
        Ok(Moved { from, to, restored })
    }

    /// Removes the directories of a path in the folder that are empty.
    fn remove_empty(&self, path: &Path) {
        for path in path.ancestors() {
            let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
                break;
            };
            // Of those that were not made there may be several.
            if let Ok(parent) = open_beneath(self.folder, parent) {
                let _ = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
            }
        }
    }

    /// Makes the directories of a path in the folder. Returns the last one.
    fn make_parents(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut original = open_beneath(self.destination, Path::new(""))?;
        let mut made = open_beneath(self.folder, Path::new(""))?;
        for name in path {
            let name = Path::new(name);
            original = open_beneath(original.as_fd(), name)?;
            let is_new = match rustix::fs::mkdirat(&made, name, Mode::RWXU) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno.into()),
            };
            made = open_beneath(made.as_fd(), name)?;
            if is_new {
                take_attributes(original.as_fd(), &made);
            }
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::is_folder;

    #[test]
    fn only_folders_of_earlier_runs_have_such_names() {
        for name in [
            "deleted.2026-11-27.01.14.13",
            "deleted.2026-11-27.01.14.13.2",
        ] {
            assert!(is_folder(name.as_bytes()), "{name}");
        }
        for name in [
            "deleted",
            "deleted.2026-11-27",
            "deleted.2026-11-27.01.14.1x",
            "deleted.2026-11-27.01.14.13.",
            "deleted.2026-11-27.01.14.13.a",
            "xdeleted.2026-11-27.01.14.13",
        ] {
            assert!(!is_folder(name.as_bytes()), "{name}");
        }
    }
}
