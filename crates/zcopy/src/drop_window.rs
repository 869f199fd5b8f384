//! Drop-behind: a transfer that removes the pages of its files from the page cache.

use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::options::Cache;
use crate::side::Side;
use crate::sys::{Errno, Kernel, SeekFrom, WriteOut, retried};

/// How many bytes behind the position pages are dropped. At most two windows are dirty: one that
/// the disk is writing, and one that is being filled.
const WINDOW: u64 = 8 << 20;

/// How many bytes beyond the end of a transfer the kernel may have read ahead: two of its windows
/// (`read_ahead_kb`), which are 128 KiB by default and 2.5 MiB on some disks. Pages that other
/// readers have read beyond that stay.
const READ_AHEAD: u64 = 8 << 20;

/// The pages of one endpoint that were moved: `start..dropped` are gone, `dropped..sent` are being
/// written to the disk.
///
/// Only clean pages can be dropped. So the kernel first starts to write each window of the sink to
/// the disk, without waiting. When the next window is full, the transfer waits for the first and
/// drops it. Pages that are still in a pipe stay until they are read.
///
/// Only pages that the transfer alone has used are dropped. Once another process or thread moves
/// the same cursor, the transfer cannot know whose pages follow, and leaves them in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropWindow {
    start: u64,
    dropped: u64,
    sent: u64,
    /// Whether another process or thread has moved the cursor.
    is_lost: bool,
}

impl DropWindow {
    /// Returns the window that starts at the endpoint's position. `None` if the caller does not
    /// want pages to be dropped, the endpoint has no pages, or its position is not known.
    pub(crate) fn new(endpoint: &Endpoint<'_>, cache: Cache) -> Option<Self> {
        let has_pages = cache == Cache::DropBehind && endpoint.info.is_seekable();
        let start = endpoint.position().filter(|_| has_pages)?;
        Some(Self {
            start,
            dropped: start,
            sent: start,
            is_lost: false,
        })
    }

    /// Whether the transfer alone has used the pages from the start to the current position.
    ///
    /// Reads and writes use the cursor, and only the cursor shows where they were made. The check
    /// takes one call per window.
    fn is_own<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>) -> bool {
        if !self.is_lost && endpoint.goes_by_cursor() {
            let expected = endpoint
                .position()
                .map(|position| position + endpoint.reserved());
            let found = kernel.seek(endpoint.fd, SeekFrom::Current(0));
            self.is_lost = endpoint.cursor_was_moved() || found.ok() != expected;
        }
        !self.is_lost
    }

    /// Drops the pages that were read and are a window or more behind.
    pub(crate) fn advance_read<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) {
        if let Some(position) = source.position()
            && position >= self.dropped + WINDOW
            && self.is_own(kernel, source)
        {
            self.drop_up_to(kernel, source, position);
        }
    }

    /// Writes out and drops the pages that were written and are a window or more behind.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC` or `EDQUOT` if the disk could not store what the sink had accepted. Ignores
    /// the errors of page caches that do not accept advice.
    pub(crate) fn advance_written<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
    ) -> Result<(), CallError> {
        if let Some(position) = sink.position()
            && position >= self.sent + WINDOW
            && self.is_own(kernel, sink)
        {
            let sent = self.sent;
            write_out(kernel, sink, sent, position, WriteOut::Start)?;
            write_out(kernel, sink, self.dropped, sent, WriteOut::Finish)?;
            self.drop_up_to(kernel, sink, sent);
            self.sent = position;
        }
        Ok(())
    }

    /// Drops all pages that were read.
    pub(crate) fn finish_read<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) {
        match source.position() {
            Some(position) if position == self.start => {}
            Some(position) if self.is_own(kernel, source) => {
                self.drop_all(kernel, source, position, READ_AHEAD);
            }
            _ => self.drop_known(kernel, source, self.dropped),
        }
    }

    /// Waits for the remaining written pages and drops all.
    ///
    /// # Errors
    ///
    /// Those of [`DropWindow::advance_written`].
    pub(crate) fn finish_written<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
    ) -> Result<(), CallError> {
        match sink.position() {
            Some(position) if position == self.start => {}
            Some(position) if self.is_own(kernel, sink) => {
                write_out(kernel, sink, self.dropped, position, WriteOut::Finish)?;
                self.drop_all(kernel, sink, position, 0);
            }
            _ => {
                write_out(kernel, sink, self.dropped, self.sent, WriteOut::Finish)?;
                self.drop_known(kernel, sink, self.sent);
            }
        }
        Ok(())
    }

    /// Drops the pages up to `position`. The kernel may refuse the advice, and nothing depends on
    /// it.
    fn drop_up_to<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>, position: u64) {
        if position > self.dropped {
            let _ = kernel.drop_pages(endpoint.fd, self.dropped, position - self.dropped);
            self.dropped = position;
        }
    }

    /// Drops all pages from the start to `beyond` bytes after `position`. A page, or a folio of
    /// many, that lies in two windows was kept by both, and is dropped here.
    fn drop_all<K: Kernel>(
        &mut self,
        kernel: &K,
        endpoint: &Endpoint<'_>,
        position: u64,
        beyond: u64,
    ) {
        let last = position.saturating_add(beyond);
        let reaches_end = endpoint.info.size.is_none_or(|size| last >= size);
        let len = if reaches_end {
            0
        } else {
            last.saturating_sub(self.start)
        };
        let _ = kernel.drop_pages(endpoint.fd, self.start, len);
        self.dropped = position;
    }

    /// Drops the pages from the start to `position`, and none beyond.
    fn drop_known<K: Kernel>(&self, kernel: &K, endpoint: &Endpoint<'_>, position: u64) {
        if position > self.start {
            let _ = kernel.drop_pages(endpoint.fd, self.start, position - self.start);
        }
    }
}

/// Starts or finishes writing `from..to` of the sink to the disk.
fn write_out<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    from: u64,
    to: u64,
    how: WriteOut,
) -> Result<(), CallError> {
    if from >= to {
        return Ok(());
    }
    match retried(|| kernel.write_out(sink.fd, from, to - from, how)) {
        Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => {
            Err(CallError::new("sync_file_range", Side::Sink, errno))
        }
        // Success; or `EINVAL`, `ESPIPE`, `ENOSYS`: there is no page cache of that kind.
        _ => Ok(()),
    }
}
