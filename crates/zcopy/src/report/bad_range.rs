//! A range of the source that cannot be read.

use std::io;

use crate::sys::Errno;

#[cfg(doc)]
use crate::Transfer;

/// A range of the source that cannot be read. The sink receives zeros in its place.
///
/// # Examples
///
/// ```
/// use zcopy::{SkipErrors, BadRange, Transfer};
///
/// let source = std::fs::File::open("/proc/version")?;
/// let sink = std::fs::File::create("/dev/null")?;
/// let mut bad: Vec<(u64, u64)> = Vec::new();
/// Transfer::new(&source, &sink)
///     .skip_errors(SkipErrors::Adaptive)
///     .on_skip(|skipped: &BadRange| bad.push((skipped.offset(), skipped.bytes())))
///     .run()?;
/// assert!(bad.is_empty(), "every byte can be read");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRange {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) errno: Errno,
}

impl BadRange {
    /// Returns the offset of the range in bytes from the first byte of the source that the transfer
    /// reads. A [prefix](crate::Transfer::prefix) does not count. The position of the range in the
    /// source is this offset plus the position at which the transfer began to read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the length of the range in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the error of the read. [`Transfer::skip_errors`] lists the possible ones.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{SkipErrors, Transfer};
    ///
    /// let source = std::fs::File::open("/proc/version")?;
    /// let sink = std::fs::File::create("/dev/null")?;
    /// let mut errors = Vec::new();
    /// Transfer::new(&source, &sink)
    ///     .skip_errors(SkipErrors::Adaptive)
    ///     .on_skip(|skipped| errors.push(skipped.error()))
    ///     .run()?;
    /// assert!(errors.is_empty(), "every byte can be read");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn error(&self) -> io::Error {
        self.errno.into()
    }
}
