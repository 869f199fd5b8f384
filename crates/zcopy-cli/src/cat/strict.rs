//! Every operand is opened and checked before the first byte is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Access, AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::copy_error::Trouble;
use super::pipeline::Way;
use crate::own_output;
use crate::probe::can_be_read;
use crate::{exit, sys};

/// Opens every operand, in order, and complains of each that cannot be read. None if there was one.
///
/// Standard input is no file of its own, and a FIFO would wait for its writer, who may be waiting for an operand before it: these
/// are checked as far as that goes without opening them.
pub(super) fn open_all(operands: &[OsString], way: &Way<'_>) -> Option<Vec<Option<File>>> {
    sys::allow_descriptors();
    // No file may come to stand where standard input is looked for. If that fails, opening the file will too.
    let _ = sys::hold_closed_descriptors();
    let complain = |trouble| {
        let (Trouble::Input(error) | Trouble::Output(error)) = trouble;
        exit::complain(&error);
    };
    let operands = operands.iter().enumerate();
    let opened: Vec<_> = operands
        .map(|(place, name)| open(name, way, place).map_err(complain).ok())
        .collect();
    // Only now, when of all of them has been complained that deserve it.
    opened.into_iter().collect()
}

/// Opens the operand at this place of the command line.
fn open(name: &OsStr, way: &Way<'_>, place: usize) -> Result<Option<File>, Trouble> {
    let of_input = |error: io::Error| Trouble::of_input(name, error);
    if name == "-" {
        let stdin = rustix::stdio::stdin();
        sys::check_open(stdin).map_err(of_input)?;
        return check(name, stdin, way, place).map(|()| None);
    }
    let status = rustix::fs::stat(name).map_err(|errno| of_input(errno.into()))?;
    if FileType::from_raw_mode(status.st_mode) == FileType::Fifo {
        let access = rustix::fs::accessat(CWD, name, Access::READ_OK, AtFlags::EACCESS);
        return access
            .map(|()| None)
            .map_err(|errno| of_input(errno.into()));
    }
    let file = File::open(name).map_err(of_input)?;
    check(name, file.as_fd(), way, place)?;
    Ok(Some(file))
}

/// Whether it can be copied, as far as can be told without taking anything from it.
fn check(name: &OsStr, input: BorrowedFd<'_>, way: &Way<'_>, place: usize) -> Result<(), Trouble> {
    way.check(name, input)?;
    // What the operands before it have written would be read, or written over.
    if place > 0 {
        let of_input = |errno: Errno| Trouble::of_input(name, errno.into());
        let of_output = |errno: Errno| Trouble::of_output(errno.into());
        let status = rustix::fs::fstat(input).map_err(of_input)?;
        let output = rustix::fs::fstat(way.stdout).map_err(of_output)?;
        if own_output::is_same_file(&status, &output) {
            return Err(Trouble::feeds_itself(name));
        }
    }
    can_be_read(input).map_err(|error| Trouble::of_input(name, exit::cause(&error)))
}
