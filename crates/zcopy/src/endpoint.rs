//! An endpoint of a running transfer: the descriptor, what it is, and its position.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::call_error::CallError;
use crate::fd_info::{self, FdInfo, Kind};
use crate::pipe;
use crate::side::Side;
use crate::sys::{
    Blocking, Errno, FdAt, Kernel, OFlags, PollFd, PollFlags, Result, SeekFrom, Status, retried,
};

mod reservation;

pub(crate) use reservation::MAX_READ_BACK;

/// The source or the sink of a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint<'fd> {
    pub(crate) fd: BorrowedFd<'fd>,
    pub(crate) info: FdInfo,
    /// Whether the kernel has refused to make a single call here nonblocking (`RWF_NOWAIT`).
    pub(crate) refuses_nowait: bool,
    /// Whether more bytes are certain to follow the next write, so that TCP may wait for them.
    pub(crate) more_follows: bool,
    writer: Writer,
    positioning: Positioning,
    /// The offset of the next byte, if it is known: the caller's offset, or the cursor once fully
    /// classified or reserved.
    position: Option<u64>,
    /// The number of bytes from `position` on over which the cursor has been moved, and which have
    /// not been transferred yet.
    reserved: u64,
    /// Whether another process or thread has moved the cursor.
    cursor_was_moved: bool,
    /// Where a reservation last found the cursor elsewhere than expected. From here to `position`
    /// the bytes are those of this transfer; bytes of other processes may lie before.
    contiguous_from: u64,
    /// How many bytes may be reserved before the next statfs(2). `None` if free space is ignored.
    free_space: Option<u64>,
    /// The time-out of a blocking socket. [`Duration::MAX`] if it has none, `None` until it is
    /// first needed.
    time_out: Option<Duration>,
    /// The result of [`Endpoint::is_never_ready`], `None` until it is first needed.
    is_never_ready: Option<bool>,
}

/// Whether a FIFO has had a process that has opened it for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Unknown,
    /// A call has found bytes, or has blocked.
    Seen,
}

/// What a read from a source would find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Available {
    /// Nothing yet: it would sleep, or fail with `EAGAIN`.
    Nothing,
    /// Bytes, or an error.
    Bytes,
    /// Only the end, or an error.
    End,
}

/// How calls on an endpoint find the position of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Positioning {
    /// Calls pass the caller's offset, and the cursor is neither used nor moved.
    Offset,
    /// Calls use the cursor of the open file, which other processes and threads may move, too.
    Cursor,
    /// The endpoint has no positions: a pipe, a socket, some files of FUSE.
    None,
}

impl<'fd> Endpoint<'fd> {
    pub(crate) fn new(fd: BorrowedFd<'fd>, info: FdInfo, offset: Option<u64>) -> Self {
        let cursor = match info.cursor {
            // `O_APPEND`: a write goes to the end, wherever the cursor is.
            Some(_) if info.append => Some(info.size.unwrap_or(0)),
            cursor => cursor,
        };
        Self {
            fd,
            info,
            refuses_nowait: false,
            more_follows: false,
            writer: Writer::Unknown,
            positioning: match offset {
                Some(_) => Positioning::Offset,
                None if info.is_seekable() => Positioning::Cursor,
                None => Positioning::None,
            },
            position: offset.or(cursor),
            reserved: 0,
            cursor_was_moved: false,
            contiguous_from: 0,
            free_space: Some(info.free.map_or(0, reservation::reservable)),
            time_out: None,
            is_never_ready: None,
        }
    }

    /// Returns the descriptor and the offset to pass to a call: `None` if the call uses the cursor.
    #[inline]
    pub(crate) fn fd_at(&self) -> FdAt<'fd> {
        let names_offset = self.positioning == Positioning::Offset || self.reserved > 0;
        (self.fd, self.position.filter(|_| names_offset))
    }

    /// Returns the position of the next byte, if it is known without a call.
    pub(crate) fn position(&self) -> Option<u64> {
        self.position
    }

    /// Returns the position of the next byte. Reads the cursor if the position is not known. Not
    /// for an endpoint that appends.
    pub(crate) fn current_position<K: Kernel>(&self, kernel: &K) -> Result<u64> {
        match self.fd_at().1 {
            Some(offset) => Ok(offset),
            None => kernel.seek(self.fd, SeekFrom::Current(0)),
        }
    }

    /// Advances by `n` bytes, which a call has moved.
    #[inline]
    pub(crate) fn advance(&mut self, n: u64) {
        self.position = self.position.map(|position| position + n);
        self.reserved = self.reserved.saturating_sub(n);
    }

    /// Writes the data of the sink to the disk, if it is a file or block device.
    ///
    /// # Errors
    ///
    /// Every errno of `fdatasync(2)`, except `EINVAL` and `EROFS`: these mean that there is no
    /// disk.
    pub(crate) fn sync_data<K: Kernel>(&self, kernel: &K) -> std::result::Result<(), CallError> {
        if !self.info.is_seekable() {
            return Ok(());
        }
        match retried(|| kernel.sync_data(self.fd)) {
            Ok(()) | Err(Errno::INVAL | Errno::ROFS) => Ok(()),
            Err(errno) => Err(CallError::new("fdatasync", Side::Sink, errno)),
        }
    }

    /// Limits the length of one call to the reservation, or, with an offset of the caller's, to the
    /// largest offset.
    #[inline]
    pub(crate) fn clamp(&self, len: u64) -> u64 {
        match self.position {
            _ if self.reserved > 0 => len.min(self.reserved),
            Some(position) if self.positioning == Positioning::Offset => {
                len.min((i64::MAX as u64).saturating_sub(position))
            }
            _ => len,
        }
    }

    /// Returns how many bytes to pass to one call, so that it does not sleep on a sink that polls
    /// as writable. `splice(2)` and `sendfile(2)` have no flag for that on a socket.
    ///
    /// A stream socket that polls as writable has a third of its buffer free
    /// (`sk_stream_is_writeable`), so that a quarter fits.
    pub(crate) fn nonblocking_len<K: Kernel>(&self, kernel: &K, blocking: Blocking) -> u64 {
        let can_sleep = blocking == Blocking::Nonblocking && !self.info.nonblocking;
        if !can_sleep || self.info.kind != Kind::Stream {
            return u64::MAX;
        }
        let quarter = kernel
            .send_buffer_size(self.fd)
            .map_or(4096, |size| size / 4);
        quarter.clamp(4096, 1 << 20) as u64
    }

    /// Whether it polls as writable, or as broken; the next call then returns the error.
    pub(crate) fn is_writable<K: Kernel>(&self, kernel: &K) -> bool {
        let found = self.poll(kernel, PollFlags::OUT);
        found.is_ok_and(|found| {
            !found.is_empty() && PolledError::of(kernel, self.fd, found) != PolledError::False
        })
    }

    /// Whether it polls as readable. True if `poll(2)` fails; the next call then returns the error.
    pub(crate) fn is_readable<K: Kernel>(&self, kernel: &K) -> bool {
        let found = self.poll(kernel, PollFlags::IN);
        found.map_or(true, |found| found.contains(PollFlags::IN))
    }

    /// Whether it polls as hung up and not as readable: a pipe that is empty and whose writers have
    /// gone.
    pub(crate) fn has_hung_up<K: Kernel>(&self, kernel: &K) -> bool {
        let found = self.poll(kernel, PollFlags::IN);
        found.is_ok_and(is_hang_up)
    }

    /// Returns what a read would find, as far as the kernel says that without a read. (A read with
    /// `MSG_PEEK` would take the error of a socket away.)
    pub(crate) fn available<K: Kernel>(&self, kernel: &K) -> Available {
        if self.info.kind == Kind::Regular && self.info.size.is_some() {
            let size = kernel.file_size(self.fd);
            let position = self.current_position(kernel);
            return match (size, position) {
                (Ok(size), Ok(position)) if position >= size => Available::End,
                _ => Available::Bytes,
            };
        }
        if !self.info.can_starve() {
            return Available::Bytes;
        }
        let found = self.poll(kernel, PollFlags::IN);
        let found = found.unwrap_or(PollFlags::empty());
        let is_at_end = match self.info.kind {
            _ if found.is_empty() => return Available::Nothing,
            Kind::Pipe => is_hang_up(found),
            Kind::Stream => kernel.n_waiting(self.fd) == Ok(0),
            _ => false,
        };
        if is_at_end {
            Available::End
        } else {
            Available::Bytes
        }
    }

    /// Whether the pipe holds as much as one of the default size can, and a writer still has it
    /// open: more bytes are likely to follow.
    pub(crate) fn has_bulk_and_writer<K: Kernel>(&self, kernel: &K) -> bool {
        let has_bulk = || {
            kernel
                .n_waiting(self.fd)
                .is_ok_and(|n| n >= pipe::DEFAULT_CAPACITY as u64)
        };
        let has_writer = || {
            let found = self.poll(kernel, PollFlags::IN);
            found.is_ok_and(|found| !found.contains(PollFlags::HUP))
        };
        has_bulk() && has_writer()
    }

    /// Whether it may be a FIFO that no process has opened for writing. It polls as if a writer
    /// were to come. In non-blocking mode a read returns at once with the end, and never sleeps.
    pub(crate) fn may_lack_writer(&self) -> bool {
        self.info.kind == Kind::Pipe && self.info.nonblocking && self.writer == Writer::Unknown
    }

    /// Notes that a call has found bytes here, or has blocked.
    #[inline]
    pub(crate) fn note_writer(&mut self) {
        self.writer = Writer::Seen;
    }

    /// Polls without sleeping.
    fn poll<K: Kernel>(&self, kernel: &K, events: PollFlags) -> Result<PollFlags> {
        let mut fds = [PollFd::from_borrowed_fd(self.fd, events)];
        kernel.poll(&mut fds, Some(Duration::ZERO))?;
        Ok(fds[0].revents())
    }

    /// Whether it is in blocking mode. Reads the flags, because [`FdInfo::of`] does not for a
    /// socket.
    pub(crate) fn is_blocking<K: Kernel>(&mut self, kernel: &K) -> bool {
        if !self.info.nonblocking {
            let flags = kernel.status_flags(self.fd);
            self.info.nonblocking = flags.is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        }
        !self.info.nonblocking
    }

    /// Whether `EAGAIN` of a call would mean that a socket's own `SO_RCVTIMEO` or `SO_SNDTIMEO` has
    /// expired, which ends the transfer, rather than that the socket is not ready.
    ///
    /// A nonblocking call ignores the time-out. A socket without a time-out returns `EAGAIN` if
    /// another process has made it nonblocking for a moment.
    pub(crate) fn eagain_means_time_out<K: Kernel>(
        &mut self,
        kernel: &K,
        side: Side,
        blocking: Blocking,
    ) -> bool {
        blocking == Blocking::MaySleep && self.time_out(kernel, side).is_some()
    }

    /// Returns the time-out of a socket in blocking mode. Needed where a poll replaces the call
    /// that has the time-out, because a poll ignores it.
    pub(crate) fn time_out<K: Kernel>(&mut self, kernel: &K, side: Side) -> Option<Duration> {
        if !self.info.is_socket() {
            return None;
        }
        let time_out = if let Some(known) = self.time_out {
            known
        } else {
            let found = kernel.socket_timeout(self.fd, side).ok().flatten();
            let found = found.filter(|_| self.is_blocking(kernel));
            *self.time_out.insert(found.unwrap_or(Duration::MAX))
        };
        (time_out < Duration::MAX).then_some(time_out)
    }

    /// Whether waiting is useless: the descriptor never becomes ready, or its calls never sleep.
    /// The next call returns the reason. The kernel is asked once.
    ///
    /// # Kernel notes
    ///
    /// - A `timerfd`, `signalfd`, `pidfd` or `epoll` has no write operation, never polls as
    ///   writable, and fails a write with `EINVAL`. Others have no read operation.
    /// - A listening socket moves no bytes.
    /// - `/dev/kmsg` never polls as writable, and a write to it does not sleep.
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

/// Returns whether these are the events of a pipe that is empty and whose writers have gone.
fn is_hang_up(events: PollFlags) -> bool {
    events.contains(PollFlags::HUP) && !events.contains(PollFlags::IN)
}

/// What it means that an endpoint polls as broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolledError {
    /// The next call returns the error, if there is one.
    Pending,
    /// There is none, and a call could sleep: completions of `MSG_ZEROCOPY` or time stamps wait in
    /// the error queue of a socket, which its owner reads.
    False,
    /// The error of a socket. No call returns it any more, because reading it has cleared it.
    Cleared(Errno),
}

impl PolledError {
    /// Asks a socket for its error, if a poll returned `POLLERR` alone.
    pub(crate) fn of<K: Kernel>(kernel: &K, fd: BorrowedFd<'_>, events: PollFlags) -> Self {
        if events != PollFlags::ERR {
            return Self::Pending;
        }
        match kernel.socket_error(fd) {
            Ok(None) => Self::False,
            Ok(Some(errno)) => Self::Cleared(errno),
            // It is no socket.
            Err(_) => Self::Pending,
        }
    }
}
