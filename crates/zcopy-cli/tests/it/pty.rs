//! Pseudo-terminals.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// What ends the input at the start of a line.
pub(crate) const CONTROL_D: &[u8] = b"\x04";

/// Both ends of a new terminal: the keyboard and screen, and what programs see.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user = openpt(flags).unwrap();
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (
        File::from(user),
        rustix::fs::open(name, flags, Mode::empty()).unwrap(),
    )
}
