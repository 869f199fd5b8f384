//! What a copy keeps of its original besides the contents: owner, extended attributes, access lists, mode and times.
//!
//! The order is the kernel's: a change of owner takes privileges away, so it comes first; who may not write to a file may
//! not give it attributes, so its mode comes after them; and each of these would touch no time but the last, which is
//! set behind all.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::st_mode::{file_type, permissions};
use error::{Attribute, First};
use xattrs::{Found, Present, Target};

pub use error::Error;
pub use named::Named;
pub(super) use named::{hold, through_proc};
pub use preserve::{Permissions, Preserve, Replaces};

mod access_list;
mod error;
mod named;
mod preserve;
mod xattrs;

/// The permissions of a file that the next file of its name is to have, which does not have its access list.
///
/// # Errors
///
/// What `open(2)` says of it.
pub(super) fn mode_to_hand_on(file: Named<'_>, stat: &Stat) -> io::Result<Mode> {
    let (_held, path) = hold(file)?;
    // The set-user-ID and set-group-ID bits are not for other contents.
    let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
    Ok(xattrs::mode_without_list(&Target::Named(&path), mode))
}

/// Gives an open file or directory what its original has, of which `stat` tells, as far as that is to be preserved.
///
/// To be called when the last byte has been written and the last name made: everything later changes the times.
///
/// What the destination has of `user.*` and `trusted.*` attributes and access lists and the original has not, such as an access list
/// inherited from a directory, is removed.
///
/// # Errors
///
/// The first attribute that could not be kept; the others are all the same. None are
/// - an owner that a process without privileges may not set. The set-user-ID and set-group-ID bits and the file's
///   capabilities are not kept then;
/// - attributes other than `user.*` that the destination's file system does not have, or that a process without privileges
///   may not read or set.
pub fn apply(
    source: impl AsFd,
    destination: impl AsFd,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let destination = (destination.as_fd(), Present::Unknown);
    apply_over(source.as_fd(), destination, stat, preserve, replaces)
}

/// The same for a file that has just been made, in a directory that [hands no access list down](hands_down).
///
/// One that the directory has got since it was asked stays.
///
/// # Errors
///
/// As [`apply`].
pub fn apply_to_new(
    source: impl AsFd,
    new: impl AsFd,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let new = (new.as_fd(), Present::None);
    apply_over(source.as_fd(), new, stat, preserve, replaces)
}

/// Gives an open file or directory the times of its original, and nothing else.
///
/// # Errors
///
/// They could not be set.
pub(super) fn apply_times(destination: impl AsFd, stat: &Stat) -> Result<(), Error> {
    rustix::fs::futimens(destination, &times(stat))
        .map_err(|errno| Error::new(Attribute::Times, errno))
}

/// Whether files that are made in this directory get an access list from it.
pub fn hands_down(directory: impl AsFd) -> bool {
    xattrs::has_default_list(&Target::Open(directory.as_fd()))
}

fn apply_over(
    source: BorrowedFd<'_>,
    (destination, present): (BorrowedFd<'_>, Present),
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let (source, target) = (Target::Open(source), Target::Open(destination));
    let mut first = First::default();
    // A new file is often what it should be: what changes nothing costs as much as what does.
    let new = rustix::fs::fstat(destination).ok();
    let is_theirs = new.is_some_and(|new| (new.st_uid, new.st_gid) == (stat.st_uid, stat.st_gid));
    let owner = if is_theirs {
        Owner::Kept
    } else if !preserve.owner {
        Owner::Lost
    } else {
        let owner = set_owner(stat, |uid, gid| rustix::fs::fchown(destination, uid, gid));
        first.unless(owner, Attribute::Owner)
    };
    let found = xattrs::mirror(&source, (&target, present), owner, preserve);
    let current = new.as_ref().map(permissions);
    let kind = file_type(stat);
    let created = preserve.mode(replaces, current.unwrap_or(Mode::empty()), kind);
    let mode = created.unwrap_or_else(|| preserve.original_mode(&source, mode(stat, owner)));
    let has_mode =
        (is_theirs || !preserve.owner) && matches!(found, Ok(Found::None)) && current == Some(mode);
    first.keep(found);
    if !has_mode {
        first.unless(rustix::fs::fchmod(destination, mode), Attribute::Mode);
    }
    if !(is_theirs && has_mode) {
        first.examine(destination, stat, owner, created.is_none().then_some(mode));
    }
    first.unless(
        rustix::fs::futimens(destination, &times(stat)),
        Attribute::Times,
    );
    first.into_result().map_err(|error| error.on(destination))
}

/// The same for a symbolic link, which is not followed, or what should not be opened: a FIFO, a socket, a device.
///
/// A link has no mode. Its extended attributes are reached through `/proc`; where there is none, it keeps none.
///
/// # Errors
///
/// As [`apply`].
pub fn apply_named(
    source: Named<'_>,
    destination: Named<'_>,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let mut first = First::default();
    let (copy, path) = hold_new(destination, stat)?;
    let owner = if preserve.owner {
        let owner = set_owner(stat, |uid, gid| {
            rustix::fs::chownat(&copy, c"", uid, gid, AtFlags::EMPTY_PATH)
        });
        first.unless(owner, Attribute::Owner)
    } else {
        Owner::Lost
    };
    let mut mode = mode(stat, owner);
    match hold(source) {
        Ok((_original, original)) => {
            let (from, to) = (Target::Named(&original), Target::Named(&path));
            mode = preserve.original_mode(&from, mode);
            let to = (&to, Present::Unknown);
            first.keep(xattrs::mirror(&from, to, owner, preserve));
        }
        Err(errno) => first.unless(Err(errno), Attribute::Xattrs),
    }
    let kind = file_type(stat);
    let dated = if kind == FileType::Symlink {
        let Named { directory, name } = destination;
        // Before Linux 5.8 a link that is held could not be dated.
        rustix::fs::utimensat(directory, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
    } else {
        // The path leads to what is held, which is no link.
        let created = preserve.mode(replaces, Mode::empty(), kind);
        let changed = rustix::fs::chmod(&path, created.unwrap_or(mode));
        first.unless(changed, Attribute::Mode);
        rustix::fs::utimensat(CWD, &path, &times(stat), AtFlags::empty())
    };
    first.unless(dated, Attribute::Times);
    first.into_result().map_err(|error| error.on(&copy))
}

/// Holds on to what has just been made like its original.
///
/// Somebody may have put something else in its place, that has other names too: nothing of that is given away.
fn hold_new(named: Named<'_>, original: &Stat) -> Result<(OwnedFd, CString), Error> {
    let failed = |errno| Error::new(Attribute::Any, errno);
    let (held, path) = hold(named).map_err(failed)?;
    let found = rustix::fs::fstat(&held).map_err(failed)?;
    if file_type(&found) != file_type(original) || found.st_nlink > 1 {
        return Err(Error::replaced());
    }
    Ok((held, path))
}

/// Whose file it has become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    /// The original's.
    Kept,
    /// In part or whole somebody else's.
    #[default]
    Lost,
}

/// Gives it user and group, or as much of that as is permitted.
fn set_owner(
    stat: &Stat,
    chown: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
) -> Result<Owner, Errno> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    match chown(Some(uid), Some(gid)) {
        Ok(()) => Ok(Owner::Kept),
        // EINVAL speaks of somebody whom this user namespace does not know.
        Err(Errno::PERM | Errno::INVAL) if !rustix::process::geteuid().is_root() => {
            // A user may give files to the groups he is in. It is no loss if not.
            let _ = chown(None, Some(gid));
            Ok(Owner::Lost)
        }
        Err(errno) => Err(errno),
    }
}

/// The permissions, without those that would give somebody else's powers away.
fn mode(stat: &Stat, owner: Owner) -> Mode {
    let mode = permissions(stat);
    match owner {
        Owner::Kept => mode,
        Owner::Lost => mode - (Mode::SUID | Mode::SGID),
    }
}

/// The times of the last access and modification.
#[allow(clippy::unnecessary_cast, reason = "not on every processor")]
fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime as i64,
            // Below 10⁹, as the next.
            tv_nsec: stat.st_atime_nsec.try_into().unwrap_or(0),
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime as i64,
            tv_nsec: stat.st_mtime_nsec.try_into().unwrap_or(0),
        },
    }
}

#[cfg(test)]
mod tests;
