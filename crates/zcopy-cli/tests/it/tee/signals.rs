//! Interrupts, and pipes whose reader goes away.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{end_of, read_exactly, with_default_signals, zc_tee};
use crate::script::TEE;

/// Runs with these arguments until a first line has come out, and then interrupts it.
fn interrupted(arguments: &[&str]) -> Child {
    let mut command = with_default_signals(zc_tee().args(arguments));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"one\n").unwrap();
    let stdout: std::os::fd::OwnedFd = child.stdout.take().unwrap().into();
    let seen = read_exactly(std::fs::File::from(stdout.try_clone().unwrap()), 4);
    assert_eq!(seen, b"one\n");
    child.stdout = Some(stdout.into());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child
}

#[test]
fn an_interrupt_kills_it() {
    for arguments in [&[][..], &["/dev/null"], &["-p", "/dev/null"]] {
        let child = interrupted(arguments);
        // `end_of` would close it, which is an end of its own.
        let mut child = child;
        let stdin = child.stdin.take();
        assert_eq!(
            end_of(child).signal(),
            Some(Signal::INT.as_raw()),
            "{arguments:?}"
        );
        drop(stdin);
    }
}

#[test]
fn an_interrupt_can_be_ignored() {
    for arguments in [&["-i"][..], &["--ignore-interrupts", "/dev/null"], &["-ip"]] {
        let mut child = interrupted(arguments);
        let mut stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        stdin.write_all(b"two\n").unwrap();
        assert_eq!(read_exactly(stdout, 4), b"two\n", "{arguments:?}");
        drop(stdin);
        assert!(end_of(child).success(), "{arguments:?}");
    }
}

#[test]
fn an_interrupt_that_the_parent_ignores_is_ignored() {
    let outcome = TEE.as_peers("trap '' INT; { cat f; kill -INT $$; cat g; } | tee a");
    outcome.succeeds_with("hi\nthere\n");
}

#[test]
fn a_reader_that_has_enough_ends_it_by_sigpipe() {
    for arguments in [&[][..], &["/dev/null"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = zc_tee();
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        child
            .args(arguments)
            .stdin(zeros)
            .stdout(writer)
            .stderr(Stdio::piped());
        let running = child.spawn().unwrap();
        drop(child);
        let start = read_exactly(reader, 3 << 20);
        assert!(start.iter().all(|byte| *byte == 0));
        assert_eq!(end_of(running).signal(), Some(Signal::PIPE.as_raw()));
    }
}
