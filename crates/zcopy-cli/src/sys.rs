//! What a tool needs of the C library: the state its parent left it, and the locale's opinion of a
//! character.
//!
//! Rust's runtime changes three things before `main`: it ignores `SIGPIPE`, it opens `/dev/null` in
//! place of standard descriptors that are closed, and it forgets what was there. A function in
//! `.init_array` runs earlier and takes note, so that [`as_the_parent_left_it`] can undo it.

#![allow(
    unsafe_code,
    reason = "the one file of this crate that calls C; every block says why it is sound"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// The bits of [`INHERITED`].
const STDIN_IS_CLOSED: u8 = 1;
const STDOUT_IS_CLOSED: u8 = 2;
const SIGPIPE_IS_IGNORED: u8 = 4;
const SIGXFSZ_IS_IGNORED: u8 = 8;
const SIGTTOU_IS_IGNORED: u8 = 16;

/// The signals that this process or Rust's runtime may set to be ignored, which new programs would inherit.
const IGNORABLE: [(libc::c_int, u8); 3] = [
    (libc::SIGPIPE, SIGPIPE_IS_IGNORED),
    (libc::SIGXFSZ, SIGXFSZ_IS_IGNORED),
    (libc::SIGTTOU, SIGTTOU_IS_IGNORED),
];

/// What the process was born with.
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
        // A filter may refuse the call itself, of a descriptor that is open.
        if is_refused && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) {
            inherited |= bit;
        }
    }
    for (signal, bit) in IGNORABLE {
        if is_ignored(signal) {
            inherited |= bit;
        }
    }
    INHERITED.store(inherited, Ordering::Relaxed);
}

/// Undoes what Rust's runtime did before `main`: closes standard input and output again if they
/// were closed, and lets `SIGPIPE` end the process unless the parent had it ignored.
///
/// Standard error is left open on `/dev/null`, so that no file comes to stand there and gets the
/// messages.
///
/// To be called first, while nothing has been opened.
pub fn as_the_parent_left_it() {
    // The use keeps the function in the program whatever the linker makes of the section.
    std::hint::black_box(&BEFORE_MAIN);
    let inherited = INHERITED.load(Ordering::Relaxed);
    for (fd, bit) in [
        (libc::STDIN_FILENO, STDIN_IS_CLOSED),
        (libc::STDOUT_FILENO, STDOUT_IS_CLOSED),
    ] {
        if inherited & bit != 0 {
            // It was closed to begin with: nothing is lost if this fails.
            // SAFETY: this is before anything else has been done, so that nobody knows of it.
            let _ = unsafe { close(fd) };
        }
    }
    if inherited & SIGPIPE_IS_IGNORED == 0 {
        reset(libc::SIGPIPE);
    }
}

/// Has a signal do what it does to a process that never asked for it.
pub fn reset(signal: i32) {
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

/// Has calls that sleep fail with `EINTR` when this signal, which has a handler, is handled, rather than sleep on.
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

/// Lets all threads share one heap. glibc maps 128 MiB of addresses for the first allocation of each thread, and cuts
/// them to size, which takes longer than all that a short-lived thread does.
pub fn share_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes no pointers and sets a number of the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// A thread of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The calling thread.
    ///
    /// Rust's standard library refers to `gettid(3)` weakly, so that a program that is linked statically against musl with
    /// LTO is linked without it, and would call a null pointer.
    pub(crate) fn current() -> Self {
        // SAFETY: the call takes no pointers and always succeeds.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        // The kernel's thread numbers are of this type.
        Self(id as libc::pid_t)
    }

    /// Sends it a signal that has a handler. If the thread has ended, nothing happens.
    pub(crate) fn interrupt(self, signal: i32) {
        // SAFETY: the calls take no pointers. The kernel sees to it that the thread is one of this process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal) };
    }
}

/// Has a program ignore what this one's parent had it ignore, and no more.
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
        Ok(())
    };
    // SAFETY: between fork(2) and execve(2) only signal(2) is called, which may be there.
    unsafe { command.pre_exec(give_back) };
}

/// Has something stand where a standard descriptor was closed, so that nothing that is opened comes to stand
/// there and is taken for it. It can be neither read nor written: that fails as if it were closed.
///
/// # Errors
///
/// What `open(2)` says.
pub fn hold_closed_descriptors() -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    for fd in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
        if rustix::io::fcntl_getfd(fd) == Err(rustix::io::Errno::BADF) {
            // The lowest free number is given away first, and it is this one.
            let stand_in = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let _ = stand_in.into_raw_fd();
        }
    }
    Ok(())
}

/// Asks for as many descriptors as may be had: the usual 1024 are fewer than a command line may name, or a tree is deep.
pub fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit};
    let Some(limits) = descriptor_limits() else {
        return;
    };
    let most = (limits.rlim_max != libc::RLIM_INFINITY).then_some(limits.rlim_max);
    let wanted = Rlimit {
        current: most,
        maximum: most,
    };
    // Where it is refused, opening one too many says so.
    let _ = rustix::process::setrlimit(Resource::Nofile, wanted);
}

/// How many descriptors this process may have open: the usual 1024 where the kernel does not tell.
pub(crate) fn most_descriptors() -> usize {
    let limit = descriptor_limits().map_or(1024, |limits| limits.rlim_cur);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// `RLIMIT_NOFILE`, unless a filter refuses the call, of which rustix expects that it succeeds.
fn descriptor_limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills the struct that it is given.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limits) };
    (answer == 0).then_some(limits)
}

/// Sees whether a descriptor can be used at all.
///
/// # Errors
///
/// `EBADF`, if it is closed or stands in for one that is.
pub fn check_open(fd: BorrowedFd<'_>) -> io::Result<()> {
    if rustix::fs::fcntl_getfl(fd)?.contains(rustix::fs::OFlags::PATH) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(())
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

/// Makes an interrupt from the terminal mean nothing.
pub fn ignore_sigint() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Lets a process in the background write to its terminal, and set it, even where the terminal is told to
/// stop those that do.
pub fn ignore_sigttou() {
    // SAFETY: ignoring a signal runs no code of this process.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
}

/// Whether a signal means nothing to this process, as `nohup` and shells without job control see to.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a value of this plain struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no new action is given, and the old one goes to a struct that outlives the call.
    let answer = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    answer == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Has a signal do what it does to a process that never asked for it, and returns when that is over.
///
/// Of signals that stop, the kernel alone knows whether anybody is there to continue the process; if not,
/// they do nothing.
pub fn by_default(signal: i32) {
    // SAFETY: all zeros is a value of this plain struct.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above: zeros are the default action, an empty mask and no flags.
    let default: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs outlive the call, and the default action runs no code of this process.
    if unsafe { libc::sigaction(signal, &raw const default, &raw mut ours) } == 0 {
        // SAFETY: the call takes no pointers. It speaks to this thread, so that the signal has had its
        // effect when it returns.
        unsafe { libc::raise(signal) };
        // SAFETY: the action is the one that was in force until now.
        unsafe { libc::sigaction(signal, &raw const ours, std::ptr::null_mut()) };
    }
}

/// Takes a byte of a file for as long as the file is open, or says that somebody else has it.
///
/// The lock belongs to the open file, so that it ends with the process, however that ends.
///
/// # Errors
///
/// What `fcntl(2)` says, but for the byte being taken.
pub fn hold_byte(file: BorrowedFd<'_>, offset: i32) -> io::Result<bool> {
    let mut lock = lock_of_byte(offset);
    // SAFETY: the struct outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw mut lock) } {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Whether somebody who has opened the file apart from us holds this byte of it.
///
/// # Errors
///
/// What `fcntl(2)` says.
pub fn is_byte_held(file: BorrowedFd<'_>, offset: i32) -> io::Result<bool> {
    let mut lock = lock_of_byte(offset);
    // SAFETY: the struct outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        0 => Ok(lock.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

fn lock_of_byte(offset: i32) -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset.into(),
        l_len: 1,
        l_pid: 0,
    }
}

/// Duplicates a descriptor that this process was started with, above the standard ones. Programs that this process runs
/// inherit neither.
///
/// # Errors
///
/// `EBADF` if it is closed.
pub(crate) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: neither call touches memory.
    let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if own == -1 {
        return Err(io::Error::last_os_error());
    }
    if fd > libc::STDERR_FILENO {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: the descriptor is new, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// Closes a file that was written to.
///
/// # Errors
///
/// What `close(2)` says, which dropping the file keeps to itself. Over a network that can be the first
/// word of a write that failed. The file is closed all the same.
pub fn close_file(file: OwnedFd) -> io::Result<()> {
    // SAFETY: the owner has just let go of it.
    unsafe { close(file.into_raw_fd()) }
}

/// Closes standard input, which nothing may read afterwards.
///
/// # Errors
///
/// What `close(2)` says: on some file systems, that an earlier call failed.
pub(crate) fn close_stdin() -> io::Result<()> {
    // SAFETY: nobody owns a standard descriptor, and the tools use none after this.
    unsafe { close(libc::STDIN_FILENO) }
}

/// Closes standard output, to which nothing may be written afterwards.
///
/// # Errors
///
/// What `close(2)` says. Over a network that can be the first word of a write that failed.
pub(crate) fn close_stdout() -> io::Result<()> {
    // SAFETY: nobody owns a standard descriptor, and the tools use none after this.
    unsafe { close(libc::STDOUT_FILENO) }
}

/// Closes a descriptor.
///
/// # Safety
///
/// Nobody may own it, and nobody may use it again.
unsafe fn close(fd: RawFd) -> io::Result<()> {
    // SAFETY: the call takes no pointers; the caller vouches for the descriptor.
    match unsafe { libc::close(fd) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the user's locale can print this character.
///
/// Of the locales only those in UTF-8 are asked; in any other, ASCII alone counts as printable.
#[must_use]
pub fn is_printable(character: char) -> bool {
    // Of <wctype.h>, and not in the `libc` crate.
    unsafe extern "C" {
        fn iswprint_l(character: libc::c_uint, locale: libc::locale_t) -> libc::c_int;
    }
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    locale().is_some_and(|locale| {
        // SAFETY: the function takes any value of `wint_t`, and on Linux that is a Unicode scalar. The locale
        // is never freed.
        locale.is_utf8 && unsafe { iswprint_l(character.into(), locale.handle) } != 0
    })
}

/// Whether the user's locale is in UTF-8.
#[must_use]
pub fn locale_is_utf8() -> bool {
    locale().is_some_and(|locale| locale.is_utf8)
}

/// The user's locale, as far as it speaks of characters. It is no thread's: `setlocale(3)` would change it
/// under the hands of the others.
struct Locale {
    handle: libc::locale_t,
    is_utf8: bool,
}

// SAFETY: nobody changes the locale or frees it, and to read one is safe in every thread (`locale(7)`).
unsafe impl Send for Locale {}
// SAFETY: as above.
unsafe impl Sync for Locale {}

/// The user's locale, if there is one of that name. It is loaded when this is first asked, which most runs of
/// a tool never do.
fn locale() -> Option<&'static Locale> {
    static LOCALE: OnceLock<Option<Locale>> = OnceLock::new();
    let locale = LOCALE.get_or_init(|| {
        let (mask, none) = (libc::LC_CTYPE_MASK, std::ptr::null_mut());
        // SAFETY: the string ends in NUL, and there is no locale to begin with.
        let handle = unsafe { libc::newlocale(mask, c"".as_ptr(), none) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: the locale is there, and with it the string, for as long as the process.
        let codeset = unsafe { CStr::from_ptr(libc::nl_langinfo_l(libc::CODESET, handle)) };
        Some(Locale {
            handle,
            is_utf8: codeset == c"UTF-8",
        })
    });
    locale.as_ref()
}
