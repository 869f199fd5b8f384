//! The text of a progress line.

use std::time::Duration;

use crate::common::progress::duration;
use crate::common::progress::units::{self, Unit};

/// The numbers that a progress line shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressLine {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) bytes_per_second: f64,
    /// `None` as long as no total is known.
    pub(crate) total: Option<Total>,
    /// How long the rest takes at this rate. `None` if the rate is 0.
    pub(crate) remaining: Option<Duration>,
    pub(crate) failed: u64,
}

/// The number of bytes and files that have been found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Whether all files have been counted.
    pub(crate) is_final: bool,
}

impl ProgressLine {
    /// Returns at most `columns` columns of text.
    pub(crate) fn text(&self, columns: usize) -> String {
        let size = |bytes| units::amount(bytes, Unit::Bytes, false);
        let rate = units::rate(self.bytes_per_second, Unit::Bytes, false);
        let (bytes, files) = (size(self.bytes), self.files);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let mut text = match self.total {
            None => {
                let plural = if files == 1 { "" } else { "s" };
                format!("{files} file{plural}, {bytes}, {rate}{failed}")
            }
            Some(total) => {
                let (more, eta) = if total.is_final {
                    ("", format!(", {}", duration::eta(self.remaining)))
                } else {
                    ("+", String::new())
                };
                let (total_bytes, total_files) = (size(total.bytes), total.files);
                format!(
                    "{bytes} of {total_bytes}{more}, {rate}, \
                     {files} of {total_files}{more} files{eta}{failed}"
                )
            }
        };
        // The text is ASCII, so that each byte is a column.
        text.truncate(columns);
        text
    }
}
