//! At a terminal.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags};

use crate::child::{end_of, read_exactly, zc_tee};
use crate::pty::terminal;

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

#[test]
fn a_terminal_that_hangs_up_is_an_error_in_every_mode() {
    let modes = ["warn", "warn-nopipe", "exit", "exit-nopipe"];
    let modes = modes.map(|mode| format!("--output-error={mode}"));
    for option in ["-a", "-p"]
        .into_iter()
        .chain(modes.iter().map(String::as_str))
    {
        let (user, tty) = terminal();
        let mut child = zc_tee();
        child.arg(option).stderr(Stdio::piped());
        child.stdin(Stdio::piped()).stdout(tty.try_clone().unwrap());
        let mut child = child.spawn().unwrap();
        let (mut stdin, mut stderr) = (child.stdin.take().unwrap(), child.stderr.take().unwrap());
        stdin.write_all(b"one\n").unwrap();
        // Without a duplicate of `user`, which could hold the terminal open for longer.
        let mut shown = [0; 5];
        (&user).read_exact(&mut shown).unwrap();
        assert_eq!(shown, *b"one\r\n");
        drop(user);
        // A process that another test is about to start may hold it open for a moment.
        rustix::event::poll(&mut [PollFd::new(&tty, PollFlags::empty())], None).unwrap();
        stdin.write_all(b"two\n").unwrap();
        drop(stdin);
        let mut message = String::new();
        stderr.read_to_string(&mut message).unwrap();
        assert_eq!(
            message, "zc-tee: 'standard output': Input/output error\n",
            "{option}"
        );
        assert_eq!(end_of(child).code(), Some(1), "{option}");
    }
}
