//! `zc-yes`, beside GNU yes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::child::read_exactly;
use crate::script::{Outcome, gnus, run_tool};

const TRY_HELP: &str = "Try 'yes --help' for more information.\n";

/// Runs the script with `yes` standing for `zc-yes`.
fn run(script: &str) -> Outcome {
    run_with(script, &[])
}

fn run_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let yes = Path::new(env!("CARGO_BIN_EXE_zc-yes"));
    run_tool(("yes", yes), script, parameters)
}

/// The same, and sees that every GNU yes there is does exactly the same.
#[track_caller]
fn as_gnu(script: &str) -> Outcome {
    as_gnu_with(script, &[])
}

#[track_caller]
fn as_gnu_with(script: &str, parameters: &[&OsStr]) -> Outcome {
    let ours = run_with(script, parameters);
    for gnu in gnus("yes") {
        ours.is_as(&run_tool(("yes", &gnu), script, parameters), script);
    }
    ours
}

#[track_caller]
fn is_refused(outcome: &Outcome, message: &str) {
    outcome.fails_with(&format!("yes: {message}\n{TRY_HELP}"));
}

#[test]
fn the_line_is_y_or_all_strings_with_blanks_between() {
    as_gnu("yes | head -n 3").succeeds_with("y\ny\ny\n");
    as_gnu("yes a 'b  c' d | head -n 2").succeeds_with("a b  c d\na b  c d\n");
    as_gnu("yes '' | head -n 2").succeeds_with("\n\n");
    as_gnu("yes '' '' | head -n 1").succeeds_with(" \n");
    as_gnu("yes - | head -n 1").succeeds_with("-\n");
    as_gnu("yes 'two\nlines' | head -n 3").succeeds_with("two\nlines\ntwo\n");
}

#[test]
fn strings_need_not_be_text() {
    let bytes = OsStr::from_bytes(b"\xff\xfe \x80");
    as_gnu_with("yes \"$@\" | head -c 10", &[bytes])
        .succeeds_with(b"\xff\xfe \x80\n\xff\xfe \x80\n");
}

#[test]
fn thousands_of_strings_make_one_line() {
    let line: Vec<String> = (1..=20_000).map(|n| n.to_string()).collect();
    let line = line.join(" ") + "\n";
    let outcome = as_gnu("yes $(seq 20000) | head -n 3");
    outcome.succeeds_with(line.repeat(3));
}

#[test]
fn a_line_may_be_longer_than_a_pipe() {
    let strings: Vec<String> = (0..12_u8)
        .map(|n| char::from(b'a' + n).to_string().repeat(100_000))
        .collect();
    let parameters: Vec<&OsStr> = strings.iter().map(OsStr::new).collect();
    let line = strings.join(" ") + "\n";
    let outcome = as_gnu_with("yes \"$@\" | head -n 4", &parameters);
    outcome.succeeds_with(line.repeat(4));
}

#[test]
fn far_into_the_stream_every_byte_is_where_it_belongs() {
    for strings in ["", "ab", "$(seq 700)", "$(seq 9000)"] {
        let script = format!("yes {strings} | head -c 60000001 | cksum");
        assert_eq!(as_gnu(&script).status, 0);
    }
}

#[test]
fn two_dashes_end_the_options() {
    as_gnu("yes -- | head -n 1").succeeds_with("y\n");
    as_gnu("yes -- -n | head -n 1").succeeds_with("-n\n");
    as_gnu("yes -- -- | head -n 1").succeeds_with("--\n");
    as_gnu("yes a -- b | head -n 1").succeeds_with("a b\n");
    as_gnu("yes -- a -- b | head -n 1").succeeds_with("a -- b\n");
    as_gnu("yes a -- --version | head -n 1").succeeds_with("a --version\n");
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_string() {
    as_gnu("POSIXLY_CORRECT=1 yes a -n | head -n 1").succeeds_with("a -n\n");
    as_gnu("POSIXLY_CORRECT=1 yes a --help | head -n 1").succeeds_with("a --help\n");
    as_gnu("POSIXLY_CORRECT=1 yes a -- b | head -n 1").succeeds_with("a -- b\n");
    as_gnu("POSIXLY_CORRECT=1 yes -- a -- b | head -n 1").succeeds_with("a -- b\n");
}

#[test]
fn an_unknown_option_is_refused_wherever_it_stands() {
    is_refused(&as_gnu("yes -n"), "invalid option -- 'n'");
    is_refused(&as_gnu("yes a -n"), "invalid option -- 'n'");
    is_refused(&as_gnu("yes -ab"), "invalid option -- 'a'");
    is_refused(&as_gnu("yes -h"), "invalid option -- 'h'");
    is_refused(&as_gnu("yes -V"), "invalid option -- 'V'");
    is_refused(&as_gnu("yes -x --version"), "invalid option -- 'x'");
    is_refused(&as_gnu("yes --foo"), "unrecognized option '--foo'");
    is_refused(&as_gnu("yes --foo=bar"), "unrecognized option '--foo=bar'");
    is_refused(&as_gnu("yes ---"), "unrecognized option '---'");
    is_refused(
        &as_gnu("yes --help=3"),
        "option '--help' doesn't allow an argument",
    );
}

#[test]
fn help_names_the_program_as_it_was_called_and_every_option() {
    for script in ["yes --help", "yes --help extra", "yes --he", "yes a --help"] {
        let outcome = run(script);
        assert_eq!(
            (outcome.status, outcome.stderr.as_str()),
            (0, ""),
            "{script}"
        );
        let help = String::from_utf8(outcome.stdout).unwrap();
        assert!(help.contains("Usage: yes [OPTIONS] [STRING]..."), "{help}");
        for option in ["--explain", "--help", "--version"] {
            assert!(help.contains(option), "{option} is missing:\n{help}");
        }
    }
}

#[test]
fn the_version_is_the_packages() {
    let version = concat!("zc-yes ", env!("CARGO_PKG_VERSION"), "\n");
    for script in [
        "yes --version",
        "yes --v",
        "yes a --version",
        "yes --version -x",
    ] {
        run(script).succeeds_with(version);
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    as_gnu("yes --help > /dev/full").fails_with("yes: write error: No space left on device\n");
}

#[test]
fn a_sink_that_fails_is_named_with_the_cause() {
    let standard_output = |cause| format!("yes: standard output: {cause}\n");
    as_gnu("yes > /dev/full").fails_with(&standard_output("No space left on device"));
    as_gnu("yes >&-").fails_with(&standard_output("Bad file descriptor"));
    as_gnu("yes 1< f").fails_with(&standard_output("Bad file descriptor"));
    as_gnu("yes 1< dir").fails_with(&standard_output("Bad file descriptor"));
}

#[test]
fn closed_standard_error_costs_the_message_alone() {
    as_gnu("yes > /dev/full 2>&-").fails_with("");
}

#[test]
fn a_closed_pipe_ends_it_silently_by_sigpipe() {
    let outcome = as_gnu("{ yes; echo $? >&2; } | head -n 1");
    outcome.printed("y\n");
    assert_eq!(outcome.stderr, "141\n");
}

#[test]
fn a_closed_pipe_is_an_error_where_the_parent_ignores_sigpipe() {
    let outcome = as_gnu("trap '' PIPE; { yes; echo $? >&2; } | head -n 1");
    outcome.printed("y\n");
    assert_eq!(outcome.stderr, "yes: standard output: Broken pipe\n1\n");
}

/// GNU yes is killed by `SIGXFSZ` unless that is ignored.
#[test]
fn a_file_that_may_not_grow_is_an_error_and_keeps_what_fits() {
    as_gnu("trap '' XFSZ; ulimit -f 800; yes abc > out; echo $?").printed("1\n");
    let outcome = run("ulimit -f 16; yes abc > out");
    outcome.fails_with("yes: standard output: File too large\n");
    // Shells count in blocks of 512 or 1024 bytes.
    let kept = &outcome.files["out"];
    assert!(matches!(kept.len(), 8192 | 16384), "{} bytes", kept.len());
    assert!(kept.chunks(4).all(|line| line == b"abc\n"));
}

#[test]
fn appending_is_writing() {
    let outcome = as_gnu("trap '' XFSZ; ulimit -f 800; yes >> f 2> /dev/null; wc -c < f");
    assert!(outcome.files["f"].starts_with(b"hi\ny\ny\n"));
}

#[test]
fn the_plan_is_told_before_and_the_report_after() {
    let outcome = run("yes --explain | head -n 1");
    outcome.printed("y\n");
    let plan = "yes: pattern, 2 bytes -> pipe\n  chosen    tee ";
    assert!(outcome.stderr.starts_with(plan), "{}", outcome.stderr);

    let outcome = run("yes --explain > /dev/full");
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
    run("yes --explain >&-").fails_with("yes: standard output: Bad file descriptor\n");
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
