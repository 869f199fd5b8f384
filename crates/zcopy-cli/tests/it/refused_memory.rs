//! Processes that may have little memory (`RLIMIT_DATA`).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::child::{under, zc_cat, zc_pv, zc_tee, zc_yes};
use crate::files::{assert_same, pattern, write_all};
use crate::skip::has_program;

const LEN: usize = 1_000_000;

/// The smallest difference between two limits, in bytes.
const STEP: usize = 8 << 10;

/// The outcome of one run of a tool.
struct Outcome {
    is_success: bool,
    said: String,
    /// The bytes that it wrote to standard output.
    written: Vec<u8>,
    /// The bytes that it left in its input.
    left: Vec<u8>,
}

/// Runs a tool that may have this many bytes of memory, behind a pipe.
fn run(tool: &Command, limit: u64, bytes: &[u8]) -> Outcome {
    let (mut input, feed) = std::io::pipe().unwrap();
    let mut limited = under(&["prlimit", &format!("--data={limit}"), "--core=0"], tool);
    let mut child = limited
        .stdin(input.try_clone().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command holds an end of the pipe.
    drop(limited);
    let to_write = bytes.to_vec();
    let writer = thread::spawn(move || assert!(write_all(&feed, &to_write)));
    let mut stderr = child.stderr.take().unwrap();
    let said = thread::spawn(move || {
        let mut said = Vec::new();
        stderr.read_to_end(&mut said).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    });
    let mut written = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut written).unwrap();
    let is_success = child.wait().unwrap().success();
    let mut left = Vec::new();
    input.read_to_end(&mut left).unwrap();
    writer.join().unwrap();
    Outcome {
        is_success,
        said: said.join().unwrap(),
        written,
        left,
    }
}

/// A thread reads a long file ahead. Without memory for it, the process was aborted, or hung.
#[test]
fn a_filter_that_gets_little_memory_ends_by_itself() {
    if !has_program("prlimit") {
        return;
    }
    // It has no tabs.
    let bytes = pattern(3 << 20).into_iter().map(|byte| byte.max(b' '));
    let bytes: Vec<u8> = bytes.collect();
    let mut input = tempfile::NamedTempFile::new().unwrap();
    input.write_all(&bytes).unwrap();
    let copy = tempfile::NamedTempFile::new().unwrap();
    let mut cat = zc_cat();
    cat.arg("-T").arg(input.path());
    let (mut n_successes, mut n_refusals) = (0, 0);
    for limit in (8..90).map(|n| n * (64 << 10)) {
        for (sink, message) in [
            (copy.path(), None),
            ("/dev/full".as_ref(), Some("No space left")),
        ] {
            copy.as_file().set_len(0).unwrap();
            let data = format!("--data={limit}");
            let mut limited = under(&["timeout", "30", "prlimit", &data, "--core=0"], &cat);
            limited.stdout(File::options().write(true).open(sink).unwrap());
            let output = limited.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("{limit} bytes: {}: {said}", output.status);
            let is_refused = said.contains("memory exhausted");
            match (output.status.code(), message) {
                // The dynamic loader has failed.
                (Some(127), _) => {}
                (Some(1), _) if is_refused => n_refusals += 1,
                (Some(1), Some(message)) => assert!(said.contains(message), "{what}"),
                (Some(0), None) => {
                    n_successes += 1;
                    assert_same(&std::fs::read(copy.path()).unwrap(), &bytes, &what);
                }
                _ => panic!("{what}"),
            }
        }
    }
    assert!(n_successes > 0 && n_refusals > 0, "{n_successes} successes");
}

#[test]
fn a_tool_that_gets_little_memory_copies_all_or_leaves_all() {
    if !has_program("prlimit") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    // It has no tabs, so that `-T` changes nothing.
    let bytes: Vec<u8> = pattern(LEN)
        .into_iter()
        .map(|byte| byte.max(b' '))
        .collect();
    let (cat, mut formatting) = (zc_cat(), zc_cat());
    formatting.arg("-T");
    let (mut pv, mut tee) = (zc_pv(), zc_tee());
    pv.arg("-q");
    tee.arg(&path);
    for (tool, message) in [
        (&cat, None),
        (&formatting, Some("memory exhausted")),
        (
            &pv,
            Some("memory allocation failure: Cannot allocate memory"),
        ),
        (&tee, None),
    ] {
        let (mut n_successes, mut has_said) = (0, message.is_none());
        for limit in (2..40).map(|n| n * (48 << 10)) {
            File::create(&path).unwrap();
            let outcome = run(tool, limit, &bytes);
            let what = format!("{tool:?}, {limit} bytes: {}", outcome.said);
            if outcome.is_success {
                n_successes += 1;
                assert_same(&outcome.written, &bytes, &what);
            } else {
                assert_same(&outcome.left, &bytes, &what);
                has_said |= message.is_some_and(|message| outcome.said.contains(message));
            }
        }
        assert!(n_successes > 0, "{tool:?}");
        assert!(has_said, "{tool:?}");
    }
}

/// Runs a tool that may have this many bytes of memory. A tool that hangs is killed.
fn end(tool: &Command, limit: usize, stdin: &Path, stdout: Stdio) -> Output {
    let data = format!("--data={limit}");
    let runner = [
        "timeout",
        "--signal=KILL",
        "30",
        "prlimit",
        &data,
        "--core=0",
    ];
    let mut limited = under(&runner, tool);
    // A thread that could not start made the process hang if it was to print a backtrace.
    let is_odd = limit / STEP % 2 == 1;
    limited.env("RUST_BACKTRACE", if is_odd { "1" } else { "0" });
    let limited = limited.stdin(File::open(stdin).unwrap()).stdout(stdout);
    limited.output().unwrap()
}

/// A thread that got too little memory when it started ended the process by `SIGABRT`.
#[test]
fn no_thread_of_pv_starts_without_memory() {
    if !has_program("prlimit") {
        return;
    }
    let bytes = pattern(LEN);
    let mut input = tempfile::NamedTempFile::new().unwrap();
    input.write_all(&bytes).unwrap();
    for (arguments, first, step, status, refusal) in [
        (&["-f"][..], 320 << 10, STEP, 0, "cannot start the display"),
        (&["-n"], 320 << 10, 3 * STEP, 8, "cannot start the display"),
        (
            &["-q", "-M", "both", "--", "cat"],
            1 << 20,
            3 * STEP,
            8,
            "cannot start a thread",
        ),
    ] {
        let mut pv = zc_pv();
        pv.args(arguments);
        let refusal = format!("{refusal}: Cannot allocate memory\n");
        let (mut n_started, mut n_refused) = (0, 0);
        for limit in (first..7 << 20).step_by(step) {
            let output = end(&pv, limit, input.path(), Stdio::piped());
            let said = String::from_utf8_lossy(&output.stderr);
            let what = format!("{arguments:?}, {limit} bytes: {}: {said}", output.status);
            let is_refused = said.contains(&refusal);
            match output.status.code() {
                // The dynamic loader has failed.
                Some(127) => continue,
                Some(0) if !is_refused => n_started += 1,
                Some(code) if is_refused && code == status => n_refused += 1,
                _ => panic!("{what}"),
            }
            if refusal.contains("display") || !is_refused {
                assert_same(&output.stdout, &bytes, &what);
            }
        }
        assert!(n_started > 0 && n_refused > 0, "{arguments:?}");
    }
}

/// Lines were gathered in memory that was not asked for, which ended the process by `SIGABRT`.
#[test]
fn formatted_lines_are_written_one_by_one() {
    if !has_program("prlimit") {
        return;
    }
    let mut input = tempfile::NamedTempFile::new().unwrap();
    let lines = "2026-11-29 ERROR id=17\n".repeat(20_000);
    input.write_all(lines.as_bytes()).unwrap();
    for arguments in [
        &["--timestamp-delta"][..],
        &["--highlight=ERROR=red", "--color=always"],
    ] {
        let mut cat = zc_cat();
        cat.args(arguments).arg(input.path());
        let outputs = (512 << 10..2 << 20)
            .step_by(4 * STEP)
            .map(|limit| end(&cat, limit, Path::new("/dev/null"), Stdio::piped()));
        let is_refused = |output: &Output| output.stderr == b"zc-cat: memory exhausted\n";
        // With less memory the process does not start.
        let outputs: Vec<_> = outputs.skip_while(|output| !is_refused(output)).collect();
        let mut n_whole = 0;
        for output in outputs {
            if is_refused(&output) {
                assert_eq!(output.status.code(), Some(1));
                continue;
            }
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
            let n_lines = output.stdout.split_inclusive(|byte| *byte == b'\n').count();
            assert_eq!(n_lines, 20_000, "{arguments:?}");
            n_whole += 1;
        }
        assert!(n_whole > 0, "{arguments:?}");
    }
}

/// A lack of memory for the list of operands, or for the line that zc-yes joins them to, ended the
/// process by `SIGABRT`.
#[test]
fn tools_report_that_they_have_no_memory_for_many_or_long_operands() {
    if !has_program("prlimit") {
        return;
    }
    let (mut cat, mut yes) = (zc_cat(), zc_yes());
    cat.args((0..12_000).map(|n| format!("/proc/none/{n}")));
    yes.args(["a".repeat(100_000), "b".repeat(100_000)]);
    for (tool, message) in [
        (&cat, "zc-cat: memory exhausted\n"),
        (&yes, "zc-yes: memory exhausted\n"),
    ] {
        let outputs = (256 << 10..2 << 20).step_by(4 * STEP).map(|limit| {
            // It ends zc-yes.
            let full = File::options().write(true).open("/dev/full").unwrap();
            end(tool, limit, Path::new("/dev/null"), full.into())
        });
        let is_refused = |output: &Output| output.stderr == message.as_bytes();
        // With less memory the process gets none for its argument strings.
        let outputs: Vec<_> = outputs.skip_while(|output| !is_refused(output)).collect();
        assert!(
            outputs.iter().filter(|output| is_refused(output)).count() > 1,
            "{message}"
        );
        assert!(!is_refused(outputs.last().unwrap()), "{message}");
        for output in outputs {
            assert_eq!(output.status.code(), Some(1), "{output:?}");
        }
    }
}
