//! The strategies, and what is true of each.
//!
//! [`Strategy::facts`] is a table: a new strategy does not compile until its row states every fact.
//! Facts that depend on the endpoints or an errno are methods, each a match without a wildcard.
//! The plan decides which strategies serve a pair of descriptors, and in which order.

use std::fmt;

use crate::fd_info::{FdInfo, FileSystem, Kind};
use crate::sys::Errno;

/// A way to move bytes from one descriptor to another, named after its system call.
///
/// The strategy changes how fast a transfer is, and nothing else: bytes, counts, cursors and errors
/// are the same.
///
/// # Examples
///
/// ```
/// use zcopy::{Strategy, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let report = Transfer::new(&source, &sink).strategy(Strategy::Splice).run();
/// assert!(report.is_err(), "splice needs a pipe at one end");
///
/// let report = Transfer::new(&source, &sink).strategy(Strategy::Buffered).run()?;
/// assert_eq!(report.strategy(), Strategy::Buffered);
/// assert_eq!(report.strategy().to_string(), "buffered");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Strategy {
    /// `ioctl(FICLONE)` and `ioctl(FICLONERANGE)`: two files share their blocks until one is
    /// written to.
    Reflink,
    /// `copy_file_range(2)`: the file system copies between two files of its own, or shares blocks.
    CopyFileRange,
    /// `sendfile(2)`: from a file or device to a pipe, a socket or a character device.
    Sendfile,
    /// `splice(2)` where one end is a pipe already.
    Splice,
    /// `splice(2)` twice, through a private pipe.
    SplicePipe,
    /// `read(2)` and `write(2)` with one buffer of 256 KiB. It serves every pair.
    Buffered,
    /// `tee(2)`: from one pipe to another without taking anything away. It serves several sinks, and
    /// patterns that are repeated; never one source and one sink.
    Tee,
}

/// The facts that hold for a strategy whatever it connects.
#[allow(clippy::struct_excessive_bools, reason = "facts, one by one")]
pub(crate) struct Facts {
    /// The name that is displayed.
    pub(crate) name: &'static str,
    /// The system call that it is.
    pub(crate) call: &'static str,
    /// Whether it can serve several sinks, and repeat a pattern.
    pub(crate) serves_several: bool,
    /// Whether it serves every pair, so that no other strategy takes over from it.
    pub(crate) is_last_resort: bool,
    /// Whether the kernel moves the bytes and this process does not see them. Otherwise they pass
    /// through the buffer, and a step goes on with everything that is in flight.
    pub(crate) is_offload: bool,
    /// Whether its calls are `splice(2)` alone, which cannot pass the urgent mark of a stream.
    pub(crate) is_splice: bool,
    /// Whether a step fills a private pipe from the source and drains it into the sink.
    pub(crate) has_private_pipe: bool,
    /// Whether its calls name a range of a file, which is reserved first if the transfer goes by the
    /// cursor. Other calls take turns at the cursor with those of other processes, or have none.
    pub(crate) reserves_ranges: bool,
    /// Whether it moves bytes strictly in order, so that the result is well defined where source and
    /// sink overlap in one file.
    pub(crate) moves_in_order: bool,
    /// Whether a hole of the source becomes a hole of the sink without a search for holes. Only some
    /// file systems keep them in `copy_file_range(2)`.
    pub(crate) keeps_holes: bool,
    /// Whether it hands the pages that the source holds to a pipe or socket, instead of a copy.
    pub(crate) hands_over_pages: bool,
    /// Whether it holds pages of the source in a pipe until they are copied to the sink: the
    /// caller's pipe, a private one, or the kernel's own in `copy_file_range(2)`.
    pub(crate) holds_pages: bool,
}

impl Strategy {
    /// Every strategy that serves one source and one sink, the most specialised first: all that
    /// stand before [`Tee`](Self::Tee) in the enum, so that the compiler misses one left out here.
    pub(crate) const PAIRWISE: [Self; Self::Tee as usize] = [
        Self::Reflink,
        Self::CopyFileRange,
        Self::Sendfile,
        Self::Splice,
        Self::SplicePipe,
        Self::Buffered,
    ];

    /// The table of facts: one row for each strategy, which states every fact.
    #[inline]
    pub(crate) const fn facts(self) -> Facts {
        match self {
            Self::Reflink => Facts {
                name: "reflink",
                call: "ioctl_ficlonerange",
                serves_several: false,
                is_last_resort: false,
                is_offload: true,
                is_splice: false,
                has_private_pipe: false,
                reserves_ranges: true,
                moves_in_order: false,
                keeps_holes: true,
                hands_over_pages: false,
                holds_pages: false,
            },
            Self::CopyFileRange => Facts {
                name: "copy_file_range",
                call: "copy_file_range",
                serves_several: false,
                is_last_resort: false,
                is_offload: true,
                is_splice: false,
                has_private_pipe: false,
                reserves_ranges: true,
                moves_in_order: false,
                keeps_holes: false,
                hands_over_pages: false,
                holds_pages: true,
            },
            Self::Sendfile => Facts {
                name: "sendfile",
                call: "sendfile",
                serves_several: false,
                is_last_resort: false,
                is_offload: true,
                is_splice: false,
                has_private_pipe: false,
                reserves_ranges: true,
                moves_in_order: false,
                keeps_holes: false,
                hands_over_pages: true,
                holds_pages: true,
            },
            Self::Splice => Facts {
                name: "splice",
                call: "splice",
                serves_several: false,
                is_last_resort: false,
                is_offload: true,
                is_splice: true,
                has_private_pipe: false,
                reserves_ranges: true,
                moves_in_order: false,
                keeps_holes: false,
                hands_over_pages: true,
                holds_pages: true,
            },
            Self::SplicePipe => Facts {
                name: "splice_pipe",
                call: "splice",
                serves_several: false,
                is_last_resort: false,
                is_offload: true,
                is_splice: true,
                has_private_pipe: true,
                reserves_ranges: true,
                moves_in_order: false,
                keeps_holes: false,
                hands_over_pages: true,
                holds_pages: true,
            },
            Self::Buffered => Facts {
                name: "buffered",
                call: "read",
                serves_several: true,
                is_last_resort: true,
                is_offload: false,
                is_splice: false,
                has_private_pipe: false,
                reserves_ranges: false,
                moves_in_order: true,
                keeps_holes: false,
                hands_over_pages: false,
                holds_pages: false,
            },
            Self::Tee => Facts {
                name: "tee",
                call: "tee",
                serves_several: true,
                is_last_resort: false,
                is_offload: true,
                is_splice: false,
                has_private_pipe: false,
                reserves_ranges: false,
                moves_in_order: false,
                keeps_holes: false,
                hands_over_pages: true,
                holds_pages: true,
            },
        }
    }

    /// Whether a step fills the buffer or a private pipe before it asks the sink, so that the sink
    /// need not be ready until then.
    pub(crate) fn fills_first(self) -> bool {
        self.facts().has_private_pipe || !self.facts().is_offload
    }

    /// Whether it may give a sink that is open with `O_DIRECT` anything but whole blocks. Through the
    /// private pipe a file's own pages come whole, and what is left of the last one is written.
    ///
    /// # Kernel notes
    ///
    /// Where the blocks of the sink lie in several extents, `iomap_dio_rw` asks of each extent in
    /// turn whether the memory and the length suit the device. So `EINVAL` may come when the first
    /// ones have been written, and the call then counts none of it
    /// (`a_direct_sink_holds_no_more_than_is_reported`).
    pub(crate) fn divides_direct_blocks(self, source: &FdInfo) -> bool {
        match self {
            Self::Splice | Self::Sendfile => true,
            Self::SplicePipe => !source.is_seekable(),
            // Here it is a splice inside the kernel. Servers copy by themselves.
            Self::CopyFileRange => {
                !matches!(source.file_system, FileSystem::Unknown | FileSystem::Other)
            }
            Self::Reflink | Self::Buffered | Self::Tee => false,
        }
    }

    /// Whether a call that returns 0 proves that a source of this kind has ended. Where it does not,
    /// the source may be a file that hides its size, or a stream at its urgent mark.
    pub(crate) fn proves_end(self, source: Kind, sink: Kind) -> bool {
        match self {
            Self::Buffered => true,
            // Out of a pipe, a 0 may mean that the sink took nothing.
            Self::Splice => source == Kind::Pipe && sink == Kind::Pipe,
            Self::Reflink | Self::CopyFileRange | Self::Sendfile | Self::SplicePipe | Self::Tee => {
                source == Kind::Pipe
            }
        }
    }

    /// Whether this errno fails the transfer although the strategy has moved nothing yet. Any other
    /// errno lets the next strategy try.
    ///
    /// No room, no memory and no peer stay so for every strategy. `EIO` does too, except from
    /// `copy_file_range`, which returns it on CIFS for pairs that read and write serve well
    /// (gnulib, golang/go#42334).
    pub(crate) fn is_fatal(self, errno: Errno) -> bool {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::PIPE | Errno::CONNRESET => true,
            Errno::IO => match self {
                Self::CopyFileRange => false,
                Self::Reflink
                | Self::Sendfile
                | Self::Splice
                | Self::SplicePipe
                | Self::Buffered
                | Self::Tee => true,
            },
            _ => self.facts().is_last_resort,
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().name)
    }
}
