//! Temporary names of files under construction: `.zc-dircopy-XXXXXXXX`.
//!
//! A run may be killed between any two calls, and the next run removes the temporary names that it
//! finds. So it may also remove a name that a live run has just made: that run then makes a new
//! one. Regular files are locked while they are written, and not removed.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Exclusivity, Replace};
use crate::dircopy::stat::file_type;

/// The prefix of temporary names.
pub(crate) const PREFIX: &[u8] = b".zc-dircopy-";

/// The prefix of directories on which times are tried.
const TIME_PREFIX: &[u8] = b".zc-dircopy-time-";

/// The number of letters and digits after a prefix.
const N_RANDOM: usize = 8;

/// Held by a thread while it checks that a name is free and then renames a file to it.
static CHECKED_RENAME: Mutex<()> = Mutex::new(());

/// The limit of attempts that fail only by chance, or because another process interferes each time.
pub(crate) const N_TRIES: u32 = 100;

/// Creates a file under a new temporary name, and returns the name.
pub(crate) fn make<T>(make_at: impl Fn(&CStr) -> Result<T, Errno>) -> Result<(T, CString), Errno> {
    make_with_prefix(PREFIX, make_at)
}

/// Creates a file under a new name that begins with `prefix`, and returns the name.
pub(crate) fn make_with_prefix<T>(
    prefix: &[u8],
    make_at: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<(T, CString), Errno> {
    let mut tries = 0..N_TRIES;
    loop {
        let name = random(prefix);
        match make_at(&name) {
            Ok(it) => return Ok((it, name)),
            Err(Errno::EXIST) if tries.next().is_some() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Creates a file under a temporary name, then renames it to `name`.
pub(crate) fn put<T>(
    directory: BorrowedFd<'_>,
    name: &CStr,
    replace: Replace,
    make_at: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<(T, Exclusivity), Errno> {
    let make_at = |temp_name: &CStr| {
        make_at(temp_name).inspect_err(|errno| {
            // exfat-fuse creates a regular file instead of a FIFO, and then fails.
            if *errno != Errno::EXIST {
                remove(directory, temp_name);
            }
        })
    };
    let mut tries = 0..N_TRIES;
    loop {
        let (it, temp_name) = make(make_at)?;
        let renamed = rename(directory, &temp_name, name, replace);
        // rename(2) leaves both names if they are links to one file: the temporary name stays.
        remove(directory, &temp_name);
        match renamed {
            Ok(exclusivity) => return Ok((it, exclusivity)),
            // Another run has removed the temporary name.
            Err(Errno::NOENT) if tries.next().is_some() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Renames a file from its temporary name to `name`.
///
/// Without `RENAME_NOREPLACE` and hard links, a name that must be free is checked first.
///
/// # Kernel notes
///
/// NFS and most FUSE file systems do not know `RENAME_NOREPLACE`, and answer `EINVAL`. NFS has hard
/// links. FAT has no hard links, but knows the flag. FUSE drivers for exFAT and cloud storage have
/// neither.
pub(crate) fn rename(
    directory: BorrowedFd<'_>,
    temp_name: &CStr,
    name: &CStr,
    replace: Replace,
) -> Result<Exclusivity, Errno> {
    let rename = || rustix::fs::renameat(directory, temp_name, directory, name);
    if replace == Replace::Yes {
        rename()?;
        return Ok(Exclusivity::Atomic);
    }
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(directory, temp_name, directory, name, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed.map(|()| Exclusivity::Atomic),
    }
    match rustix::fs::linkat(directory, temp_name, directory, name, AtFlags::empty()) {
        Ok(()) => {
            remove(directory, temp_name);
            return Ok(Exclusivity::Atomic);
        }
        Err(errno) if lacks_links(errno) => {}
        Err(errno) => return Err(errno),
    }
    // Two threads may have names that the file system does not tell apart. With the lock, the
    // second one finds the first one's file.
    let _guard = CHECKED_RENAME
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Ok(_) => return Err(Errno::EXIST),
        Err(errno) => return Err(errno),
    }
    rename()?;
    Ok(Exclusivity::Checked)
}

/// Whether this error of `linkat(2)` means that the file cannot have another name.
///
/// # Kernel notes
///
/// - `EPERM`: the file system or the FUSE driver has no hard links; the directory is immutable,
///   which rename(2) reports too; or `protected_hardlinks` forbids links to another owner's file;
/// - `EOPNOTSUPP`, `ENOSYS`, `EINVAL`: network and FUSE file systems, and older kernels;
/// - `EXDEV`: AFS for links between directories, and union file systems;
/// - `EMLINK`: the file has the most names possible: 65,000 on ext4, 1 on a file system without
///   links.
pub(crate) fn lacks_links(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::XDEV | Errno::MLINK
    )
}

/// Removes a temporary name, if it still exists.
pub(crate) fn remove(directory: BorrowedFd<'_>, temp_name: &CStr) {
    // The next run removes a name that stays.
    let _ = rustix::fs::unlinkat(directory, temp_name, AtFlags::empty());
}

/// Creates a directory on which times are tried, and returns its name.
pub(crate) fn make_directory(parent: BorrowedFd<'_>) -> Result<CString, Errno> {
    let make = |name: &CStr| rustix::fs::mkdirat(parent, name, Mode::RWXU);
    make_with_prefix(TIME_PREFIX, make).map(|((), name)| name)
}

/// Removes such a directory, unless it has entries.
pub(crate) fn remove_directory(parent: BorrowedFd<'_>, temp_name: &CStr) {
    // The next run removes a directory that stays.
    let _ = rustix::fs::unlinkat(parent, temp_name, AtFlags::REMOVEDIR);
}

/// Temporary names in a directory that killed runs may have left.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    files: Vec<CString>,
    directories: Vec<CString>,
}

impl Leftovers {
    /// Adds a name if it is hidden. The type may be unknown.
    pub(crate) fn add(&mut self, name: &CStr, kind: FileType) {
        if is_temp_name(name.to_bytes()) && kind != FileType::Directory {
            self.files.push(name.to_owned());
        } else if has_prefix(TIME_PREFIX, name.to_bytes()) {
            self.directories.push(name.to_owned());
        }
    }

    /// The names of files.
    pub(crate) fn files(&self) -> &[CString] {
        &self.files
    }

    /// Removes the names, except files that a run has locked, and those that `keeps` keeps. A name
    /// that cannot be removed stays.
    pub(crate) fn remove(&self, directory: BorrowedFd<'_>, mut keeps: impl FnMut(&CStr) -> bool) {
        for name in self.files.iter().filter(|name| !keeps(name)) {
            sweep_name(directory, name);
        }
        for name in &self.directories {
            remove_directory(directory, name);
        }
    }
}

/// Removes a temporary name, unless a run has locked the file.
pub(crate) fn sweep_name(directory: BorrowedFd<'_>, name: &CStr) {
    let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    match file_type(&stat) {
        FileType::Directory => {}
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
                return;
            };
            // The lock is held until the name is removed: a run that has just created the file
            // notices one or the other.
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove(directory, name);
            }
        }
        // Other types cannot be locked. A run whose file is missing creates it again.
        _ => remove(directory, name),
    }
}

/// Whether a file under construction may have this name.
pub(crate) fn is_temp_name(name: &[u8]) -> bool {
    has_prefix(PREFIX, name)
}

/// Whether [`random`] may have made this name with this prefix.
fn has_prefix(prefix: &[u8], name: &[u8]) -> bool {
    name.strip_prefix(prefix).is_some_and(|random| {
        random.len() == N_RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// A random name.
pub(crate) fn random(prefix: &[u8]) -> CString {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // The keys come from the kernel's random bytes, and differ in each call.
    let mut number = RandomState::new().build_hasher().finish();
    let mut name = prefix.to_vec();
    for _ in 0..N_RANDOM {
        name.push(DIGITS[(number % 62) as usize]);
        number /= 62;
    }
    // Neither part has a zero byte.
    CString::new(name).unwrap_or_default()
}
