//! The command line: how options may be written, and what is said of those that may not.

use super::{as_pv, ends, run, run_pv};
use crate::script::PV;

#[test]
fn options_may_be_shortened_combined_repeated_and_follow_operands() {
    for script in [
        "pv f g -q -S -s 4",
        "pv -qSs4 f g",
        "pv -qSs 4 f g",
        "pv -Sqs4 f g",
        "pv --quiet --stop-at-size --size=4 f g",
        "pv --quie --stop --siz 4 f g",
        "pv f --qui g --size 4 --stop-at",
        "pv -q -q -s 9 -s 4 -S f g",
        "pv -q --o - -s 4 -S f g",
        "pv -q --ex process -s 4 -S f g",
    ] {
        as_pv(script).succeeds_with("hi\nt");
    }
}

#[test]
fn the_sign_after_a_short_option_belongs_to_its_value() {
    for (script, name) in [
        ("pv -fb -N=x f", "=x"),
        ("pv -fbN=x f", "=x"),
        ("pv -fbN= f", "="),
        ("pv -fb --name=x f", "x"),
        ("pv -fb -N -N=x f", "-N=x"),
    ] {
        let shown = format!("{name:>9}: 3.00  B");
        let theirs = run_pv(script);
        for outcome in [Some(run(script)), theirs].into_iter().flatten() {
            assert_eq!((outcome.status, &outcome.stdout[..]), (0, &b"hi\n"[..]));
            let line = outcome.stderr.trim();
            assert_eq!(line, shown.trim(), "{script}");
        }
    }
    let error = "pv: -L: '=5': numeric value not understood\n";
    ends(&run("pv -q -L=5 f"), 64, error, "");
    if let Some(theirs) = run_pv("pv -q -L=5 f") {
        ends(&theirs, 64, &error.replace('\'', ""), "");
    }
    // Here the sign says that a name follows: no process has it, and nothing is watched.
    ends(&as_pv("pv -d=no-such-process"), 0, "", "");
}

#[test]
fn sparse_has_the_second_name_that_pv_gives_it() {
    for option in ["-O", "--sparse", "--sparse-output", "--spars", "--sparse-o"] {
        as_pv(&format!("pv -q {option} f")).succeeds_with("hi\n");
    }
}

#[test]
fn a_value_that_is_missing_is_refused() {
    PV.refuses("pv f --output", "option '--output' requires an argument");
    PV.refuses("pv f --outp", "option '--output' requires an argument");
    PV.refuses("pv f -o", "option requires an argument -- 'o'");
    PV.refuses("pv f -qL", "option requires an argument -- 'L'");
    PV.refuses("pv f -s", "option requires an argument -- 's'");
}

#[test]
fn an_option_that_could_be_several_is_refused() {
    let said = "option '--st' is ambiguous; possibilities: '--stats' '--stop-at-size' '--store-and-forward'";
    let outcome = run("pv --st -q f");
    assert_eq!(outcome.status, 64);
    let words = outcome.stderr.lines().next().unwrap().split(' ');
    // Ours has one more.
    let words: Vec<_> = words.filter(|word| *word != "'--stable'").collect();
    assert_eq!(words.join(" "), format!("pv: {said}"));
    if let Some(theirs) = run_pv("pv --st -q f") {
        assert!(theirs.stderr.starts_with(&format!("pv: {said}\n")));
    }
}

#[test]
fn invalid_values_are_refused_in_the_words_of_pv() {
    const SIZE: &str = "numeric value not understood";
    const SECONDS: &str = "numeric argument expected";
    const INTEGER: &str = "integer argument expected";
    for (option, given, complaint) in [
        ("-L", "x", SIZE),
        ("-L", "-1", SIZE),
        ("-L", "1.5.5", SIZE),
        ("-L", "1X", SIZE),
        ("-L", "@f", SIZE),
        ("-B", "x", SIZE),
        ("-J", "1KX", SIZE),
        ("-Z", "x", SIZE),
        ("-s", "x", SIZE),
        ("-s", "-1", SIZE),
        ("--size", "x", SIZE),
        ("-A", "1K", INTEGER),
        ("-A", "+1", INTEGER),
        ("-m", "1.5", INTEGER),
        ("-w", "x", INTEGER),
        ("-w", "-4", INTEGER),
        ("-H", "-1", INTEGER),
        ("-i", "x", SECONDS),
        ("--interval", "-1", SECONDS),
        ("-D", "1s", SECONDS),
        ("-D", ".5", SECONDS),
        ("-i", ".1", SECONDS),
        ("-i", "1e1", SECONDS),
        ("-i", "+1", SECONDS),
        ("-L", ".1", SIZE),
        ("-m", ".5", INTEGER),
        ("-M", "x", "invalid side specification"),
    ] {
        let letter = match option {
            "--size" => "-s",
            "--interval" => "-i",
            letter => letter,
        };
        let script = format!("pv {option} '{given}' -o f g");
        let outcome = as_pv(&script);
        ends(
            &outcome,
            64,
            &format!("pv: {letter}: {given}: {complaint}\n"),
            "",
        );
        assert_eq!(outcome.files["f"], b"hi\n", "nothing is touched");
    }
    for (options, error) in [
        (
            "--on-progress true --every -5",
            "-5: percentage above 0 and up to 100 expected",
        ),
        ("--every 5", "--on-progress must be specified"),
    ] {
        let error = format!("pv: --every: {error}\n");
        ends(&run(&format!("pv {options} f")), 64, &error, "");
    }
    for option in ["-R", "-Q"] {
        let error = format!("pv: {option}: x: {INTEGER}\n");
        ends(&as_pv(&format!("pv {option} x")), 64, &error, "");
    }
    for (operand, error) in [
        ("x", "-d: process ID or pid:fd pair expected"),
        ("0", "-d: invalid process ID"),
        ("2147483647 x", "x: process ID or pid:fd pair expected"),
        ("2147483647 0", "0: invalid process ID"),
    ] {
        let error = format!("pv: {error}\n");
        ends(&as_pv(&format!("pv -d {operand}")), 64, &error, "");
    }
}

/// pv quotes nothing.
#[test]
fn invalid_values_are_quoted_as_names_are() {
    for (given, shown) in [("", "''"), ("a b", "'a b'"), ("\t", "''$'\\t'")] {
        let script = format!("pv -w '{given}' f");
        let error = format!("pv: -w: {shown}: integer argument expected\n");
        ends(&run(&script), 64, &error, "");
        if let Some(theirs) = run_pv(&script) {
            let error = format!("pv: -w: {given}: integer argument expected\n");
            ends(&theirs, 64, &error, "");
        }
    }
}

#[test]
fn invalid_values_of_options_that_pv_does_not_check_are_refused() {
    for (options, error) in [
        ("-u wavy", "-u: wavy: invalid bar style"),
        ("-x nowhere", "-x: nowhere: invalid extra display"),
        (
            "--every 0 --on-progress :",
            "--every: 0: percentage above 0 and up to 100 expected",
        ),
        ("--json=", "--json: '': file or descriptor expected"),
        (
            "--json=1",
            "--json: 1: invalid descriptor: the bytes go there",
        ),
        (
            "--json=99999999999",
            "--json: 99999999999: invalid descriptor",
        ),
    ] {
        let error = format!("pv: {error}\n");
        ends(&run(&format!("pv {options} f")), 64, &error, "");
    }
    let valid =
        "Valid arguments are:\n  - ‘sha256’\n  - ‘blake3’\nTry 'pv --help' for more information.\n";
    let error = format!("pv: invalid argument ‘md5’ for ‘--hash’\n{valid}");
    ends(&run("pv --hash md5 f"), 64, &error, "");
    let error = format!("pv: ambiguous argument ‘’ for ‘--hash’\n{valid}");
    ends(&run("pv --hash '' f"), 64, &error, "");
}

#[test]
fn a_number_that_is_too_large_is_the_largest() {
    for option in ["A", "m", "w", "H"] {
        for given in ["70000", "99999999999", "99999999999999999999999", " 80"] {
            // pv itself moves nothing with some of them.
            run(&format!("pv -{option} '{given}' f")).succeeds_with("hi\n");
        }
    }
}

#[test]
fn a_size_that_cannot_be_had_is_refused() {
    let error = "pv: missing: No such file or directory\n";
    ends(&as_pv("pv -q -s @missing f"), 64, error, "");
}

/// It said that something was missing, and not what.
#[test]
fn every_option_of_pvs_help_is_there_but_those_that_come_later() {
    let Some(theirs) = run_pv("pv -h") else {
        return;
    };
    let ours = String::from_utf8(run("pv -h").stdout).unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    let words = theirs.split(|c: char| c.is_whitespace() || c == ',');
    for option in words.filter(|word| word.starts_with('-') && word.len() > 1) {
        if matches!(option, "-M" | "--monitor") {
            continue;
        }
        let ours = ours.replace("...", "");
        let is_word = |c: char| c.is_whitespace() || c == ',';
        assert!(ours.split(is_word).any(|word| word == option), "{option}");
    }
}

#[test]
fn every_sequence_of_pvs_help_is_there() {
    let Some(theirs) = run_pv("pv -h") else {
        return;
    };
    let ours = String::from_utf8(run("pv -h").stdout).unwrap();
    let theirs = String::from_utf8(theirs.stdout).unwrap();
    let sequences = theirs
        .split_whitespace()
        .filter(|word| word.starts_with('%'));
    assert!(sequences.clone().count() > 20);
    for sequence in sequences {
        let mut words = ours.split_whitespace();
        assert!(words.any(|word| word == sequence), "{sequence}");
    }
}
