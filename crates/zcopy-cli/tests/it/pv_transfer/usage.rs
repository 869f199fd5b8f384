//! The command line: how options may be written, and what is said of those that may not.

use super::{as_pv, ends, run, run_pv};

const TRY_HELP: &str = "Try 'pv --help' for more information.\n";

/// It is refused with 64, in pv's words, and nothing is moved.
#[track_caller]
fn is_refused(script: &str, message: &str) {
    let ours = run(script);
    let all = format!("pv: {message}\n{TRY_HELP}");
    ends(&ours, 64, &all, "");
    // pv's opening quote is a grave accent there.
    if let Some(theirs) = run_pv(script) {
        let first = theirs.stderr.lines().next().unwrap_or_default();
        assert_eq!((first, theirs.status), (&all[..message.len() + 4], 64));
    }
}

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
    let error = "pv: invalid rate: ‘=5’\n";
    ends(&run("pv -q -L=5 f"), 64, error, "");
    if let Some(theirs) = run_pv("pv -q -L=5 f") {
        assert_eq!((theirs.status, &theirs.stdout[..]), (64, &b""[..]));
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
fn two_dashes_end_the_options() {
    as_pv("pv -q -- f").succeeds_with("hi\n");
    let error = "pv: -q: No such file or directory\n";
    ends(&as_pv("pv -q -- -q f"), 2, error, "hi\n");
    ends(&as_pv("POSIXLY_CORRECT=1 pv -q f -q"), 2, error, "hi\n");
}

#[test]
fn an_unknown_option_is_refused() {
    is_refused("pv --foo f", "unrecognized option '--foo'");
    is_refused("pv --foo=bar f", "unrecognized option '--foo=bar'");
    is_refused("pv -y f", "invalid option -- 'y'");
    is_refused("pv -qy f", "invalid option -- 'y'");
    is_refused("pv -q f -y -o f", "invalid option -- 'y'");
}

#[test]
fn a_value_too_many_or_too_few_is_refused() {
    is_refused(
        "pv --quiet=1 f",
        "option '--quiet' doesn't allow an argument",
    );
    is_refused("pv f --output", "option '--output' requires an argument");
    is_refused("pv f --outp", "option '--output' requires an argument");
    is_refused("pv f -o", "option requires an argument -- 'o'");
    is_refused("pv f -qL", "option requires an argument -- 'L'");
    is_refused("pv f -s", "option requires an argument -- 's'");
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
fn a_value_that_makes_no_sense_is_refused_in_the_words_of_gnu() {
    for (option, given, what) in [
        ("L", "x", "rate"),
        ("L", "-1", "rate"),
        ("L", "1.5.5", "rate"),
        ("L", "1X", "rate"),
        ("B", "x", "buffer size"),
        ("J", "1KX", "pipe size"),
        ("Z", "", "block size"),
        ("s", "x", "size"),
        ("s", "-1", "size"),
        ("A", "1K", "number of bytes"),
        ("A", "+1", "number of bytes"),
        ("w", "", "number of columns"),
        ("m", "1.5", "number of seconds"),
        ("w", "x", "number of columns"),
        ("H", "-1", "number of rows"),
        ("i", "x", "interval"),
        ("D", "1s", "delay"),
    ] {
        let script = format!("pv -{option} '{given}' -o f g");
        let outcome = run(&script);
        ends(
            &outcome,
            64,
            &format!("pv: invalid {what}: ‘{given}’\n"),
            "",
        );
        assert_eq!(outcome.files["f"], b"hi\n", "nothing is touched");
        // pv refuses the same values, with the same status.
        if let Some(theirs) = run_pv(&script) {
            assert_eq!((theirs.status, &theirs.files), (64, &outcome.files));
        }
    }
    for (options, what) in [
        ("-u wavy", "bar style: ‘wavy’"),
        ("-x nowhere", "extra display: ‘nowhere’"),
        ("--every 0 --on-progress :", "percentage: ‘0’"),
        ("--json=", "file or descriptor: ‘’"),
        ("--json=1", "descriptor: ‘1’: the bytes go there"),
        ("--json=99999999999", "descriptor: ‘99999999999’"),
    ] {
        let error = format!("pv: invalid {what}\n");
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

#[test]
fn help_goes_to_standard_output() {
    for script in ["pv -h", "pv --help", "pv -q f --hel"] {
        let outcome = run(script);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        let help = String::from_utf8(outcome.stdout).unwrap();
        for option in [
            "-o, --output <FILE>",
            "-L, --rate-limit <RATE>",
            "--hash <ALGORITHM>",
        ] {
            assert!(help.contains(option), "{option}: {help}");
        }
    }
    let outcome = run("pv -h > /dev/full");
    let error = "pv: write error: No space left on device\n";
    ends(&outcome, 1, error, "");
}

/// It said that something was missing, and not what.
#[test]
fn an_option_that_another_needs_is_named() {
    let error = "pv: --on-progress <COMMAND> expected\nTry 'pv --help' for more information.\n";
    ends(&run("pv -q --every 5 f"), 64, error, "");
}

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

#[test]
fn the_version_is_told() {
    let version = format!("zc-pv {}\n", env!("CARGO_PKG_VERSION"));
    run("pv -V").succeeds_with(&version);
    run("pv -q f --version").succeeds_with(&version);
}
