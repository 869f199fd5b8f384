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

/// Whether the first byte of a file can be read. Nothing is spent, and of what has no positions nothing is asked.
pub(crate) fn can_be_read(input: BorrowedFd<'_>) -> zcopy::Result<()> {
    let Ok(status) = rustix::fs::fstat(input) else {
        // Whoever reads it will learn why.
        return Ok(());
    };
    let is_regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
    let Ok(nowhere) = File::options().write(true).open("/dev/null") else {
        return Ok(());
    };
    if is_regular && status.st_size > 0 {
        let transfer = Transfer::new(&input, &nowhere).source_offset(0).limit(1);
        transfer.run()?;
    }
    Ok(())
}
