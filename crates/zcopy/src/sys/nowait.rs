//! `preadv2(2)` and `pwritev2(2)` at the descriptor's cursor, with `RWF_NOWAIT`.

#![deny(unsafe_code, reason = "only sys.rs may contain unsafe code")]

#[cfg(not(target_os = "android"))]
pub(super) use calls::{read, write};
#[cfg(target_os = "android")]
pub(super) use no_calls::{read, write};

#[cfg(not(target_os = "android"))]
mod calls {
    use std::os::fd::BorrowedFd;

    use rustix::io::{IoSlice, IoSliceMut, ReadWriteFlags, preadv2, pwritev2};

    use crate::sys::Result;

    pub(in crate::sys) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize> {
        let buffer = &mut [IoSliceMut::new(buffer)];
        preadv2(fd, buffer, u64::MAX, ReadWriteFlags::NOWAIT)
    }

    pub(in crate::sys) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize> {
        let bytes = &[IoSlice::new(bytes)];
        pwritev2(fd, bytes, u64::MAX, ReadWriteFlags::NOWAIT)
    }
}

/// rustix lacks both calls on Android, whose libc has them from API level 33 on. These functions
/// return `ENOSYS`, as a kernel without the calls does, and the callers then make the calls without
/// the flag.
#[cfg(target_os = "android")]
mod no_calls {
    use std::os::fd::BorrowedFd;

    use crate::sys::{Errno, Result};

    pub(in crate::sys) fn read(_: BorrowedFd<'_>, _: &mut [u8]) -> Result<usize> {
        Err(Errno::NOSYS)
    }

    pub(in crate::sys) fn write(_: BorrowedFd<'_>, _: &[u8]) -> Result<usize> {
        Err(Errno::NOSYS)
    }
}
