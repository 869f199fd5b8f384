//! [`Transfer::from_reader`] and [`Transfer::to_writer`].

use std::io::{Read, Write};
use std::os::fd::AsFd;

use super::Transfer;
use crate::io_transfer::{FromReader, IoTransfer, ToWriter};

impl<'a> Transfer<'a> {
    /// Creates a transfer of everything that `reader` has to `sink`. Nothing moves until
    /// [`run`](IoTransfer::run).
    ///
    /// Choose it for bytes that no descriptor has: what a decompressor or a TLS stream makes of the
    /// bytes of a descriptor, or bytes in memory. [`IoTransfer`] says when to choose another type.
    /// Both ends are taken by value; `&mut reader` is a reader, too, and is still there after the
    /// transfer. A reader needs no buffer of its own, because the transfer reads up to 256 KiB at a
    /// time.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io::{Cursor, Seek, SeekFrom};
    /// use zcopy::{Strategy, Transfer};
    ///
    /// let (pipe, sink) = std::io::pipe()?;
    /// let mut bytes = Cursor::new("the head and the body");
    /// bytes.seek(SeekFrom::Start(9))?;
    /// let report = Transfer::from_reader(&mut bytes, sink).limit(8).run()?;
    /// assert_eq!((report.bytes(), report.strategy()), (8, Some(Strategy::Buffered)));
    /// assert_eq!(std::io::read_to_string(pipe)?, "and the ");
    /// assert_eq!(bytes.position(), 17, "the reader keeps the rest");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_reader<R: Read, Sink: AsFd>(
        reader: R,
        sink: Sink,
    ) -> IoTransfer<'a, FromReader<R>, Sink> {
        IoTransfer::new(FromReader(reader), sink)
    }

    /// Creates a transfer of everything that `source` has to `writer`. Nothing moves until
    /// [`run`](IoTransfer::run), which also flushes the writer.
    ///
    /// Choose it for a sink that is no descriptor: a compressor, a TLS stream, a hasher, memory.
    /// [`IoTransfer`] says when to choose another type. Both ends are taken by value; `&mut writer`
    /// is a writer, too, and is still there after the transfer.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hash::{DefaultHasher, Hasher};
    /// use std::io::{self, Write};
    /// use zcopy::Transfer;
    ///
    /// struct HashWriter(DefaultHasher);
    ///
    /// impl Write for HashWriter {
    ///     fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
    ///         self.0.write(bytes);
    ///         Ok(bytes.len())
    ///     }
    ///
    ///     fn flush(&mut self) -> io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let version = std::fs::File::open("/proc/version")?;
    /// let mut hash = HashWriter(DefaultHasher::new());
    /// let report = Transfer::to_writer(&version, &mut hash).run()?;
    ///
    /// let mut expected = DefaultHasher::new();
    /// expected.write(&std::fs::read("/proc/version")?);
    /// assert_eq!(hash.0.finish(), expected.finish());
    /// assert!(report.bytes() > 0);
    /// # Ok::<(), io::Error>(())
    /// ```
    pub fn to_writer<Source: AsFd, W: Write>(
        source: Source,
        writer: W,
    ) -> IoTransfer<'a, Source, ToWriter<W>> {
        IoTransfer::new(source, ToWriter(writer))
    }
}
