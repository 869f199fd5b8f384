//! Judges copies by the files, and by one more run and a check: bags, trees with a history of ASC MHL,
//! and the copies of several destinations.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::node::{Kind, read_tree};
use super::{COPY, SOURCE, originals};
use crate::scenario::{Observed, Scenario};
use crate::scenarios::sha256;

/// The path of the link in the source, which `-L` makes a file.
pub(crate) const LINK: &str = "symbolic";
/// The original of the file that the link leads to.
const LINKED: &str = "sub/text";

/// The second destination of a run, in the program's directory.
pub(crate) const OTHER_COPY: &str = "other";

/// Checks a bag, even after a run that was killed.
pub(crate) fn check_bag(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, &[(COPY, "copy/data")])
}

/// Checks a tree with a history, even after a run that was killed.
pub(crate) fn check_history(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, &[(COPY, COPY)])
}

/// Checks both destinations, even after a run that was killed. If the run failed for one of them
/// alone, the other one is whole and listed before the next run.
pub(crate) fn check_destinations(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Some(other) = without_failure(observed) {
        let found = mistakes_without_failure(scenario, observed, other);
        wrong.extend(found.unwrap_or_else(|error| vec![format!("{error:#}")]));
    }
    let destinations = [(COPY, COPY), (OTHER_COPY, OTHER_COPY)];
    wrong.extend(check(scenario, observed, &destinations));
    wrong
}

/// Returns the destination that no message names, if the run ended by itself and each of its
/// messages, all of which are known, names the other one.
fn without_failure(observed: &Observed) -> Option<&'static str> {
    let status = observed.status.and_then(|status| status.code());
    let has_failed = status == Some(1) && observed.is_heard();
    let are_of = |destination: &str| {
        let prefix = format!("zc-dircopy: {destination}: ");
        let mut lines = observed.stderr.lines();
        lines.all(|line| line.starts_with(&prefix))
    };
    match (are_of(COPY), are_of(OTHER_COPY)) {
        (true, false) if has_failed => Some(OTHER_COPY),
        (false, true) if has_failed => Some(COPY),
        _ => None,
    }
}

/// Lists what is wrong in a destination for which no run has failed.
fn mistakes_without_failure(
    scenario: &Scenario,
    observed: &Observed,
    destination: &str,
) -> anyhow::Result<Vec<String>> {
    let mut wrong = mistakes_of_files(observed, destination, true)?;
    if !is_without_records(scenario, observed) {
        wrong.extend(mistakes_of_check(observed, destination)?);
    }
    let place = |mistake| format!("{destination}, for which the run has not failed: {mistake}");
    Ok(wrong.into_iter().map(place).collect())
}

/// Whether the files of a run had no records, of which it told, and the next run read no file that
/// was there.
fn is_without_records(scenario: &Scenario, observed: &Observed) -> bool {
    let had_none = observed.stderr.contains("cannot write the manifest");
    had_none && scenario.args.contains(&"--no-hash-skipped")
}

/// Checks destinations, each with the directory of its files.
fn check(scenario: &Scenario, observed: &Observed, destinations: &[(&str, &str)]) -> Vec<String> {
    let mistakes = mistakes(scenario, observed, destinations);
    mistakes.unwrap_or_else(|error| vec![format!("the copy cannot be checked: {error:#}")])
}

/// Lists what is wrong. This runs the program again, without a fault: a check of what a run without
/// an error has left, and else a run that completes it, before the check.
fn mistakes(
    scenario: &Scenario,
    observed: &Observed,
    destinations: &[(&str, &str)],
) -> anyhow::Result<Vec<String>> {
    let is_success = observed.status.is_some_and(|status| status.success());
    let mut wrong = mistakes_of_lines(observed)?;
    for (_, payload) in destinations {
        wrong.extend(mistakes_of_files(observed, payload, is_success)?);
    }
    if !is_success {
        let next = observed.run_again(&scenario.args)?;
        if !next.status.success() {
            let said = String::from_utf8_lossy(&next.stderr);
            wrong.push(format!("the next run fails: {said}"));
            return Ok(wrong);
        }
        wrong.extend(mistakes_of_lines(observed)?);
        for (_, payload) in destinations {
            wrong.extend(mistakes_of_files(observed, payload, true)?);
        }
    }
    if is_without_records(scenario, observed) {
        return Ok(wrong);
    }
    for (root, _) in destinations {
        wrong.extend(mistakes_of_check(observed, root)?);
    }
    Ok(wrong)
}

/// Runs `--check` on a destination.
fn mistakes_of_check(observed: &Observed, root: &str) -> anyhow::Result<Option<String>> {
    let checked = observed.run_again(&["--check", "--strict", "--quiet", root])?;
    let said = [checked.stdout, checked.stderr].concat();
    let said = || String::from_utf8_lossy(&said).into_owned();
    let is_right = checked.status.success();
    Ok((!is_right).then(|| format!("--check of {root} fails: {}", said())))
}

/// Compares the files below `payload` with the source. Each is whole or missing, and after a run
/// without an error none is missing.
fn mistakes_of_files(
    observed: &Observed,
    payload: &str,
    is_success: bool,
) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    let source = read_tree(&observed.dir().join(SOURCE))?;
    let mut expected: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for (name, original) in originals() {
        let found = source.get(&name);
        if found.is_none_or(|(node, _)| node.bytes != original.bytes) {
            wrong.push(format!("{} of the source has changed", name.display()));
        }
        if name == Path::new(LINKED) {
            expected.insert(LINK.into(), original.bytes.clone());
        }
        expected.insert(name, original.bytes);
    }
    let payload = observed.dir().join(payload);
    let copy = if payload.exists() {
        read_tree(&payload)?
    } else {
        BTreeMap::new()
    };
    for (name, bytes) in &expected {
        match copy.get(name) {
            Some((node, _)) if node.kind == Kind::File && node.bytes == *bytes => {}
            Some(_) => wrong.push(format!("{} is not the source's", name.display())),
            None if is_success => wrong.push(format!("{} is missing", name.display())),
            None => {}
        }
    }
    Ok(wrong)
}

/// Checks the digests of a bag without the help of the program: no line tells a false one, whatever
/// has ended the run. A history has no digests of SHA-256.
fn mistakes_of_lines(observed: &Observed) -> anyhow::Result<Vec<String>> {
    let bag = observed.dir().join(COPY);
    let manifest = bag.join("manifest-sha256.txt");
    if !manifest.exists() {
        return Ok(Vec::new());
    }
    let mut wrong = Vec::new();
    for line in fs::read_to_string(manifest)?.lines() {
        let Some((digest, path)) = line.split_once("  ") else {
            wrong.push(format!("the bag has a line without a path: {line}"));
            continue;
        };
        match fs::read(bag.join(path)) {
            Ok(bytes) if sha256(&bytes) == digest => {}
            Ok(_) => wrong.push(format!("the digest of {path} is false")),
            Err(error) => wrong.push(format!("{path} is listed, and cannot be read: {error}")),
        }
    }
    Ok(wrong)
}
