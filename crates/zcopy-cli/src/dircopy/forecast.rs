//! Forecasts the action of a run for each entry of the source. Nothing is written.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat};

use super::policy::{Decision, Policy, Rounding, decide, keeps_existing_name};
use super::reporter::plan::Word;
use super::settings::Settings;
use super::stat::{Identity, file_type, identity, is_directory, is_regular, size};
use super::walk::listing::leftovers;
use super::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use super::write::atomic_file::temp_name;
use super::write::partial_file::{LeftPartial, MIN_SIZE};

/// The action of a run for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make the entry in the destination, which has no file of this name.
    Copy,
    /// Replace the file of the destination.
    Replace,
    /// Read the file of the destination and its original, and replace the file if they differ.
    Compare,
    /// Leave the file of the destination.
    Skip,
    /// Link the name to the copy of an earlier name of the same file.
    Link,
    /// Make a directory.
    MakeDirectory,
    /// Fill a directory that the destination has.
    EnterDirectory,
}

impl From<Action> for Word {
    fn from(action: Action) -> Self {
        match action {
            Action::Copy | Action::MakeDirectory => Self::Copy,
            Action::Replace => Self::Replace,
            Action::Compare => Self::Compare,
            Action::Link => Self::Link,
            Action::Skip | Action::EnterDirectory => Self::Skip,
        }
    }
}

/// The forecast for an entry.
#[derive(Debug)]
pub(crate) struct Forecast<'a> {
    /// The entry in the source.
    pub(crate) found: Found<'a>,
    pub(crate) stat: Stat,
    /// The file that the destination has under this name.
    pub(crate) existing: Option<Stat>,
    pub(crate) action: Action,
    /// The part of its copy that an earlier run has left.
    pub(crate) begun: Option<Begun>,
}

/// A partial copy that an earlier run has left. A run goes on with it, or removes it before it
/// copies the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// The number of bytes that a run with `--resume` need not copy, if they are still as they were
    /// written.
    pub(crate) bytes: u64,
    /// The partial copy.
    pub(crate) stat: Stat,
}

/// Calls `show` with the forecast for every entry that a run would not leave out. Without a
/// destination, none is taken to exist. Entries that cannot be examined are shown as errors.
///
/// The entries of a directory come before those of the directories in it. Nothing is opened but
/// directories, and files that earlier runs have begun.
pub(crate) fn forecast(
    source: BorrowedFd<'_>,
    destination: Option<BorrowedFd<'_>>,
    settings: &Settings,
    options: ScanOptions,
    mut show: impl FnMut(Result<Forecast<'_>, Failure>) -> Next,
) {
    let mut copies = destination.map(Copies::new);
    // The actions of files with several names that have been shown by one of them.
    let mut shown = HashMap::<Identity, Action>::new();
    let flags = if options.follows_symlinks {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    };
    scan(source, options, |found| {
        let found = match found {
            Ok(found) => found,
            Err(failure) => return show(Err(failure)),
        };
        let name = OsStr::from_bytes(found.name.to_bytes());
        let is_a_directory = found.kind == FileType::Directory;
        let path = || std::path::PathBuf::from(OsStr::from_bytes(&found.path()));
        if settings.exclude.matches(name, is_a_directory, path)
            || !is_a_directory && temp_name::is_temp_name(found.name.to_bytes())
        {
            return Next::Pass;
        }
        let stat = match rustix::fs::statat(found.directory, found.name, flags) {
            Ok(stat) => stat,
            Err(errno) => {
                let (path, error) = (found.path(), errno.into());
                return show(Err(Failure { path, error }));
            }
        };
        let copy = match &mut copies {
            Some(copies) => copies.directory(&found.directory_path()),
            None => Ok(None),
        };
        let existing = copy.and_then(|copy| {
            let Some(directory) = copy else {
                return Ok((None, None));
            };
            let stat = rustix::fs::statat(directory, found.name, AtFlags::SYMLINK_NOFOLLOW);
            Ok((Some(directory), unless_missing(stat)?))
        });
        let (copy, existing) = match existing {
            Ok(existing) => existing,
            Err(error) => {
                let path = found.path();
                return show(Err(Failure { path, error }));
            }
        };
        let is_alike = |existing: &Stat| {
            let target = |directory| rustix::fs::readlinkat(directory, found.name, Vec::new()).ok();
            match file_type(&stat) {
                FileType::Symlink => copy.and_then(target) == target(found.directory),
                FileType::CharacterDevice | FileType::BlockDevice => {
                    stat.st_rdev == existing.st_rdev
                }
                _ => true,
            }
        };
        let first = shown.get(&identity(&stat)).copied();
        let action = action(settings.policy, &stat, existing.as_ref(), first, is_alike);
        if stat.st_nlink > 1 && first.is_none() && !is_directory(&stat) {
            shown.insert(identity(&stat), action);
        }
        let is_written = matches!(action, Action::Copy | Action::Replace);
        let begun = match &mut copies {
            Some(copies)
                if (settings.resumes || !settings.is_dry_run)
                    && is_written
                    && is_regular(&stat)
                    && size(&stat) >= MIN_SIZE =>
            {
                copies.begun(found.name, &stat)
            }
            _ => None,
        };
        show(Ok(Forecast {
            found,
            stat,
            existing,
            action,
            begun,
        }))
    });
}

/// Turns the error of a missing file into `None`.
fn unless_missing<T>(found: Result<T, impl Into<io::Error>>) -> io::Result<Option<T>> {
    match found.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

/// Decides the action of a run for an entry by `stat(2)` alone. `first` is the action for an
/// earlier name of the same file.
fn action(
    policy: Policy,
    stat: &Stat,
    existing: Option<&Stat>,
    first: Option<Action>,
    is_alike: impl Fn(&Stat) -> bool,
) -> Action {
    let Some(existing) = existing else {
        return match (file_type(stat), first) {
            (FileType::Directory, _) => Action::MakeDirectory,
            (_, None) => Action::Copy,
            (_, Some(_)) => Action::Link,
        };
    };
    match file_type(stat) {
        FileType::Directory if is_directory(existing) => Action::EnterDirectory,
        FileType::Directory => Action::MakeDirectory,
        FileType::RegularFile => match first {
            Some(first) if !keeps_existing_name(policy, stat, existing) => match first {
                Action::Copy | Action::Replace => Action::Link,
                _ if existing.st_nlink == 1 => Action::Link,
                first => first,
            },
            _ => match decide(policy, stat, existing, |_| Rounding::Unknown) {
                Decision::Copy => Action::Replace,
                Decision::Skip => Action::Skip,
                Decision::Compare | Decision::CompareInDoubt => Action::Compare,
            },
        },
        kind => match policy {
            Policy::Never => Action::Skip,
            Policy::Default | Policy::Update
                if file_type(existing) == kind && is_alike(existing) =>
            {
                Action::Skip
            }
            Policy::Always | Policy::Default | Policy::Update => Action::Replace,
        },
    }
}

/// The directories of the destination, one of which is open.
struct Copies<'a> {
    root: BorrowedFd<'a>,
    /// The path from the root of the open directory, and `None` if the destination lacks it.
    open: Option<(Vec<u8>, Option<OwnedFd>)>,
    /// The partial copies in the open directory, once they have been listed.
    partials: Option<Vec<LeftPartial>>,
}

impl<'a> Copies<'a> {
    fn new(root: BorrowedFd<'a>) -> Self {
        Self {
            root,
            open: None,
            partials: None,
        }
    }

    /// Opens the directory of the destination with this path. Returns `None` if it is missing.
    fn directory(&mut self, path: &[u8]) -> io::Result<Option<BorrowedFd<'_>>> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            // The descriptor may be the last one.
            self.open = None;
            self.partials = None;
            let opened = super::walk::open_beneath(self.root, Path::new(OsStr::from_bytes(path)));
            self.open = Some((path.to_vec(), unless_missing(opened)?));
        }
        let opened = self.open.as_ref().and_then(|(_, opened)| opened.as_ref());
        Ok(opened.map(AsFd::as_fd))
    }

    /// The part of a copy in the open directory that an earlier run has written.
    fn begun(&mut self, name: &CStr, stat: &Stat) -> Option<Begun> {
        let directory = self.open.as_ref()?.1.as_ref()?.as_fd();
        let partials = self.partials.get_or_insert_with(|| {
            // A directory that cannot be listed has none.
            let names = leftovers(directory).unwrap_or_default();
            LeftPartial::find(directory, names.files()).unwrap_or_default()
        });
        let mut partials = partials.iter();
        let partial = partials.find(|it| it.is_of(name))?;
        let (bytes, found) = partial.forecast(directory)?;
        Some(Begun {
            bytes: if partial.has_version(stat) { bytes } else { 0 },
            stat: found,
        })
    }
}
