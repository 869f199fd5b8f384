//! Options, in every form that `getopt_long(3)` takes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{as_gnu, as_gnu_with, run};
use crate::script::Outcome;

const TRY_HELP: &str = "Try 'tee --help' for more information.\n";

#[track_caller]
fn is_refused(outcome: &Outcome, message: &str) {
    outcome.fails_with(&format!("tee: {message}\n{TRY_HELP}"));
    assert!(!outcome.files.contains_key("a"), "nothing is opened");
}

const MODES: &str =
    "Valid arguments are:\n  - ‘warn’\n  - ‘warn-nopipe’\n  - ‘exit’\n  - ‘exit-nopipe’";

#[test]
fn options_may_be_bundled_shortened_repeated_and_follow_operands() {
    for options in [
        "-ai",
        "-aip",
        "-a -i -p",
        "--app --ig",
        "--a --i --o",
        "-aa --append",
    ] {
        let outcome = as_gnu(&format!("tee {options} g < f"));
        outcome.succeeds_with("hi\n");
        assert_eq!(outcome.files["g"], b"there\nhi\n", "{options}");
        as_gnu(&format!("tee g {options} < f")).succeeds_with("hi\n");
    }
}

#[test]
fn posixly_correct_ends_the_options_at_the_first_operand() {
    let outcome = as_gnu("POSIXLY_CORRECT=1 tee a -i < f");
    assert_eq!(outcome.files["-i"], b"hi\n");
}

#[test]
fn an_unknown_option_is_refused_before_anything_is_opened() {
    is_refused(&as_gnu("tee a --foo < f"), "unrecognized option '--foo'");
    is_refused(
        &as_gnu("tee a --foo=b < f"),
        "unrecognized option '--foo=b'",
    );
    is_refused(&as_gnu("tee a -x < f"), "invalid option -- 'x'");
    is_refused(&as_gnu("tee -aix a < f"), "invalid option -- 'x'");
    is_refused(&as_gnu("tee -h a < f"), "invalid option -- 'h'");
    is_refused(&as_gnu("tee -V a < f"), "invalid option -- 'V'");
    // -p takes no MODE.
    is_refused(&as_gnu("tee -p=warn a < f"), "invalid option -- '='");
}

#[test]
fn a_value_for_an_option_that_takes_none_is_refused() {
    for option in ["append", "ignore-interrupts", "help", "version"] {
        is_refused(
            &as_gnu(&format!("tee --{option}=3 a < f")),
            &format!("option '--{option}' doesn't allow an argument"),
        );
    }
}

#[test]
fn a_mode_may_be_shortened_as_long_as_it_is_clear() {
    for mode in [
        "warn",
        "warn-",
        "warn-n",
        "warn-nopipe",
        "exit",
        "exit-",
        "exit-nopip",
    ] {
        as_gnu(&format!("tee --output-error={mode} a < f")).succeeds_with("hi\n");
        as_gnu(&format!("tee --o={mode} a < f")).succeeds_with("hi\n");
    }
    for mode in ["w", "war", "e", "exi", ""] {
        is_refused(
            &as_gnu(&format!("tee --output-error={mode} a < f")),
            &format!("ambiguous argument ‘{mode}’ for ‘--output-error’\n{MODES}"),
        );
    }
}

#[test]
fn a_mode_is_attached_or_left_out() {
    let outcome = as_gnu("tee --output-error warn < f");
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["warn"], b"hi\n");
}

#[test]
fn an_unknown_mode_is_refused_with_a_list_of_those_there_are() {
    for mode in ["foo", "warnn", "WARN", "exit-pipe"] {
        is_refused(
            &as_gnu(&format!("tee --output-error={mode} a < f")),
            &format!("invalid argument ‘{mode}’ for ‘--output-error’\n{MODES}"),
        );
    }
    // The first mistake is told, whatever follows.
    let foo = format!("invalid argument ‘foo’ for ‘--output-error’\n{MODES}");
    is_refused(&as_gnu("tee --output-error=foo --help"), &foo);
    is_refused(
        &as_gnu("tee --output-error=foo -x --output-error=warn"),
        &foo,
    );
}

#[test]
fn modes_are_quoted_as_gnu_quotes_them() {
    for bytes in [
        &b"it's"[..],
        b"a\nb\t\x01",
        b"\xff\\",
        "‘é’ \u{200b}".as_bytes(),
        b"?`\"$",
    ] {
        for locale in ["C.UTF-8", "C", "xx_YY.UTF-8"] {
            let script = format!("LC_ALL={locale} tee \"--output-error=$1\"");
            let outcome = as_gnu_with(&script, &[OsStr::from_bytes(bytes)]);
            assert_eq!(outcome.status, 1, "{script}");
        }
    }
}

#[test]
fn the_last_mode_counts() {
    // Were it `exit`, nothing would be written.
    for options in [
        "--output-error=exit -p",
        "-p --output-error=exit --output-error=warn",
    ] {
        as_gnu(&format!("tee {options} no/a < f"))
            .fails_after("hi\n", "tee: no/a: No such file or directory\n");
    }
    as_gnu("tee -p --output-error=exit no/a < f")
        .fails_with("tee: no/a: No such file or directory\n");
}

#[test]
fn options_of_its_own_do_not_get_in_the_way_of_gnus() {
    assert!(run("tee --v").stdout.starts_with(b"zc-tee "));
    assert!(run("tee --h").stdout.starts_with(b"Copy standard input"));
    for options in [
        "-c",
        "-ca",
        "--cache",
        "--cache=drop",
        "--ca=keep",
        "--cache=d",
        "--stable",
        "-civ",
    ] {
        let outcome = run(&format!("tee {options} a < f"));
        assert_eq!(
            (outcome.status, &outcome.files["a"][..]),
            (0, &b"hi\n"[..]),
            "{options}"
        );
    }
    is_refused(
        &run("tee --cache=all a < f"),
        "invalid argument ‘all’ for ‘--cache’\nValid arguments are:\n  - ‘keep’\n  - ‘drop’",
    );
}

#[test]
fn help_names_the_program_as_it_was_called_and_every_option_and_mode() {
    let outcome = run("tee --help");
    let help = String::from_utf8(outcome.stdout.clone()).unwrap();
    outcome.succeeds_with(&help);
    assert!(help.contains("Usage: tee [OPTIONS] [FILE]..."), "{help}");
    for word in [
        "-a, --append",
        "-i, --ignore-interrupts",
        "-p ",
        "--output-error[=<MODE>]",
        "-c, --cache[=<WHAT>]",
        "--stable",
        "-v ",
        "--explain",
        "--help",
        "--version",
        "warn ",
        "warn-nopipe ",
        "exit ",
        "exit-nopipe ",
    ] {
        assert!(help.contains(word), "{word} is missing:\n{help}");
    }
}

#[test]
fn the_version_is_the_packages() {
    run("tee --version").succeeds_with(concat!("zc-tee ", env!("CARGO_PKG_VERSION"), "\n"));
    as_gnu("tee --help > /dev/full").fails_with("tee: write error: No space left on device\n");
}
