//! Threads of this process, and their heap.

/// Makes all threads share one heap. Otherwise glibc maps and trims 128 MiB of addresses for the
/// first allocation of each thread, which takes longer than all work of a short-lived thread.
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
    /// Returns the calling thread.
    ///
    /// Rust's standard library refers to `gettid(3)` weakly, so that a program that is linked
    /// statically against musl with LTO is linked without it, and would call a null pointer.
    pub(crate) fn current() -> Self {
        // SAFETY: the call takes no pointers and always succeeds.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        // The kernel's thread numbers are of this type.
        Self(id as libc::pid_t)
    }

    /// Sends the thread a signal that has a handler. Does nothing if the thread has ended.
    pub(crate) fn interrupt(self, signal: i32) {
        // SAFETY: the calls take no pointers. The kernel sees to it that the thread is one of this
        // process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal) };
    }
}
