//! At a terminal.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::child::{end_of, read_exactly, zc_tee};
use crate::pty::{CONTROL_D, terminal};

#[test]
fn each_line_appears_when_it_is_typed_and_one_control_d_ends_it() {
    for options in [&[][..], &["-p"]] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let (mut user, tty) = terminal();
        let mut child = zc_tee();
        child
            .args(options)
            .arg(&path)
            .stdin(tty)
            .stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let stdout: OwnedFd = child.stdout.take().unwrap().into();
        for line in [&b"one\n"[..], b"two\n"] {
            user.write_all(line).unwrap();
            let appeared = read_exactly(File::from(stdout.try_clone().unwrap()), line.len());
            assert_eq!(appeared, line);
        }
        user.write_all(CONTROL_D).unwrap();
        assert!(end_of(child).success(), "{options:?}");
        assert_eq!(std::fs::read(path).unwrap(), b"one\ntwo\n");
    }
}

#[test]
fn a_terminal_shows_what_comes_while_the_writer_pauses() {
    for options in [&[][..], &["-a"], &["-p"]] {
        let (user, tty) = terminal();
        let name = rustix::termios::ttyname(&tty, Vec::new()).unwrap();
        let mut child = zc_tee();
        child.args(options).arg(name.to_str().unwrap());
        child.stdin(Stdio::piped()).stdout(tty.try_clone().unwrap());
        let mut child = child.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for line in ["one", "two"] {
            stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
            // As standard output, and by its name.
            let shown = format!("{line}\r\n{line}\r\n");
            let appeared = read_exactly(user.try_clone().unwrap(), shown.len());
            assert_eq!(appeared, shown.as_bytes(), "{options:?}");
        }
        drop(stdin);
        assert!(end_of(child).success());
    }
}
