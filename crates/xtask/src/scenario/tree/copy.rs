//! Compares a copy, whole or not, with its source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::node::{Kind, Node, Tree, read_tree};
use super::reports::Reports;
use super::summary::Summary;
use super::{COPY, OLD, OLD_FILES, OLD_MODE, OLD_SECONDS, SOURCE, STALE, manifest, originals};
use crate::scenario::{Observed, STDOUT, Scenario};
use crate::strace::Call;

/// The calls by which a run finds and removes what a killed run left.
const SWEEP_CALLS: [&str; 7] = [
    "openat",
    "fstat",
    "newfstatat",
    "getdents64",
    "flock",
    "unlinkat",
    "lseek",
];

/// The contents of the destination before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// [`OLD_FILES`] and [`STALE`].
    OldFiles,
}

/// Whether the run writes a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    Written,
    Omitted,
}

/// Checks a copy after a run that made no digests.
pub(crate) fn check_copy(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, Before::Nothing, Sums::Omitted)
}

/// Checks a copy after a run that made digests.
pub(crate) fn check_copy_and_sums(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, Before::Nothing, Sums::Written)
}

/// Checks a copy after a run that made digests and replaced an older copy of some files.
pub(crate) fn check_replaced_copy_and_sums(
    scenario: &Scenario,
    observed: &Observed,
) -> Vec<String> {
    check(scenario, observed, Before::OldFiles, Sums::Written)
}

fn check(scenario: &Scenario, observed: &Observed, before: Before, sums: Sums) -> Vec<String> {
    match Outcome::read(observed, before, sums) {
        Ok(outcome) => {
            let lacks_summary = outcome.is_success() && outcome.summary.is_none();
            let mut wrong = outcome.mistakes();
            if lacks_summary && !scenario.args.contains(&"-q") {
                wrong.push("it printed no summary".to_owned());
            }
            wrong
        }
        Err(error) => vec![format!("the copy cannot be checked: {error:#}")],
    }
}

/// The status and messages of a run that concern one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// The status is 0, so that everything was copied.
    Success,
    Failure {
        /// A message names the entry, which was not copied.
        names_failure: bool,
        /// A message names the entry, and an attribute that was not kept.
        names_attribute: bool,
    },
}

/// A run, and what it left behind.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    reports: Reports,
    /// The counts on standard output, if they are there.
    summary: Option<Summary>,
    /// The calls that were made to fail.
    injected: Vec<Call>,
    /// Whether the copies of linked names may be files of their own.
    may_copy_links: bool,
    source: Tree,
    /// Empty if there is no copy.
    copy: Tree,
    before: Before,
    sums: Sums,
}

impl Outcome {
    fn read(observed: &Observed, before: Before, sums: Sums) -> anyhow::Result<Self> {
        let copy = observed.dir().join(COPY);
        let stdout = observed.output(STDOUT);
        Ok(Self {
            code: observed.status.and_then(|status| status.code()),
            reports: Reports::new(&observed.stderr, observed.is_heard()),
            summary: Summary::read(&String::from_utf8_lossy(stdout)),
            injected: observed.injected(),
            may_copy_links: observed.is_refused_hard_links(),
            source: read_tree(&observed.dir().join(SOURCE))?,
            copy: if copy.exists() {
                read_tree(&copy)?
            } else {
                Tree::new()
            },
            before,
            sums,
        })
    }

    fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// Lists what is wrong.
    fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.code.is_some_and(|code| code > 1) {
            wrong.push("the status is neither 0 nor 1".to_owned());
        }
        for (name, original) in originals() {
            let found = self.source.get(&name);
            if found.is_none_or(|(node, _)| node.bytes != original.bytes) {
                wrong.push(format!("{} of the source has changed", name.display()));
            }
        }
        for (name, (new, _)) in &self.source {
            let found = self.copy.get(name).map(|(found, _)| found);
            let mut new = new.clone();
            if self.hides_attributes() && found.is_some_and(|found| found.attribute.is_none()) {
                new.attribute = None;
            }
            let old = match self.before {
                Before::Nothing => None,
                Before::OldFiles => old_node(name),
            };
            let shown = match name.to_str() {
                Some("") => "the root".into(),
                _ => name.to_string_lossy(),
            };
            let mistakes = judge(&new, old.as_ref(), found, self.verdict(name));
            wrong.extend(mistakes.iter().map(|text| format!("{shown} {text}")));
        }
        wrong.extend(self.leftovers());
        if self.is_success() && !self.may_copy_links {
            wrong.extend(compare_links(&self.source, &self.copy));
        }
        wrong.extend(self.mistakes_of_sums());
        wrong.extend(self.mistakes_of_summary());
        wrong
    }

    /// Compares the counts of the summary, if there is one, with the files that were copied.
    fn mistakes_of_summary(&self) -> Vec<String> {
        let Some(summary) = self.summary else {
            return Vec::new();
        };
        let whole = self.source.iter().filter(|(name, (new, _))| {
            let found = self.copy.get(*name);
            let is_whole = found.is_some_and(|(found, _)| found.bytes == new.bytes);
            new.kind == Kind::File && is_whole
        });
        let sizes = whole.clone();
        // A name that could not be linked is a file of its own in the copy.
        let sizes = sizes.map(|(name, (new, _))| (self.copy[name].1, new.bytes.len()));
        let sizes: BTreeMap<_, _> = sizes.collect();
        let most = Summary {
            files: whole.clone().count(),
            copied: whole.count(),
            bytes: sizes.values().sum(),
            failed: self.reports.count().unwrap_or(summary.failed),
        };
        summary.mistakes(most, self.is_success())
    }

    fn verdict(&self, name: &Path) -> Verdict {
        if self.is_success() {
            return Verdict::Success;
        }
        Verdict::Failure {
            names_failure: self.reports.name_failure_of(name),
            names_attribute: self.names_attribute(name),
        }
    }

    /// Whether a message names this entry, or another name of its file, and an attribute that was
    /// not kept. A directory that could not be filled keeps none.
    fn names_attribute(&self, name: &Path) -> bool {
        let Some((node, inode)) = self.copy.get(name) else {
            return false;
        };
        let mut names = self.copy.iter().filter(|(_, (_, other))| inode == other);
        names.any(|(name, _)| self.reports.name_attribute_of(name))
            || node.kind == Kind::Directory && self.reports.name_unused_directory(name)
    }

    /// Whether the program was told that the source has no extended attributes.
    fn hides_attributes(&self) -> bool {
        self.injected.iter().any(|call| {
            let says = |errno| call.text.contains(errno);
            let lists_none = says("EOPNOTSUPP") || says("ENOSYS");
            call.name.ends_with("listxattr") && lists_none
                || call.name.ends_with("getxattr") && says("ENODATA")
        })
    }

    fn is_manifest(&self, name: &Path) -> bool {
        self.sums == Sums::Written && manifest::is_manifest(name)
    }

    /// Finds entries of the copy that the source has not. The run removes the hidden file of a
    /// killed run, unless a call that this takes fails, or the run does not begin.
    fn leftovers(&self) -> Vec<String> {
        let mut calls = self.injected.iter();
        let may_stay = calls.any(|call| SWEEP_CALLS.contains(&&call.name[..]))
            || self.reports.name_unused_directory(Path::new(""));
        let may_stay = may_stay && self.before == Before::OldFiles;
        // The journal stays if the manifest is lost, or if it cannot be removed.
        let journal_may_stay = self.reports.name_lost_manifest()
            || self.injected.iter().any(|call| call.name == "unlinkat");
        let names = self.copy.keys().filter(|name| {
            let is_excused = self.is_manifest(name)
                || may_stay && *name == Path::new(STALE)
                || journal_may_stay && manifest::is_journal(name);
            !self.source.contains_key(*name) && !is_excused
        });
        names
            .map(|name| format!("{} was left behind", name.display()))
            .collect()
    }

    /// Checks that one manifest lists every file that was copied, and nothing false. A run that
    /// fails may lose it, and then a message says so.
    fn mistakes_of_sums(&self) -> Vec<String> {
        if self.sums == Sums::Omitted {
            return Vec::new();
        }
        let mut copied = BTreeSet::new();
        for (name, (new, _)) in &self.source {
            let found = self.copy.get(name);
            let is_whole = found.is_some_and(|(found, _)| found.bytes == new.bytes);
            // A message about a file that is whole explains why it has no line.
            if new.kind == Kind::File
                && is_whole
                && (self.is_success() || !self.reports.name_failure_of(name))
            {
                copied.insert(name.clone());
            }
        }
        let files = self.copy.iter();
        let files = files.filter(|(_, (node, _))| node.kind == Kind::File);
        let files = files.map(|(name, (node, _))| (name.clone(), vec![node.bytes.clone()]));
        let files = files.collect();
        let mut found = self.copy.iter().filter(|(name, _)| self.is_manifest(name));
        let Some((_, (sum_file, _))) = found.next() else {
            let is_explained = copied.is_empty() || self.reports.name_lost_manifest();
            return if !self.is_success() && is_explained {
                Vec::new()
            } else {
                vec!["there is no manifest, and no message tells why".to_owned()]
            };
        };
        let text = String::from_utf8_lossy(&sum_file.bytes);
        let mut wrong = manifest::judge(&text, &files, &copied);
        if found.next().is_some() {
            wrong.push("there is more than one manifest".to_owned());
        }
        wrong
    }
}

/// Compares an entry of the copy with the source's, and with what stood there before: it is one of
/// them, with its own attributes, or a message names it. What is missing may not have been there.
fn judge(new: &Node, old: Option<&Node>, found: Option<&Node>, verdict: Verdict) -> Vec<String> {
    let (names_failure, names_attribute) = match verdict {
        Verdict::Success => (false, false),
        Verdict::Failure {
            names_failure,
            names_attribute,
        } => (names_failure, names_attribute),
    };
    let why = match verdict {
        Verdict::Success => "and the status is 0",
        Verdict::Failure { .. } => "and no message names it",
    };
    let Some(found) = found else {
        return if old.is_some() {
            vec!["has vanished".to_owned()]
        } else if names_failure {
            Vec::new()
        } else {
            vec![format!("is missing, {why}")]
        };
    };
    if found.kind != new.kind {
        return vec!["is of another type".to_owned()];
    }
    let mut wrong = Vec::new();
    if let Some(old) = old
        && found.bytes == old.bytes
    {
        if !names_failure {
            wrong.push(format!("was not replaced, {why}"));
        }
        if found != old {
            wrong.push("was not replaced, and its attributes have changed".to_owned());
        }
        return wrong;
    }
    if found.bytes != new.bytes {
        return vec!["has neither the source's contents nor the old ones".to_owned()];
    }
    let differences = [
        ("mode", found.mode != new.mode),
        ("time", found.modified != new.modified),
        ("extended attribute", found.attribute != new.attribute),
    ];
    for (what, differs) in differences {
        if differs && !names_attribute {
            wrong.push(format!("has another {what}, {why}"));
        }
    }
    // Its owner may do more with a file that was being written, or a directory that was filled.
    let of_owner = match new.kind {
        Kind::Directory => 0o700,
        _ => 0o600,
    };
    if found.mode & !(new.mode | of_owner) != 0 {
        wrong.push(format!("has the laxer mode {:o}", found.mode));
    }
    wrong
}

/// Finds names that are one file in the source and two in the copy, or the other way round.
fn compare_links(source: &Tree, copy: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    let names = originals().into_keys().collect::<Vec<_>>();
    for (nth, one) in names.iter().enumerate() {
        for other in &names[..nth] {
            let are_one = |tree: &Tree| Some(tree.get(one)?.1 == tree.get(other)?.1);
            if let (Some(before), Some(after)) = (are_one(source), are_one(copy))
                && before != after
            {
                let (one, other) = (one.display(), other.display());
                wrong.push(format!("{one} and {other} are not linked as in the source"));
            }
        }
    }
    wrong
}

/// The file of the older copy that has this name.
fn old_node(name: &Path) -> Option<Node> {
    let is_old = OLD_FILES.iter().any(|old| Path::new(old) == name);
    is_old.then(|| Node {
        kind: Kind::File,
        bytes: OLD.to_vec(),
        mode: OLD_MODE,
        modified: SystemTime::UNIX_EPOCH + Duration::from_secs(OLD_SECONDS),
        attribute: None,
    })
}

#[cfg(test)]
mod tests;
