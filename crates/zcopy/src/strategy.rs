//! The ways to move bytes, one system call each.

use std::fmt;

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

    /// Whether a failure before this strategy moved its first byte fails the transfer, rather
    /// than a sign that the pair needs another strategy.
    ///
    /// No room, no memory and no peer stay so whoever asks. `EIO` too, except from
    /// `copy_file_range`, which returns it on CIFS for pairs that read and write serve well
    /// (gnulib, golang/go#42334).
    pub(crate) fn is_fatal(self, errno: Errno) -> bool {
        match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::NOMEM | Errno::PIPE | Errno::CONNRESET => true,
            Errno::IO => self != Self::CopyFileRange,
            _ => self == Self::Buffered,
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
