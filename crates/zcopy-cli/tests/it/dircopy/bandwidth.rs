//! `--bwlimit`. Times have lower bounds alone: a busy machine may take longer.

use std::time::Instant;

use super::*;

/// 20 files that have 2 MiB together.
fn trees() -> Trees {
    let trees = Trees::new();
    for n in 0..20 {
        trees.put(format!("{n}"), vec![7; (2 << 20) / 20]);
    }
    trees
}

/// 2 MiB at 4 MiB/s.
const SHORTEST: Duration = Duration::from_millis(400);

#[track_caller]
fn takes_long(trees: &Trees, options: &[&str]) {
    let begun = Instant::now();
    trees.succeeds(options);
    let elapsed = begun.elapsed();
    assert!(elapsed >= SHORTEST, "{options:?}: {elapsed:?}");
}

#[test]
fn all_jobs_share_the_rate() {
    for options in [
        &["--jobs=1"][..],
        &["--jobs=8"],
        &["--no-hash", "--jobs=8"],
        &["--lanes=always"],
    ] {
        let trees = trees();
        takes_long(&trees, &[&["--bwlimit=4MiB"], options].concat());
        facts::assert_same(&trees.source(), &trees.copy());
    }
}

#[test]
fn files_that_are_only_read_are_limited_too() {
    let trees = trees();
    trees.succeeds(&[]);
    takes_long(&trees, &["--bwlimit=4MiB"]);
}

#[test]
fn files_that_only_the_new_manifest_reads_are_limited_too() {
    let trees = Trees::new();
    trees.put("file", "x");
    // A generation lists every file of the tree.
    trees.put_copy("other", vec![7; 2 << 20]);
    takes_long(&trees, &["--bwlimit=4MiB", "--manifest=ascmhl"]);
}

#[test]
fn zero_is_no_limit() {
    for rate in ["0", "0K", "0.0"] {
        let trees = trees();
        trees.succeeds(&["--bwlimit", rate]).are_alike();
    }
}

#[test]
fn a_signal_ends_a_slow_copy() {
    for options in [&[][..], &["--no-hash"]] {
        let trees = trees();
        let mut command = zc_dircopy();
        command.args(["--bwlimit=1", "--json"]).args(options);
        command.args([trees.source(), trees.copy()]);
        // An object tells that the signal is caught.
        assert_eq!(interrupt_after(1, &command).0, Some(2));
        for name in facts::files_of(&trees.copy()) {
            assert!(!name.to_str().unwrap().starts_with('.'), "{name:?}");
        }
    }
}
