//! The manifest of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::scenarios::sha256;

/// Whether a path from the root of a copy is that of a manifest.
pub(super) fn is_manifest(name: &Path) -> bool {
    let is_in_root = name.parent() == Some(Path::new(""));
    let name = name.file_name().and_then(OsStr::to_str);
    let middle = name.and_then(|name| name.strip_prefix("shasum.")?.strip_suffix(".txt"));
    is_in_root && middle.is_some()
}

/// Whether a path from the root of a copy is that of a journal.
pub(super) fn is_journal(name: &Path) -> bool {
    let name = name.to_str();
    name.is_some_and(|name| name.starts_with(".zc-dircopy-journal-"))
}

/// Checks the comments of a manifest, and the digest in each line. `files` holds the possible
/// contents of each file that may have a line, and `must_list` the paths of the files that need a
/// line.
pub(super) fn judge(
    text: &str,
    files: &BTreeMap<PathBuf, Vec<Vec<u8>>>,
    must_list: &BTreeSet<PathBuf>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !text.starts_with("# zc-dircopy manifest, version 1\n") {
        wrong.push("the manifest has no header".to_owned());
    }
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let last_line = text
        .trim_end_matches('\n')
        .rfind('\n')
        .map_or(0, |end| end + 1);
    let (above, last) = text.split_at(last_line);
    let digest = sha256(above.as_bytes());
    if last != format!("# end: {} lines, sha256 {digest}\n", lines.len()) {
        wrong.push(format!("the manifest ends wrongly: {last}"));
    }
    let mut listed = BTreeSet::new();
    for line in lines {
        let Some((sum, name)) = line.split_once("  ") else {
            wrong.push(format!("the manifest has a line without a name: {line}"));
            continue;
        };
        match files.get(Path::new(name)) {
            Some(contents) if contents.iter().any(|bytes| sha256(bytes) == sum) => {}
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
        format!("{name} was copied, and has no line in the manifest")
    }));
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists what is wrong with a manifest of the files `a` and `b`, which both need a line.
    fn judged(lines: &[(&[u8], &str)], end: &str) -> Vec<String> {
        let files = [("a", b"one"), ("b", b"two")];
        let files: BTreeMap<_, _> = files
            .map(|(name, bytes)| (PathBuf::from(name), vec![bytes.to_vec()]))
            .into();
        let must_list = files.keys().cloned().collect();
        let lines = lines.iter();
        let lines = lines.map(|(bytes, name)| format!("{}  {name}", sha256(bytes)));
        let lines: String = lines.map(|line| line + "\n").collect();
        let above = format!("# zc-dircopy manifest, version 1\n{lines}");
        let digest = sha256(above.as_bytes());
        let n_lines = lines.lines().count();
        let end = end
            .replace("DIGEST", &digest)
            .replace('N', &n_lines.to_string());
        judge(&(above + &end), &files, &must_list)
    }

    /// The end of a whole manifest.
    const END: &str = "# end: N lines, sha256 DIGEST\n";

    #[test]
    fn each_line_has_the_digest_of_a_file_and_each_file_a_line() {
        assert_eq!(judged(&[(b"one", "a"), (b"two", "b")], END), [""; 0]);
        for (lines, end, expected) in [
            (&[(&b"one"[..], "a")][..], END, "b was copied, and has no"),
            (&[(b"one", "a"), (b"one", "b")], END, "the digest of b is"),
            (
                &[(b"one", "a"), (b"two", "b")],
                "# end: N lines, sha256 DIGES",
                "the manifest ends",
            ),
            (
                &[(b"one", "a"), (b"two", "b")],
                "# end: 3 lines, sha256 DIGEST\n",
                "the manifest ends",
            ),
            (
                &[(b"one", "a"), (b"two", "b")],
                "# end: N lines, sha256 0\n",
                "the manifest ends",
            ),
            (&[(b"two", "b"), (b"one", "a")], END, "the line of a is out"),
            (
                &[(b"one", "a"), (b"two", "b"), (b"two", "b")],
                END,
                "the line of b is out",
            ),
            (
                &[(b"one", "a"), (b"two", "b"), (b"", "c")],
                END,
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
        assert!(is_manifest("shasum.2026-01-01.00.00.00.txt".as_ref()));
        for other in ["sub/shasum.2026-01-01.00.00.00.txt", "shasum.part", "large"] {
            assert!(!is_manifest(other.as_ref()), "{other}");
        }
    }
}
