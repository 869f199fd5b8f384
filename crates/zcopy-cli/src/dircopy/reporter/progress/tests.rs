use super::*;

const GIB: u64 = 1 << 30;

fn halfway() -> Progress {
    Progress {
        bytes: GIB + GIB / 5,
        files: 345,
        bytes_per_second: 1.1 * 1024.0 * 1024.0 * 1024.0,
        total_bytes: 3 * GIB + 2 * GIB / 5,
        total_files: 10_000,
        total_is_final: true,
        seconds: 1.5,
        remaining: Some(Duration::from_secs(2)),
        failed: 0,
        current: None,
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn the_line_tells_bytes_rate_files_and_the_time_left() {
    assert_eq!(
        halfway().line(80),
        "1.20GiB of 3.40GiB, 35%, 1.10GiB/s, 345 of 10000 files, ETA 0:00:02"
    );
}

#[test]
fn while_more_may_be_found_there_is_no_time_left() {
    let progress = Progress {
        total_is_final: false,
        ..halfway()
    };
    assert_eq!(
        progress.line(80),
        "1.20GiB of 3.40GiB+, 1.10GiB/s, 345 of 10000+ files"
    );
}

#[test]
fn where_nothing_moves_nobody_knows_the_time_left() {
    let progress = Progress {
        bytes_per_second: 0.0,
        remaining: None,
        ..halfway()
    };
    assert_eq!(
        progress.line(80),
        "1.20GiB of 3.40GiB, 35%, 0.00  B/s, 345 of 10000 files, ETA -:--:--"
    );
}

#[test]
fn what_has_failed_is_on_the_line() {
    let progress = Progress {
        failed: 3,
        ..halfway()
    };
    assert!(progress.line(80).ends_with(", ETA 0:00:02, 3 failed"));
}

#[test]
fn a_file_under_way_takes_the_rest_of_the_line() {
    let progress = Progress {
        current: Some("directory/clip.mov".into()),
        ..halfway()
    };
    let line = halfway().line(200);
    assert_eq!(progress.line(200), format!("{line}, directory/clip.mov"));
    assert_eq!(
        progress.line(line.len() + 12),
        format!("{line}, ...lip.mov")
    );
    assert_eq!(progress.line(line.len() + 11), line);
}

#[test]
fn the_line_is_clipped_to_any_width() {
    let whole = halfway().line(200);
    for columns in 0..whole.len() + 2 {
        let clipped = halfway().line(columns);
        assert_eq!(clipped, whole[..columns.min(whole.len())]);
    }
}

#[test]
fn the_object_has_all_that_the_line_has() {
    let progress = Progress {
        bytes_per_second: 2048.5,
        ..halfway()
    };
    assert_eq!(
        serde_json::to_string(&progress).unwrap(),
        "{\"bytes\":1288490188,\"files\":345,\"bytes_per_second\":2048.5,\"total_bytes\":3650722201,\
         \"total_files\":10000,\"total_is_final\":true,\"seconds\":1.5}"
    );
}

#[test]
fn the_rate_is_that_of_the_last_seconds() {
    let (counts, total) = (Counts::default(), Total::default());
    let mut gauge = Gauge::new(&counts, &total);
    total.add(100_000);
    total.complete();
    counts.bytes.add(10_000);
    let first = gauge.read(seconds(1));
    assert!((first.bytes_per_second - 10_000.0).abs() < 1e-3);
    assert_eq!(first.remaining, Some(seconds(9)));
    // From now on a tenth of that.
    for at in 2..=10 {
        counts.bytes.add(1000);
        gauge.read(seconds(at));
    }
    let slow = gauge.read(seconds(10));
    assert!((slow.bytes_per_second - 1000.0).abs() < 1e-3, "{slow:?}");
    assert_eq!(slow.remaining, Some(seconds(81)));
    for at in 11..=20 {
        gauge.read(seconds(at));
    }
    let stuck = gauge.read(seconds(20));
    assert!(stuck.bytes_per_second.abs() < 1e-3, "{stuck:?}");
    assert_eq!(stuck.remaining, None);
}

#[test]
fn there_is_never_less_in_all_than_has_been_copied() {
    let (counts, total) = (Counts::default(), Total::default());
    total.add(5);
    counts.bytes.add(7);
    counts.files.add(2);
    let progress = Gauge::new(&counts, &total).read(seconds(1));
    assert_eq!((progress.total_bytes, progress.total_files), (7, 2));
    assert!(!progress.total_is_final);
    assert_eq!(progress.remaining, Some(Duration::ZERO));
}
