//! Decides which files are copied. Makes no system calls.

use std::cmp::Ordering;

use rustix::fs::Stat;

use super::mtime::LAST_OF_32_BITS;
use super::stat::is_regular;

pub(crate) use super::mtime::Time;

/// How a run treats files that the destination has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Replaces a file that differs in size from its original or is older.
    #[default]
    Default,
    /// Leaves every file as it is.
    Never,
    /// Replaces every file.
    Always,
    /// As `Default`, and compares a file of the same size and time with its original by digest.
    Update,
}

/// The files that are read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verify {
    /// The copies.
    #[default]
    Copy,
    /// The originals: a disk, a cable or a reader that is at fault may give other bytes the second
    /// time.
    Source,
    /// The copies and the originals.
    Both,
}

/// The decision about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Copy it, and replace the existing file.
    Copy,
    /// Leave the existing file as it is.
    Skip,
    /// Read both files, and copy if they differ.
    Compare,
    /// The same. The times do not tell whether the source is newer.
    CompareInDoubt,
}

/// How a file system rounds a time that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// It stores this time.
    To(Time),
    /// This could not be found out.
    Unknown,
}

/// Decides whether `source` is copied over `destination`.
///
/// Times are compared in nanoseconds. Many file systems round times down, so that every copy is
/// older than its source. The zeros at the end of the copy's time show by how much its file system
/// may round. If the copy is older by less than that, `rounding` asks how the file system rounds
/// the source's time. If `rounding` does not know, the contents decide.
#[must_use]
pub(crate) fn decide(
    policy: Policy,
    source: &Stat,
    destination: &Stat,
    rounding: impl FnOnce(Time) -> Rounding,
) -> Decision {
    match policy {
        Policy::Never => return Decision::Skip,
        Policy::Always => return Decision::Copy,
        Policy::Default | Policy::Update => {}
    }
    if !is_regular(destination) || source.st_size != destination.st_size {
        return Decision::Copy;
    }
    let age = age(
        Time::modified(source),
        Time::modified(destination),
        rounding,
    );
    match (age, policy) {
        (Age::Older, _) => Decision::Copy,
        (Age::Same, Policy::Update) => Decision::Compare,
        (Age::Unknown, _) => Decision::CompareInDoubt,
        (Age::Same | Age::Newer, _) => Decision::Skip,
    }
}

/// Whether an existing file stays, instead of becoming a link for an additional name of `source`:
/// the policy never replaces it, or it is newer than the source and has the same size.
#[must_use]
pub(crate) fn keeps_existing_name(policy: Policy, source: &Stat, existing: &Stat) -> bool {
    let is_newer = Time::modified(existing) > Time::modified(source);
    // Rounding cannot make a copy newer.
    let decide = || decide(policy, source, existing, |_| Rounding::Unknown);
    policy == Policy::Never || is_newer && decide() == Decision::Skip
}

/// Whether a source is a newer version than its copy, even if a file system has rounded the time of
/// the copy: an archive that was moved to another file system keeps the rounded times. A symbolic
/// link or a special file is no version.
#[must_use]
pub(crate) fn is_newer_version(source: &Stat, existing: &Stat) -> bool {
    let is_file = is_regular(existing);
    let existing = Time::modified(existing);
    is_file && Time::modified(source).floor(existing.coarsest_granularity()) > existing
}

/// How the times of a file and its copy compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// The copy is older.
    Older,
    /// The copy has the source's time, as its file system rounds it.
    Same,
    /// The copy is newer.
    Newer,
    /// The copy is older by less than its file system may round.
    Unknown,
}

/// The age of a copy with this time.
fn age(source: Time, existing: Time, rounding: impl FnOnce(Time) -> Rounding) -> Age {
    let compare = |rounding| match existing.cmp(&rounding) {
        Ordering::Less => Age::Older,
        Ordering::Equal => Age::Same,
        Ordering::Greater => Age::Newer,
    };
    if existing >= source {
        return compare(source);
    }
    let rounded = source.floor(existing.coarsest_granularity());
    // ext3 stores later times as the last of 32 bits. Some servers drop the higher bits.
    if existing < rounded && !source.is_beyond_32_bits() {
        return Age::Older;
    }
    match rounding(source) {
        Rounding::To(rounding) if existing == rounding && rounding.is_end_for(source) => {
            Age::Unknown
        }
        Rounding::To(rounding) => compare(rounding),
        Rounding::Unknown if existing < rounded && existing.seconds != LAST_OF_32_BITS => {
            Age::Older
        }
        Rounding::Unknown => Age::Unknown,
    }
}

#[cfg(test)]
mod tests;
