//! Which files are copied (pure).

use rustix::fs::{FileType, Stat};

/// What becomes of files that the destination has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are replaced if they differ in size, or are older than the source.
    #[default]
    Default,
    /// They are left as they are.
    Never,
    /// They are replaced.
    Always,
    /// As by default, and what seems to be the same is compared by its digests.
    Update,
}

/// What to do about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is copied, and replaces what is there.
    Copy,
    /// It is left as it is.
    Skip,
    /// Both are read, and it is copied if they differ.
    Compare,
}

/// What to do about a regular file of the source, of which this is known, where the destination has that.
///
/// Times are compared in nanoseconds. If those of the destination end in zeros, its file system may not keep more, and
/// the source's is rounded down as it would have been there; or else the file would be older than its source again after
/// every copy, and be copied for ever. The same holds of a time at the end of 32 bits.
#[must_use]
pub fn decide(policy: Policy, source: &Stat, destination: &Stat) -> Decision {
    match policy {
        Policy::Never => return Decision::Skip,
        Policy::Always => return Decision::Copy,
        Policy::Default | Policy::Update => {}
    }
    let is_file = FileType::from_raw_mode(destination.st_mode) == FileType::RegularFile;
    if !is_file || source.st_size != destination.st_size {
        return Decision::Copy;
    }
    let kept = Time::modified(destination);
    let wanted = Time::modified(source).as_kept_by(kept);
    match (kept.cmp(&wanted), policy) {
        (std::cmp::Ordering::Less, _) => Decision::Copy,
        (std::cmp::Ordering::Equal, Policy::Update) => Decision::Compare,
        _ => Decision::Skip,
    }
}

/// Whether what bears the name of a further name of a file stays as it is, instead of becoming a link: it is never replaced, or as long as
/// the original and newer.
#[must_use]
pub fn keeps_its_own(policy: Policy, source: &Stat, existing: &Stat) -> bool {
    let is_newer = Time::modified(existing) > Time::modified(source);
    policy == Policy::Never || decide(policy, source, existing) == Decision::Skip && is_newer
}

/// A time, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

/// The last second that a file system with 32 bits can tell: ext3, and XFS without `bigtime`.
const LAST_OF_32_BITS: i64 = i32::MAX as i64;

impl Time {
    #[allow(clippy::unnecessary_cast, reason = "not on every processor")]
    fn modified(stat: &Stat) -> Self {
        Self {
            seconds: stat.st_mtime as i64,
            // Below 10⁹.
            nanoseconds: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }

    /// This time as a file system would keep it that keeps the other.
    fn as_kept_by(self, kept: Self) -> Self {
        let Self {
            seconds,
            nanoseconds,
        } = self;
        let (seconds, nanoseconds) = match kept.grain() {
            Grain::Seconds(grain) => (seconds - seconds.rem_euclid(grain), 0),
            Grain::Nanoseconds(grain) => (seconds, nanoseconds - nanoseconds % grain),
        };
        let rounded = Self {
            seconds,
            nanoseconds,
        };
        match kept.seconds {
            LAST_OF_32_BITS => rounded.min(kept),
            _ => rounded,
        }
    }

    /// The coarsest steps of a file system that could keep this time.
    fn grain(self) -> Grain {
        match (self.seconds, self.nanoseconds) {
            // FAT.
            (seconds, 0) if seconds % 2 == 0 => Grain::Seconds(2),
            // ext3, HFS+, many servers.
            (_, 0) => Grain::Seconds(1),
            // exFAT.
            (_, n) if n % 10_000_000 == 0 => Grain::Nanoseconds(10_000_000),
            // NFS servers.
            (_, n) if n % 1_000_000 == 0 => Grain::Nanoseconds(1_000_000),
            (_, n) if n % 1_000 == 0 => Grain::Nanoseconds(1_000),
            // NTFS, SMB.
            (_, n) if n % 100 == 0 => Grain::Nanoseconds(100),
            _ => Grain::Nanoseconds(1),
        }
    }
}

/// The steps of a file system's times.
#[derive(Clone, Copy, Debug)]
enum Grain {
    Seconds(i64),
    Nanoseconds(i64),
}

#[cfg(test)]
mod tests;
