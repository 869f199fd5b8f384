//! At a terminal.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::child::{end_of, read_exactly, zc_cat};
use crate::pty::{CONTROL_D, terminal};

#[test]
fn each_dash_takes_one_control_d() {
    let (mut user, tty) = terminal();
    let mut child = zc_cat()
        .args(["-", "-"])
        .stdin(tty)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout: OwnedFd = child.stdout.take().unwrap().into();
    user.write_all(b"one\n\x04two\n\x04").unwrap();
    assert_eq!(read_exactly(File::from(stdout), 8), b"one\ntwo\n");
    assert!(end_of(child).success());
}

#[test]
fn each_numbered_line_appears_when_it_is_typed_and_one_control_d_ends_it() {
    for option in ["-n", "--timestamp=%%", "--highlight=one=red"] {
        let (mut user, tty) = terminal();
        let mut child = zc_cat()
            .args([option, "-"])
            .stdin(tty)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout: OwnedFd = child.stdout.take().unwrap().into();
        let prefix = match option {
            "-n" => [&b"     1\t"[..], b"     2\t"],
            "--timestamp=%%" => [&b"% "[..], b"% "],
            _ => [&b""[..], b""],
        };
        for (line, prefix) in [&b"one\n"[..], b"two\n"].iter().zip(prefix) {
            user.write_all(line).unwrap();
            let expected = [prefix, line].concat();
            let appeared = read_exactly(File::from(stdout.try_clone().unwrap()), expected.len());
            assert_eq!(appeared, expected);
        }
        user.write_all(CONTROL_D).unwrap();
        assert!(end_of(child).success());
    }
}

#[test]
fn a_part_of_a_line_is_numbered_when_control_d_sends_it() {
    let (mut user, tty) = terminal();
    let mut child = zc_cat()
        .args(["-n"])
        .stdin(tty)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout: OwnedFd = child.stdout.take().unwrap().into();
    user.write_all(b"on\x04").unwrap();
    assert_eq!(
        read_exactly(File::from(stdout.try_clone().unwrap()), 9),
        b"     1\ton"
    );
    user.write_all(b"e\n\x04").unwrap();
    assert_eq!(read_exactly(File::from(stdout), 2), b"e\n");
    assert!(end_of(child).success());
}
