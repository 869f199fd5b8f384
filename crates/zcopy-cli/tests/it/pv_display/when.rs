//! When something is shown: at intervals, after a delay, from the first byte on, and while nothing
//! moves.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::{Desk, has_row, is_like, leaves};
use crate::screen::Seen;

#[test]
fn it_counts_seconds_while_the_source_is_silent() {
    let mut desk = Desk::with("pv < in > /dev/null");
    let mut source = desk.source();
    for second in 1..=2 {
        let line = format!("0.00  B 0:00:0{second} [0.00  B/s] [<=>");
        desk.wait_for(|seen| seen.row(0).starts_with(&line));
    }
    source.write_all(b"x\n").unwrap();
    drop(source);
    let rows = desk.left();
    assert!(rows[0].starts_with("2.00  B 0:00:0"), "{rows:?}");
}

#[test]
fn it_counts_seconds_while_nobody_reads_and_leaves_out_what_is_unread() {
    let mut desk = Desk::with("pv -tbi 0.1 < /dev/zero > out");
    let mut sink = desk.sink();
    // The pipe is full, and nothing of that has arrived.
    desk.wait_for(|seen| seen.row(0) == "0.00  B 0:00:01");
    for kib in [4, 12, 100] {
        let read: usize = if kib == 4 {
            4
        } else if kib == 12 {
            8
        } else {
            88
        };
        sink.read_exact(&mut vec![0; read * 1024]).unwrap();
        // A slow reader is followed by the page, not by the pipe.
        let shown = zcopy_cli::common::progress::units::amount(
            kib * 1024,
            zcopy_cli::common::progress::units::Unit::Bytes,
            false,
        );
        desk.wait_for(|seen| seen.row(0).starts_with(&shown));
    }
    desk.press(b"\x03");
    let _ = desk.end();
}

#[test]
fn without_an_interval_a_second_passes_before_the_first_line() {
    let mut desk = Desk::with("pv -tb < in > /dev/null");
    let _source = super::fed(&desk, 3);
    desk.wait_for(|seen| !seen.row(0).is_empty());
    assert_eq!(desk.seen().row(0), "3.00  B 0:00:01");
    desk.press(b"\x03");
    let _ = desk.end();
}

#[test]
fn an_interval_is_how_often_it_is_drawn() {
    let mut desk = Desk::with("pv -bi 0.1 < in > /dev/null");
    let begin = Instant::now();
    let source = desk.source();
    desk.wait_for(|seen| {
        seen.raw
            .windows(7)
            .filter(|frame| frame == b"0.00  B")
            .count()
            >= 10
    });
    assert!(begin.elapsed() >= Duration::from_millis(900));
    drop(source);
    let _ = desk.end();
    // Over in less than an interval, it is drawn once.
    let mut desk = Desk::with("pv -bi 600 f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB"]);
    let raw = String::from_utf8(desk.seen().raw.clone()).unwrap();
    assert_eq!(raw.matches("KiB").count(), 1);
}

#[test]
fn before_the_delay_is_over_nothing_is_shown() {
    leaves("pv -D 600 f > /dev/null; echo over", &["over"]);
    let mut desk = Desk::with("pv -ti 0.1 -D 1 < in > /dev/null");
    let source = desk.source();
    desk.wait_for(|seen| !seen.row(0).is_empty());
    assert_eq!(desk.seen().row(0), "0:00:01");
    drop(source);
    let _ = desk.end();
}

#[test]
fn time_begins_with_the_first_byte_if_that_is_waited_for() {
    let mut desk = Desk::with("pv -Wtbi 0.1 < in > /dev/null & read line; wait");
    let mut source = desk.source();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(desk.seen().raw.is_empty());
    let first_byte = Instant::now();
    source.write_all(b"x").unwrap();
    desk.press(b"\n");
    desk.wait_for(|seen| has_row(seen, "1.00  B 0:00:0?"));
    let shown = desk.wait_until(|seen| seen.rows().into_iter().find(|row| row.contains("1.00  B")));
    // It would be at least a second more, had it begun with the program.
    let seconds: u64 = shown.rsplit(':').next().unwrap().parse().unwrap();
    assert!(seconds <= first_byte.elapsed().as_secs(), "{shown}");
    drop(source);
    let _ = desk.end();
    leaves("pv -W -b f > /dev/null", &["2.00KiB"]);
    leaves("pv -W empty > /dev/null; echo over", &["over"]);
}

#[test]
fn an_average_is_over_its_window() {
    let averages = ["60", "1"].map(|window| {
        let desk = Desk::with(&format!("pv -a -m {window} -i 0.1 < in > /dev/null"));
        let source = super::fed(&desk, 4096);
        desk.wait_for(|seen| is_like(&seen.row(0), "(????KiB/s)"));
        (desk, source)
    });
    let [(mut of_a_minute, source), (mut of_a_second, other)] = averages;
    let has_fallen = |seen: &Seen| seen.row(0) == "(0.00  B/s)";
    // After a second nothing has moved in the last one.
    of_a_second.wait_for(has_fallen);
    // The last minute includes the bytes.
    let n_frames = |seen: &Seen| String::from_utf8_lossy(&seen.raw).matches('(').count();
    let before = n_frames(&of_a_minute.seen());
    of_a_minute.wait_for(|seen| n_frames(seen) >= before + 2);
    assert!(!has_fallen(&of_a_minute.seen()));
    drop((source, other));
    let _ = (of_a_second.end(), of_a_minute.end());
}

#[test]
fn without_a_terminal_nothing_is_shown_but_by_force() {
    leaves("pv f 2> log > /dev/null; cat log; echo over", &["over"]);
    leaves("pv -fb f 2> log > /dev/null; cat log", &["2.00KiB"]);
    leaves("pv -b --force f 2>&1 > /dev/null | cat", &["2.00KiB"]);
}

#[test]
fn a_delay_does_not_hide_the_first_byte_from_who_waits_for_it() {
    let mut desk = Desk::with("pv -Wtbi 0.1 -D 2 < in > /dev/null");
    let source = super::fed(&desk, 3);
    desk.wait_for(|seen| !seen.row(0).is_empty());
    // From the byte on, not from the end of the delay.
    assert!(desk.seen().row(0).as_str() > "3.00  B 0:00:00");
    drop(source);
    let _ = desk.end();
}
