//! What is not a regular file: symbolic links, special files, and further names of what has one.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::{Durability, Replace, hidden, sync};
use crate::dircopy::attributes::{self, Named, Preserve, Replaces};

/// Something that has got its name.
#[derive(Debug)]
#[must_use = "an attribute may not have been kept"]
pub struct Placed {
    /// Whether it has all its attributes.
    pub attributes: Result<(), attributes::Error>,
}

/// An entry of the source that is neither a regular file nor a directory: a symbolic link, a FIFO, a socket, a device.
#[derive(Debug)]
pub struct SpecialFile<'a> {
    named: Named<'a>,
    stat: &'a Stat,
    /// The target of a symbolic link. Empty for all others.
    target: CString,
    preserve: Preserve,
    /// The mode of what its copy replaces.
    replaced_mode: Option<Mode>,
}

impl<'a> SpecialFile<'a> {
    /// Reads the target of a symbolic link. `stat` describes `named`.
    ///
    /// # Errors
    ///
    /// What `readlinkat(2)` says of a symbolic link.
    pub fn read(named: Named<'a>, stat: &'a Stat) -> io::Result<Self> {
        let target = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => rustix::fs::readlinkat(named.directory, named.name, Vec::new())?,
            _ => CString::default(),
        };
        Ok(Self {
            named,
            stat,
            target,
            preserve: Preserve::ALL,
            replaced_mode: None,
        })
    }

    /// Which attributes its copy has of it, and the mode of what the copy replaces, if that is of the same kind.
    #[must_use]
    pub fn preserve(mut self, preserve: Preserve, replaced_mode: Option<Mode>) -> Self {
        self.preserve = preserve;
        self.replaced_mode = replaced_mode;
        self
    }

    fn replaces<'b>(&self, directory: BorrowedFd<'b>) -> Replaces<'b> {
        match self.replaced_mode {
            Some(mode) => Replaces::Mode(mode),
            None => Replaces::Nothing { directory },
        }
    }
}

/// Copies an entry that is neither a regular file nor a directory, with its attributes.
///
/// The copy is made under a hidden name, and gets its own name when it has its attributes.
///
/// # Errors
///
/// As of [`Place::commit`](super::Place::commit), and what `symlinkat(2)` and `mknodat(2)` say: `EPERM` for a
/// device, as a rule, if the user is not root.
pub fn place_other(
    source: &SpecialFile<'_>,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
) -> io::Result<Placed> {
    let SpecialFile { stat, target, .. } = source;
    let Named { directory, name } = destination;
    let kind = FileType::from_raw_mode(stat.st_mode);
    let device = match kind {
        FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
        _ => 0,
    };
    let attributes = hidden::put(directory, name, replace, |hidden| {
        if kind == FileType::Symlink {
            rustix::fs::symlinkat(&**target, directory, hidden)?;
        } else {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(directory, hidden, kind, mode, device)?;
        }
        let copy = Named {
            directory,
            name: hidden,
        };
        let replaces = source.replaces(directory);
        let applied = attributes::apply_named(source.named, copy, stat, source.preserve, replaces);
        Ok(applied)
    })?;
    sync(directory, durability)?;
    Ok(Placed { attributes })
}

/// Gives another name to something that has one: a hard link. A symbolic link gets one itself.
///
/// # Errors
///
/// As of [`Place::commit`](super::Place::commit), and what `linkat(2)` says: `EMLINK`, if it has too many; `EXDEV`,
/// `EPERM`, where there are no hard links.
pub fn place_link(
    existing: Named<'_>,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
) -> io::Result<()> {
    let Named { directory, name } = destination;
    let link = |name: &CStr| {
        let flags = AtFlags::empty();
        rustix::fs::linkat(existing.directory, existing.name, directory, name, flags)
    };
    match link(name) {
        Err(Errno::EXIST) if replace == Replace::Yes => {
            hidden::put(directory, name, replace, link)?;
        }
        linked => linked?,
    }
    Ok(sync(directory, durability)?)
}
