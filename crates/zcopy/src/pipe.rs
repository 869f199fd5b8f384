//! The private pipe of a transfer, and the capacity of the caller's pipes.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::sys::{
    Blocking, Errno, Kernel, LONGEST_DISCARD, Result, SpliceFlags, read_up_to, retried,
};

/// The capacity in bytes that a private pipe requests: the default of `/proc/sys/fs/pipe-max-size`,
/// which bounds unprivileged users.
pub(crate) const WANTED: usize = 1 << 20;

/// The kernel's default capacity of a pipe in bytes. Through a smaller pipe, read and write are
/// faster than splice. A user above the budget (`/proc/sys/fs/pipe-user-pages-soft`) receives pipes
/// of one or two pages.
pub(crate) const DEFAULT_CAPACITY: usize = 64 << 10;

/// An upper bound in bytes for a packet of a pipe. A packet is one slot of a pipe, which is one
/// page, and this is the largest page of the architecture. [`Kernel::page_size`] is exact.
pub(crate) const LARGEST_PACKET: usize = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    4096
} else {
    64 << 10
};

/// No process that has fewer descriptors is near a limit that is usual (256 and more).
const FEW_DESCRIPTORS: u64 = 128;

/// The private pipe of one transfer.
///
/// A transfer fills it only when it is empty: a fill that fails then concerns the source, and a
/// drain that fails concerns the sink. It is closed at the end of the transfer and never used
/// again, so that bytes left in it cannot reach another transfer.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    /// The bytes that one fill may request: those that fit if every slot holds a full page, at most
    /// those requested at [`open`](Self::open).
    pub(crate) capacity: usize,
    /// Whether splices through it are faster than read and write: its capacity is at least
    /// [`DEFAULT_CAPACITY`].
    pub(crate) is_worth_having: bool,
    /// The bytes that it holds.
    pub(crate) in_flight: u64,
    /// The pipe in which [`holds_packets`](Self::holds_packets) reads.
    probe: Option<Probe>,
}

impl Pipe {
    /// Opens a pipe with a capacity of `wanted` bytes, or as many as the user's budget allows.
    ///
    /// # Errors
    ///
    /// Those of `pipe2(2)`: `EMFILE` or `ENFILE` if there is no free descriptor, and `EMFILE` if only
    /// the last quarter of the process's limit is free; `ENOBUFS` if the budget leaves less than
    /// [`DEFAULT_CAPACITY`].
    pub(crate) fn open<K: Kernel>(kernel: &K, wanted: usize) -> Result<Self> {
        let (reader, writer) = kernel.pipe(Blocking::MaySleep)?;
        if is_near_limit(kernel, &reader, &writer) {
            return Err(Errno::MFILE);
        }
        let pipe = Self::grown(kernel, reader, writer, wanted);
        if pipe.is_worth_having {
            Ok(pipe)
        } else {
            Err(Errno::NOBUFS)
        }
    }

    /// Opens a pipe like [`open`](Self::open), also with a capacity of a single page if the budget
    /// leaves no more, and with the last descriptors of the process.
    ///
    /// # Errors
    ///
    /// Those of `pipe2(2)`: `EMFILE` or `ENFILE` if there is no free descriptor.
    pub(crate) fn open_of_any_size<K: Kernel>(kernel: &K, wanted: usize) -> Result<Self> {
        let (reader, writer) = kernel.pipe(Blocking::MaySleep)?;
        Ok(Self::grown(kernel, reader, writer, wanted))
    }

    fn grown<K: Kernel>(kernel: &K, reader: OwnedFd, writer: OwnedFd, wanted: usize) -> Self {
        // A pipe whose capacity the kernel does not tell has a page at least.
        let capacity = capacity_grown_to(kernel, writer.as_fd(), wanted);
        let capacity = capacity.unwrap_or_else(|_| kernel.page_size() as usize);
        Self {
            reader,
            writer,
            capacity: capacity.min(wanted),
            is_worth_having: capacity >= DEFAULT_CAPACITY,
            in_flight: 0,
            probe: None,
        }
    }

    /// Enlarges the pipe to `wanted` bytes, or as many as the user's budget allows.
    pub(crate) fn enlarge<K: Kernel>(&mut self, kernel: &K, wanted: usize) {
        if let Some(capacity) = grow(kernel, self.writer.as_fd(), wanted) {
            self.capacity = capacity.min(wanted);
        }
    }

    /// Opens the pipe in which [`holds_packets`](Self::holds_packets) reads, if it is not open.
    /// Returns how many bytes may be spliced into this pipe, so that they can be searched.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn searchable_len<K: Kernel>(&mut self, kernel: &K) -> Result<u64> {
        let probe = match &mut self.probe {
            Some(probe) => probe,
            none => none.insert(Probe::open(kernel, self.capacity)?),
        };
        // The search makes fewer calls if a slot of the probe is free.
        let page = kernel.page_size() as usize;
        let room = probe.capacity.saturating_sub(page).max(page);
        Ok(self.capacity.min(room).min(LONGEST_DISCARD - 1) as u64)
    }

    /// Returns whether a reader of these bytes could lose some because they are packets. Leaves all
    /// bytes in the pipe, and counts the calls.
    ///
    /// # Errors
    ///
    /// The errno of a call, or `ENOBUFS` if the probe has fewer slots than the bytes need, or is
    /// not open.
    pub(crate) fn holds_packets<K: Kernel>(&mut self, kernel: &K, calls: &mut u64) -> Result<bool> {
        let len = self.in_flight as usize;
        if len == 1 {
            // A packet of one byte cannot be divided.
            return Ok(false);
        }
        let probe = self.probe.take().ok_or(Errno::NOBUFS)?;
        let found = probe.finds_packets(kernel, self.reader.as_fd(), len, calls);
        // Otherwise the probe may still hold bytes, and is not needed again.
        if found == Ok(false) {
            self.probe = Some(probe);
        }
        found
    }

    /// Appends all bytes that the pipe holds to `bytes`, or fewer if memory is refused. Returns
    /// whether these are all: if not, no other bytes follow them.
    pub(crate) fn read_to_end<K: Kernel>(&mut self, kernel: &K, bytes: &mut Vec<u8>) -> bool {
        let len = std::mem::take(&mut self.in_flight) as usize;
        // The pipe holds these bytes, so that the reads neither sleep nor fail.
        let n = read_up_to(len, bytes, |_, room| {
            kernel.read(self.reader(), None, room, Blocking::MaySleep)
        });
        n == len
    }

    pub(crate) fn reader(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    pub(crate) fn writer(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}

/// A second pipe, which shares the bytes of a private pipe. Slots keep the flag of a packet through
/// splice(2) and tee(2), and only a read tells packets from a stream.
#[derive(Debug)]
struct Probe {
    reader: OwnedFd,
    writer: OwnedFd,
    capacity: usize,
}

impl Probe {
    fn open<K: Kernel>(kernel: &K, wanted: usize) -> Result<Self> {
        let (reader, writer) = kernel.pipe(Blocking::Nonblocking)?;
        let capacity = capacity_grown_to(kernel, writer.as_fd(), wanted)?;
        if capacity < DEFAULT_CAPACITY {
            return Err(Errno::NOBUFS);
        }
        Ok(Self {
            reader,
            writer,
            capacity,
        })
    }

    /// Returns whether a packet of more than one byte is among the `len` bytes that a pipe holds.
    /// After `Ok(false)` the probe is empty.
    fn finds_packets<K: Kernel>(
        &self,
        kernel: &K,
        pipe: BorrowedFd<'_>,
        len: usize,
        calls: &mut u64,
    ) -> Result<bool> {
        self.share(kernel, pipe, len, calls)?;
        *calls += 1;
        let writer = self.writer.as_fd();
        match retried(|| kernel.write(writer, None, &[0], Blocking::MaySleep)) {
            // A read ends behind a packet. It reaches the byte behind the shared ones only if no
            // packet is among them.
            Ok(_) => Ok(!self.discard(kernel, len + 1, calls)),
            // Every slot of the probe is in use. A packet that ends between the first two reads is
            // divided by the next two, and any other by one of the first two.
            Err(Errno::AGAIN) => {
                let is_stream =
                    self.discard(kernel, len - 1, calls) && self.discard(kernel, 1, calls);
                if !is_stream || len == 2 {
                    return Ok(!is_stream);
                }
                self.share(kernel, pipe, len, calls)?;
                let is_stream =
                    self.discard(kernel, len - 2, calls) && self.discard(kernel, 2, calls);
                Ok(!is_stream)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Shares the `len` bytes of a pipe, behind those in the probe.
    fn share<K: Kernel>(
        &self,
        kernel: &K,
        pipe: BorrowedFd<'_>,
        len: usize,
        calls: &mut u64,
    ) -> Result<()> {
        *calls += 1;
        let writer = self.writer.as_fd();
        let shared = retried(|| kernel.tee(pipe, writer, len, SpliceFlags::NONBLOCK))?;
        if shared < len {
            return Err(Errno::NOBUFS);
        }
        Ok(())
    }

    /// Reads and drops up to `len` bytes, and returns whether there were as many.
    fn discard<K: Kernel>(&self, kernel: &K, len: usize, calls: &mut u64) -> bool {
        *calls += 1;
        retried(|| kernel.discard(self.reader.as_fd(), len)) == Ok(len)
    }
}

/// Returns whether the descriptors of the process come near their limit, so that the program needs
/// the last ones for itself: to accept a connection, for example.
///
/// The kernel gives out the lowest free number, so that the number of a new descriptor tells how
/// many are open.
fn is_near_limit<K: Kernel>(kernel: &K, reader: &OwnedFd, writer: &OwnedFd) -> bool {
    let number = reader.as_raw_fd().max(writer.as_raw_fd());
    let number = u64::try_from(number).unwrap_or(0);
    number >= FEW_DESCRIPTORS && number >= kernel.descriptor_limit() / 4 * 3
}

/// Returns what a read of one byte from a pipe would return, and takes no byte: 1 if the pipe holds
/// bytes, 0 if it has ended.
///
/// `poll(2)` cannot tell: a FIFO that is open for reading in non-blocking mode and was never open
/// for writing polls as empty, although it has no writer. `tee(2)` returns 0 for it.
///
/// # Errors
///
/// `EAGAIN` if the pipe is empty and has a writer. On any other errno the state of the pipe is
/// unknown.
pub(crate) fn peek<K: Kernel>(kernel: &K, pipe: BorrowedFd<'_>) -> Result<usize> {
    let (_reader, writer) = kernel.pipe(Blocking::MaySleep)?;
    let ask = || retried(|| kernel.tee(pipe, writer.as_fd(), 1, SpliceFlags::NONBLOCK));
    // The call also returns 0 if another reader takes the bytes that it has seen.
    match ask()? {
        0 => ask(),
        n => Ok(n),
    }
}

/// Enlarges a pipe like [`grow`], and returns its capacity in bytes, also if it has not changed.
fn capacity_grown_to<K: Kernel>(kernel: &K, pipe: BorrowedFd<'_>, wanted: usize) -> Result<usize> {
    grow(kernel, pipe, wanted).map_or_else(|| kernel.pipe_capacity(pipe), Ok)
}

/// Enlarges a pipe to `wanted` bytes, or as many as the user's budget allows, and returns the new
/// capacity in bytes.
///
/// Returns `None` if the pipe keeps its capacity: it had as much before, or the kernel refuses. A
/// pipe never shrinks.
pub(crate) fn grow<K: Kernel>(
    kernel: &K,
    pipe: BorrowedFd<'_>,
    mut wanted: usize,
) -> Option<usize> {
    let current = kernel.pipe_capacity(pipe).ok()?;
    while wanted > current {
        match kernel.set_pipe_capacity(pipe, wanted) {
            Ok(granted) => return Some(granted),
            // Above `pipe-max-size` or the user's pages: a smaller capacity may be allowed.
            Err(Errno::PERM | Errno::NOMEM) => wanted /= 2,
            Err(_) => return None,
        }
    }
    None
}
