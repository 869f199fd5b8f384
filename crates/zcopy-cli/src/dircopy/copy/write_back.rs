//! Begins to write copies to the disk while the rest of the tree is read. The kernel alone would
//! let gigabytes wait, and a run ends when all of them are on the disk.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Scope;

use anyhow::anyhow;
use rustix::io::Errno;

use super::file::AtomicFile;
use crate::common::sys::begin_write_back;
use crate::common::threads;
use crate::dircopy::reporter::Reporter;
use crate::dircopy::walk::Entry;
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
pub(crate) struct WriteBackThread<'a> {
    /// `None` without a thread: copies then make the calls themselves.
    queue: Option<SyncSender<Queued>>,
    reporter: &'a Reporter<'a>,
}

/// A duplicate descriptor of a copy, and the copy's name.
type Queued = (OwnedFd, Arc<CopyName>);

/// The path of a copy, to report that it may not be on the disk.
#[derive(Debug)]
struct CopyName {
    path: PathBuf,
    /// Whether this has been reported.
    is_reported: AtomicBool,
}

impl CopyName {
    /// Begins to write the copy. The kernel reports an error of this call nowhere else.
    fn begin(&self, file: BorrowedFd<'_>, reporter: &Reporter<'_>) {
        if let Err(error) = begin_write_back(file)
            && is_loss(&error)
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            let error = anyhow!(error).context("its copy may not be on the disk");
            reporter.report_error(&self.path, &error);
        }
    }
}

/// Whether an error tells that bytes are lost. Others tell that the call cannot be made.
fn is_loss(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
        || matches!(
            error.kind(),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded
        )
}

impl<'a> WriteBackThread<'a> {
    /// Starts the thread. At most `n_queued` descriptors wait; without any, there is no thread.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        n_queued: usize,
        reporter: &'a Reporter<'a>,
    ) -> Self
    where
        'a: 'scope,
    {
        let mut queue = None;
        if n_queued > 0 {
            let (sender, files): (_, Receiver<Queued>) = sync_channel(n_queued);
            let begin_each = move || {
                for (file, name) in files {
                    name.begin(file.as_fd(), reporter);
                }
            };
            let started = threads::spawn_scoped(scope, begin_each);
            queue = started.is_ok().then_some(sender);
        }
        Self { queue, reporter }
    }

    /// Follows the copy of an entry while it is written.
    pub(super) fn follow<'f>(
        &'f self,
        entry: &'f Entry,
        file: &'f AtomicFile,
    ) -> FileWriteBack<'f> {
        FileWriteBack {
            thread: self,
            entry,
            prepared: None,
            file: file.as_fd(),
            n_waiting: 0,
        }
    }
}

/// Begins to write one copy to the disk, again and again.
pub(super) struct FileWriteBack<'a> {
    thread: &'a WriteBackThread<'a>,
    entry: &'a Entry,
    /// The copy's name, and the thread's queue if the copy waits in it. `None` before the first
    /// beginning: a short copy needs neither.
    prepared: Option<(Arc<CopyName>, Option<&'a SyncSender<Queued>>)>,
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
        // If the queue is full, the next step or the end covers this one.
        self.begin(|queue, file| match queue.try_send(file) {
            Ok(()) | Err(TrySendError::Full(_)) => true,
            Err(TrySendError::Disconnected(_)) => false,
        });
    }

    /// Begins to write the rest of a copy that has `n_bytes`.
    pub(super) fn finish(mut self, n_bytes: u64) {
        if n_bytes >= LONG {
            self.begin(|queue, file| queue.send(file).is_ok());
        }
    }

    /// Begins to write the copy in the thread, or without it if `send` returns false.
    fn begin(&mut self, send: impl FnOnce(&SyncSender<Queued>, Queued) -> bool) {
        let (thread, entry, file) = (self.thread, self.entry, self.file);
        let (name, queue) = self.prepared.get_or_insert_with(|| {
            let (path, is_reported) = (entry.path(), AtomicBool::new(false));
            // A duplicate takes part in what a server reports when a file is closed.
            let queue = thread.queue.as_ref();
            let queue = queue.filter(|_| Storage::of(file) == Storage::Disk);
            (Arc::new(CopyName { path, is_reported }), queue)
        });
        let is_sent = queue.is_some_and(|queue| {
            let duplicate = file.try_clone_to_owned();
            duplicate.is_ok_and(|file| send(queue, (file, Arc::clone(name))))
        });
        if !is_sent {
            name.begin(file, thread.reporter);
        }
    }
}
