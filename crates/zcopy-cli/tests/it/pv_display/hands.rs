//! In the hands of a shell and of a user: signals, pauses, the background, a window that changes.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Desk, has_row, is_like};
use crate::screen::{CONTROL_Q, CONTROL_S, CONTROL_Z};

/// A line of which nothing is known but that it has one column a digit.
const LINE: &str = "0.00  B 0:00:?? [0.00  B/s] [<=>                                       ]";

#[test]
fn the_cursor_is_visible_after_each_frame_and_stands_below_at_the_end() {
    let mut desk = Desk::with("pv -b -i 0.1 < in > /dev/null");
    let mut source = desk.source();
    source.write_all(b"x").unwrap();
    desk.wait_for(|seen| seen.row(0) == "1.00  B" && !seen.cursor_is_hidden());
    drop(source);
    assert_eq!(desk.left(), ["1.00  B"]);
    let seen = desk.seen();
    assert_eq!((seen.cursor(), seen.cursor_is_hidden()), ((1, 0), false));
}

#[test]
fn a_signal_leaves_the_line_whole_says_so_and_ends_with_32() {
    for (signal, name) in [
        (Signal::INT, "Interrupt"),
        (Signal::TERM, "Terminated"),
        (Signal::HUP, "Hangup"),
    ] {
        let mut desk = Desk::with("exec pv -i 0.1 < in > /dev/null");
        let _source = desk.source();
        desk.wait_for(|seen| is_like(&seen.row(0), LINE));
        desk.signal(signal);
        assert_eq!(desk.end().code(), Some(32));
        let seen = desk.seen();
        assert!(is_like(&seen.row(0), LINE), "{}", seen.row(0));
        assert_eq!(seen.row(1), format!("pv: interrupted by a signal: {name}"));
        assert_eq!((seen.cursor(), seen.cursor_is_hidden()), ((2, 0), false));
    }
}

#[test]
fn what_the_keyboard_echoes_does_not_stay_in_the_line() {
    let mut desk = Desk::with("trap : INT; pv -i 0.1 < in > /dev/null; echo $?");
    let _source = desk.source();
    desk.wait_for(|seen| is_like(&seen.row(0), LINE));
    desk.press(b"\x03");
    let rows = desk.left();
    assert!(is_like(&rows[0], LINE), "{rows:?}");
    assert_eq!(rows[1..], ["pv: interrupted by a signal: Interrupt", "32"]);
}

#[test]
fn an_interrupt_that_ends_the_source_too_is_told_all_the_same() {
    // ^C ends `cat` as well, so that the end of the input and the signal come at one time.
    for _ in 0..5 {
        let mut desk =
            Desk::with("trap : INT; cat in | pv -i 0.1 > /dev/null; echo ${PIPESTATUS[1]}");
        let _source = desk.source();
        desk.wait_for(|seen| is_like(&seen.row(0), LINE));
        desk.press(b"\x03");
        assert_eq!(
            desk.left()[1..],
            ["pv: interrupted by a signal: Interrupt", "32"]
        );
    }
}

#[test]
fn a_hangup_that_the_parent_ignores_ends_nothing() {
    let mut desk = Desk::with("trap '' HUP; exec pv -bi 0.1 < in > /dev/null");
    let mut source = desk.source();
    desk.wait_for_row("0.00  B");
    desk.signal(Signal::HUP);
    source.write_all(b"x").unwrap();
    desk.wait_for_row("1.00  B");
    drop(source);
    assert!(desk.end().success());
}

#[test]
fn a_reader_that_goes_away_ends_it_as_any_other_program() {
    let rows = super::left_by(
        "pv -i 0.1 -bL 64K /dev/zero | head -c 4096 > /dev/null; echo ${PIPESTATUS[0]}",
    );
    assert_eq!(rows.last().map(String::as_str), Some("141"), "{rows:?}");
    let mut desk = Desk::with(
        "trap '' PIPE; pv -i 0.1 -bL 64K /dev/zero | head -c 4096 > /dev/null; echo ${PIPESTATUS[0]}",
    );
    let rows = desk.left();
    assert_eq!(rows.last().map(String::as_str), Some("0"), "{rows:?}");
    assert!(!desk.seen().cursor_is_hidden());
}

#[test]
fn a_window_that_gets_narrower_or_wider_is_filled_at_once() {
    let mut desk = Desk::sized(8, 60, "exec pv -pi 0.1 < in > /dev/null");
    let source = desk.source();
    for width in [60_u16, 30, 50, 10, 70] {
        desk.resize(8, width);
        let bar = format!("[<=>{}]", " ".repeat(usize::from(width) - 5));
        desk.wait_for(|seen| seen.row(0) == bar && seen.rows()[1..].iter().all(String::is_empty));
    }
    drop(source);
    assert!(desk.end().success());
}

#[test]
fn a_resize_adds_no_line_of_numbers_and_does_not_end_a_delay() {
    let mut desk = Desk::with("exec pv -ni 600 < in > out");
    let (mut source, mut sink) = (desk.source(), desk.sink());
    for width in 60..70 {
        source.write_all(b"x").unwrap();
        sink.read_exact(&mut [0]).unwrap();
        desk.resize(8, width);
    }
    drop(source);
    assert_eq!(desk.left(), ["2"]);
    let mut desk = Desk::with("exec pv -bD 600 < in > out");
    let (mut source, mut sink) = (desk.source(), desk.sink());
    source.write_all(b"x").unwrap();
    sink.read_exact(&mut [0]).unwrap();
    desk.resize(8, 60);
    drop(source);
    assert_eq!(desk.left(), [""; 0]);
}

#[test]
fn a_size_that_was_asked_for_outlives_a_resize() {
    let mut desk = Desk::with("exec pv -pi 0.1 -w 20 < in > /dev/null");
    let mut source = desk.source();
    let bar = format!("[<=>{}]", " ".repeat(15));
    desk.wait_for_row(&bar);
    desk.resize(8, 60);
    source.write_all(&[0; 10]).unwrap();
    drop(source);
    assert_eq!(desk.left(), [bar]);
}

#[test]
fn control_z_leaves_the_screen_to_the_shell_and_no_time_passes_until_fg() {
    let mut desk = Desk::with(
        "set -m; pv -i 0.1 < in > /dev/null; echo stopped; sleep 3; fg > /dev/null; echo over",
    );
    let source = desk.source();
    desk.wait_for(|seen| is_like(&seen.row(0), LINE) && !seen.cursor_is_hidden());
    let (before, begin) = (seconds(&desk.seen().row(0)), Instant::now());
    desk.press(CONTROL_Z);
    desk.wait_for(|seen| has_row(seen, "stopped") && !seen.cursor_is_hidden());
    assert!(
        is_like(&desk.seen().row(0), LINE),
        "{:?}",
        desk.seen().rows()
    );
    desk.wait_for(|seen| is_like(&seen.row(3), LINE) && !seen.cursor_is_hidden());
    let (shown, passed) = (seconds(&desk.seen().row(3)), begin.elapsed());
    let stopped = Duration::from_secs(3);
    assert!(passed >= stopped);
    // A second more for what had begun before, and one for a frame that came late.
    let run = passed.saturating_sub(stopped).as_secs();
    assert!(
        shown <= before + 2 + run,
        "{before} s, then {shown} s, after {passed:?}"
    );
    drop(source);
    let rows = desk.left();
    assert!(is_like(&rows[3], LINE) && rows[4] == "over", "{rows:?}");
}

/// The seconds of a timer in the second word.
fn seconds(row: &str) -> u64 {
    let timer = row
        .split_whitespace()
        .find(|word| word.matches(':').count() == 2);
    let seconds = timer.and_then(|timer| timer.rsplit(':').next());
    seconds.unwrap().parse().unwrap()
}

#[test]
fn in_the_background_it_runs_on_and_draws_nothing_until_it_is_in_the_foreground() {
    let mut desk = Desk::with(
        "set -m; stty tostop; pv -bi 0.1 < in > out & \
         read line; jobs -r | grep -c Running; echo looked; read line; fg > /dev/null",
    );
    let (mut source, mut sink) = (desk.source(), desk.sink());
    source.write_all(b"abc").unwrap();
    // It moves what there is to be moved.
    sink.read_exact(&mut [0; 3]).unwrap();
    desk.press(b"\n");
    desk.wait_for_row("looked");
    assert!(has_row(&desk.seen(), "1"));
    assert!(!has_row(&desk.seen(), "3.00  B"));
    desk.press(b"\n");
    desk.wait_for_row("3.00  B");
    drop(source);
    assert_eq!(desk.left().last().map(String::as_str), Some("3.00  B"));
}

#[test]
fn in_the_background_it_draws_by_force() {
    let mut desk = Desk::with("set -m; pv -fbi 0.1 < in > /dev/null & wait");
    let mut source = desk.source();
    source.write_all(b"abc").unwrap();
    desk.wait_for_row("3.00  B");
    drop(source);
    let _ = desk.end();
}

#[test]
fn a_stopped_terminal_holds_up_neither_the_bytes_nor_the_end() {
    let mut desk = Desk::with(
        "pv -i 0.1 nope1 nope2 nope3 nope4 nope5 nope6 nope7 - < in > out; echo $? > status",
    );
    let (mut source, mut sink) = (desk.source(), desk.sink());
    source.write_all(b"x").unwrap();
    sink.read_exact(&mut [0; 1]).unwrap();
    desk.wait_for(|seen| seen.rows().iter().any(|row| row.starts_with("1.00  B")));
    desk.press(CONTROL_S);
    for _ in 0..100 {
        source.write_all(&[0; 4096]).unwrap();
        sink.read_exact(&mut [0; 4096]).unwrap();
    }
    let begin = Instant::now();
    drop(source);
    assert_eq!(desk.line_in("status"), "2");
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    desk.press(CONTROL_Q);
    let _ = desk.end();
}

#[test]
fn a_terminal_that_nobody_reads_holds_up_neither_the_bytes_nor_the_end() {
    let mut desk = Desk::with("exec pv -i 0.1 -F '%1000p' -w 1000 < in > out");
    desk.read_screen(false);
    let (mut source, mut sink) = (desk.source(), desk.sink());
    // More frames than a pseudo-terminal holds.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        source.write_all(&[0; 4096]).unwrap();
        sink.read_exact(&mut [0; 4096]).unwrap();
    }
    drop(source);
    desk.read_screen(true);
    assert!(desk.end().success());
}

#[test]
fn who_wants_a_core_gets_a_tidy_terminal_too() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut desk = Desk::with("ulimit -c 0; exec pv -i 0.1 < in > /dev/null");
    let _source = desk.source();
    desk.wait_for(|seen| is_like(&seen.row(0), LINE) && !seen.cursor_is_hidden());
    desk.signal(Signal::QUIT);
    assert_eq!(desk.end().signal(), Some(Signal::QUIT.as_raw()));
    assert!(!desk.seen().cursor_is_hidden());
}
