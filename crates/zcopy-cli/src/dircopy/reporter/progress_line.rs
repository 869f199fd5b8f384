//! The text of a progress line.

use std::path::Path;
use std::time::Duration;

use crate::common::progress::duration;
use crate::common::progress::units::{self, Unit};
use crate::common::sys::locale::is_printable;
use crate::common::terminal::ansi::width;

/// The numbers that a progress line shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressLine<'a> {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    pub(crate) bytes_per_second: f64,
    /// `None` as long as no total is known.
    pub(crate) total: Option<Total>,
    /// How long the rest takes at this rate. `None` if the rate is 0.
    pub(crate) remaining: Option<Duration>,
    pub(crate) failed: u64,
    /// The path of a file under way.
    pub(crate) current: Option<&'a Path>,
}

/// The number of bytes and files that have been found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Total {
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Whether all files have been counted.
    pub(crate) is_final: bool,
}

impl Total {
    /// The part of the bytes, or without bytes of the files, in percent. `None` as long as more may
    /// be found.
    fn percentage(&self, bytes: u64, files: u64) -> Option<u128> {
        let (part, whole) = match self.bytes {
            0 => (files, self.files),
            whole => (bytes, whole),
        };
        (self.is_final && whole > 0).then(|| u128::from(part) * 100 / u128::from(whole))
    }
}

/// The least columns that a path gets. In fewer it is left out.
const MIN_PATH: usize = 10;

impl ProgressLine<'_> {
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
                let percentage = total.percentage(self.bytes, files);
                let percentage = percentage.map_or_else(String::new, |part| format!(", {part}%"));
                let (total_bytes, total_files) = (size(total.bytes), total.files);
                format!(
                    "{bytes} of {total_bytes}{more}{percentage}, {rate}, \
                     {files} of {total_files}{more} files{eta}{failed}"
                )
            }
        };
        // The text is ASCII, so that each byte is a column.
        text.truncate(columns);
        let room = columns.saturating_sub(text.len() + 2);
        if let Some(current) = self.current
            && room >= MIN_PATH
        {
            text.push_str(", ");
            text.push_str(&shortened(current, room));
        }
        text
    }
}

/// A path in at most `columns` columns: its end, if it is longer. Characters that the terminal
/// cannot print become `?`.
fn shortened(path: &Path, columns: usize) -> String {
    const CUT: &str = "...";
    let printable = |c| if is_printable(c) { c } else { '?' };
    let whole: String = path.to_string_lossy().chars().map(printable).collect();
    if width(&whole) <= columns {
        return whole;
    }
    let mut end = &whole[..];
    while width(end) + CUT.len() > columns {
        let mut characters = end.chars();
        characters.next();
        end = characters.as_str();
    }
    format!("{CUT}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_keeps_its_end() {
        assert_eq!(shortened("a/b".as_ref(), 10), "a/b");
        assert_eq!(shortened("a/long/path".as_ref(), 10), "...ng/path");
        assert_eq!(shortened("a\nb\x1b[m".as_ref(), 10), "a?b?[m");
    }
}
