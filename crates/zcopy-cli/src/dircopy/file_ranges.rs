//! Reads ranges of files, one after another, as one stream.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Ranges of files, one after another.
///
/// Several readers can read them at the same time: none of them uses a file's own offset.
#[derive(Clone, Debug)]
pub(crate) struct FileRanges {
    ranges: Vec<FileRange>,
}

/// Bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) start: u64,
    /// The first byte behind the range.
    pub(crate) end: u64,
}

impl FileRanges {
    pub(crate) fn new(ranges: Vec<FileRange>) -> Self {
        Self { ranges }
    }

    /// Reads everything from the beginning.
    pub(crate) fn reader(&self) -> RangesReader {
        RangesReader {
            ranges: self.ranges.clone(),
            at: 0,
        }
    }
}

/// Reads [`FileRanges`]. A file that has become shorter meanwhile is an error.
#[derive(Debug)]
pub(crate) struct RangesReader {
    ranges: Vec<FileRange>,
    /// The index of the range that is being read. Reading moves its start.
    at: usize,
}

impl Read for RangesReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(range) = self.ranges.get_mut(self.at) {
            let left = range.end.saturating_sub(range.start);
            if left == 0 {
                self.at += 1;
                continue;
            }
            let length = usize::try_from(left).unwrap_or(usize::MAX);
            let length = length.min(buffer.len());
            let n = range.file.read_at(&mut buffer[..length], range.start)?;
            if n == 0 && length > 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            range.start += n as u64;
            return Ok(n);
        }
        Ok(0)
    }
}
