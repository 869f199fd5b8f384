//! Options, in every form that `getopt_long(3)` takes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::script::TEE;

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
        let outcome = TEE.as_peers(&format!("tee {options} g < f"));
        outcome.succeeds_with("hi\n");
        assert_eq!(outcome.files["g"], b"there\nhi\n", "{options}");
        TEE.as_peers(&format!("tee g {options} < f"))
            .succeeds_with("hi\n");
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
        TEE.as_peers(&format!("tee --output-error={mode} a < f"))
            .succeeds_with("hi\n");
        TEE.as_peers(&format!("tee --o={mode} a < f"))
            .succeeds_with("hi\n");
    }
    for mode in ["w", "war", "e", "exi", ""] {
        TEE.refuses(
            &format!("tee --output-error={mode} a < f"),
            &format!("ambiguous argument ‘{mode}’ for ‘--output-error’\n{MODES}"),
        );
    }
}

#[test]
fn a_mode_is_attached_or_left_out() {
    let outcome = TEE.as_peers("tee --output-error warn < f");
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["warn"], b"hi\n");
}

#[test]
fn an_unknown_mode_is_refused_with_a_list_of_those_there_are() {
    for mode in ["foo", "warnn", "WARN", "exit-pipe"] {
        TEE.refuses(
            &format!("tee --output-error={mode} a < f"),
            &format!("invalid argument ‘{mode}’ for ‘--output-error’\n{MODES}"),
        );
    }
    // The first mistake is told, whatever follows.
    let foo = format!("invalid argument ‘foo’ for ‘--output-error’\n{MODES}");
    TEE.refuses("tee --output-error=foo --help", &foo);
    TEE.refuses("tee --output-error=foo -x --output-error=warn", &foo);
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
            let outcome = TEE.as_peers_with(&script, &[OsStr::from_bytes(bytes)]);
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
        TEE.as_peers(&format!("tee {options} no/a < f"))
            .fails_after("hi\n", "tee: no/a: No such file or directory\n");
    }
    TEE.as_peers("tee -p --output-error=exit no/a < f")
        .fails_with("tee: no/a: No such file or directory\n");
}

#[test]
fn options_of_its_own_do_not_get_in_the_way_of_gnus() {
    assert!(
        TEE.run("tee --h")
            .stdout
            .starts_with(b"Copy standard input")
    );
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
        let outcome = TEE.run(&format!("tee {options} a < f"));
        assert_eq!(
            (outcome.status, &outcome.files["a"][..]),
            (0, &b"hi\n"[..]),
            "{options}"
        );
    }
    let _ = TEE.refuses_alone(
        "tee --cache=all a < f",
        "invalid argument ‘all’ for ‘--cache’\nValid arguments are:\n  - ‘keep’\n  - ‘drop’",
    );
}
