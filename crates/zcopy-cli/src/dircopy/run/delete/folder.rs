//! The folders that get what was moved.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use crate::dircopy::manifest::name::local_time;
use crate::dircopy::stat::permissions;
use crate::dircopy::walk::open_beneath;

/// The beginning of the name of a folder with what was moved.
const PREFIX: &str = "deleted.";

/// The most folders of one second.
const MAX_FOLDERS: u32 = 1000;

/// Whether this is the name of a folder with what was moved: `deleted.YYYY-MM-DD.HH.MM.SS`, perhaps
/// with a number behind it.
pub(super) fn is_folder(name: &[u8]) -> bool {
    const DIGITS: &[u8] = b"0000-00-00.00.00.00";
    let Some(time) = name.strip_prefix(PREFIX.as_bytes()) else {
        return false;
    };
    let Some((time, rest)) = time.split_at_checked(DIGITS.len()) else {
        return false;
    };
    let is_alike = |(byte, pattern): (&u8, &u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        pattern => byte == pattern,
    };
    let is_number = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    time.iter().zip(DIGITS).all(is_alike)
        && (rest.is_empty() || rest.strip_prefix(b".").is_some_and(is_number))
}

/// Makes a folder with the time in its name. Returns the name, too.
///
/// The source has no entry of this name: its files would replace those that are moved.
pub(super) fn make(
    source: BorrowedFd<'_>,
    destination: BorrowedFd<'_>,
) -> io::Result<(String, OwnedFd)> {
    let time = local_time().strftime("%Y-%m-%d.%H.%M.%S").to_string();
    for nth in 1..=MAX_FOLDERS {
        let name = match nth {
            1 => format!("{PREFIX}{time}"),
            nth => format!("{PREFIX}{time}.{nth}"),
        };
        match rustix::fs::statat(source, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => continue,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        match rustix::fs::mkdirat(destination, &*name, Mode::RWXU) {
            Ok(()) => {
                let opened = open_beneath(destination, Path::new(&name))?;
                take_attributes(destination, &opened);
                return Ok((name, opened));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Gives a new directory the owner and the mode of the directory `from`. Entries of `from` are moved
/// to it, and the same users may read them there.
pub(super) fn take_attributes(from: BorrowedFd<'_>, new: &OwnedFd) {
    if let Ok(stat) = rustix::fs::fstat(from) {
        use rustix::fs::{Gid, Uid};
        let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        // Without it the directory stays private.
        if rustix::fs::fchown(new, Some(owner.0), Some(owner.1)).is_ok() {
            let _ = rustix::fs::fchmod(new, permissions(&stat) | Mode::RWXU);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_folder;

    #[test]
    fn only_folders_of_earlier_runs_have_such_names() {
        for name in [
            "deleted.2026-11-27.01.14.13",
            "deleted.2026-11-27.01.14.13.2",
        ] {
            assert!(is_folder(name.as_bytes()), "{name}");
        }
        for name in [
            "deleted",
            "deleted.2026-11-27",
            "deleted.2026-11-27.01.14.1x",
            "deleted.2026-11-27.01.14.13.",
            "deleted.2026-11-27.01.14.13.a",
            "xdeleted.2026-11-27.01.14.13",
        ] {
            assert!(!is_folder(name.as_bytes()), "{name}");
        }
    }
}
