//! While a program asks for a password, nothing is drawn over its prompt.

use super::cursor::shows_the_cursor_in_each_frame;
use super::{Desk, has_row};
use crate::screen::CONTROL_Z;

/// Writes an object to the file `log` before each frame, whether the frame is drawn or left out.
const TELLS_FRAMES: &str = "--json=log";

/// Waits until a display has written so many objects more.
fn see_objects(desk: &Desk, log: &str, n_objects: usize) {
    let n_before = desk.lines_in(log);
    desk.wait_for_lines(log, n_before + n_objects);
}

/// Waits until a display has drawn a frame or left it out, and decided to do so after the call. The
/// next object comes before that decision, and the one after it comes when the decision has been
/// carried out.
fn see_frame(desk: &Desk, log: &str) {
    see_objects(desk, log, 2);
}

/// Writes bytes, and waits until a frame that counts them has been drawn or left out.
fn write_and_see(desk: &Desk, source: &mut impl std::io::Write, bytes: usize, total: usize) {
    source.write_all(&vec![0; bytes]).unwrap();
    desk.wait_for_text("log", &format!("\"bytes\":{total},"));
    see_objects(desk, "log", 1);
}

#[test]
fn nothing_is_drawn_until_the_terminal_echoes_again() {
    for switch in ["", "-c", "-x window", "-9"] {
        let mut desk = Desk::with(&format!(
            "stty -echo; printf 'Password: '; \
             exec pv {switch} -bi 0.1 {TELLS_FRAMES} < in > /dev/null"
        ));
        let mut source = desk.source();
        write_and_see(&desk, &mut source, 50, 50);
        assert_eq!(
            String::from_utf8_lossy(&desk.seen().raw),
            "Password: ",
            "{switch}"
        );
        desk.echo(true);
        write_and_see(&desk, &mut source, 20, 70);
        desk.wait_for(|seen| {
            seen.row(0) == "Password:"
                && seen.row(1).starts_with("70.0  B")
                && !seen.cursor_is_hidden()
        });
        drop(source);
        assert_eq!(desk.left(), ["Password:", "70.0  B"], "{switch}");
        shows_the_cursor_in_each_frame(&desk.seen());
        assert!(desk.echoes());
    }
}

#[test]
fn a_prompt_that_comes_while_it_draws_is_left_alone_and_answered() {
    for switch in ["", "-c"] {
        let mut desk = Desk::with(&format!(
            "mkfifo go; pv {switch} -bi 0.1 {TELLS_FRAMES} < in > /dev/null &
             read line < go; stty -echo; read line < go
             printf 'Password: '; read -r secret < /dev/tty
             stty echo; echo \"$secret\" > secret
             wait; echo over"
        ));
        let mut source = desk.source();
        write_and_see(&desk, &mut source, 20, 20);
        desk.wait_for_row("20.0  B");
        desk.end_pipe("go");
        while desk.echoes() {
            std::thread::yield_now();
        }
        // A frame that tested the echo before may still come.
        see_frame(&desk, "log");
        desk.end_pipe("go");
        desk.wait_for(|seen| seen.raw.ends_with(b"Password: "));
        let bytes = desk.seen().raw.len();
        write_and_see(&desk, &mut source, 40, 60);
        assert_eq!(desk.seen().raw.len(), bytes, "{switch}");
        desk.press(b"secret\n");
        assert_eq!(desk.line_in("secret"), "secret");
        write_and_see(&desk, &mut source, 10, 70);
        desk.wait_for_row("70.0  B");
        drop(source);
        assert_eq!(desk.left(), ["Password:", "70.0  B", "over"], "{switch}");
        assert!(desk.echoes());
    }
}

#[test]
fn the_last_line_stands_below_a_prompt_that_still_waits() {
    for (switches, last) in [
        ("-b", "2.00KiB"),
        ("-cb", "2.00KiB"),
        ("-9b", "2.00KiB"),
        ("-pw 20 -s 4K", "[=====>       ]  50%"),
    ] {
        let mut desk = Desk::with(&format!(
            "stty -echo; printf 'Password: '; pv {switches} f > /dev/null; printf behind; stty echo"
        ));
        assert_eq!(desk.left(), ["Password:", last, "behind"], "{switches}");
        assert!(!desk.seen().cursor_is_hidden());
        assert_eq!(desk.seen().questions(), 0, "{switches}");
    }
}

#[test]
fn a_prompt_that_fills_the_last_row_scrolls_up_whole() {
    for switch in ["", "-c"] {
        let mut desk = Desk::sized(
            3,
            20,
            &format!(
                "seq 5; stty -echo; printf 'Password: '; pv {switch} -b f > /dev/null; \
                 printf behind; stty echo"
            ),
        );
        assert_eq!(desk.left(), ["Password:", "2.00KiB", "behind"]);
    }
}

#[test]
fn two_displays_with_rows_leave_a_prompt_alone() {
    let mut desk = Desk::with(&format!(
        "stty -echo; printf 'Password: '; \
         pv -cbN one -i 0.1 {TELLS_FRAMES} < in | pv -cbN two -i 0.1 --json=log2 > /dev/null; echo over"
    ));
    let mut source = desk.source();
    write_and_see(&desk, &mut source, 50, 50);
    desk.wait_for_text("log2", "\"bytes\":50,");
    see_frame(&desk, "log2");
    assert_eq!(String::from_utf8_lossy(&desk.seen().raw), "Password: ");
    desk.echo(true);
    desk.wait_for(|seen| {
        seen.row(0) == "Password:"
            && has_row(seen, "      one: 50.0  B")
            && has_row(seen, "      two: 50.0  B")
    });
    desk.echo(false);
    see_frame(&desk, "log");
    see_frame(&desk, "log2");
    let bytes = desk.seen().raw.len();
    write_and_see(&desk, &mut source, 20, 70);
    desk.wait_for_text("log2", "\"bytes\":70,");
    see_frame(&desk, "log2");
    assert_eq!(desk.seen().raw.len(), bytes);
    drop(source);
    let mut rows = desk.left();
    desk.echo(true);
    assert_eq!(
        (rows.remove(0), rows.pop().unwrap()),
        ("Password:".into(), "over".into())
    );
    for name in ["      one: 70.0  B", "      two: 70.0  B"] {
        assert_eq!(
            rows.iter().filter(|row| *row == name).count(),
            1,
            "{rows:?}"
        );
    }
    shows_the_cursor_in_each_frame(&desk.seen());
}

#[test]
fn messages_and_interrupts_leave_a_prompt_as_it_is() {
    for switch in ["", "-c"] {
        let mut desk = Desk::with(&format!(
            "trap : INT; pv {switch} -bi 0.1 {TELLS_FRAMES} - nope < in > /dev/null; printf behind"
        ));
        let mut source = desk.source();
        write_and_see(&desk, &mut source, 20, 20);
        desk.wait_for_row("20.0  B");
        desk.echo(false);
        write_and_see(&desk, &mut source, 10, 30);
        let bytes = desk.seen().raw.len();
        write_and_see(&desk, &mut source, 20, 50);
        assert_eq!(desk.seen().raw.len(), bytes, "{switch}");
        drop(source);
        let rows = desk.left();
        desk.echo(true);
        assert_eq!(
            rows,
            ["pv: nope: No such file or directory", "50.0  B", "behind"],
            "{switch}"
        );
        let mut desk = Desk::with(&format!(
            "trap : INT; stty -echo; printf 'Password: '; \
             pv {switch} -bi 0.1 {TELLS_FRAMES} < in > /dev/null; printf behind; stty echo"
        ));
        let mut source = desk.source();
        // The interrupt discards output that the terminal has not read.
        desk.wait_for_row("Password:");
        write_and_see(&desk, &mut source, 20, 20);
        desk.press(b"\x03");
        assert_eq!(
            desk.left(),
            [
                "Password:",
                "20.0  B",
                "pv: interrupted by a signal: Interrupt",
                "behind"
            ],
            "{switch}"
        );
    }
}

#[test]
fn a_pause_during_a_prompt_changes_nothing() {
    let mut desk = Desk::with(&format!(
        "set -m; stty -echo; printf 'Password: '; pv -bi 0.1 {TELLS_FRAMES} < in > /dev/null
         echo stopped; stty echo; fg > /dev/null; echo over"
    ));
    let mut source = desk.source();
    write_and_see(&desk, &mut source, 20, 20);
    desk.press(CONTROL_Z);
    desk.wait_for_row("20.0  B");
    drop(source);
    let rows = desk.left();
    let stopped = rows.iter().position(|row| row == "stopped").unwrap();
    assert_eq!(rows[0], "Password:");
    assert_eq!(rows[stopped + 1..], ["20.0  B", "over"], "{rows:?}");
}

#[test]
fn numbers_are_for_programs_and_force_is_force() {
    let mut desk =
        Desk::with("stty -echo; pv -n f > /dev/null; pv --json f > /dev/null; stty echo");
    let rows = desk.left();
    assert_eq!(rows[0], "100");
    assert!(rows[1].starts_with('{'), "{rows:?}");
    let mut desk = Desk::with("stty -echo; pv -fbi 0.1 < in > /dev/null; stty echo");
    let source = super::fed(&desk, 3);
    desk.wait_for_row("3.00  B");
    drop(source);
    assert_eq!(desk.left(), ["3.00  B"]);
}

#[test]
fn a_terminal_without_sequences_keeps_its_prompt_too() {
    let mut desk = Desk::with(
        "export TERM=dumb; stty -echo; printf 'Password: '; pv -b f > /dev/null; \
         printf behind; stty echo",
    );
    assert_eq!(desk.left(), ["Password: 2.00KiB", "behind"]);
}
