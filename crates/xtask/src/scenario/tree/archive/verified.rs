//! The verdicts of `--check` on an archive.

use std::collections::BTreeMap;
use std::path::Path;

use super::file::Verdict;
use super::{LastRun, UNLISTED, files};
use crate::scenario::tree::COPY;
use crate::scenario::{Observed, STDOUT, Scenario};

/// Whether `--check` reports files that no manifest lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Lenient,
    Strict,
}

/// The ends of the lines on standard output.
const MATCHES: &str = "OK";
const DIFFERS: &str = "FAILED";
const UNREADABLE: &str = "FAILED open or read";
const NOT_LISTED: &str = "FAILED not listed";

/// Checks a run of `--check` on an archive in which a run was killed.
pub(crate) fn check_verified_archive(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, Strictness::Lenient)
}

/// Checks a run of `--check --strict` on such an archive.
pub(crate) fn check_strictly_verified_archive(
    scenario: &Scenario,
    observed: &Observed,
) -> Vec<String> {
    check(scenario, observed, Strictness::Strict)
}

/// The standard output of `--check` without faults.
pub(crate) fn verified_lines() -> String {
    print(&lines(Strictness::Lenient))
}

/// The standard output of `--check --strict` without faults.
pub(crate) fn strictly_verified_lines() -> String {
    print(&lines(Strictness::Strict))
}

fn print(lines: &[(&str, &str)]) -> String {
    let lines = lines
        .iter()
        .map(|(path, words)| format!("{path}: {words}\n"));
    lines.collect()
}

/// The paths and words of all lines.
fn lines(strictness: Strictness) -> Vec<(&'static str, &'static str)> {
    let files = files(LastRun::Killed);
    let lines = files.iter().filter_map(|file| {
        let words = match file.before.verdict()? {
            Verdict::Matches => MATCHES,
            Verdict::Differs => DIFFERS,
            Verdict::Missing => UNREADABLE,
        };
        Some((file.path, words))
    });
    let mut lines: Vec<_> = lines.collect();
    if strictness == Strictness::Strict {
        lines.push((UNLISTED, NOT_LISTED));
    }
    lines
}

fn check(scenario: &Scenario, observed: &Observed, strictness: Strictness) -> Vec<String> {
    if scenario.has_succeeded(observed) {
        return Vec::new();
    }
    let stdout = String::from_utf8_lossy(observed.output(STDOUT));
    let stderr = observed.is_heard().then_some(&observed.stderr[..]);
    let mut expected = lines(strictness);
    let is_denied = |path: &str| observed.is_denied(&Path::new(COPY).join(path));
    // A killed run may have made the files that its journal names, or not. A file without a record
    // may have gone.
    let may_be_gone = |path: &str| path.starts_with("j/") || path == UNLISTED;
    expected.retain(|(path, _)| !may_be_gone(path) || !is_denied(path));
    let mut lines: Vec<_> = stdout.split_inclusive('\n').collect();
    lines.retain(|line| {
        let path = line.split_once(": ").map_or(*line, |(path, _)| path);
        !may_be_gone(path) || !is_denied(path)
    });
    let mut wrong = judge(&lines.concat(), stderr, &expected);
    // The archive has had damaged files before the run.
    if observed.status.is_some_and(|status| status.success()) {
        wrong.push("files are damaged, and the status is 0".to_owned());
    }
    wrong
}

/// Compares the lines of a run under a fault with the true ones. The run may call a file
/// unreadable, or leave lines out, and then a message explains it. `stderr` is `None` if messages
/// may have been lost.
fn judge(stdout: &str, stderr: Option<&str>, expected: &[(&str, &str)]) -> Vec<String> {
    let mut wrong = Vec::new();
    if !stdout.is_empty() && !stdout.ends_with('\n') {
        wrong.push("the last line of standard output is cut off".to_owned());
    }
    let says = |text: &str| stderr.is_none_or(|stderr| stderr.contains(text));
    let is_explained = says("the manifest is damaged") || says("the manifest cannot be read");
    let expected: BTreeMap<_, _> = expected.iter().copied().collect();
    let mut found = BTreeMap::new();
    for line in stdout.lines() {
        let (path, words) = line.split_once(": ").unwrap_or((line, ""));
        let usual = expected.get(path).copied();
        let is_told = || says(&format!("zc-dircopy: {COPY}/{path}: "));
        let is_right = match words {
            words if Some(words) == usual => true,
            // An older manifest may have other digests.
            DIFFERS => is_explained && usual == Some(MATCHES) || path == UNLISTED,
            UNREADABLE => is_told(),
            // The manifest that lists it could not be read.
            NOT_LISTED => is_explained && usual.is_some(),
            // An older manifest may have the digest.
            MATCHES => is_explained && usual != Some(DIFFERS),
            _ => false,
        };
        if !is_right {
            let usual = usual.unwrap_or("no line");
            wrong.push(format!("{line}, instead of {usual}"));
        }
        if found.insert(path, words).is_some() {
            wrong.push(format!("two lines about {path}"));
        }
    }
    // A directory that cannot be read hides the files that no list has, and the message names it.
    let is_hidden = |path: &str, words: &str| {
        words == NOT_LISTED
            && Path::new(path).ancestors().skip(1).any(|directory| {
                let directory = Path::new(COPY).join(directory);
                let directory = directory.display();
                says(&format!(
                    "zc-dircopy: {directory}: cannot look for files that are not listed: "
                ))
            })
    };
    let missing = expected
        .iter()
        .find(|(path, words)| !found.contains_key(**path) && !is_hidden(path, words))
        .map(|(path, _)| path);
    // A message that is about no file explains why the whole run ended early.
    let is_about_file = |line: &str| {
        line.contains(": WARNING: ") || line.starts_with(&format!("zc-dircopy: {COPY}/"))
    };
    let is_cut = stderr.is_none_or(|stderr| !stderr.lines().all(is_about_file));
    if let Some(path) = missing
        && !is_explained
        && !is_cut
    {
        wrong.push(format!("no line about {path}, and no message tells why"));
    }
    wrong
}

/// Runs `--check` on the archive without faults, and returns the verdicts by path.
///
/// # Errors
///
/// A message is not about a file, or the status contradicts the verdicts.
pub(super) fn verify(observed: &Observed) -> anyhow::Result<BTreeMap<String, Verdict>> {
    let output = observed.run_again(&["--check", "--no-summary", COPY])?;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let mut verdicts = BTreeMap::new();
    for line in stdout.lines() {
        let (path, words) = line.split_once(": ").unwrap_or((line, ""));
        let verdict = match words {
            MATCHES => Verdict::Matches,
            DIFFERS => Verdict::Differs,
            UNREADABLE => Verdict::Missing,
            _ => anyhow::bail!("--check says: {line}"),
        };
        verdicts.insert(path.to_owned(), verdict);
    }
    let are_all_about_files = stderr.lines().all(|line| {
        let path = line.strip_prefix(&format!("zc-dircopy: {COPY}/")[..]);
        path.and_then(|rest| rest.split_once(": "))
            .is_some_and(|(path, _)| verdicts.get(path) == Some(&Verdict::Missing))
    });
    anyhow::ensure!(are_all_about_files, "--check says: {stderr}");
    let is_whole = verdicts
        .values()
        .all(|verdict| *verdict == Verdict::Matches);
    let expected = i32::from(!is_whole);
    anyhow::ensure!(
        output.status.code() == Some(expected),
        "--check ends with {} after {stdout}{stderr}",
        output.status
    );
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [(&str, &str); 3] = [("a", MATCHES), ("b", DIFFERS), ("c", UNREADABLE)];
    const C_IS_GONE: &str = "zc-dircopy: copy/c: No such file or directory\n";

    fn n_wrong(stdout: &str, stderr: &str) -> usize {
        judge(stdout, Some(&format!("{stderr}{C_IS_GONE}")), &LINES).len()
    }

    #[test]
    fn each_line_has_the_true_verdict() {
        let c = "c: FAILED open or read\n";
        assert_eq!(n_wrong(&format!("a: OK\nb: FAILED\n{c}"), ""), 0);
        assert_eq!(n_wrong(&format!("a: FAILED\nb: FAILED\n{c}"), ""), 1);
        assert_eq!(n_wrong(&format!("a: OK\nb: OK\n{c}"), ""), 1);
        assert_eq!(n_wrong("a: OK\nb: FAILED\nc: OK\n", ""), 1);
        assert_eq!(n_wrong(&format!("a: OK\nb: FAILED\n{c}d: OK\n"), ""), 1);
        assert_eq!(n_wrong(&format!("a: OK\na: OK\nb: FAILED\n{c}"), ""), 1);
    }

    #[test]
    fn a_message_about_a_directory_explains_files_that_were_not_looked_for() {
        let n_wrong = |directory: &str| {
            let cause = "cannot look for files that are not listed: Input/output error";
            let stderr = format!("zc-dircopy: {directory}: {cause}\n");
            judge("", Some(&stderr), &[("d/e/f", NOT_LISTED)]).len()
        };
        assert_eq!(n_wrong("copy/d/e"), 0);
        assert_eq!(n_wrong("copy/d"), 0);
        assert_eq!(n_wrong("copy/c"), 1);
        // A file that a list has is looked for by its name.
        let stderr = "zc-dircopy: copy/d: cannot look for files that are not listed: \
                      Input/output error\n";
        assert_eq!(judge("", Some(stderr), &[("d/e", MATCHES)]).len(), 1);
    }

    #[test]
    fn a_message_explains_what_could_not_be_read() {
        let lines = "a: FAILED open or read\nb: FAILED\nc: FAILED open or read\n";
        assert_eq!(n_wrong(lines, ""), 1);
        assert_eq!(
            n_wrong(lines, "zc-dircopy: copy/a: Input/output error\n"),
            0
        );
        let lines = "a: OK\n";
        assert_eq!(n_wrong(lines, ""), 1);
        assert_eq!(n_wrong(lines, "zc-dircopy: copy: Input/output error\n"), 0);
        let damaged =
            "zc-dircopy: copy/shasum.x.txt: the manifest is damaged: Input/output error\n";
        assert_eq!(n_wrong("a: FAILED\n", damaged), 0);
        // A rotten file is whole for no manifest.
        assert_eq!(n_wrong("a: OK\nb: OK\n", damaged), 1);
    }
}
