//! `zc-yes`, beside GNU yes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use crate::child::read_exactly;
use crate::script::YES;

#[test]
fn the_line_is_y_or_all_strings_with_blanks_between() {
    YES.as_peers("yes | head -n 3").succeeds_with("y\ny\ny\n");
    YES.as_peers("yes a 'b  c' d | head -n 2")
        .succeeds_with("a b  c d\na b  c d\n");
    YES.as_peers("yes '' | head -n 2").succeeds_with("\n\n");
    YES.as_peers("yes '' '' | head -n 1").succeeds_with(" \n");
    YES.as_peers("yes - | head -n 1").succeeds_with("-\n");
    YES.as_peers("yes 'two\nlines' | head -n 3")
        .succeeds_with("two\nlines\ntwo\n");
}

#[test]
fn strings_need_not_be_text() {
    let bytes = OsStr::from_bytes(b"\xff\xfe \x80");
    YES.as_peers_with("yes \"$@\" | head -c 10", &[bytes])
        .succeeds_with(b"\xff\xfe \x80\n\xff\xfe \x80\n");
}

#[test]
fn thousands_of_strings_make_one_line() {
    let line: Vec<String> = (1..=20_000).map(|n| n.to_string()).collect();
    let line = line.join(" ") + "\n";
    let outcome = YES.as_peers("yes $(seq 20000) | head -n 3");
    outcome.succeeds_with(line.repeat(3));
}

#[test]
fn a_line_may_be_longer_than_a_pipe() {
    let strings: Vec<String> = (0..12_u8)
        .map(|n| char::from(b'a' + n).to_string().repeat(100_000))
        .collect();
    let parameters: Vec<&OsStr> = strings.iter().map(OsStr::new).collect();
    let line = strings.join(" ") + "\n";
    let outcome = YES.as_peers_with("yes \"$@\" | head -n 4", &parameters);
    outcome.succeeds_with(line.repeat(4));
}

#[test]
fn far_into_the_stream_every_byte_is_where_it_belongs() {
    for strings in ["", "ab", "$(seq 700)", "$(seq 9000)"] {
        let script = format!("yes {strings} | head -c 60000001 | cksum");
        assert_eq!(YES.as_peers(&script).status, 0);
    }
}

#[test]
fn a_sink_that_fails_is_named_with_the_cause() {
    let standard_output = |cause| format!("yes: standard output: {cause}\n");
    YES.as_peers("yes > /dev/full")
        .fails_with(&standard_output("No space left on device"));
    YES.as_peers("yes >&-")
        .fails_with(&standard_output("Bad file descriptor"));
    YES.as_peers("yes 1< f")
        .fails_with(&standard_output("Bad file descriptor"));
    YES.as_peers("yes 1< dir")
        .fails_with(&standard_output("Bad file descriptor"));
}

#[test]
fn a_closed_pipe_ends_it_silently_by_sigpipe() {
    let outcome = YES.as_peers("{ yes; echo $? >&2; } | head -n 1");
    outcome.printed("y\n");
    assert_eq!(outcome.stderr, "141\n");
}

#[test]
fn a_closed_pipe_is_an_error_where_the_parent_ignores_sigpipe() {
    let outcome = YES.as_peers("trap '' PIPE; { yes; echo $? >&2; } | head -n 1");
    outcome.printed("y\n");
    assert_eq!(outcome.stderr, "yes: standard output: Broken pipe\n1\n");
}

/// GNU yes is killed by `SIGXFSZ` unless that is ignored.
#[test]
fn a_file_that_may_not_grow_is_an_error_and_keeps_what_fits() {
    YES.as_peers("trap '' XFSZ; ulimit -f 800; yes abc > out; echo $?")
        .printed("1\n");
    let outcome = YES.run("ulimit -f 16; yes abc > out");
    outcome.fails_with("yes: standard output: File too large\n");
    // Shells count in blocks of 512 or 1024 bytes.
    let kept = &outcome.files["out"];
    assert!(matches!(kept.len(), 8192 | 16384), "{} bytes", kept.len());
    assert!(kept.chunks(4).all(|line| line == b"abc\n"));
}

#[test]
fn appending_is_writing() {
    let outcome = YES.as_peers("trap '' XFSZ; ulimit -f 800; yes >> f 2> /dev/null; wc -c < f");
    assert!(outcome.files["f"].starts_with(b"hi\ny\ny\n"));
}

#[test]
fn the_plan_is_told_before_and_the_report_after() {
    let outcome = YES.run("yes --explain | head -n 1");
    outcome.printed("y\n");
    let plan = "yes: pattern, 2 bytes -> pipe\n  chosen    tee ";
    assert!(outcome.stderr.starts_with(plan), "{}", outcome.stderr);

    let outcome = YES.run("yes --explain > /dev/full");
    assert_eq!(outcome.status, 1);
    let said: Vec<usize> = [
        "yes: pattern, 2 bytes -> /dev/full\n  chosen    buffered",
        "yes: 0 bytes by buffered, until it failed",
        "yes: standard output: No space left on device",
    ]
    .iter()
    .map(|line| outcome.stderr.find(line).expect(line))
    .collect();
    assert!(said.is_sorted(), "{}", outcome.stderr);
    YES.run("yes --explain >&-")
        .fails_with("yes: standard output: Bad file descriptor\n");
}

#[test]
fn a_reader_gets_megabytes_of_what_it_asked_for() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut yes = Command::new(env!("CARGO_BIN_EXE_zc-yes"));
    let mut child = yes
        .arg("abcdefg")
        .stdout(writer)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let start = read_exactly(reader, 16 << 20);
    assert!(start.chunks(8).all(|line| line == b"abcdefg\n"));
    child.kill().unwrap();
    child.wait().unwrap();
}
