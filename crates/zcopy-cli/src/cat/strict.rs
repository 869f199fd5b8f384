//! Every operand is opened and checked before the first byte is written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::{Access, AtFlags, CWD, FileType};
use zcopy::{Side, Transfer};

use super::trouble::{Trouble, is_pair_refused};
use crate::own_output::{self, Relation};
use crate::probe::can_be_read;
use crate::{exit, sys};

/// Opens every operand, in order, and complains of each that cannot be read. None if there was one.
///
/// Standard input is no file of its own, and a FIFO would wait for its writer, who may be waiting for an operand before it: these
/// are checked as far as that goes without opening them.
pub(super) fn open_all(operands: &[OsString], stdout: BorrowedFd<'_>) -> Option<Vec<Option<File>>> {
    sys::allow_descriptors();
    // No file may come to stand where standard input is looked for. If that fails, opening the file will too.
    let _ = sys::hold_closed_descriptors();
    let opened: Vec<_> = operands.iter().map(|name| open(name, stdout)).collect();
    let complained = |trouble| {
        let (Trouble::Input(error) | Trouble::Output(error)) = trouble;
        exit::complain(&error);
    };
    // Of all of them is complained, so that the first does not end it.
    let opened: Vec<_> = opened
        .into_iter()
        .map(|opened| opened.map_err(complained).ok())
        .collect();
    opened.into_iter().collect()
}

fn open(name: &OsStr, stdout: BorrowedFd<'_>) -> Result<Option<File>, Trouble> {
    let of_input = |error: io::Error| Trouble::of_input(name, error);
    if name == "-" {
        let stdin = rustix::stdio::stdin();
        sys::check_open(stdin).map_err(of_input)?;
        return check(name, stdin, stdout).map(|()| None);
    }
    let status = rustix::fs::stat(name).map_err(|errno| of_input(errno.into()))?;
    if FileType::from_raw_mode(status.st_mode) == FileType::Fifo {
        let access = rustix::fs::accessat(CWD, name, Access::READ_OK, AtFlags::EACCESS);
        return access
            .map(|()| None)
            .map_err(|errno| of_input(errno.into()));
    }
    let file = File::open(name).map_err(of_input)?;
    check(name, file.as_fd(), stdout)?;
    Ok(Some(file))
}

/// Whether it can be copied, as far as can be told without taking anything from it.
fn check(name: &OsStr, input: BorrowedFd<'_>, stdout: BorrowedFd<'_>) -> Result<(), Trouble> {
    match Transfer::new(&input, &stdout).plan() {
        Err(error) if is_pair_refused(&error) => {
            let relation = own_output::relation(input, stdout);
            if relation.map_err(|error| Trouble::of_input(name, error))? == Relation::Growing {
                return Err(Trouble::feeds_itself(name));
            }
        }
        // Of standard output it is told when there is something to write.
        Err(error) if error.side() != Side::Sink => return Err(Trouble::of(name, &error)),
        _ => {}
    }
    can_be_read(input).map_err(|error| Trouble::of_input(name, exit::cause(&error)))
}
