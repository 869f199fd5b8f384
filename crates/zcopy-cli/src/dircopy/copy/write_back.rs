//! Begins to write copies to the disk while the rest of the tree is read. The kernel alone would
//! let gigabytes wait, and a run ends when all of them are on the disk.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, Scope};

use super::file::AtomicFile;
use crate::common::sys::begin_write_back;
use crate::dircopy::write::file_system::Storage;

/// The number of bytes of a file that wait in the page cache until they begin to be written to the
/// disk: 8 MiB.
const STEP: u64 = 8 << 20;

/// A file of this size or more begins to be written when its last byte has been copied: 1 MiB. The
/// kernel brings shorter ones together.
const LONG: u64 = 1 << 20;

/// A thread that begins to write files to the disk.
///
/// The call that begins it waits while the queue of the disk is full. Copies wait for the thread
/// only if many files do, so that the source is read on while the disk stalls.
#[derive(Debug)]
pub(crate) struct WriteBackThread {
    /// `None` without a thread: copies then make the calls themselves.
    queue: Option<SyncSender<OwnedFd>>,
}

impl WriteBackThread {
    /// Starts the thread. At most `n_queued` descriptors wait; without any, there is no thread.
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, n_queued: usize) -> Self {
        if n_queued == 0 {
            return Self { queue: None };
        }
        let (queue, files): (_, Receiver<OwnedFd>) = sync_channel(n_queued);
        let begin_each = move || {
            for file in files {
                begin_write_back(file.as_fd());
            }
        };
        let started = thread::Builder::new().spawn_scoped(scope, begin_each);
        Self {
            queue: started.is_ok().then_some(queue),
        }
    }

    /// Follows a copy that is being written.
    pub(super) fn follow<'a>(&'a self, file: &'a AtomicFile) -> FileWriteBack<'a> {
        // A duplicate takes part in what a server reports when a file is closed.
        let is_local = Storage::of(file.as_fd()) == Storage::Disk;
        FileWriteBack {
            queue: self.queue.as_ref().filter(|_| is_local),
            file: file.as_fd(),
            n_waiting: 0,
        }
    }
}

/// Begins to write one copy to the disk, again and again.
pub(super) struct FileWriteBack<'a> {
    queue: Option<&'a SyncSender<OwnedFd>>,
    file: BorrowedFd<'a>,
    /// The number of bytes since the last beginning.
    n_waiting: u64,
}

impl FileWriteBack<'_> {
    /// Counts bytes that are copied.
    pub(super) fn add(&mut self, n: u64) {
        self.n_waiting += n;
        if self.n_waiting < STEP {
            return;
        }
        self.n_waiting = 0;
        let Some(queue) = self.queue else {
            return begin_write_back(self.file);
        };
        if let Ok(file) = self.file.try_clone_to_owned() {
            // If the queue is full, the next step or the end covers this one.
            let _: Result<(), TrySendError<_>> = queue.try_send(file);
        }
    }

    /// Begins to write the rest of a copy that has `n_bytes`.
    pub(super) fn finish(self, n_bytes: u64) {
        if n_bytes < LONG {
            return;
        }
        let file = self.queue.and_then(|queue| {
            let file = self.file.try_clone_to_owned().ok()?;
            queue.send(file).ok()
        });
        if file.is_none() {
            begin_write_back(self.file);
        }
    }
}
