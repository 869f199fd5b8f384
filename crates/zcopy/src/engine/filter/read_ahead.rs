//! Reading ahead: one thread reads a long file, while another filters what it has read.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::buffer::Buffer;
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fd_info::FdInfo;
use crate::options::Options;
use crate::plan;
use crate::reopened::Reopened;
use crate::step::{Step, buffered};
use crate::sys::{self, Blocking, Errno, Kernel};

/// How many buffers the threads share: those that wait for the filter, and the one that is being
/// filled. Measured over 1 GiB: 0.22 s with four of 256 KiB, 0.44 with four of 64, 0.34 without the
/// thread.
const INPUT_BUFFERS: usize = 4;

/// The longest read, in bytes. Waking the other thread takes as long as moving 64 KiB, so that
/// shorter reads do not repay a thread.
pub(crate) const READ: usize = 256 << 10;

/// How many bytes a filter may leave pending before it is told that its input is full.
const HELD: usize = 64 << 10;

/// The length from which a source repays the thread, in bytes.
pub(crate) const LONG: u64 = 1 << 20;

/// The stack of the thread, in bytes. Its calls are few.
const STACK_BYTES: usize = 256 << 10;

/// The memory that a thread takes when it starts, beside its stack, in bytes, with some to spare: the
/// stack of its signal handler, a heap of the allocator (132 KiB in glibc), and as much again for the
/// heap of the thread that starts it.
const THREAD_START_BYTES: usize = 512 << 10;

/// A reading thread.
pub(crate) struct ReadAhead<'scope> {
    /// The buffers that it has filled, in order, each with the result of its read.
    read: Receiver<(Buffer, Result<Step, CallError>)>,
    spare: SyncSender<Buffer>,
    is_stopped: Arc<AtomicBool>,
    /// Empty, with memory for all buffers: [`stop`](Self::stop) must not ask for memory.
    unused: Vec<Buffer>,
    /// Returns the bytes that the thread has reserved in the source and not read.
    thread: ScopedJoinHandle<'scope, Vec<u8>>,
}

/// Returns a buffer for one read, with head room for the bytes of earlier reads that the filter has
/// not consumed.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn input_buffer() -> Result<Buffer, Errno> {
    Buffer::with_head_room(HELD, READ)
}

/// Whether the source is long, and a read of it never waits for another process: a thread that
/// waits so could not be stopped.
pub(crate) fn is_worth_it(source: &FdInfo) -> bool {
    let left = plan::remaining(source, &Options::default());
    source.is_seekable() && left.is_some_and(|left| left >= LONG)
}

/// Whether a second processor is available. The answer costs several calls, which read the limits
/// of this process's control group.
pub(crate) fn has_processor() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)
}

/// The bytes that a stopped thread has read, and that [`ReadAhead::next`] has not returned.
#[derive(Debug, Default)]
pub(crate) struct Unused {
    buffers: Vec<Buffer>,
    /// The bytes behind them, which the thread has reserved in the source and not read.
    pub(crate) reserved: Vec<u8>,
}

impl Unused {
    /// Returns the parts, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let read = self.buffers.iter().map(Buffer::pending);
        read.chain(std::iter::once(&self.reserved[..]))
    }
}

/// Starts to read. `None` if no thread can be started, or memory is refused.
///
/// A thread that gets too little memory when it starts ends the process, or hangs: Rust and the C
/// library cannot report that. The memory is there before the start. Other threads of the process may
/// take it in between.
pub(crate) fn start<'scope, K: Kernel + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    kernel: K,
    source: Endpoint<'scope>,
) -> Option<ReadAhead<'scope>> {
    let (filled, read) = sync_channel(INPUT_BUFFERS);
    let (spare, empty) = sync_channel(INPUT_BUFFERS);
    for _ in 0..INPUT_BUFFERS {
        spare.send(input_buffer().ok()?).ok()?;
    }
    let mut unused = Vec::new();
    unused.try_reserve_exact(INPUT_BUFFERS).ok()?;
    if !sys::is_memory_left(STACK_BYTES + THREAD_START_BYTES) {
        return None;
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    let thread_is_stopped = Arc::clone(&is_stopped);
    let reading = move || read_all(&kernel, source, &empty, &filled, &thread_is_stopped);
    let name = "zcopy-reader".to_owned();
    let builder = Builder::new().name(name).stack_size(STACK_BYTES);
    let thread = builder.spawn_scoped(scope, reading);
    Some(ReadAhead {
        read,
        spare,
        is_stopped,
        unused,
        thread: thread.ok()?,
    })
}

/// Reads until the end of the source, an error, or [`ReadAhead::stop`]. Returns the bytes that a
/// failed read had reserved, if the cursor was moved by others meanwhile.
pub(super) fn read_all<K: Kernel>(
    kernel: &K,
    mut source: Endpoint<'_>,
    empty: &Receiver<Buffer>,
    filled: &SyncSender<(Buffer, Result<Step, CallError>)>,
    is_stopped: &AtomicBool,
) -> Vec<u8> {
    read_on(kernel, &mut source, empty, filled, is_stopped);
    let mut reserved = Vec::new();
    if !source.release(kernel) {
        source.read_reserved(kernel, &mut reserved);
    }
    reserved
}

fn read_on<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    empty: &Receiver<Buffer>,
    filled: &SyncSender<(Buffer, Result<Step, CallError>)>,
    is_stopped: &AtomicBool,
) {
    let mut reopened = Reopened::default();
    while let Ok(mut buffer) = empty.recv() {
        // More empty buffers may have been sent before the stop.
        if is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let mut read = || {
            let room = buffer.spare_mut(READ);
            buffered::read_once(kernel, source, &mut reopened, room, Blocking::MaySleep)
        };
        let mut step = read();
        while step == Ok(Step::Repeat) {
            step = read();
        }
        if let Ok(Step::Moved(n)) = step {
            buffer.fill(n as usize);
        }
        let goes_on = matches!(step, Ok(Step::Moved(_)));
        if filled.send((buffer, step)).is_err() || !goes_on {
            return;
        }
    }
}

impl ReadAhead<'_> {
    /// Returns the next buffer with the result of its read. `None` if the thread has exited.
    pub(crate) fn next(&self) -> Option<(Buffer, Result<Step, CallError>)> {
        self.read.recv().ok()
    }

    /// Returns a consumed buffer to the thread.
    pub(crate) fn reuse(&self, buffer: Buffer) {
        // A thread that has exited needs no buffer.
        let _ = self.spare.send(buffer);
    }

    /// Stops the thread, and returns what it has read and [`next`](Self::next) has not returned.
    pub(crate) fn stop(self) -> Unused {
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(self.spare);
        let mut buffers = self.unused;
        buffers.extend(self.read.iter().map(|(buffer, _)| buffer));
        let reserved = self.thread.join();
        let reserved = reserved.unwrap_or_else(|panic| resume_unwind(panic));
        Unused { buffers, reserved }
    }
}
