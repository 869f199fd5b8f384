//! The text of a map: the format of GNU ddrescue's mapfiles.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::Path;

use jiff::{Timestamp, Unit};

use super::{BadRange, DamageMap};
use crate::common::cli::quote::quoted;

/// The first bytes of every map, including those that ddrescue writes.
const MAGIC: &[u8] = b"# Mapfile. Created by ";

/// The programs whose maps are recognized even if a loss of power has cut them.
const WRITERS: [&[u8]; 2] = [b"zc-dircopy ", b"GNU ddrescue "];

/// The largest map that is read, in bytes. A larger one counts as cut.
pub(super) const LARGEST: u64 = 4 << 20;

impl DamageMap {
    /// The text of the map of the file `path`, which is relative to the root, with `size` bytes.
    pub(super) fn text(&self, path: &Path, size: u64) -> String {
        let now = Timestamp::now();
        let now = now.round(Unit::Second).unwrap_or(now);
        let mut text = format!(
            "{}zc-dircopy {}\n\
             # File: {}\n\
             # Size: {size} bytes, of which {} could not be read\n\
             # Time: {now}\n\
             # current_pos  current_status  current_pass\n\
             0x00000000     +               1\n\
             #      pos        size  status\n",
            String::from_utf8_lossy(MAGIC),
            env!("CARGO_PKG_VERSION"),
            quoted(path.as_os_str()),
            self.lost_bytes(),
        );
        let mut add = |start: u64, end: u64, status: char| {
            if start < end {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{start:#010x}  {:#010x}  {status}", end - start);
            }
        };
        let mut position = 0;
        for range in &self.ranges {
            add(position, range.offset, '+');
            add(range.offset, range.end(), '-');
            position = range.end();
        }
        add(position, size, '+');
        text
    }
}

/// How an empty file with the name of a map is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmptyFile {
    /// As a map that was cut.
    CutMap,
    /// As a file that is not a map.
    Other,
}

/// The contents of a file with the name of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MapText {
    /// A map of all bytes from the first one on.
    Whole {
        map: DamageMap,
        /// The number of bytes that the map describes.
        size: u64,
    },
    /// Part of a map, or a map that is too large.
    Cut,
    Empty,
    /// Something that is not a map.
    Other,
}

impl MapText {
    /// Reads a file that has the name of a map.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn from_file(file: File) -> io::Result<Self> {
        Self::parse(BufReader::new(file))
    }

    fn parse(mut source: impl io::BufRead) -> io::Result<Self> {
        let mut head = Vec::new();
        let mut take =
            |n: usize, head: &mut Vec<u8>| source.by_ref().take(n as u64).read_to_end(head);
        take(MAGIC.len(), &mut head)?;
        if head.is_empty() {
            return Ok(Self::Empty);
        }
        if head != MAGIC {
            return Ok(Self::Other);
        }
        let longest = WRITERS.iter().map(|writer| writer.len()).max().unwrap_or(0);
        take(longest, &mut head)?;
        let writer = &head[MAGIC.len()..];
        // The file may end within the name.
        let is_known = WRITERS.iter().any(|known| {
            writer.starts_with(known) || writer.len() < known.len() && known.starts_with(writer)
        });
        let mut text = head;
        source.take(LARGEST + 1).read_to_end(&mut text)?;
        let blocks = if text.len() as u64 > LARGEST {
            None
        } else {
            Self::parse_blocks(&text)
        };
        Ok(match blocks {
            Some(whole) => whole,
            None if is_known => Self::Cut,
            None => Self::Other,
        })
    }

    /// Parses the blocks. `None` if they do not follow one another from the first byte on, or there
    /// is no block, or the last line has no newline.
    fn parse_blocks(text: &[u8]) -> Option<Self> {
        let (mut map, mut size) = (DamageMap::default(), 0_u64);
        let mut has_status = false;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n")?;
            let words = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let words: Vec<_> = str::from_utf8(words).ok()?.split_whitespace().collect();
            match (&words[..], has_status) {
                ([], _) => {}
                // The status line: where ddrescue is.
                (_, false) => has_status = true,
                ([offset, bytes, status], true) => {
                    let (offset, bytes) = (number(offset)?, number(bytes)?);
                    if offset != size {
                        return None;
                    }
                    size = offset.checked_add(bytes)?;
                    if *status != "+" && bytes > 0 {
                        map.push(BadRange { offset, bytes });
                    }
                }
                _ => return None,
            }
        }
        (size > 0).then_some(Self::Whole { map, size })
    }

    /// The damage of the file that belongs to this map, or `None` if this is not a map. `mapped` is
    /// the size of that file, if it exists. If the map was cut or is for another size, the whole
    /// file counts as damaged.
    pub(crate) fn of_mapped(self, mapped: Option<u64>, empty: EmptyFile) -> Option<DamageMap> {
        match self {
            Self::Whole { map, size } if mapped.is_none_or(|mapped| mapped == size) => Some(map),
            Self::Empty if empty == EmptyFile::Other => None,
            Self::Other => None,
            Self::Whole { .. } | Self::Cut | Self::Empty => {
                Some(DamageMap::whole_file(mapped.unwrap_or(0)))
            }
        }
    }
}

/// Parses a number in hexadecimal, octal or decimal notation, as ddrescue does.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
