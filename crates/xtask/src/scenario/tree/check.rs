//! What `zc-dircopy --check` prints of a whole and of a damaged tree.

use std::path::Path;

use super::{COPY, DAMAGED, originals};
use crate::scenario::{Observed, STDOUT, Scenario};

/// Whether a file has the bytes that its line promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Whole,
    Damaged,
}

/// Checks a run on a tree in which every file is whole.
pub(crate) fn check_whole(_: &Scenario, observed: &Observed) -> Vec<String> {
    check(observed, &listed(|_| Condition::Whole))
}

/// Checks a run on a tree in which one file is damaged.
pub(crate) fn check_damaged(_: &Scenario, observed: &Observed) -> Vec<String> {
    check(observed, &listed(damage))
}

/// The standard output of a run that finds the damage, and meets no fault.
pub(crate) fn damaged_lines() -> String {
    let lines = listed(damage).into_iter().map(|(name, condition)| {
        let verdict = match condition {
            Condition::Whole => "OK",
            Condition::Damaged => "FAILED",
        };
        format!("{name}: {verdict}\n")
    });
    lines.collect()
}

/// The files of the manifest, in the order of its lines.
fn listed(condition: fn(&Path) -> Condition) -> Vec<(String, Condition)> {
    let names = originals().into_keys();
    names
        .map(|name| (name.display().to_string(), condition(&name)))
        .collect()
}

fn damage(name: &Path) -> Condition {
    if name == Path::new(DAMAGED) {
        Condition::Damaged
    } else {
        Condition::Whole
    }
}

fn check(observed: &Observed, listed: &[(String, Condition)]) -> Vec<String> {
    let stdout = observed.output(STDOUT);
    let stdout = String::from_utf8_lossy(stdout);
    let is_success = observed.status.is_some_and(|status| status.success());
    let stderr = observed.is_heard().then_some(&observed.stderr[..]);
    judge(&stdout, stderr, listed, is_success)
}

/// Compares the lines of standard output with the files that are listed. A failing run may leave
/// out the last ones. It may call a file unreadable, and then a message names that file. `stderr`
/// is `None` if messages may have been lost.
fn judge(
    stdout: &str,
    stderr: Option<&str>,
    listed: &[(String, Condition)],
    is_success: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !stdout.is_empty() && !stdout.ends_with('\n') {
        wrong.push("the last line of standard output is cut off".to_owned());
    }
    let n_lines = stdout.lines().count();
    if n_lines > listed.len() || is_success && n_lines < listed.len() {
        let n_listed = listed.len();
        wrong.push(format!("{n_lines} lines for {n_listed} files"));
    }
    for (line, (name, condition)) in stdout.lines().zip(listed) {
        let verdict = line.strip_prefix(&format!("{name}: ")[..]);
        match (verdict, condition) {
            (Some("OK"), Condition::Whole) | (Some("FAILED"), Condition::Damaged) => {}
            (Some("FAILED"), Condition::Whole) => {
                wrong.push(format!("a whole file is called damaged: {line}"));
            }
            (Some("OK"), Condition::Damaged) => {
                wrong.push(format!("a damaged file is called whole: {line}"));
            }
            (Some("FAILED open or read"), _) => {
                let message = format!("zc-dircopy: {COPY}/{name}: ");
                let is_told = |stderr: &str| stderr.lines().any(|line| line.starts_with(&message));
                if is_success || stderr.is_some_and(|stderr| !is_told(stderr)) {
                    wrong.push(format!("no message and no status tells why: {line}"));
                }
            }
            _ => wrong.push(format!("a line about {name} was to come: {line}")),
        }
    }
    if is_success
        && listed
            .iter()
            .any(|(_, condition)| *condition == Condition::Damaged)
    {
        wrong.push("a file is damaged, and the status is 0".to_owned());
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: [(&str, Condition); 2] = [("a", Condition::Whole), ("b", Condition::Whole)];
    const ONE_DAMAGED: [(&str, Condition); 2] =
        [("a", Condition::Whole), ("b", Condition::Damaged)];

    fn judged(stdout: &str, stderr: &str, files: &[(&str, Condition)], is_success: bool) -> usize {
        let listed = files
            .iter()
            .map(|(name, condition)| ((*name).to_owned(), *condition));
        judge(
            stdout,
            Some(stderr),
            &listed.collect::<Vec<_>>(),
            is_success,
        )
        .len()
    }

    #[test]
    fn verdicts_are_those_of_the_files() {
        assert_eq!(judged("a: OK\nb: OK\n", "", &WHOLE, true), 0);
        assert_eq!(judged("a: OK\nb: FAILED\n", "", &ONE_DAMAGED, false), 0);
        assert_eq!(judged("a: OK\nb: FAILED\n", "", &WHOLE, false), 1);
        assert_eq!(judged("a: OK\nb: OK\n", "", &ONE_DAMAGED, false), 1);
        assert_eq!(judged("a: OK\nb: OK\n", "", &ONE_DAMAGED, true), 2);
        assert_eq!(judged("a: OK\nb: FAILED\n", "", &ONE_DAMAGED, true), 1);
    }

    #[test]
    fn lines_are_whole_and_in_order() {
        assert_eq!(judged("a: OK\n", "", &WHOLE, false), 0);
        assert_eq!(judged("a: OK\n", "", &WHOLE, true), 1);
        assert_eq!(judged("b: OK\n", "", &WHOLE, false), 1);
        assert_eq!(judged("a: OK\nb: OK", "", &WHOLE, false), 1);
        assert_eq!(judged("a: OK\nb: OK\nb: OK\n", "", &WHOLE, false), 1);
    }

    #[test]
    fn a_message_names_each_file_that_could_not_be_read() {
        let stdout = "a: FAILED open or read\nb: OK\n";
        let stderr = "zc-dircopy: copy/a: Input/output error\n";
        assert_eq!(judged(stdout, stderr, &WHOLE, false), 0);
        assert_eq!(judged(stdout, "zc-dircopy: copy/b: I\n", &WHOLE, false), 1);
        assert_eq!(judged(stdout, stderr, &WHOLE, true), 1);
    }
}
