//! Hard links of the source where the destination has none, or where they cannot be verified: each
//! name gets a file of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::passthrough_fs::{Faults, Inodes, Links, Mounted, Renames};
use file_systems::FileSystem;
use fuse::{counts, onto, said_by, without_links};

/// The message.
const LINKS: &str = "zc-dircopy: .: not all hard links could be made, or be told from other files: \
     such names are copied as files of their own\n";

fn link(trees: &Trees, from: &str, to: &str) {
    let to = trees.original(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::hard_link(trees.original(from), to).unwrap();
}

/// A file with four names, one with two, and one with one.
fn some_links(trees: &Trees) {
    trees.put("a/file", "of four names");
    for name in ["a/second", "b/third", "c"] {
        link(trees, "a/file", name);
    }
    trees.put("d/other", "of two").put("d/alone", "alone");
    link(trees, "d/other", "e/other");
    for name in ["a/file", "d/other", "d/alone"] {
        dated(&trees.original(name), 100);
    }
}

const NAMES: [&str; 7] = [
    "a/file", "a/second", "b/third", "c", "d/alone", "d/other", "e/other",
];

const COUNTS: [&str; 5] = ["copied", "linked", "links_copied", "skipped", "failed"];

fn run_with_json(trees: &Trees, options: &[&str]) -> Run {
    trees.run_aloud(&[&["--json"], options].concat())
}

/// The inode of each name below the FUSE mount.
fn inodes(directory: &Path) -> BTreeMap<PathBuf, u64> {
    let names = facts::copies_in(directory).into_iter();
    let inode = |name: &Path| fs::metadata(directory.join(name)).unwrap().ino();
    names.map(|name| (name.clone(), inode(&name))).collect()
}

/// Every name has a file of its own, which later runs leave.
#[track_caller]
fn names_become_files(trees: &Trees, said: &[&str]) {
    some_links(trees);
    let first = run_with_json(trees, &[]);
    assert_eq!((first.status, &said_by(&first)[..]), (0, said), "{first:?}");
    assert_eq!(counts(&first, &COUNTS), [7, 0, 4, 0, 0]);
    let whole = || {
        trees.sums().lists(&NAMES).holds_in(&trees.copy());
        trees.holds("b/third", "of four names");
        trees.holds("e/other", "of two");
        hides_nothing(&trees.copy());
    };
    whole();
    for options in [
        &[][..],
        &["--no-hash-skipped"],
        &["--overwrite-policy=update"],
        &["--verify-existing"],
        &["--overwrite-policy=never"],
    ] {
        let later = run_with_json(trees, options);
        assert_eq!(later.status, 0, "{options:?}: {later:?}");
        assert!(!later.stderr.contains("hard links could"), "{later:?}");
        assert_eq!(counts(&later, &COUNTS), [0, 0, 0, 7, 0], "{options:?}");
        whole();
    }
    // A name that comes later is one of them.
    link(trees, "a/file", "z");
    let later = run_with_json(trees, &[]);
    assert_eq!(counts(&later, &COUNTS), [1, 0, 1, 7, 0], "{later:?}");
    assert!(later.stderr.contains(LINKS), "{later:?}");
    trees.holds("z", "of four names");
}

#[test]
fn on_exfat_names_become_files_of_their_own() {
    if let Some(exfat) = FileSystem::exfat() {
        names_become_files(&onto(&exfat.path()), &[LINKS, fuse::MODES, fuse::NAMES]);
    }
}

/// Each name has an inode number of its own there.
#[test]
fn on_sshfs_names_become_files_of_their_own() {
    if let Some(sshfs) = FileSystem::sshfs() {
        names_become_files(&onto(&sshfs.path()), &[LINKS]);
    }
}

#[test]
fn where_links_fail_names_become_files_of_their_own() {
    for errno in ["EPERM", "EOPNOTSUPP", "ENOSYS", "EINVAL", "EXDEV", "EMLINK"] {
        let scratch = tempfile::tempdir_in(DISK).unwrap();
        let links = without_links(errno).links;
        let faults = Faults {
            links,
            ..Faults::default()
        };
        let Some(mounted) = Mounted::over(scratch.path(), faults) else {
            return;
        };
        names_become_files(&onto(&mounted.path()), &[LINKS]);
        // One number a file.
        let inodes = inodes(&scratch.path().join("dst"));
        let files: std::collections::BTreeSet<_> = inodes.values().collect();
        assert_eq!((inodes.len(), files.len()), (8, 8), "{errno}");
    }
}

#[test]
fn where_inode_numbers_prove_nothing_names_become_files_of_their_own() {
    for inodes in [Inodes::ByName, Inodes::Volatile] {
        for renames in [Renames::All, Renames::WithoutFlags] {
            let scratch = tempfile::tempdir_in(DISK).unwrap();
            let faults = Faults {
                renames,
                inodes,
                ..Faults::default()
            };
            let Some(mounted) = Mounted::over(scratch.path(), faults) else {
                return;
            };
            names_become_files(&onto(&mounted.path()), &[LINKS]);
            // Links could be made there, but none was left.
            let found = self::inodes(&scratch.path().join("dst"));
            let files: std::collections::BTreeSet<_> = found.values().collect();
            assert_eq!((found.len(), files.len()), (8, 8), "{faults:?}");
        }
    }
}

/// As many names of a file as there can be are links, and later ones are links to the next copy.
#[test]
fn a_copy_that_has_too_many_names_is_followed_by_another() {
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let faults = Faults {
        links: Links::AtMost(3),
        ..Faults::default()
    };
    let Some(mounted) = Mounted::over(scratch.path(), faults) else {
        return;
    };
    let trees = onto(&mounted.path());
    trees.put("0", "of eight names");
    for n in 1..8 {
        link(&trees, "0", &n.to_string());
    }
    let first = run_with_json(&trees, &[]);
    assert_eq!((first.status, first.stderr.as_str()), (0, LINKS));
    assert_eq!(counts(&first, &COUNTS), [3, 5, 2, 0, 0]);
    let found = inodes(&scratch.path().join("dst"));
    let number = |n: u32| found[Path::new(&n.to_string())];
    for (n, expected) in [0, 0, 0, 3, 3, 3, 6, 6].into_iter().enumerate() {
        assert_eq!(number(n as u32), number(expected), "{n}");
    }
    assert_ne!(number(0), number(3));
    assert_ne!(number(3), number(6));
    for options in [&[][..], &["--overwrite-policy=update"]] {
        let later = run_with_json(&trees, options);
        assert_eq!((later.status, later.stderr.as_str()), (0, ""), "{later:?}");
        assert_eq!(counts(&later, &COUNTS), [0, 0, 0, 8, 0]);
        assert_eq!(inodes(&scratch.path().join("dst")), found);
    }
    trees
        .sums()
        .is_whole(&trees.source())
        .holds_in(&trees.copy());
}

/// On a file system that is as it should be.
#[test]
fn the_summary_has_no_word_of_links_where_they_are_kept() {
    let trees = Trees::new();
    some_links(&trees);
    let run = trees.run_aloud(&[]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert!(!run.stdout.contains("hard link"), "{run:?}");
    trees.are_alike();
}

#[test]
fn the_summary_counts_links_that_have_become_files() {
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let faults = Faults {
        inodes: Inodes::ByName,
        ..Faults::default()
    };
    let Some(mounted) = Mounted::over(scratch.path(), faults) else {
        return;
    };
    let trees = onto(&mounted.path());
    some_links(&trees);
    let run = trees.run_aloud(&[]);
    let line = "\n4 hard links copied as files of their own\n";
    assert!(run.stdout.contains(line), "{run:?}");
    run.ended_with(0);
}
