//! Files and standard input, one after the other, and those that cannot be had.

use super::{as_pv, ends, run};
use crate::script::big;

#[test]
fn files_and_standard_input_come_in_the_order_they_are_named() {
    as_pv("pv -q f").succeeds_with("hi\n");
    as_pv("pv -q f g empty f").succeeds_with("hi\nthere\nhi\n");
    as_pv("echo in | pv -q f - g").succeeds_with("hi\nin\nthere\n");
    as_pv("pv -q big - big < f").succeeds_with([&big(), &b"hi\n"[..], &big()].concat());
}

#[test]
fn without_a_name_it_is_standard_input() {
    as_pv("echo in | pv -q").succeeds_with("in\n");
    as_pv("pv -q < big").succeeds_with(big());
    as_pv("pv -q").succeeds_with("");
}

#[test]
fn standard_input_is_read_from_where_it_stands() {
    as_pv("{ read line; pv -q; } < big").succeeds_with(&big()[2..]);
    as_pv("{ dd bs=1 count=8 of=/dev/null 2>&-; pv -q -; } < big").succeeds_with(&big()[8..]);
}

#[test]
fn a_missing_file_is_told_and_the_others_have_their_turn() {
    let error = "pv: missing: No such file or directory\n";
    ends(&as_pv("pv -q missing"), 2, error, "");
    ends(&as_pv("pv -q missing f"), 2, error, "hi\n");
    ends(&as_pv("pv -q f missing g"), 2, error, "hi\nthere\n");
    ends(&as_pv("pv -q missing/x f 2>&-"), 2, "", "hi\n");
}

#[test]
fn a_missing_file_is_told_before_the_bytes_of_the_next() {
    for _ in 0..20 {
        let outcome = as_pv("pv -q f missing g 2>&1");
        let said = "hi\npv: missing: No such file or directory\nthere\n";
        ends(&outcome, 2, "", said);
    }
}

#[test]
fn a_directory_is_told_and_the_others_have_their_turn() {
    let error = "pv: dir: Is a directory\n";
    ends(&as_pv("pv -q dir f"), 16, error, "hi\n");
    ends(&as_pv("pv -q f dir g"), 16, error, "hi\nthere\n");
    ends(
        &as_pv("pv -q < dir"),
        16,
        "pv: (stdin): Is a directory\n",
        "",
    );
}

/// pv goes on for ever.
#[test]
fn a_directory_is_told_also_where_errors_are_skipped() {
    for option in ["-E", "-EE", "-E -Z 4K"] {
        let outcome = run(&format!("timeout 60 pv -q {option} dir f"));
        ends(&outcome, 16, "pv: dir: Is a directory\n", "hi\n");
    }
}

#[test]
fn a_file_that_may_not_be_read_is_told() {
    if !crate::skip::is_root() || !crate::skip::has_program("setpriv") {
        return;
    }
    // Root may read everything, somebody else may not.
    let script = "chmod 711 .; chmod 000 f; \
                  setpriv --reuid 65534 --regid 65534 --clear-groups pv -q f g; r=$?; \
                  chmod 600 f; exit $r";
    let outcome = run(&format!("chmod 755 \"${{PATH%%:*}}\"; {script}"));
    ends(&outcome, 2, "pv: f: Permission denied\n", "there\n");
}

#[test]
fn everything_that_goes_wrong_is_in_the_status() {
    let told = "pv: dir: Is a directory\npv: missing: No such file or directory\n";
    let own = "pv: f: input file is also the output\n";
    let full = "pv: (stdout): write error: No space left on device\n";
    let outcome = as_pv("pv -q missing f g >> f");
    ends(
        &outcome,
        6,
        &format!("pv: missing: No such file or directory\n{own}"),
        "",
    );
    ends(&as_pv("pv -q dir missing"), 18, told, "");
    let outcome = as_pv("pv -q dir missing f >> f");
    ends(&outcome, 22, &format!("{told}{own}"), "");
    let outcome = as_pv("pv -q dir missing f g > /dev/full");
    ends(&outcome, 18, &format!("{told}{full}"), "");
}

#[test]
fn files_that_claim_to_be_empty_are_moved() {
    let outcome = as_pv("pv -q /proc/version");
    outcome.succeeds_with(std::fs::read("/proc/version").unwrap());
    let script = "pv -q /proc/self/status /sys/kernel/mm/transparent_hugepage/enabled | wc -l";
    assert!(run(script).stdout > b"10".to_vec());
}

#[test]
fn what_makes_its_bytes_is_an_input_too() {
    as_pv("pv -q -S -s 100000 /dev/zero").succeeds_with(vec![0; 100_000]);
    as_pv("pv -q /dev/null f").succeeds_with("hi\n");
    as_pv("pv -q < /dev/null > /dev/null").succeeds_with("");
    as_pv("pv -q /dev/null > /dev/null").succeeds_with("");
}

/// To look how much there is in it would open it, and then its writer would find no reader.
#[test]
fn a_named_pipe_is_opened_once() {
    let outcome = run("mkfifo p; cat f > p & pv -q p; wait");
    outcome.succeeds_with("hi\n");
    run("mkfifo p; cat f > p & pv -q p g -o out; wait; cat out").succeeds_with("hi\nthere\n");
    run("mkfifo p q; { cat f > p; cat g > q; } & pv -q p - q < empty; wait")
        .succeeds_with("hi\nthere\n");
    run("mkfifo p; cat f > p & pv -q -U s p; wait").succeeds_with("hi\n");
}
