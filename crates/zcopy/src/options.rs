//! The values of the options of a transfer.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::pipe;
use crate::strategy::Strategy;
use crate::sys::Blocking;

/// Whether two files may share blocks (`ioctl(FICLONERANGE)`) instead of copying them.
///
/// Choose [`Always`](Self::Always) when the copy must take no disk space, and
/// [`Never`](Self::Never) when the copy must survive damage to the blocks of the original or must
/// not run out of space when it is overwritten later.
///
/// # Examples
///
/// ```
/// use zcopy::{Reflink, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let error = Transfer::new(&source, &sink).reflink(Reflink::Always).run().unwrap_err();
/// assert!(error.is_unsuitable(), "a device has no blocks to share");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reflink {
    /// Shares blocks where the file system can, and copies otherwise.
    #[default]
    Auto,
    /// Shares blocks or fails.
    ///
    /// If a limit, an offset or a [rate limit](crate::Transfer::rate_limit) makes sharing
    /// impossible, the transfer fails before it shares anything. Offsets and the limit have to be
    /// multiples of the block size of the file system, usually 4 KiB.
    Always,
    /// Allocates new blocks for the sink. Uses neither the ioctl nor `copy_file_range(2)`, which
    /// may share blocks silently.
    Never,
}

/// How a transfer treats holes.
///
/// [`Keep`](Self::Keep) suits most copies. Choose [`Detect`](Self::Detect) to make a sparse file
/// from a source without holes (a pipe, a device), [`KeepUnwritten`](Self::KeepUnwritten) for
/// preallocated images, and [`Fill`](Self::Fill) for files whose later writes must not fail for
/// lack of space.
///
/// # Examples
///
/// ```
/// use std::os::unix::fs::MetadataExt;
/// use zcopy::{Sparse, Transfer};
///
/// let dir = std::env::temp_dir();
/// let path = dir.join(format!("zcopy-doc-sparse-{}", std::process::id()));
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create(&path)?;
/// Transfer::new(&zeros, &sink).limit(1 << 20).sparse(Sparse::Detect).run()?;
/// let metadata = sink.metadata()?;
/// assert_eq!((metadata.len(), metadata.blocks()), (1 << 20, 0));
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sparse {
    /// Keeps the holes of a regular file that is copied to a regular file. Other sinks receive a
    /// hole as zeros.
    ///
    /// A sink that is open with `O_APPEND` receives zeros too, because each write goes to the end
    /// of the file. On the way to `/dev/null` holes are not read, even if the bytes are
    /// [inspected](crate::Transfer::inspect).
    #[default]
    Keep,
    /// Writes holes as zeros, so that every block of the sink is allocated.
    Fill,
    /// Makes a hole of each 4 KiB block of zeros, from any source. The bytes are read and written,
    /// because user space has to look at them.
    Detect,
    /// Keeps holes like [`Keep`](Self::Keep), and makes holes of blocks that `fallocate(2)`
    /// allocated and that were never written.
    ///
    /// The number of blocks does not show whether a source has unwritten ones, so the transfer
    /// searches every source of 1 MiB or more. The search opens the source again and makes four
    /// system calls for each extent. On ext4 and xfs unwritten blocks count as data while the page
    /// cache holds them, that is after another process has read them.
    KeepUnwritten,
}

/// How a transfer uses the page cache.
///
/// Choose [`DropBehind`](Self::DropBehind) for large copies that are not read again soon, so that
/// they do not evict the pages of other programs. It makes the transfer wait for the disk.
///
/// # Examples
///
/// ```
/// use zcopy::{Cache, Transfer};
///
/// let path = std::env::temp_dir().join(format!("zcopy-doc-cache-{}", std::process::id()));
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create(&path)?;
/// let report = Transfer::new(&zeros, &sink).limit(1 << 20).cache(Cache::DropBehind).run()?;
/// assert_eq!(report.bytes(), 1 << 20);
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cache {
    /// Leaves the page cache to the kernel.
    #[default]
    Keep,
    /// Drops the pages of both files from the page cache once they have been moved.
    ///
    /// If the transfer stops early, it also drops the pages that the kernel has read ahead, except
    /// those that the disk is reading at that moment. When the transfer ends, the kernel has
    /// started to write the sink's bytes to the disk. This is weaker than `fsync(2)`: neither the
    /// metadata nor the disk's own cache is flushed.
    ///
    /// If another process or thread moves the cursor of a file too, only the pages moved before
    /// that are certain to be dropped, because the pages that follow may be in use by the other.
    DropBehind,
}

/// Whether a transfer skips the blocks of the source that cannot be read. The sink receives zeros
/// in their place.
///
/// Choose [`Adaptive`](Self::Adaptive) to save as many bytes as possible, and
/// [`Block`](Self::Block) to read a failing disk as few times as possible.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU64;
/// use zcopy::{SkipErrors, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mebibyte = NonZeroU64::new(1 << 20).map_or(SkipErrors::Adaptive, SkipErrors::Block);
/// let report = Transfer::new(&source, &sink).skip_errors(mebibyte).run()?;
/// assert_eq!(report.skipped_bytes(), 0, "every byte can be read");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipErrors {
    /// Fails at the first read error.
    #[default]
    Never,
    /// Skips the unreadable blocks and as few good bytes as possible.
    ///
    /// After a failed read the transfer reads the smallest pieces that can be read separately, and
    /// longer pieces while the reads succeed. A bad block of one piece costs three failing reads.
    /// After 16 pieces in a row that fail, the transfer searches for the end of the bad range: each
    /// read is twice as far away as the one before, then a bisection finds the exact place. So a
    /// source without any readable block costs some dozens of failing reads. Good pieces between
    /// bad ones are lost only behind these 16 pieces. A disk or a server that has gone may look
    /// like a source without readable blocks.
    Adaptive,
    /// Skips to the next position in the source that is a multiple of this many bytes. Good bytes
    /// before the unreadable ones are kept, good bytes between them and that position are skipped.
    ///
    /// With `O_DIRECT` the number is rounded up to a multiple of the smallest piece that can be
    /// read. A source without any readable block costs one failing read per block.
    Block(NonZeroU64),
}

/// When the bytes that the sink has accepted are written to the disk.
///
/// Choose [`EachStep`](Self::EachStep) if an observer records how far the transfer has come and
/// that must hold after a loss of power, and [`AtEnd`](Self::AtEnd) if only a whole copy counts.
///
/// # Examples
///
/// ```
/// use zcopy::{SyncData, Transfer};
///
/// let path = std::env::temp_dir().join(format!("zcopy-doc-sync-{}", std::process::id()));
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create(&path)?;
/// let report = Transfer::new(&zeros, &sink).limit(1 << 20).sync_data(SyncData::AtEnd).run()?;
/// assert_eq!(report.bytes(), 1 << 20);
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncData {
    /// Leaves the time to the kernel.
    #[default]
    Never,
    /// Calls `fdatasync(2)` after each step and before the observer, so that every byte that the
    /// observer counts survives a loss of power. Sinks other than regular files and block devices,
    /// and files without a disk (`/proc`), are not synced.
    EachStep,
    /// Calls `fdatasync(2)` once, after the last byte and before the report, however the transfer
    /// ends without an error: at the end of the source, at a limit, by a stop, or after a time-out.
    /// A transfer that fails is not synced, nor is a sink that was
    /// [detached](crate::OnSinkError::Detach). The call also writes what earlier transfers have
    /// left of the same file. Sinks are left out as by [`EachStep`](Self::EachStep).
    AtEnd,
}

/// The options that count in records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordOptions {
    /// The byte that ends a record, if the caller has set one.
    pub(crate) delimiter: Option<u8>,
    pub(crate) limit: Option<u64>,
    /// Records per second.
    pub(crate) rate: Option<NonZeroU64>,
}

impl RecordOptions {
    /// Returns the byte that ends a record [default with a limit or a rate: line feed]. Returns
    /// `None` if records are not counted.
    pub(crate) fn delimiter(&self) -> Option<u8> {
        let is_bounded = self.limit.is_some() || self.rate.is_some();
        self.delimiter.or(is_bounded.then_some(b'\n'))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.delimiter().is_some()
    }
}

/// The decision of a [`FanOut`](crate::FanOut) after a failure of one of its sinks.
///
/// # Examples
///
/// ```
/// use std::io::{ErrorKind, Write};
/// use zcopy::{OnSinkError, Transfer};
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"hello")?;
/// drop(writer);
/// let null = std::fs::File::create("/dev/null")?;
/// let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///
/// // Continue without full disks, and stop at any other error.
/// let mut full_disks = Vec::new();
/// let report = Transfer::new(&source, &null)
///     .also_to(&full)
///     .on_sink_error_with(|sink| match sink.error().map(|error| error.kind()) {
///         Some(ErrorKind::StorageFull) => {
///             full_disks.push(sink.index());
///             OnSinkError::Detach
///         }
///         _ => OnSinkError::Stop,
///     })
///     .run()?;
/// assert_eq!(report.bytes(), 5);
/// assert_eq!(full_disks, [1]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnSinkError {
    /// Ends the fan-out, and returns the error. Choose it if the caller can do something about the
    /// sink. No byte is lost: [`SinkReport::ahead`](crate::SinkReport::ahead) says how to go on,
    /// without the sink, or with it when it is mended.
    #[default]
    Stop,
    /// Continues without that sink. Its [report](crate::SinkReport) counts the bytes that it
    /// accepted. Choose it if the others must not wait. The caller hears of it from
    /// [`on_sink_error_with`](crate::FanOut::on_sink_error_with) or from the report; the bytes that
    /// the sink lacks cannot be had again, unless the source has a cursor.
    Detach,
}

/// All options of a transfer.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "builder switches")]
pub(crate) struct Options {
    pub(crate) limit: Option<u64>,
    pub(crate) source_offset: Option<u64>,
    pub(crate) sink_offset: Option<u64>,
    pub(crate) stable: bool,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) reflink: Reflink,
    pub(crate) sparse: Sparse,
    pub(crate) cache: Cache,
    pub(crate) skip_errors: SkipErrors,
    pub(crate) sync_data: SyncData,
    pub(crate) grow_pipes: bool,
    /// The capacity in bytes to which the caller's pipes may be enlarged.
    pub(crate) pipe_size: usize,
    /// The size in bytes of the buffer and of the private pipe, unless it is the default.
    pub(crate) buffer_size: Option<usize>,
    pub(crate) rate_limit: Option<NonZeroU64>,
    pub(crate) tick: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) deadline: Option<Instant>,
    /// Whether a [`Stop`](crate::Stop) can end the transfer.
    pub(crate) stoppable: bool,
    /// Whether the caller takes the steps ([`Session`](crate::Session)), and waits between them.
    pub(crate) stepped: bool,
    /// Whether the transfer is one direction of a relay: it holds a pipe only while bytes come in
    /// bulk, a small one at first.
    pub(crate) relayed: bool,
    pub(crate) records: RecordOptions,
    /// Whether a sink fails as soon as its reader has closed.
    pub(crate) watch_readers: bool,
    /// Whether bytes of the caller's precede those of the source.
    pub(crate) has_prefix: bool,
    /// Whether a callback inspects the bytes.
    pub(crate) inspected: bool,
    /// Whether an observer is called.
    pub(crate) observed: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limit: None,
            source_offset: None,
            sink_offset: None,
            stable: false,
            strategy: None,
            reflink: Reflink::default(),
            sparse: Sparse::default(),
            cache: Cache::default(),
            skip_errors: SkipErrors::default(),
            sync_data: SyncData::default(),
            grow_pipes: true,
            pipe_size: pipe::WANTED,
            buffer_size: None,
            rate_limit: None,
            tick: None,
            idle_timeout: None,
            deadline: None,
            stoppable: false,
            stepped: false,
            relayed: false,
            records: RecordOptions::default(),
            watch_readers: false,
            has_prefix: false,
            inspected: false,
            observed: false,
        }
    }
}

impl Options {
    /// Returns whether calls may sleep. They must not if the transfer has to call an observer, to
    /// watch readers, to end in time or to return to its caller, or if it has a rate limit: a
    /// call that sleeps would hold tokens that other transfers need.
    pub(crate) fn blocking(&self) -> Blocking {
        let has_time_limit = self.idle_timeout.is_some() || self.deadline.is_some();
        let must_return = self.tick.is_some()
            || self.watch_readers
            || has_time_limit
            || self.rate_limit.is_some()
            || self.records.rate.is_some()
            || self.stoppable
            || self.stepped;
        if must_return {
            Blocking::Nonblocking
        } else {
            Blocking::MaySleep
        }
    }
}
