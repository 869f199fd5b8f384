//! Names that stand for something only until it gets its own: `.zc-dircopy-XXXXXXXX`.
//!
//! Between two calls every process can be killed, and every name be taken away by another run that takes it for a dead
//! one's. So a name is made anew as often as it is found to be missing. Regular files, which take long, are locked as long as somebody
//! works on them, and left alone.

use std::ffi::{CStr, CString};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::{Exclusivity, Replace};
use crate::dircopy::listing;
use crate::dircopy::st_mode::file_type;

/// What they all begin with.
pub(super) const PREFIX: &[u8] = b".zc-dircopy-";

/// What a directory begins with on which times are tried.
const TIME_PREFIX: &[u8] = b".zc-dircopy-time-";

/// And how many letters and digits follow.
const N_RANDOM: usize = 8;

/// Lets one thread at a time look for a name and then give it.
static CHECKED_RENAME: Mutex<()> = Mutex::new(());

/// How often something is tried that fails only by chance, or if somebody is at it.
pub(super) const N_TRIES: u32 = 100;

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
) -> Result<(T, Exclusivity), Errno> {
    let make_at = |hidden: &CStr| {
        make_at(hidden).inspect_err(|errno| {
            // exfat-fuse makes a regular file of a FIFO, and fails then.
            if *errno != Errno::EXIST {
                remove(directory, hidden);
            }
        })
    };
    let mut tries = 0..N_TRIES;
    loop {
        let (it, hidden) = make(make_at)?;
        let renamed = rename(directory, &hidden, name, replace);
        // Two names of one file are left as they are, so that the hidden one would stay.
        remove(directory, &hidden);
        match renamed {
            Ok(exclusivity) => return Ok((it, exclusivity)),
            // Another run has taken it away.
            Err(Errno::NOENT) if tries.next().is_some() => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives what has a hidden name its own instead.
///
/// Where there is neither `RENAME_NOREPLACE` nor a hard link, the name is looked for, and given if it is not found.
///
/// # Kernel notes
///
/// Not every file system knows `RENAME_NOREPLACE`: NFS, and FUSE as a rule, say `EINVAL`. NFS has hard links, and FAT, which has none,
/// knows it. Drivers in user space for exFAT and cloud storage have neither.
pub(super) fn rename(
    directory: BorrowedFd<'_>,
    hidden: &CStr,
    name: &CStr,
    replace: Replace,
) -> Result<Exclusivity, Errno> {
    let rename = || rustix::fs::renameat(directory, hidden, directory, name);
    if replace == Replace::Yes {
        rename()?;
        return Ok(Exclusivity::Atomic);
    }
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(directory, hidden, directory, name, flags) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed.map(|()| Exclusivity::Atomic),
    }
    match rustix::fs::linkat(directory, hidden, directory, name, AtFlags::empty()) {
        Ok(()) => {
            remove(directory, hidden);
            return Ok(Exclusivity::Atomic);
        }
        Err(errno) if lacks_links(errno) => {}
        Err(errno) => return Err(errno),
    }
    // Of two threads with names that the file system does not tell apart, one finds the other's.
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

/// Whether `linkat(2)` fails with this where a file cannot have another name.
///
/// # Kernel notes
///
/// - `EPERM`: the file system has no hard links. FUSE says so for a driver that has none. A directory that must not change says so too,
///   and to rename(2) as well. `protected_hardlinks` says so of somebody else's file;
/// - `EOPNOTSUPP`, `ENOSYS`, `EINVAL`: network and FUSE file systems, and older kernels;
/// - `EXDEV`: AFS between directories, and unions of file systems;
/// - `EMLINK`: the file has as many names as it can: on ext4 65,000, on a file system without links 1.
pub(super) fn lacks_links(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::XDEV | Errno::MLINK
    )
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
    match file_type(&stat) {
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
pub(super) fn random(prefix: &[u8]) -> CString {
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
