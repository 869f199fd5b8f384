//! `--strict`: opens and checks every operand before the first byte is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::copy_error::CopyError;
use super::pipeline::Pipeline;
use crate::common::cli::message;
use crate::common::io::probe::check_first_byte;
use crate::common::io::same_file;
use crate::common::sys;

/// Opens every operand, in order, and reports each that cannot be read. Returns `None` if there is
/// such an operand.
///
/// The result has `None` for standard input, and for FIFOs: opening one waits for its writer, who
/// may wait for an operand before it. These are checked without opening them.
pub(super) fn open_all(
    operands: &[OsString],
    pipeline: &Pipeline<'_>,
) -> Option<Vec<Option<File>>> {
    sys::allow_descriptors();
    // No operand may get a closed standard descriptor. If this fails, so does opening an operand.
    let _ = sys::hold_closed_descriptors();
    let report = |error| {
        let (CopyError::Input(error) | CopyError::Output(error)) = error;
        message::error(&error);
    };
    let operands = operands.iter().enumerate();
    let opened: Vec<_> = operands
        .map(|(index, name)| open(name, pipeline, index).map_err(report).ok())
        .collect();
    // This comes last because every operand that fails is reported.
    opened.into_iter().collect()
}

/// Opens the operand with this index.
fn open(name: &OsStr, pipeline: &Pipeline<'_>, index: usize) -> Result<Option<File>, CopyError> {
    let failed = |error: io::Error| CopyError::input(name, error);
    if name == "-" {
        let stdin = rustix::stdio::stdin();
        sys::check_open(stdin).map_err(failed)?;
        return check(name, stdin, pipeline, index).map(|()| None);
    }
    let status = rustix::fs::stat(name).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(status.st_mode) == FileType::Fifo {
        let access = rustix::fs::accessat(CWD, name, Access::READ_OK, AtFlags::EACCESS);
        return access.map(|()| None).map_err(|errno| failed(errno.into()));
    }
    let file = File::open(name).map_err(failed)?;
    check(name, file.as_fd(), pipeline, index)?;
    Ok(Some(file))
}

/// Checks whether the operand can be copied, without consuming any of it.
fn check(
    name: &OsStr,
    input: BorrowedFd<'_>,
    pipeline: &Pipeline<'_>,
    index: usize,
) -> Result<(), CopyError> {
    pipeline.check(name, input)?;
    // The operands before it would change this one if it is the output.
    if index > 0 {
        let input_failed = |errno: Errno| CopyError::input(name, errno.into());
        let output_failed = |errno: Errno| CopyError::output(errno.into());
        let status = rustix::fs::fstat(input).map_err(input_failed)?;
        let output = rustix::fs::fstat(pipeline.stdout).map_err(output_failed)?;
        if same_file::is_same_file(&status, &output) {
            return Err(CopyError::input_is_output(name));
        }
    }
    check_first_byte(input).map_err(|error| CopyError::input(name, message::cause(&error)))
}
