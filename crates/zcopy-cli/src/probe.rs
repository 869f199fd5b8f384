//! Whether an input has anything to give.

use std::fs::File;
use std::os::fd::BorrowedFd;

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
