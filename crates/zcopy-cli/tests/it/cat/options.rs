//! Options, in every form that `getopt_long(3)` takes.

use crate::script::{Outcome, as_gnu, run};

const TRY_HELP: &str = "Try 'cat --help' for more information.\n";

#[track_caller]
fn is_refused(outcome: &Outcome, message: &str) {
    outcome.fails_with(&format!("cat: {message}\n{TRY_HELP}"));
}

#[test]
fn u_is_accepted_and_ignored() {
    as_gnu("cat -u f").succeeds_with("hi\n");
    as_gnu("cat -uu -u f").succeeds_with("hi\n");
}

#[test]
fn options_may_follow_operands() {
    as_gnu("cat f -u g").succeeds_with("hi\nthere\n");
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_operand() {
    as_gnu("POSIXLY_CORRECT=1 cat -u f -u")
        .fails_after("hi\n", "cat: -u: No such file or directory\n");
}

#[test]
fn two_dashes_end_the_options() {
    as_gnu("cat -- f").succeeds_with("hi\n");
    as_gnu("cat -- -u --help --").fails_with(
        "cat: -u: No such file or directory\n\
         cat: --help: No such file or directory\n\
         cat: --: No such file or directory\n",
    );
}

#[test]
fn an_unknown_option_is_refused_before_anything_is_copied() {
    is_refused(&as_gnu("cat f --foo"), "unrecognized option '--foo'");
    is_refused(
        &as_gnu("cat --foo=bar f"),
        "unrecognized option '--foo=bar'",
    );
    is_refused(&as_gnu("cat ---"), "unrecognized option '---'");
    is_refused(&as_gnu("cat f -x"), "invalid option -- 'x'");
    is_refused(&as_gnu("cat -ux f"), "invalid option -- 'x'");
    is_refused(&as_gnu("cat -u- f"), "invalid option -- '-'");
    // These are not short for --help and --version.
    is_refused(&as_gnu("cat -h"), "invalid option -- 'h'");
    is_refused(&as_gnu("cat -V"), "invalid option -- 'V'");
}

#[test]
fn a_value_for_an_option_that_takes_none_is_refused() {
    is_refused(
        &as_gnu("cat --help=3"),
        "option '--help' doesn't allow an argument",
    );
}

#[test]
fn long_options_may_be_shortened() {
    run("cat --sta f").succeeds_with("hi\n");
    assert!(run("cat --vers").stdout.starts_with(b"zc-cat "));
}

#[test]
fn help_names_the_program_as_it_was_called_and_every_option() {
    let outcome = run("cat --help");
    let help = String::from_utf8(outcome.stdout.clone()).unwrap();
    outcome.succeeds_with(&help);
    assert!(help.contains("Usage: cat [OPTIONS] [FILE]..."), "{help}");
    for option in ["--explain", "--stable", "-u", "--help", "--version"] {
        assert!(help.contains(option), "{option} is missing:\n{help}");
    }
}

#[test]
fn the_version_is_the_packages() {
    run("cat --version").succeeds_with(concat!("zc-cat ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    as_gnu("cat --help > /dev/full").fails_with("cat: write error: No space left on device\n");
    as_gnu("cat --version >&-").fails_with("cat: write error: Bad file descriptor\n");
}
