//! What a copy keeps of its original besides the contents: owner, extended attributes, access lists, mode and times.
//!
//! The order is the kernel's: a change of owner takes privileges away, so it comes first; who may not write to a file may
//! not give it attributes, so its mode comes after them; and each of these would touch no time but the last, which is
//! set behind all.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use xattrs::{Found, Target};

mod xattrs;

/// Something that is named in an open directory.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The directory.
    pub directory: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a CStr,
}

/// An attribute that could not be kept. Of several it is the first.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep {attribute}")]
pub struct Error {
    attribute: Attribute,
    #[source]
    cause: io::Error,
}

impl Error {
    fn new(attribute: Attribute, errno: Errno) -> Self {
        let cause = errno.into();
        Self { attribute, cause }
    }

    /// Which it was.
    #[must_use]
    pub fn attribute(&self) -> &Attribute {
        &self.attribute
    }

    /// What the kernel said.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }
}

/// What can fail to be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Attribute {
    /// User and group.
    #[error("the owner")]
    Owner,
    /// Permissions.
    #[error("the mode")]
    Mode,
    /// The list of extended attributes.
    #[error("the extended attributes")]
    Xattrs,
    /// One extended attribute, or an access list.
    #[error("the extended attribute {}", .0.to_string_lossy())]
    Xattr(CString),
    /// Those of the last access and modification.
    #[error("the times")]
    Times,
}

/// Gives an open file or directory what its original has, of which `stat` tells.
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
pub fn apply(source: impl AsFd, destination: impl AsFd, stat: &Stat) -> Result<(), Error> {
    let destination = destination.as_fd();
    let (source, target) = (Target::Open(source.as_fd()), Target::Open(destination));
    let mut first = First::default();
    // A new file is often what it should be: what changes nothing costs as much as what does.
    let new = rustix::fs::fstat(destination).ok();
    let is_theirs = new.is_some_and(|new| (new.st_uid, new.st_gid) == (stat.st_uid, stat.st_gid));
    let owner = if is_theirs {
        Owner::Kept
    } else {
        let owner = set_owner(stat, |uid, gid| rustix::fs::fchown(destination, uid, gid));
        first.unless(owner, Attribute::Owner)
    };
    let found = xattrs::mirror(&source, &target, owner);
    let mode = mode(stat, owner);
    let has_mode = is_theirs
        && matches!(found, Ok(Found::None))
        && new.is_some_and(|new| Mode::from_raw_mode(new.st_mode & 0o7777) == mode);
    first.keep(found);
    if !has_mode {
        first.unless(rustix::fs::fchmod(destination, mode), Attribute::Mode);
    }
    first.unless(
        rustix::fs::futimens(destination, &times(stat)),
        Attribute::Times,
    );
    first.into_result()
}

/// The same for a symbolic link, which is not followed, or what should not be opened: a FIFO, a socket, a device.
///
/// A link has no mode. Its extended attributes are reached through `/proc`; where there is none, it keeps none.
///
/// # Errors
///
/// As [`apply`].
pub fn apply_named(source: Named<'_>, destination: Named<'_>, stat: &Stat) -> Result<(), Error> {
    let mut first = First::default();
    let Named { directory, name } = destination;
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    let owner = set_owner(stat, |uid, gid| {
        rustix::fs::chownat(directory, name, uid, gid, nofollow)
    });
    let owner = first.unless(owner, Attribute::Owner);
    let opened = (hold(source), hold(destination));
    match &opened {
        (Ok((_original, original)), Ok((_copy, copy))) => {
            let (from, to) = (Target::Named(original), Target::Named(copy));
            first.keep(xattrs::mirror(&from, &to, owner));
        }
        (Err(errno), _) | (_, Err(errno)) => first.unless(Err(*errno), Attribute::Xattrs),
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        let changed = opened.1.and_then(|(_copy, path)| {
            // The name leads to what is held, which is no link.
            rustix::fs::chmod(path, mode(stat, owner))
        });
        first.unless(changed, Attribute::Mode);
    }
    let dated = rustix::fs::utimensat(directory, name, &times(stat), nofollow);
    first.unless(dated, Attribute::Times);
    first.into_result()
}

/// Holds on to what bears a name, and says where it can be reached as long as it is held.
pub(super) fn hold(named: Named<'_>) -> Result<(OwnedFd, CString), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat(named.directory, named.name, flags, Mode::empty())?;
    let path = through_proc(held.as_fd());
    Ok((held, path))
}

/// A path to what is open.
pub(super) fn through_proc(fd: BorrowedFd<'_>) -> CString {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    // A number holds no zero byte.
    CString::new(path).unwrap_or_default()
}

/// The first of the errors.
#[derive(Default)]
struct First(Option<Error>);

impl First {
    fn keep<T>(&mut self, result: Result<T, Error>) {
        if let Err(error) = result {
            self.0.get_or_insert(error);
        }
    }

    fn unless<T: Default>(&mut self, result: Result<T, Errno>, attribute: Attribute) -> T {
        result.unwrap_or_else(|cause| {
            self.0.get_or_insert(Error::new(attribute, cause));
            T::default()
        })
    }

    fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
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
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
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
