//! Where a [`Transfer`] reads and writes, if not at the cursors.

use super::Transfer;

impl Transfer<'_> {
    /// Reads from this position, in bytes, and leaves the source's cursor where it is.
    ///
    /// # Errors
    ///
    /// [`run`](Self::run) refuses an offset on anything but a regular file or block device
    /// (`ESPIPE`), and one beyond 2⁶³−1 (`EINVAL`).
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
        self.options.source_offset = Some(bytes);
        self
    }

    /// Writes from this position, in bytes, and leaves the sink's cursor where it is.
    ///
    /// # Errors
    ///
    /// As [`source_offset`](Self::source_offset); also on a sink opened with `O_APPEND` (`EINVAL`),
    /// where Linux would ignore the offset.
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
        self.options.sink_offset = Some(bytes);
        self
    }
}
