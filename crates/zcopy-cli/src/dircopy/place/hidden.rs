//! Names that stand for something only until it gets its own: `.zc-dircopy-XXXXXXXX`.
//!
//! Between two calls every process can be killed, and every name be taken away by another run that takes it for a dead
//! one's. So a name is made anew as often as it is found to be missing. Regular files, which take long, are locked as long as somebody
//! works on them, and left alone.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Replace;
use crate::dircopy::listing;

/// What they all begin with.
const PREFIX: &[u8] = b".zc-dircopy-";

/// What a directory begins with on which times are tried.
const TIME_PREFIX: &[u8] = b".zc-dircopy-time-";

/// And how many letters and digits follow.
const N_RANDOM: usize = 8;

/// How often something is tried that fails only by chance, or if somebody is at it.
const N_TRIES: u32 = 100;

/// Makes something under a hidden name that nobody has, and says which.
pub(super) fn make<T>(make_at: impl Fn(&CStr) -> Result<T, Errno>) -> Result<(T, CString), Errno> {
    make_with_prefix(PREFIX, make_at)
}

/// Makes something under a name that begins with `prefix` and that nobody has, and says which.
pub(in crate::dircopy) fn make_with_prefix<T>(
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

/// Makes something under a hidden name, then gives it its own.
pub(super) fn put<T>(
    directory: BorrowedFd<'_>,
    name: &CStr,
    replace: Replace,
    make_at: impl Fn(&CStr) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut tries = 0..N_TRIES;
    loop {
        let (it, hidden) = make(&make_at)?;
        let renamed = rename(directory, &hidden, name, replace);
        // Two names of one file are left as they are, so that the hidden one would stay.
        remove(directory, &hidden);
        match renamed {
            Ok(()) => return Ok(it),
            // Another run has taken it away.
            Err(Errno::NOENT) if tries.next().is_some() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives what has a hidden name its own instead.
///
/// # Kernel notes
///
/// Not every file system knows `RENAME_NOREPLACE`: NFS, and FUSE as a rule, say `EINVAL`. These have hard links, and FAT, which has none,
/// knows it.
pub(super) fn rename(
    directory: BorrowedFd<'_>,
    hidden: &CStr,
    name: &CStr,
    replace: Replace,
) -> Result<(), Errno> {
    if replace == Replace::Yes {
        return rustix::fs::renameat(directory, hidden, directory, name);
    }
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(directory, hidden, directory, name, flags) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, hidden, directory, name, AtFlags::empty())?;
            remove(directory, hidden);
            Ok(())
        }
        renamed => renamed,
    }
}

/// Removes a hidden name. It may have gone already.
pub(in crate::dircopy) fn remove(directory: BorrowedFd<'_>, hidden: &CStr) {
    // What cannot be removed now is removed by the next run.
    let _ = rustix::fs::unlinkat(directory, hidden, AtFlags::empty());
}

/// Makes a directory that nobody else works in, on which times are tried, and says how it is called.
pub(in crate::dircopy) fn make_directory(parent: BorrowedFd<'_>) -> Result<CString, Errno> {
    let make = |name: &CStr| rustix::fs::mkdirat(parent, name, Mode::RWXU);
    make_with_prefix(TIME_PREFIX, make).map(|((), name)| name)
}

/// Removes such a directory, unless it has entries.
pub(in crate::dircopy) fn remove_directory(parent: BorrowedFd<'_>, hidden: &CStr) {
    // As above.
    let _ = rustix::fs::unlinkat(parent, hidden, AtFlags::REMOVEDIR);
}

/// Removes what killed runs have left behind in a directory, and shows every name that was there.
///
/// # Errors
///
/// That of reading the directory. What cannot be removed stays.
pub(crate) fn sweep(directory: BorrowedFd<'_>, mut show: impl FnMut(&CStr)) -> Result<(), Errno> {
    let (mut stale, mut stale_directories) = (Vec::new(), Vec::new());
    let read = listing::each(directory, |name, kind| {
        show(name);
        if is_hidden(name.to_bytes()) && kind != FileType::Directory {
            stale.push(name.to_owned());
        } else if has_prefix(TIME_PREFIX, name.to_bytes()) {
            stale_directories.push(name.to_owned());
        }
    });
    for name in stale {
        sweep_name(directory, &name);
    }
    for name in stale_directories {
        remove_directory(directory, &name);
    }
    read
}

/// Removes it, unless somebody is at work on it.
fn sweep_name(directory: BorrowedFd<'_>, name: &CStr) {
    let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return;
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else {
                return;
            };
            // The lock is held until the name has gone, so that whoever makes it finds out.
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove(directory, name);
            }
        }
        // These cannot be locked. Whoever misses one makes another.
        _ => remove(directory, name),
    }
}

/// Whether a file under construction may have this name.
pub(in crate::dircopy) fn is_hidden(name: &[u8]) -> bool {
    has_prefix(PREFIX, name)
}

/// Whether a name is this prefix and what [`random`] puts behind it.
fn has_prefix(prefix: &[u8], name: &[u8]) -> bool {
    name.strip_prefix(prefix).is_some_and(|random| {
        random.len() == N_RANDOM && random.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// A name that nobody else is likely to have.
fn random(prefix: &[u8]) -> CString {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // Keyed by the kernel's random bytes, and another each time.
    let mut number = RandomState::new().build_hasher().finish();
    let mut name = prefix.to_vec();
    for _ in 0..N_RANDOM {
        name.push(DIGITS[(number % 62) as usize]);
        number /= 62;
    }
    // There is no zero byte in it.
    CString::new(name).unwrap_or_default()
}
