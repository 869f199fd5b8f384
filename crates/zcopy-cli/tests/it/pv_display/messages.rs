//! Messages, and output to the very terminal that shows the display.

use std::io::Write as _;

use super::{Desk, leaves};

#[test]
fn a_missing_file_is_told_above_the_display() {
    let mut desk = Desk::with("pv -bi 600 - nope - < in > out");
    let (mut source, mut sink) = (super::fed(&desk, 1), desk.sink());
    let _ = (&mut source, &mut sink);
    drop(source);
    assert_eq!(
        desk.left(),
        ["pv: nope: No such file or directory", "1.00  B"]
    );
}

#[test]
fn after_a_message_the_display_is_back_at_once() {
    let mut desk = Desk::with("pv -b -i 0.1 in nope out > /dev/null");
    let source = super::fed(&desk, 3);
    desk.wait_for_row("3.00  B");
    drop(source);
    desk.wait_for(|seen| {
        seen.row(0) == "pv: nope: No such file or directory" && seen.row(1) == "3.00  B"
    });
    desk.end_pipe("out");
    assert_eq!(
        desk.left(),
        ["pv: nope: No such file or directory", "3.00  B"]
    );
}

#[test]
fn several_messages_stand_one_below_the_other() {
    leaves(
        "pv -b nope1 f nope2 nope3 > /dev/null; echo $?",
        &[
            "pv: nope1: No such file or directory",
            "pv: nope2: No such file or directory",
            "pv: nope3: No such file or directory",
            "2.00KiB",
            "2",
        ],
    );
}

#[test]
fn messages_that_a_stopped_terminal_did_not_take_come_later() {
    let mut desk = Desk::with("pv -bi 0.1 in nope1 nope2 nope3 out > /dev/null; echo over");
    let source = super::fed(&desk, 3);
    desk.wait_for_row("3.00  B");
    desk.press(crate::screen::CONTROL_S);
    drop(source);
    // Whoever opens this has complained of the others.
    drop(
        std::fs::OpenOptions::new()
            .write(true)
            .open(desk.path("out"))
            .unwrap(),
    );
    desk.press(crate::screen::CONTROL_Q);
    let rows = desk.left();
    let told = rows
        .iter()
        .filter(|row| row.starts_with("pv: nope"))
        .count();
    assert_eq!(told, 3, "{rows:?}");
    assert_eq!(rows.last().map(String::as_str), Some("over"), "{rows:?}");
}

#[test]
fn output_to_the_same_terminal_and_the_display_do_not_tear_each_other() {
    let mut desk = Desk::sized(12, 40, "seq 5 | pv -b; printf 'no end' | pv -b; echo over");
    let rows = desk.left();
    assert_eq!(
        rows,
        [
            "1", "2", "3", "4", "5", "10.0  B", "no end", "6.00  B", "over"
        ]
    );
    assert!(!desk.seen().cursor_is_hidden());
}

#[test]
fn between_pieces_of_output_the_display_has_a_row_that_is_redrawn() {
    let mut desk = Desk::sized(12, 40, "pv -tbi 0.1 < in");
    let mut source = desk.source();
    desk.wait_for_row("0.00  B 0:00:01");
    source.write_all(b"one\ntw").unwrap();
    desk.wait_for_row("6.00  B 0:00:0?");
    source.write_all(b"o\nthree\n").unwrap();
    desk.wait_for_row("14.0  B 0:00:0?");
    drop(source);
    let rows = desk.left();
    let patterns = [
        "0.00  B 0:00:0?",
        "one",
        "tw",
        "6.00  B 0:00:0?",
        "o",
        "three",
        "14.0  B 0:00:0?",
    ];
    assert_eq!(rows.len(), patterns.len(), "{rows:?}");
    for (row, pattern) in rows.iter().zip(patterns) {
        assert!(super::is_like(row, pattern), "{rows:?}");
    }
}

#[test]
fn nothing_is_shown_if_no_input_could_be_opened() {
    for options in ["", "-n", "-v", "-bU -", "-s 100", "-cb", "-x window", "-l"] {
        leaves(
            &format!("pv {options} nope > /dev/null; echo $?"),
            &["pv: nope: No such file or directory", "2"],
        );
    }
    leaves(
        "cp f g; pv -n g nope >> g; echo $?; pv -n . > /dev/null",
        &[
            "pv: g: input file is also the output",
            "pv: nope: No such file or directory",
            "6",
            "pv: .: Is a directory",
            "0",
        ],
    );
}
