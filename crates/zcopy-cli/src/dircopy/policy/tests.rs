use super::*;

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

/// What each policy decides, in the order of [`POLICIES`], as letters.
fn decisions(source: &Stat, destination: &Stat) -> String {
    let letter = |policy| match decide(policy, source, destination) {
        Decision::Copy => 'c',
        Decision::Skip => 's',
        Decision::Compare => '=',
    };
    POLICIES.map(letter).into_iter().collect()
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

#[test]
fn a_file_system_with_coarser_times_is_not_copied_to_for_ever() {
    let source = file(5, 1_000_000_001, 123_456_789);
    for (seconds, nanoseconds) in [
        (1_000_000_000, 0),
        (1_000_000_001, 0),
        (1_000_000_001, 120_000_000),
        (1_000_000_001, 123_000_000),
        (1_000_000_001, 123_456_000),
        (1_000_000_001, 123_456_700),
        (1_000_000_001, 123_456_789),
    ] {
        let kept = file(5, seconds, nanoseconds);
        assert_eq!(decisions(&source, &kept), "ssc=", "{nanoseconds}");
    }
    let beyond_2038 = file(5, 5_000_000_000, 7);
    let clamped = file(5, i32::MAX.into(), 0);
    assert_eq!(decisions(&beyond_2038, &clamped), "ssc=");
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
    assert_eq!(decisions(&file(5, -3, 5), &copied), "ssc=");
    assert_eq!(decisions(&file(5, -2, 5), &copied), "cscc");
}
