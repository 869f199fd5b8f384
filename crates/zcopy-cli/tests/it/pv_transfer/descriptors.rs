//! Standard descriptors that are closed, open the wrong way, in non-blocking mode, sockets or
//! terminals.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

use rustix::pipe::{PipeFlags, pipe_with};

use super::{as_pv, ends, run};
use crate::child::{end_of, read_exactly, zc_pv};
use crate::pty::{CONTROL_D, terminal};
use crate::script::big;

/// pv takes its first input for the output.
#[test]
fn closed_output_is_told_before_any_input() {
    let error = "pv: (stdout): Bad file descriptor\n";
    ends(&run("pv -q f >&-"), 2, error, "");
    ends(&run("pv -q missing f <&- >&-"), 2, error, "");
    ends(&run("pv -q -P p -U s f >&-"), 2, error, "");
}

/// Whatever is opened meanwhile would come to stand there.
#[test]
fn closed_input_is_told_where_it_is_read() {
    let error = "pv: -: Bad file descriptor\n";
    for display in ["-q", "", "-f -D 9"] {
        let outcome = as_pv(&format!("timeout 60 pv {display} <&-"));
        assert!(outcome.stderr.starts_with(error), "{}", outcome.stderr);
        assert_eq!(outcome.status, 2);
    }
    ends(&as_pv("pv -q f - g <&-"), 2, error, "hi\nthere\n");
    for options in ["-o new", "-P p", "-U s", "-U -", "-s @f"] {
        let outcome = run(&format!("timeout 60 pv -q {options} - <&-"));
        ends(&outcome, 2, error, "");
    }
}

#[test]
fn input_that_is_open_for_writing_is_a_read_error() {
    let error = "pv: (stdin): Bad file descriptor\n";
    ends(&as_pv("pv -q - f 0>> g"), 16, error, "hi\n");
}

/// Both ends in non-blocking mode, with and without a display, which polls them anyway.
#[test]
fn ends_that_do_not_block_are_waited_for_and_left_as_they_are() {
    for arguments in [
        &["-q"][..],
        &["-f", "-D9"],
        &["-qC"],
        &["-qL1G"],
        &["-qU-"],
        &["-qE"],
    ] {
        let (reader, output) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
        let (input, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
        let kept = (input.try_clone().unwrap(), output.try_clone().unwrap());
        let mut command = zc_pv();
        command.args(arguments).stdin(input).stdout(output);
        let child = command.spawn().unwrap();
        drop(command);
        let feeder = thread::spawn(move || {
            let mut writer = std::fs::File::from(writer);
            for piece in big().chunks(70_000) {
                writer.write_all(piece).unwrap();
            }
        });
        let bytes = read_exactly(std::fs::File::from(reader), big().len());
        feeder.join().unwrap();
        assert!(bytes == big(), "{arguments:?}");
        assert!(end_of(child).success(), "{arguments:?}");
        for end in [&kept.0, &kept.1] {
            let flags = rustix::fs::fcntl_getfl(end).unwrap();
            assert!(
                flags.contains(rustix::fs::OFlags::NONBLOCK),
                "{arguments:?}"
            );
        }
    }
}

#[test]
fn sockets_are_inputs_and_outputs() {
    for arguments in [
        &["-q"][..],
        &["-q", "-C"],
        &["-q", "-L", "1G"],
        &["-q", "-U", "-"],
    ] {
        let (mut writer, input) = UnixStream::pair().unwrap();
        let (mut reader, output) = UnixStream::pair().unwrap();
        let mut command = zc_pv();
        command
            .args(arguments)
            .stdin(OwnedFd::from(input))
            .stdout(OwnedFd::from(output));
        let child = command.spawn().unwrap();
        drop(command);
        let feeder = thread::spawn(move || {
            writer.write_all(&big()).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        feeder.join().unwrap();
        assert!(bytes == big(), "{arguments:?}");
        assert!(end_of(child).success());
    }
}

#[test]
fn a_terminal_is_an_input_and_an_output() {
    for arguments in [&["-q"][..], &["-n", "-i", "600"], &["-q", "-C"]] {
        let (mut user, tty) = terminal();
        let mut command = zc_pv();
        command
            .args(arguments)
            .stdin(tty.try_clone().unwrap())
            .stdout(tty)
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        drop(command);
        for line in [&b"one\n"[..], b"two\n"] {
            user.write_all(line).unwrap();
            // What is typed is echoed, and then it is moved.
            let [line, end] = [&line[..3], b"\r\n"];
            let shown = read_exactly(user.try_clone().unwrap(), 10);
            assert_eq!(shown, [line, end, line, end].concat(), "{arguments:?}");
        }
        user.write_all(CONTROL_D).unwrap();
        assert!(end_of(child).success(), "{arguments:?}");
    }
}
