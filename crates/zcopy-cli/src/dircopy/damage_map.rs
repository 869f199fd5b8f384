//! The map of a damaged file: which bytes of it could not be read.
//!
//! A map is a file `NAME.damaged` beside the copy `NAME`, in the format of GNU ddrescue's mapfiles, so
//! that `ddrescue SOURCE/NAME COPY/NAME COPY/NAME.damaged` tries the bad ranges again:
//!
//! ```text
//! # Mapfile. Created by zc-dircopy 0.1.0
//! # File: a/clip.mov
//! # Size: 20480 bytes, of which 4096 could not be read
//! # Time: 2026-11-23T07:11:18Z
//! # current_pos  current_status  current_pass
//! 0x00000000     +               1
//! #      pos        size  status
//! 0x00000000  0x00002000  +
//! 0x00002000  0x00001000  -
//! 0x00003000  0x00002000  +
//! ```

use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use jiff::{Timestamp, Unit};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use serde::Serialize;

use super::place::{Durability, Place, Replace};
use super::reading::{open_regular, size};
use crate::quote::quoted;

/// What the names of maps end with.
const SUFFIX: &[u8] = b".damaged";

/// What every map begins with, also one that ddrescue has written.
const MAGIC: &[u8] = b"# Mapfile. Created by ";

/// The programs whose maps may have been cut: a loss of power leaves an empty file, or a part.
const WRITERS: [&[u8]; 2] = [b"zc-dircopy ", b"GNU ddrescue "];

/// The largest map that is read, in bytes. A larger one counts as cut.
const LARGEST: u64 = 4 << 20;

/// The most ranges of a map, which then takes less than [`LARGEST`]. Ranges behind these become one
/// with the last, and so do the good bytes between them.
const MOST_RANGES: usize = 40_000;

/// So many ranges are told in words.
const MOST_TOLD: usize = 3;

/// The name of the map of a file.
pub(super) fn map_name(name: &CStr) -> CString {
    // Neither has a zero byte.
    CString::new(map_path(name.to_bytes())).unwrap_or_default()
}

/// The path of the map of a file.
pub(super) fn map_path(path: &[u8]) -> Vec<u8> {
    [path, SUFFIX].concat()
}

/// The name of the file that a map would belong to. `None` if no map has such a name.
pub(super) fn mapped_name(map: &[u8]) -> Option<&[u8]> {
    map.strip_suffix(SUFFIX).filter(|name| !name.is_empty())
}

/// Bytes of a file that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BadRange {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

impl BadRange {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// The bytes of a file that could not be read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DamageMap {
    ranges: Vec<BadRange>,
}

impl DamageMap {
    /// Adds a range.
    pub(super) fn push(&mut self, range: BadRange) {
        let is_full = self.ranges.len() >= MOST_RANGES;
        match self.ranges.last_mut() {
            Some(last) if range.offset < last.offset => {
                let ranges = vec![range];
                *self = self.union(&Self { ranges });
            }
            Some(last) if range.offset <= last.end() || is_full => {
                last.bytes = last.end().max(range.end()) - last.offset;
            }
            _ => self.ranges.push(range),
        }
    }

    /// The map of a file of this size of which nothing is known to be whole. An empty one may have
    /// been longer.
    fn of_all(size: u64) -> Self {
        let bytes = size.max(1);
        Self {
            ranges: vec![BadRange { offset: 0, bytes }],
        }
    }

    /// All bytes that one of two maps has.
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut ranges = [&self.ranges[..], &other.ranges].concat();
        ranges.sort_unstable_by_key(|range| range.offset);
        let mut union = Self::default();
        for range in ranges {
            union.push(range);
        }
        union
    }

    /// Whether nothing is bad.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many bytes are missing.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }

    pub(super) fn ranges(&self) -> &[BadRange] {
        &self.ranges
    }

    /// The number of bytes and the first ranges in words.
    pub(super) fn words(&self) -> String {
        let lost = self.lost_bytes();
        let plural = if lost == 1 { "" } else { "s" };
        let told = self.ranges.iter().take(MOST_TOLD);
        let told: Vec<_> = told
            .map(|BadRange { offset, bytes }| format!("{bytes} at offset {offset}"))
            .collect();
        let more = match self.ranges.len().saturating_sub(MOST_TOLD) {
            0 => String::new(),
            1 => ", and 1 range more".to_owned(),
            n => format!(", and {n} ranges more"),
        };
        format!("{lost} byte{plural} ({}{more})", told.join(", "))
    }

    /// The map as the file has it. `path` is from the root, and `size` that of the file.
    fn text(&self, path: &Path, size: u64) -> String {
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
                // A string takes everything.
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

    /// Reads the map of the file `name`. `None` if there is none. If the map was cut, or is not one
    /// of all bytes of the file, the whole file counts as damaged.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn of_file(
        directory: BorrowedFd<'_>,
        name: &CStr,
        empty: EmptyFile,
    ) -> io::Result<Option<Self>> {
        let text = MapText::read(directory, &map_name(name))?;
        let mapped = match rustix::fs::statat(directory, name, AtFlags::empty()) {
            Ok(stat) => Some(size(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno.into()),
        };
        Ok(text.of_mapped(mapped, empty))
    }

    /// Writes the map of the file `name`, at once or not at all. It is on the disk when the call
    /// returns. Only another map is replaced, and only if that is asked for.
    ///
    /// # Errors
    ///
    /// The map cannot be written; `EEXIST` if something else has its name.
    pub(super) fn write(
        &self,
        directory: &Arc<OwnedFd>,
        name: &CStr,
        described: Described<'_>,
        replace: Replace,
    ) -> io::Result<()> {
        let map = map_name(name);
        let mut place = Place::with_mode(Arc::clone(directory), Mode::from_raw_mode(0o666))?;
        let mut file = place.file();
        file.write_all(self.text(described.path, described.size).as_bytes())?;
        place.settle()?;
        // A run in the same directory reports it if nothing guards the name.
        let committed = match place.try_commit(&map, Replace::No, Durability::Synced) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && replace == Replace::Yes =>
            {
                if MapText::read(directory.as_fd(), &map)? == MapText::Other {
                    return Err(error);
                }
                place.try_commit(&map, Replace::Yes, Durability::Synced)
            }
            committed => committed,
        };
        committed.map(|_| ())
    }
}

/// What an empty file is that has the name of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyFile {
    /// A map that was cut.
    CutMap,
    /// A file like others.
    Other,
}

/// What a file that has the name of a map holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MapText {
    /// A map of all bytes from the first one on.
    Whole {
        map: DamageMap,
        /// How many bytes of the file the map describes.
        size: u64,
    },
    /// Part of a map, or a map that is too large.
    Cut,
    /// Nothing.
    Empty,
    /// It is no map.
    Other,
}

impl MapText {
    /// Reads a file that has the name of a map. If there is no regular file, this is no map.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn read(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        match open_regular(directory, name) {
            Ok((file, _)) => Self::from_file(file),
            Err(error) if is_no_file(&error) => Ok(Self::Other),
            Err(error) => Err(error),
        }
    }

    /// As [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub(super) fn from_file(file: File) -> io::Result<Self> {
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
        // Of a name that was cut there is only a part.
        let is_known = WRITERS.iter().any(|known| {
            writer.starts_with(known) || writer.len() < known.len() && known.starts_with(writer)
        });
        let mut text = head;
        source.take(LARGEST + 1).read_to_end(&mut text)?;
        let blocks = if text.len() as u64 > LARGEST {
            None
        } else {
            Self::of_blocks(&text)
        };
        Ok(match blocks {
            Some(whole) => whole,
            None if is_known => Self::Cut,
            None => Self::Other,
        })
    }

    /// The blocks, which follow one another from the first byte on. `None` if they do not, or there
    /// are none, or the last line has no end.
    fn of_blocks(text: &[u8]) -> Option<Self> {
        let (mut map, mut size) = (DamageMap::default(), 0_u64);
        let mut has_status = false;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n")?;
            let words = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            let words: Vec<_> = str::from_utf8(words).ok()?.split_whitespace().collect();
            match (&words[..], has_status) {
                ([], _) => {}
                // Where ddrescue is.
                (_, false) => has_status = true,
                ([offset, bytes, status], true) => {
                    let (offset, bytes) = (number(offset)?, number(bytes)?);
                    if offset != size {
                        return None;
                    }
                    size = offset.checked_add(bytes)?;
                    if *status != "+" {
                        map.push(BadRange { offset, bytes });
                    }
                }
                _ => return None,
            }
        }
        (size > 0).then_some(Self::Whole { map, size })
    }

    /// What a file lacks that this is the map of. `None` if this is no map. `mapped` is the size of
    /// the file, if there is one.
    pub(super) fn of_mapped(self, mapped: Option<u64>, empty: EmptyFile) -> Option<DamageMap> {
        match self {
            Self::Whole { map, size } if mapped.is_none_or(|mapped| mapped == size) => Some(map),
            Self::Empty if empty == EmptyFile::Other => None,
            Self::Other => None,
            Self::Whole { .. } | Self::Cut | Self::Empty => {
                Some(DamageMap::of_all(mapped.unwrap_or(0)))
            }
        }
    }
}

/// A damaged file, as it is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Damage<'a> {
    pub(super) map: &'a DamageMap,
    pub(super) rest: Rest,
}

/// What happened to those bytes of a damaged file that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// They were copied, or linked to the copy.
    Copied,
    /// A damaged copy that is no worse was kept.
    Kept,
    /// A damaged copy was kept without a look at the original.
    Left,
}

impl Damage<'_> {
    /// The damage in words.
    pub(super) fn words(&self) -> String {
        let lost = self.map.words();
        match self.rest {
            Rest::Copied => format!("cannot read {lost}; its copy has zeros there, and a map"),
            Rest::Kept => {
                format!("cannot read {lost}; its damaged copy, which lacks no more, is kept")
            }
            Rest::Left => format!("its copy is damaged, and lacks {lost}"),
        }
    }
}

/// The file that a map describes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Described<'a> {
    /// Its path from the root.
    pub(super) path: &'a Path,
    pub(super) size: u64,
}

/// Removes the map of a file that is whole now.
///
/// # Errors
///
/// What `unlink(2)` and `fsync(2)` say, unless there is none.
pub(super) fn remove_map(
    directory: BorrowedFd<'_>,
    name: &CStr,
    durability: Durability,
) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, map_name(name), AtFlags::empty()) {
        Ok(()) if durability == Durability::Synced => Ok(rustix::fs::fsync(directory)?),
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Whether a name stands for nothing, or for something that is no regular file.
fn is_no_file(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    let is_other = matches!(
        errno,
        Some(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV | Errno::NAMETOOLONG)
    );
    is_other || error.kind() == io::ErrorKind::InvalidInput
}

/// A number in any of the notations that ddrescue reads.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if word.len() > 1 && word.starts_with('0') => u64::from_str_radix(word, 8).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
