//! Whether an input has anything to give.

use std::fs::File;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;
use zcopy::Transfer;

/// Whether the input has a byte to give, which is spent on the question.
///
/// For outputs of which it is known that they take nothing: who has nothing to write never learns.
pub(crate) fn gives_anything(input: BorrowedFd<'_>) -> zcopy::Result<bool> {
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else {
        // Without it nobody can tell, and output that cannot be written to is an error.
        return Ok(true);
    };
    let report = Transfer::new(&input, &nowhere).limit(1).run()?;
    Ok(report.bytes() > 0)
}

/// Whether the first byte can be read of a file that says it has one, or of a block device. Nothing is spent; and nothing is asked
/// of files without a size, of which some wait, or give each byte once (`/proc/kmsg`).
pub(crate) fn can_be_read(input: BorrowedFd<'_>) -> zcopy::Result<()> {
    let Ok(status) = rustix::fs::fstat(input) else {
        // Whoever reads it will learn why.
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
