//! `-c`: several on one terminal, each in its row.

use super::{Desk, has_row, is_like};

const BAR: &str = "????KiB 0:00:??";

#[test]
fn every_one_of_a_pipeline_has_its_row() {
    let mut desk = Desk::with(
        "echo top; pv -cbN one -i 0.1 < in | pv -cbN two -i 0.1 | pv -cbN three -i 0.1 > /dev/null; echo over",
    );
    let source = super::fed(&desk, 2048);
    desk.wait_for(|seen| {
        has_row(seen, "      one: 2.00KiB")
            && has_row(seen, "      two: 2.00KiB")
            && has_row(seen, "    three: 2.00KiB")
            && !seen.cursor_is_hidden()
    });
    drop(source);
    let mut rows = desk.left();
    assert_eq!(
        (rows.remove(0), rows.pop()),
        ("top".into(), Some("over".into()))
    );
    rows.sort();
    assert_eq!(
        rows,
        [
            "      one: 2.00KiB",
            "      two: 2.00KiB",
            "    three: 2.00KiB"
        ]
    );
    assert!(!desk.seen().cursor_is_hidden());
    assert_eq!(desk.seen().questions(), 1);
}

#[test]
fn at_the_bottom_of_the_screen_the_rest_scrolls() {
    let mut desk = Desk::sized(
        4,
        72,
        "seq 5; pv -cbN one -i 0.1 < in | pv -cbN two -i 0.1 > /dev/null; echo over",
    );
    let source = super::fed(&desk, 2048);
    desk.wait_for(|seen| seen.row(1) == "5" || seen.row(0) == "5");
    desk.wait_for(|seen| {
        has_row(seen, "      one: 2.00KiB") && has_row(seen, "      two: 2.00KiB")
    });
    drop(source);
    let rows = desk.left();
    assert_eq!(rows.last().map(String::as_str), Some("over"), "{rows:?}");
    let n_names = rows.iter().filter(|row| row.ends_with(": 2.00KiB")).count();
    assert_eq!(n_names, 2, "{rows:?}");
}

#[test]
fn one_that_ends_first_leaves_its_row_to_itself() {
    let mut desk = Desk::with(
        "(pv -cbN one -i 0.1 f > out; echo done > first) | pv -cbN two -i 0.1 < in > /dev/null; echo over",
    );
    let (source, mut sink) = (super::fed(&desk, 100), desk.sink());
    desk.wait_for(|seen| has_row(seen, "      two:  100  B"));
    std::io::Read::read_exact(&mut sink, &mut [0; 2048]).unwrap();
    assert_eq!(desk.line_in("first"), "done");
    std::io::Write::write_all(&mut &source, &[0; 100]).unwrap();
    desk.wait_for(|seen| {
        has_row(seen, "      one: 2.00KiB")
            && has_row(seen, "      two:  200  B")
            && !seen.cursor_is_hidden()
    });
    drop(source);
    let mut rows = desk.left();
    assert_eq!(rows.pop().as_deref(), Some("over"));
    rows.sort();
    assert_eq!(rows, ["      one: 2.00KiB", "      two:  200  B"]);
}

#[test]
fn messages_stand_below_all_rows() {
    let mut desk =
        Desk::with("pv -cbN one -i 0.1 - nope < in | pv -cbN two -i 0.1 > /dev/null; echo over");
    let source = super::fed(&desk, 2048);
    desk.wait_for(|seen| {
        has_row(seen, "      one: 2.00KiB") && has_row(seen, "      two: 2.00KiB")
    });
    drop(source);
    let rows = desk.left();
    assert_eq!(
        rows[2..],
        ["pv: nope: No such file or directory", "over"],
        "{rows:?}"
    );
}

#[test]
fn a_message_stands_below_a_row_of_its_own_as_with_pv() {
    // pv draws its row again afterwards, and leaves the cursor there.
    for pv in [Some(super::ours().to_owned()), crate::peer::pv()] {
        let Some(pv) = pv else { continue };
        let mut desk = Desk::of(
            &pv,
            8,
            72,
            "trap : INT; echo top; pv -cbi 0.1 - nope < in > /dev/null",
        );
        let source = super::fed(&desk, 2048);
        desk.wait_for_row("2.00KiB");
        drop(source);
        let rows = desk.left();
        assert_eq!(
            rows[..3],
            ["top", "2.00KiB", "pv: nope: No such file or directory"],
            "{rows:?}"
        );
    }
}

#[test]
fn rows_survive_a_window_that_becomes_narrower_and_wider() {
    for reflows in [false, true] {
        let mut desk = Desk::sized(
            9,
            60,
            "echo top; pv -cpN one -i 0.1 < in | pv -cpN two -i 0.1 > /dev/null; echo over",
        );
        let source = super::fed(&desk, 2048);
        for width in [60, 30, 50, 25, 70] {
            if reflows {
                desk.resize_and_reflow(9, width);
            } else {
                desk.resize(9, width);
            }
            let bar = |name: &str, row: &str| {
                row.starts_with(name)
                    && row.chars().count() == usize::from(width)
                    && row.ends_with(']')
            };
            desk.wait_for(|seen| {
                let mut rows = seen.rows();
                rows.retain(|row| !row.is_empty());
                rows.sort();
                rows.len() == 3
                    && bar("      one: [", &rows[0])
                    && bar("      two: [", &rows[1])
                    && rows[2] == "top"
            });
        }
        drop(source);
        let rows = desk.left();
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert_eq!((rows[0].as_str(), rows[3].as_str()), ("top", "over"));
    }
}

#[test]
fn statistics_and_an_interrupt_stand_below_all_rows_too() {
    let mut desk = Desk::with(
        "trap : INT; pv -cbN one -i 0.1 < in | pv -cbN two -i 0.1 > /dev/null; echo over",
    );
    let source = super::fed(&desk, 2048);
    desk.wait_for(|seen| {
        has_row(seen, "      one: 2.00KiB") && has_row(seen, "      two: 2.00KiB")
    });
    desk.press(b"\x03");
    let rows = desk.left();
    drop(source);
    let told = "pv: interrupted by a signal: Interrupt";
    assert_eq!(rows[2..], [told, told, "over"], "{rows:?}");
    for name in ["      one: 2.00KiB", "      two: 2.00KiB"] {
        assert!(rows[..2].iter().any(|row| row == name), "{rows:?}");
    }
    assert!(desk.echoes());
    let mut desk = Desk::sized(8, 99, "pv -cvb f | pv -cvb > /dev/null; echo over");
    let rows = desk.left();
    assert_eq!(
        rows.iter().filter(|row| row.starts_with("rate ")).count(),
        2,
        "{rows:?}"
    );
    assert_eq!(
        rows.iter().filter(|row| *row == "2.00KiB").count(),
        2,
        "{rows:?}"
    );
}

#[test]
fn without_rows_one_overwrites_the_other() {
    // What -c is for.
    let mut desk = Desk::with("pv -b < in | pv -t > /dev/null");
    drop(super::fed(&desk, 2048));
    let rows = desk.left();
    assert!(rows.len() <= 2, "{rows:?}");
}

#[test]
fn one_alone_stays_where_it_began() {
    let mut desk = Desk::with("echo above; pv -ctb f > /dev/null; echo below");
    let rows = desk.left();
    assert!(is_like(&rows[1], BAR), "{rows:?}");
    assert_eq!((rows[0].as_str(), rows[2].as_str()), ("above", "below"));
}

#[test]
fn after_a_pause_both_go_on_below_what_the_shell_has_written() {
    let mut desk = Desk::sized(
        16,
        72,
        "set -m; pv -cbN one -i 0.1 < in | pv -cbN two -i 0.1 > /dev/null; echo stopped; fg > /dev/null; echo over",
    );
    let source = super::fed(&desk, 2048);
    let both = |rows: &[String]| {
        let is_there = |name: &str| rows.iter().filter(|row| row.starts_with(name)).count() == 1;
        is_there("      one: 2.00KiB") && is_there("      two: 2.00KiB")
    };
    desk.wait_for(|seen| both(&seen.rows()));
    desk.press(crate::screen::CONTROL_Z);
    desk.wait_for(|seen| {
        let rows = seen.rows();
        let stopped = rows.iter().position(|row| row == "stopped");
        stopped.is_some_and(|stopped| both(&rows[stopped..]))
    });
    drop(source);
    let rows = desk.left();
    let stopped = rows.iter().position(|row| row == "stopped").unwrap();
    assert!(both(&rows[stopped..]), "{rows:?}");
    assert_eq!(rows.len(), stopped + 4, "{rows:?}");
    let n_names = rows[..stopped]
        .iter()
        .filter(|row| row.ends_with(": 2.00KiB"))
        .count();
    assert!(n_names <= 2, "{rows:?}");
}
