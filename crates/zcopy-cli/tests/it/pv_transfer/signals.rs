//! Signals that end it early: status 32, and a message that quiet does not spare.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::child::{end_of, read_exactly, with_default_signals, zc_pv};
use crate::skip::skip;

/// Runs with these arguments until a line has come through, and then sends the signal: how it ends,
/// and what it has said.
fn ended(arguments: &[&str], signal: Signal) -> (Option<i32>, String) {
    let mut command = with_default_signals(&zc_pv());
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let seen = read_exactly(child.stdout.take().unwrap(), 4);
    assert_eq!(seen, b"one\n");
    killed(child, signal)
}

fn killed(mut child: Child, signal: Signal) -> (Option<i32>, String) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    let stderr = child.stderr.take().unwrap();
    let status = end_of(child).code();
    (status, std::io::read_to_string(stderr).unwrap())
}

/// Waits until this is so, and fails rather than hang.
#[track_caller]
fn comes(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it does not come"
        );
    }
}

const SIGNALS: [(Signal, &str); 3] = [
    (Signal::INT, "Interrupt"),
    (Signal::TERM, "Terminated"),
    (Signal::HUP, "Hangup"),
];

#[test]
fn the_last_object_says_that_it_was_interrupted() {
    for (signal, name) in SIGNALS {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let json = format!("--json={}", log.display());
        let said = format!("zc-pv: interrupted by a signal: {name}\n");
        assert_eq!(ended(&["-q", &json], signal), (Some(32), said.clone()));
        let objects = std::fs::read_to_string(&log).unwrap();
        let last: serde_json::Value =
            serde_json::from_str(objects.lines().last().unwrap()).unwrap();
        assert_eq!(
            (&last["state"], &last["bytes"]),
            (&"interrupted".into(), &4.into())
        );
        assert_eq!(last["over"], true);
        assert_eq!(last.get("error"), None);

        let (status, stderr) = ended(&["--json", "-i600"], signal);
        assert_eq!(status, Some(32));
        let object = stderr.strip_prefix(&said).unwrap();
        let last: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(last["state"], "interrupted");
    }
}

#[test]
fn the_command_hears_of_a_signal_once() {
    for (signal, name) in SIGNALS {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let command = format!("echo $ZC_PV_STATE $ZC_PV_MOVED >> {}", log.display());
        let said = format!("zc-pv: interrupted by a signal: {name}\n");
        let arguments = ["-q", "--on-progress", &command];
        assert_eq!(ended(&arguments, signal), (Some(32), said));
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "interrupted 4\n");
    }
}

#[test]
fn a_signal_is_told_and_is_the_status() {
    for (signal, name) in SIGNALS {
        for arguments in [
            &["-q"][..],
            &["-qC"],
            &["-n", "-i600"],
            &["-fD9"],
            &["-qL1M"],
        ] {
            let said = format!("zc-pv: interrupted by a signal: {name}\n");
            assert_eq!(ended(arguments, signal), (Some(32), said), "{arguments:?}");
        }
    }
}

#[test]
fn the_pidfile_goes_and_what_was_written_stays() {
    for (signal, _) in SIGNALS {
        let dir = tempfile::tempdir().unwrap();
        let [pidfile, spool] = ["p", "s"].map(|name| dir.path().join(name));
        let mut command = with_default_signals(&zc_pv());
        command
            .args(["-q", "-P"])
            .arg(&pidfile)
            .arg("-U")
            .arg(&spool);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        crate::child::comes_to_hold(&spool, b"one\n");
        crate::child::comes_to_hold(&pidfile, format!("{}\n", child.id()).as_bytes());
        assert_eq!(killed(child, signal).0, Some(32));
        assert!(!pidfile.exists());
        assert_eq!(std::fs::read(&spool).unwrap(), b"one\n");
        drop(stdin);
    }
}

#[test]
fn who_asks_for_a_core_finds_no_pidfile_either() {
    let dir = tempfile::tempdir().unwrap();
    let pidfile = dir.path().join("p");
    let mut command = with_default_signals(&zc_pv());
    command.arg("-qP").arg(&pidfile);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.current_dir(dir.path()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    read_exactly(child.stdout.take().unwrap(), 4);
    assert!(pidfile.exists());
    assert_eq!(killed(child, Signal::QUIT), (None, String::new()));
    assert!(!pidfile.exists());
}

#[test]
fn files_of_others_pass_through_the_cache_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(dir.path().join("out")).unwrap();
    let direct = || rustix::fs::fcntl_getfl(&file).unwrap() & OFlags::DIRECT;
    let flags = rustix::fs::fcntl_getfl(&file).unwrap();
    if rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT).is_err() {
        return skip("this file system cannot pass its cache by");
    }
    rustix::fs::fcntl_setfl(&file, flags).unwrap();
    for (signal, _) in SIGNALS {
        let mut command = with_default_signals(&zc_pv());
        command
            .arg("-qK")
            .stdin(Stdio::piped())
            .stdout(file.try_clone().unwrap())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        comes(|| !direct().is_empty());
        assert_eq!(killed(child, signal).0, Some(32));
        assert!(direct().is_empty(), "{signal:?}");
    }
}

#[test]
fn a_command_that_does_not_end_holds_nobody_up() {
    for (signal, name) in SIGNALS {
        let dir = tempfile::tempdir().unwrap();
        let begun = dir.path().join("begun");
        let mut command = with_default_signals(&zc_pv());
        command
            .args(["-qXs4", "--on-progress"])
            .arg("echo $$ > begun; exec sleep 60 >&- 2>&-")
            .arg("/proc/version")
            .current_dir(dir.path())
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        comes(|| std::fs::read_to_string(&begun).is_ok_and(|pid| pid.ends_with('\n')));
        let (status, said) = killed(child, signal);
        let pid = std::fs::read_to_string(&begun).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        let expected = format!("zc-pv: interrupted by a signal: {name}\n");
        assert_eq!((status, said), (Some(32), expected));
    }
}

#[test]
fn messages_that_nobody_takes_hold_no_signal_up() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut command = with_default_signals(&zc_pv());
    command
        .arg("-q")
        .args((0..20_000).map(|n| format!("/missing/{n}")))
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(writer);
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    read_exactly(child.stdout.take().unwrap(), 4);
    let begin = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(end_of(child).code(), Some(32));
    // A moment for each would be more than three minutes.
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn commands_ignore_and_block_no_more_than_the_parent_did() {
    for trap in ["", "trap '' TTOU XFSZ PIPE; "] {
        let ignored = "grep Sig[BI] /proc/self/status";
        let script = format!("{trap}pv -qX --on-progress '{ignored} > ours' f; {ignored} > theirs");
        let outcome = super::run(&script);
        outcome.succeeds_with("");
        let [ours, theirs] = ["ours", "theirs"].map(|name| &outcome.files[name]);
        assert_eq!(ours, theirs, "{trap}");
    }
}

#[test]
fn it_is_interrupted_while_the_output_takes_nothing() {
    for arguments in [&["-q"][..], &["-qC"], &["-fD9"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = with_default_signals(&zc_pv());
        let zeros = std::fs::File::open("/dev/zero").unwrap();
        command
            .args(arguments)
            .stdin(zeros)
            .stdout(writer)
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        read_exactly(reader.try_clone().unwrap(), 1);
        let (status, said) = killed(child, Signal::TERM);
        assert_eq!(
            (status, said.as_str()),
            (Some(32), "zc-pv: interrupted by a signal: Terminated\n")
        );
        drop(reader);
    }
}

/// As nohup does; pv is interrupted all the same.
#[test]
fn a_signal_that_the_parent_ignores_is_ignored() {
    let script = "trap '' INT TERM HUP; mkfifo p; exec 3<> p; pv -q -S -s 8 p > out & \
                  echo one >&3; until test -s out; do :; done; \
                  kill -INT $!; kill -TERM $!; kill -HUP $!; echo two >&3; wait $!";
    let outcome = super::run(script);
    outcome.succeeds_with("");
    assert_eq!(outcome.files["out"], b"one\ntwo\n");
}

/// They ended it, and left a terminal without its cursor.
#[test]
fn signals_that_ask_other_tools_how_far_they_are_do_nothing() {
    for signal in [Signal::ALARM, Signal::USR1, Signal::USR2] {
        let mut command = with_default_signals(&zc_pv());
        command.arg("-q").stdin(Stdio::piped());
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = command.stdout(writer).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for line in [b"one\n", b"two\n"] {
            stdin.write_all(line).unwrap();
            let seen = read_exactly(reader.try_clone().unwrap(), 4);
            assert_eq!(seen, line, "{signal:?}");
            kill_process(Pid::from_child(&child), signal).unwrap();
        }
        drop(stdin);
        assert_eq!(end_of(child).code(), Some(0), "{signal:?}");
    }
}
