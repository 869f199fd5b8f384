//! `zc-pv`.

use super::{LARGE, SMALL, explanations_count_what_arrived, pattern, sha256, text};
use crate::programs::Program;
use crate::scenario::{Observed, STDOUT, Scenario, Stdin, Stdout};

/// The program with these arguments.
fn pv(args: &[&'static str]) -> Scenario {
    Scenario::new(Program::Tool("zc-pv"), args)
}

pub(super) fn scenarios() -> Vec<Scenario> {
    let (small, large, text) = (&pattern(SMALL), &pattern(LARGE), &text(LARGE));
    let with_hole = &[&small[..], &vec![0; 100_000], small].concat();
    let cut = Stdin::File {
        bytes: large.clone(),
        cursor: 0,
    };
    let mut scenarios = vec![
        pv(&["-q", "a"])
            .file("a", large)
            .stdout(Stdout::File, large),
        pv(&["-q", "a"])
            .file("a", small)
            .stdout(Stdout::Pipe, small),
        pv(&["-q"])
            .stdin(Stdin::Pipe(large.clone()))
            .stdout(Stdout::Pipe, large),
        pv(&["-q"])
            .stdin(Stdin::Tcp(large.clone()))
            .stdout(Stdout::File, large),
        pv(&["-q", "a", "-", "b"])
            .file("a", small)
            .file("b", large)
            .stdin(Stdin::Pipe(text.clone()))
            .joins(Stdout::Unix, &[small, text, large]),
        pv(&["-f", "-p", "-t", "-e", "-r", "-a", "-b", "-T", "a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large),
        pv(&["-q", "-S", "-s", "100000"])
            .stdin(cut.clone())
            .stdout(Stdout::Pipe, &large[..100_000])
            .check(cursor_is_at_the_cut),
        pv(&["-q", "-S", "-s", "100000"])
            .stdin(cut)
            .stdout(Stdout::File, &large[..100_000])
            .check(cursor_is_at_the_cut),
        // The older output is longer.
        pv(&["-q", "-o", "out", "a"])
            .file("a", large)
            .file("out", &[&text[..], text].concat())
            .writes("out", large),
        pv(&["-q", "-U", "-", "a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large),
        pv(&["-q", "-U", "spool"])
            .stdin(Stdin::Pipe(large.clone()))
            .stdout(Stdout::Pipe, large),
        pv(&["-q", "-O", "a"])
            .file("a", with_hole)
            .stdout(Stdout::File, with_hole),
        pv(&["-q", "a"])
            .file("a", with_hole)
            .stdout(Stdout::File, with_hole),
        pv(&["-q", "-X", "a"]).file("a", large),
        pv(&["-f", "-l", "-b"])
            .stdin(Stdin::Pipe(text.clone()))
            .stdout(Stdout::File, text),
        pv(&["-q", "-l", "-S", "-s", "100"])
            .file("a", text)
            .stdin(Stdin::File {
                bytes: text.clone(),
                cursor: 0,
            })
            .stdout(Stdout::Pipe, &lines(text, 100)),
        pv(&["-f", "-F", "%b %{previous-line}", "-A", "10", "a"])
            .file("a", text)
            .stdout(Stdout::Pipe, text),
    ];
    for option in ["-C", "-E", "-Y", "-K", "--stable", "-B4096", "-J131072"] {
        scenarios.push(
            pv(&["-q", option, "a"])
                .file("a", large)
                .stdout(Stdout::File, large),
        );
        scenarios.push(
            pv(&["-q", option])
                .stdin(Stdin::Pipe(large.clone()))
                .stdout(Stdout::Pipe, large),
        );
    }
    scenarios.extend(reporting(small, large));
    scenarios
}

/// Scenarios in which the program tells numbers, or a digest.
fn reporting(small: &[u8], large: &[u8]) -> Vec<Scenario> {
    let mut scenarios = vec![
        pv(&["-n", "-b", "-i", "0.1", "-L", "1M"])
            .stdin(Stdin::Pipe(large.to_vec()))
            .stdout(Stdout::File, large)
            .check(last_number_counts_what_arrived),
        pv(&["-q", "-P", "pid", "a"])
            .file("a", small)
            .stdout(Stdout::File, small)
            .check(no_pid_file_stays),
        pv(&["-q", "--explain", "a", "b"])
            .file("a", large)
            .file("b", small)
            .joins(Stdout::Pipe, &[large, small])
            .check(explanations_count_what_arrived),
        pv(&["-q", "--hash", "sha256", "a"])
            .file("a", large)
            .stdout(Stdout::Pipe, large)
            .check(digest_is_that_of_the_output),
    ];
    for stdout in [Stdout::File, Stdout::Pipe, Stdout::Tcp] {
        let counted = pv(&["--json", "--per-file", "a", "b"]);
        let counted = counted.file("a", large).file("b", small);
        let counted = counted.joins(stdout, &[large, small]);
        scenarios.push(counted.check(json_counts_what_arrived));
    }
    scenarios
}

/// The first lines of a text.
fn lines(text: &[u8], n: usize) -> Vec<u8> {
    text.split_inclusive(|byte| *byte == b'\n')
        .take(n)
        .flatten()
        .copied()
        .collect()
}

/// Checks that the bytes behind the size at which a transfer stops stay for the next reader of the
/// same file.
fn cursor_is_at_the_cut(_: &Scenario, observed: &Observed) -> Vec<String> {
    let is_success = observed.status.is_some_and(|status| status.success());
    match observed.cursor {
        Some(100_000) => Vec::new(),
        Some(cursor) if is_success => vec![format!("the cursor is at {cursor} instead of 100000")],
        Some(_) | None => Vec::new(),
    }
}

/// The file with the process's number is gone with the process, unless it could not be read or
/// removed.
fn no_pid_file_stays(_: &Scenario, observed: &Observed) -> Vec<String> {
    let path = observed.dir().join("pid");
    let mut calls = observed.injected().into_iter();
    let may_stay = observed.status.is_none_or(|status| status.code().is_none())
        || calls.any(|call| call.paths(&observed.dir()).contains(&path));
    if may_stay || !path.exists() {
        return Vec::new();
    }
    vec!["the file with the number of the process stays".to_owned()]
}

/// With `-n -b` the last line is the number of bytes that have arrived, if the transfer succeeded.
fn last_number_counts_what_arrived(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let arrived = observed.output(STDOUT).len();
    let counts = observed.stderr.lines().filter_map(|line| line.parse().ok());
    let counts: Vec<usize> = counts.collect();
    let mut wrong = Vec::new();
    if counts.iter().any(|count| *count > arrived) {
        wrong.push(format!("it counted {counts:?}, and {arrived} arrived"));
    }
    if scenario.has_succeeded(observed) && observed.is_heard() && counts.last() != Some(&arrived) {
        wrong.push(format!("it ended with {:?} of {arrived}", counts.last()));
    }
    wrong
}

/// A digest is that of the bytes that have arrived, and a success tells one.
fn digest_is_that_of_the_output(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let arrived = observed.output(STDOUT);
    let expected = sha256(arrived);
    // After a failure the line does not name the input.
    let digest = |line: &'_ str| {
        let (digest, name) = line.split_once("  ")?;
        ["a", "-"].contains(&name).then(|| digest.to_owned())
    };
    match observed.stderr.lines().find_map(digest) {
        Some(digest) if digest != expected => vec![format!("the digest is not {expected}")],
        None if scenario.has_succeeded(observed) && observed.is_heard() => {
            vec!["it told no digest".to_owned()]
        }
        _ => Vec::new(),
    }
}

/// The last record counts the bytes that have arrived, also where the transfer failed. After a
/// success the records of the files add up to it.
fn json_counts_what_arrived(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let count = |line: &str| {
        let (_, count) = line.split_once("\"bytes\":")?;
        count.split([',', '}']).next()?.parse::<usize>().ok()
    };
    let arrived = observed.output(STDOUT).len();
    let is_success = scenario.has_succeeded(observed) && observed.is_heard();
    let lines = || observed.stderr.lines();
    let last = lines().rfind(|line| line.contains("\"over\":true"));
    let mut wrong = Vec::new();
    match last.and_then(count) {
        Some(count) if count != arrived => {
            wrong.push(format!("it counted {count} bytes, and {arrived} arrived"));
        }
        None if is_success => wrong.push("no record says that it is over".to_owned()),
        _ => {}
    }
    let files = lines().filter(|line| line.starts_with("{\"file\":"));
    let of_files: usize = files.filter_map(count).sum();
    if of_files > arrived || is_success && of_files != arrived {
        wrong.push(format!(
            "the files have {of_files} bytes, and {arrived} arrived"
        ));
    }
    wrong
}
