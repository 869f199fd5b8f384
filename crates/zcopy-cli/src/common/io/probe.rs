//! Functions that try to read the first byte of an input.

use std::fs::File;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use zcopy::Transfer;

/// Reads one byte, and returns whether there was one.
///
/// Tools call this if their output accepts nothing: that is an error only if there is input.
pub(crate) fn read_one_byte(input: BorrowedFd<'_>) -> zcopy::Result<bool> {
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else {
        // Assume that there is input: it could not be written.
        return Ok(true);
    };
    let report = Transfer::new(&input, &nowhere).limit(1).run()?;
    Ok(report.bytes() > 0)
}

/// Checks that the first byte of a regular file or block device can be read, without moving its
/// cursor. Skips files of size 0: some wait for data, or return each byte only once (`/proc/kmsg`).
pub(crate) fn check_first_byte(input: BorrowedFd<'_>) -> zcopy::Result<()> {
    let Ok(status) = rustix::fs::fstat(input) else {
        // The later read reports the error.
        return Ok(());
    };
    let can_be_asked = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => status.st_size > 0,
        kind => kind == FileType::BlockDevice,
    };
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else {
        return Ok(());
    };
    if can_be_asked {
        let transfer = Transfer::new(&input, &nowhere).source_offset(0).limit(1);
        transfer.run()?;
    }
    Ok(())
}
