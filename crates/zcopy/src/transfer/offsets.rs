//! Offsets: a [`Transfer`] that reads or writes at a position of its own, not at the cursor.

use super::Transfer;

impl<Source, Sink> Transfer<'_, Source, Sink> {
    /// Reads from `bytes` bytes behind the start of the source [default: the cursor], and leaves
    /// the cursor where it is.
    ///
    /// Choose an offset, rather than a seek, if other threads or processes use the same open file:
    /// the transfer then neither reads nor moves the shared cursor. Two files whose offsets are
    /// both 0 can be cloned whole, by one call. An offset rules out no strategy.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with `ESPIPE` if the source is neither a regular file nor a block
    /// device, and with `EINVAL` beyond 2⁶³−1.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Seek, Write};
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-offset-{}", std::process::id()));
    /// std::fs::write(&path, "hello world")?;
    /// let mut source = std::fs::File::open(&path)?;
    /// let (mut reader, writer) = std::io::pipe()?;
    ///
    /// Transfer::new(&source, &writer).source_offset(6).run()?;
    /// drop(writer);
    /// assert_eq!(std::io::read_to_string(&mut reader)?, "world");
    /// assert_eq!(source.stream_position()?, 0);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn source_offset(mut self, bytes: u64) -> Self {
        self.settings.options.source_offset = Some(bytes);
        self
    }

    /// Writes from `bytes` bytes behind the start of the sink [default: the cursor], and leaves the
    /// cursor where it is.
    ///
    /// It suits the same cases as [`source_offset`](Self::source_offset), and allows
    /// `copy_file_range(2)` and a direct splice where the cursor does not. With
    /// [several sinks](Self::also_to) it is the offset of the first.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) fails with `ESPIPE` if the sink is neither a regular file nor a block
    /// device, and with `EINVAL` beyond 2⁶³−1 or if the sink was opened with `O_APPEND`, for which
    /// Linux would ignore the offset.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Seek, Write};
    /// use zcopy::Transfer;
    ///
    /// let path = std::env::temp_dir().join(format!("zcopy-doc-to-{}", std::process::id()));
    /// std::fs::write(&path, "hello world")?;
    /// let sink = std::fs::OpenOptions::new().write(true).open(&path)?;
    /// let (reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"there")?;
    /// drop(writer);
    ///
    /// Transfer::new(&reader, &sink).sink_offset(6).run()?;
    /// assert_eq!(std::fs::read_to_string(&path)?, "hello there");
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sink_offset(mut self, bytes: u64) -> Self {
        self.settings.options.sink_offset = Some(bytes);
        self
    }
}
