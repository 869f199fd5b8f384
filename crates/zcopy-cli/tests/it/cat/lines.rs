//! What is put into every line: the time, and colours.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::child::{end_of, read_exactly, zc_cat};
use crate::pty::terminal;
use crate::script::run;

const TRY_HELP: &str = "Try 'cat --help' for more information.\n";

/// What appears on a terminal.
#[track_caller]
fn seen(command: &mut Command, expected: &str) {
    let (user, tty) = terminal();
    let child = command.stdin(Stdio::null()).stdout(tty).spawn().unwrap();
    let appeared = read_exactly(user, expected.len());
    assert_eq!(String::from_utf8_lossy(&appeared), expected);
    assert!(end_of(child).success());
}

/// `zc-cat` in a terminal that knows colours, with a file that holds `one\ntwo\n`.
fn in_colour(dir: &tempfile::TempDir) -> Command {
    std::fs::write(dir.path().join("f"), "one\ntwo\n").unwrap();
    let mut command = zc_cat();
    command
        .current_dir(dir.path())
        .env("TERM", "xterm")
        .env_remove("NO_COLOR");
    command
}

#[test]
fn the_time_stands_in_front_of_each_line_in_any_format() {
    run("cat --timestamp='at %%:' f g").succeeds_with("at %: hi\nat %: there\n");
    let outcome = run("cat --timestamp=%Y f");
    let text = String::from_utf8(outcome.stdout).unwrap();
    let year: i16 = text.strip_suffix(" hi\n").unwrap().parse().unwrap();
    let now = jiff::Zoned::now().year();
    assert!((now - 1..=now).contains(&year), "{text}");
}

#[test]
fn a_zone_with_daylight_saving_time_and_no_rules_is_that_of_date() {
    for zone in ["CET-1CEST", "XYZ5XYD", "XYZ-5", "<+0330>-3:30<+0430>"] {
        let expected = Command::new("date").arg("+%z").env("TZ", zone).output();
        let expected = String::from_utf8(expected.unwrap().stdout).unwrap();
        run(&format!("echo | TZ='{zone}' cat --timestamp=%z"))
            .succeeds_with(format!("{} \n", expected.trim()));
    }
}

#[test]
fn without_a_format_the_time_is_told_to_the_microsecond() {
    let outcome = run("TZ=UTC-05:30 cat --timestamp f");
    let text = String::from_utf8(outcome.stdout).unwrap();
    let shape: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '9' } else { c })
        .collect();
    assert_eq!(shape, "9999-99-99T99:99:99.999999+9999 hi\n");
    assert!(text.contains("+0530 hi"), "{text}");
    let outcome = run("TZ=UTC-05:30 cat --timestamp --utc f");
    assert!(
        String::from_utf8(outcome.stdout)
            .unwrap()
            .ends_with("+0000 hi\n")
    );
}

#[test]
fn time_and_number_stand_in_this_order_and_squeezed_lines_have_neither() {
    run("printf 'a\\n\\n\\n\\nb' | cat -sn --timestamp=T")
        .succeeds_with("T      1\ta\nT      2\t\nT      3\tb");
    run("printf 'a\\n' | cat -nE --timestamp=T --timestamp-delta")
        .succeeds_with("T     0.000000      1\ta$\n");
}

#[test]
fn a_part_of_a_line_is_written_at_the_end_of_all_operands() {
    run("printf one > a; cat --timestamp=T a f a").succeeds_with("T onehi\nT one");
    run("printf one > a; cat --timestamp=T a missing")
        .fails_after("T one", "cat: missing: No such file or directory\n");
}

#[test]
fn a_line_that_comes_later_tells_how_much_later_at_least() {
    let mut child = zc_cat()
        .arg("--timestamp-delta")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let stdout: OwnedFd = child.stdout.take().unwrap().into();
    let mut delta = |line: &[u8]| -> f64 {
        stdin.write_all(line).unwrap();
        let appeared = read_exactly(File::from(stdout.try_clone().unwrap()), 13 + line.len());
        let text = String::from_utf8(appeared).unwrap();
        text[..13].trim().parse().unwrap()
    };
    assert!(delta(b"a\n").abs() < f64::EPSILON);
    let between = Instant::now();
    while between.elapsed() < Duration::from_millis(2) {}
    let between = between.elapsed().as_secs_f64();
    assert!(delta(b"b\n") >= between - 0.000_001);
    drop(stdin);
    assert!(end_of(child).success());
}

#[test]
fn a_format_that_is_none_is_refused_before_anything_is_read() {
    let outcome = run("cat --timestamp='%!' f");
    assert_eq!((outcome.status, outcome.stdout.len()), (1, 0));
    assert!(outcome.stderr.contains("%!"), "{}", outcome.stderr);
    assert!(outcome.stderr.ends_with(TRY_HELP), "{}", outcome.stderr);
    run("cat --utc f").fails_with(&format!(
        "cat: option '--utc' requires '--timestamp'\n{TRY_HELP}"
    ));
}

#[test]
fn matches_are_coloured_and_nothing_else_changes() {
    run("cat --color=always --highlight='h.=red' f g")
        .succeeds_with("\x1b[31mhi\x1b[0m\nt\x1b[31mhe\x1b[0mre\n");
    run("cat --color=always --highlight='e=red' --highlight='r=bold' -n g")
        .succeeds_with("     1\tth\x1b[31me\x1b[0m\x1b[1mr\x1b[0m\x1b[31me\x1b[0m\n");
    run("printf '\\377\\376x\\200\\n' | cat --color=always --highlight='x=red'")
        .succeeds_with(b"\xff\xfe\x1b[31mx\x1b[0m\x80\n");
}

#[test]
fn patterns_see_what_was_read_and_not_what_is_shown() {
    run("printf 'a\\tb\\303\\251\\n' | cat -A --color=always --highlight='\\t=red' --highlight='é$=blue'")
        .succeeds_with("a\x1b[31m^I\x1b[0mb\x1b[34mM-CM-)\x1b[0m$\n");
    run("printf 'x\\n' | cat -nE --color=always --highlight='.*=red'")
        .succeeds_with("     1\t\x1b[31mx\x1b[0m$\n");
    run("printf 'a\\n\\n\\nb\\r\\n' | cat -sbE --color=always --highlight='[ab]=red'")
        .succeeds_with("     1\t\x1b[31ma\x1b[0m$\n$\n     2\t\x1b[31mb\x1b[0m^M$\n");
}

#[test]
fn levels_of_logs_are_coloured() {
    let outcome =
        run("echo '2026-11-21T18:14:38Z ERROR it failed' | cat --color=always --highlight=log");
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(
        text.contains("\x1b[2m2026-11-21T18:14:38Z\x1b[0m"),
        "{text:?}"
    );
    assert!(text.contains("31mERROR\x1b[0m it failed\n"), "{text:?}");
}

#[test]
fn colours_appear_on_a_terminal_alone() {
    let dir = tempfile::tempdir().unwrap();
    let coloured = "one\r\n\x1b[31mtwo\x1b[0m\r\n";
    let plain = "one\r\ntwo\r\n";
    seen(in_colour(&dir).args(["--highlight=two=red", "f"]), coloured);
    seen(
        in_colour(&dir)
            .args(["--highlight=two=red", "f"])
            .env("NO_COLOR", "1"),
        plain,
    );
    seen(
        in_colour(&dir)
            .args(["--highlight=two=red", "f"])
            .env("NO_COLOR", ""),
        coloured,
    );
    seen(
        in_colour(&dir)
            .args(["--highlight=two=red", "f"])
            .env("TERM", "dumb"),
        plain,
    );
    let never = ["--highlight=two=red", "--color=never", "f"];
    seen(in_colour(&dir).args(never), plain);
    let always = ["--highlight=two=red", "--color=always", "f"];
    seen(in_colour(&dir).args(always).env("NO_COLOR", "1"), coloured);
    let piped = in_colour(&dir)
        .args(["--highlight=two=red", "f"])
        .output()
        .unwrap();
    assert_eq!(piped.stdout, b"one\ntwo\n");
}

#[test]
fn a_pattern_or_a_style_that_is_none_is_refused_before_anything_is_read() {
    for option in [
        "--highlight='('=red",
        "--highlight=x=purplish",
        "--highlight=always",
        "--color=always --highlight='('=red",
    ] {
        let outcome = run(&format!("cat {option} f"));
        assert_eq!((outcome.status, outcome.stdout.len()), (1, 0), "{option}");
        assert!(outcome.stderr.starts_with("cat: "), "{}", outcome.stderr);
    }
    run("cat --highlight").fails_with(&format!(
        "cat: option '--highlight' requires an argument: --highlight=<SPEC>\n{TRY_HELP}"
    ));
    run("cat --highlight=red f").fails_with(&format!(
        "cat: invalid highlight: ‘red’: neither PATTERN=STYLE nor log\n{TRY_HELP}"
    ));
    let outcome = run("cat --color=sometimes f");
    assert!(
        outcome
            .stderr
            .starts_with("cat: invalid argument ‘sometimes’ for ‘--color’\n"),
        "{}",
        outcome.stderr
    );
}

/// Patterns and presets were arguments of `--color`.
#[test]
fn a_pattern_in_the_place_of_a_time_to_colour_names_the_option_for_patterns() {
    for value in ["log", "ERROR=red", "'(\\d+) warnings?=bold,yellow'"] {
        let outcome = run(&format!("cat --color={value} f"));
        assert_eq!((outcome.status, outcome.stdout.len()), (1, 0), "{value}");
        let hint = "\nPatterns and log are arguments of --highlight\n";
        assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
        let words = format!("cat: invalid argument ‘{}’", value.trim_matches('\''));
        let words = words.replace('\\', "\\\\");
        assert!(outcome.stderr.starts_with(&words), "{}", outcome.stderr);
    }
    let outcome = run("cat --color=sometimes f");
    assert!(!outcome.stderr.contains("highlight"), "{}", outcome.stderr);
}

#[test]
fn the_words_for_a_time_to_colour_are_those_of_ls() {
    let coloured = "\x1b[31mhi\x1b[0m\n";
    for (options, shown) in [
        ("", "hi\n"),
        ("--color", coloured),
        ("--color=always", coloured),
        ("--color=yes", coloured),
        ("--color=force", coloured),
        ("--color=auto", "hi\n"),
        ("--color=tty", "hi\n"),
        ("--color=never", "hi\n"),
        ("--color=none", "hi\n"),
        ("--color=never --color", coloured),
        ("--color --color=never", "hi\n"),
        ("--col=al", coloured),
    ] {
        run(&format!("cat {options} --highlight=hi=red f")).succeeds_with(shown);
        // GNU's ls takes the same words, and colours in the same cases.
        let script = format!("LS_COLORS='di=01;31' ls -d {options} dir");
        let listed = run(&script);
        let is_coloured = listed.stdout.contains(&b'\x1b');
        assert_eq!(is_coloured, shown == coloured, "{script}");
    }
    // Where there is nothing to highlight, nothing is coloured.
    run("cat --color=always f").succeeds_with("hi\n");
    run("cat --color -n f").succeeds_with("     1\thi\n");
}

#[test]
fn the_preset_for_logs_knows_failures_and_priorities() {
    for (line, shown) in [
        ("WRN a", "\x1b[1;33mWRN\x1b[0m a\n"),
        ("DBG a", "\x1b[1;34mDBG\x1b[0m a\n"),
        ("FTL a", "\x1b[1;31mFTL\x1b[0m a\n"),
        ("TRC a", "\x1b[1;34mTRC\x1b[0m a\n"),
        ("BUG: a", "\x1b[1;31mBUG\x1b[0m: a\n"),
        ("panic: a", "\x1b[1;31mpanic\x1b[0m: a\n"),
        ("Traceback a", "\x1b[1;31mTraceback\x1b[0m a\n"),
        ("--- FAIL: a", "--- \x1b[1;31mFAIL\x1b[0m: a\n"),
        ("<3>a", "\x1b[1;31m<3>\x1b[0ma\n"),
        (
            "<4>[    1.000000] a",
            "\x1b[1;33m<4>\x1b[0m\x1b[2m[    1.000000]\x1b[0m a\n",
        ),
    ] {
        let script = format!("echo '{line}' | cat --color --highlight=log");
        run(&script).succeeds_with(shown);
    }
}

#[test]
fn a_line_that_is_longer_than_memory_is_no_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("line");
    File::create(&path).unwrap().set_len(48 << 20).unwrap();
    let log = ["-v", "--highlight=log", "--color=always"];
    for options in [&["-A"][..], &["-ns"], &["--timestamp=T"], &log] {
        // In KiB, of everything that is written to and not shared.
        let script = "ulimit -d 32000; \"$@\" | wc -c";
        let output = Command::new("sh")
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_zc-cat")])
            .args(options)
            .arg(&path)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{options:?}");
        let n: u64 = String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        assert!(n >= 48 << 20, "{options:?}: {n}");
    }
}
