//! Names of every kind, written by one tool and verified by the other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;

/// Names that hold every byte that a name can, alone and among others.
fn every_byte() -> Vec<Vec<u8>> {
    (1..=255_u8)
        .filter(|byte| *byte != b'/')
        .flat_map(|byte| [vec![byte], vec![b'a', byte, b'z'], vec![b'\n', byte]])
        // These are directories, and standard input.
        .filter(|name| name != b"." && name != b"-")
        .collect()
}

/// What `sha256sum` writes of these files.
fn written_by(program: &Path, tree: &Tree, options: &[&str], names: &[Vec<u8>]) -> Vec<u8> {
    let output = Command::new(program)
        .args(options)
        .arg("--")
        .args(names.iter().map(|name| OsString::from_vec(name.clone())))
        .current_dir(tree.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn names_are_written_as_sha256sum_writes_them() {
    let names = every_byte();
    let mut tree = Tree::new();
    for name in &names {
        tree.add(name, name);
    }
    for (program, _) in sha256sums() {
        let theirs = written_by(&program, &tree, &[], &names);
        let lines = |bytes: &[u8]| -> Vec<String> {
            let lines = bytes.split(|byte| *byte == b'\n');
            lines.map(|line| line.escape_ascii().to_string()).collect()
        };
        assert_eq!(lines(&tree.sums), lines(&theirs), "{}", program.display());
    }
}

#[test]
fn sha256sum_verifies_what_is_written() {
    let mut tree = Tree::new();
    for name in every_byte() {
        tree.add(&name, &name);
    }
    tree.add("-", "a file, and not standard input");
    tree.verify().is_verified(255 * 3 - 3 - 2 + 1);
    for (program, version) in sha256sums() {
        let theirs = tree.verify_by(&program, &["--strict"]);
        assert_eq!(theirs.outcome, Outcome::Verified, "{}", theirs.stderr);
        if version >= (9, 12) {
            assert_eq!(tree.verify(), theirs, "names are quoted alike");
        }
    }
}

#[test]
fn what_sha256sum_writes_is_verified() {
    let names = every_byte();
    let mut tree = Tree::new();
    for name in &names {
        tree.put(OsString::from_vec(name.clone()), name);
    }
    for (program, _) in sha256sums() {
        for option in [&["--text"][..], &["--binary"], &["--tag"]] {
            tree.sums = written_by(&program, &tree, option, &names);
            tree.verify().is_verified(names.len());
        }
    }
}

#[test]
fn lines_that_end_in_cr_lf_are_lines() {
    let mut tree = Tree::new();
    let digest = sha256(b"x");
    tree.put("plain", "x").put("ends in cr\r", "x");
    tree.line(format!("{digest}  plain\r\n"))
        .line(format!("\\{digest}  ends in cr\\r\r\n"))
        .line("\r\n")
        .line(format!("SHA256 (plain) = {digest}\r\n"));
    tree.verify().is_verified(3);
    if let Some(program) = newest_sha256sum() {
        assert_eq!(tree.verify(), tree.verify_by(&program, &[]));
    }
}

/// Files by name, with what they hold.
fn files() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    let byte = prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b' '), 1_u8..];
    let name = vec(byte.prop_filter("ends a name", |byte| *byte != b'/'), 1..12);
    let name = name.prop_filter("has a meaning", |name| {
        !matches!(&name[..], b"." | b".." | b"-")
    });
    btree_map(name, vec(any::<u8>(), 0..20), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn either_tool_verifies_what_the_other_writes(files in files()) {
        let mut tree = Tree::new();
        for (name, bytes) in &files {
            tree.add(name, bytes);
        }
        tree.verify().is_verified(files.len());
        let names: Vec<Vec<u8>> = files.keys().cloned().collect();
        for (program, _) in sha256sums() {
            let theirs = tree.verify_by(&program, &["--strict"]);
            prop_assert_eq!(theirs.outcome, Outcome::Verified, "{}", theirs.stderr);
            let mut other = Tree { sums: written_by(&program, &tree, &[], &names), ..Tree::new() };
            std::mem::swap(&mut other.dir, &mut tree.dir);
            other.verify().is_verified(files.len());
            std::mem::swap(&mut other.dir, &mut tree.dir);
        }
    }
}
