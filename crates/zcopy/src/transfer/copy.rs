//! [`copy`]: a transfer without options.

use std::os::fd::AsFd;

use super::Transfer;
use crate::error::Result;

/// Moves everything from `source` to `sink`, and returns the number of bytes.
///
/// Choose [`Transfer`] for options, or for a [`Report`](crate::Report) of how the bytes moved.
///
/// # Buffers
///
/// The transfer sees descriptors, and nothing of what a program has read ahead or not flushed yet:
///
/// - A `BufReader` may hold the bytes that you want to copy. A copy of its `get_ref()` leaves them
///   out, silently. Use [`copy_buffered`](crate::copy_buffered).
/// - [`Stdin`](std::io::Stdin) is such a reader, too, once it has been read from.
/// - [`Stdout`](std::io::Stdout) and a `BufWriter` have to be flushed before, or what they hold
///   comes behind the bytes of the copy.
///
/// A decompressor or a TLS stream changes the bytes of the descriptor inside: use
/// [`Transfer::from_reader`] or [`Transfer::to_writer`].
///
/// # Errors
///
/// See [`Transfer::run`].
///
/// # Examples
///
/// ```
/// let (reader, mut writer) = std::io::pipe()?;
/// std::io::Write::write_all(&mut writer, b"hello")?;
/// drop(writer);
/// let sink = std::fs::File::create("/dev/null")?;
/// assert_eq!(zcopy::copy(&reader, &sink)?, 5);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy(source: impl AsFd, sink: impl AsFd) -> Result<u64> {
    Ok(Transfer::new(source, sink).run()?.bytes())
}
