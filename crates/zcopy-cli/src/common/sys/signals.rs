//! Signal actions of this process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use signal_hook::low_level::{emulate_default_handler, register};

/// Signals that come within this time of the first one are one with it: timeout(1) signals the
/// process, and then its group, to which the process belongs.
const ONE_SIGNAL: Duration = Duration::from_millis(100);

/// When the first of several signals came.
#[derive(Debug, Default)]
pub(crate) struct FirstSignal {
    /// In nanoseconds of the monotonic clock, or 0.
    time: AtomicU64,
}

impl FirstSignal {
    /// Notes a signal. Returns whether it is another one than the first.
    fn is_followed(&self) -> bool {
        let now = u64::try_from(now().as_nanos()).unwrap_or(u64::MAX).max(1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        match self.time.compare_exchange(0, now, set, get) {
            Ok(_) => false,
            Err(first) => Duration::from_nanos(now.saturating_sub(first)) > ONE_SIGNAL,
        }
    }
}

/// The time of the monotonic clock.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    Duration::new(
        now.tv_sec.unsigned_abs(),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

/// Makes this signal take its default action if it follows another one of those that share `first`.
///
/// # Errors
///
/// The signal cannot be caught.
pub(crate) fn end_on_second(signal: i32, first: &Arc<FirstSignal>) -> io::Result<()> {
    let first = Arc::clone(first);
    let action = move || {
        if first.is_followed() {
            // It fails for unknown signals only.
            let _ = emulate_default_handler(signal);
        }
    };
    // SAFETY: the action uses an atomic, reads a clock, and sets and raises a signal.
    // signal-safety(7) allows each in a handler.
    unsafe { register(signal, action) }.map(drop)
}

/// Restores the default action of a signal.
pub fn reset(signal: i32) {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Makes blocking calls fail with `EINTR` when this signal is handled, instead of restarting them.
/// The signal must have a handler.
pub(crate) fn do_not_restart_calls(signal: i32) {
    // SAFETY: the struct is plain data, for which zeros are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the struct outlives the call, which changes nothing else.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } == 0 {
        action.sa_flags &= !libc::SA_RESTART;
        // SAFETY: the handler is the one that was in force until now.
        unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}

/// Makes a write beyond `RLIMIT_FSIZE` fail with `EFBIG` instead of ending the process.
pub fn ignore_sigxfsz() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes a write to a pipe whose reader has gone fail with `EPIPE` instead of ending the process.
pub fn ignore_sigpipe() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Ignores `SIGINT`, which ^C sends.
pub fn ignore_sigint() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Ignores `SIGTTOU`, so that a background process can write to its terminal and set its modes even
/// if `tostop` is set.
pub fn ignore_sigttou() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// Returns whether a signal is ignored, for example because of `nohup`.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is given, and the old one goes to a struct that outlives the call.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Raises a signal with its default action, and returns if the process goes on.
///
/// The kernel ignores a signal that stops the process if no other process could continue it.
pub fn raise_default(signal: i32) {
    // SAFETY: all zeros is a value of this plain struct.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above: zeros are the default action, an empty mask and no flags.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs outlive the call, and the default action runs no code of this process.
    if unsafe { libc::sigaction(signal, &raw const default, &raw mut ours) } == 0 {
        // SAFETY: the call takes no pointers. It speaks to this thread, so that the signal has had
        // its effect when it returns.
        unsafe { libc::raise(signal) };
        // SAFETY: the action is the one that was in force until now.
        unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) };
    }
}
