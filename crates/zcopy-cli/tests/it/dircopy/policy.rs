//! What becomes of files that the destination has already.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use super::*;

/// A file in the source, and what bears its name in the destination, written so many seconds before
/// it.
fn conflicting(original: &str, copy: &str, seconds_before: u64) -> Trees {
    let trees = Trees::new();
    trees.put("file", original).put_copy("file", copy);
    dated(&trees.original("file"), 1000);
    dated(&trees.copied("file"), 1000 + seconds_before);
    trees
}

/// What stands in the destination after a run with that policy.
fn after(policy: &str, original: &str, copy: &str, seconds_before: u64) -> String {
    let trees = conflicting(original, copy, seconds_before);
    trees.succeeds(&["--overwrite-policy", policy]);
    let left = fs::read_to_string(trees.copied("file")).unwrap();
    let sums = trees.sums();
    sums.lists(&["file"]).holds_in(&trees.copy());
    left
}

#[test]
fn policies_replace_what_they_say() {
    // Policy, and whether it replaces an older one; one that is shorter; one that seems the same;
    // one that is.
    let table = [
        ("default", [true, true, false]),
        ("never", [false, false, false]),
        ("always", [true, true, true]),
        ("update", [true, true, true]),
    ];
    for (policy, [older, shorter, seeming]) in table {
        let expected = |replaced, copy: &'static str| if replaced { "new" } else { copy };
        assert_eq!(
            after(policy, "new", "old", 1),
            expected(older, "old"),
            "{policy}"
        );
        assert_eq!(
            after(policy, "new", "ol", 0),
            expected(shorter, "ol"),
            "{policy}"
        );
        assert_eq!(
            after(policy, "new", "old", 0),
            expected(seeming, "old"),
            "{policy}"
        );
    }
}

#[test]
fn a_newer_file_of_the_same_size_is_left() {
    for policy in ["default", "update"] {
        let trees = Trees::new();
        trees.put("file", "new").put_copy("file", "own");
        dated(&trees.original("file"), 1000);
        dated(&trees.copied("file"), 10);
        trees
            .succeeds(&["--overwrite-policy", policy])
            .holds("file", "own");
    }
}

#[test]
fn a_copy_that_was_cut_off_is_repaired() {
    let bytes = crate::files::pattern(300_000);
    let trees = Trees::new();
    trees
        .put("file", &bytes)
        .put_copy("file", &bytes[..100_000]);
    // As if another tool had been killed: later than the original.
    dated(&trees.original("file"), 1000);
    trees.succeeds(&[]).holds("file", &bytes).are_alike();
}

/// Number and times of everything in the destination but the manifests.
fn identities(trees: &Trees) -> BTreeMap<PathBuf, (u64, i64, i64, i64)> {
    let paths = walkdir::WalkDir::new(trees.copy()).into_iter();
    let paths = paths.map(|entry| entry.unwrap().into_path());
    let is_old = |path: &PathBuf| !path.to_str().unwrap().contains("shasum.");
    paths
        .filter(is_old)
        .map(|path| {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let modified = (metadata.mtime(), metadata.mtime_nsec());
            // Whether it has been written to, or its attributes set, shows in the change time of
            // files.
            let changed = if metadata.is_file() {
                metadata.ctime_nsec()
            } else {
                0
            };
            (path, (metadata.ino(), modified.0, modified.1, changed))
        })
        .collect()
}

fn everything() -> Trees {
    let trees = Trees::new();
    trees
        .put("a/file", "file")
        .put("a/empty", "")
        .put("b/c/d", vec![7; 200_000]);
    std::os::unix::fs::symlink("a/file", trees.original("link")).unwrap();
    fs::hard_link(trees.original("a/file"), trees.original("b/hard")).unwrap();
    trees
}

#[test]
fn the_same_run_again_copies_nothing() {
    let trees = everything();
    trees.succeeds(&[]).are_alike();
    let before = identities(&trees);
    for options in [
        &[][..],
        &["--overwrite-policy=update"],
        &["--verify-existing"],
        &["--verify"],
    ] {
        trees.succeeds(options).are_alike();
        assert_eq!(identities(&trees), before, "{options:?}");
    }
}

#[test]
fn a_copy_goes_on_where_another_was_broken_off() {
    let trees = everything();
    trees.succeeds(&[]);
    fs::remove_file(trees.copied("b/c/d")).unwrap();
    fs::remove_dir(trees.copied("b/c")).unwrap();
    let before = identities(&trees);
    trees.succeeds(&[]).are_alike();
    let after = identities(&trees);
    for (path, identity) in before {
        assert_eq!(after[&path].0, identity.0, "{}", path.display());
    }
}

#[test]
fn always_replaces_by_another_file() {
    let trees = everything();
    trees.succeeds(&[]);
    let before = identities(&trees)[&trees.copied("b/c/d")];
    trees.succeeds(&["--overwrite-policy=always"]).are_alike();
    let after = identities(&trees)[&trees.copied("b/c/d")];
    assert_ne!(after.0, before.0, "nothing is written into what has a name");
}

#[test]
fn what_has_another_name_too_is_not_written_to() {
    let trees = Trees::new();
    trees
        .put("file", "longer than before")
        .put_copy("file", "before");
    fs::hard_link(trees.copied("file"), trees.path().join("elsewhere")).unwrap();
    trees.succeeds(&[]).are_alike();
    let elsewhere = fs::read(trees.path().join("elsewhere")).unwrap();
    assert_eq!(elsewhere, b"before");
}

#[test]
fn verify_existing_reports_what_seems_to_be_the_same_and_is_not() {
    for options in [
        &["--verify-existing"][..],
        &["--verify-existing", "--no-hash-skipped"],
    ] {
        let trees = conflicting("new", "old", 0);
        trees.put("other", "is copied");
        trees.run(options).failed_naming(&[&["file"]]);
        trees.holds("file", "old");
        // A line would have the digest of a copy that is wrong, or of bytes that it never had.
        trees.sums().lists(&["other"]).holds_in(&trees.copy());
        let check = trees.check(&["--strict"]);
        assert_eq!(check.stdout, "other: OK\nfile: FAILED not listed\n");
        trees.succeeds(&["--overwrite-policy=update"]).are_alike();
    }
}

#[test]
fn verify_existing_says_nothing_of_what_is_the_same() {
    let trees = conflicting("same", "same", 0);
    trees.succeeds(&["--verify-existing"]);
    trees.sums().lists(&["file"]).holds_in(&trees.copy());
}

#[test]
fn verify_existing_compares_the_last_byte_of_a_long_file() {
    let mut bytes = crate::files::pattern(1_000_001);
    let trees = Trees::new();
    trees.put("file", &bytes);
    *bytes.last_mut().unwrap() ^= 1;
    trees.put_copy("file", &bytes);
    dated(&trees.original("file"), 1000);
    dated(&trees.copied("file"), 1000);
    trees.succeeds(&[]);
    trees
        .run(&["--verify-existing"])
        .failed_naming(&[&["file"]]);
    trees.holds("file", &bytes);
    // The copy has the digest that it was recorded with, so that it is not what has changed.
    trees
        .run(&["--overwrite-policy=update"])
        .failed_naming(&[&["file"]]);
    trees.succeeds(&["--overwrite-policy=always"]).are_alike();
}

/// A file that stays behind the policy's back is no failure: `never` is asked for.
#[test]
fn never_leaves_whatever_is_there() {
    let trees = Trees::new();
    trees.put("link", "a file").put("file", "a file");
    fs::create_dir_all(trees.copy()).unwrap();
    std::os::unix::fs::symlink("nowhere", trees.copied("link")).unwrap();
    trees.succeeds(&["--overwrite-policy=never"]);
    let link = fs::read_link(trees.copied("link")).unwrap();
    assert_eq!(link, Path::new("nowhere"));
    trees.holds("file", "a file");
    trees.sums().lists(&["file"]).holds_in(&trees.copy());
    let run = trees.run(&["--overwrite-policy=never", "--verify-existing"]);
    run.failed_naming(&[&["link", "no regular file"]]);
}

#[test]
fn a_link_that_leads_elsewhere_is_never_replaced_and_told_if_that_is_asked_for() {
    let trees = Trees::new();
    std::os::unix::fs::symlink("here", trees.original("link")).unwrap();
    fs::create_dir_all(trees.copy()).unwrap();
    std::os::unix::fs::symlink("there", trees.copied("link")).unwrap();
    trees.succeeds(&["--overwrite-policy=never"]);
    let run = trees.run(&["--overwrite-policy=never", "--verify-existing"]);
    run.failed_naming(&[&["link", "differs"]]);
    let link = fs::read_link(trees.copied("link")).unwrap();
    assert_eq!(link, Path::new("there"));
}

/// It once counted as a symbolic link.
#[test]
fn a_file_whose_name_something_else_has_counts_as_skipped() {
    let trees = Trees::new();
    trees.put("file", "x").put_copy("other", "");
    std::os::unix::fs::symlink("other", trees.copied("file")).unwrap();
    let run = trees.run_aloud(&["--overwrite-policy=never"]);
    let counts = "0 copied, 0 cloned, 0 linked, 1 skipped, 0 failed\n";
    assert!(run.stdout.contains(counts), "{run:?}");
}
