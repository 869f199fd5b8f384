//! Signals that the kernel keeps pending until this process lets them take effect.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Blocks a signal in this thread, and in the threads that it starts from now on.
///
/// If all threads block it, the kernel keeps it pending.
pub fn block_signal(signal: i32) {
    change_mask(libc::SIG_BLOCK, signal);
}

/// Undoes [`block_signal`] in this thread. A pending signal takes effect at once.
pub fn unblock_signal(signal: i32) {
    change_mask(libc::SIG_UNBLOCK, signal);
}

/// Lets a signal that is blocked and pending take effect in this thread. Does nothing if it is not
/// pending.
pub fn deliver_pending(signal: i32) {
    if is_pending(signal) {
        // The kernel delivers it before the call returns.
        unblock_signal(signal);
        block_signal(signal);
    }
}

/// Returns whether a signal is blocked in this thread, and was sent to the thread or to the process.
#[must_use]
pub fn is_pending(signal: i32) -> bool {
    let mut pending = empty_set();
    // SAFETY: the set outlives the calls, and the first one fills it in.
    unsafe {
        libc::sigpending(&raw mut pending) == 0
            && libc::sigismember(&raw const pending, signal) == 1
    }
}

/// Returns a descriptor that polls as readable while a signal to the polling thread or to the
/// process is pending.
///
/// # Errors
///
/// Returns the error of `signalfd(2)`.
pub fn signalfd(signal: i32) -> io::Result<OwnedFd> {
    let set = set_of(signal);
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    // SAFETY: the set outlives the call.
    match unsafe { libc::signalfd(-1, &raw const set, flags) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the call has opened the descriptor, and nothing else knows of it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// Returns whether a signal is blocked in this thread.
pub(crate) fn is_blocked(signal: i32) -> bool {
    let mut mask = empty_set();
    // SAFETY: no new mask is given, and the set outlives the calls.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) == 0
            && libc::sigismember(&raw const mask, signal) == 1
    }
}

fn change_mask(how: libc::c_int, signal: i32) {
    let set = set_of(signal);
    // SAFETY: the set outlives the call, which asks for no old mask.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

fn set_of(signal: i32) -> libc::sigset_t {
    let mut set = empty_set();
    // SAFETY: the set outlives the call and is initialized.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    set
}

fn empty_set() -> libc::sigset_t {
    // SAFETY: the struct is plain data, for which zeros are a valid value.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the call.
    unsafe { libc::sigemptyset(&raw mut set) };
    set
}
