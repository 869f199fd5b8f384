//! Digests that are made together: it makes no difference to any file, whatever becomes of its
//! neighbours.

use super::*;
use crate::files::pattern;
use crate::skip::has_program;
use traced::{meddled, while_stopped};

/// So many files are hashed together at the most.
const TOGETHER: usize = 16;

/// Short files that are all different, where nothing is cloned.
fn tree() -> Trees {
    let trees = Trees::within(Path::new("/dev/shm"));
    for at in 0..TOGETHER + 4 {
        trees.put(name(at), &pattern(5000 + 100 * at)[at..]);
    }
    trees
}

fn name(at: usize) -> String {
    format!("f{at:02}")
}

#[test]
fn digests_are_the_same_however_they_are_made() {
    let trees = Trees::new();
    let lengths = [
        0, 1, 55, 56, 63, 64, 65, 4095, 204_800, 262_144, 262_145, 1_000_001,
    ];
    // More than are hashed together.
    for (at, len) in lengths.into_iter().cycle().take(36).enumerate() {
        trees.put(format!("d{}/{at}", at % 3), &pattern(len + at)[at..]);
    }
    for jobs in ["--jobs=1", "--jobs=3"] {
        let lines = ["auto", "always", "never"].map(|when| {
            let option = format!("--lanes={when}");
            trees
                .succeeds(&[jobs, &option, "--block-size=200K"])
                .are_alike();
            let lines = trees.sums().lines;
            fs::remove_dir_all(trees.copy()).unwrap();
            lines
        });
        assert!(lines[0] == lines[1] && lines[0] == lines[2]);
    }
}

/// Blocks shorter than what is read at once make no more pieces.
#[test]
fn a_long_file_in_short_blocks_is_hashed_in_time() {
    let trees = Trees::new();
    trees.put("long", pattern(3_000_000));
    trees
        .succeeds(&["--lanes=always", "--block-size=1"])
        .are_alike();
}

#[test]
fn neighbours_of_a_file_that_fails_have_their_own_digests() {
    if !has_program("strace") {
        return;
    }
    for nth in [1, 2, TOGETHER, TOGETHER + 1, TOGETHER + 4] {
        let trees = tree();
        let fails = format!("linkat:error=EIO:when={nth}");
        let options = ["--jobs=1", "--lanes=always"];
        let traced = meddled(&trees.command(&options), "linkat", &fails);
        let failed = name(nth - 1);
        let [injected] = traced.injected()[..] else {
            panic!("{nth}: {:?}", traced.injected());
        };
        assert!(injected.contains(&failed), "{nth}: {injected}");
        traced.run.failed_naming(&[&[&failed]]);
        let others: Vec<_> = (0..TOGETHER + 4)
            .map(name)
            .filter(|name| *name != failed)
            .collect();
        let others: Vec<_> = others.iter().map(String::as_str).collect();
        trees
            .sums()
            .lists(&others)
            .holds_in(&trees.copy())
            .holds_in(&trees.source());
        hides_nothing(&trees.copy());
    }
}

/// All of it has been read, and its first neighbour is getting its name.
#[test]
fn a_source_that_changes_when_it_is_hashed_with_others_has_no_line() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let stop = ["--inject=linkat:signal=SIGSTOP:when=1".to_owned()];
    let command = trees.command(&["--jobs=1", "--lanes=always"]);
    let traced = while_stopped(&command, &stop, || {
        fs::write(trees.original(name(9)), "changed").unwrap();
    });
    traced.run.failed_naming(&[&["f09", "changed"]]);
    let others: Vec<_> = (0..TOGETHER + 4).filter(|at| *at != 9).map(name).collect();
    let others: Vec<_> = others.iter().map(String::as_str).collect();
    trees.sums().lists(&others).holds_in(&trees.copy());
    assert!(!trees.copied(name(9)).exists());
    hides_nothing(&trees.copy());
}
