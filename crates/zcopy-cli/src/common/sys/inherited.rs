//! The state that this process inherited from its parent.
//!
//! Rust's runtime changes three things before `main`: it ignores `SIGPIPE`, it opens `/dev/null` in
//! place of standard descriptors that are closed, and it forgets what was there. A function in
//! `.init_array` runs earlier and takes note, so that [`restore_inherited`] can undo it.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use super::descriptors::close;
use super::pending::{block_signal, is_blocked, unblock_signal};
use super::signals::{is_ignored, reset};

/// The bits of [`INHERITED`].
const STDIN_IS_CLOSED: u8 = 1;

const STDOUT_IS_CLOSED: u8 = 2;

const SIGPIPE_IS_IGNORED: u8 = 4;

const SIGXFSZ_IS_IGNORED: u8 = 8;

const SIGTTOU_IS_IGNORED: u8 = 16;

const SIGTSTP_IS_BLOCKED: u8 = 32;

/// The signals that this process or Rust's runtime may set to be ignored, which new programs would
/// inherit.
const IGNORABLE: [(libc::c_int, u8); 3] = [
    (libc::SIGPIPE, SIGPIPE_IS_IGNORED),
    (libc::SIGXFSZ, SIGXFSZ_IS_IGNORED),
    (libc::SIGTTOU, SIGTTOU_IS_IGNORED),
];

/// The inherited state, as a set of bits.
static INHERITED: AtomicU8 = AtomicU8::new(0);

/// The loader calls every function in this section before `main`, and so before Rust's runtime.
// SAFETY: the section holds pointers to functions that may take no arguments and return nothing,
// and this is one.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = take_note;

extern "C" fn take_note() {
    let mut inherited = 0;
    for (fd, bit) in [
        (libc::STDIN_FILENO, STDIN_IS_CLOSED),
        (libc::STDOUT_FILENO, STDOUT_IS_CLOSED),
    ] {
        // SAFETY: asking for a descriptor's flags touches no memory.
        let is_refused = unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1;
        // A seccomp filter may refuse the call for an open descriptor.
        if is_refused && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            inherited |= bit;
        }
    }
    for (signal, bit) in IGNORABLE {
        if is_ignored(signal) {
            inherited |= bit;
        }
    }
    if is_blocked(libc::SIGTSTP) {
        inherited |= SIGTSTP_IS_BLOCKED;
    }
    INHERITED.store(inherited, Ordering::Relaxed);
}

/// Undoes the changes of Rust's runtime before `main`: closes standard input and output again if
/// they were closed, and restores the default action of `SIGPIPE` unless the parent had it ignored.
///
/// Standard error stays open on `/dev/null`, so that no file gets its number and the messages.
///
/// This must be called before anything is opened.
pub fn restore_inherited() {
    // This use keeps the function in the program even if the linker drops the section.
    std::hint::black_box(&BEFORE_MAIN);
    let inherited = INHERITED.load(Ordering::Relaxed);
    for (fd, bit) in [
        (libc::STDIN_FILENO, STDIN_IS_CLOSED),
        (libc::STDOUT_FILENO, STDOUT_IS_CLOSED),
    ] {
        if inherited & bit != 0 {
            // The descriptor was closed at the start: nothing is lost if this fails.
            // SAFETY: this is before anything else has been done, so that no code knows of the
            // descriptor.
            let _ = unsafe { close(fd) };
        }
    }
    if inherited & SIGPIPE_IS_IGNORED == 0 {
        reset(libc::SIGPIPE);
    }
}

/// Restores, in a program to be run, the ignored signals that this process inherited, and whether
/// `SIGTSTP` was blocked.
pub fn give_signals_back(command: &mut Command) {
    let inherited = INHERITED.load(Ordering::Relaxed);
    let give_back = move || {
        for (signal, bit) in IGNORABLE {
            let action = if inherited & bit == 0 {
                libc::SIG_DFL
            } else {
                libc::SIG_IGN
            };
            // SAFETY: neither action runs code of this process.
            unsafe { libc::signal(signal, action) };
        }
        if inherited & SIGTSTP_IS_BLOCKED == 0 {
            unblock_signal(libc::SIGTSTP);
        } else {
            block_signal(libc::SIGTSTP);
        }
        Ok(())
    };
    // SAFETY: between fork(2) and execve(2) only calls on signals and their sets are made, which
    // signal-safety(7) allows there.
    unsafe { command.pre_exec(give_back) };
}
