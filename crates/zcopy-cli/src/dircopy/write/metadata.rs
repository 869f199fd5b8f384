//! Copies owner, extended attributes, access lists, mode and times from an original to its copy.
//!
//! The kernel dictates the order. `chown(2)` clears privileges, so the owner comes first. A mode
//! without write permission forbids `setxattr(2)`, so the mode comes after the attributes. The
//! times come last.
//!
//! - `named`: a file that is reached by a name in an open directory.
//! - `preserve`: the attributes to keep, and the mode where it is not kept.
//! - `xattrs`: extended attributes.
//! - `access_list`: access lists, which are extended attributes (pure).
//! - `error`: attributes that could not be kept.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::dircopy::stat::{file_type, permissions};
use error::{Attribute, Errors};
use xattrs::{Found, Present, Target};

pub(crate) use error::Error;
pub(crate) use named::Named;
pub(crate) use named::{hold, through_proc};
pub(crate) use preserve::{Permissions, Preserve, Replaces};

mod access_list;
mod error;
mod named;
mod preserve;
mod xattrs;

/// The permissions that a file passes on to the file that replaces it. The new file does not get
/// the access list.
///
/// # Errors
///
/// Those of `open(2)`.
pub(crate) fn mode_to_hand_on(file: Named<'_>, stat: &Stat) -> io::Result<Mode> {
    let (_held, path) = hold(file)?;
    // Other contents must not inherit the set-user-ID and set-group-ID bits.
    let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
    Ok(xattrs::mode_without_list(&Target::Named(&path), mode))
}

/// Gives an open file or directory the attributes of its original that are to be preserved. `stat`
/// describes the original.
///
/// Call this after the last write and the last new name: both change the times.
///
/// Removes access lists and `user.*` and `trusted.*` attributes that the original lacks, such as an
/// access list inherited from a directory.
///
/// # Errors
///
/// The first attribute that could not be kept. The others are kept as far as possible. Two losses
/// are no error:
/// - the owner, if the process lacks the privilege to set it. The set-user-ID and set-group-ID bits
///   and the file's capabilities are then lost too;
/// - attributes other than `user.*` that the file system of the destination lacks, or that a
///   process without privileges may not read or set.
pub(crate) fn apply(
    source: impl AsFd,
    destination: impl AsFd,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let source = source.as_fd();
    apply_over(
        Original { source, stat },
        destination.as_fd(),
        Present::Unknown,
        preserve,
        replaces,
    )
}

/// The same for a new file in a directory that [hands no access list down](hands_down).
///
/// If the directory has got a default access list in the meantime, the file keeps the list that it
/// inherited.
///
/// # Errors
///
/// As [`apply`].
pub(crate) fn apply_to_new(
    source: impl AsFd,
    new: impl AsFd,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let source = source.as_fd();
    let original = Original { source, stat };
    apply_over(original, new.as_fd(), Present::None, preserve, replaces)
}

/// Gives an open file or directory the times of its original, and nothing else.
///
/// # Errors
///
/// The times could not be set.
pub(crate) fn apply_times(destination: impl AsFd, stat: &Stat) -> Result<(), Error> {
    rustix::fs::futimens(destination, &times(stat))
        .map_err(|errno| Error::new(Attribute::Times, errno))
}

/// Whether new files in this directory inherit an access list.
pub(crate) fn hands_down(directory: impl AsFd) -> bool {
    xattrs::has_default_list(&Target::Open(directory.as_fd()))
}

/// An open file or directory of the source.
#[derive(Clone, Copy)]
struct Original<'a> {
    source: BorrowedFd<'a>,
    stat: &'a Stat,
}

fn apply_over(
    Original { source, stat }: Original<'_>,
    destination: BorrowedFd<'_>,
    present: Present,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let (source, target) = (Target::Open(source), Target::Open(destination));
    let mut errors = Errors::default();
    // A new file often has the right owner and mode already, and a call that changes nothing costs
    // as much as others.
    let new = rustix::fs::fstat(destination).ok();
    let is_theirs = new.is_some_and(|new| (new.st_uid, new.st_gid) == (stat.st_uid, stat.st_gid));
    let owner = if is_theirs {
        Owner::Kept
    } else if !preserve.owner {
        Owner::Lost
    } else {
        let owner = set_owner(stat, |uid, gid| rustix::fs::fchown(destination, uid, gid));
        errors.ok_or_record(owner, Attribute::Owner)
    };
    let found = xattrs::mirror(&source, &target, present, owner, preserve);
    let current = new.as_ref().map(permissions);
    let kind = file_type(stat);
    let created = preserve.mode(replaces, current.unwrap_or(Mode::empty()), kind);
    let mode = created.unwrap_or_else(|| preserve.original_mode(&source, mode(stat, owner)));
    let has_mode =
        (is_theirs || !preserve.owner) && matches!(found, Ok(Found::None)) && current == Some(mode);
    errors.record(found);
    let changed = if has_mode {
        Ok(())
    } else {
        rustix::fs::fchmod(destination, mode)
    };
    // A mode that was refused is not lost again.
    let set = (created.is_none() && changed.is_ok()).then_some(mode);
    let is_imposed = created.is_some() && imposes(new.as_ref(), mode, replaces);
    errors.ok_or_record(without_refusal(changed, is_imposed), Attribute::Mode);
    if !(is_theirs && has_mode) {
        errors.add_ignored(destination, stat, owner, set);
    }
    errors.ok_or_record(
        rustix::fs::futimens(destination, &times(stat)),
        Attribute::Times,
    );
    errors.into_result().map_err(|error| error.on(destination))
}

/// The same for a symbolic link, which is not followed, and for a FIFO, a socket or a device, which
/// must not be opened.
///
/// A link has no mode. Its extended attributes are reached through `/proc`; without `/proc` they
/// are lost.
///
/// # Errors
///
/// As [`apply`].
pub(crate) fn apply_named(
    source: Named<'_>,
    destination: Named<'_>,
    stat: &Stat,
    preserve: Preserve,
    replaces: Replaces<'_>,
) -> Result<(), Error> {
    let mut errors = Errors::default();
    let (copy, path) = hold_new(destination, stat)?;
    let owner = if preserve.owner {
        let owner = set_owner(stat, |uid, gid| {
            rustix::fs::chownat(&copy, c"", uid, gid, AtFlags::EMPTY_PATH)
        });
        errors.ok_or_record(owner, Attribute::Owner)
    } else {
        Owner::Lost
    };
    let mut mode = mode(stat, owner);
    match hold(source) {
        Ok((_original, original)) => {
            let (from, to) = (Target::Named(&original), Target::Named(&path));
            mode = preserve.original_mode(&from, mode);
            let mirrored = xattrs::mirror(&from, &to, Present::Unknown, owner, preserve);
            errors.record(mirrored);
        }
        Err(errno) => errors.ok_or_record(Err(errno), Attribute::Xattrs),
    }
    let kind = file_type(stat);
    let dated = if kind == FileType::Symlink {
        let Named { directory, name } = destination;
        // Before Linux 5.8 `utimensat(2)` took no `O_PATH` descriptor of a link.
        rustix::fs::utimensat(directory, name, &times(stat), AtFlags::SYMLINK_NOFOLLOW)
    } else {
        // The path leads to the open file, which is no link.
        let created = preserve.mode(replaces, Mode::empty(), kind);
        let wanted = created.unwrap_or(mode);
        let new = rustix::fs::fstat(&copy).ok();
        let is_imposed = created.is_some() && imposes(new.as_ref(), wanted, replaces);
        let changed = without_refusal(rustix::fs::chmod(&path, wanted), is_imposed);
        errors.ok_or_record(changed, Attribute::Mode);
        rustix::fs::utimensat(CWD, &path, &times(stat), AtFlags::empty())
    };
    errors.ok_or_record(dated, Attribute::Times);
    errors.into_result().map_err(|error| error.on(&copy))
}

/// Opens a file that has just been made as a copy of `original`.
///
/// Another process may have put a file with other names in its place. Such a file must not get
/// another owner or mode.
fn hold_new(named: Named<'_>, original: &Stat) -> Result<(OwnedFd, CString), Error> {
    let failed = |errno| Error::new(Attribute::Any, errno);
    let (held, path) = hold(named).map_err(failed)?;
    let found = rustix::fs::fstat(&held).map_err(failed)?;
    if file_type(&found) != file_type(original) || found.st_nlink > 1 {
        return Err(Error::replaced());
    }
    Ok((held, path))
}

/// Whether the copy has the owner of its original.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    /// It has the same user and group.
    Kept,
    /// The user or the group differs.
    #[default]
    Lost,
}

/// Sets user and group, or the group alone if only that is permitted.
fn set_owner(
    stat: &Stat,
    chown: impl Fn(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
) -> Result<Owner, Errno> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    match chown(Some(uid), Some(gid)) {
        Ok(()) => Ok(Owner::Kept),
        // EINVAL: this user namespace does not map the user or the group.
        Err(Errno::PERM | Errno::INVAL) if !rustix::process::geteuid().is_root() => {
            // A user may give files to groups that he belongs to.
            let _ = chown(None, Some(gid));
            Ok(Owner::Lost)
        }
        Err(errno) => Err(errno),
    }
}

/// The permissions, without the set-user-ID and set-group-ID bits if those would stand for another
/// owner.
fn mode(stat: &Stat, owner: Owner) -> Mode {
    let mode = permissions(stat);
    match owner {
        Owner::Kept => mode,
        Owner::Lost => mode - (Mode::SUID | Mode::SGID),
    }
}

/// Whether the file system may have given a new file this mode, which grants all that is wanted: it
/// was mounted with one mode for all files.
fn imposes(new: Option<&Stat>, wanted: Mode, replaces: Replaces<'_>) -> bool {
    let grants_all = new.is_some_and(|new| permissions(new).contains(wanted));
    grants_all && matches!(replaces, Replaces::Nothing { .. })
}

/// Leaves out the refusal of `chmod(2)` by a file system that imposes its mode.
fn without_refusal(changed: Result<(), Errno>, is_imposed: bool) -> Result<(), Errno> {
    match changed {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) if is_imposed => Ok(()),
        changed => changed,
    }
}

/// The times of the last access and modification.
#[allow(clippy::unnecessary_cast, reason = "not on every processor")]
fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime as i64,
            // Both are below 10⁹.
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
