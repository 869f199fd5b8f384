//! The modes of the terminal during a query.

use std::io;
use std::os::fd::OwnedFd;

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use super::Tty;

/// The modes of the terminal during a query, without echo and line editing, and those before it.
#[derive(Debug)]
pub(super) struct QueryModes {
    before: Termios,
    during: Termios,
}

impl Tty {
    /// Turns echo and line editing off.
    pub(super) fn begin_query(&self) -> io::Result<QueryModes> {
        let before = rustix::termios::tcgetattr(&self.fd)?;
        let mut during = before.clone();
        during.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
        // A read returns after one byte.
        during.special_codes[SpecialCodeIndex::VMIN] = 1;
        during.special_codes[SpecialCodeIndex::VTIME] = 0;
        set_modes(&self.fd, &during)?;
        Ok(QueryModes { before, during })
    }

    /// Restores the modes before the query. In the background they stay if another process has
    /// changed them since: the shell has set its own.
    ///
    /// The test is the last call before the change. No system call does both at once.
    pub(super) fn end_query(&mut self, modes: QueryModes) {
        if self.is_foreground() || self.has_modes_of(&modes) {
            // If this fails the terminal has gone.
            let _ = set_modes(&self.fd, &modes.before);
        } else {
            self.left_modes = Some(modes);
        }
    }

    /// Restores the modes before a query that ended in the background, if the process is in the
    /// foreground again. Some shells give a job the modes that it had when it stopped.
    pub fn restore_modes(&mut self) {
        if self.left_modes.is_some()
            && self.is_foreground()
            && let Some(modes) = self.left_modes.take()
            && self.has_modes_of(&modes)
        {
            let _ = set_modes(&self.fd, &modes.before);
        }
    }

    /// Returns whether the terminal still has the modes of a query.
    fn has_modes_of(&self, query: &QueryModes) -> bool {
        // A shell that edits its line turns echo off, too, but has other input modes.
        rustix::termios::tcgetattr(&self.fd).is_ok_and(|now| {
            now.local_modes == query.during.local_modes
                && now.input_modes == query.during.input_modes
                && now.output_modes == query.during.output_modes
        })
    }
}

/// Sets the modes at once, because a stopped terminal never drains.
fn set_modes(fd: &OwnedFd, modes: &Termios) -> io::Result<()> {
    Ok(rustix::termios::tcsetattr(fd, OptionalActions::Now, modes)?)
}
