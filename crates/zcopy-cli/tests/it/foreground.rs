//! A display in the hands of a shell: stopped, continued, in the background, killed.
//!
//! The program is this very test binary, which [`a_display_for_the_other_tests`] turns into a small display.

use std::io::Write as _;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zcopy_cli::pv::screen::{Screen, Setup};
use zcopy_cli::pv::signals::{self, Event, Signals};

use crate::screen::{CONTROL_Z, Terminal};

/// What tells the binary that it is to draw.
const ROLE: &str = "ZCOPY_TEST_DISPLAY";

/// Draws how many times it has drawn, ten times a second, until a signal ends it.
#[test]
fn a_display_for_the_other_tests() {
    let Some(role) = std::env::var_os(ROLE) else {
        return;
    };
    let (send, events) = mpsc::channel::<Event>();
    let _signals = Signals::sent_to(send).unwrap();
    let mut screen = Screen::on_stderr(Setup::default()).unwrap();
    let mut asleep = Duration::ZERO;
    let begin = Instant::now();
    for n in 0.. {
        match events.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
            Ok(Event::Resized | Event::Continued) => screen.measure(),
            Ok(Event::Pause) => {
                screen.pause();
                asleep += signals::stop();
            }
            Ok(Event::Interrupted(signal)) => {
                screen.draw(&format!("ended by {signal}"));
                break;
            }
        }
        let seconds = (begin.elapsed().saturating_sub(asleep)).as_secs();
        let width = screen.size().columns;
        screen.draw(&format!("frame {n}, width {width}, awake {seconds} s"));
        writeln!(std::io::stdout(), "frame").unwrap();
        assert!(role != "panic" || n < 3, "as wished");
    }
    screen.finish();
}

/// A shell script in which `$display` draws.
fn script(script: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let display = format!(
        "{} --exact foreground::a_display_for_the_other_tests --nocapture",
        this.display()
    );
    let mut shell = Command::new("bash");
    shell
        .args(["--norc", "--noprofile", "-c", script])
        .env("display", display)
        .env("PS1", "$ ")
        .env(ROLE, "draw");
    shell
}

#[test]
fn a_signal_ends_the_line_and_shows_the_cursor() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::spawn(&script("exec $display > /dev/null"), 5, 60);
        terminal.wait_for(|seen| seen.row(0).contains("frame 2") && seen.cursor_is_hidden());
        terminal.signal(signal);
        assert!(terminal.end().success());
        let seen = terminal.seen();
        assert_eq!(seen.row(0), format!("ended by {}", signal.as_raw()));
        assert_eq!((seen.cursor(), seen.cursor_is_hidden()), ((1, 0), false));
    }
}

#[test]
fn what_nohup_ignores_does_not_end_the_display() {
    let mut terminal = Terminal::spawn(&script("trap '' HUP; exec $display > /dev/null"), 5, 60);
    terminal.wait_for(|seen| seen.row(0).contains("frame 2"));
    terminal.signal(Signal::HUP);
    terminal.wait_for(|seen| seen.row(0).contains("frame 5"));
    terminal.signal(Signal::INT);
    assert!(terminal.end().success());
}

#[test]
fn a_resize_is_followed() {
    let mut terminal = Terminal::spawn(&script("exec $display > /dev/null"), 5, 60);
    terminal.wait_for(|seen| seen.row(0).contains("width 60"));
    terminal.resize(5, 50);
    terminal.wait_for(|seen| seen.row(0).contains("width 50"));
    terminal.signal(Signal::INT);
    assert!(terminal.end().success());
}

#[test]
fn a_panic_of_the_program_shows_the_cursor_and_the_message() {
    let mut panics = script("$display > /dev/null");
    panics.env(ROLE, "panic");
    let mut terminal = Terminal::spawn(&panics, 9, 60);
    assert!(!terminal.end().success());
    let seen = terminal.seen();
    assert!(!seen.cursor_is_hidden());
    assert!(String::from_utf8_lossy(&seen.raw).contains("as wished"));
}

#[test]
fn control_z_stops_it_with_the_cursor_shown_and_the_sleep_does_not_count() {
    let mut terminal = Terminal::spawn(
        &script("set -m; $display > /dev/null; echo stopped; sleep 3; fg > /dev/null; echo over"),
        9,
        60,
    );
    terminal.wait_for(|seen| seen.row(0).contains("frame 2") && seen.cursor_is_hidden());
    terminal.press(CONTROL_Z);
    terminal.wait_for(|seen| {
        seen.rows().iter().any(|row| row == "stopped") && !seen.cursor_is_hidden()
    });
    let before = terminal.wait_until(|seen| awake(&seen.rows()));
    let after = terminal.wait_until(|seen| {
        let rows = seen.rows();
        let stopped = rows.iter().position(|row| row == "stopped")?;
        awake(&rows[stopped..])
    });
    assert!(after - before < 3, "from {before} to {after}");
    assert!(terminal.seen().cursor_is_hidden());
    terminal.press(b"\x03");
    let _ = terminal.end();
    assert!(
        terminal
            .seen()
            .rows()
            .iter()
            .any(|row| row.contains("ended by 2"))
    );
}

/// For how many seconds the first display of these rows has been awake.
fn awake(rows: &[String]) -> Option<u64> {
    let row = rows.iter().find(|row| row.contains("awake"))?;
    let (_, awake) = row.split_once("awake ")?;
    awake.strip_suffix(" s")?.parse().ok()
}

#[test]
fn in_the_background_it_neither_draws_nor_stops_and_draws_again_in_the_foreground() {
    let out = tempfile::NamedTempFile::new().unwrap();
    // `tostop` has the terminal stop whoever writes to it from the background.
    let mut terminal = Terminal::spawn(
        script(
            "set -m; stty tostop; $display > $out & \
             until [ $(grep -c frame $out) -ge 5 ]; do sleep 0.05; done; \
             jobs -r | grep -c Running; echo looked; read line; fg > /dev/null",
        )
        .env("out", out.path()),
        9,
        60,
    );
    terminal.wait_for(|seen| seen.rows().iter().any(|row| row == "looked"));
    let rows = terminal.seen().rows();
    assert!(rows.contains(&"1".into()), "{rows:?}");
    assert!(!rows.join("").contains("frame"), "{rows:?}");
    terminal.press(b"\n");
    terminal.wait_for(|seen| seen.rows().join("").contains("frame"));
    terminal.press(b"\x03");
    let _ = terminal.end();
    assert!(!terminal.seen().cursor_is_hidden());
}
