//! Extended attributes, and access lists, which are some of them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{Mode, XattrFlags};
use rustix::io::Errno;

use super::access_list::AccessList;
use super::error::{Attribute, Error, First};
use super::{Owner, Preserve};

/// The most that the kernel gives of a value, and as a rule of a list: `XATTR_SIZE_MAX` and `XATTR_LIST_MAX`.
const MOST: usize = 64 << 10;

/// What others than owner, group and all may do with a file.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// What is made in a directory that has this list gets one from it.
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";

/// What has attributes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    /// A file that is open, or a directory.
    Open(BorrowedFd<'a>),
    /// What a path through `/proc` leads to.
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

    /// All names, each with a zero byte behind it. None where attributes are unknown.
    fn names(&self) -> Result<Option<Vec<u8>>, Errno> {
        match grown(|list| self.list(list)) {
            Ok(names) => Ok(Some(names)),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

/// Who may use attributes of a name, and what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// `user.*`: people's own.
    User,
    /// `trusted.*`: root's own.
    Trusted,
    /// `system.posix_acl_*`.
    AccessList,
    /// `trusted.SGI_ACL_*`: what xfs calls its access lists besides. Elsewhere, and with the list gone, they would mean nothing.
    AccessListOfXfs,
    /// `security.capability`: what a program may do, whoever runs it.
    Capability,
    /// `security.*` and what a file system has to itself.
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

    /// Whether it is to be expected that it cannot be had, because the file system lacks it or only root may.
    fn forgives(self, errno: Errno) -> bool {
        let is_lacking = errno == Errno::OPNOTSUPP;
        let is_forbidden = matches!(errno, Errno::PERM | Errno::ACCESS);
        self != Self::User && (is_lacking || is_forbidden)
    }

    /// Whether what the original lacks is to be removed. Labels and the like are the destination's own.
    fn is_mirrored(self) -> bool {
        matches!(self, Self::User | Self::Trusted | Self::AccessList)
    }
}

/// Whether there were attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    None,
    Some,
}

/// What is known of the attributes that a destination has before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Present {
    /// None that would have to go.
    None,
    Unknown,
}

/// Whether what is made in a directory gets an access list from it, as far as can be told.
pub(super) fn has_default_list(directory: &Target<'_>) -> bool {
    match directory.names() {
        Ok(names) => each(&names.unwrap_or_default()).any(|name| name == DEFAULT_LIST),
        Err(_) => true,
    }
}

/// The permissions that the default access list of a directory leaves to what is made there, if it has one.
pub(super) fn default_mode(directory: &Target<'_>) -> Option<Mode> {
    let list = grown(|value| directory.get(DEFAULT_LIST, value)).ok()?;
    AccessList::parse(&list).map(AccessList::mode)
}

/// The permissions that a file with this mode leaves to its owner, its group and others. The group bits of a file with an access list stand
/// for all whom that names.
pub(super) fn mode_without_list(file: &Target<'_>, mode: Mode) -> Mode {
    let list = grown(|value| file.get(ACCESS_LIST, value)).ok();
    match list.and_then(|list| AccessList::parse(&list)) {
        Some(list) => (mode - (Mode::RWXU | Mode::RWXG | Mode::RWXO)) | list.mode_without_list(),
        None => mode,
    }
}

/// Copies those extended attributes of the source that are preserved, and removes others of their kind. Tells whether there were any, on either
/// side.
pub(super) fn mirror(
    source: &Target<'_>,
    (destination, present): (&Target<'_>, Present),
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
    let mut first = First::default();
    let mut keep = |result: Result<(), Errno>, name: &CStr| match result {
        Err(errno) if !Space::of(name).forgives(errno) => {
            first.add(Error::new(Attribute::Xattr(name.to_owned()), errno));
        }
        _ => {}
    };
    let present = present.unwrap_or_default();
    // A file system without attributes says nothing about them, but files there have no access lists.
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
                // It has gone since it was listed.
                Err(Errno::NODATA) => {}
                removed => keep(removed, name),
            }
        }
    }
    // An access list may take the right away to set the others.
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
        let copied = match grown(|value| source.get(name, value)) {
            Ok(value) => destination.set(name, &value),
            // It has gone since it was listed.
            Err(Errno::NODATA) => Ok(()),
            Err(errno) => Err(errno),
        };
        keep(copied, name);
    }
    first.into_result().map(|()| Found::Some)
}

/// The names in a list.
fn each(list: &[u8]) -> impl Iterator<Item = &CStr> {
    list.split_inclusive(|byte| *byte == 0)
        .filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

/// What a call gives, asked for with little room first.
fn grown(get: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut little = [0; 256];
    match get(&mut little) {
        Ok(n) => Ok(little[..n].to_vec()),
        Err(Errno::RANGE) => {
            let mut most = vec![0; MOST];
            let n = get(&mut most)?;
            most.truncate(n);
            Ok(most)
        }
        Err(errno) => Err(errno),
    }
}
