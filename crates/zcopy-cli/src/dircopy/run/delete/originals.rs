//! The names in one directory of the source.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::dircopy::damage_map::mapped_name;
use crate::dircopy::settings::Settings;
use crate::dircopy::stat::identity;
use crate::dircopy::walk::scan::Found;
use crate::dircopy::walk::spelling::key::fold;
use crate::dircopy::walk::spelling::{Spellings, is_same};
use crate::dircopy::walk::{listing, open_beneath};

/// The names in one directory of the source.
pub(super) struct Originals {
    directory: OwnedFd,
    /// By their folded spelling.
    names: HashMap<Vec<u8>, Vec<CString>>,
}

impl Originals {
    /// Reads a directory. `None` if the walk does not enter it, or it is no directory.
    pub(super) fn read(
        settings: &Settings,
        source: BorrowedFd<'_>,
        path: &[u8],
    ) -> io::Result<Option<Self>> {
        let path = Path::new(OsStr::from_bytes(path));
        let opened = if settings.follows_symlinks {
            open_following(source, path)
        } else {
            open_beneath(source, path)
        };
        let directory = match opened {
            Ok(directory) => directory,
            // It is a file, or a link. The copy of the directory is in its way, and stays.
            Err(error) if error.raw_os_error() == Some(Errno::NOTDIR.raw_os_error()) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if settings.one_file_system {
            let device = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).map(|stat| identity(&stat).0);
            if device(directory.as_fd())? != device(source)? {
                return Ok(None);
            }
        }
        let mut names = HashMap::<Vec<u8>, Vec<CString>>::new();
        listing::each(directory.as_fd(), |name, _| {
            let spellings = names.entry(fold(name.to_bytes())).or_default();
            spellings.push(name.to_owned());
        })?;
        Ok(Some(Self { directory, names }))
    }

    /// Whether the root of the source has no entry but excluded ones and the directory that `mkfs`
    /// makes in every new file system of some kinds.
    pub(super) fn copies_nothing(&self, settings: &Settings) -> bool {
        let names = self.names.values().flatten();
        !names.into_iter().any(|name| {
            let stat = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_directory =
                stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            let text = OsStr::from_bytes(name.to_bytes());
            let is_made_by_mkfs = is_directory && text == "lost+found";
            let is_excluded = || {
                let path = || Path::new(text);
                settings.exclude.matches(text, is_directory, path)
            };
            !is_made_by_mkfs && !is_excluded()
        })
    }

    /// Finds the entry of this name, by any spelling that the destination takes for the same, or
    /// the file that the entry is a map of.
    pub(super) fn find(&self, found: &Found<'_>) -> Result<Option<CString>, Errno> {
        let own = self.find_name(found, found.name)?;
        if own.is_some() {
            return Ok(own);
        }
        let mapped = mapped_name(found.name.to_bytes()).and_then(|name| CString::new(name).ok());
        mapped.map_or(Ok(None), |mapped| self.find_name(found, &mapped))
    }

    fn find_name(&self, found: &Found<'_>, name: &CStr) -> Result<Option<CString>, Errno> {
        // The listing may miss a name that was made meanwhile.
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Ok(Some(name.to_owned())),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let Some(spellings) = self.names.get(&fold(name.to_bytes())) else {
            return Ok(None);
        };
        let stat =
            |name: &CStr| rustix::fs::statat(found.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let own = identity(&stat(found.name)?);
        let mut alike = None;
        let mut is_same = |spelling: &CStr| {
            let Ok(other) = stat(spelling) else {
                return Ok(false);
            };
            if identity(&other) == own {
                return Ok(true);
            }
            // Some FUSE file systems give each spelling an inode number of its own.
            let alike = match &mut alike {
                Some(alike) => alike,
                none => none.insert(Spellings::list(found.directory, found.name)?),
            };
            Ok(is_same(found.directory, found.name, spelling, alike))
        };
        for spelling in spellings {
            if spelling.as_c_str() == name || is_same(spelling)? {
                return Ok(Some(spelling.clone()));
            }
        }
        Ok(None)
    }
}

/// Opens a directory of the source by a path that may lead through links.
fn open_following(source: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut directory = open_beneath(source, Path::new(""))?;
    for name in path {
        directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
    }
    Ok(directory)
}
