//! Starts threads, each only if the kernel has memory for it.
//!
//! A thread that gets too little memory when it starts ends the process by `SIGABRT`, or hangs: Rust
//! and the C library cannot report that.

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use memmap2::MmapOptions;
use rustix::io::Errno;

/// The stack of a thread, in bytes. The deepest one that was measured had 292 KiB, in a development
/// build that read the time zone.
const STACK_BYTES: usize = 1 << 20;

/// The memory that a thread takes when it starts, beside its stack, in bytes, with some to spare:
/// the stack of its signal handler, a heap of the allocator (132 KiB in glibc), and as much again
/// for the heap of the thread that starts it.
const START_BYTES: usize = 512 << 10;

/// Starts a thread, and returns when it has started.
///
/// # Errors
///
/// `ENOMEM` if the kernel has no memory for the thread, or the error of its creation.
pub(crate) fn spawn<T>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
{
    check_memory()?;
    let (work, started) = announced(work);
    let thread = builder().name(name.to_owned()).spawn(work)?;
    wait_for(&started);
    Ok(thread)
}

/// Starts a thread in a scope, and returns when it has started.
///
/// # Errors
///
/// Those of [`spawn`].
pub(crate) fn spawn_scoped<'scope, T>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>>
where
    T: Send + 'scope,
{
    check_memory()?;
    let (work, started) = announced(work);
    let thread = builder().spawn_scoped(scope, work)?;
    wait_for(&started);
    Ok(thread)
}

fn builder() -> Builder {
    Builder::new().stack_size(STACK_BYTES)
}

/// Maps and unmaps the memory of a new thread. The allocator cannot tell whether it is left, because
/// it first gives memory that it has kept.
///
/// # Errors
///
/// `ENOMEM`.
fn check_memory() -> io::Result<()> {
    let memory = MmapOptions::new().len(STACK_BYTES + START_BYTES).map_anon();
    memory.map_err(|_| Errno::NOMEM)?;
    Ok(())
}

/// Makes the work tell when its thread has started.
fn announced<T>(work: impl FnOnce() -> T) -> (impl FnOnce() -> T, Receiver<()>) {
    let (announcement, started) = sync_channel(1);
    let announced = move || {
        // The thread that starts this one waits for it.
        let _ = announcement.send(());
        work()
    };
    (announced, started)
}

/// Waits until a thread has started, so that this thread does not take the memory that was found for
/// it. Only others can.
fn wait_for(started: &Receiver<()>) {
    let _ = started.recv();
}
