//! The lines of a manifest, one at a time.

use std::io::{self, BufRead, BufReader, Read};

use crate::dircopy::manifest::line::ParseLineError;

/// The longest line that is parsed, in bytes. This is far more than an escaped path of `PATH_MAX`
/// (4096) and its digest, and leaves room for longer paths, which are opened in parts.
pub(crate) const LONGEST: u64 = 16 << 20;

/// Reads a manifest line by line.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    /// Whether the next line is the first one.
    is_at_start: bool,
}

/// U+FEFF in UTF-8, with which some programs for Windows begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl<R: Read> Lines<R> {
    pub(crate) fn of(source: R) -> Self {
        Self {
            source: BufReader::with_capacity(64 << 10, source),
            is_at_start: true,
        }
    }

    /// The next line, or an error if it is too long. Skips empty lines and those that begin with
    /// `#`, as `sha256sum` does. Skips a byte order mark at the start.
    pub(crate) fn next(&mut self) -> io::Result<Option<Result<Vec<u8>, ParseLineError>>> {
        loop {
            let mut line = Vec::new();
            let mut some = self.source.by_ref().take(LONGEST);
            some.read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(None);
            }
            let is_cut = line.len() as u64 == LONGEST && !line.ends_with(b"\n");
            if is_cut {
                self.source.skip_until(b'\n')?;
            }
            if std::mem::take(&mut self.is_at_start) && line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            match line[..] {
                [] | [b'#', ..] | [b'\n' | b'\r'] | [b'\r', b'\n'] => {}
                _ if is_cut => return Ok(Some(Err(ParseLineError::too_long()))),
                _ => return Ok(Some(Ok(line))),
            }
        }
    }
}

#[cfg(test)]
mod tests;
