//! Reading ahead: a long file is read by a thread of its own, while what it has read is filtered.

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
use crate::sys::{Blocking, Kernel};

/// How many reads may be done before they are asked for, and the one that is at work. Measured over 1 GiB: 0.22 s with
/// four of 256 KiB, 0.44 with four of 64, 0.34 without the thread.
const INPUT_BUFFERS: usize = 4;

/// The longest read, in bytes. The reading thread needs reads of this length: to wake the other
/// thread takes as long as moving 64 KiB.
pub(crate) const READ: usize = 256 << 10;

/// How many bytes a filter may leave pending before it is told that there is no space for more.
const HELD: usize = 64 << 10;

/// From how many bytes on it repays the thread.
pub(crate) const LONG: u64 = 1 << 20;

/// A thread that reads.
pub(crate) struct ReadAhead<'scope> {
    /// What it has read, in order, and what it met then.
    read: Receiver<(Buffer, Result<Step, CallError>)>,
    spare: SyncSender<Buffer>,
    is_unwanted: Arc<AtomicBool>,
    /// Returns what it has taken of the source and not read.
    thread: ScopedJoinHandle<'scope, Vec<u8>>,
}

/// A buffer for one read, and in front of it for bytes of earlier reads that the filter has not
/// taken.
pub(crate) fn input_buffer() -> Buffer {
    Buffer::with_head_room(HELD, READ)
}

/// Whether the source is long, and reading it never waits for somebody else: a thread that does cannot be called off.
pub(crate) fn is_worth_it(source: &FdInfo) -> bool {
    let left = plan::remaining(source, &Options::default());
    source.is_seekable() && left.is_some_and(|left| left >= LONG)
}

/// Whether another thread can run beside this one. To ask costs a look at the files that limit this process.
pub(crate) fn has_processor() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)
}

/// Starts to read. None if there is no thread to be had.
pub(crate) fn start<'scope, K: Kernel + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    kernel: K,
    source: Endpoint<'scope>,
) -> Option<ReadAhead<'scope>> {
    let (fill, read) = sync_channel(INPUT_BUFFERS);
    let (spare, empty) = sync_channel(INPUT_BUFFERS);
    for _ in 0..INPUT_BUFFERS {
        spare.send(input_buffer()).ok()?;
    }
    let is_unwanted = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_unwanted);
    let reading = move || read_all(&kernel, source, &empty, &fill, &told);
    let name = "zcopy-reader".to_owned();
    let thread = Builder::new().name(name).spawn_scoped(scope, reading);
    Some(ReadAhead {
        read,
        spare,
        is_unwanted,
        thread: thread.ok()?,
    })
}

/// Reads until the end, an error, or nobody wants more. Returns the bytes that a read which failed had reserved, if others
/// have moved the cursor on from there.
pub(super) fn read_all<K: Kernel>(
    kernel: &K,
    mut source: Endpoint<'_>,
    empty: &Receiver<Buffer>,
    filled: &SyncSender<(Buffer, Result<Step, CallError>)>,
    is_unwanted: &AtomicBool,
) -> Vec<u8> {
    read_on(kernel, &mut source, empty, filled, is_unwanted);
    if source.release(kernel) {
        Vec::new()
    } else {
        source.read_reserved(kernel)
    }
}

fn read_on<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    empty: &Receiver<Buffer>,
    filled: &SyncSender<(Buffer, Result<Step, CallError>)>,
    is_unwanted: &AtomicBool,
) {
    let mut reopened = Reopened::default();
    while let Ok(mut chunk) = empty.recv() {
        // There may be other input buffers yet that it was given before.
        if is_unwanted.load(Ordering::Relaxed) {
            return;
        }
        let mut draw = || {
            let room = chunk.spare_mut(READ);
            buffered::draw(kernel, source, &mut reopened, room, Blocking::MaySleep)
        };
        let mut step = draw();
        while step == Ok(Step::Interrupted) {
            step = draw();
        }
        if let Ok(Step::Moved(n)) = step {
            chunk.fill(n as usize);
        }
        let goes_on = matches!(step, Ok(Step::Moved(_)));
        if filled.send((chunk, step)).is_err() || !goes_on {
            return;
        }
    }
}

impl ReadAhead<'_> {
    /// The next input buffer, and what came of reading it. None if the thread has stopped.
    pub(crate) fn next(&self) -> Option<(Buffer, Result<Step, CallError>)> {
        self.read.recv().ok()
    }

    /// Gives an input buffer back that is done with.
    pub(crate) fn reuse(&self, chunk: Buffer) {
        // If the thread has stopped, it has no use for it.
        let _ = self.spare.send(chunk);
    }

    /// Stops the thread, and returns the bytes that it has read and nobody has been given.
    pub(crate) fn stop(self) -> Vec<u8> {
        self.is_unwanted.store(true, Ordering::Relaxed);
        drop(self.spare);
        let mut bytes = Vec::new();
        for (chunk, _) in &self.read {
            bytes.extend_from_slice(chunk.pending());
        }
        let reserved = self.thread.join();
        bytes.append(&mut reserved.unwrap_or_else(|panic| resume_unwind(panic)));
        bytes
    }
}
