//! `-p` ends when the last reader has gone, without waiting for more input.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::child::{end_of, read_exactly, zc_tee};
use crate::script::gnus;

const MODES: [&str; 3] = ["-p", "--output-error", "--output-error=exit-nopipe"];

/// Ours, and GNU's of the newer kind if there is one.
fn tees() -> Vec<Command> {
    let mut tees = vec![zc_tee()];
    let newer = gnus("tee")
        .into_iter()
        .filter(|gnu| gnu.starts_with("/opt"));
    tees.extend(newer.map(Command::new));
    tees
}

/// Starts it on a pipe that stays open and to which nobody writes, and another for what it writes.
fn started(mut tee: Command) -> (Child, OwnedFd, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    tee.stdin(Stdio::piped())
        .stdout(writer)
        .stderr(Stdio::piped());
    let mut child = tee.spawn().unwrap();
    let stdin = child.stdin.take().unwrap().into();
    (child, stdin, OwnedFd::from(reader).into())
}

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn it_ends_with_the_only_reader_though_nothing_was_ever_written() {
    for mode in MODES {
        for mut tee in tees() {
            tee.arg(mode);
            let (child, stdin, reader) = started(tee);
            drop(reader);
            let output = output_of(child);
            assert_eq!(output, (Some(0), String::new()), "{mode}");
            drop(stdin);
        }
    }
}

#[test]
fn it_goes_on_for_the_others_and_ends_with_the_last() {
    for mode in MODES {
        for mut tee in tees() {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("p");
            fifo(&path);
            tee.arg(mode).arg(&path);
            let (child, stdin, reader) = started(tee);
            let other = File::open(&path).unwrap();
            let mut stdin = File::from(stdin);
            stdin.write_all(b"one\n").unwrap();
            assert_eq!(read_exactly(other.try_clone().unwrap(), 4), b"one\n");
            drop(reader);
            stdin.write_all(b"two\n").unwrap();
            assert_eq!(read_exactly(other.try_clone().unwrap(), 4), b"two\n");
            drop(other);
            assert_eq!(output_of(child), (Some(0), String::new()), "{mode}");
            drop(stdin);
        }
    }
}

#[test]
fn a_file_keeps_it_going() {
    for mode in MODES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut tee = zc_tee();
        tee.arg(mode).arg(&path);
        let (child, stdin, reader) = started(tee);
        drop(reader);
        File::from(stdin).write_all(b"hi\n").unwrap();
        assert_eq!(output_of(child), (Some(0), String::new()), "{mode}");
        assert_eq!(std::fs::read(path).unwrap(), b"hi\n");
    }
}

#[test]
fn a_reader_that_leaves_a_full_pipe_ends_it() {
    let zeros = File::open("/dev/zero").unwrap();
    for arguments in [&["-p"][..], &["-p", "/dev/full"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut tee = zc_tee();
        tee.args(arguments)
            .stdin(zeros.try_clone().unwrap())
            .stdout(writer)
            .stderr(Stdio::null());
        let child = tee.spawn().unwrap();
        drop(tee);
        read_exactly(reader, 100);
        let status = i32::from(arguments.len() > 1);
        assert_eq!(end_of(child).code(), Some(status), "{arguments:?}");
    }
}

/// The status, and what was said.
fn output_of(mut child: Child) -> (Option<i32>, String) {
    let stderr = child.stderr.take().unwrap();
    let status = end_of(child).code();
    (status, std::io::read_to_string(stderr).unwrap())
}

/// The nopipe modes keep silent about readers that have closed, and about no other failure.
#[test]
fn a_connection_that_is_reset_is_an_error_in_every_mode() {
    for mode in ["-p", "--output-error=warn", "--output-error=exit-nopipe"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&peer, linger).unwrap();
        drop(peer);
        let mut tee = Command::new(env!("CARGO_BIN_EXE_zc-tee"))
            .args([mode, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(OwnedFd::from(connection))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The run may have ended before.
        let _ = tee.stdin.take().unwrap().write_all(b"line\n");
        let output = tee.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{mode}: {message}");
        let expected = "zc-tee: 'standard output': Connection reset by peer\n";
        assert_eq!(message, expected, "{mode}");
    }
}
