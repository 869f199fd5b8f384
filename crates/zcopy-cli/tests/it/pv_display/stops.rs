//! ^Z and `fg`, however soon one follows the other.

use std::io::{PipeWriter, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Desk, PATIENCE, has_row};
use crate::child::{with_default_signals, zc_pv};
use crate::screen::{CONTROL_Z, Terminal};

/// In this time a process has received a signal, unless the machine is busy.
const RECEIPT: Duration = Duration::from_millis(20);

/// A display that shows how many bytes have come. It is alone in its process group, and the tests
/// can continue it, so that the kernel stops it.
struct Job {
    terminal: Terminal,
    child: Child,
    source: PipeWriter,
    n_bytes: usize,
    _directory: TempDir,
}

impl Job {
    fn with(option: &str, answers: bool) -> Self {
        let (terminal, program) = Terminal::new(8, 72);
        terminal.answer(answers);
        let directory = TempDir::new().unwrap();
        let (reader, source) = std::io::pipe().unwrap();
        let mut pv = zc_pv();
        pv.args([option, "-bi", "0.1"])
            .env("TMPDIR", directory.path())
            .env("TERM", "xterm-256color");
        let child = with_default_signals(&pv)
            .process_group(0)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(program)
            .spawn()
            .unwrap();
        Self {
            terminal,
            child,
            source,
            n_bytes: 0,
            _directory: directory,
        }
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it shows a byte that comes now.
    #[track_caller]
    fn shows_another_byte(&mut self) {
        self.source.write_all(b"x").unwrap();
        self.n_bytes += 1;
        let line = format!("{}.00  B", self.n_bytes);
        self.terminal
            .wait_for(|seen| seen.rows().iter().any(|row| row.starts_with(&line)));
    }

    #[track_caller]
    fn wait_until_stopped(&self) {
        let begin = Instant::now();
        let stat = format!("/proc/{}/stat", self.child.id());
        let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
        while !is_stopped() {
            assert!(begin.elapsed() < PATIENCE, "it does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CONT came first, the display thread stopped the process then, and no second CONT followed.
#[test]
fn a_process_that_is_continued_at_once_does_not_stop() {
    for option in ["-f", "-c"] {
        let mut job = Job::with(option, true);
        job.shows_another_byte();
        for n in 0..8 {
            job.send(Signal::TSTP);
            // The signal is received within this time. A sleep would be too long.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(n * 8) {}
            job.send(Signal::CONT);
            job.shows_another_byte();
        }
    }
}

#[test]
fn a_process_that_is_continued_while_it_waits_for_the_terminal_does_not_stop() {
    let mut job = Job::with("-c", false);
    job.terminal.wait_for(|seen| seen.questions() > 0);
    job.send(Signal::TSTP);
    thread::sleep(RECEIPT);
    job.send(Signal::CONT);
    for _ in 0..3 {
        job.shows_another_byte();
    }
}

#[test]
fn a_process_that_is_to_stop_twice_is_continued_once() {
    let mut job = Job::with("-c", false);
    job.terminal.wait_for(|seen| seen.questions() > 0);
    job.send(Signal::TSTP);
    thread::sleep(RECEIPT);
    job.send(Signal::TSTP);
    job.wait_until_stopped();
    job.send(Signal::CONT);
    for _ in 0..3 {
        job.shows_another_byte();
    }
}

/// The leader of the job stops first, and the shell takes the terminal. The display waited for the
/// terminal's answer for a second more, restored the modes before that, and drew a frame.
#[test]
fn a_shell_that_has_taken_the_terminal_keeps_its_modes_and_its_screen() {
    let mut desk = Desk::with(
        "set -m; read -r line; sh -c 'pv -P pid -cbi 0.1 < in > /dev/null; :'
         stty -echo -icrnl; echo stopped
         until grep -q '^State:.T' /proc/$(cat pid)/status; do sleep 0.02; done
         echo both; read -r line; stty sane; fg > /dev/null; echo over",
    );
    desk.answer(false);
    desk.press(b"\n");
    let source = desk.source();
    desk.wait_for(|seen| seen.questions() > 0);
    desk.press(CONTROL_Z);
    desk.wait_for_row("both");
    assert!(!desk.echoes());
    assert!(
        !has_row(&desk.seen(), "0.00  B"),
        "{:?}",
        desk.seen().rows()
    );
    desk.press(b"\n");
    desk.wait_for_row("0.00  B");
    drop(source);
    assert!(has_row(&desk.seen(), "stopped"));
    assert_eq!(desk.left().last().map(String::as_str), Some("over"));
}
