//! What a run would do with each entry of the source, found out without doing it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat};

use super::policy::{Decision, Policy, Rounding, decide, keeps_existing_name};
use super::settings::Settings;
use super::stat::{Identity, file_type, identity, is_directory};
use super::walk::scan::{Failure, Found, Next, ScanOptions, scan};
use super::write::atomic_file::temp_name;

/// What a run would do with an entry.
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

/// The forecast for an entry.
#[derive(Debug)]
pub(crate) struct Forecast<'a> {
    /// The entry in the source.
    pub(crate) found: Found<'a>,
    pub(crate) stat: Stat,
    /// The file that the destination has under this name.
    pub(crate) existing: Option<Stat>,
    pub(crate) action: Action,
}

/// Calls `show` with the forecast for every entry that a run would not leave out. Without a
/// destination, none is taken to exist. Entries that cannot be examined are shown as errors.
///
/// The entries of a directory come before those of the directories in it. Nothing but directories
/// is opened.
pub(crate) fn forecast(
    source: BorrowedFd<'_>,
    destination: Option<BorrowedFd<'_>>,
    settings: &Settings,
    options: ScanOptions,
    mut show: impl FnMut(Result<Forecast<'_>, Failure>) -> Next,
) {
    let mut copies = destination.map(Copies::new);
    // Files with several names that have been shown by one of them.
    let mut shown = HashSet::<Identity>::new();
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
        let existing = copies.as_mut().and_then(|copies| {
            let directory = copies.directory(&found.directory_path())?;
            rustix::fs::statat(directory, found.name, AtFlags::SYMLINK_NOFOLLOW).ok()
        });
        let is_first = is_directory(&stat) || stat.st_nlink <= 1 || shown.insert(identity(&stat));
        let action = action(settings, &stat, existing.as_ref(), is_first);
        show(Ok(Forecast {
            found,
            stat,
            existing,
            action,
        }))
    });
}

/// What a run would do with an entry, as far as `stat(2)` tells.
fn action(settings: &Settings, stat: &Stat, existing: Option<&Stat>, is_first: bool) -> Action {
    let policy = settings.policy;
    match (file_type(stat), existing) {
        (FileType::Directory, Some(existing)) if is_directory(existing) => Action::EnterDirectory,
        (FileType::Directory, _) => Action::MakeDirectory,
        (_, None) if !is_first => Action::Link,
        (_, None) => Action::Copy,
        (FileType::RegularFile, Some(existing)) => {
            if !is_first && !keeps_existing_name(policy, stat, existing) {
                return if existing.st_nlink > 1 {
                    Action::Skip
                } else {
                    Action::Link
                };
            }
            match decide(policy, stat, existing, |_| Rounding::Unknown) {
                Decision::Copy => Action::Replace,
                Decision::Skip => Action::Skip,
                Decision::Compare | Decision::CompareInDoubt => Action::Compare,
            }
        }
        (kind, Some(existing)) => match policy {
            Policy::Never => Action::Skip,
            Policy::Default | Policy::Update if file_type(existing) == kind => Action::Compare,
            Policy::Always | Policy::Default | Policy::Update => Action::Replace,
        },
    }
}

/// The directories of the destination, one of which is open.
struct Copies<'a> {
    root: BorrowedFd<'a>,
    /// The path from the root of the open directory, and `None` if the destination lacks it.
    open: Option<(Vec<u8>, Option<OwnedFd>)>,
}

impl<'a> Copies<'a> {
    fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, open: None }
    }

    /// The directory of the destination with this path, unless there is none.
    fn directory(&mut self, path: &[u8]) -> Option<BorrowedFd<'_>> {
        if self.open.as_ref().is_none_or(|(open, _)| open != path) {
            // The descriptor may be the last one.
            self.open = None;
            let opened = super::walk::open_beneath(self.root, Path::new(OsStr::from_bytes(path)));
            self.open = Some((path.to_vec(), opened.ok()));
        }
        let (_, opened) = self.open.as_ref()?;
        opened.as_ref().map(AsFd::as_fd)
    }
}
