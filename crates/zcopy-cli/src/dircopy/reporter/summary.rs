//! The summary of a run.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::common::cli::quote::quoted;
use crate::common::progress::duration;
use crate::common::progress::json::rounded;
use crate::common::progress::units::{self, Unit};
use crate::dircopy::counts::Counts;
use crate::dircopy::interrupt::Interrupt;

/// A longer time is shown without milliseconds.
const LONG: Duration = Duration::from_secs(60);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Everything was copied, or left as it was.
    Done,
    /// Something failed, or attributes could not be kept.
    Failed,
    /// A signal ended the run early.
    Interrupted,
}

impl State {
    pub(crate) fn new(counts: &Counts, interrupt: &Interrupt) -> Self {
        if interrupt.is_requested() {
            Self::Interrupted
        } else if counts.has_errors() {
            Self::Failed
        } else {
            Self::Done
        }
    }
}

/// The summary of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Summary<'a> {
    state: State,
    files: u64,
    bytes: u64,
    seconds: f64,
    /// The average over the whole run.
    bytes_per_second: f64,
    copied: u64,
    cloned: u64,
    linked: u64,
    links_copied: u64,
    replaced: u64,
    records_dropped: u64,
    moved: u64,
    /// Files that an earlier run had begun.
    resumed: u64,
    /// The number of their bytes that were copied then.
    resumed_bytes: u64,
    skipped: u64,
    others: u64,
    failed: u64,
    /// Entries that were copied without all attributes.
    attributes_not_kept: u64,
    /// Files with missing bytes.
    damaged: u64,
    /// The number of missing bytes.
    lost_bytes: u64,
    /// Files that were read back with `O_DIRECT`.
    read_past_cache: u64,
    /// Files that were read back after their pages had been dropped from the page cache.
    read_after_drop: u64,
    /// Files that were read back from memory.
    read_from_memory: u64,
    /// Files that were read back from a server, a process or another file system.
    read_from_elsewhere: u64,
    /// The first manifest, if there is one. Bytes that are not UTF-8 become U+FFFD.
    sums: Option<Cow<'a, str>>,
    #[serde(serialize_with = "lossy")]
    manifests: &'a [PathBuf],
    #[serde(skip)]
    elapsed: Duration,
}

impl<'a> Summary<'a> {
    /// The summary of a run that took `elapsed`.
    pub(crate) fn of(
        counts: &Counts,
        state: State,
        elapsed: Duration,
        manifests: &'a [PathBuf],
    ) -> Self {
        let bytes = counts.bytes_of_files.get();
        Self {
            state,
            files: counts.files.get(),
            bytes,
            seconds: rounded(elapsed.as_secs_f64()),
            bytes_per_second: rounded(per_second(bytes, elapsed)),
            copied: counts.copied.get(),
            cloned: counts.cloned.get(),
            linked: counts.linked.get(),
            links_copied: counts.links_copied.get(),
            replaced: counts.replaced.get(),
            records_dropped: counts.records_dropped.get(),
            moved: counts.moved.get(),
            resumed: counts.resumed.get(),
            resumed_bytes: counts.resumed_bytes.get(),
            skipped: counts.skipped.get(),
            others: counts.others.get(),
            failed: counts.failed.get(),
            attributes_not_kept: counts.attributes_not_kept.get(),
            read_past_cache: counts.read_past_cache.get(),
            read_after_drop: counts.read_after_drop.get(),
            read_from_memory: counts.read_from_memory.get(),
            read_from_elsewhere: counts.read_from_elsewhere.get(),
            damaged: counts.damaged.get(),
            lost_bytes: counts.lost_bytes.get(),
            sums: manifests.first().map(|path| path.to_string_lossy()),
            elapsed,
            manifests,
        }
    }

    /// The summary as text: two lines, one for each rare event, and one for each manifest.
    pub(crate) fn words(&self) -> String {
        let Self {
            files,
            copied,
            cloned,
            linked,
            skipped,
            failed,
            ..
        } = self;
        let plural = if *files == 1 { "" } else { "s" };
        let damaged = match self.damaged {
            0 => String::new(),
            damaged => format!(", {damaged} damaged (lacking {})", size(self.lost_bytes)),
        };
        let attributes = match self.attributes_not_kept {
            0 => String::new(),
            n => format!(", {n} without all attributes"),
        };
        let others = match self.others {
            0 => String::new(),
            others => format!("; and {others} symbolic links and special files"),
        };
        let links_copied = match self.links_copied {
            0 => String::new(),
            1 => "1 hard link copied as a file of its own\n".to_owned(),
            n => format!("{n} hard links copied as files of their own\n"),
        };
        let replaced = match self.replaced {
            0 => String::new(),
            1 => "1 file of the destination replaced\n".to_owned(),
            n => format!("{n} files of the destination replaced\n"),
        };
        let moved = match self.moved {
            0 => String::new(),
            1 => "1 entry that the source lacks moved\n".to_owned(),
            n => format!("{n} entries that the source lacks moved\n"),
        };
        let resumed = match self.resumed {
            0 => String::new(),
            n => {
                let plural = if n == 1 { "" } else { "s" };
                let taken_over = size(self.resumed_bytes);
                format!("{n} file{plural} resumed, of which earlier runs had copied {taken_over}\n")
            }
        };
        let records_dropped = match self.records_dropped {
            0 => String::new(),
            1 => "1 record dropped, as --no-hash makes no digests\n".to_owned(),
            n => format!("{n} records dropped, as --no-hash makes no digests\n"),
        };
        let read_back = [
            (self.read_past_cache, "from the disk (O_DIRECT)"),
            (
                self.read_after_drop,
                "after dropping their pages from the cache",
            ),
            (
                self.read_from_memory,
                "from memory, which proves nothing about a disk",
            ),
            (
                self.read_from_elsewhere,
                "from a server, a driver or a file system below, whose cache is not known",
            ),
        ];
        let mut read_back_lines = String::new();
        for (n, how) in read_back.iter().filter(|(n, _)| *n > 0) {
            // Writing to a string cannot fail.
            let _ = writeln!(read_back_lines, "{n} read back {how}");
        }
        let mut sums = String::new();
        for path in self.manifests {
            for part in ["digests in ", &quoted(path.as_os_str()), "\n"] {
                sums += part;
            }
        }
        format!(
            "{files} file{plural}, {} in {}, {}\n\
             {copied} copied, {cloned} cloned, {linked} linked, {skipped} skipped, {failed} failed{attributes}{damaged}{others}\n\
             {links_copied}{replaced}{resumed}{moved}{records_dropped}{read_back_lines}{sums}",
            size(self.bytes),
            time(self.elapsed),
            rate(self.bytes_per_second),
        )
    }
}

/// A number of bytes as text. A rounded number follows a large one.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1024 => format!("{bytes} bytes"),
        _ => {
            let about = dense(&units::amount(bytes, Unit::Bytes, false));
            format!("{bytes} bytes ({about})")
        }
    }
}

/// A duration as text.
pub(crate) fn time(elapsed: Duration) -> String {
    if elapsed < LONG {
        format!("{:.3} s", elapsed.as_secs_f64())
    } else {
        duration::duration(elapsed)
    }
}

/// Paths as text. Bytes that are not UTF-8 become U+FFFD.
fn lossy<S: Serializer>(paths: &&[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// A rate as text. Less than a byte a second has no prefix: `0.50B/s`.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second < 1.0 {
        return format!("{bytes_per_second:.2}B/s");
    }
    dense(&units::rate(bytes_per_second, Unit::Bytes, false))
}

/// An amount without the padding that aligns it.
fn dense(amount: &str) -> String {
    amount.replace(' ', "")
}

/// The rate, or 0 if no time has passed.
#[allow(clippy::cast_precision_loss, reason = "a rate needs no more digits")]
pub(crate) fn per_second(bytes: u64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    bytes as f64 / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests;
