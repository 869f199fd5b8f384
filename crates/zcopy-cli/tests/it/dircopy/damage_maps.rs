//! Maps of damaged files: whose they are, when they are written, and what cut ones tell.
//!
//! The sources here are copies of damaged files themselves, with maps, so that no disk need have bad
//! blocks.

use super::*;
use crate::skip::has_program;
use traced::meddled;

const BLOCK: usize = 4096;

/// A map of a file of two blocks of these statuses.
fn map(first: char, second: char) -> String {
    format!(
        "# Mapfile. Created by zc-dircopy 0\n0x0 + 1\n0x0 0x1000 {first}\n0x1000 0x1000 {second}\n"
    )
}

/// Two blocks, the first of which is lost if it is zero.
fn blocks(first: u8, second: u8) -> Vec<u8> {
    [[first; BLOCK], [second; BLOCK]].concat()
}

fn check(tree: &Path, options: &[&str]) -> Run {
    let mut command = zc_dircopy();
    run(command
        .args(["--check", "--silent"])
        .args(options)
        .arg(tree))
}

/// The run is killed at each call that could be its last one.
#[test]
fn a_run_that_is_killed_keeps_the_record_of_a_damaged_file() {
    if !has_program("strace") {
        return;
    }
    for call in ["syncfs", "linkat", "renameat", "renameat2"] {
        for nth in 1..10 {
            let trees = Trees::new();
            trees.put("clip", blocks(1, 2)).put("other", "x");
            trees.succeeds(&[]);
            fs::remove_file(trees.copied("clip")).unwrap();
            trees.put("clip", blocks(0, 2));
            trees.put("clip.damaged", map('-', '+'));
            let options = ["--skip-errors", "--jobs=1"];
            let kill = format!("{call}:signal=KILL:when={nth}");
            let traced = meddled(&trees.command(&options), call, &kill);
            for is_again in [false, true] {
                if is_again {
                    trees.run(&options).ended_with(1);
                }
                let check = check(&trees.copy(), &[]);
                assert_eq!(
                    check.status, 1,
                    "{call} {nth} {is_again}: {traced:?} {check:?}"
                );
                let told = ["clip: FAILED\n", "clip: FAILED open or read\n"];
                assert!(
                    told.contains(&&*check.stdout),
                    "{call} {nth} {is_again}: {check:?}"
                );
            }
            trees.sums().lists(&["clip", "other"]);
            if traced.run.status != 128 + 9 {
                break;
            }
        }
    }
}
