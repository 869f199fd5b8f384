//! The manifest that a copy leaves behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use zcopy_cli::common::digest::Algorithm;
use zcopy_cli::dircopy::manifest::name::Name;

use super::*;
use crate::child::zc_dircopy;
use crate::skip::{has_program, skip};

/// A tree in which paths sort otherwise than names do.
fn tree() -> Trees {
    let trees = Trees::new();
    trees.put("a.txt", "a dot comes before a slash");
    trees.put("a/b", "in a directory").put("a/empty", "");
    trees
        .put("a/b.d/c", "deeper")
        .put("a0", "and a digit behind it");
    fs::create_dir(trees.original("nothing in it")).unwrap();
    trees
}

const FILES: [&str; 5] = ["a.txt", "a/b", "a/b.d/c", "a/empty", "a0"];

#[test]
fn a_copy_has_the_digests_of_all_its_files_in_the_order_of_their_paths() {
    let trees = tree();
    trees.succeeds(&[]).are_alike();
    let sums = trees.sums();
    sums.lists(&FILES);
    sums.satisfies_sha256sum(&trees.source());
    sums.satisfies_sha256sum(&trees.copy());
    let check = run(zc_dircopy().arg("--check").arg(trees.copy()));
    let check = check.without_total("5 matching, 0 differing, 0 missing, 0 unreadable");
    assert_eq!((check.status, check.stderr.as_str()), (0, ""));
    assert_eq!(check.stdout.lines().count(), FILES.len());
}

#[test]
fn operands_and_options_name_the_trees_alike() {
    let trees = tree();
    let run_with = |arguments: &[&str]| {
        let mut command = zc_dircopy();
        run(command.current_dir(trees.path()).arg("-q").args(arguments)).is_quiet();
    };
    run_with(&["src", "one"]);
    run_with(&["-i", "src", "-o", "two"]);
    run_with(&["--input=src", "--output", "a/new/three/"]);
    for copy in ["one", "two", "a/new/three"] {
        let copy = trees.path().join(copy);
        facts::assert_same(&trees.source(), &copy);
        Sums::newest_in(&copy).lists(&FILES).holds_in(&copy);
    }
}

#[test]
fn an_input_takes_the_first_operands_place_and_an_output_the_seconds() {
    let trees = tree();
    let run_with = |arguments: &[&str]| {
        let mut command = zc_dircopy();
        run(command.current_dir(trees.path()).arg("-q").args(arguments)).is_quiet();
    };
    run_with(&["-i", "src", "one"]);
    run_with(&["src", "-o", "two"]);
    for copy in ["one", "two"] {
        facts::assert_same(&trees.source(), &trees.path().join(copy));
    }
}

#[test]
fn lines_are_those_that_sha256sum_writes() {
    let trees = tree();
    trees.succeeds(&[]);
    let written = Command::new("sha256sum")
        .args(FILES)
        .current_dir(trees.source())
        .output()
        .unwrap();
    assert_eq!(trees.sums().without_comments(), written.stdout);
}

#[test]
fn runs_of_one_second_leave_a_sum_file_each() {
    const RUNS: usize = 4;
    let trees = tree();
    for _ in 0..RUNS {
        trees.succeeds(&[]);
    }
    let all = Sums::all_in(&trees.copy());
    assert_eq!(all.len(), RUNS);
    for sums in all {
        sums.lists(&FILES).holds_in(&trees.copy());
    }
}

#[test]
fn runs_at_the_same_time_leave_a_sum_file_each() {
    let trees = tree();
    let spawn = |_| trees.command(&[]).spawn().unwrap();
    let children: Vec<_> = (0..4).map(spawn).collect();
    for child in children {
        assert!(end_of(child).success());
    }
    let all = Sums::all_in(&trees.copy());
    assert_eq!(all.len(), 4);
    for sums in all {
        sums.lists(&FILES).holds_in(&trees.copy());
    }
    trees.are_alike();
    hides_nothing(&trees.copy());
}

#[test]
fn the_name_tells_when_the_run_began_in_local_time() {
    let trees = tree();
    let mut command = trees.command(&[]);
    let before = now_there();
    run(command.env("TZ", "XYZ-5:30")).is_quiet();
    let after = now_there();
    let name = trees.sums().path;
    let name = name.file_name().unwrap().to_str().unwrap();
    let time = name.strip_prefix("shasum.").unwrap();
    let time = time.strip_suffix(".txt").unwrap();
    assert!(
        *before <= *time && *time <= *after,
        "{before} {time} {after}"
    );
}

/// The time of day five and a half hours east of Greenwich, as `date` tells it.
fn now_there() -> String {
    let date = Command::new("date")
        .arg("+%Y-%m-%d.%H.%M.%S")
        .env("TZ", "XYZ-5:30")
        .output()
        .unwrap();
    String::from_utf8(date.stdout).unwrap().trim().to_owned()
}

#[test]
fn digests_can_be_those_of_blake3() {
    let trees = tree();
    trees.succeeds(&["--hash", "blake3"]);
    let sums = trees.sums();
    let name = sums.path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("b3sum."), "{name}");
    assert_eq!(sums.algorithm(), Algorithm::Blake3);
    sums.lists(&FILES).holds_in(&trees.copy());
    let check = run(zc_dircopy().arg("--check").arg(trees.copy()));
    assert_eq!(check.status, 0, "{check:?}");
}

#[test]
fn no_hash_leaves_no_sum_file() {
    let trees = tree();
    trees.succeeds(&["--no-hash"]);
    facts::assert_same(&trees.source(), &trees.copy());
    assert_eq!(Sums::all_in(&trees.copy()).len(), 0);
    hides_nothing(&trees.copy());
}

#[test]
fn files_that_are_skipped_are_digested() {
    let trees = tree();
    trees.succeeds(&[]).succeeds(&[]).are_alike();
    trees.put("later", "and only this is copied");
    trees.succeeds(&["--overwrite-policy=never"]).are_alike();
}

#[test]
fn files_that_are_skipped_keep_their_digests_without_being_read() {
    let trees = tree();
    trees.succeeds(&["--no-hash-skipped"]).are_alike();
    trees.put("later", "is copied");
    for _ in 0..2 {
        trees.succeeds(&["--no-hash-skipped"]);
        let all = ["a.txt", "a/b", "a/b.d/c", "a/empty", "a0", "later"];
        trees.sums().lists(&all).holds_in(&trees.copy());
    }
    // A file that nobody has read has no digest.
    fs::remove_file(trees.sums().path).unwrap();
    for sums in Sums::all_in(&trees.copy()) {
        fs::remove_file(sums.path).unwrap();
    }
    trees.put("latest", "is copied");
    trees.succeeds(&["--no-hash-skipped"]);
    trees.sums().lists(&["latest"]);
}

/// What the destination holds is digested, whatever the source has by now: this is what stands
/// there.
#[test]
fn the_digest_of_a_skipped_file_is_that_of_the_destination() {
    let trees = tree();
    trees.put_copy("a.txt", "something else altogether");
    trees.succeeds(&["--overwrite-policy=never"]);
    trees.sums().lists(&FILES).holds_in(&trees.copy());
    trees.holds("a.txt", "something else altogether");
}

#[test]
fn an_earlier_sum_file_in_the_source_is_copied_as_any_other_file() {
    let trees = tree();
    trees.succeeds(&[]);
    let second = trees.path().join("second");
    let mut command = zc_dircopy();
    run(command.arg("-q").arg(trees.copy()).arg(&second)).is_quiet();
    let first = trees.sums().path;
    let first = first.file_name().unwrap();
    let copied = fs::read(second.join(first)).unwrap();
    assert_eq!(copied, fs::read(trees.copied(first)).unwrap());
    let sums = Sums::newest_in(&second);
    assert_ne!(sums.path.file_name(), Some(first), "that would replace it");
    sums.holds_in(&second).satisfies_sha256sum(&second);
    let mut expected = FILES.to_vec();
    expected.push(first.to_str().unwrap());
    sums.lists(&expected);
}

#[test]
fn an_empty_tree_has_an_empty_sum_file() {
    let trees = Trees::new();
    trees.succeeds(&[]).are_alike();
    let name = trees.sums().path;
    let name = name.file_name().and_then(|name| name.to_str());
    assert!(name.unwrap().parse::<Name>().is_ok());
}

#[test]
fn a_sum_file_can_be_read_by_whoever_may_read_new_files() {
    let trees = tree();
    trees.succeeds(&[]);
    let umask = Path::new("/proc/self/status");
    let status = fs::read_to_string(umask).unwrap();
    let umask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let umask = u32::from_str_radix(umask.unwrap().trim(), 8).unwrap();
    let mode = fs::metadata(trees.sums().path).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o666 & !umask);
}

/// The system's zone is one file, and not to be looked for among hundreds.
#[test]
fn a_run_does_not_search_the_zones_of_the_world() {
    if !has_program("strace") {
        return;
    }
    if !Path::new("/etc/localtime").exists() {
        skip("this system has no zone");
        return;
    }
    let trees = Trees::new();
    trees.put("file", "x");
    let mut command = trees.command(&[]);
    command.env_remove("TZ");
    let traced = traced::traced(&command, &["--trace=getdents64".to_owned()]);
    traced.run.is_quiet();
    assert!(traced.log.contains("getdents64("), "{}", traced.log);
    assert!(!traced.log.contains("zoneinfo"), "{}", traced.log);
}
