//! Drop-behind: a transfer that leaves no pages of its files in the page cache.

use crate::endpoint::Endpoint;
use crate::fd_info::FdInfo;
use crate::sys::{Errno, Kernel, Result, SeekFrom, WriteOut, retried};

/// How far the dropping lags behind the moving. Two windows are dirty at the most: one that the
/// disk is writing, one that is being filled.
const WINDOW: u64 = 8 << 20;

/// So far beyond where a transfer stops the kernel may have read ahead for it: two of its windows
/// (`read_ahead_kb`), which are 128 KiB as a rule and 2.5 MiB on some disks. Whoever else reads further
/// on is left alone.
const READ_AHEAD: u64 = 8 << 20;

/// What has been moved and not yet dropped, on both sides.
///
/// Only clean pages can be dropped. So each window of the sink is first sent to the disk, without
/// waiting; when the next one is full, the first is waited for and dropped. Pages that still lie in
/// somebody's pipe stay until they are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropBehind {
    source: Option<DropWindow>,
    sink: Option<DropWindow>,
}

/// One end's pages: `start..dropped` are gone, `dropped..sent` are on their way to the disk.
///
/// The transfer alone has used these pages. Once another process or thread moves the same cursor, the transfer cannot tell
/// whose pages follow, and leaves them in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropWindow {
    start: u64,
    dropped: u64,
    sent: u64,
    /// Whether another process or thread has moved the cursor.
    is_lost: bool,
}

impl DropBehind {
    /// Drop-behind for those of the two that have pages and a known position.
    pub(crate) fn new(source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Self {
        Self {
            source: DropWindow::of(source),
            sink: DropWindow::of(sink),
        }
    }

    /// Sends and drops what lies a window or more behind.
    ///
    /// # Errors
    ///
    /// `EIO`, `ENOSPC` or `EDQUOT` when the disk could not take what the sink had accepted. Page
    /// caches that cannot be told what to do are left alone.
    pub(crate) fn advance<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        sink: &Endpoint<'_>,
    ) -> Result<()> {
        if let Some(drop_window) = &mut self.source {
            drop_window.advance_read(kernel, source);
        }
        if let Some(drop_window) = &mut self.sink {
            drop_window.advance_written(kernel, sink)?;
        }
        Ok(())
    }

    /// Waits for what is left and drops all of it.
    ///
    /// # Errors
    ///
    /// As [`DropBehind::advance`].
    pub(crate) fn finish<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        sink: &Endpoint<'_>,
    ) -> Result<()> {
        if let Some(drop_window) = &mut self.source {
            drop_window.finish_read(kernel, source);
        }
        if let Some(drop_window) = &mut self.sink {
            drop_window.finish_written(kernel, sink)?;
        }
        Ok(())
    }
}

impl DropWindow {
    /// None of an end that has no pages, or whose position is not known.
    pub(crate) fn of(endpoint: &Endpoint<'_>) -> Option<Self> {
        let start = endpoint
            .position()
            .filter(|_| FdInfo::is_seekable(&endpoint.info))?;
        Some(Self {
            start,
            dropped: start,
            sent: start,
            is_lost: false,
        })
    }

    /// Whether all that lies between the start and where the end stands is this transfer's.
    ///
    /// Reads and writes go by the cursor, and nothing but the cursor itself says where they went. To ask takes one call a window.
    fn is_own<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>) -> bool {
        if !self.is_lost && endpoint.goes_by_cursor() {
            let expected = endpoint
                .position()
                .map(|position| position + endpoint.reserved());
            let found = kernel.seek(endpoint.fd, SeekFrom::Current(0));
            self.is_lost = endpoint.is_shared() || found.ok() != expected;
        }
        !self.is_lost
    }

    /// Drops what was read and lies a window or more behind.
    pub(crate) fn advance_read<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) {
        if let Some(position) = source.position()
            && position >= self.dropped + WINDOW
            && self.is_own(kernel, source)
        {
            self.drop_up_to(kernel, source, position);
        }
    }

    /// Sends and drops what was written and lies a window or more behind.
    ///
    /// # Errors
    ///
    /// As [`DropBehind::advance`].
    pub(crate) fn advance_written<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
    ) -> Result<()> {
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

    /// Drops all that was read.
    pub(crate) fn finish_read<K: Kernel>(&mut self, kernel: &K, source: &Endpoint<'_>) {
        match source.position() {
            Some(position) if position == self.start => {}
            Some(position) if self.is_own(kernel, source) => {
                self.drop_all(kernel, source, position, READ_AHEAD);
            }
            _ => self.drop_known(kernel, source, self.dropped),
        }
    }

    /// Waits for what is left of what was written and drops all of it.
    ///
    /// # Errors
    ///
    /// As [`DropBehind::advance`].
    pub(crate) fn finish_written<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
    ) -> Result<()> {
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

    /// Advice may be refused, and nothing depends on it.
    fn drop_up_to<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>, position: u64) {
        if position > self.dropped {
            let _ = kernel.drop_pages(endpoint.fd, self.dropped, position - self.dropped);
            self.dropped = position;
        }
    }

    /// A page, or a folio of many, that straddles two windows was kept by both; seen from the start
    /// it lies inside.
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

    /// The same up to `position`, and not beyond.
    fn drop_known<K: Kernel>(&self, kernel: &K, endpoint: &Endpoint<'_>, position: u64) {
        if position > self.start {
            let _ = kernel.drop_pages(endpoint.fd, self.start, position - self.start);
        }
    }
}

/// Sends `from..to` of the sink to the disk.
fn write_out<K: Kernel>(
    kernel: &K,
    sink: &Endpoint<'_>,
    from: u64,
    to: u64,
    how: WriteOut,
) -> Result<()> {
    if from >= to {
        return Ok(());
    }
    match retried(|| kernel.write_out(sink.fd, from, to - from, how)) {
        Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) => Err(errno),
        // Done; or `EINVAL`, `ESPIPE`, `ENOSYS`: no page cache of that kind here.
        _ => Ok(()),
    }
}
