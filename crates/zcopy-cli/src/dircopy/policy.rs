//! Which files are copied (pure).

use std::cmp::Ordering;

use rustix::fs::{FileType, Stat};

use super::time::LAST_OF_32_BITS;

pub use super::time::Time;

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
    /// The same, where it is not known whether the source is newer.
    CompareInDoubt,
}

/// What a file system makes of a time that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It keeps this one.
    As(Time),
    /// It could not be asked.
    Unknown,
}

/// What to do about a regular file of the source, of which this is known, where the destination has that.
///
/// Times are compared in nanoseconds. Many file systems round them down, so that every copy is older than its source. A copy that is older by
/// less than its file system may round, as far as the zeros tell that its time ends in, is in doubt: then `kept` is asked what that file system
/// makes of the source's time. If that is not known either, the contents decide.
#[must_use]
pub fn decide(
    policy: Policy,
    source: &Stat,
    destination: &Stat,
    kept: impl FnOnce(Time) -> Kept,
) -> Decision {
    match policy {
        Policy::Never => return Decision::Skip,
        Policy::Always => return Decision::Copy,
        Policy::Default | Policy::Update => {}
    }
    let is_file = FileType::from_raw_mode(destination.st_mode) == FileType::RegularFile;
    if !is_file || source.st_size != destination.st_size {
        return Decision::Copy;
    }
    let age = age(Time::modified(source), Time::modified(destination), kept);
    match (age, policy) {
        (Age::Older, _) => Decision::Copy,
        (Age::Same, Policy::Update) => Decision::Compare,
        (Age::Unknown, _) => Decision::CompareInDoubt,
        (Age::Same | Age::Newer, _) => Decision::Skip,
    }
}

/// Whether what bears the name of a further name of a file stays as it is, instead of becoming a link: it is never replaced, or as long as
/// the original and newer.
#[must_use]
pub fn keeps_its_own(policy: Policy, source: &Stat, existing: &Stat) -> bool {
    let is_newer = Time::modified(existing) > Time::modified(source);
    // Of what is newer the granularity does not matter.
    let decide = || decide(policy, source, existing, |_| Kept::Unknown);
    policy == Policy::Never || is_newer && decide() == Decision::Skip
}

/// How a file of the source and its copy compare by their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// The copy is older.
    Older,
    /// The copy has the source's time, as its file system keeps it.
    Same,
    /// The copy is newer.
    Newer,
    /// The copy is older by less than its file system may round.
    Unknown,
}

/// The age of a copy with this time.
fn age(source: Time, existing: Time, kept: impl FnOnce(Time) -> Kept) -> Age {
    let compare = |kept| match existing.cmp(&kept) {
        Ordering::Less => Age::Older,
        Ordering::Equal => Age::Same,
        Ordering::Greater => Age::Newer,
    };
    if existing >= source {
        return compare(source);
    }
    let rounded = source.floor(existing.coarsest_granularity());
    // Times beyond 32 bits end there on ext3, and begin anew on some servers.
    if existing < rounded && !source.is_beyond_32_bits() {
        return Age::Older;
    }
    match kept(source) {
        Kept::As(kept) if existing == kept && kept.is_end_for(source) => Age::Unknown,
        Kept::As(kept) => compare(kept),
        Kept::Unknown if existing < rounded && existing.seconds != LAST_OF_32_BITS => Age::Older,
        Kept::Unknown => Age::Unknown,
    }
}

#[cfg(test)]
mod tests;
