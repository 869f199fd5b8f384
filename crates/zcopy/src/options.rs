//! What the caller asked for.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::pipe;
use crate::strategy::Strategy;

/// Whether two files may come to share their blocks.
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
    /// Where the file system can.
    #[default]
    Auto,
    /// Blocks are shared, or the transfer fails: before anything is shared where a limit, an offset or a
    /// [rate](crate::Transfer::rate_limit) shows that it must. Offsets and limit have to be multiples of
    /// the file system's block, 4 KiB as a rule.
    Always,
    /// The sink gets blocks of its own: neither by an ioctl nor by `copy_file_range`, which may
    /// share silently.
    Never,
}

/// What becomes of holes.
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
    /// Between regular files a hole stays a hole; elsewhere it is read as zeros. A hole is not read
    /// either if it is only to be [inspected](crate::Transfer::inspect) on the way to `/dev/null`.
    ///
    /// A sink that appends gets zeros too: each write goes to its end, so that nothing can be stepped over.
    #[default]
    Keep,
    /// Holes are written as zeros, so that every block of the sink is allocated.
    Fill,
    /// Blocks of 4 KiB that are all zeros become holes, whatever the source. The bytes take the
    /// route through user space.
    Detect,
    /// As [`Keep`](Self::Keep), and blocks that were allocated by `fallocate(2)` and never written
    /// become holes too.
    ///
    /// The number of blocks does not tell whether a source has any, so that every source of 1 MiB
    /// and more is searched. The search opens the source again and makes four calls for each
    /// extent. On ext4 and xfs such blocks count as data while the page cache has them, because
    /// somebody read them.
    KeepUnwritten,
}

/// What becomes of the page cache.
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
    /// Left to the kernel.
    #[default]
    Keep,
    /// No pages of either file stay behind, nor what the kernel has read ahead of a transfer that stops
    /// before the end, but for what the disk is reading at that moment. The sink's bytes are on their way to the disk when the
    /// transfer ends, which is not the same as `fsync(2)`: neither its metadata nor the disk's own
    /// cache is flushed.
    ///
    /// Of a file whose cursor another process or thread moves too, only what was moved before that is certain to go: the
    /// pages that follow may be theirs.
    DropBehind,
}

/// What becomes of places where the source cannot be read.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroU64;
/// use zcopy::{SkipErrors, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let a_track = NonZeroU64::new(1 << 20).map_or(SkipErrors::Adaptive, SkipErrors::Block);
/// let report = Transfer::new(&source, &sink).skip_errors(a_track).run()?;
/// assert_eq!(report.skipped_bytes(), 0, "it can be read");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipErrors {
    /// The transfer fails there.
    #[default]
    Never,
    /// They are skipped, and as little else as can be.
    ///
    /// A read that fails is made again in the smallest pieces that may come out differently, and in longer
    /// ones as long as they do: a bad block of one piece costs three failing reads. Behind 16 pieces
    /// in a row that fail, reads twice as far away each time find where the bad block ends, and then
    /// ever nearer ones where exactly, so that a source that is bad altogether costs some dozens of
    /// failing reads. What this can cost, and nothing else does, are good pieces that lie between bad ones
    /// behind those 16. A disk or a server that has gone may look bad altogether.
    Adaptive,
    /// They are skipped up to the next multiple of so many bytes of the source's position, with whatever
    /// good lies before that. What lies before the bad block is kept.
    ///
    /// With `O_DIRECT` the block is rounded up to whole pieces that can be read. A source that is bad
    /// altogether costs a failing read a block.
    Block(NonZeroU64),
}

/// When what the sink has accepted is brought to the disk itself.
///
/// # Examples
///
/// ```
/// use zcopy::{SyncData, Transfer};
///
/// let path = std::env::temp_dir().join(format!("zcopy-doc-sync-{}", std::process::id()));
/// let zeros = std::fs::File::open("/dev/zero")?;
/// let sink = std::fs::File::create(&path)?;
/// let report = Transfer::new(&zeros, &sink).limit(1 << 20).sync_data(SyncData::EachStep).run()?;
/// assert_eq!(report.bytes(), 1 << 20);
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncData {
    /// When the kernel sees fit.
    #[default]
    Never,
    /// After each step, by `fdatasync(2)`, if the sink is a regular file or a block device; of anything else
    /// nothing can be brought to a disk, nor of files that have none (`/proc`). What an observer is told of
    /// would survive a loss of power.
    EachStep,
}

/// What the caller asked for that is counted in records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordOptions {
    /// What ends a record, if that was said.
    pub(crate) delimiter: Option<u8>,
    pub(crate) limit: Option<u64>,
    /// Records a second.
    pub(crate) rate: Option<NonZeroU64>,
}

impl RecordOptions {
    /// What ends a record, if records are counted: a line feed, if a limit or a rate alone was given.
    pub(crate) fn delimiter(&self) -> Option<u8> {
        let is_bounded = self.limit.is_some() || self.rate.is_some();
        self.delimiter.or(is_bounded.then_some(b'\n'))
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.delimiter().is_some()
    }
}

/// What a transfer to several sinks does when one of them fails.
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
/// // Go on without disks that are full; for anything else, stop.
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
    /// The transfer fails.
    #[default]
    Stop,
    /// The transfer goes on without that sink; its [report](crate::SinkReport) says what it has got.
    Detach,
}

/// Everything a transfer can be told.
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
    /// What the caller's pipes may be enlarged to, in bytes.
    pub(crate) pipe_size: usize,
    /// What the buffer and the private pipe hold, in bytes, if not what they hold by default.
    pub(crate) buffer_size: Option<usize>,
    pub(crate) rate_limit: Option<NonZeroU64>,
    pub(crate) tick: Option<Duration>,
    pub(crate) records: RecordOptions,
    /// Whether a sink counts as failed as soon as its reader has gone.
    pub(crate) watch_readers: bool,
    /// Whether somebody looks at the bytes.
    pub(crate) inspected: bool,
    /// Whether somebody watches the count.
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
            records: RecordOptions::default(),
            watch_readers: false,
            inspected: false,
            observed: false,
        }
    }
}
