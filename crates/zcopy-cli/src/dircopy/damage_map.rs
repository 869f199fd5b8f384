//! The map of a damaged file: the ranges that could not be read.
//!
//! A map is a file `NAME.damaged` beside the copy `NAME`, in the format of GNU ddrescue's mapfiles,
//! so that `ddrescue -r3 SOURCE/NAME COPY/NAME COPY/NAME.damaged` tries the bad ranges three times:
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

use serde::Serialize;

pub(crate) use map_file::{Described, map_name, map_path, mapped_name, remove_map};
pub(crate) use map_text::{EmptyFile, MapText};

mod map_file;
mod map_text;

/// The most ranges of a map, which then takes less than [`map_text::LARGEST`]. Further ranges are
/// merged into the last one, together with the good bytes between them.
const MOST_RANGES: usize = 40_000;

/// The most ranges that a message names.
const MOST_TOLD: usize = 3;

/// Bytes of a file that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BadRange {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl BadRange {
    fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

/// The bytes of a file that could not be read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DamageMap {
    ranges: Vec<BadRange>,
}

impl DamageMap {
    /// Adds a range.
    pub(crate) fn push(&mut self, range: BadRange) {
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

    /// The map of a file of this size that may be damaged everywhere. An empty file counts as one
    /// byte, because it may have been longer.
    fn whole_file(size: u64) -> Self {
        let bytes = size.max(1);
        Self {
            ranges: vec![BadRange { offset: 0, bytes }],
        }
    }

    /// The bytes that are in either map.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut ranges = [&self.ranges[..], &other.ranges].concat();
        ranges.sort_unstable_by_key(|range| range.offset);
        let mut union = Self::default();
        for range in ranges {
            union.push(range);
        }
        union
    }

    /// Whether nothing is bad.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The number of bad bytes.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }

    pub(crate) fn ranges(&self) -> &[BadRange] {
        &self.ranges
    }

    /// The number of bytes and the first ranges in words.
    pub(crate) fn words(&self) -> String {
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
}

/// The damage of a file, for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damage<'a> {
    pub(crate) map: &'a DamageMap,
    pub(crate) rest: Rest,
}

/// Whether a run copied the readable bytes of a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// They were copied, or linked to the copy.
    Copied,
    /// An earlier damaged copy was kept, because it is no worse.
    Kept,
    /// An earlier damaged copy was kept, and the original was not read.
    Left,
}

impl Damage<'_> {
    /// The damage in words.
    pub(crate) fn words(&self) -> String {
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

#[cfg(test)]
mod tests;
