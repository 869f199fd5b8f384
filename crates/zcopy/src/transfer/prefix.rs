//! Bytes in front of those of the source, and [`copy_buffered`].

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;

use super::Transfer;
use crate::buffer;
use crate::call_error::CallError;
use crate::error::{Result, RunError};
use crate::report::Report;
use crate::sys::Errno;

#[cfg(doc)]
use crate::Strategy;

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Sends `bytes` in front of the bytes of the source [default: none].
    ///
    /// Choose it for a head that is to share segments with what follows (the head of an HTTP
    /// response, for example), and for bytes that were read ahead of a descriptor
    /// ([`copy_buffered`] does that by itself). A second call replaces the first.
    ///
    /// It is meant for heads: a step writes the rest of the prefix at once, beyond its bound and
    /// the rate, and pays the rate afterwards. To a datagram socket it goes in messages of at most
    /// 32 KiB.
    ///
    /// The prefix counts as if it came from the source: among the [bytes](Report::bytes) of the
    /// report, its records, its rate, and what an inspector sees. Only a [limit](Self::limit) is a
    /// limit of the source alone, on top of the prefix. Bytes of the prefix that the sink has not
    /// accepted are [undelivered](Report::undelivered), whatever the source is.
    ///
    /// # Kernel notes
    ///
    /// The prefix is written. If a file follows it into a stream socket, the write has the flag
    /// `MSG_MORE`, so that TCP fills the segment with the first bytes of the file. With a rate the
    /// write has no flag, because the file's first bytes may have to wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::Transfer;
    ///
    /// let version = std::fs::File::open("/proc/version")?;
    /// let (mut reader, writer) = std::io::pipe()?;
    /// let report = Transfer::new(version, writer).prefix("the kernel: ").limit(5).run()?;
    /// assert_eq!(report.bytes(), 17);
    /// assert_eq!(std::io::read_to_string(&mut reader)?, "the kernel: Linux");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn prefix(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.settings.prefix = bytes.into();
        self.settings.options.has_prefix = !self.settings.prefix.is_empty();
        self
    }
}

/// Moves everything that is left in a `BufReader` to `sink`: first the bytes in its buffer, then
/// those of the descriptor inside, by the fastest strategy that serves the pair.
///
/// [`copy`](crate::copy) on the descriptor alone would leave out the bytes that the reader has
/// buffered. Choose this function, for example, for the body behind a head that was read by lines.
/// It empties the buffer of the reader: if the transfer fails, the bytes that did not arrive are
/// [undelivered](crate::Error::undelivered).
///
/// # Errors
///
/// See [`Transfer::run`]. Without memory for a copy of the buffered bytes it fails with `ENOMEM`, and
/// the reader still has them.
///
/// # Examples
///
/// ```
/// use std::io::{BufRead, BufReader, Write};
///
/// let (source, mut writer) = std::io::pipe()?;
/// writer.write_all(b"first line\nsecond line\nthe body")?;
/// drop(writer);
/// let mut reader = BufReader::new(source);
/// let mut line = String::new();
/// reader.read_line(&mut line)?;
/// reader.read_line(&mut line)?;
///
/// let (body, sink) = std::io::pipe()?;
/// let report = zcopy::copy_buffered(&mut reader, sink)?;
/// assert_eq!(report.bytes(), 8);
/// assert_eq!(std::io::read_to_string(body)?, "the body");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy_buffered<R: Read + AsFd>(reader: &mut BufReader<R>, sink: impl AsFd) -> Result<Report> {
    let mut buffered = Vec::new();
    if !buffer::append_copy(&mut buffered, reader.buffer()) {
        let error = RunError::from(CallError::no_memory(Errno::NOMEM));
        return Err(error.before_anything_moved());
    }
    reader.consume(buffered.len());
    Transfer::new(reader.get_ref(), sink).prefix(buffered).run()
}
