//! The strategies and their properties.
//!
//! Each property is stated for every strategy: [`Strategy::facts`] and the methods below it match
//! without a wildcard, so that a new strategy does not compile until all are stated. The plan
//! decides which strategies serve a pair of descriptors, and in which order.

use std::fmt;

use crate::fd_info::{FdInfo, FileSystem, Kind};
use crate::sys::Errno;
use Strategy::{Buffered, CopyFileRange, Reflink, Sendfile, Splice, SplicePipe, Tee};

mod parse;

pub use parse::ParseStrategyError;

/// A way to move bytes from one descriptor to another, by a few system calls.
///
/// The strategies that the plan chooses give the same bytes, counts, cursors and errors. They
/// differ in speed and in [page sharing](crate::Transfer::stable). A requested
/// [`Splice`](Self::Splice) into a pipe also passes packets on, and fails with `EPIPE` where read
/// and write succeed. The plan chooses the fastest one that serves the pair; request one with
/// [`Transfer::strategy`](crate::Transfer::strategy) only to measure it or to make the transfer
/// fail without it.
///
/// # Examples
///
/// ```
/// use zcopy::{Strategy, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let report = Transfer::new(&source, &sink).strategy(Strategy::Splice).run();
/// assert!(report.is_err(), "neither end is a pipe");
///
/// let report = Transfer::new(&source, &sink).strategy(Strategy::Buffered).run()?;
/// assert_eq!(report.strategy(), Some(Strategy::Buffered));
/// assert_eq!(Strategy::Buffered.to_string(), "buffered");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Strategy {
    /// `ioctl(FICLONE)` and `ioctl(FICLONERANGE)`: makes two files share their blocks until one of
    /// them is written to.
    Reflink,
    /// `copy_file_range(2)`: lets the file system copy between two of its files, or share their
    /// blocks.
    CopyFileRange,
    /// `sendfile(2)`: moves bytes from a file or device to a pipe, a socket or a character device.
    Sendfile,
    /// `splice(2)`: moves pages from or to a pipe. It serves pairs of which at least one end is a
    /// pipe. Between two pipes a packet stays a packet (`pipe2(O_DIRECT)`), so that a reader of the
    /// sink may lose a part of it; the plan uses [`SplicePipe`](Self::SplicePipe) there.
    Splice,
    /// `splice(2)` twice: moves pages from the source to a private pipe, and from there to the
    /// sink. Between two pipes it refuses packets, which read and write turn into a stream.
    SplicePipe,
    /// `read(2)` and `write(2)`: copies through a [buffer](crate::Transfer::buffer_size), by
    /// default of 256 KiB. It serves every pair.
    Buffered,
    /// `tee(2)`: duplicates the content of one pipe in another. It serves the sinks of a
    /// [`FanOut`](crate::FanOut), also a single one, and [repeated](crate::Repeat) patterns.
    Tee,
}

/// The properties of a strategy that do not depend on the endpoints.
#[allow(clippy::struct_excessive_bools, reason = "independent properties")]
pub(crate) struct Facts {
    /// The name that [`Strategy::name`] returns.
    pub(crate) name: &'static str,
    /// The name of its system call in section 2 of the manual.
    pub(crate) call: &'static str,
    /// Whether it can serve several sinks, and repeat a pattern.
    pub(crate) serves_several: bool,
    /// Whether it serves every pair, so that no other strategy takes over from it.
    pub(crate) is_last_resort: bool,
    /// Whether the bytes stay in the kernel. Otherwise they pass through the buffer, and a step
    /// first writes the bytes that are in flight.
    pub(crate) is_offload: bool,
    /// Whether it calls only `splice(2)`, which cannot pass the urgent mark of a TCP stream.
    pub(crate) is_splice: bool,
    /// Whether a step fills a private pipe from the source and empties it into the sink.
    pub(crate) has_private_pipe: bool,
    /// Whether its calls name a range of a file. If the transfer uses the cursor, the range is
    /// reserved first. The other strategies read and write at the cursor, where the kernel
    /// serializes the calls of several processes, or move bytes between pipes.
    pub(crate) reserves_ranges: bool,
    /// Whether it moves bytes strictly in order, so that the result is well defined if source and
    /// sink overlap in one file.
    pub(crate) moves_in_order: bool,
    /// Whether a hole of the source becomes a hole of the sink without a search for holes.
    /// `copy_file_range(2)` keeps holes only on some file systems.
    pub(crate) keeps_holes: bool,
    /// Whether a pipe or socket receives the pages of the source instead of a copy.
    pub(crate) hands_over_pages: bool,
    /// Whether a pipe holds pages of the source until they are copied to the sink: the caller's
    /// pipe, a private one, or the kernel's own in `copy_file_range(2)`.
    pub(crate) holds_pages: bool,
}

impl Strategy {
    /// All strategies that serve one source and one sink, the most specialised first. They stand
    /// before [`Tee`](Self::Tee) in the enum, so that the array does not compile if one is
    /// missing.
    pub(crate) const PAIRWISE: [Self; Tee as usize] = [
        Reflink,
        CopyFileRange,
        Sendfile,
        Splice,
        SplicePipe,
        Buffered,
    ];

    /// Returns every strategy: those for one sink, and [`Tee`](Self::Tee).
    fn all() -> impl Iterator<Item = Self> {
        Self::PAIRWISE.into_iter().chain([Tee])
    }

    /// Returns the name of the strategy, which `Display` prints and
    /// [`FromStr`](std::str::FromStr) parses.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Strategy;
    ///
    /// const NAME: &str = Strategy::CopyFileRange.name();
    /// assert_eq!(NAME, "copy_file_range");
    /// assert_eq!(NAME.parse(), Ok(Strategy::CopyFileRange));
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the properties of the strategy.
    #[inline]
    pub(crate) const fn facts(self) -> Facts {
        let (name, call) = match self {
            Reflink => ("reflink", "ioctl_ficlonerange"),
            CopyFileRange => ("copy_file_range", "copy_file_range"),
            Sendfile => ("sendfile", "sendfile"),
            Splice => ("splice", "splice"),
            SplicePipe => ("splice_pipe", "splice"),
            Buffered => ("buffered", "read"),
            Tee => ("tee", "tee"),
        };
        Facts {
            name,
            call,
            serves_several: match self {
                Buffered | Tee => true,
                Reflink | CopyFileRange | Sendfile | Splice | SplicePipe => false,
            },
            is_last_resort: match self {
                Buffered => true,
                Reflink | CopyFileRange | Sendfile | Splice | SplicePipe | Tee => false,
            },
            is_offload: match self {
                Reflink | CopyFileRange | Sendfile | Splice | SplicePipe | Tee => true,
                Buffered => false,
            },
            is_splice: match self {
                Splice | SplicePipe => true,
                Reflink | CopyFileRange | Sendfile | Buffered | Tee => false,
            },
            has_private_pipe: match self {
                SplicePipe => true,
                Reflink | CopyFileRange | Sendfile | Splice | Buffered | Tee => false,
            },
            reserves_ranges: match self {
                Reflink | CopyFileRange | Sendfile | Splice | SplicePipe => true,
                Buffered | Tee => false,
            },
            moves_in_order: match self {
                Buffered => true,
                Reflink | CopyFileRange | Sendfile | Splice | SplicePipe | Tee => false,
            },
            keeps_holes: match self {
                Reflink => true,
                CopyFileRange | Sendfile | Splice | SplicePipe | Buffered | Tee => false,
            },
            hands_over_pages: match self {
                Sendfile | Splice | SplicePipe | Tee => true,
                Reflink | CopyFileRange | Buffered => false,
            },
            holds_pages: match self {
                CopyFileRange | Sendfile | Splice | SplicePipe | Tee => true,
                Reflink | Buffered => false,
            },
        }
    }

    /// Returns whether a step fills the buffer or a private pipe before it writes, so that it can
    /// begin before the sink is ready.
    pub(crate) fn fills_first(self) -> bool {
        self.facts().has_private_pipe || !self.facts().is_offload
    }

    /// Returns whether a sink that is open with `O_DIRECT` may receive partial blocks from it. The
    /// private pipe passes a file's pages whole, and the rest of the last page goes by `write(2)`.
    ///
    /// # Kernel notes
    ///
    /// If the blocks of the sink lie in several extents, `iomap_dio_rw` checks for each extent in
    /// turn whether the memory and the length suit the device. So `EINVAL` may come after the first
    /// extents have been written, and the call then counts none of their bytes
    /// (`a_direct_sink_holds_no_more_than_is_reported`).
    pub(crate) fn divides_direct_blocks(self, source: &FdInfo) -> bool {
        match self {
            Splice | Sendfile => true,
            SplicePipe => !source.is_seekable(),
            // On the other local file systems the kernel splices. The server of a network file
            // system copies.
            CopyFileRange => !matches!(
                source.file_system,
                FileSystem::Unknown | FileSystem::Fuse | FileSystem::Other
            ),
            Reflink | Buffered | Tee => false,
        }
    }

    /// Returns whether a call that returns 0 proves that a source of this kind has ended. If not,
    /// the source may be a file that hides its size (`/proc`), or a stream at its urgent mark.
    pub(crate) fn proves_end(self, source: Kind, sink: Kind) -> bool {
        match self {
            Buffered => true,
            // With a pipe as the source, 0 may mean that the sink accepted nothing.
            Splice => source == Kind::Pipe && sink == Kind::Pipe,
            Reflink | CopyFileRange | Sendfile | SplicePipe | Tee => source == Kind::Pipe,
        }
    }

    /// Returns whether this errno fails the transfer even if the strategy has moved nothing yet.
    /// After any other errno the next strategy is tried.
    ///
    /// Every strategy would fail with no space, no memory or no peer. The same holds for `EIO`,
    /// except from `copy_file_range`, which returns it on CIFS for pairs that read and write serve
    /// well (gnulib, golang/go#42334).
    pub(crate) fn is_fatal(self, errno: Errno) -> bool {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::PIPE | Errno::CONNRESET => true,
            Errno::IO => match self {
                CopyFileRange => false,
                Reflink | Sendfile | Splice | SplicePipe | Buffered | Tee => true,
            },
            _ => self.facts().is_last_resort,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
