//! Several displays on one terminal. Each opens the file that tells of the others by itself, as a process would.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tempfile::TempDir;
use zcopy_cli::look::Look;
use zcopy_cli::pv::rows::{Rows, Turn};
use zcopy_cli::pv::screen::{Screen, Setup};
use zcopy_cli::tty::Tty;

use crate::screen::{CONTROL_Q, Terminal};

const ABLE: Look = Look {
    utf8: true,
    colour: true,
    sequences: true,
};

/// A display that has registered for a row.
fn display(program: &OwnedFd) -> Screen {
    let setup = Setup {
        own_row: true,
        ..Setup::default()
    };
    let mut screen = Screen::on(program.as_fd(), setup, ABLE).unwrap();
    screen.begin();
    screen
}

/// A terminal on which somebody has written already.
fn terminal_after(text: &str, rows: u16) -> (Terminal, OwnedFd) {
    let (terminal, program) = Terminal::new(rows, 20);
    rustix::io::write(&program, text.as_bytes()).unwrap();
    terminal.wait_for(|seen| seen.raw.ends_with(b"\n"));
    (terminal, program)
}

#[test]
fn each_display_has_a_row_in_the_order_in_which_they_came() {
    let (terminal, program) = terminal_after("$ a | b\n", 5);
    let (mut first, mut second) = (display(&program), display(&program));
    second.draw("second 1");
    first.draw("first 1");
    second.draw("second 2");
    terminal.wait_for(|seen| seen.rows()[..4] == ["$ a | b", "first 1", "second 2", ""]);
    terminal.wait_for(|seen| !seen.cursor_is_hidden());
    assert_eq!(terminal.seen().questions(), 1);
    assert!(terminal.echoes());
}

#[test]
fn the_last_that_ends_leaves_the_cursor_below_all() {
    for first_ends_first in [true, false] {
        let (terminal, program) = terminal_after("$\n", 6);
        let (mut first, mut second) = (display(&program), display(&program));
        first.draw("first");
        second.draw("second");
        let (mut early, mut late) = if first_ends_first {
            (first, second)
        } else {
            (second, first)
        };
        early.draw("early");
        early.finish();
        late.draw("late 1");
        late.draw("late 2");
        terminal
            .wait_for(|seen| !seen.cursor_is_hidden() && seen.rows().contains(&"late 2".into()));
        late.finish();
        let expected = if first_ends_first {
            ["$", "early", "late 2", ""]
        } else {
            ["$", "late 2", "early", ""]
        };
        terminal.wait_for(|seen| {
            seen.rows()[..4] == expected && seen.cursor() == (3, 0) && !seen.cursor_is_hidden()
        });
    }
}

#[test]
fn at_the_bottom_the_terminal_scrolls_once_for_all() {
    let (terminal, program) = terminal_after("1\n2\n3\n", 4);
    let mut displays = [(); 3].map(|()| display(&program));
    for round in 0..3 {
        for (n, display) in displays.iter_mut().enumerate() {
            display.draw(&format!("display {n}: {round}"));
        }
    }
    let rows = ["2", "display 0: 2", "display 1: 2", "display 2: 2"];
    let rows = [&["3"], &rows[1..]].concat();
    terminal.wait_for(|seen| seen.rows() == rows);
    for display in &mut displays {
        display.finish();
    }
    // The cursor needs a row too.
    terminal.wait_for(|seen| seen.rows()[..3] == rows[1..] && seen.cursor() == (3, 0));
}

#[test]
fn one_that_comes_late_gets_a_row_below_and_moves_the_others_up() {
    let (terminal, program) = terminal_after("1\n2\n3\n", 4);
    let mut first = display(&program);
    first.draw("first 1");
    terminal.wait_for(|seen| seen.row(3) == "first 1");
    let mut second = display(&program);
    second.draw("second 1");
    first.draw("first 2");
    terminal.wait_for(|seen| seen.rows() == ["2", "3", "first 2", "second 1"]);
}

#[test]
fn more_displays_than_rows_show_the_lowest() {
    let (terminal, program) = terminal_after("1\n", 3);
    let mut displays = [(); 5].map(|()| display(&program));
    for (n, display) in displays.iter_mut().enumerate() {
        display.draw(&format!("display {n}"));
    }
    terminal.wait_for(|seen| seen.rows() == ["display 2", "display 3", "display 4"]);
}

#[test]
fn a_new_pipeline_begins_where_the_cursor_is_and_no_file_is_left() {
    let (terminal, program) = terminal_after("$\n", 8);
    for n in 0..3 {
        let mut display = display(&program);
        display.draw(&format!("display {n}"));
        display.finish();
    }
    terminal.wait_for(|seen| seen.rows()[..4] == ["$", "display 0", "display 1", "display 2"]);
    assert_eq!(terminal.seen().questions(), 3);
}

#[test]
fn a_display_that_vanished_leaves_nothing_that_disturbs_the_next() {
    let directory = TempDir::new().unwrap();
    let (terminal, program) = terminal_after("$\n", 8);
    let mut tty = Tty::on(program.as_fd()).unwrap();
    let size = tty.size().unwrap();
    let patience = Duration::from_secs(60);
    let row = |ours, lowest| {
        let ours = Some(ours);
        Some(Turn::Row { ours, lowest })
    };
    let mut first = Rows::join_in(directory.path(), &tty).unwrap();
    assert_eq!(first.turn(&mut tty, size, patience), row(1, 1));
    // What the kernel does at a process's end, and no more.
    let name = std::fs::read_dir(directory.path()).unwrap().next().unwrap();
    let path = name.unwrap().path();
    let left = std::fs::read(&path).unwrap();
    drop(first);
    assert!(!path.exists(), "the last one tidies up");
    std::fs::write(&path, &left).unwrap();
    rustix::io::write(&program, b"$\n$\n").unwrap();
    terminal.wait_for(|seen| seen.cursor() == (3, 0));
    let mut next = Rows::join_in(directory.path(), &tty).unwrap();
    assert_eq!(next.turn(&mut tty, size, patience), row(3, 3));
}

#[test]
fn the_file_is_the_user_s_own() {
    let directory = TempDir::new().unwrap();
    let (_terminal, program) = Terminal::new(5, 20);
    let tty = Tty::on(program.as_fd()).unwrap();
    let rows = Rows::join_in(directory.path(), &tty).unwrap();
    let entry = std::fs::read_dir(directory.path()).unwrap().next().unwrap();
    let path = entry.unwrap().path();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(rows);
    // What somebody has put there to have us write elsewhere is not followed.
    let elsewhere = directory.path().join("elsewhere");
    std::fs::write(&elsewhere, "precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(Rows::join_in(directory.path(), &tty).is_err());
    assert_eq!(std::fs::read(&elsewhere).unwrap(), b"precious");
}

#[test]
fn a_terminal_that_does_not_answer_gets_lines_as_without_rows() {
    let (terminal, program) = terminal_after("$\n", 5);
    terminal.answer(false);
    let (mut first, mut second) = (display(&program), display(&program));
    first.draw("first");
    terminal.wait_for(|seen| seen.row(1) == "first");
    second.draw("second");
    terminal.wait_for(|seen| seen.row(1) == "second");
    // The second knows without asking.
    assert_eq!(terminal.seen().questions(), 1);
    assert!(terminal.echoes());
    second.finish();
    first.draw("first");
    first.finish();
    terminal.wait_for(|seen| !seen.cursor_is_hidden() && seen.row(2).is_empty());
}

#[test]
fn a_terminal_that_is_stopped_is_asked_when_it_goes_on() {
    let (terminal, program) = terminal_after("$\n", 5);
    let mut display = display(&program);
    terminal.stop(&program);
    display.draw("1");
    assert_eq!(terminal.seen().questions(), 0);
    terminal.press(CONTROL_Q);
    while terminal.seen().questions() == 0 {
        display.draw("2");
    }
    display.finish();
    terminal.wait_for(|seen| seen.row(1) == "2" && seen.cursor() == (2, 0));
    assert_eq!(terminal.seen().questions(), 1);
}

#[test]
fn a_terminal_of_another_height_is_asked_again() {
    let (terminal, program) = terminal_after("1\n2\n3\n4\n", 8);
    let (mut first, mut second) = (display(&program), display(&program));
    first.draw("first 1");
    second.draw("second 1");
    terminal.wait_for(|seen| seen.row(5) == "second 1");
    terminal.resize(4, 20);
    for display in [&mut second, &mut first] {
        display.measure();
    }
    second.draw("second 2");
    first.draw("first 2");
    terminal.wait_for(|seen| seen.rows() == ["3", "4", "first 2", "second 2"]);
    assert_eq!(terminal.seen().questions(), 2);
}

#[test]
fn a_message_stands_above_all_rows() {
    let (terminal, program) = terminal_after("1\n2\n", 4);
    let (mut first, mut second) = (display(&program), display(&program));
    first.draw("first 1");
    second.draw("second 1");
    second.say("no such file");
    second.draw("second 2");
    first.draw("first 2");
    terminal.wait_for(|seen| seen.rows() == ["2", "no such file", "first 2", "second 2"]);
}

#[test]
fn after_a_pause_the_rows_are_where_the_shell_has_left_the_cursor() {
    let (terminal, program) = terminal_after("$\n", 8);
    let (mut first, mut second) = (display(&program), display(&program));
    first.draw("first 1");
    second.draw("second 1");
    terminal.wait_for(|seen| seen.row(2) == "second 1");
    first.pause();
    second.pause();
    terminal.wait_for(|seen| !seen.cursor_is_hidden());
    rustix::io::write(&program, b"\n[1] Stopped\n$ fg\n").unwrap();
    second.draw("second 2");
    first.draw("first 2");
    terminal.wait_for(|seen| {
        seen.rows()[3..7] == ["[1] Stopped", "$ fg", "first 2", "second 2"]
            && !seen.cursor_is_hidden()
    });
}
