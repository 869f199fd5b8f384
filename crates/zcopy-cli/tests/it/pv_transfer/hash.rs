//! `--hash`: the digest of all that arrived.

use super::{ends, run};
use crate::script::big;

#[test]
fn sha256sum_accepts_it() {
    for (script, input) in [
        ("pv -q --hash sha256 f big g", "cat f big g"),
        ("cat big | pv -q --hash sha256 f -", "cat f big"),
        ("cat big | pv -q --hash sha256", "cat big"),
        ("pv -q --hash sha256 -S -s 70001 big", "head -c 70001 big"),
        ("pv -q --hash sha256 -S -s 70001 big g", "head -c 70001 big"),
        ("pv -q --hash sha256 - < f", "cat f"),
    ] {
        let outcome = run(&format!(
            "{{ {script}; }} 2> sum > out || exit 9; {input} | sha256sum -c sum"
        ));
        ends(&outcome, 0, "", "-: OK\n");
    }
}

#[test]
fn it_names_the_file_so_that_sha256sum_finds_it() {
    for (script, name) in [
        ("pv -q --hash=sha256 big", "big"),
        ("pv -q --hash sha256 empty", "empty"),
        ("pv -q --hash sha256 -U - big", "big"),
        ("pv -q --hash sha256 -U s big", "big"),
        ("pv -q --hash sha256 -C -B 7 f", "f"),
        ("pv -q --hash sha256 -X big", "big"),
        ("pv -q --hash sha256 ./big", "./big"),
        ("cp f -- -f; pv -q --hash sha256 ./-f", "./-f"),
        (
            "cp f 'two words'; pv -q --hash sha256 'two words'",
            "two words",
        ),
        ("pv -q --hash sha256 -o new big", "new"),
        ("pv -q --hash sha256 -o new f big g", "new"),
        ("cat big | pv -q --hash sha256 -o new", "new"),
        ("pv -q --hash sha256 -S -s 70001 -o new big", "new"),
        ("pv -q --hash sha256 -K -o new big", "new"),
        (
            "truncate -s 3M h; cat g >> h; truncate -s 5M h; pv -q --hash sha256 h -o new",
            "new",
        ),
        (
            "truncate -s 3M h; cat g >> h; pv -q -O --hash sha256 h -o new",
            "new",
        ),
    ] {
        let outcome = run(&format!(
            "{{ {script}; }} 2> sum > out < /dev/null || exit 9; sha256sum -c sum"
        ));
        ends(&outcome, 0, "", format!("{name}: OK\n"));
    }
    // As sha256sum itself escapes them.
    let script = "cp f 'a\\b\nc'; pv -q --hash sha256 'a\\b\nc' 2> sum > out; sha256sum -c --status sum; echo $?";
    let script = script.replace("\\n", "\n");
    run(&script).succeeds_with("0\n");
    run("mkfifo p; cat f > p & pv -q --hash sha256 p 2> sum > out; sha256sum -c sum < f")
        .succeeds_with("-: OK\n");
}

#[test]
fn b3sum_accepts_it_too() {
    if !crate::skip::has_program("b3sum") {
        return;
    }
    run("pv -q --hash blake3 big -o new 2> sum; b3sum -c sum").succeeds_with("new: OK\n");
}

#[test]
fn the_other_is_the_one_that_b3sum_prints() {
    let outcome = run("printf abc | pv -q --hash=blake3");
    let digest = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85  -\n";
    ends(&outcome, 0, digest, "abc");
}

#[test]
fn the_bytes_are_the_same_with_it() {
    for algorithm in ["sha256", "blake3"] {
        let outcome = run(&format!("pv -q --hash {algorithm} big"));
        assert_eq!(outcome.status, 0);
        outcome.printed(big());
    }
}

#[test]
fn it_comes_behind_what_is_shown() {
    let outcome = run("pv -n -b --hash sha256 f");
    let lines: Vec<_> = outcome.stderr.lines().collect();
    let digest = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4  f";
    assert_eq!(lines, ["3", digest]);
}

/// Who checks it would take what came before the error for everything.
#[test]
fn what_did_not_arrive_has_no_digest() {
    let error = "pv: (stdout): write error: No space left on device\n";
    ends(&run("pv -q --hash sha256 f > /dev/full"), 16, error, "");
    let error = "pv: s/s: No such file or directory\n";
    ends(&run("pv -q -U s/s --hash sha256 f"), 2, error, "");
    let error = "pv: nothing: No such file or directory\n";
    ends(&run("pv -q --hash sha256 nothing f"), 2, error, "hi\n");
    let error = "pv: .: Is a directory\n";
    ends(&run("pv -q --hash sha256 . f"), 16, error, "hi\n");
    let gone = "mkfifo p; { : < p & }; exec 3> p; wait;";
    ends(
        &run(&format!("{gone} pv -q --hash sha256 f >&3")),
        141,
        "",
        "",
    );
}

#[test]
fn a_digest_that_cannot_be_written_is_a_failure() {
    let outcome = run("pv -q --hash sha256 f 2> /dev/full");
    ends(&outcome, 8, "", "hi\n");
}

#[test]
fn help_says_where_it_is_printed() {
    let help = String::from_utf8(run("pv --help").stdout).unwrap();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "Print the digest of all bytes to standard error at the end";
    assert!(help.contains(said), "{help}");
}
