//! The sum file of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::scenarios::sha256;

/// Whether a path from the root of a copy is that of a sum file.
pub(super) fn is_sum_file(name: &Path) -> bool {
    let is_in_root = name.parent() == Some(Path::new(""));
    let name = name.file_name().and_then(OsStr::to_str);
    let middle = name.and_then(|name| name.strip_prefix("shasum.")?.strip_suffix(".txt"));
    is_in_root && middle.is_some()
}

/// Checks each line of a sum file against the regular files of the copy. `must_list` names the
/// files that need a line.
pub(super) fn judge(
    text: &str,
    files: &BTreeMap<PathBuf, Vec<u8>>,
    must_list: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.is_empty() && !text.ends_with('\n') {
        wrong.push("the last line of the sum file is cut off".to_owned());
    }
    let mut listed = BTreeSet::new();
    for line in text.lines() {
        let Some((sum, name)) = line.split_once("  ") else {
            wrong.push(format!("the sum file has a line without a name: {line}"));
            continue;
        };
        match files.get(Path::new(name)) {
            Some(bytes) if sha256(bytes) == sum => {}
            Some(_) => wrong.push(format!("the digest of {name} is false")),
            None => wrong.push(format!("{name} is listed, and does not exist")),
        }
        let name = PathBuf::from(name);
        if listed.last().is_some_and(|last| *last >= name) {
            wrong.push(format!("the line of {} is out of order", name.display()));
        }
        listed.insert(name);
    }
    let unlisted = must_list.difference(&listed);
    wrong.extend(unlisted.map(|name| {
        let name = name.display();
        format!("{name} was copied, and has no line in the sum file")
    }));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists what is wrong with a sum file of the files `a` and `b`, which both need a line.
    fn judged(lines: &[(&[u8], &str)], end: &str) -> Vec<String> {
        let files = [("a", b"one"), ("b", b"two")];
        let files: BTreeMap<_, _> = files
            .map(|(name, bytes)| (PathBuf::from(name), bytes.to_vec()))
            .into();
        let must_list = files.keys().cloned().collect();
        let lines = lines.iter();
        let lines = lines.map(|(bytes, name)| format!("{}  {name}", sha256(bytes)));
        judge(
            &(lines.collect::<Vec<_>>().join("\n") + end),
            &files,
            &must_list,
        )
    }

    #[test]
    fn each_line_has_the_digest_of_a_file_and_each_file_a_line() {
        assert_eq!(judged(&[(b"one", "a"), (b"two", "b")], "\n"), [""; 0]);
        for (lines, end, expected) in [
            (&[(&b"one"[..], "a")][..], "\n", "b was copied, and has no"),
            (&[(b"one", "a"), (b"one", "b")], "\n", "the digest of b is"),
            (&[(b"one", "a"), (b"two", "b")], "", "the last line"),
            (
                &[(b"two", "b"), (b"one", "a")],
                "\n",
                "the line of a is out",
            ),
            (
                &[(b"one", "a"), (b"two", "b"), (b"two", "b")],
                "\n",
                "the line of b is out",
            ),
            (
                &[(b"one", "a"), (b"two", "b"), (b"", "c")],
                "\n",
                "c is listed, and does not",
            ),
        ] {
            let wrong = judged(lines, end);
            assert_eq!(wrong.len(), 1, "{wrong:?}");
            assert!(wrong[0].starts_with(expected), "{wrong:?}");
        }
    }

    #[test]
    fn a_sum_file_lies_in_the_root() {
        assert!(is_sum_file("shasum.2026-01-01.00.00.00.txt".as_ref()));
        for other in ["sub/shasum.2026-01-01.00.00.00.txt", "shasum.part", "large"] {
            assert!(!is_sum_file(other.as_ref()), "{other}");
        }
    }
}
