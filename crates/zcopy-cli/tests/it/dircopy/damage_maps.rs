//! Maps of damaged files.
//!
//! The sources are copies of damaged files themselves, with maps: no disk here has bad blocks.

use super::*;
use crate::skip::has_program;
use traced::meddled;

const BLOCK: usize = 4096;

/// A map of a file of two blocks of these statuses.
pub(super) fn map(first: char, second: char) -> String {
    format!(
        "# Mapfile. Created by zc-dircopy 0\n0x0 + 1\n0x0 0x1000 {first}\n0x1000 0x1000 {second}\n"
    )
}

/// Two blocks, the first of which is lost if it is zero.
fn blocks(first: u8, second: u8) -> Vec<u8> {
    [[first; BLOCK], [second; BLOCK]].concat()
}

/// The run is killed at each call that could be its last one.
#[test]
fn a_run_that_is_killed_keeps_the_record_of_a_damaged_file() {
    if !has_program("strace") {
        return;
    }
    let mut n_kills = 0;
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
                let check = trees.check(&["--silent"]);
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
            n_kills += 1;
        }
    }
    assert!(n_kills >= 3, "{n_kills}");
}

/// A source of which `clip` is the damaged copy of a file.
fn damaged() -> Trees {
    let trees = Trees::new();
    trees.put("clip", blocks(0, 2));
    trees.put("clip.damaged", map('-', '+'));
    trees
}

#[test]
fn a_map_is_on_the_disk_before_the_damaged_copy_has_its_name() {
    if !has_program("strace") {
        return;
    }
    let trees = damaged();
    let trace = ["--trace=fsync,linkat,renameat,renameat2".to_owned()];
    let log = traced::traced(&trees.command(&["--skip-errors"]), &trace).log;
    let calls: Vec<_> = log
        .lines()
        .filter_map(|line| {
            let named = line.contains("link") || line.contains("rename");
            match () {
                () if named && line.contains("\"clip.damaged\"") => Some("map"),
                () if named && line.contains("\"clip\"") => Some("copy"),
                () if line.contains("fsync(") && line.contains("/dst>") => Some("directory"),
                () if line.contains("fsync(") => Some("file"),
                () => None,
            }
        })
        .collect();
    assert!(
        calls.starts_with(&["file", "map", "directory", "file", "copy"]),
        "{calls:?} {log}"
    );
}

#[test]
fn a_copy_whose_map_was_cut_is_damaged() {
    for cut in ["", &map('-', '+')[..40], &map('-', '+')[..70]] {
        let trees = damaged();
        trees.run(&["--skip-errors"]).ended_with(1);
        trees.put_copy("clip.damaged", cut);
        fs::remove_file(trees.original("clip.damaged")).unwrap();
        fs::rename(trees.original("clip"), trees.path().join("clip")).unwrap();
        trees.put("other", "x").succeeds(&[]);
        let check = trees.check(&["--silent"]);
        assert_eq!(check.stdout, "clip: FAILED damaged\n", "{cut:?}");
    }
}

#[test]
fn a_finished_map_is_a_file_like_others() {
    for text in [map('+', '+'), String::new()] {
        let trees = Trees::new();
        trees.put("disk", blocks(1, 2)).put("disk.damaged", &text);
        for options in [&[][..], &["--verify-existing"], &["--skip-errors"], &[]] {
            trees.succeeds(options).are_alike();
            trees.sums().lists(&["disk", "disk.damaged"]);
        }
        // It stays when the source has it no longer.
        fs::remove_file(trees.original("disk.damaged")).unwrap();
        trees.succeeds(&[]).holds("disk.damaged", &text);
        assert_eq!(trees.check(&["--silent", "--strict"]).status, 0);
    }
}

#[test]
fn a_map_is_copied_as_a_file_where_its_file_is_excluded() {
    let trees = damaged();
    trees.succeeds(&["--exclude=clip"]);
    trees.holds("clip.damaged", map('-', '+'));
    trees.sums().lists(&["clip.damaged"]);
}

/// The source is an archive: its maps tell what its files lack, and nothing fails to be read.
#[test]
fn a_damaged_copy_of_an_archive_is_copied_with_its_map() {
    for options in [&[][..], &["--no-hash"], &["--verify"], &["--durable"]] {
        let trees = damaged();
        fs::hard_link(trees.original("clip"), trees.original("other")).unwrap();
        trees.put("other.damaged", map('-', '+'));
        for _ in 0..2 {
            let lacks = "4096 bytes (4096 at offset 0)";
            let run = trees.run(options);
            run.failed_naming(&[&["clip: ", lacks], &["other: ", lacks]]);
            trees
                .holds("clip", blocks(0, 2))
                .holds("other", blocks(0, 2));
            for name in ["clip.damaged", "other.damaged"] {
                let text = fs::read_to_string(trees.copied(name)).unwrap();
                assert!(text.contains("\n0x00000000  0x00001000  -\n"), "{text}");
            }
        }
        if options != ["--no-hash"] {
            let check = trees.check(&["--silent", "--strict"]);
            let expected = "clip: FAILED damaged\nother: FAILED damaged\n";
            assert_eq!(check.stdout, expected);
        }
    }
}

#[test]
fn an_accepted_file_has_no_map_any_more() {
    let trees = damaged();
    trees.put("d/a", "a");
    trees.run(&[]).ended_with(1);
    // A map of nothing that is missing, as ddrescue leaves it; a file like others; one that is no
    // map.
    trees.put_copy("whole", blocks(1, 2));
    trees.put_copy("whole.damaged", map('+', '+'));
    trees.put_copy("disk", blocks(0, 2));
    trees.put_copy("disk.damaged", map('-', '+'));
    trees.put_copy("d/a.damaged", "mine");
    let accepted = ["clip", "d/a", "disk", "disk.damaged", "whole"];
    let accept: Vec<_> = accepted.map(|path| format!("--accept={path}")).into();
    let accept: Vec<_> = accept.iter().map(String::as_str).collect();
    let check = trees.check(&[&["-q"], &accept[..]].concat());
    check.is_quiet();
    assert!(!trees.copied("clip.damaged").exists());
    assert!(!trees.copied("whole.damaged").exists());
    trees.holds("disk.damaged", map('-', '+'));
    trees.holds("d/a.damaged", "mine");
    // A backup of it needs nothing else.
    let backup = trees.path().join("backup");
    let mut command = zc_dircopy();
    run(command.arg("-q").arg(trees.copy()).arg(&backup)).failed_naming(&[&["disk"]]);
}

/// By a run whose source does not have the file.
#[test]
fn a_file_that_a_copy_run_accepts_has_no_map_any_more() {
    let trees = damaged();
    trees.run(&[]).ended_with(1);
    let other = Trees::new();
    other.put("b", "b");
    let mut command = zc_dircopy();
    command.args(["-q", "--accept=clip"]);
    run(command.arg(other.source()).arg(trees.copy())).is_quiet();
    assert!(!trees.copied("clip.damaged").exists());
    trees.sums().lists(&["b", "clip"]).holds_in(&trees.copy());
}

#[test]
fn a_map_is_not_counted_as_a_file() {
    let trees = damaged();
    let run = trees.run_aloud(&["--json", "--skip-errors"]);
    assert!(run.stdout.contains("\"others\":0,"), "{run:?}");
}
