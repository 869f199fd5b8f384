//! A file that is opened once more, without `O_DIRECT`, or to be read page by page.

use std::os::fd::{AsFd, OwnedFd};

use crate::buffer::ALIGNMENT;
use crate::call_error::CallError;
use crate::endpoint::Endpoint;
use crate::fd_info::{FdInfo, Kind};
use crate::side::Side;
use crate::sys::{Blocking, Errno, Kernel, OFlags, Result, SeekFrom};

/// The second opening of one end, made when the kernel first refuses something odd, a part of a block, or
/// whole ones out of step; or when a bad block is first met.
///
/// No flag is changed on the caller's descriptor, and its cursor is led along. Where the file cannot be opened
/// once more (no `/proc`, no permission) the kernel's refusal stands.
#[derive(Debug, Default)]
pub(crate) struct Reopened {
    opening: Opening,
    granularity: Option<u64>,
}

#[derive(Debug, Default)]
enum Opening {
    #[default]
    Untried,
    Open(OwnedFd),
    None,
}

impl Reopened {
    /// The blocks that an end takes directly, in bytes: pages, as whatever straddles none is not in the
    /// page cache as well, or more if the kernel wants that.
    pub(crate) fn granularity<K: Kernel>(&mut self, kernel: &K, endpoint: &Endpoint<'_>) -> u64 {
        *self.granularity.get_or_insert_with(|| {
            let wanted = kernel.direct_alignment(endpoint.fd).unwrap_or(0);
            wanted.max(ALIGNMENT as u64)
        })
    }

    /// Reads once where the source stands, up to the next block if that is near.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no reopened file; else what the kernel says.
    pub(crate) fn read<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &mut Endpoint<'_>,
        room: &mut [u8],
    ) -> Result<usize> {
        let place = source.place(kernel)?;
        let granularity = self.granularity(kernel, source);
        let to_block = granularity - place % granularity;
        let room = match usize::try_from(to_block) {
            Ok(len) if to_block < granularity && len < room.len() => &mut room[..len],
            _ => room,
        };
        self.open(kernel, source, OFlags::RDONLY)?;
        reserved(kernel, source, room, |source, position, room| {
            self.look(kernel, source, position, room)
        })
    }

    /// Reads once at `position`, and leaves the cursor alone.
    ///
    /// # Errors
    ///
    /// As [`Reopened::read`].
    pub(crate) fn look<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        position: u64,
        room: &mut [u8],
    ) -> Result<usize> {
        let own = self.open(kernel, source, OFlags::RDONLY)?.as_fd();
        kernel.read(own, Some(position), room, Blocking::MaySleep)
    }

    /// Reads once where the source stands, no other page than those.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn read_pages<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &mut Endpoint<'_>,
        room: &mut [u8],
    ) -> Result<usize> {
        reserved(kernel, source, room, |source, position, room| {
            self.look_at_pages(kernel, source, position, room)
        })
    }

    /// Reads once at `position`, no other page than those, and leaves the cursor alone.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    ///
    /// # Kernel notes
    ///
    /// What is read ahead is cached in large folios, and a folio of which one block is bad stays unread as a whole: every
    /// later read of a good block in it reads all of it again, in one request, and fails. A folio within the range of
    /// `POSIX_FADV_DONTNEED` is dropped, also unread, unless it is dirty, mapped or being read; folios have 2048 pages at most
    /// (`MAX_XAS_ORDER`), and are aligned to their size. What is read under `POSIX_FADV_RANDOM` is read in single pages
    /// (`force_page_cache_ra`), which an opening of its own is told, so that nothing is changed for the caller's.
    ///
    /// # References
    /// - [posix_fadvise(2)](https://man7.org/linux/man-pages/man2/posix_fadvise.2.html)
    pub(crate) fn look_at_pages<K: Kernel>(
        &mut self,
        kernel: &K,
        source: &Endpoint<'_>,
        position: u64,
        room: &mut [u8],
    ) -> Result<usize> {
        // What cannot be opened once more is read as well as it can be.
        let own = self.open(kernel, source, OFlags::RDONLY);
        let fd = own.map_or(source.fd, AsFd::as_fd);
        let largest = 2048 * kernel.page_size();
        let _ = kernel.drop_pages(fd, position - position % largest, largest);
        kernel.read(fd, Some(position), room, Blocking::MaySleep)
    }

    /// Writes once where the sink stands.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no reopened file; else what the kernel says.
    pub(crate) fn write<K: Kernel>(
        &mut self,
        kernel: &K,
        sink: &mut Endpoint<'_>,
        bytes: &[u8],
    ) -> Result<usize> {
        let own = self.open(kernel, sink, OFlags::WRONLY)?.as_fd();
        if sink.info.append {
            let n = kernel.write(own, None, bytes, Blocking::MaySleep)?;
            // Where the kernel has led its cursor, whoever else appends.
            if n > 0 {
                let end = kernel.seek(own, SeekFrom::Current(0))?;
                kernel.seek(sink.fd, SeekFrom::Start(end))?;
            }
            return Ok(n);
        }
        let len = sink.reserve_in_place(kernel, bytes.len() as u64)? as usize;
        if sink.has_lost_position() {
            return Err(Errno::SPIPE);
        }
        let place = sink.place(kernel)?;
        kernel.write(own, Some(place), &bytes[..len], Blocking::MaySleep)
    }

    /// Writes once at `position`, and leaves the cursor alone.
    ///
    /// # Errors
    ///
    /// As [`Reopened::write`].
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

    /// Closes what was opened to write.
    ///
    /// # Errors
    ///
    /// What `close(2)` says: NFS and FUSE send the last bytes then, and report what earlier writes
    /// came to.
    pub(crate) fn close<K: Kernel>(&mut self, kernel: &K) -> std::result::Result<(), CallError> {
        let Opening::Open(own) = std::mem::take(&mut self.opening) else {
            return Ok(());
        };
        match kernel.close(own) {
            // Linux has closed it all the same.
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
        if let Opening::Untried = self.opening {
            self.opening = opened(kernel, endpoint, access).map_or(Opening::None, Opening::Open);
        }
        match &self.opening {
            Opening::Open(own) => Ok(own),
            _ => Err(Errno::INVAL),
        }
    }
}

/// Opens the same file without `O_DIRECT`, or, if it had none, to be read page by page. What else its flags say of writing holds
/// there too.
fn opened<K: Kernel>(kernel: &K, endpoint: &Endpoint<'_>, access: OFlags) -> Option<OwnedFd> {
    let flags = kernel.status_flags(endpoint.fd).ok()?;
    // `O_SYNC` contains the bit of `O_DSYNC`.
    let kept = flags & (OFlags::APPEND | OFlags::SYNC);
    let own = kernel.reopen(endpoint.fd, access | kept).ok()?;
    let found = FdInfo::of(kernel, own.as_fd()).ok()?;
    if !found.is_same(&endpoint.info) || found.direct {
        return None;
    }
    if !endpoint.info.direct {
        // Advice may be refused.
        let _ = kernel.read_single_pages(own.as_fd());
    }
    Some(own)
}

/// Reads once by `read`, which is told where: the bytes are reserved first, and what it does not bring is given back. Where
/// others have gone on behind, what the file holds of that stays reserved, for the next read.
fn reserved<K: Kernel>(
    kernel: &K,
    source: &mut Endpoint<'_>,
    room: &mut [u8],
    read: impl FnOnce(&Endpoint<'_>, u64, &mut [u8]) -> Result<usize>,
) -> Result<usize> {
    let mut len = source.reserve_to_read(kernel, room.len() as u64)? as usize;
    if len == 0 && source.info.kind == Kind::Block {
        // Nothing can be reserved behind a disk.
        let position = source.place(kernel)?;
        return read(source, position, room);
    }
    if len == 0 {
        // The file may hold more than it claims, which only a read can tell.
        source.reserve_beyond_the_end(kernel, room.len() as u64)?;
        len = room.len();
    }
    if source.has_lost_position() {
        return Err(Errno::SPIPE);
    }
    let position = source.place(kernel)?;
    let answer = read(source, position, &mut room[..len]);
    match answer {
        // Short at the end of the file, before a bad block, or because of a signal.
        Ok(n) => source.give_back_behind(kernel, n as u64)?,
        Err(_) => {
            source.release(kernel);
        }
    }
    answer
}
