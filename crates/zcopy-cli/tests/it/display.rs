//! Lines on a terminal, as a person sees them.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};

use zcopy_cli::common::terminal::capabilities::Capabilities;
use zcopy_cli::pv::display::screen::{Screen, Setup};

use crate::screen::{CONTROL_Q, Terminal};

const ABLE: Capabilities = Capabilities {
    utf8: true,
    colour: true,
    sequences: true,
};

/// A screen on a new terminal.
fn screen(rows: u16, columns: u16) -> (Terminal, OwnedFd, Screen) {
    let (terminal, program) = Terminal::new(rows, columns);
    let screen = Screen::on(program.as_fd(), Setup::default(), ABLE).unwrap();
    (terminal, program, screen)
}

#[test]
fn a_shorter_line_leaves_nothing_of_a_longer_one() {
    let (terminal, _program, mut screen) = screen(5, 20);
    screen.draw("a long line of text");
    terminal.wait_for(|seen| seen.row(0) == "a long line of text");
    screen.draw("short");
    terminal.wait_for(|seen| seen.row(0) == "short");
}

#[test]
fn a_line_as_wide_as_the_terminal_stays_on_one_row_and_is_whole() {
    let (terminal, _program, mut screen) = screen(5, 10);
    for line in ["0123456789", "abcdefghij", "██████████"] {
        screen.draw(line);
        terminal.wait_for(|seen| seen.rows() == [line, "", "", "", ""]);
    }
}

#[test]
fn the_cursor_is_visible_after_each_frame_and_at_the_end_stands_below() {
    let (terminal, _program, mut screen) = screen(5, 20);
    assert!(!terminal.seen().cursor_is_hidden());
    screen.draw("50%");
    terminal.wait_for(|seen| seen.row(0) == "50%" && !seen.cursor_is_hidden());
    screen.draw("100%");
    screen.finish();
    terminal.wait_for(|seen| {
        seen.row(0) == "100%" && !seen.cursor_is_hidden() && seen.cursor() == (1, 0)
    });
}

#[test]
fn a_panic_in_the_middle_of_a_frame_shows_the_cursor_again() {
    let (terminal, _program, mut screen) = screen(5, 80);
    terminal.read(false);
    // A pseudo-terminal buffers 8 KiB, and takes a part of a frame.
    for n in 0..150 {
        screen.draw(&format!("{n:080}"));
    }
    terminal.read(true);
    // A panic in the thread that draws drops the screen.
    drop(screen);
    terminal.wait_for(|seen| seen.raw.len() > 4096 && seen.raw.ends_with(b"\x1b[?25h"));
    assert!(!terminal.seen().cursor_is_hidden());
}

#[test]
fn each_frame_is_drawn_over_the_last_without_clearing_it_first() {
    let (terminal, _program, mut screen) = screen(5, 20);
    screen.draw("10%");
    screen.draw("20%");
    terminal.wait_for(|seen| seen.row(0) == "20%");
    let raw = terminal.seen().raw.clone();
    assert_eq!(
        raw.escape_ascii().to_string(),
        r"\x1b[?25l\r10%\x1b[K\r\x1b[?25h\x1b[?25l\r20%\x1b[K\r\x1b[?25h"
    );
}

#[test]
fn a_terminal_that_got_narrower_shows_one_line() {
    let (terminal, _program, mut screen) = screen(5, 40);
    screen.draw("a line that takes up all forty columns..");
    terminal.wait_for(|seen| seen.row(0).ends_with(".."));
    terminal.resize(5, 20);
    screen.measure();
    assert_eq!(screen.size().columns, 20);
    screen.draw("twenty columns, full");
    terminal.wait_for(|seen| seen.rows() == ["twenty columns, full", "", "", "", ""]);
    // Of terminals that break lines, the rest is below.
    let raw = terminal.seen().raw.clone();
    assert!(raw.escape_ascii().to_string().contains(r"\r\x1b[Jtwenty"));
}

#[test]
fn a_wish_for_a_size_outlives_a_resize() {
    let (terminal, program) = Terminal::new(5, 40);
    let setup = Setup {
        columns: Some(30),
        ..Setup::default()
    };
    let mut screen = Screen::on(program.as_fd(), setup, ABLE).unwrap();
    terminal.resize(9, 50);
    screen.measure();
    assert_eq!((screen.size().columns, screen.size().rows), (30, 9));
}

#[test]
fn a_terminal_of_unknown_size_is_taken_for_80_by_25() {
    let (_user, program) = crate::pty::terminal();
    let screen = Screen::on(program.as_fd(), Setup::default(), ABLE).unwrap();
    assert_eq!((screen.size().columns, screen.size().rows), (80, 25));
}

#[test]
fn a_stopped_terminal_holds_nobody_up_and_shows_the_last_line_later() {
    let (terminal, program, mut screen) = screen(5, 20);
    screen.draw("10%");
    terminal.wait_for(|seen| seen.row(0) == "10%");
    terminal.stop(&program);
    for _ in 0..10 {
        screen.draw("50%");
    }
    assert_eq!(terminal.seen().row(0), "10%");
    terminal.press(CONTROL_Q);
    screen.finish();
    terminal.wait_for(|seen| seen.row(0) == "50%" && seen.cursor() == (1, 0));
}

#[test]
fn a_terminal_that_nobody_reads_is_given_up_at_the_end() {
    let (terminal, _program, mut screen) = screen(5, 20);
    terminal.read(false);
    // A pseudo-terminal buffers 8 KiB.
    for n in 0..100 {
        screen.draw(&format!("{n:0200}"));
    }
    screen.finish();
}

#[test]
fn a_frame_that_was_cut_short_is_completed_before_the_next() {
    let (terminal, _program, mut screen) = screen(5, 80);
    terminal.read(false);
    // A pseudo-terminal buffers 8 KiB.
    for n in 0..150 {
        screen.draw(&format!("{n:080}"));
    }
    terminal.read(true);
    screen.finish();
    terminal.wait_for(|seen| seen.cursor() == (1, 0));
    assert_eq!(terminal.seen().row(0), format!("{:080}", 149));
    let raw = String::from_utf8(terminal.seen().raw.clone()).unwrap();
    for frame in raw
        .trim_end()
        .split('\r')
        .filter(|frame| frame.contains('0'))
    {
        let line = frame.trim_start_matches("\x1b[?25l");
        assert_eq!(line.len(), 80, "{line:?}");
    }
}

#[test]
fn a_file_gets_lines_with_carriage_returns_and_no_sequences() {
    let mut file: File = tempfile::tempfile().unwrap();
    let setup = Setup {
        force: true,
        ..Setup::default()
    };
    let mut screen = Screen::on(file.as_fd(), setup, ABLE).unwrap();
    assert!(!screen.capabilities().sequences);
    screen.draw("a long line");
    screen.draw("short");
    screen.finish();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    // As pv 1.12 does.
    assert_eq!(text, "a long line\rshort      \r\n");
}

#[test]
fn a_file_gets_nothing_unless_by_force() {
    let file: File = tempfile::tempfile().unwrap();
    let mut screen = Screen::on(file.as_fd(), Setup::default(), ABLE).unwrap();
    assert!(!screen.is_wanted());
    screen.draw("50%");
    screen.finish();
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn a_dumb_terminal_gets_no_sequences() {
    let (terminal, program) = Terminal::new(5, 20);
    let dumb = Capabilities {
        sequences: false,
        ..ABLE
    };
    let mut screen = Screen::on(program.as_fd(), Setup::default(), dumb).unwrap();
    screen.draw("a long line");
    screen.draw("short");
    screen.finish();
    terminal.wait_for(|seen| seen.row(0) == "short" && seen.cursor() == (1, 0));
    assert!(!terminal.seen().raw.contains(&b'\x1b'));
}

#[test]
fn without_a_frame_the_end_writes_nothing() {
    let (terminal, _program, mut screen) = screen(5, 20);
    screen.finish();
    drop(screen);
    assert!(terminal.seen().raw.is_empty());
}

#[test]
fn a_message_stands_above_the_display() {
    let (terminal, _program, mut screen) = screen(5, 40);
    screen.draw("a display that is long");
    screen.write_message("zc-pv: f: No such file");
    screen.draw("50%");
    terminal.wait_for(|seen| seen.rows()[..2] == ["zc-pv: f: No such file", "50%"]);
}

#[test]
fn the_window_gets_its_title_back_and_its_tab_no_progress() {
    let (terminal, _program, mut screen) = screen(5, 40);
    screen.set_window_title("50%");
    screen.set_window_title("100%");
    screen.draw("\x1b]9;4;1;100\x1b\\100%");
    screen.finish();
    terminal.wait_for(|seen| seen.title_stack() == [22, 23]);
    terminal.wait_for(|seen| seen.progress() == ["1;100", "0;0"]);
    assert_eq!(terminal.seen().titles(), ["50%", "100%"]);
    assert_eq!(terminal.seen().row(0), "100%");
}

#[test]
fn colours_end_with_the_line() {
    let (terminal, _program, mut screen) = screen(5, 20);
    screen.draw("\x1b[41mred");
    screen.finish();
    terminal.wait_for(|seen| seen.cursor() == (1, 0));
    let raw = terminal.seen().raw.clone();
    assert!(raw.escape_ascii().to_string().contains(r"red\x1b[m\x1b[K"));
}

#[test]
fn control_s_does_not_stop_a_terminal_while_the_cursor_is_hidden() {
    // The kernel stops it only at line feeds and tabs, and after 2048 bytes.
    for (shares, n_hidden) in [(false, 4), (true, 3)] {
        let (terminal, program) = Terminal::new(5, 3000);
        let setup = Setup {
            shares,
            ..Setup::default()
        };
        let mut screen = Screen::on(program.as_fd(), setup, ABLE).unwrap();
        for len in [1, 20, 100, 2000, 2999] {
            screen.draw(&"x".repeat(len));
            terminal.wait_for(|seen| {
                let text = String::from_utf8_lossy(&seen.raw);
                text.matches('x').count() >= len && text.trim_end().ends_with(['h', 'K', '\r'])
            });
        }
        let raw = String::from_utf8(terminal.seen().raw.clone()).unwrap();
        crate::screen::hides_the_cursor_only_within_chunks(&raw);
        assert!(!terminal.seen().cursor_is_hidden());
        // A frame that is too long leaves the cursor as it is.
        assert_eq!(raw.matches("\x1b[?25l").count(), n_hidden);
    }
}
