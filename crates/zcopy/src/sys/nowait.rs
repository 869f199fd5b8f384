//! One read or one write at the cursor that does not sleep, whatever mode the descriptor is in.

use std::os::fd::BorrowedFd;

#[cfg(not(target_os = "android"))]
use rustix::io::{IoSlice, IoSliceMut, ReadWriteFlags};

#[cfg(target_os = "android")]
use super::Errno;
use super::Result;

/// Reads at the cursor without sleeping: `preadv2(RWF_NOWAIT)`.
#[cfg(not(target_os = "android"))]
pub(super) fn read_nowait(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
    let buffer = &mut [IoSliceMut::new(buffer)];
    rustix::io::preadv2(fd, buffer, u64::MAX, ReadWriteFlags::NOWAIT)
}

/// Writes at the cursor without sleeping: `pwritev2(RWF_NOWAIT)`.
#[cfg(not(target_os = "android"))]
pub(super) fn write_nowait(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
    let bytes = &[IoSlice::new(bytes)];
    rustix::io::pwritev2(fd, bytes, u64::MAX, ReadWriteFlags::NOWAIT)
}

/// Returns `ENOSYS`, as a kernel without the call does: rustix lacks it on Android, whose libc has
/// it from API level 33 on. The caller then makes the call without the flag.
#[cfg(target_os = "android")]
pub(super) fn read_nowait(_: BorrowedFd<'_>, _: &mut [u8]) -> Result<usize> {
    Err(Errno::NOSYS)
}

/// Returns `ENOSYS`, as the read above does.
#[cfg(target_os = "android")]
pub(super) fn write_nowait(_: BorrowedFd<'_>, _: &[u8]) -> Result<usize> {
    Err(Errno::NOSYS)
}
