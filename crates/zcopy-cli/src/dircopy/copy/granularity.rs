//! Finds out the granularity of times in the file systems of the destination.
//!
//! No system call returns it. So a file is created in a directory of the destination, its time is
//! set and read back, and the file is removed. This happens once for each file system, and only if
//! the age of a copy depends on it.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, StatxFlags, Timestamps};
use rustix::io::Errno;

use crate::dircopy::mtime::{Granularity, Time};
use crate::dircopy::policy::Rounding;
use crate::dircopy::walk::Entry;
use crate::dircopy::write::atomic_file::{AtomicFile, temp_name};
use crate::dircopy::write::metadata::{Named, hold};

/// A time that every file system can represent. Each granularity rounds it to another time.
const PROBE: Time = Time {
    seconds: 1_000_000_001,
    nanoseconds: 123_456_789,
};

/// The granularities of file systems, by device. `None` if a granularity could not be found out.
#[derive(Debug, Default)]
pub(crate) struct Granularities {
    known: Mutex<HashMap<u64, Option<Granularity>>>,
}

impl Granularities {
    /// Returns `time` as the file system of an entry's copy keeps it.
    pub(crate) fn rounding(&self, entry: &Entry, time: Time) -> Rounding {
        let directory = entry.destination_directory().as_fd();
        if time.is_beyond_32_bits() {
            // The last time differs between file systems, so that each time is tried.
            return probe_file(directory, time)
                .map_or(Rounding::Unknown, |(rounded, _)| Rounding::To(rounded));
        }
        let device = entry.directory().destination_device();
        let known = self.lock().get(&device).copied();
        let granularity = known.unwrap_or_else(|| {
            // Two threads may probe one device. A lock would make threads wait for other file
            // systems.
            let found = probe(directory);
            self.lock().insert(device, found);
            found
        });
        match granularity {
            Some(granularity) => Rounding::To(time.floor(granularity)),
            None => Rounding::Unknown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Option<Granularity>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds out the granularity of the file system of a directory.
///
/// # Kernel notes
///
/// A kernel that caches the times of regular files may round them only when the file leaves the
/// cache: FUSE with `FUSE_WRITEBACK_CACHE` (`trust_local_cmtime` in `fs/fuse/dir.c`) and NFS 4.2
/// with delegated timestamps. Neither does so with directories. FAT has rounded in memory since
/// Linux 4.20 (`fat_truncate_time`), and `setattr_copy` rounds to `s_time_gran` for the others.
fn probe(directory: BorrowedFd<'_>) -> Option<Granularity> {
    let (rounded, name) = probe_file(directory, PROBE).ok()?;
    let of_files = Granularity::found(PROBE, rounded)?;
    // Network file systems and most FUSE file systems have no nameless files.
    if of_files != Granularity::Nanoseconds(1) || name == Naming::Nameless {
        return Some(of_files);
    }
    match probe_directory(directory, PROBE) {
        Ok(rounded) => Granularity::found(PROBE, rounded),
        Err(_) => None,
    }
}

/// Whether a file under construction has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    Nameless,
    Temporary,
}

/// Sets the time of a new file in this directory, and reads it back.
fn probe_file(directory: BorrowedFd<'_>, time: Time) -> std::io::Result<(Time, Naming)> {
    let new_file = AtomicFile::new(directory)?;
    rustix::fs::futimens(&new_file, &timestamps(time))?;
    let rounded = read_back(new_file.as_fd())?;
    let naming = if new_file.is_nameless() {
        Naming::Nameless
    } else {
        Naming::Temporary
    };
    Ok((rounded, naming))
}

/// Sets the time of a new directory in this one, and reads it back.
fn probe_directory(parent: BorrowedFd<'_>, time: Time) -> Result<Time, Errno> {
    let name = temp_name::make_directory(parent)?;
    let named = Named {
        directory: parent,
        name: &name,
    };
    let rounded = hold(named).and_then(|(held, path)| {
        rustix::fs::utimensat(CWD, &path, &timestamps(time), AtFlags::empty())?;
        read_back(held.as_fd())
    });
    temp_name::remove_directory(parent, &name);
    rounded
}

fn timestamps(time: Time) -> Timestamps {
    Timestamps {
        last_access: time.timespec(),
        last_modification: time.timespec(),
    }
}

/// The time of modification as the server of a network file system has it.
fn read_back(fd: BorrowedFd<'_>) -> Result<Time, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let Ok(found) = rustix::fs::statx(fd, c"", flags, StatxFlags::MTIME) else {
        // A filter may refuse it.
        return rustix::fs::fstat(fd).map(|stat| Time::modified(&stat));
    };
    Ok(Time {
        seconds: found.stx_mtime.tv_sec,
        nanoseconds: found.stx_mtime.tv_nsec.into(),
    })
}

#[cfg(test)]
mod tests;
