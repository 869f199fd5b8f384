//! What is not a regular file: symbolic links, special files, and further names of what has one.

use std::ffi::CStr;
use std::io;

use rustix::fs::{AtFlags, FileType, Mode, Stat};
use rustix::io::Errno;

use super::{Durability, Replace, hidden, sync};
use crate::dircopy::attributes::{self, Named};

/// Something that has got its name.
#[derive(Debug)]
#[must_use = "an attribute may not have been kept"]
pub struct Placed {
    /// Whether it has all its attributes.
    pub attributes: Result<(), attributes::Error>,
}

/// Copies a symbolic link, with its attributes.
///
/// # Errors
///
/// As of [`Place::commit`](super::Place::commit), and what `readlinkat(2)` and `symlinkat(2)` say.
pub fn place_symlink(
    source: Named<'_>,
    stat: &Stat,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
) -> io::Result<Placed> {
    let target = rustix::fs::readlinkat(source.directory, source.name, Vec::new())?;
    let directory = destination.directory;
    place(source, stat, destination, (replace, durability), |name| {
        rustix::fs::symlinkat(target.as_c_str(), directory, name)
    })
}

/// Makes a FIFO, a socket or a device like that of the source, with its attributes.
///
/// # Errors
///
/// As of [`Place::commit`](super::Place::commit), and what `mknodat(2)` says: `EPERM`, as a rule, to whoever is not root and
/// wants a device.
pub fn place_special(
    source: Named<'_>,
    stat: &Stat,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
) -> io::Result<Placed> {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let device = match kind {
        FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
        _ => 0,
    };
    let mode = Mode::RUSR | Mode::WUSR;
    let directory = destination.directory;
    place(source, stat, destination, (replace, durability), |name| {
        rustix::fs::mknodat(directory, name, kind, mode, device)
    })
}

/// Makes it under a hidden name, gives it its attributes, and then its name.
fn place(
    source: Named<'_>,
    stat: &Stat,
    destination: Named<'_>,
    (replace, durability): (Replace, Durability),
    make: impl Fn(&CStr) -> Result<(), Errno>,
) -> io::Result<Placed> {
    let Named { directory, name } = destination;
    let attributes = hidden::put(directory, name, replace, |hidden| {
        make(hidden)?;
        let copy = Named {
            directory,
            name: hidden,
        };
        Ok(attributes::apply_named(source, copy, stat))
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
