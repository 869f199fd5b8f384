//! The file that holds a map: names, reads, writes and removes it.

use std::ffi::{CStr, CString};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::DamageMap;
use super::map_text::{EmptyFile, MapText};
use crate::dircopy::stat::open_regular;
use crate::dircopy::stat::size;
use crate::dircopy::write::atomic_file::{AtomicFile, Durability, Replace};

/// The suffix of the names of maps.
const SUFFIX: &[u8] = b".damaged";

/// The name of the map of a file.
pub(crate) fn map_name(name: &CStr) -> CString {
    // Neither has a zero byte.
    CString::new(map_path(name.to_bytes())).unwrap_or_default()
}

/// The path of the map of a file.
pub(crate) fn map_path(path: &[u8]) -> Vec<u8> {
    [path, SUFFIX].concat()
}

/// The name of the file that a map of this name belongs to. `None` if it is not the name of a map.
pub(crate) fn mapped_name(map: &[u8]) -> Option<&[u8]> {
    map.strip_suffix(SUFFIX).filter(|name| !name.is_empty())
}

/// The file that a map describes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    /// Its path from the root.
    pub(crate) path: &'a Path,
    pub(crate) size: u64,
}

impl DamageMap {
    /// Reads the map of the file `name`. `None` if it has no map. If the map was cut or is for
    /// another size, the whole file counts as damaged.
    ///
    /// # Errors
    ///
    /// The map cannot be read.
    pub(crate) fn of_file(
        directory: BorrowedFd<'_>,
        name: &CStr,
        empty: EmptyFile,
    ) -> io::Result<Option<Self>> {
        let text = MapText::read(directory, &map_name(name))?;
        let mapped = match rustix::fs::statat(directory, name, AtFlags::empty()) {
            Ok(stat) => Some(size(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(text.of_mapped(mapped, empty))
    }

    /// Writes the map of the file `name`, completely or not at all. It is on the disk when the call
    /// returns. [`Replace::Yes`] replaces another map, and nothing else.
    ///
    /// # Errors
    ///
    /// The map cannot be written; `EEXIST` if something else has its name.
    pub(crate) fn write(
        &self,
        directory: &Arc<OwnedFd>,
        name: &CStr,
        described: Described<'_>,
        replace: Replace,
    ) -> io::Result<()> {
        let map = map_name(name);
        let mut new_file =
            AtomicFile::with_mode(Arc::clone(directory), Mode::from_raw_mode(0o666))?;
        let mut file = new_file.file();
        file.write_all(self.text(described.path, described.size).as_bytes())?;
        new_file.settle()?;
        // The `Exclusivity` is dropped: the run reports it for other files of the same directory.
        let committed = match new_file.try_commit(&map, Replace::No, Durability::Synced) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && replace == Replace::Yes =>
            {
                if MapText::read(directory.as_fd(), &map)? == MapText::Other {
                    return Err(error);
                }
                new_file.try_commit(&map, Replace::Yes, Durability::Synced)
            }
            committed => committed,
        };
        committed.map(|_| ())
    }
}

impl MapText {
    /// Reads a file that has the name of a map. Only a regular file is a map.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn read(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        match open_regular(directory, name) {
            Ok((file, _)) => Self::from_file(file),
            Err(error) if is_no_file(&error) => Ok(Self::Other),
            Err(error) => Err(error),
        }
    }
}

/// Removes the map of a file that is whole now.
///
/// # Errors
///
/// The errors of `unlink(2)` and `fsync(2)`, except `ENOENT`.
pub(crate) fn remove_map(
    directory: BorrowedFd<'_>,
    name: &CStr,
    durability: Durability,
) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, map_name(name), AtFlags::empty()) {
        Ok(()) if durability == Durability::Synced => Ok(rustix::fs::fsync(directory)?),
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether opening failed because there is no regular file of this name.
fn is_no_file(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_other = matches!(
        errno,
        Some(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::NAMETOOLONG)
    );
    is_other || error.kind() == io::ErrorKind::InvalidInput
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dircopy::damage_map::tests::map;
    use crate::dircopy::test_support::{open, scratch};

    #[test]
    fn only_a_map_is_replaced_by_a_map() {
        let scratch = scratch();
        let directory = Arc::new(open(scratch.path()));
        let write = |map: &DamageMap, name: &CStr| {
            let described = Described {
                path: Path::new("d/f"),
                size: 9000,
            };
            map.write(&directory, name, described, Replace::Yes)
        };
        let read =
            |name: &CStr| DamageMap::of_file(directory.as_fd(), name, EmptyFile::CutMap).unwrap();
        let (first, second) = (map(&[(0, 8192)]), map(&[(0, 4096)]));
        assert_eq!(read(c"f"), None);
        write(&first, c"f").unwrap();
        assert_eq!(read(c"f"), Some(first));
        write(&second, c"f").unwrap();
        assert_eq!(read(c"f"), Some(second.clone()));
        std::fs::write(scratch.path().join("g.damaged"), "mine").unwrap();
        let refused = write(&second, c"g").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(c"g"), None);
        std::os::unix::fs::symlink("f.damaged", scratch.path().join("h.damaged")).unwrap();
        assert_eq!(read(c"h"), None);
        remove_map(directory.as_fd(), c"f", Durability::Synced).unwrap();
        remove_map(directory.as_fd(), c"f", Durability::Cached).unwrap();
        assert_eq!(read(c"f"), None);
    }
}
