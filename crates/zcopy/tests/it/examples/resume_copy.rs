//! `resume_copy`, interrupted, killed and started again.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{LEN, TIME_LIMIT, example, scratch, successful};
use crate::endpoints::terminal;
use crate::files::{assert_same, pattern, read_to_end};

/// Waits until `copy` has this many bytes.
fn wait_for(copy: &Path, len: usize) {
    let start = Instant::now();
    while !fs::metadata(copy).is_ok_and(|copy| copy.len() >= len as u64) {
        assert!(start.elapsed() < TIME_LIMIT, "the copy does not grow");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A process that `timeout` runs is killed with its group: `timeout` cannot pass on `SIGKILL`.
fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    if signal == Signal::KILL {
        rustix::process::kill_process_group(pid, signal).unwrap();
    } else {
        kill_process(pid, signal).unwrap();
    }
}

#[test]
fn resume_copy_goes_on_where_it_was_interrupted_or_killed() {
    let (dir, bytes) = scratch();
    let copy = dir.path().join("copy");
    let mut before = 0;
    for (at, end) in [
        (1, Signal::INT),
        (200_000, Signal::KILL),
        (500_001, Signal::TERM),
        (600_000, Signal::KILL),
        (900_000, Signal::INT),
    ] {
        let Some(mut resume) = example("resume_copy") else {
            return;
        };
        // Slow enough that the signal comes long before the end.
        resume.current_dir(&dir).args(["--rate", "500000"]);
        let mut child = resume.args(["source", "copy"]).spawn().unwrap();
        wait_for(&copy, at);
        signal(&child, end);
        let status = child.wait().unwrap();
        if end != Signal::KILL {
            assert_eq!(status.code(), Some(130));
        }
        let now = fs::read(&copy).unwrap();
        assert!(now.len() >= before.max(at) && now.len() < LEN);
        assert_same(&now, &bytes[..now.len()], "so far");
        before = now.len();
    }
    let mut resume = example("resume_copy").unwrap();
    let output = resume.current_dir(&dir).args(["source", "copy"]).output();
    let output = output.unwrap();
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    successful(output);
    let last = format!("{LEN} bytes, {before} of them by an earlier run\n");
    assert_eq!(stderr, last);
    assert_same(&fs::read(&copy).unwrap(), &bytes, "the copy");
}

#[test]
fn resume_copy_refuses_what_is_not_the_beginning_of_its_source() {
    let (dir, mut bytes) = scratch();
    let mut altered = bytes[..2 << 20].to_vec();
    altered[(2 << 20) - 1] ^= 1;
    bytes.push(0);
    for other in [altered, bytes, pattern(2 * LEN)] {
        let Some(mut resume) = example("resume_copy") else {
            return;
        };
        fs::write(dir.path().join("copy"), &other).unwrap();
        resume.current_dir(&dir).args(["source", "copy"]);
        let output = resume.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "resume_copy: copy is not the beginning of source\n"
        );
        assert_same(&fs::read(dir.path().join("copy")).unwrap(), &other, "copy");
    }
}

#[test]
fn resume_copy_draws_a_bar() {
    let Some(mut resume) = example("resume_copy") else {
        return;
    };
    let (dir, bytes) = scratch();
    fs::write(dir.path().join("copy"), &bytes[..1 << 20]).unwrap();
    let (user, screen) = terminal();
    rustix::termios::tcsetwinsize(
        &screen,
        rustix::termios::Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
    .unwrap();
    resume.current_dir(&dir).args(["source", "copy"]);
    let output = resume.env("TERM", "xterm").stderr(screen).output();
    drop(resume);
    successful(output.unwrap());
    let drawn = String::from_utf8(read_to_end(&user)).unwrap();
    assert!(drawn.contains("3.00 MiB of 3.00 MiB ███"), "{drawn:?}");
}
