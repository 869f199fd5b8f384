//! One stretch of the source that could not be read.

use std::io;

use crate::sys::Errno;

#[cfg(doc)]
use crate::Transfer;

/// A stretch of the source that could not be read, and in place of which the sink gets zeros.
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
/// assert!(bad.is_empty(), "it can be read");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRange {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) errno: Errno,
}

impl BadRange {
    /// Where it begins, in bytes from where the transfer began.
    ///
    /// # Examples
    ///
    /// See [`BadRange`].
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How long it is.
    ///
    /// # Examples
    ///
    /// See [`BadRange`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the kernel said when it was read. [`Transfer::skip_errors`] has the list of what that can be.
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
    /// assert!(errors.is_empty(), "it can be read");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn error(&self) -> io::Error {
        self.errno.into()
    }
}
