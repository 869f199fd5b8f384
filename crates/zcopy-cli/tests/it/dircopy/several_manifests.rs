//! Trees with manifests of several kinds, all of which are checked.

use super::*;

const BAG: &str = "--manifest=bagit";
const HISTORY: &str = "--manifest=ascmhl";
const SUMS: &str = "--manifest=sha256sum";

#[test]
fn damage_that_one_kind_of_manifest_shows_fails_a_check() {
    let trees = Trees::new();
    trees.put("one", "one").put("two", "two");
    trees.succeeds(&[HISTORY]).succeeds(&[]);
    trees.check(&["--quiet"]).is_quiet();
    trees.check(&["--quiet", "--strict"]).is_quiet();
    // The lists of sums have a newer version, and the history has the first one.
    trees.put("one", "newer");
    trees.succeeds(&[]);
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "one: FAILED\n"));
    trees.check(&["--quiet", SUMS]).is_quiet();
    assert_eq!(trees.check(&["--quiet", HISTORY]).status, 1);

    let run = trees.check(&["--silent"]);
    let told = [SUMS, HISTORY].map(|kind| format!("dst verifying against {kind}"));
    let lines = run.stderr.lines();
    let lines: Vec<_> = lines.filter(|line| line.contains("verifying")).collect();
    for (line, told) in lines.iter().zip(&told) {
        assert!(told.split(' ').all(|word| line.contains(word)), "{run:?}");
    }
    assert_eq!(lines.len(), 2, "{run:?}");
}

#[test]
fn a_bag_and_lists_of_sums_are_both_checked() {
    let trees = Trees::new();
    trees.put("one", "one");
    trees.succeeds(&[BAG]);
    trees.put("beside", "beside");
    trees.succeeds(&["--exclude=one"]);
    trees.check(&["--quiet"]).is_quiet();
    // Only the bag lists it.
    trees.put_copy("data/one", "0ne");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "data/one: FAILED\n"));
    // Only the lists of sums have it.
    trees.put_copy("data/one", "one").put_copy("beside", "");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "beside: FAILED\n"));
}

/// It once hid the history, which `--check` did not find any more.
#[test]
fn a_declaration_alone_makes_no_bag() {
    let trees = Trees::new();
    trees.put("one", "one");
    trees.succeeds(&[HISTORY]);
    let declaration = "BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n";
    trees.put_copy("bagit.txt", declaration);
    trees.check(&["--quiet"]).is_quiet();
    trees.put_copy("one", "0ne");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "one: FAILED\n"));
}

#[test]
fn the_journal_of_another_kind_is_checked_too() {
    let trees = Trees::new();
    trees.put("one", "one");
    trees.succeeds(&[HISTORY]);
    // A bag that is not finished: its digests are in a journal.
    std::os::unix::fs::symlink("one", trees.original("link")).unwrap();
    assert_eq!(trees.run(&[BAG]).status, 1);
    trees
        .check(&["--quiet"])
        .failed_naming(&[&["dst/bagit.txt", "the manifest is not finished"]]);
    trees.put_copy("data/one", "0ne");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "data/one: FAILED\n"));
}

#[test]
fn a_bag_that_has_lost_its_declaration_is_not_passed_over() {
    let trees = Trees::new();
    trees.put("one", "one");
    trees.succeeds(&[BAG]);
    trees.succeeds(&["--exclude=one"]);
    fs::remove_file(trees.copied("bagit.txt")).unwrap();
    let run = trees.check(&["--quiet"]);
    run.failed_naming(&[
        &["dst/bagit.txt", "No such file", "the manifest is damaged"],
        &["dst/bagit.txt"],
    ]);
    trees.put_copy("data/one", "0ne");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "data/one: FAILED\n"));
}
