//! The strategies, and what is true of each.
//!
//! Every fact is a match without a wildcard, so that the compiler asks for it when a strategy is
//! added. Which strategies serve a pair of descriptors, and in which order, is the plan's to say.

use std::fmt;

use crate::endpoint::{Endpoint, FileSystem, Kind};
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

    /// The system call that it is.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Reflink => "ioctl_ficlonerange",
            Self::CopyFileRange => "copy_file_range",
            Self::Sendfile => "sendfile",
            Self::Splice | Self::SplicePipe => "splice",
            Self::Buffered => "read",
            Self::Tee => "tee",
        }
    }

    /// Whether it can serve several sinks, and repeat a pattern.
    pub(crate) fn serves_several(self) -> bool {
        match self {
            Self::Buffered | Self::Tee => true,
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe => false,
        }
    }

    /// Whether it serves every pair, so that no other strategy takes over from it.
    pub(crate) fn is_last_resort(self) -> bool {
        match self {
            Self::Buffered => true,
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe
            | Self::Tee => false,
        }
    }

    /// Whether the kernel moves the bytes and this process does not see them. Otherwise they pass
    /// through the buffer, and a step goes on with everything that is in flight.
    pub(crate) fn is_offload(self) -> bool {
        match self {
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe
            | Self::Tee => true,
            Self::Buffered => false,
        }
    }

    /// Whether its calls are `splice(2)` alone, which cannot pass the urgent mark of a stream.
    pub(crate) fn is_splice(self) -> bool {
        match self {
            Self::Splice | Self::SplicePipe => true,
            Self::Reflink | Self::CopyFileRange | Self::Sendfile | Self::Buffered | Self::Tee => {
                false
            }
        }
    }

    /// Whether a step fills a private pipe from the source and drains it into the sink.
    pub(crate) fn has_private_pipe(self) -> bool {
        match self {
            Self::SplicePipe => true,
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::Buffered
            | Self::Tee => false,
        }
    }

    /// Whether a step fills the buffer or a private pipe before it asks the sink, so that the sink
    /// need not be ready until then.
    pub(crate) fn fills_first(self) -> bool {
        self.has_private_pipe() || !self.is_offload()
    }

    /// Whether its calls name a range of a file, which is reserved first if the transfer goes by the
    /// cursor. Other calls take turns at the cursor with those of other processes, or have none.
    pub(crate) fn reserves_ranges(self) -> bool {
        match self {
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe => true,
            Self::Buffered | Self::Tee => false,
        }
    }

    /// Whether it moves bytes strictly in order, so that the result is well defined where source and
    /// sink overlap in one file.
    pub(crate) fn moves_in_order(self) -> bool {
        match self {
            Self::Buffered => true,
            Self::Reflink
            | Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe
            | Self::Tee => false,
        }
    }

    /// Whether a hole of the source becomes a hole of the sink without a search for holes. Only some
    /// file systems keep them in `copy_file_range(2)`.
    pub(crate) fn keeps_holes(self) -> bool {
        match self {
            Self::Reflink => true,
            Self::CopyFileRange
            | Self::Sendfile
            | Self::Splice
            | Self::SplicePipe
            | Self::Buffered
            | Self::Tee => false,
        }
    }

    /// Whether it hands the pages that the source holds to a pipe or socket, instead of a copy.
    pub(crate) fn hands_over_pages(self) -> bool {
        match self {
            Self::Sendfile | Self::Splice | Self::SplicePipe | Self::Tee => true,
            Self::Reflink | Self::CopyFileRange | Self::Buffered => false,
        }
    }

    /// Whether it holds pages of the source in a pipe until they are copied to the sink: the
    /// caller's pipe, a private one, or the kernel's own in `copy_file_range(2)`.
    pub(crate) fn holds_pages(self) -> bool {
        match self {
            Self::CopyFileRange | Self::Sendfile | Self::Splice | Self::SplicePipe | Self::Tee => {
                true
            }
            Self::Reflink | Self::Buffered => false,
        }
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
    pub(crate) fn divides_direct_blocks(self, source: &Endpoint) -> bool {
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
            _ => self.is_last_resort(),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Reflink => "reflink",
            Self::CopyFileRange => "copy_file_range",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::SplicePipe => "splice_pipe",
            Self::Buffered => "buffered",
            Self::Tee => "tee",
        })
    }
}
