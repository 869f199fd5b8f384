//! A file that is opened a second time: without `O_DIRECT`, or to be read page by page.

use std::os::fd::{AsFd, OwnedFd};

use crate::buffer::ALIGNMENT;
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fd_info::{FdInfo, Kind};
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, OFlags, Result, SeekFrom};

/// The second open file description of an endpoint. It is opened when the kernel first refuses a
/// part of a block, or whole blocks at an unaligned position, or when a read first meets a bad
/// block.
///
/// The transfer changes no flag of the caller's descriptor, and moves its cursor along. If the file
/// cannot be opened again (no `/proc`, no permission), the kernel's error is final.
#[derive(Debug, Default)]
pub(crate) struct Reopened {
    /// The descriptor, or the error if the file could not be opened. `None` until it is first
    /// needed.
    opened: Option<Result<OwnedFd>>,
    granularity: Option<u64>,
}

impl Reopened {
    /// Returns the size of the blocks that the endpoint accepts with `O_DIRECT`, in bytes: a page,
    /// or more if the kernel requires more. A unit smaller than a page could be in the page cache,
    /// too.
    pub(crate) fn granularity<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>) -> u64 {
        *self.granularity.get_or_insert_with(|| {
            let wanted = kernel.direct_alignment(endpoint.fd).unwrap_or(0);
            wanted.max(ALIGNMENT as u64)
        })
    }

    /// Reads once at the source's position, up to the next block if that is near.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the file cannot be opened again; every errno of `read(2)` or `lseek(2)`.
    pub(crate) fn read<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &mut Endpoint<'_>,
        room: &mut [u8],
    ) -> Result<usize> {
        let position = source.current_position(kernel)?;
        let granularity = self.granularity(kernel, source);
        let to_block = granularity - position % granularity;
        let room = match usize::try_from(to_block) {
            Ok(len) if to_block < granularity && len < room.len() => &mut room[..len],
            _ => room,
        };
        self.open(kernel, source, OFlags::RDONLY)?;
        read_reserved(kernel, source, room, |source, position, room| {
            self.read_at(kernel, source, position, room)
        })
    }

    /// Reads once at `position`, without moving the cursor.
    ///
    /// # Errors
    ///
    /// Those of [`Reopened::read`].
    pub(crate) fn read_at<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        position: u64,
        room: &mut [u8],
    ) -> Result<usize> {
        let own = self.open(kernel, source, OFlags::RDONLY)?.as_fd();
        kernel.read(own, Some(position), room, Blocking::MaySleep)
    }

    /// Reads once at the source's position, and reads no other pages ahead.
    ///
    /// # Errors
    ///
    /// Every errno of `read(2)` or `lseek(2)`.
    pub(crate) fn read_pages<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &mut Endpoint<'_>,
        room: &mut [u8],
    ) -> Result<usize> {
        read_reserved(kernel, source, room, |source, position, room| {
            self.read_pages_at(kernel, source, position, room)
        })
    }

    /// Reads once at `position`, without moving the cursor, and reads no other pages ahead.
    ///
    /// # Errors
    ///
    /// Every errno of `read(2)`.
    ///
    /// # Kernel notes
    ///
    /// Readahead caches large folios, and a folio with one bad block stays unread as a whole: every
    /// later read of a good block in it reads the whole folio again, in one request, and fails.
    /// `POSIX_FADV_DONTNEED` drops the folios within its range, also unread ones, unless they are
    /// dirty, mapped or being read. Folios have 2048 pages at most (`MAX_XAS_ORDER`), and are
    /// aligned to their size. After `POSIX_FADV_RANDOM` the kernel reads single pages
    /// (`force_page_cache_ra`). The advice applies to one open file description, so that the
    /// caller's is not changed.
    ///
    /// # References
    /// - [posix_fadvise(2)](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html)
    pub(crate) fn read_pages_at<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        position: u64,
        room: &mut [u8],
    ) -> Result<usize> {
        // If the file cannot be opened again, the caller's descriptor has to do.
        let own = self.open(kernel, source, OFlags::RDONLY);
        let fd = own.map_or(source.fd, AsFd::as_fd);
        let largest = 2048 * kernel.page_size();
        let _ = kernel.drop_pages(fd, position - position % largest, largest);
        kernel.read(fd, Some(position), room, Blocking::MaySleep)
    }

    /// Writes once at the sink's position.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the file cannot be opened again; every errno of `write(2)` or `lseek(2)`.
    pub(crate) fn write<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'_>,
        bytes: &[u8],
    ) -> Result<usize> {
        let own = self.open(kernel, sink, OFlags::WRONLY)?.as_fd();
        if sink.info.append {
            let n = kernel.write(own, None, bytes, Blocking::MaySleep)?;
            // The position after these bytes, wherever other writers append.
            if n > 0 {
                let end = kernel.seek(own, SeekFrom::Current(0))?;
                kernel.seek(sink.fd, SeekFrom::Start(end))?;
            }
            return Ok(n);
        }
        let len = sink.reserve_ignoring_free_space(kernel, bytes.len() as u64)? as usize;
        if sink.has_lost_position() {
            return Err(Errno::SPIPE);
        }
        let position = sink.current_position(kernel)?;
        kernel.write(own, Some(position), &bytes[..len], Blocking::MaySleep)
    }

    /// Writes once at `position`, without moving the cursor.
    ///
    /// # Errors
    ///
    /// Those of [`Reopened::write`].
    pub(crate) fn write_at<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &Endpoint<'_>,
        position: u64,
        bytes: &[u8],
    ) -> Result<usize> {
        let own = self.open(kernel, sink, OFlags::WRONLY)?.as_fd();
        kernel.write(own, Some(position), bytes, Blocking::MaySleep)
    }

    /// Closes the second descriptor.
    ///
    /// # Errors
    ///
    /// Every errno of `close(2)` except `EINTR`: NFS and FUSE send the last bytes then, and report
    /// the errors of earlier writes.
    pub(crate) fn close<K: Kernel>(&mut self, kernel: &K) -> std::result::Result<(), CallError> {
        let Some(Ok(own)) = self.opened.take() else {
            return Ok(());
        };
        match kernel.close(own) {
            // After `EINTR`, Linux has closed the descriptor as well.
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(CallError::new("close", Side::Sink, errno)),
        }
    }

    fn open<K: Kernel>(
        &mut self,
        kernel: &K,
        endpoint: &Endpoint<'_>,
        access: OFlags,
    ) -> Result<&OwnedFd> {
        let open = || reopen(kernel, endpoint, access).ok_or(Errno::INVAL);
        let opened = self.opened.get_or_insert_with(open);
        opened.as_ref().map_err(|errno| *errno)
    }
}

/// Opens the same file without `O_DIRECT`, or, if it had none, to be read page by page. Keeps the
/// flags that affect writes.
fn reopen<K: Kernel>(kernel: &K, endpoint: &Endpoint<'_>, access: OFlags) -> Option<OwnedFd> {
    let flags = kernel.status_flags(endpoint.fd).ok()?;
    // `O_SYNC` contains the bit of `O_DSYNC`.
    let kept = flags & (OFlags::APPEND | OFlags::SYNC);
    let own = kernel.reopen(endpoint.fd, access | kept).ok()?;
    let found = FdInfo::of(kernel, own.as_fd()).ok()?;
    if !found.is_same(&endpoint.info) || found.direct {
        return None;
    }
    if !endpoint.info.direct {
        // The kernel may refuse the advice.
        let _ = kernel.read_single_pages(own.as_fd());
    }
    Some(own)
}

/// Reserves bytes of the source, passes their position to `read`, and gives back those that it does
/// not return. If others have moved the cursor, the bytes within the file stay reserved for the
/// next read.
fn read_reserved<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    room: &mut [u8],
    read: impl FnOnce(&Endpoint<'_>, u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut len = source.reserve_to_read(kernel, room.len() as u64)? as usize;
    if len == 0 && source.info.kind == Kind::Block {
        // No bytes can be reserved beyond the end of a disk.
        let position = source.current_position(kernel)?;
        return read(source, position, room);
    }
    if len == 0 {
        // The file may hold more than its size; only a read shows that.
        source.reserve(kernel, room.len() as u64)?;
        len = room.len();
    }
    if source.has_lost_position() {
        return Err(Errno::SPIPE);
    }
    let position = source.current_position(kernel)?;
    let result = read(source, position, &mut room[..len]);
    match result {
        // A read is short at the end of the file, before a bad block, or after a signal.
        Ok(n) => source.unreserve_after(kernel, n as u64)?,
        Err(_) => {
            source.release(kernel);
        }
    }
    result
}
