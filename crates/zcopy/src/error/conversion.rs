//! The conversion to `std::io::Error`.

use std::io;

use super::Error;

/// Keeps the [kind of the cause](Error::io_error_kind) and every detail.
///
/// The text of the `io::Error` contains the cause: `write to the sink failed after 0 bytes: No
/// space left on device (os error 28)`. [`source`](std::error::Error::source) no longer returns the
/// cause, so that programs which print the whole chain (anyhow's `{:#}`) print it once;
/// [`Error::io_error`] still does.
///
/// [`io::Error::downcast`] returns the original error with its report, and [`io::Error::get_ref`] a
/// reference to it. [`io::Error::raw_os_error`] returns `None`, because an `io::Error` has either
/// an errno or an error inside. [`Error::raw_os_error`] returns the errno.
///
/// # Examples
///
/// ```
/// use std::io::{self, Write};
///
/// fn copy_to_full() -> io::Result<u64> {
///     let (reader, mut writer) = io::pipe()?;
///     writer.write_all(b"hello")?;
///     let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
///     Ok(zcopy::copy(&reader, &full)?)
/// }
///
/// let error = copy_to_full().unwrap_err();
/// assert_eq!(error.kind(), io::ErrorKind::StorageFull);
/// assert_eq!(
///     error.to_string(),
///     "write to the sink failed after 0 bytes: No space left on device (os error 28)"
/// );
///
/// let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<zcopy::Error>());
/// assert_eq!(inner.and_then(zcopy::Error::raw_os_error), Some(28), "ENOSPC");
///
/// let original = error.downcast::<zcopy::Error>()?;
/// assert_eq!(original.into_undelivered(), b"hello");
/// # Ok::<(), io::Error>(())
/// ```
impl From<Error> for io::Error {
    fn from(mut error: Error) -> Self {
        error.0.displays_cause = true;
        io::Error::new(error.io_error_kind(), error)
    }
}
