//! How much there will be, and what is shown of it: percentages and times, or a marker.

use std::io::Write as _;

use super::{Desk, as_pv, is_like, leaves, ours};
use crate::skip::skip;

#[test]
fn the_size_of_files_is_their_sum() {
    leaves("pv -pw 20 f g > /dev/null", &["[============>] 100%"]);
    as_pv("pv f g > /dev/null; pv f < g > /dev/null; pv - < f > /dev/null; pv < f > /dev/null");
}

/// One device made the total unknown, also an empty one.
#[test]
fn the_null_device_is_empty_and_other_devices_have_no_size() {
    for files in ["f /dev/null", "/dev/null f", "f /dev/null g"] {
        let script = format!("pv -pw 20 {files} > /dev/null");
        leaves(&script, &["[============>] 100%"]);
    }
    as_pv("pv -pw 20 /dev/null f > /dev/null; pv -pw 20 /dev/null > /dev/null");
    // pv forgets the files before such a device, and shows 100 % here and more elsewhere.
    for files in ["f /proc/version", "/proc/version f", "f - < /dev/tty"] {
        let mut desk = Desk::with(&format!("stty -echo; pv -pw 20 {files} > /dev/null"));
        if files.ends_with("tty") {
            desk.press(b"\x04");
        }
        let rows = desk.left();
        assert!(rows[0].contains("<=>"), "{files}: {rows:?}");
    }
}

#[test]
fn a_size_that_is_given_stands_above_the_files_own() {
    leaves("pv -pw 20 -s 4096 f > /dev/null", &["[=====>       ]  50%"]);
    as_pv(
        "pv -s 4096 f > /dev/null; pv -s 4K f > /dev/null; pv --size 0.004M f > /dev/null; cat f | pv -s 4k > /dev/null",
    );
}

#[test]
fn a_size_is_taken_from_a_file_or_all_files_under_a_directory() {
    // 2048 of 3072 and of 4000.
    leaves("pv -pw 20 -s @g f > /dev/null", &["[=======>     ]  66%"]);
    leaves("pv -pw 20 -s @dir f > /dev/null", &["[=====>       ]  51%"]);
    as_pv("pv -s @g f > /dev/null; cat f | pv -s @g > /dev/null");
    let rows = super::left_by("pv -s @nope f > /dev/null");
    assert!(rows[0].starts_with("pv: nope: No such file"), "{rows:?}");
}

#[test]
fn more_than_was_expected_is_more_than_100_percent() {
    for (script, row) in [
        ("pv -pw 20 -s 1K f > /dev/null", "[=============] 200%"),
        ("pv -pw 20 -s @f dir/b > /dev/null", "[=============] 146%"),
        ("pv -pw 20 -s @dir f g > /dev/null", "[=============] 128%"),
        (
            "pv -pw 20 -l -s 418 lines > /dev/null",
            "[=============] 239%",
        ),
        ("pv -pw 20 -0 -s 1 f > /dev/null", "[>            ]   0%"),
        ("pv -gpw 20 -s 1K f > /dev/null", "[=============] 200%"),
        ("pv -pw 20 -S -s 1K f > /dev/null", "[============>] 100%"),
        // The head of the bar leaves it with the first column behind the last.
        ("pv -pw 20 -s 1906 f > /dev/null", "[============>] 107%"),
        ("pv -pw 20 -s 1901 f > /dev/null", "[=============] 107%"),
        // Never more than 100,000 %, and no bar where that has no room.
        ("pv -pw 20 -s 1 f > /dev/null", "[==========] 100000%"),
        ("pv -pw 10 -s 1 f > /dev/null", "[] 100000%"),
        ("pv -pw 9 -s 1 f > /dev/null; echo over", ""),
    ] {
        assert_eq!(as_pv(script)[0], row, "{script}");
    }
    as_pv("pv -s 1K f > /dev/null; cat f | pv -s 1000 > /dev/null; pv -p -s 1501 f > /dev/null");
    as_pv("pv -Is 1K f > /dev/null; pv -9pw 20 -s 1000 f > /dev/null");
    for style in ["block", "granular", "shaded"] {
        as_pv(&format!("pv -pw 20 -u {style} -s 1000 f > /dev/null"));
    }
    as_pv("pv -F '%{progress-amount-only}|%{bar-plain}|%e|%I|' -s 1000 f > /dev/null");
}

#[test]
fn while_more_comes_than_was_expected_no_time_is_left() {
    let script = "(head -c 150; read line < go; head -c 150) < f | \
                  pv -F '%20p %e|' -s 100 -i 0.1 > /dev/null";
    for pv in [Some(ours().to_owned()), crate::peer::pv()] {
        let Some(pv) = pv else { continue };
        let mut desk = Desk::of(&pv, 8, 72, &format!("mkfifo go; {script}"));
        desk.wait_for_row("[=============] 150% ETA 0:00:00|");
        desk.end_pipe("go");
        assert_eq!(desk.left(), ["[=============] 300%            |"]);
    }
}

#[test]
fn a_file_that_grows_is_measured_by_the_size_that_it_had() {
    let script = "pv -pi 0.1 -w 20 -L 1K f > /dev/null";
    // Both at one time, for each takes three seconds.
    let pvs = [Some(ours().to_owned()), crate::peer::pv()];
    let desks: Vec<Desk> = pvs
        .iter()
        .flatten()
        .map(|pv| Desk::of(pv, 8, 72, script))
        .collect();
    for desk in &desks {
        desk.wait_for(|seen| seen.row(0).starts_with('['));
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(desk.path("f"))
            .unwrap();
        file.write_all(&[0; 1024]).unwrap();
    }
    for mut desk in desks {
        assert_eq!(desk.left(), ["[=============] 150%"]);
    }
}

#[test]
fn of_a_pipe_a_marker_moves_when_bytes_do_and_stands_still_with_them() {
    let mut desk = Desk::sized(8, 60, "pv -pi 0.1 < in > /dev/null");
    let mut source = desk.source();
    let marker = |seen: &crate::screen::Seen| seen.row(0).find("<=>");
    desk.wait_for(|seen| marker(seen) == Some(1));
    let mut last = 1;
    while last < 10 {
        source.write_all(b"x").unwrap();
        let now = desk.wait_until(|seen| marker(seen).filter(|now| *now >= last));
        assert!(now <= last + 8, "from {last} to {now}");
        last = now;
    }
    let now = desk.wait_until(marker);
    let bytes = desk.seen().raw.len();
    // Some frames later it stands where it stood, but for what was under way.
    desk.wait_for(|seen| seen.raw.len() > bytes + 400);
    let then = desk.wait_until(marker);
    assert!(then <= now + 2, "from {now} to {then}");
    drop(source);
    let _ = desk.end();
}

#[test]
fn a_gauge_shows_the_rate_as_a_share_of_the_highest() {
    let mut desk = Desk::sized(8, 60, "pv -pg -w 40 -i 0.1 < in > /dev/null");
    let mut source = desk.source();
    source.write_all(&[0; 4096]).unwrap();
    desk.wait_for(|seen| is_like(&seen.row(0), "[===========================>]/??????B/s"));
    // The rate falls to nothing, the highest stays.
    desk.wait_for(|seen| is_like(&seen.row(0), "[>                           ]/??????B/s"));
    drop(source);
    let _ = desk.end();
    as_pv("pv -g f > /dev/null");
}

#[test]
fn a_gauge_is_a_bar_where_the_size_is_known() {
    leaves("pv -gpw 20 -s 4K f > /dev/null", &["[=====>       ]  50%"]);
}

#[test]
fn percent_and_time_left_are_shown_of_what_is_under_way() {
    let mut desk = Desk::with("pv -s 4096 -i 0.1 < in > /dev/null");
    let mut source = desk.source();
    source.write_all(&[0; 1024]).unwrap();
    desk.wait_for_row("1.00KiB 0:00:?? [??????B/s] [=====>                   ]  25% ETA 0:00:??");
    source.write_all(&[0; 1024]).unwrap();
    desk.wait_for_row("2.00KiB 0:00:?? [??????B/s] [===========>             ]  50% ETA 0:00:??");
    drop(source);
    let rows = desk.left();
    assert!(rows[0].ends_with("50%"), "{rows:?}");
}

#[test]
fn the_size_of_a_block_device_is_its_own() {
    let device = "l=$(sudo -n losetup -f --show f 2> /dev/null || losetup -f --show f 2> /dev/null) || { echo none; exit; }
        pv -pw 20 $l > /dev/null; pv -pw 20 -S -s 1K $l > /dev/null; losetup -d $l";
    let rows = super::left_by(device);
    if rows == ["none"] {
        return skip("there is no loop device");
    }
    assert_eq!(rows, ["[============>] 100%", "[============>] 100%"]);
}

#[test]
fn a_missing_file_leaves_the_total_unknown() {
    leaves(
        "pv -pw 20 nope f > /dev/null",
        &[
            "pv: nope: No such file or directory",
            "[<=>               ]",
        ],
    );
}

#[test]
fn numbers_keep_their_width_over_all_magnitudes() {
    let mut desk = Desk::with("pv -i 0.1 < in > /dev/null");
    let mut source = desk.source();
    let mut total = 0_usize;
    for len in [1, 9, 90, 900, 24, 9000, 90_000, 1_000_000] {
        source.write_all(&vec![0; len]).unwrap();
        total += len;
        let shown = zcopy_cli::common::progress::units::amount(
            total as u64,
            zcopy_cli::common::progress::units::Unit::Bytes,
            false,
        );
        desk.wait_for(|seen| seen.row(0).starts_with(&format!("{shown} ")));
    }
    drop(source);
    let _ = desk.end();
    let raw = String::from_utf8(desk.seen().raw.clone()).unwrap();
    let mut n_lines = 0;
    for line in raw.split('\r').filter(|line| line.contains("B/s]")) {
        let line = line.trim_start_matches("\x1b[?25l");
        assert_eq!(line.find('['), Some(16), "{line:?}");
        assert_eq!(line.find("] ["), Some(26), "{line:?}");
        n_lines += 1;
    }
    assert!(n_lines > 8);
}
