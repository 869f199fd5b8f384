//! The null device, which takes the bytes of files that are hashed.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};

use anyhow::Context as _;

/// The device of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Opens `/dev/null`.
///
/// # Errors
///
/// It cannot be opened, or it is no null device. A regular file would get the contents of all files
/// that are hashed.
pub(crate) fn open_null() -> anyhow::Result<File> {
    let open = || {
        let null = File::options()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/null")?;
        let found = null.metadata()?;
        let device = found.rdev();
        let device = (rustix::fs::major(device), rustix::fs::minor(device));
        if !found.file_type().is_char_device() || device != NULL {
            return Err(io::Error::other("it is not the null device"));
        }
        Ok(null)
    };
    open().context("/dev/null")
}
