//! `--dry-run`, which tells what a copy would do and writes nothing.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use serde_json::Value;

use super::*;

/// Everything about a tree that a write would change.
fn state(tree: &Path) -> BTreeMap<PathBuf, (u64, u32, i64, i64, i64, i64)> {
    let entries = walkdir::WalkDir::new(tree).into_iter();
    let facts = entries.map(|entry| {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        let changed = (found.ctime(), found.ctime_nsec());
        let modified = (found.mtime(), found.mtime_nsec());
        let facts = (
            found.ino(),
            found.mode(),
            changed.0,
            changed.1,
            modified.0,
            modified.1,
        );
        (entry.into_path(), facts)
    });
    facts.collect()
}

/// A source, and a destination that has a part of it.
fn trees() -> Trees {
    let trees = Trees::new();
    trees.put("same", "as it is").put("sub/older", "old");
    dated(&trees.original("same"), 10);
    std::os::unix::fs::symlink("nowhere", trees.original("link")).unwrap();
    trees.succeeds(&[]);
    trees.put("sub/older", "new, and longer");
    trees.put("sub/deep/new", "12345");
    fs::hard_link(trees.original("sub/deep/new"), trees.original("z")).unwrap();
    trees
}

#[test]
fn it_tells_what_a_copy_would_do_and_writes_nothing() {
    let trees = trees();
    let before = (state(&trees.source()), state(&trees.copy()));
    let run = trees.run_aloud(&["--dry-run"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "skip link",
            "skip same",
            "copy z",
            "copy sub/deep/",
            "replace sub/older",
            "link sub/deep/new",
        ]
    );
    assert_eq!(
        lines[6],
        "1 to copy, 1 to replace, 0 to compare, 1 to link, 2 to skip, 1 directories to make, 0 failed"
    );
    assert!(
        lines[7].starts_with("nothing was written; the files to copy and replace have 20 bytes")
    );
    assert_eq!(before, (state(&trees.source()), state(&trees.copy())));
}

#[test]
fn a_destination_that_does_not_exist_is_not_made() {
    let trees = Trees::new();
    trees.put("a", "x");
    let run = trees.run_aloud(&["-n"]);
    assert_eq!(run.status, 0, "{run:?}");
    assert!(run.stdout.starts_with("copy a\n1 to copy, "), "{run:?}");
    assert!(!trees.copy().exists());
}

#[test]
fn json_has_an_object_for_each_entry_and_the_totals_last() {
    let trees = trees();
    let run = trees.run_aloud(&["--dry-run", "--json"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    let objects: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (totals, entries) = objects.split_last().unwrap();
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| {
            assert_eq!(entry["event"], "planned");
            let word = |field: &str| entry[field].as_str().unwrap();
            (word("path"), word("action"), word("kind"))
        })
        .collect();
    assert_eq!(
        entries,
        [
            ("link", "skip", "symlink"),
            ("same", "skip", "file"),
            ("z", "copy", "file"),
            ("sub/deep", "copy", "directory"),
            ("sub/older", "replace", "file"),
            ("sub/deep/new", "link", "file"),
        ]
    );
    assert_eq!(totals["event"], "plan");
    assert_eq!(
        (&totals["state"], &totals["bytes"]),
        (&"done".into(), &20.into())
    );
}

/// What the plan says of each file is what the run does.
#[test]
fn the_run_does_what_was_told() {
    let trees = trees();
    let plan = trees.run_aloud(&["--dry-run", "--json"]).stdout;
    let plan: Value = serde_json::from_str(plan.lines().last().unwrap()).unwrap();
    let done = trees.run_aloud(&["--json"]).stdout;
    let done: Value = serde_json::from_str(done.lines().last().unwrap()).unwrap();
    let count = |object: &Value, field: &str| object[field].as_u64().unwrap();
    let written = count(&done, "copied") + count(&done, "cloned");
    assert_eq!(count(&plan, "copy") + count(&plan, "replace"), written);
    assert_eq!(count(&plan, "replace"), count(&done, "replaced"));
    assert_eq!(count(&plan, "link"), count(&done, "linked"));
    assert_eq!(
        count(&plan, "skip"),
        count(&done, "skipped") + count(&done, "others")
    );
}

#[test]
fn what_would_fail_is_told_and_the_status_is_1() {
    let trees = Trees::new();
    trees.put("a/file", "x").put("b", "x");
    trees
        .put_copy("a", "a file")
        .put_copy("b/file", "in a directory");
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let before = state(&trees.copy());
    trees.run(&["--dry-run"]).failed_naming(&[
        &["a: the destination has a file of this name"],
        &["b: the destination has a directory of this name"],
        &["socket: it is a socket, which is not copied"],
    ]);
    assert_eq!(before, state(&trees.copy()));
}

#[test]
fn a_recorded_file_that_is_no_older_is_compared() {
    let trees = Trees::new();
    trees.put("file", "longer than that");
    dated(&trees.original("file"), 10);
    trees.succeeds(&[]);
    trees.put("file", "shorter");
    dated(&trees.original("file"), 20);
    let run = trees.run_aloud(&["--dry-run"]);
    assert!(run.stdout.starts_with("compare file\n"), "{run:?}");
    let run = trees.run_aloud(&["--dry-run", "--overwrite-policy=always"]);
    assert!(run.stdout.starts_with("replace file\n"), "{run:?}");
}

#[test]
fn a_damaged_manifest_is_told_as_a_copy_would() {
    let trees = trees();
    let manifest = trees.sums().path;
    let mut text = fs::read_to_string(&manifest).unwrap();
    text.push_str("more\n");
    fs::write(&manifest, text).unwrap();
    let run = trees.run(&["--dry-run"]);
    run.failed_naming(&[&["the manifest is damaged"]]);
}

#[test]
fn it_changes_no_records() {
    for option in ["--accept=a", "--forget-missing"] {
        let trees = Trees::new();
        let run = trees.run(&["--dry-run", option]);
        run.ended_with(2);
        assert!(run.stderr.contains("--dry-run changes nothing"), "{run:?}");
    }
}

#[test]
fn names_with_newlines_are_quoted_and_those_of_a_read_only_tree_are_told() {
    let trees = Trees::new();
    trees.put("two\nlines", "x");
    trees.succeeds(&[]);
    fs::set_permissions(trees.copy(), fs::Permissions::from_mode(0o555)).unwrap();
    let before = state(&trees.copy());
    let run = trees.run_aloud(&["--dry-run"]);
    assert!(
        run.stdout.starts_with("skip 'two'$'\\n''lines'\n"),
        "{run:?}"
    );
    assert_eq!(before, state(&trees.copy()));
}

#[test]
fn what_a_manifest_cannot_record_is_an_error_of_the_plan_too() {
    let trees = Trees::new();
    trees.put("file", "x");
    std::os::unix::fs::symlink("file", trees.original("link")).unwrap();
    for format in ["bagit", "ascmhl"] {
        let option = format!("--manifest={format}");
        let plan = trees.run_aloud(&["--dry-run", &option]);
        assert_eq!(plan.status, 1, "{plan:?}");
        assert!(plan.stderr.contains(": link: "), "{plan:?}");
        assert!(plan.stdout.contains("copy file\n"), "{plan:?}");
        let copy = trees.run_aloud(&[&option]);
        assert!(copy.stderr.starts_with(&plan.stderr), "{copy:?}");
        fs::remove_dir_all(trees.copy()).unwrap();
    }
}
