//! Extended attributes, and access lists, which are some of them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;

use super::access_list::AccessList;
use super::error::{Attribute, Error, Errors};
use super::{Owner, Preserve};

/// The largest value, and on most file systems the longest list: `XATTR_SIZE_MAX` and
/// `XATTR_LIST_MAX`.
const MAX_LEN: usize = 64 << 10;

/// The access list of a file.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// The default access list of a directory, which new entries inherit.
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";

/// A file whose attributes are read or changed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A file at the end of a path through `/proc`.
    Named(&'a CStr),
}

impl Target<'_> {
    fn list(&self, list: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(fd) => rustix::fs::flistxattr(fd, list),
            Self::Named(path) => rustix::fs::listxattr(*path, list),
        }
    }

    fn get(&self, name: &CStr, value: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, name, value),
            Self::Named(path) => rustix::fs::getxattr(*path, name, value),
        }
    }

    fn set(&self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            Self::Named(path) => rustix::fs::setxattr(*path, name, value, flags),
        }
    }

    fn remove(&self, name: &CStr) -> Result<(), Errno> {
        match self {
            Self::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Self::Named(path) => rustix::fs::removexattr(*path, name),
        }
    }

    /// All names, each with a zero byte behind it. `None` if the file system has no attributes.
    fn names(&self) -> Result<Option<Vec<u8>>, Errno> {
        match read_with(|list| self.list(list)) {
            Ok(names) => Ok(Some(names)),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// The name space of an attribute, which decides who may use it and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// `user.*`.
    User,
    /// `trusted.*`, which only root can use.
    Trusted,
    /// `system.posix_acl_*`.
    AccessList,
    /// `trusted.SGI_ACL_*`: a second name that XFS gives its access lists. It means nothing on
    /// other file systems.
    AccessListOfXfs,
    /// `security.capability`: the capabilities of a program.
    Capability,
    /// `security.*` and the attributes of particular file systems.
    Other,
}

impl Space {
    fn of(name: &CStr) -> Self {
        match name.to_bytes() {
            b"security.capability" => Self::Capability,
            b"trusted.SGI_ACL_FILE" | b"trusted.SGI_ACL_DEFAULT" => Self::AccessListOfXfs,
            name if name.starts_with(b"user.") => Self::User,
            name if name.starts_with(b"trusted.") => Self::Trusted,
            name if name.starts_with(b"system.posix_acl_") => Self::AccessList,
            _ => Self::Other,
        }
    }

    /// Whether a loss is no error, because the file system lacks the attribute or only root may use
    /// it.
    fn forgives(self, errno: Errno) -> bool {
        let is_lacking = errno == Errno::OPNOTSUPP;
        let is_forbidden = matches!(errno, Errno::PERM | Errno::ACCESS);
        self != Self::User && (is_lacking || is_forbidden)
    }

    /// Whether attributes that the original lacks are removed. Security labels belong to the
    /// destination.
    fn is_mirrored(self) -> bool {
        matches!(self, Self::User | Self::Trusted | Self::AccessList)
    }
}

/// Whether the source or the destination has attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    None,
    Some,
}

/// Whether the destination may have attributes before the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Present {
    /// It has no attributes that would have to be removed.
    None,
    Unknown,
}

/// Whether new entries of a directory inherit an access list. True if the attributes cannot be
/// listed.
pub(super) fn has_default_list(directory: &Target<'_>) -> bool {
    match directory.names() {
        Ok(names) => each(&names.unwrap_or_default()).any(|name| name == DEFAULT_LIST),
        Err(_) => true,
    }
}

/// The permissions that new entries of a directory get from its default access list, if it has one.
pub(super) fn default_mode(directory: &Target<'_>) -> Option<Mode> {
    let list = read_with(|value| directory.get(DEFAULT_LIST, value)).ok()?;
    AccessList::parse(&list).map(AccessList::mode)
}

/// The mode that gives owner, owning group and others the same permissions without an access list.
/// With a list, the group bits of `mode` are the list's mask.
pub(super) fn mode_without_list(file: &Target<'_>, mode: Mode) -> Mode {
    let list = read_with(|value| file.get(ACCESS_LIST, value)).ok();
    match list.and_then(|list| AccessList::parse(&list)) {
        Some(list) => (mode - (Mode::RWXU | Mode::RWXG | Mode::RWXO)) | list.mode_without_list(),
        None => mode,
    }
}

/// Copies the extended attributes that are to be preserved, and removes others in the same name
/// spaces. Returns whether the source or the destination had any.
pub(super) fn mirror(
    source: &Target<'_>,
    destination: &Target<'_>,
    present: Present,
    owner: Owner,
    preserve: Preserve,
) -> Result<Found, Error> {
    if !preserve.has_any() {
        return Ok(Found::None);
    }
    let listing = |errno| Error::new(Attribute::Xattrs, errno);
    let wanted = source.names().map_err(listing)?;
    let present = match present {
        Present::None => None,
        Present::Unknown => destination.names().map_err(listing)?,
    };
    let mut errors = Errors::default();
    let mut keep = |result: Result<(), Errno>, name: &CStr| match result {
        Err(errno) if !Space::of(name).forgives(errno) => {
            errors.add(Error::new(Attribute::Xattr(name.to_owned()), errno));
        }
        _ => {}
    };
    let present = present.unwrap_or_default();
    // A source file system without attributes is no reason to remove some, except access lists.
    let (knows_all, wanted) = (wanted.is_some(), wanted.unwrap_or_default());
    if present.is_empty() && wanted.is_empty() {
        return Ok(Found::None);
    }
    for name in each(&present) {
        let space = Space::of(name);
        let is_known = knows_all || space == Space::AccessList;
        if is_known
            && preserve.has(space)
            && space.is_mirrored()
            && !each(&wanted).any(|wanted| wanted == name)
        {
            match destination.remove(name) {
                // Another process has removed it since it was listed.
                Err(Errno::NODATA) => {}
                removed => keep(removed, name),
            }
        }
    }
    // Access lists come last: one may forbid to set the other attributes.
    let is_list = |name: &&CStr| Space::of(name) == Space::AccessList;
    let is_other = |name: &&CStr| {
        let lists = [Space::AccessList, Space::AccessListOfXfs];
        !lists.contains(&Space::of(name))
    };
    let others = each(&wanted).filter(is_other);
    let in_order = others.chain(each(&wanted).filter(is_list));
    for name in in_order.filter(|name| preserve.has(Space::of(name))) {
        if Space::of(name) == Space::Capability && owner == Owner::Lost {
            continue;
        }
        let copied = match read_with(|value| source.get(name, value)) {
            Ok(value) => destination.set(name, &value),
            // Another process has removed it since it was listed.
            Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(errno),
        };
        keep(copied, name);
    }
    errors.into_result().map(|()| Found::Some)
}

/// The names in a list.
fn each(list: &[u8]) -> impl Iterator<Item = &CStr> {
    list.split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// Calls `get` with a small buffer, and with the largest if that is too short.
fn read_with(get: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = [0; 256];
    match get(&mut buffer) {
        Ok(n) => Ok(buffer[..n].to_vec()),
        Err(Errno::RANGE) => {
            let mut buffer = vec![0; MAX_LEN];
            let n = get(&mut buffer)?;
            buffer.truncate(n);
            Ok(buffer)
        }
        Err(errno) => Err(errno),
    }
}
