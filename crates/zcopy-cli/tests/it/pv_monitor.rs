//! `zc-pv -M`: a command between what is shown.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::child::zc_pv;
use crate::peer;
use crate::screen::Terminal;

const N_BYTES: usize = 300_000;

/// A file of zeros.
fn zeros(directory: &tempfile::TempDir) -> File {
    let path = directory.path().join("zeros");
    fs::write(&path, vec![0; N_BYTES]).unwrap();
    File::open(path).unwrap()
}

/// Runs a command line with zeros as standard input.
fn run(program: Command, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let mut program = program;
    program.args(arguments).stdin(zeros(&directory));
    program.output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_side_shows_what_pv_shows_of_it() {
    for (arguments, shown) in [
        (&["-bf", "-M", "in", "--", "cat"][..], " 292KiB\r\n"),
        (&["-bf", "-M", "0", "--", "cat"], " 292KiB\r\n"),
        (&["-bf", "-M", "out", "--", "tr", "-d", "x"], " 292KiB\r\n"),
        (&["-n", "-M", "in", "--", "cat"], "100\n"),
        (&["-q", "-M", "both", "--", "cat"], ""),
        (
            &[
                "-bf",
                "-s",
                "600000",
                "-F",
                "%{progress-amount-only}",
                "-M",
                "1",
                "cat",
            ],
            " 50%\r\n",
        ),
        (
            &["-Fa %b", "-F", "b %b", "-f", "-M", "out", "cat"],
            "b  292KiB\r\n",
        ),
    ] {
        let ours = run(zc_pv(), arguments);
        assert_eq!(ours.status.code(), Some(0), "{arguments:?}");
        assert_eq!(ours.stdout, vec![0; N_BYTES], "{arguments:?}");
        let last = |output: &Output| {
            let text = stderr(output).replace("\r\r\n", "\r\n");
            let end = text
                .trim_end_matches("\r\n")
                .rfind('\r')
                .map_or(0, |at| at + 1);
            text[end..].to_owned()
        };
        assert_eq!(
            last(&ours).trim_start(),
            shown.trim_start(),
            "{arguments:?}"
        );
        if let Some(pv) = peer::pv() {
            let theirs = run(Command::new(pv), arguments);
            assert_eq!(last(&ours).trim(), last(&theirs).trim(), "{arguments:?}");
        }
    }
}

#[test]
fn both_sides_have_a_row_each_with_a_name_and_a_ratio() {
    let mut command = Command::new("sh");
    let program = zc_pv().get_program().to_owned();
    command
        .args(["-c", "head -c 2000 /dev/zero | \"$0\" \"$@\" > /dev/null"])
        .arg(program)
        .args(["-N", "first", "-N", "second", "-b", "-M", "both", "--"])
        .args(["head", "-c", "1000"])
        .env("TERM", "xterm");
    let mut terminal = Terminal::spawn(&command, 8, 80);
    assert_eq!(terminal.end().code(), Some(0));
    let rows = terminal.seen().rows();
    assert!(rows[0].contains("first: 1.95KiB"), "{rows:?}");
    assert!(rows[1].contains("second: 1000  B 2:1"), "{rows:?}");
    assert!(!terminal.seen().cursor_is_hidden());
}

#[test]
fn options_that_do_not_go_with_it_are_refused_as_by_pv() {
    for (arguments, refusal) in [
        (&["-M", "in"][..], "-M: a command to run must be specified"),
        (
            &["-U", "-", "-M", "in", "cat"],
            "monitor mode cannot be used with store-and-forward",
        ),
        (
            &["-R", "1", "-M", "in", "cat"],
            "-R: monitor mode cannot be specified with this option",
        ),
        (
            &["-Q", "1", "-M", "in", "cat"],
            "-Q: monitor mode cannot be specified with this option",
        ),
    ] {
        let ours = run(zc_pv(), arguments);
        assert_eq!(ours.status.code(), Some(64), "{arguments:?}");
        assert_eq!(stderr(&ours), format!("zc-pv: {refusal}\n"));
        if let Some(pv) = peer::pv() {
            let theirs = run(Command::new(pv), arguments);
            assert_eq!(theirs.status.code(), Some(64), "{arguments:?}");
            assert_eq!(stderr(&theirs), format!("pv: {refusal}\n"));
        }
    }
    for arguments in [
        &["-M", "IN", "cat"][..],
        &["-d", "1", "-M", "in", "cat"],
        &["--hash=sha256", "-M", "both", "cat"],
        &["--on-progress", "true", "-M", "both", "cat"],
        &["--per-file", "-M", "in", "cat"],
    ] {
        assert_eq!(
            run(zc_pv(), arguments).status.code(),
            Some(64),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_command_that_fails_is_told_by_the_status() {
    for (script, status, message) in [
        ("cat >/dev/null", 0, ""),
        ("cat >/dev/null; exit 7", 1, ""),
        (
            "cat >/dev/null; kill -9 $$",
            1,
            "zc-pv: sh: killed by signal 9\n",
        ),
    ] {
        for side in ["in", "out", "both"] {
            let output = run(zc_pv(), &["-q", "-M", side, "--", "sh", "-c", script]);
            assert_eq!(output.status.code(), Some(status), "{side}: {script}");
            assert_eq!(stderr(&output), message, "{side}: {script}");
        }
    }
    let output = run(zc_pv(), &["-M", "in", "--", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "zc-pv: /nonexistent: No such file or directory\n"
    );
}

/// The command was ended by SIGPIPE then, which hid the error.
#[test]
fn an_output_that_fails_is_told_by_the_status() {
    for sides in ["out", "both"] {
        let mut pv = zc_pv();
        pv.stdout(File::options().write(true).open("/dev/full").unwrap());
        let output = run(pv, &["-q", "-M", sides, "--", "cat"]);
        assert_eq!(output.status.code(), Some(16), "{sides}: {output:?}");
        let said = stderr(&output);
        assert!(said.contains("No space left on device"), "{sides}: {said}");
    }
}

#[test]
fn a_command_that_reads_no_more_ends_the_input() {
    for side in ["in", "both"] {
        let mut command = zc_pv();
        command.args(["-q", "-M", side, "--", "head", "-c", "3"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"abc").unwrap();
        // The writer stays, and sends nothing more.
        assert_eq!(child.wait().unwrap().code(), Some(0), "{side}");
        let mut output = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        assert_eq!(output, "abc", "{side}");
        drop(input);
    }
}

#[test]
fn the_command_has_its_pipes_and_the_signals_of_the_parent() {
    // The shell lists its descriptors itself: in a pipeline it may still have those of the pipe.
    let script = "cat >/dev/null; readlink /proc/self/fd/0 /proc/self/fd/1 | cut -d: -f1; \
                  set -- /proc/$$/fd/*; echo $#; grep SigIgn /proc/$$/status";
    let alone = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let alone = String::from_utf8(alone.stdout).unwrap();
    let output = run(zc_pv(), &["-q", "-M", "both", "--", "sh", "-c", script]);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    let alone: Vec<&str> = alone.lines().collect();
    assert_eq!(lines[0], "pipe");
    assert_eq!(lines[2..], alone[2..], "descriptors and ignored signals");
}

#[test]
fn the_output_goes_to_the_file_and_the_limit_ends_it() {
    for side in ["in", "out", "both"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let file = path.to_str().unwrap();
        let output = run(
            zc_pv(),
            &["-q", "-o", file, "-M", side, "--", "tr", "\\0", "x"],
        );
        assert_eq!(output.status.code(), Some(0), "{side}");
        assert_eq!(fs::read(&path).unwrap(), vec![b'x'; N_BYTES], "{side}");
        assert!(output.stdout.is_empty(), "{side}");
        let output = run(zc_pv(), &["-qX", "-M", side, "--", "cat"]);
        assert!(
            output.stdout.is_empty() && output.status.success(),
            "{side}"
        );
        let output = run(zc_pv(), &["-qS", "-s", "1000", "-M", side, "--", "cat"]);
        assert_eq!(
            (output.stdout.len(), output.status.code()),
            (1000, Some(0)),
            "{side}"
        );
    }
}

#[test]
fn objects_name_their_side_and_tell_how_it_ended() {
    for (command, state) in [("cat", "done"), ("false", "failed")] {
        let output = run(zc_pv(), &["--json", "-M", "both", "--", command]);
        let text = stderr(&output);
        let ends: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
            .filter(|object| object.get("state").is_some())
            .collect();
        let sides: Vec<_> = ends
            .iter()
            .map(|end| end["side"].as_str().unwrap())
            .collect();
        assert_eq!(sides, ["in", "out"], "{text}");
        assert!(ends.iter().all(|end| end["state"] == state), "{text}");
    }
}

/// Each side has a queue for a slow reader. A write from one of them could end in the middle of an
/// object, and one of the other side came next.
#[test]
fn objects_of_both_sides_stay_whole_behind_a_slow_reader() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    let mut pv = zc_pv();
    let name = "n".repeat(1500);
    let options = ["--json", "-i", "0.1", "-N", &name, "-M", "both"];
    pv.args(options).args(["--", "cat"]).stdin(Stdio::piped());
    let mut child = pv.stdout(Stdio::null()).stderr(writer).spawn().unwrap();
    drop(pv);
    // The pipe is full after two objects. Both queues hold more than a pipe by the end of the pause.
    std::thread::sleep(Duration::from_secs(1));
    let reading = std::thread::spawn(move || {
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        loop {
            match reader.read(&mut part).unwrap() {
                0 => return String::from_utf8(bytes).unwrap(),
                n => bytes.extend_from_slice(&part[..n]),
            }
            // Longer than one side waits for the reader before the other side's turn.
            std::thread::sleep(Duration::from_millis(30));
        }
    });
    std::thread::sleep(Duration::from_millis(500));
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = reading.join().unwrap();
    let n_whole = text.lines().map(|line| {
        let object: Result<serde_json::Value, _> = serde_json::from_str(line);
        object.unwrap_or_else(|error| panic!("{line}: {error}"))
    });
    assert!(n_whole.count() > 12, "{text}");
}

#[test]
fn a_signal_ends_both_sides_with_one_message() {
    let mut command = zc_pv();
    command
        .args(["-i", "0.1", "-M", "both", "--", "cat"])
        .env("TERM", "dumb");
    let mut terminal = Terminal::spawn(&command, 8, 80);
    terminal.wait_for(|seen| seen.rows().iter().any(|row| row.contains("B/s")));
    terminal.press(b"\x03");
    assert_eq!(terminal.end().code(), Some(32));
    let text = terminal.seen().rows().join("\n");
    assert_eq!(text.matches("interrupted by a signal").count(), 1, "{text}");
}
