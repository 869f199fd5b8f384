//! One end of a transfer under way: the descriptor, what it is, and where it stands.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::call_error::CallError;
use crate::fd_info::{self, FdInfo, Kind};
use crate::options::SyncData;
use crate::side::Side;
use crate::sys::{
    Blocking, Errno, FdAt, Kernel, OFlags, PollFd, PollFlags, Result, SeekFrom, Status, retried,
};

mod reservation;

pub(crate) use reservation::MOST_READ_BACK;

/// The source or the sink of a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) info: FdInfo,
    /// Whether the kernel has said that no single call here can be told not to wait.
    pub(crate) refuses_nowait: bool,
    positioning: Positioning,
    /// The offset of the next byte, if it is known: the caller's offset, or the cursor once fully classified or reserved.
    position: Option<u64>,
    /// The bytes from `position` on that the transfer has taken from the cursor and not used yet.
    reserved: u64,
    /// Whether the cursor was found where this transfer had not left it.
    is_shared: bool,
    /// Bytes that may be reserved before the file system is asked again how much room is left. `None` if it is not
    /// asked.
    room: Option<u64>,
    /// How long the caller lets a blocking socket wait, for ever being [`Duration::MAX`]. The kernel
    /// is asked once, when it first matters.
    time_out: Option<Duration>,
    /// The answer of [`Endpoint::is_never_ready`], once the kernel was asked.
    is_never_ready: Option<bool>,
}

/// How an end knows where the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positioning {
    /// Calls name an offset of the caller's, and the cursor is neither moved nor looked at.
    Offset,
    /// By the cursor of the open file, which others may move too.
    Cursor,
    /// There are no positions: a pipe, a socket, some files of FUSE.
    None,
}

impl<'fd> Endpoint<'fd> {
    pub(crate) fn new(fd: BorrowedFd<'fd>, info: FdInfo, offset: Option<u64>) -> Self {
        let cursor = match info.cursor {
            // Wherever its cursor is, it is written to at its end.
            Some(_) if info.append => Some(info.size.unwrap_or(0)),
            cursor => cursor,
        };
        Self {
            fd,
            info,
            refuses_nowait: false,
            positioning: match offset {
                Some(_) => Positioning::Offset,
                None if info.is_seekable() => Positioning::Cursor,
                None => Positioning::None,
            },
            position: offset.or(cursor),
            reserved: 0,
            is_shared: false,
            room: Some(info.free.map_or(0, reservation::room_in)),
            time_out: None,
            is_never_ready: None,
        }
    }

    /// The descriptor, and the offset that a call names: `None` if the call uses the cursor.
    pub(crate) fn at(&self) -> FdAt<'fd> {
        let names_offset = self.positioning == Positioning::Offset || self.reserved > 0;
        (self.fd, self.position.filter(|_| names_offset))
    }

    /// Where the next byte is, if that is known without asking.
    pub(crate) fn position(&self) -> Option<u64> {
        self.position
    }

    /// Where the next byte is, asked if it is for the cursor to say. Not of an end that appends.
    pub(crate) fn place<K: Kernel>(&self, kernel: &K) -> Result<u64> {
        match self.at().1 {
            Some(offset) => Ok(offset),
            None => kernel.seek(self.fd, SeekFrom::Current(0)),
        }
    }

    /// Notes that a call moved `n` bytes here.
    pub(crate) fn advance(&mut self, n: u64) {
        self.position = self.position.map(|position| position + n);
        self.reserved = self.reserved.saturating_sub(n);
    }

    /// Brings what was written here to the disk, where there is one, as often as the caller wants that.
    ///
    /// # Errors
    ///
    /// What `fdatasync(2)` says of the disk. `EINVAL` and `EROFS` say that there is none.
    pub(crate) fn sync_data<K: Kernel>(
        &self,
        kernel: &K,
        when: SyncData,
    ) -> std::result::Result<(), CallError> {
        if when == SyncData::Never || !self.info.is_seekable() {
            return Ok(());
        }
        match retried(|| kernel.sync_data(self.fd)) {
            Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            Err(errno) => Err(CallError::new("fdatasync", Side::Sink, errno)),
        }
    }

    /// Bounds the length of one call: it stays within the reservation, or, at an offset of the caller's, below the
    /// largest offset.
    pub(crate) fn clamp(&self, len: u64) -> u64 {
        match self.position {
            _ if self.reserved > 0 => len.min(self.reserved),
            Some(position) if self.positioning == Positioning::Offset => {
                len.min((i64::MAX as u64).saturating_sub(position))
            }
            _ => len,
        }
    }

    /// The most that one call may be given so that it goes in without sleeping, though the call
    /// cannot be told not to.
    ///
    /// A stream socket that polls as writable has a third of its buffer free
    /// (`sk_stream_is_writeable`), so that a quarter fits.
    pub(crate) fn prompt_len<K: Kernel>(&self, kernel: &K, blocking: Blocking) -> u64 {
        if blocking == Blocking::MaySleep || self.info.kind != Kind::Stream {
            return u64::MAX;
        }
        let quarter = kernel
            .send_buffer_size(self.fd)
            .map_or(4096, |size| size / 4);
        quarter.clamp(4096, 1 << 20) as u64
    }

    /// Whether it polls as writable, or as broken, which the next call will say.
    pub(crate) fn is_writable<K: Kernel>(&self, kernel: &K) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, PollFlags::OUT)];
        kernel.poll(&mut fds, Some(Duration::ZERO)).is_ok() && !fds[0].revents().is_empty()
    }

    /// Whether it polls as readable. If the question fails, the next call will say.
    pub(crate) fn is_readable<K: Kernel>(&self, kernel: &K) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, PollFlags::IN)];
        match kernel.poll(&mut fds, Some(Duration::ZERO)) {
            Ok(_) => fds[0].revents().contains(PollFlags::IN),
            Err(_) => true,
        }
    }

    /// Whether a read would return at once: with bytes, with the end, or with an error.
    pub(crate) fn would_answer<K: Kernel>(&self, kernel: &K) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, PollFlags::IN)];
        kernel.poll(&mut fds, Some(Duration::ZERO)).is_ok() && !fds[0].revents().is_empty()
    }

    /// Whether it is in blocking mode. Of a socket this is asked when it first matters.
    pub(crate) fn blocks<K: Kernel>(&mut self, kernel: &K) -> bool {
        if !self.info.nonblocking {
            let flags = kernel.status_flags(self.fd);
            self.info.nonblocking = flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        }
        !self.info.nonblocking
    }

    /// What is left of a socket's own time-out after a wait of this long. A poll knows nothing of it,
    /// and takes the place of the call that would have.
    pub(crate) fn until_timed_out<K: Kernel>(
        &mut self,
        kernel: &K,
        side: Side,
        waited: Duration,
    ) -> Option<Duration> {
        let time_out = self.time_out(kernel, side)?;
        Some(time_out.saturating_sub(waited))
    }

    /// Whether `EAGAIN` is the answer of a socket's own `SO_RCVTIMEO` or `SO_SNDTIMEO`, which ends the transfer, rather
    /// than a reason to wait.
    ///
    /// A call that was told not to wait says nothing of a time-out. Nor does a socket without one: it was in non-blocking
    /// mode for a moment, because somebody else who has it open changes that.
    pub(crate) fn has_timed_out<K: Kernel>(
        &mut self,
        kernel: &K,
        side: Side,
        blocking: Blocking,
    ) -> bool {
        blocking == Blocking::MaySleep && self.time_out(kernel, side).is_some()
    }

    /// The time-out of a socket in blocking mode.
    fn time_out<K: Kernel>(&mut self, kernel: &K, side: Side) -> Option<Duration> {
        if !self.info.is_socket() {
            return None;
        }
        let time_out = if let Some(known) = self.time_out {
            known
        } else {
            let told = kernel.socket_timeout(self.fd, side);
            let told = told.ok().flatten().filter(|_| self.blocks(kernel));
            *self.time_out.insert(told.unwrap_or(Duration::MAX))
        };
        (time_out < Duration::MAX).then_some(time_out)
    }

    /// Whether waiting is useless: the descriptor never becomes ready, or its calls never sleep. The next call gives the
    /// reason. The kernel is asked once.
    ///
    /// # Kernel notes
    ///
    /// - A `timerfd`, `signalfd`, `pidfd` or `epoll` has no write operation, never polls as writable, and says `EINVAL`
    ///   to a write. Others have no read operation.
    /// - A socket that listens moves no bytes.
    /// - `/dev/kmsg` is never polled as writable, and a write to it does not sleep.
    pub(crate) fn is_never_ready<K: Kernel>(&mut self, kernel: &K, side: Side) -> bool {
        let (fd, kind) = (self.fd, self.info.kind);
        let ask = || match (kind, side) {
            (Kind::Stream | Kind::Datagram, _) => kernel.is_listening(fd) == Ok(true),
            (Kind::Other, Side::Source) => kernel.read_nothing(fd) == Err(Errno::INVAL),
            (Kind::Other, _) => {
                let is_log = |status: Status| fd_info::is_kernel_log(&status);
                kernel.write_nothing(fd) == Err(Errno::INVAL) || kernel.fstat(fd).is_ok_and(is_log)
            }
            _ => false,
        };
        *self.is_never_ready.get_or_insert_with(ask)
    }
}
