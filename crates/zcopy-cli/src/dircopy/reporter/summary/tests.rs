use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::*;

fn counts() -> Counts {
    let counts = Counts::default();
    for (count, n) in [
        (&counts.files, 10_000),
        (&counts.bytes_of_files, 3_650_722_201),
        (&counts.copied, 9000),
        (&counts.cloned, 900),
        (&counts.linked, 60),
        (&counts.skipped, 40),
        (&counts.failed, 3),
    ] {
        count.add(n);
    }
    counts
}

fn words(counts: &Counts, elapsed: Duration, sums: Option<&str>) -> String {
    let sums: Vec<_> = sums.into_iter().map(PathBuf::from).collect();
    Summary::of(counts, State::Done, elapsed, &sums).words()
}

#[test]
fn the_summary_tells_files_bytes_time_bandwidth_and_what_became_of_them() {
    let elapsed = Duration::from_millis(12_345);
    assert_eq!(
        words(&counts(), elapsed, Some("/copy/shasum.2027-01-15.txt")),
        "10000 files, 3650722201 bytes (3.40GiB) in 12.345 s, 282MiB/s\n\
         9000 copied, 900 cloned, 60 linked, 40 skipped, 3 failed\n\
         digests in /copy/shasum.2027-01-15.txt\n"
    );
}

#[test]
fn a_summary_without_digests_names_no_file() {
    let words = words(&counts(), Duration::from_secs(1), None);
    assert_eq!(words.lines().count(), 2, "{words}");
}

#[test]
fn the_name_of_the_digests_can_be_pasted_into_a_shell() {
    let words = words(&counts(), Duration::from_secs(1), Some("my copy/a\nb"));
    assert!(
        words.ends_with("digests in 'my copy/a'$'\\n''b'\n"),
        "{words}"
    );
}

#[test]
fn links_and_special_files_are_told_if_there_are_any() {
    let counts = counts();
    counts.others.add(7);
    let words = words(&counts, Duration::from_secs(1), None);
    assert!(
        words.ends_with(" 3 failed; and 7 symbolic links and special files\n"),
        "{words}"
    );
}

#[test]
fn small_numbers_read_well() {
    let counts = Counts::default();
    let first = |counts: &Counts, elapsed| {
        let words = words(counts, elapsed, None);
        words.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        first(&counts, Duration::ZERO),
        "0 files, 0 bytes in 0.000 s, 0.00B/s"
    );
    counts.files.add(1);
    counts.bytes_of_files.add(1);
    assert_eq!(
        first(&counts, Duration::from_millis(500)),
        "1 file, 1 byte in 0.500 s, 2.00B/s"
    );
    counts.bytes_of_files.add(1023);
    assert_eq!(
        first(&counts, Duration::from_secs(64)),
        "1 file, 1024 bytes (1.00KiB) in 0:01:04, 16.0B/s"
    );
}

#[test]
fn links_that_have_become_files_are_told_if_there_are_any() {
    for (n, line) in [
        (1, "1 hard link copied as a file of its own"),
        (2, "2 hard links copied as files of their own"),
    ] {
        let counts = counts();
        counts.links_copied.add(n);
        let words = words(&counts, Duration::from_secs(1), None);
        assert_eq!(words.lines().nth(2), Some(line), "{words}");
    }
}

#[test]
fn replaced_files_and_dropped_records_are_told_if_there_are_any() {
    for (n, lines) in [
        (
            1,
            [
                "1 file of the destination replaced",
                "1 record dropped, as --no-hash makes no digests",
            ],
        ),
        (
            2,
            [
                "2 files of the destination replaced",
                "2 records dropped, as --no-hash makes no digests",
            ],
        ),
    ] {
        let counts = counts();
        counts.replaced.add(n);
        counts.records_dropped.add(n);
        let words = words(&counts, Duration::from_secs(1), None);
        let told: Vec<_> = words.lines().skip(2).collect();
        assert_eq!(told, lines, "{words}");
    }
}

#[test]
fn the_object_has_all_that_the_words_have() {
    let sums = [PathBuf::from(OsStr::from_bytes(b"/copy/\xff"))];
    let counts = counts();
    counts.links_copied.add(2);
    counts.replaced.add(5);
    counts.records_dropped.add(1);
    let summary = Summary::of(&counts, State::Failed, Duration::from_secs(2), &sums);
    assert_eq!(
        serde_json::to_string(&summary).unwrap(),
        "{\"state\":\"failed\",\"files\":10000,\"bytes\":3650722201,\"seconds\":2.0,\"bytes_per_second\":1825361100.5,\
         \"copied\":9000,\"cloned\":900,\"linked\":60,\"links_copied\":2,\"replaced\":5,\"records_dropped\":1,\"moved\":0,\"resumed\":0,\"resumed_bytes\":0,\"skipped\":40,\"others\":0,\"failed\":3,\"attributes_not_kept\":0,\"damaged\":0,\"lost_bytes\":0,\"read_past_cache\":0,\"read_after_drop\":0,\"read_from_memory\":0,\"read_from_elsewhere\":0,\
         \"sums\":\"/copy/\u{fffd}\",\"manifests\":[\"/copy/\u{fffd}\"]}"
    );
    let summary = Summary::of(&counts, State::Failed, Duration::from_secs(2), &[]);
    let object = serde_json::to_string(&summary).unwrap();
    assert!(
        object.ends_with("\"sums\":null,\"manifests\":[]}"),
        "{object}"
    );
}

#[test]
fn damaged_files_are_told_if_there_are_any() {
    let counts = counts();
    counts.damaged.add(2);
    counts.lost_bytes.add(12_288);
    let words = words(&counts, Duration::from_secs(1), None);
    let damaged = " 3 failed, 2 damaged (lacking 12288 bytes (12.0KiB))\n";
    assert!(words.ends_with(damaged), "{words}");
}

#[test]
fn a_rate_below_one_byte_a_second_is_told_in_bytes() {
    assert_eq!(rate(0.5471), "0.55B/s");
    assert_eq!(rate(0.0), "0.00B/s");
    assert_eq!(rate(1.0), "1.00B/s");
    assert_eq!(rate(1.5e6), "1.43MiB/s");
}
