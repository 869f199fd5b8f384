//! Objects of `--json` and standard error: the same file, the same terminal, and a terminal that has
//! gone.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use super::leaves;
use crate::child::{end_of, under, zc_pv};

/// Objects and messages were written over each other.
#[test]
fn a_file_that_standard_error_leads_to_is_refused() {
    for (command, name) in [
        ("pv --json=log f -o new 2> log", "log"),
        ("pv --json=./log f -o new 2>> log", "./log"),
        ("pv --json=log -M both -o new -- cat < f 2> log", "log"),
        ("pv --json=log -s 2K -d ./f 2> log", "log"),
    ] {
        let script = format!("{command}; echo $?; cat log; test -e new || echo nothing");
        let message = format!("pv: {name}: file of --json is also standard error");
        leaves(&script, &["4", &message, "nothing"]);
    }
}

/// Before, it was a second output for objects: a file was truncated, and numbers came between
/// objects in a pipe.
#[test]
fn standard_error_by_another_name_has_objects_in_place_of_the_display() {
    for name in ["/dev/stderr", "/dev/fd/2", "/proc/self/fd/2", "2"] {
        leaves(
            &format!(
                "echo kept > log; pv -n --json={name} f 2>> log > /dev/null; echo $?; \
                 wc -l < log; grep -c state log"
            ),
            &["0", "2", "1"],
        );
    }
    for name in ["/dev/stderr", "3"] {
        leaves(
            &format!(
                "pv -n -i 600 --json={name} f 2>&1 3>&1 > /dev/null | tee log | grep -c state; wc -l < log"
            ),
            &["1", "1"],
        );
    }
    for redirections in ["3> log 2>&3", "3>> log 2>> log"] {
        let script = format!(
            "rm -f log; pv -n -i 600 --json=3 f {redirections} > /dev/null; grep -c state log; \
             wc -l < log"
        );
        leaves(&script, &["1", "1"]);
    }
}

/// Runs a program with a new terminal as standard error, and returns what comes to its other side.
fn shown_on_terminal(mut command: Command) -> String {
    let (mut user, terminal) = crate::pty::terminal();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = command.env("TERM", "xterm").stderr(terminal).spawn();
    drop(command);
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    // The error at the end tells that the program has closed the terminal.
    while let Ok(n @ 1..) = user.read(&mut part) {
        bytes.extend_from_slice(&part[..n]);
    }
    assert_eq!(end_of(child.unwrap()).code(), Some(0));
    String::from_utf8(bytes).unwrap()
}

#[test]
fn objects_on_a_terminal_have_no_escapes() {
    for arguments in [
        &["--json", "-M", "both", "--", "cat"][..],
        &["-c", "--json"],
        &["-x", "window", "--json"],
    ] {
        let mut pv = zc_pv();
        pv.args(arguments);
        let shown = shown_on_terminal(pv);
        assert!(shown.contains(r#""state":"done""#), "{shown}");
        for line in shown.lines() {
            let object: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(object.is_ok(), "{line:?}");
        }
    }
}

/// Ends the other side of a terminal.
fn closed_terminal() -> OwnedFd {
    let (user, terminal) = crate::pty::terminal();
    drop(user);
    terminal
}

/// Writes fail with `EIO` then. pv, which takes no notice of its display, ends with 0.
#[test]
fn a_terminal_that_was_closed_is_a_reader_that_has_gone() {
    let mut peers = vec![(zc_pv(), "-n")];
    peers.extend(crate::peer::pv().map(|pv| (Command::new(pv), "-n")));
    let ours = ["--json", "-n", "--hash=sha256"];
    peers.extend(ours.map(|option| (zc_pv(), option)));
    for (mut pv, option) in peers {
        pv.args([option, "/dev/null"]).stdout(Stdio::null());
        let status = pv.stderr(closed_terminal()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{pv:?}");
    }
    // The same with a terminal for objects alone, which is closed while they come.
    let (user, terminal) = crate::pty::terminal();
    let mut pv = zc_pv();
    pv.args(["--json=3", "-i", "0.1"]);
    let mut pv = under(&["sh", "-c", "exec \"$0\" \"$@\" 3>&2 2> /dev/null"], &pv);
    let pv = pv.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = pv.stderr(terminal.try_clone().unwrap()).spawn().unwrap();
    drop(terminal);
    let mut first = [0];
    File::from(OwnedFd::from(user))
        .read_exact(&mut first)
        .unwrap();
    drop(child.stdin.take());
    assert_eq!(end_of(child).code(), Some(0));
}

/// Nothing was shown, and only `--json` told of it.
#[test]
fn a_watched_file_that_is_complete_at_the_start_is_shown() {
    for (options, shown) in [("-n", "f: 100"), ("-nb", "f: 2048"), ("-bF %b%n", "f")] {
        let script = format!("pv {options} -s 2K -d ./f | cat; echo over");
        let rows = super::left_by(&script);
        assert!(rows[0].contains(shown), "{script}: {rows:?}");
        assert_eq!(rows.len(), 2, "{script}: {rows:?}");
    }
}
