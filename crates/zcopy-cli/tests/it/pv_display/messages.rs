//! Messages, and output to the very terminal that shows the display.

use super::{Desk, has_row, leaves};

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
    // Without -D the first line would come after ten minutes.
    let mut desk = Desk::with("echo nope > list; pv -b -i 0.1 in nope out > /dev/null");
    drop(super::fed(&desk, 3));
    desk.wait_for(|seen| {
        seen.row(0) == "pv: nope: No such file or directory" && seen.row(1) == "3.00  B"
    });
    drop(
        std::fs::OpenOptions::new()
            .write(true)
            .open(desk.path("out"))
            .unwrap(),
    );
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
fn what_is_shown_is_not_torn_by_output_to_the_same_terminal() {
    let mut desk = Desk::sized(
        12,
        40,
        "seq 5 | pv -bi 0.1; printf 'no end' | pv -b; echo over",
    );
    let rows = desk.left();
    assert_eq!(rows[..5], ["1", "2", "3", "4", "5"]);
    assert!(has_row(&desk.seen(), "10.0  B"), "{rows:?}");
    assert_eq!(rows[6..], ["no end", "6.00  B", "over"]);
}
