//! A display in the hands of a shell: stopped, continued, in the background, killed.
//!
//! The program is this very test binary, which [`a_display_for_the_other_tests`] turns into a small
//! display.

use std::io::Write as _;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use zcopy_cli::pv::display::screen::{Screen, Setup};
use zcopy_cli::pv::display::signals::{self, Event, Signals};
use zcopy_cli::pv::display::title;

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
    let setup = Setup {
        own_row: role == "rows",
        ..Setup::default()
    };
    let mut screen = Screen::on_stderr(setup).unwrap();
    screen.begin();
    let mut asleep = Duration::ZERO;
    let begin = Instant::now();
    if role == "title" {
        title::set_process_title("50% of it").unwrap();
    }
    for n in 0.. {
        match events.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) | Ok(Event::Requested) => {}
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
    // The binary has a thread more, which would let ^Z stop the process at once.
    let display = format!(
        "env --block-signal=TSTP {} --exact foreground::a_display_for_the_other_tests --nocapture",
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
        terminal.wait_for(|seen| seen.row(0).contains("frame 2") && !seen.cursor_is_hidden());
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
    terminal.wait_for(|seen| seen.row(0).contains("frame 2") && !seen.cursor_is_hidden());
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
    terminal.wait_for(|seen| !seen.cursor_is_hidden());
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

#[test]
fn a_pipeline_of_two_has_two_rows_and_one_end() {
    let mut two = script("trap : INT; $display > /dev/null | $display > /dev/null; echo over");
    two.env(ROLE, "rows");
    let mut terminal = Terminal::spawn(&two, 6, 60);
    terminal.wait_for(|seen| {
        let rows = seen.rows();
        rows[0].starts_with("frame") && rows[1].starts_with("frame") && !seen.cursor_is_hidden()
    });
    terminal.press(b"\x03");
    assert!(terminal.end().success());
    let seen = terminal.seen();
    assert_eq!(seen.rows()[..3], ["ended by 2", "ended by 2", "over"]);
    assert!(!seen.cursor_is_hidden());
    assert_eq!(seen.questions(), 1);
    drop(seen);
    assert!(terminal.echoes());
}

#[test]
fn one_that_was_killed_leaves_no_row_behind() {
    let mut two = script(
        "$display > /dev/null & read line; { kill -9 $!; wait $!; } 2> /dev/null; \
         echo killed; exec $display > /dev/null",
    );
    two.env(ROLE, "rows");
    let mut terminal = Terminal::spawn(&two, 6, 60);
    terminal.wait_for(|seen| seen.row(0).starts_with("frame"));
    terminal.press(b"\n");
    terminal.wait_until(|seen| {
        let rows = seen.rows();
        let killed = rows.iter().position(|row| row.starts_with("killed"))?;
        rows[killed + 1].starts_with("frame").then_some(())
    });
    assert_eq!(terminal.seen().questions(), 2);
    terminal.signal(Signal::INT);
    assert!(terminal.end().success());
}

#[test]
fn ps_shows_the_title_in_place_of_the_arguments() {
    let mut titled = script("exec $display > /dev/null");
    titled.env(ROLE, "title");
    let mut terminal = Terminal::spawn(&titled, 5, 60);
    terminal.wait_for(|seen| seen.row(0).contains("frame"));
    let ps = Command::new("ps")
        .args(["-A", "-o", "args"])
        .output()
        .unwrap();
    let shown = String::from_utf8(ps.stdout).unwrap();
    assert!(
        shown.lines().any(|line| line.ends_with(" -- 50% of it")),
        "{shown}"
    );
    terminal.press(b"\x03");
    let _ = terminal.end();
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
