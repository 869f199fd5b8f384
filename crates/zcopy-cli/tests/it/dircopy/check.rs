//! Trees verified by `zc-dircopy --check`.

use super::*;

fn tree() -> Trees {
    let trees = Trees::new();
    trees.put("a/good", "x").put("bad", "y").put("missing", "z");
    trees.succeeds(&[]);
    trees
}

/// The same, after something has happened to it.
fn damaged() -> Trees {
    let trees = tree();
    trees.put_copy("bad", "Y");
    fs::remove_file(trees.copied("missing")).unwrap();
    trees
}

/// The total of the tree as it was copied.
const ALL_MATCH: &str = "3 matching, 0 differing, 0 missing, 0 unreadable";

fn check(trees: &Trees, arguments: &[&str]) -> Run {
    let mut command = zc_dircopy();
    run(command
        .current_dir(trees.path())
        .arg("--check")
        .args(arguments))
}

#[test]
fn a_tree_as_it_was_copied_is_verified() {
    let trees = tree();
    let run = check(&trees, &["dst"]).without_total(ALL_MATCH);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    assert_eq!(run.stdout, "a/good: OK\nbad: OK\nmissing: OK\n");
}

#[test]
fn files_that_differ_or_are_missing_have_failed() {
    let trees = damaged();
    let run = check(&trees, &["dst"]);
    run.ended_with(1);
    assert_eq!(
        run.stdout,
        "a/good: OK\nbad: FAILED\nmissing: FAILED open or read\n"
    );
    for words in [
        "dst/missing: No such file or directory",
        "1 listed file could not be read",
        "1 computed checksum did NOT match",
    ] {
        assert!(run.stderr.contains(words), "{words}: {run:?}");
    }
    run.without_total("1 matching, 1 differing, 1 missing, 0 unreadable");
}

#[test]
fn silent_and_without_a_summary_only_failures_are_told() {
    let trees = damaged();
    let run = check(&trees, &["--silent", "dst"]);
    run.ended_with(1);
    assert_eq!(run.stdout, "bad: FAILED\nmissing: FAILED open or read\n");
    assert!(run.stderr.contains("WARNING"), "{run:?}");
    let run = check(&trees, &["--no-summary", "--silent", "dst"]);
    run.failed_naming(&[&["dst/missing", "No such file"]]);
    check(&tree(), &["--silent", "--no-summary", "dst"]).is_quiet();
    let run = check(&tree(), &["--silent", "dst"]);
    run.without_total(ALL_MATCH).is_quiet();
}

#[test]
fn the_newest_sum_file_counts() {
    let trees = tree();
    trees.put("bad", "longer now").succeeds(&[]);
    assert_eq!(check(&trees, &["dst"]).status, 0);
    let all = Sums::all_in(&trees.copy());
    let oldest = all.last().unwrap().path.to_str().unwrap().to_owned();
    let run = check(&trees, &["--hash-file", &oldest, "dst"]);
    run.ended_with(1);
    assert!(run.stdout.contains("bad: FAILED\n"), "{run:?}");
}

#[test]
fn a_sum_file_can_be_named_for_any_tree() {
    let trees = tree();
    let sums = trees.sums().path.to_str().unwrap().to_owned();
    let run = check(&trees, &["--hash-file", &sums, "src"]).without_total(ALL_MATCH);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    trees.put("bad", "Y");
    check(&trees, &["--hash-file", &sums, "src"]).ended_with(1);
    let run = check(&trees, &["--hash-file", "nowhere", "src"]);
    run.failed_naming(&[&["nowhere", "No such file"]]);
}

#[test]
fn several_trees_are_verified_one_after_another() {
    let trees = tree();
    let mut command = zc_dircopy();
    command.current_dir(trees.path()).args(["-q", "src", "two"]);
    run(&mut command).is_quiet();
    fs::write(trees.path().join("two/bad"), "Y").unwrap();
    let run = check(&trees, &["dst", "two"]);
    run.ended_with(1);
    let expected = "dst/a/good: OK\ndst/bad: OK\ndst/missing: OK\n\
                    two/a/good: OK\ntwo/bad: FAILED\ntwo/missing: OK\n";
    assert_eq!(run.stdout, expected);
    // One that has no manifest does not keep the others from being verified.
    let run = check(&trees, &["src", "dst"]);
    let run = run.without_total(ALL_MATCH);
    run.failed_naming(&[&["src", "no manifest"]]);
    assert_eq!(run.stdout.lines().count(), 3);
}

#[test]
fn without_operands_the_working_directory_is_verified() {
    let trees = tree();
    let mut command = zc_dircopy();
    let run = run(command.current_dir(trees.copy()).arg("--check"));
    assert_eq!((run.status, run.stdout.lines().count()), (0, 3), "{run:?}");
}

#[test]
fn digests_of_either_kind_are_verified() {
    let trees = tree();
    trees.succeeds(&["--hash=blake3"]);
    let with = |hash: &str| check(&trees, &["--hash", hash, "--no-summary", "dst"]);
    let run = with("blake3");
    assert_eq!((run.status, run.stdout.lines().count()), (0, 3), "{run:?}");
    // Newer digests have taken the place of these.
    with("sha256").failed_naming(&[&["dst", "no file is recorded with sha256"]]);
    trees.put("later", "x").succeeds(&["--no-hash"]);
    trees.put_copy("bad", "Y");
    with("blake3").ended_with(1);
    check(&trees, &["dst"]).ended_with(1);
}

#[test]
fn results_come_in_the_order_of_the_lines_whatever_the_jobs() {
    let trees = Trees::new();
    for n in 0..200 {
        trees.put(format!("{n}"), vec![7; (n * 7919) % 60_000]);
    }
    trees.succeeds(&[]);
    let one = check(&trees, &["--jobs=1", "dst"]);
    let eight = check(&trees, &["--jobs=8", "dst"]);
    assert_eq!(one.status, 0);
    assert_eq!(one.stdout, eight.stdout);
}
