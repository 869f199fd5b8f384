//! Several displays on one terminal. Each opens the file that tells of the others by itself, as a
//! process would.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use tempfile::TempDir;
use zcopy_cli::common::terminal::capabilities::Capabilities;
use zcopy_cli::common::terminal::tty::Tty;
use zcopy_cli::pv::display::screen::{Screen, Setup};
use zcopy_cli::pv::display::shared_rows::{Rows, Slot};

use crate::screen::{CONTROL_Q, Terminal};

const ABLE: Capabilities = Capabilities {
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
    let timeout = Duration::from_secs(60);
    let row = |row| {
        Some(Slot::Row {
            ours: Some(row),
            first: row,
            lowest: row,
        })
    };
    let mut first = Rows::join_in(directory.path(), &tty).unwrap();
    assert_eq!(first.acquire(&mut tty, size, timeout), row(1));
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
    assert_eq!(next.acquire(&mut tty, size, timeout), row(3));
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
fn messages_stand_below_all_rows_and_scroll_them_up() {
    let (terminal, program) = terminal_after("1\n2\n", 4);
    let (mut first, mut second) = (display(&program), display(&program));
    first.draw("first 1");
    second.draw("second 1");
    first.write_message("no such file");
    second.draw("second 2");
    first.draw("first 2");
    terminal.wait_for(|seen| seen.rows() == ["2", "first 2", "second 2", "no such file"]);
    second.write_message("no such directory");
    first.draw("first 3");
    terminal.wait_for(|seen| {
        seen.rows() == ["first 3", "second 2", "no such file", "no such directory"]
    });
    // There is no room for a third: the rows begin again below it.
    first.write_message("no such device");
    second.draw("second 4");
    first.draw("first 4");
    terminal.wait_for(|seen| {
        seen.rows() == ["no such directory", "no such device", "first 4", "second 4"]
    });
    first.write_message("the end");
    first.finish();
    second.finish();
    terminal.wait_for(|seen| seen.rows() == ["first 4", "second 4", "the end", ""]);
    terminal.wait_for(|seen| seen.cursor() == (3, 0) && !seen.cursor_is_hidden());
}

#[test]
fn a_display_that_comes_after_a_message_gets_a_row_above_it() {
    let (terminal, program) = terminal_after("$\n", 6);
    let mut first = display(&program);
    first.draw("first 1");
    first.write_message("no such file");
    let mut second = display(&program);
    second.draw("second 1");
    first.draw("first 2");
    terminal.wait_for(|seen| seen.rows() == ["$", "first 2", "second 1", "no such file", "", ""]);
}

#[test]
fn rows_and_messages_survive_a_terminal_that_becomes_narrower_and_wider() {
    for reflows in [false, true] {
        let (terminal, program) = terminal_after("$ a | b | c\n", 9);
        let mut displays = [(); 3].map(|()| display(&program));
        for (n, display) in displays.iter_mut().enumerate() {
            display.draw(&format!("{n}{:=<19}", ""));
        }
        displays[0].write_message("a: no such file");
        // Nobody draws its row again.
        displays[1].finish();
        for columns in [12, 20, 8, 15] {
            if reflows {
                terminal.resize_and_reflow(9, columns);
            } else {
                terminal.resize(9, columns);
            }
            let columns = usize::from(columns);
            let [first, _, third] = &mut displays;
            for display in [&mut *third, &mut *first] {
                display.measure();
            }
            third.draw(&format!("2{:-<1$}", "", columns - 1));
            first.draw(&format!("0{:-<1$}", "", columns - 1));
            let message = "a: no such file";
            let mut rows = vec![
                format!("0{:-<1$}", "", columns - 1),
                format!("1{:=<1$}", "", columns - 1),
                format!("2{:-<1$}", "", columns - 1),
            ];
            let (begin, rest) = message.split_at(columns.min(message.len()));
            rows.extend([begin, rest].map(|row| row.trim_end().to_owned()));
            terminal.wait_for(|seen| {
                let seen = seen.rows();
                let top = seen.iter().position(|row| *row == rows[0]);
                top.is_some_and(|top| {
                    seen[top..top + 5] == rows
                        && seen[top + 5..].iter().all(String::is_empty)
                        && !seen[..top].iter().any(|row| row.contains(['-', '=', ':']))
                })
            });
        }
        let [first, _, third] = &mut displays;
        first.finish();
        third.finish();
        terminal.wait_for(|seen| {
            let (row, column) = seen.cursor();
            column == 0 && row > 0 && seen.row(usize::from(row) - 1) == "a: no such file"
        });
    }
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

#[test]
fn what_is_typed_behind_the_terminals_answer_is_left_to_the_next_reader() {
    let (mut keyboard, program) = crate::pty::terminal();
    let mut tty = Tty::on(program.as_fd()).unwrap();
    let asked = std::thread::spawn(move || tty.position(Duration::from_secs(10)));
    let mut question = [0; 4];
    keyboard.read_exact(&mut question).unwrap();
    assert_eq!(&question, b"\x1b[6n");
    keyboard.write_all(b"\x1b[3;1Rls -l\n").unwrap();
    let position = asked.join().unwrap().unwrap().unwrap();
    assert_eq!((position.row, position.column), (3, 1));
    let mut line = [0; 16];
    let n = rustix::io::read(&program, &mut line).unwrap();
    assert_eq!(&line[..n], b"ls -l\n");
}
