//! What must be true of a copy, whole or not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rustix::fs::lgetxattr;

use super::reports::Reports;
use super::{ATTRIBUTE, COPY, OLD, OLD_FILES, OLD_MODE, OLD_SECONDS, SOURCE, originals, sums};
use crate::scenario::{Observed, Scenario};

/// What stood in the destination before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// [`OLD_FILES`].
    OldFiles,
}

/// Whether the run writes a sum file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    Written,
    Omitted,
}

/// Checks a copy after a run that made no digests.
pub(crate) fn check_copy(_: &Scenario, observed: &Observed) -> Vec<String> {
    check(observed, Before::Nothing, Sums::Omitted)
}

/// Checks a copy after a run that made digests.
pub(crate) fn check_copy_and_sums(_: &Scenario, observed: &Observed) -> Vec<String> {
    check(observed, Before::Nothing, Sums::Written)
}

/// Checks a copy after a run that made digests and replaced an older copy of some files.
pub(crate) fn check_replaced_copy_and_sums(_: &Scenario, observed: &Observed) -> Vec<String> {
    check(observed, Before::OldFiles, Sums::Written)
}

fn check(observed: &Observed, before: Before, sums: Sums) -> Vec<String> {
    let mut wrong = Vec::new();
    if let Err(error) = compare(observed, before, sums, &mut wrong) {
        wrong.push(format!("the copy cannot be checked: {error:#}"));
    }
    wrong
}

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    kind: Kind,
    /// The bytes of a file, or the target of a symbolic link.
    bytes: Vec<u8>,
    mode: u32,
    modified: SystemTime,
    attribute: Option<Vec<u8>>,
}

/// The entries of a tree by their paths from its root, and the inode number of each. The root's
/// path is empty.
type Tree = BTreeMap<PathBuf, (Node, u64)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

/// What a run said of an entry.
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

fn compare(
    observed: &Observed,
    before: Before,
    sums: Sums,
    wrong: &mut Vec<String>,
) -> anyhow::Result<()> {
    let code = observed.status.and_then(|status| status.code());
    if code.is_some_and(|code| code > 1) {
        wrong.push("the status is neither 0 nor 1".to_owned());
    }
    let is_success = code == Some(0);
    let reports = Reports::new(&observed.stderr, observed.is_heard());
    let source = read_tree(&observed.dir().join(SOURCE))?;
    let copy = match observed.dir().join(COPY) {
        copy if copy.exists() => read_tree(&copy)?,
        _ => Tree::new(),
    };
    for (name, original) in originals() {
        if source
            .get(&name)
            .is_none_or(|(node, _)| node.bytes != original.bytes)
        {
            wrong.push(format!("{} of the source has changed", name.display()));
        }
    }
    // A file system that is said to have no attributes has none to be kept.
    let hides_attributes = observed.injected().iter().any(|call| {
        let is_listing = call.name.ends_with("listxattr");
        let is_reading = call.name.ends_with("getxattr");
        let says = |errno| call.text.contains(errno);
        is_listing && (says("EOPNOTSUPP") || says("ENOSYS")) || is_reading && says("ENODATA")
    });
    let mut whole = BTreeSet::new();
    for (name, (new, _)) in &source {
        let mut new = new.clone();
        let found = copy.get(name).map(|(found, _)| found);
        if hides_attributes && found.is_some_and(|found| found.attribute.is_none()) {
            new.attribute = None;
        }
        let verdict = if is_success {
            Verdict::Success
        } else {
            Verdict::Failure {
                names_failure: reports.name_failure_of(name),
                names_attribute: names_attribute(&reports, &copy, name),
            }
        };
        let old = (before == Before::OldFiles)
            .then(|| old_node(name))
            .flatten();
        let found_wrong = judge(&new, old.as_ref(), found, verdict);
        let shown = name.display();
        wrong.extend(
            found_wrong
                .into_iter()
                .map(|text| format!("{shown} {text}")),
        );
        // A message about a file that is whole may explain why it has no line.
        let is_whole =
            found.is_some_and(|found| found.kind == Kind::File && found.bytes == new.bytes);
        if is_whole
            && !matches!(
                verdict,
                Verdict::Failure {
                    names_failure: true,
                    ..
                }
            )
        {
            whole.insert(name.clone());
        }
    }
    let is_sum_file = |name: &Path| sums == Sums::Written && sums::is_sum_file(name);
    let left = copy
        .keys()
        .filter(|name| !source.contains_key(*name) && !is_sum_file(name));
    wrong.extend(left.map(|name| format!("{} was left behind", name.display())));
    if is_success {
        wrong.extend(compare_links(&source, &copy));
    }
    let sum_files: Vec<_> = copy.iter().filter(|(name, _)| is_sum_file(name)).collect();
    if sum_files.len() > 1 || is_success && sums == Sums::Written && sum_files.is_empty() {
        wrong.push(format!("there are {} sum files", sum_files.len()));
    }
    let files = copy.iter().filter(|(_, (node, _))| node.kind == Kind::File);
    let files = files
        .map(|(name, (node, _))| (name.clone(), node.bytes.clone()))
        .collect();
    for (_, (node, _)) in sum_files {
        let text = str::from_utf8(&node.bytes).context("a sum file")?;
        wrong.extend(sums::judge(text, &files, &whole));
    }
    Ok(())
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

/// Whether a message names this entry, or another name of its file, and an attribute that was not
/// kept. A directory that could not be filled keeps none.
fn names_attribute(reports: &Reports, copy: &Tree, name: &Path) -> bool {
    let Some((node, inode)) = copy.get(name) else {
        return false;
    };
    let mut names = copy.iter().filter(|(_, (_, other))| inode == other);
    names.any(|(name, _)| reports.name_attribute_of(name))
        || node.kind == Kind::Directory && reports.name_unused_directory(name)
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

fn read_tree(root: &Path) -> anyhow::Result<Tree> {
    let mut tree = Tree::new();
    let mut names = vec![PathBuf::new()];
    while let Some(name) = names.pop() {
        let path = root.join(&name);
        let (node, inode) = read_node(&path).with_context(|| path.display().to_string())?;
        if node.kind == Kind::Directory {
            for entry in fs::read_dir(&path)? {
                names.push(name.join(entry?.file_name()));
            }
        }
        tree.insert(name, (node, inode));
    }
    Ok(tree)
}

/// Reads an entry, and gives its inode number.
fn read_node(path: &Path) -> anyhow::Result<(Node, u64)> {
    let metadata = path.symlink_metadata()?;
    let kind = match metadata.file_type() {
        kind if kind.is_file() => Kind::File,
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    };
    let bytes = match kind {
        Kind::File => fs::read(path)?,
        Kind::Symlink => fs::read_link(path)?.as_os_str().as_bytes().to_vec(),
        Kind::Directory | Kind::Other => Vec::new(),
    };
    let mut value = [0; 64];
    let attribute = lgetxattr(path, ATTRIBUTE, &mut value[..]).ok();
    let node = Node {
        kind,
        bytes,
        mode: metadata.mode() & 0o7777,
        modified: metadata.modified()?,
        attribute: attribute.map(|n| value[..n].to_vec()),
    };
    Ok((node, metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Verdict = Verdict::Failure {
        names_failure: false,
        names_attribute: false,
    };
    const FAILED: Verdict = Verdict::Failure {
        names_failure: true,
        names_attribute: false,
    };
    const KEEPS_NOT_ALL: Verdict = Verdict::Failure {
        names_failure: false,
        names_attribute: true,
    };

    fn file(bytes: &[u8], mode: u32) -> Node {
        Node {
            kind: Kind::File,
            bytes: bytes.to_vec(),
            mode,
            modified: SystemTime::UNIX_EPOCH,
            attribute: Some(b"value".to_vec()),
        }
    }

    /// How many mistakes there are in a file that was `old` and should be `new`.
    fn n_wrong(found: Option<&Node>, verdict: Verdict) -> usize {
        let (new, old) = (file(b"new", 0o600), file(b"old", 0o640));
        judge(&new, Some(&old), found, verdict).len()
    }

    #[test]
    fn a_file_is_new_or_reported_and_old_but_never_missing() {
        let (new, old) = (file(b"new", 0o600), file(b"old", 0o640));
        for verdict in [Verdict::Success, SILENT, FAILED, KEEPS_NOT_ALL] {
            assert_eq!(n_wrong(Some(&new), verdict), 0, "{verdict:?}");
            assert_eq!(n_wrong(None, verdict), 1, "{verdict:?}");
            assert_eq!(n_wrong(Some(&file(b"ne", 0o600)), verdict), 1);
            let n = usize::from(verdict != FAILED);
            assert_eq!(n_wrong(Some(&old), verdict), n, "{verdict:?}");
        }
        assert_eq!(n_wrong(Some(&file(b"old", 0o600)), FAILED), 1);
    }

    #[test]
    fn a_file_that_was_not_there_is_missing_only_with_a_message() {
        let new = file(b"new", 0o600);
        for (verdict, n) in [(Verdict::Success, 1), (SILENT, 1), (FAILED, 0)] {
            assert_eq!(judge(&new, None, None, verdict).len(), n, "{verdict:?}");
        }
    }

    #[test]
    fn attributes_are_kept_or_reported_and_no_mode_is_laxer() {
        let new = file(b"new", 0o600);
        let without = Node {
            attribute: None,
            ..new.clone()
        };
        let later = Node {
            modified: SystemTime::now(),
            ..new.clone()
        };
        for found in [&without, &later, &file(b"new", 0o400)] {
            assert_eq!(n_wrong(Some(found), Verdict::Success), 1);
            assert_eq!(n_wrong(Some(found), SILENT), 1);
            assert_eq!(n_wrong(Some(found), KEEPS_NOT_ALL), 0);
        }
        for mode in [0o644, 0o700, 0o4600] {
            assert_eq!(n_wrong(Some(&file(b"new", mode)), KEEPS_NOT_ALL), 1);
        }
    }
}
