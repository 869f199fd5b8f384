use rustix::fs::FileType;

use super::*;
use crate::dircopy::mtime::Granularity;

/// A regular file of that size and modification time. `Stat` cannot be made, only asked for.
fn file(size: i64, seconds: i64, nanoseconds: u32) -> Stat {
    let mut stat = rustix::fs::stat("/").unwrap();
    stat.st_mode = FileType::RegularFile.as_raw_mode() | 0o644;
    stat.st_size = size;
    stat.st_mtime = seconds;
    stat.st_mtime_nsec = nanoseconds.into();
    stat
}

fn directory() -> Stat {
    rustix::fs::stat("/").unwrap()
}

const POLICIES: [Policy; 4] = [
    Policy::Default,
    Policy::Never,
    Policy::Always,
    Policy::Update,
];

#[test]
fn a_version_is_newer_only_if_no_rounding_explains_its_time() {
    let source = file(1, 1001, 999_999_999);
    for (seconds, nanoseconds, is_newer) in [
        (999, 999_999_999, true),
        (999, 0, true),
        (1000, 0, false),
        (1001, 990_000_000, false),
        (1001, 980_000_000, true),
        (1001, 999_999_998, true),
        (1001, 999_999_999, false),
        (1002, 0, false),
    ] {
        let existing = file(1, seconds, nanoseconds);
        assert_eq!(
            is_newer_version(&source, &existing),
            is_newer,
            "{seconds}.{nanoseconds:09}"
        );
    }
    assert!(!is_newer_version(
        &file(1, i64::from(i32::MAX), 0),
        &directory()
    ));
}

/// What each policy decides, in the order of [`POLICIES`], as letters.
fn decisions_if(source: &Stat, destination: &Stat, rounding: impl Fn(Time) -> Rounding) -> String {
    let letter = |policy| match decide(policy, source, destination, &rounding) {
        Decision::Copy => 'c',
        Decision::Skip => 's',
        Decision::Compare => '=',
        Decision::CompareInDoubt => '?',
    };
    POLICIES.map(letter).into_iter().collect()
}

/// The same where the granularity makes no difference, and is not asked for.
fn decisions(source: &Stat, destination: &Stat) -> String {
    decisions_if(source, destination, |_| panic!("it makes a difference"))
}

/// The same on a file system with this granularity.
fn decisions_by(granularity: Granularity, source: &Stat, destination: &Stat) -> String {
    decisions_if(source, destination, |time| {
        Rounding::To(time.floor(granularity))
    })
}

#[test]
fn a_truncated_copy_is_repaired_however_new_it_is() {
    let source = file(5, 10, 3);
    assert_eq!(decisions(&source, &file(4, 10, 3)), "cscc");
    assert_eq!(decisions(&source, &file(4, 99, 3)), "cscc");
    assert_eq!(decisions(&source, &file(0, 99, 0)), "cscc");
}

#[test]
fn the_same_size_and_time_is_skipped_but_compared_by_update() {
    let source = file(5, 10, 123_456_789);
    assert_eq!(decisions(&source, &source), "ssc=");
}

#[test]
fn an_older_copy_is_replaced_and_a_newer_one_kept() {
    let source = file(5, 10, 123_456_789);
    assert_eq!(decisions(&source, &file(5, 10, 123_456_788)), "cscc");
    assert_eq!(decisions(&source, &file(5, 9, 999_999_999)), "cscc");
    assert_eq!(decisions(&source, &file(5, 10, 123_456_790)), "sscs");
    assert_eq!(decisions(&source, &file(5, 11, 1)), "sscs");
}

#[test]
fn what_is_no_file_is_replaced() {
    let source = file(directory().st_size, 10, 3);
    assert_eq!(decisions(&source, &directory()), "cscc");
}

/// Granularities, and how each keeps the time of [`source`].
const KEPT: [(Granularity, i64, u32); 7] = [
    (Granularity::Seconds(2), 1_000_000_000, 0),
    (Granularity::Seconds(1), 1_000_000_001, 0),
    (
        Granularity::Nanoseconds(10_000_000),
        1_000_000_001,
        120_000_000,
    ),
    (
        Granularity::Nanoseconds(1_000_000),
        1_000_000_001,
        123_000_000,
    ),
    (Granularity::Nanoseconds(1_000), 1_000_000_001, 123_456_000),
    (Granularity::Nanoseconds(100), 1_000_000_001, 123_456_700),
    (Granularity::Nanoseconds(1), 1_000_000_001, 123_456_789),
];

fn source() -> Stat {
    file(5, 1_000_000_001, 123_456_789)
}

#[test]
fn a_file_system_with_coarser_times_is_not_copied_to_for_ever() {
    for (granularity, seconds, nanoseconds) in KEPT {
        let rounding = file(5, seconds, nanoseconds);
        let found = decisions_by(granularity, &source(), &rounding);
        assert_eq!(found, "ssc=", "{granularity:?}");
    }
}

#[test]
fn a_file_system_with_finer_times_hides_no_newer_source_behind_zeros() {
    for (n, (coarser, seconds, nanoseconds)) in KEPT.into_iter().enumerate() {
        let existing = file(5, seconds, nanoseconds);
        for (granularity, ..) in KEPT.into_iter().skip(n + 1) {
            let found = decisions_by(granularity, &source(), &existing);
            assert_eq!(found, "cscc", "{coarser:?} on {granularity:?}");
        }
    }
}

#[test]
fn where_the_granularity_is_unknown_the_contents_decide_what_may_be_rounded() {
    for (granularity, seconds, nanoseconds) in &KEPT[..6] {
        let existing = file(5, *seconds, *nanoseconds);
        let found = decisions_if(&source(), &existing, |_| Rounding::Unknown);
        assert_eq!(found, "?sc?", "{granularity:?}");
    }
    let beyond_2038 = file(5, 5_000_000_000, 7);
    let unknown = |existing| decisions_if(&beyond_2038, &existing, |_| Rounding::Unknown);
    assert_eq!(unknown(file(5, i32::MAX.into(), 0)), "?sc?");
    assert_eq!(unknown(file(5, 1_000_000_000, 0)), "cscc");
}

#[test]
fn times_beyond_32_bits_are_those_that_the_file_system_makes_of_them() {
    let source = file(5, 5_000_000_000, 7);
    let decisions = |existing, rounding| {
        let rounding = Rounding::To(Time::modified(&file(5, rounding, 0)));
        decisions_if(&source, &file(5, existing, 0), |_| rounding)
    };
    let last = i32::MAX.into();
    assert_eq!(
        decisions(last, last),
        "?sc?",
        "all later ones end there too"
    );
    assert_eq!(decisions(last, 5_000_000_000), "cscc", "it does not");
    assert_eq!(
        decisions(705_032_704, 705_032_704),
        "ssc=",
        "it begins anew"
    );
    assert_eq!(decisions(705_032_700, 705_032_704), "cscc");
}

#[test]
fn coarse_times_still_tell_older_from_newer() {
    // Odd, so it is not FAT's, and a whole second old.
    let copied = file(5, 1_000_000_001, 0);
    assert_eq!(decisions(&file(5, 1_000_000_002, 0), &copied), "cscc");
    // Even: FAT's.
    let copied = file(5, 1_000_000_002, 0);
    assert_eq!(decisions(&file(5, 1_000_000_004, 0), &copied), "cscc");
    // Before 1970 down is the other way.
    let copied = file(5, -4, 0);
    let by = |source| decisions_by(Granularity::Seconds(2), &source, &copied);
    assert_eq!(by(file(5, -3, 5)), "ssc=");
    assert_eq!(decisions(&file(5, -2, 5), &copied), "cscc");
}
