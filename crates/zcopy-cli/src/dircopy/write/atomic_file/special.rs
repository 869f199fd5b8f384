//! Creates symbolic links, special files and hard links.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Mode, Stat, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use super::{Durability, Exclusivity, Replace, sync, temp_name};
use crate::dircopy::stat::file_type;
use crate::dircopy::stat::{Identity, identity};
use crate::dircopy::write::metadata::{self, Named, Preserve, Replaces};

/// The result of placing a symbolic link or special file.
#[derive(Debug)]
#[must_use = "an attribute may not have been kept"]
pub(crate) struct Placed {
    /// Whether it has all its attributes.
    pub(crate) attributes: Result<(), metadata::Error>,
    /// The guarantee that its name was free, if it must not replace a file.
    pub(crate) exclusivity: Exclusivity,
}

/// An entry of the source that is neither a regular file nor a directory: a symbolic link, a FIFO,
/// a socket, a device.
#[derive(Debug)]
pub(crate) struct SpecialFile<'a> {
    named: Named<'a>,
    stat: &'a Stat,
    /// The target of a symbolic link. Empty for all others.
    target: CString,
    preserve: Preserve,
    /// The mode of what its copy replaces.
    replaced_mode: Option<Mode>,
    keeps: Keeps,
}

/// Which attributes of a special file or symbolic link its copy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    All,
    None,
}

impl<'a> SpecialFile<'a> {
    /// Reads the target of a symbolic link. `stat` describes `named`.
    ///
    /// # Errors
    ///
    /// Those of `readlinkat(2)`.
    pub(crate) fn read(named: Named<'a>, stat: &'a Stat) -> io::Result<Self> {
        let target = match file_type(stat) {
            FileType::Symlink => rustix::fs::readlinkat(named.directory, named.name, Vec::new())?,
            _ => CString::default(),
        };
        Ok(Self {
            named,
            stat,
            target,
            preserve: Preserve::ALL,
            replaced_mode: None,
            keeps: Keeps::All,
        })
    }

    /// Sets the attributes to preserve. `replaced_mode` is the mode of the file that the copy
    /// replaces, if it has the same type.
    #[must_use]
    pub(crate) fn preserve(mut self, preserve: Preserve, replaced_mode: Option<Mode>) -> Self {
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

    /// Preserves no attributes.
    #[must_use]
    pub(crate) fn without_attributes(mut self) -> Self {
        self.keeps = Keeps::None;
        self
    }
}

/// Copies an entry that is neither a regular file nor a directory, with its attributes.
///
/// The copy is created under a temporary name, and gets its own name after its attributes.
///
/// # Errors
///
/// Those of [`AtomicFile::commit`](super::AtomicFile::commit), `symlinkat(2)` and `mknodat(2)`:
/// `EPERM` for a device, if the user is not root.
pub(crate) fn place_other(
    source: &SpecialFile<'_>,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
) -> io::Result<Placed> {
    let SpecialFile {
        stat,
        target,
        keeps,
        ..
    } = source;
    let Named { directory, name } = destination;
    let kind = file_type(stat);
    let device = match kind {
        FileType::CharacterDevice | FileType::BlockDevice => stat.st_rdev,
        _ => 0,
    };
    let (attributes, exclusivity) = temp_name::put(directory, name, replace, |temp_name| {
        if kind == FileType::Symlink {
            rustix::fs::symlinkat(&**target, directory, temp_name)?;
        } else {
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(directory, temp_name, kind, mode, device)?;
        }
        let copy = Named {
            directory,
            name: temp_name,
        };
        let replaces = source.replaces(directory);
        Ok(match keeps {
            Keeps::All => {
                metadata::apply_named(source.named, copy, stat, source.preserve, replaces)
            }
            Keeps::None => Ok(()),
        })
    })?;
    sync(directory, durability)?;
    Ok(Placed {
        attributes,
        exclusivity,
    })
}

/// Whether setting the times of a symbolic link in this directory would change the link's target
/// instead.
///
/// A dangling link is created to find out: the call fails if it follows the link.
pub(crate) fn follows_links(directory: BorrowedFd<'_>) -> bool {
    let link =
        |name: &CStr| rustix::fs::symlinkat(temp_name::random(temp_name::PREFIX), directory, name);
    let Ok(((), name)) = temp_name::make(link) else {
        return false;
    };
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let dated = rustix::fs::utimensat(directory, &name, &times, flags);
    let found = rustix::fs::statat(directory, &name, flags);
    temp_name::remove(directory, &name);
    // If another run has removed the link, the error means nothing.
    found.is_ok() && matches!(dated, Err(Errno::NOENT | Errno::LOOP))
}

/// Makes a hard link. A symbolic link is not followed, but gets another name itself.
///
/// # Errors
///
/// Those of [`AtomicFile::commit`](super::AtomicFile::commit) and `linkat(2)`: `EMLINK`, if the
/// file has the most links possible; `EXDEV` or `EPERM`, if the file system has no hard links.
pub(crate) fn place_link(
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
            temp_name::put(directory, name, replace, link)?;
        }
        linked => linked?,
    }
    Ok(sync(directory, durability)?)
}

/// A file that gets another name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkSource<'a> {
    /// One of its names.
    pub(crate) named: Named<'a>,
    /// The identity that the new name must have too.
    pub(crate) identity: Identity,
}

/// The result of a hard link.
#[derive(Debug)]
pub(crate) enum Linked {
    /// The file has the name.
    Made,
    /// The file cannot have another name, because of this error. Nothing has changed.
    Unable(io::Error),
    /// The link could be made, but not be proven to be the same file. Nothing has changed.
    Unproven,
}

impl Linked {
    /// Tells errors that mean that the file cannot have another name from others.
    ///
    /// # Errors
    ///
    /// All other errors.
    pub(crate) fn from_result(result: io::Result<()>) -> io::Result<Self> {
        match result {
            Ok(()) => Ok(Self::Made),
            Err(error) if Errno::from_io_error(&error).is_some_and(temp_name::lacks_links) => {
                Ok(Self::Unable(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// The same as [`place_link`], but the link is made under a temporary name first, and gets its own
/// name only if it is proven to be that file.
///
/// `announce` is called after the proof, before a file is replaced. If it fails, nothing is
/// replaced.
///
/// # Errors
///
/// Those of [`place_link`] that are not [`Linked::Unable`], and the error of `announce`.
///
/// # Kernel notes
///
/// sshfs and other drivers that identify files by path give each name of a file an inode number of
/// its own, and a link count of 1. Such names cannot be told from names of different files.
pub(crate) fn place_proven_link(
    existing: LinkSource<'_>,
    destination: Named<'_>,
    replace: Replace,
    durability: Durability,
    announce: impl Fn() -> io::Result<()>,
) -> io::Result<Linked> {
    let LinkSource {
        named,
        identity: file,
    } = existing;
    let Named { directory, name } = destination;
    let flags = AtFlags::empty();
    let link =
        |name: &CStr| rustix::fs::linkat(named.directory, named.name, directory, name, flags);
    let mut retries = 1..temp_name::N_TRIES;
    let mut may_retry = move |errno| errno == Errno::NOENT && retries.next().is_some();
    loop {
        let temp_name = match temp_name::make(link) {
            Ok(((), temp_name)) => temp_name,
            Err(errno) => return Linked::from_result(Err(errno.into())),
        };
        let found = rustix::fs::statat(directory, &temp_name, AtFlags::SYMLINK_NOFOLLOW);
        let placed = match found {
            Ok(found) if identity(&found) == file && found.st_nlink > 1 => {
                if let Err(error) = announce() {
                    temp_name::remove(directory, &temp_name);
                    return Err(error);
                }
                temp_name::rename(directory, &temp_name, name, replace)
            }
            Ok(_) => {
                temp_name::remove(directory, &temp_name);
                return Ok(Linked::Unproven);
            }
            Err(errno) => Err(errno),
        };
        // rename(2) leaves both names if they are links to one file: the temporary name stays.
        temp_name::remove(directory, &temp_name);
        match placed {
            Ok(_) => break,
            // Another run has removed the temporary name.
            Err(errno) if may_retry(errno) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    sync(directory, durability)?;
    Ok(Linked::Made)
}
