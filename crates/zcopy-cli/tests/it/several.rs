//! Several lines on a terminal, as a person sees them.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};

use zcopy_cli::common::terminal::capabilities::Capabilities;
use zcopy_cli::pv::display::screen::{MultiLineScreen, Screen, Setup};

use crate::screen::Terminal;

const ABLE: Capabilities = Capabilities {
    utf8: true,
    colour: true,
    sequences: true,
};

/// Several lines on a new terminal.
fn several(rows: u16, columns: u16) -> (Terminal, OwnedFd, MultiLineScreen) {
    let (terminal, program) = Terminal::new(rows, columns);
    let screen = Screen::on(program.as_fd(), Setup::default(), ABLE).unwrap();
    (terminal, program, MultiLineScreen::on(screen))
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn lines_are_drawn_over_those_before_however_many_there_are() {
    let (terminal, _program, mut several) = several(5, 10);
    for (drawn, seen) in [
        (&["one"][..], ["one", "", "", "", ""]),
        (
            &["first line", "second", "0123456789"],
            ["first line", "second", "0123456789", "", ""],
        ),
        (&["a", "b"], ["a", "b", "", "", ""]),
        (&[], ["a", "b", "", "", ""]),
        (
            &["1", "2", "3", "4", "5", "6", "7"],
            ["1", "2", "3", "4", "5"],
        ),
        (&["last"], ["last", "", "", "", ""]),
    ] {
        several.draw(&lines(drawn));
        terminal.wait_for(|screen| screen.rows() == seen);
    }
    terminal.wait_for(|seen| !seen.cursor_is_hidden());
    let raw = String::from_utf8(terminal.seen().raw.clone()).unwrap();
    crate::screen::hides_the_cursor_only_within_chunks(&raw);
    several.finish();
    terminal.wait_for(|seen| {
        seen.row(0) == "last" && seen.cursor() == (1, 0) && !seen.cursor_is_hidden()
    });
}

#[test]
fn a_message_stands_above_all_lines() {
    let (terminal, _program, mut several) = several(6, 20);
    several.draw(&lines(&["one", "two"]));
    several.write_message("a message");
    several.draw(&lines(&["one", "two"]));
    terminal.wait_for(|seen| seen.rows() == ["a message", "one", "two", "", "", ""]);
}

#[test]
fn lines_at_the_lower_edge_scroll_once() {
    let (terminal, _program, mut several) = several(3, 20);
    several.write_message("message");
    several.write_message("message");
    for n in 0..3 {
        several.draw(&lines(&[&format!("one {n}"), &format!("two {n}")]));
    }
    terminal.wait_for(|seen| seen.rows() == ["message", "one 2", "two 2"]);
}

#[test]
fn without_a_terminal_several_lines_stand_below_each_other() {
    let mut file: File = tempfile::tempfile().unwrap();
    let setup = Setup {
        force: true,
        ..Setup::default()
    };
    let mut several = MultiLineScreen::on(Screen::on(file.as_fd(), setup, ABLE).unwrap());
    several.draw(&lines(&["one", "two"]));
    several.draw(&lines(&["one"]));
    let mut shown = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut shown).unwrap();
    assert_eq!(shown, "one\ntwo\none\r");
}

#[test]
fn lines_leave_a_prompt_alone_and_stand_below_it_in_the_end() {
    let (terminal, program, mut several) = several(8, 20);
    rustix::io::write(&program, b"Password: ").unwrap();
    terminal.echo(false);
    several.draw(&lines(&["one", "two"]));
    terminal.wait_for(|seen| seen.raw == b"Password: ");
    terminal.echo(true);
    several.draw(&lines(&["one", "two"]));
    terminal.wait_for(|seen| seen.rows()[..4] == ["Password:", "one", "two", ""]);
    rustix::io::write(&program, b"Again: ").unwrap();
    terminal.echo(false);
    several.draw(&lines(&["three", "four"]));
    several.finish();
    terminal.wait_for(|seen| {
        seen.rows()[..5] == ["Password:", "one", "Again:", "three", "four"]
            && seen.cursor() == (5, 0)
    });
}
