//! Directories whose names cannot be read, or not all of them.

use super::*;
use crate::skip::has_program;
use traced::{Traced, meddled};

fn tree() -> Trees {
    let trees = Trees::new();
    trees.put("a/b/1", "1").put("a/2", "2").put("c/3", "3");
    trees
}

/// Runs the command once for each call that reads a directory, which fails with `ENOENT`: the
/// directory has been removed, or a server has lost it midway. Returns the number of calls.
fn at_every_listing(command: impl Fn() -> Command, show: impl Fn(&Traced)) -> usize {
    for nth in 1.. {
        let fault = format!("getdents64:error=ENOENT:when={nth}");
        let traced = meddled(&command(), "getdents64", &fault);
        if traced.injected().is_empty() {
            return nth - 1;
        }
        show(&traced);
    }
    0
}

#[test]
fn a_listing_that_is_cut_short_is_told_and_not_taken_for_whole() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let n_listings = at_every_listing(
        || {
            let _ = fs::remove_dir_all(trees.copy());
            trees.command(&["--jobs=1"])
        },
        |traced| {
            let run = &traced.run;
            assert_eq!(run.status, 1, "{traced:?}");
            assert!(run.stderr.contains("No such file or directory"), "{run:?}");
        },
    );
    // Two calls for each of the four directories, and for the root of the copy twice.
    assert!(n_listings >= 12, "{n_listings}");
    let _ = fs::remove_dir_all(trees.copy());
    trees.succeeds(&[]).are_alike();
    let n_listings = at_every_listing(
        || check_command(&trees.copy(), &["--strict", "-q"]),
        |traced| {
            let run = &traced.run;
            assert_eq!(run.status, 1, "{traced:?}");
            assert!(run.stderr.contains("No such file or directory"), "{run:?}");
        },
    );
    assert!(n_listings >= 12, "{n_listings}");
}

#[test]
fn interruptions_are_passed_over() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let command = trees.command(&[]);
    let traced = meddled(&command, "getdents64", "getdents64:error=EINTR:when=1+2");
    assert!(traced.injected().len() >= 8, "{traced:?}");
    traced.run.is_quiet();
    trees.are_alike();
}

#[test]
fn interruptions_without_end_are_an_error() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    trees.succeeds(&[]);
    let copy = trees.command(&[]);
    let check = check_command(&trees.copy(), &["--strict", "-q"]);
    for command in [copy, check] {
        let traced = meddled(&command, "getdents64", "getdents64:error=EINTR");
        let run = traced.run;
        assert_eq!(run.status, 1, "{run:?}");
        assert!(run.stderr.contains("Interrupted system call"), "{run:?}");
    }
    // The names above are known.
    let fault = "getdents64:error=EINTR:when=9+";
    let traced = meddled(&trees.command(&["--jobs=1"]), "getdents64", fault);
    assert_eq!(traced.run.status, 1, "{traced:?}");
    assert!(
        traced.run.stderr.contains("cannot read directory"),
        "{:?}",
        traced.run
    );
}
