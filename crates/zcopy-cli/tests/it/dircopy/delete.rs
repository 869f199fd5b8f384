//! `--delete`, which moves what the source lacks into a dated folder.

use super::*;
use crate::skip::has_program;

/// A source and its copy, and then a source that has lost a file and a directory.
fn trees() -> Trees {
    let trees = Trees::new();
    for name in ["kept", "gone", "d/kept", "d/gone", "e/f/one", "e/two"] {
        trees.put(name, name);
    }
    trees.succeeds(&[]);
    trees
}

fn lose(trees: &Trees) {
    for name in ["gone", "d/gone"] {
        fs::remove_file(trees.original(name)).unwrap();
    }
    fs::remove_dir_all(trees.original("e")).unwrap();
}

/// The names of the folders with what was moved.
fn folders(trees: &Trees) -> Vec<String> {
    let names = fs::read_dir(trees.copy()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<_> = names.filter(|name| name.starts_with("deleted.")).collect();
    folders.sort();
    folders
}

#[track_caller]
fn folder(trees: &Trees) -> String {
    let folders = folders(trees);
    let [folder] = &folders[..] else {
        panic!("{folders:?}");
    };
    folder.clone()
}

const LOST: [&str; 4] = ["gone", "d/gone", "e/f/one", "e/two"];

#[track_caller]
fn have_moved(trees: &Trees) {
    let folder = folder(trees);
    for name in LOST {
        assert!(!trees.copied(name).exists(), "{name}");
        trees.holds(format!("{folder}/{name}"), name);
    }
    trees.holds("kept", "kept").holds("d/kept", "d/kept");
}

#[test]
fn what_the_source_lacks_is_moved_with_its_records() {
    let trees = trees();
    lose(&trees);
    let run = trees.run_aloud(&["--delete"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    assert!(
        run.stdout
            .contains("\n3 entries that the source lacks moved\n"),
        "{run:?}"
    );
    have_moved(&trees);
    let folder = folder(&trees);
    let moved = LOST.map(|name| format!("{folder}/{name}"));
    let mut lines: Vec<_> = moved
        .iter()
        .map(String::as_str)
        .chain(["kept", "d/kept"])
        .collect();
    lines.sort_unstable();
    trees.sums().lists(&lines).holds_in(&trees.copy());
    trees
        .check(&["--strict", "--silent"])
        .without_total("6 matching, 0 differing, 0 missing, 0 unreadable");
    // Another run finds nothing to move, and leaves the folder.
    trees.succeeds(&["--delete"]);
    have_moved(&trees);
}

#[test]
fn without_the_option_everything_stays() {
    let trees = trees();
    lose(&trees);
    trees.succeeds(&[]);
    assert_eq!(folders(&trees), [""; 0]);
    trees.holds("gone", "gone");
}

#[test]
fn each_run_has_a_folder_of_its_own() {
    let trees = trees();
    fs::remove_file(trees.original("gone")).unwrap();
    trees.succeeds(&["--delete"]);
    fs::remove_file(trees.original("d/gone")).unwrap();
    trees.succeeds(&["--delete"]);
    let folders = folders(&trees);
    assert_eq!(folders.len(), 2, "{folders:?}");
    trees.holds(format!("{}/gone", folders[0]), "gone");
    trees.holds(format!("{}/d/gone", folders[1]), "d/gone");
}

/// The source's own folder of this name would be copied over what was moved.
#[test]
fn the_folder_has_no_name_that_the_source_has() {
    if !has_program("faketime") {
        return;
    }
    let trees = Trees::new();
    fs::create_dir(trees.copy()).unwrap();
    fs::write(trees.copied("a"), "the only copy").unwrap();
    trees.put("deleted.2027-01-01.00.00.00/a", "of the source");
    let command = trees.command(&["--delete"]);
    let mut faked = Command::new("faketime");
    faked.args(["-f", "2027-01-01 00:00:00"]).env("TZ", "UTC");
    faked.arg(command.get_program()).args(command.get_args());
    let output = faked.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    trees.holds("deleted.2027-01-01.00.00.00/a", "of the source");
    trees.holds("deleted.2027-01-01.00.00.00.2/a", "the only copy");
}

#[test]
fn excluded_entries_and_maps_of_files_that_are_there_stay() {
    let trees = trees();
    lose(&trees);
    trees.put_copy("kept.damaged", "a name like that of a map");
    trees.put_copy("other.damaged", "not one");
    trees.succeeds(&["--delete", "--exclude=e/", "--exclude=gone"]);
    let folder = folder(&trees);
    for name in LOST {
        trees.holds(name, name);
    }
    assert!(trees.copied("kept.damaged").exists());
    assert!(trees.copied(format!("{folder}/other.damaged")).exists());
}

#[test]
fn excluded_entries_in_directories_that_are_gone_stay() {
    let trees = trees();
    lose(&trees);
    trees.put_copy("e/f/precious.bak", "p");
    trees.put_copy("g/h/i", "i").put_copy("e/f/k/l", "l");
    let options = ["--delete", "--exclude=*.bak"];
    let run = trees.run_aloud(&["--dry-run", "--delete", "--exclude=*.bak"]);
    let moves = run.stdout.lines().filter(|line| line.starts_with("move "));
    let expected = [
        "move d/gone",
        "move e/f/k/",
        "move e/f/one",
        "move e/two",
        "move g/",
        "move gone",
    ];
    assert_eq!(moves.collect::<Vec<_>>(), expected);
    trees.succeeds(&options);
    have_moved(&trees);
    let folder = folder(&trees);
    trees
        .holds("e/f/precious.bak", "p")
        .holds(format!("{folder}/g/h/i"), "i")
        .holds(format!("{folder}/e/f/k/l"), "l");
    assert!(!trees.copied("g").exists());
    assert_eq!(fs::read_dir(trees.copied("e/f")).unwrap().count(), 1);
    trees.check(&["--quiet"]).is_quiet();
    // Another run has nothing to move.
    trees.succeeds(&options);
    assert_eq!(folders(&trees).len(), 1);
}

/// The manifests of all kinds stay, whichever kind a run writes.
#[test]
fn manifests_of_other_kinds_stay() {
    let sums = "shasum.2026-11-27.01.14.13.txt";
    let comments = "b3sum.2026-11-27.01.14.13.txt.info";
    let kinds = ["--manifest=ascmhl", "--manifest=bagit"];
    for kind in kinds {
        let trees = Trees::new();
        trees.put("kept", "x");
        trees.succeeds(&[kind]);
        trees.put_copy(comments, "").put_copy("gone", "y");
        trees.succeeds(&["--delete"]);
        let folder = folder(&trees);
        trees.holds(format!("{folder}/gone"), "y");
        let moved = fs::read_dir(trees.copied(&folder)).unwrap();
        assert_eq!(moved.count(), 1, "{kind}");
        assert!(trees.copied(comments).exists());
    }
    // The lists beside the payload of a bag stay, and those in it are copies.
    let trees = Trees::new();
    trees.put("kept", "x").put(sums, "");
    trees.succeeds(&["--manifest=bagit"]);
    trees.put_copy(sums, "");
    fs::remove_file(trees.original(sums)).unwrap();
    trees.succeeds(&["--manifest=bagit", "--delete"]);
    assert!(trees.copied(sums).exists());
    assert!(!trees.copied(format!("data/{sums}")).exists());
}

/// Directories with the names that only bags and histories have are moved like any other.
#[test]
fn names_of_bags_are_kept_in_bags_alone() {
    let trees = Trees::new();
    trees.put("kept", "x").put("data/file", "y");
    trees.succeeds(&[]);
    fs::remove_dir_all(trees.original("data")).unwrap();
    trees.succeeds(&["--delete"]);
    trees.holds(format!("{}/data/file", folder(&trees)), "y");
}

#[test]
fn no_link_is_followed() {
    let trees = trees();
    let outside = trees.path().join("outside");
    put(&outside.join("file"), "x");
    std::os::unix::fs::symlink(&outside, trees.copied("link")).unwrap();
    fs::remove_dir_all(trees.copied("d")).unwrap();
    std::os::unix::fs::symlink(&outside, trees.copied("d")).unwrap();
    let run = trees.run(&["--delete"]);
    run.failed_naming(&[&["d: cannot use destination directory"]]);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"x");
    let moved = trees.copied(format!("{}/link", folder(&trees)));
    assert_eq!(fs::read_link(moved).unwrap(), outside);
}

#[test]
fn nothing_is_moved_for_a_source_without_entries() {
    let trees = trees();
    fs::remove_dir_all(trees.source()).unwrap();
    fs::create_dir(trees.source()).unwrap();
    let refuses = |options: &[&str]| {
        trees.run(options).failed_naming(&[&[
            "src: it has nothing to copy, and nothing is moved: is it mounted?",
        ]]);
        assert_eq!(folders(&trees), [""; 0]);
        trees.holds("gone", "gone").holds("e/two", "e/two");
    };
    refuses(&["--delete"]);
    // As on a new disk, or one on which only another program has begun to work.
    fs::create_dir(trees.source().join("lost+found")).unwrap();
    refuses(&["--delete"]);
    trees.put(".Trash/old", "x");
    refuses(&["--delete", "--exclude", ".Trash/"]);
}

#[test]
fn a_source_inside_the_destination_is_refused() {
    let trees = Trees::new();
    trees.put_copy("card/file", "x").put_copy("other", "y");
    let (card, copy) = (trees.copied("card"), trees.copy());
    let refusal = format!(
        "{}: the source is inside the destination {}, and --delete would move it",
        card.display(),
        copy.display()
    );
    for options in [&["-q", "--delete"][..], &["-n", "--delete"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zc-dircopy"));
        let run = run(command.args(options).arg(&card).arg(&copy));
        run.failed_naming(&[&[&refusal]]);
        assert_eq!(folders(&trees), [""; 0]);
        trees.holds("card/file", "x").holds("other", "y");
        assert_eq!(Sums::all_in(&copy).len(), 0);
    }
}

#[test]
fn nothing_is_moved_out_of_the_copy_of_a_directory_that_cannot_be_read() {
    if !has_program("strace") {
        return;
    }
    let trees = trees();
    lose(&trees);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-P"]);
    strace.arg(trees.original("d"));
    strace.arg("--inject=getdents64:error=EIO");
    strace.args([env!("CARGO_BIN_EXE_zc-dircopy"), "-q", "--delete"]);
    let run = run(strace.arg(trees.source()).arg(trees.copy()));
    run.failed_naming(&[
        &[
            "d: nothing is moved out of its copy: cannot read directory",
            "Input/output error",
        ],
        &["d: cannot read directory"],
    ]);
    trees.holds("d/gone", "d/gone");
    let folder = folder(&trees);
    trees.holds(format!("{folder}/gone"), "gone");
}

#[test]
fn a_dry_run_tells_and_moves_nothing() {
    let trees = trees();
    lose(&trees);
    let run = trees.run_aloud(&["--dry-run", "--delete"]);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run:?}");
    let moves: Vec<_> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("move "))
        .collect();
    assert_eq!(moves, ["move d/gone", "move e/", "move gone"]);
    assert!(run.stdout.contains(", 3 to move, "), "{run:?}");
    assert_eq!(folders(&trees), [""; 0]);
    trees.holds("gone", "gone");
}

#[test]
fn names_with_newlines_and_trees_without_records_are_moved_too() {
    let trees = Trees::new();
    trees.put("kept", "x").put_copy("two\nlines/a\\b", "y");
    trees.succeeds(&["--delete", "--no-hash"]);
    trees.holds(format!("{}/two\nlines/a\\b", folder(&trees)), "y");
    assert_eq!(Sums::all_in(&trees.copy()).len(), 0);
}

/// Killed at any rename, a run leaves each file at one of its two paths, with true records.
#[test]
fn a_run_that_is_killed_loses_no_file_and_no_record() {
    if !has_program("strace") {
        return;
    }
    for when in 1..=4 {
        let trees = trees();
        lose(&trees);
        trees.put("new", "x");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null"]);
        strace.arg(format!(
            "--inject=rename,renameat,renameat2:signal=KILL:when={when}"
        ));
        strace.args([env!("CARGO_BIN_EXE_zc-dircopy"), "-q", "--delete"]);
        let killed = run(strace.arg(trees.source()).arg(trees.copy()));
        assert!([0, 137].contains(&killed.status), "{killed:?}");
        let check = trees.check(&["--quiet"]);
        assert_eq!(check.status, 0, "{when}: {check:?}");
        if killed.status == 137 {
            let refused = trees.run_aloud(&["--delete"]);
            assert_eq!(refused.status, 1, "{when}: {refused:?}");
            assert!(
                refused.stderr.contains("run without --delete first"),
                "{refused:?}"
            );
            trees.succeeds(&[]);
        }
        trees.succeeds(&["--delete"]);
        let folders = folders(&trees);
        for name in LOST {
            assert!(!trees.copied(name).exists(), "{name}");
            let places = folders.iter().filter(|folder| {
                let moved = trees.copied(format!("{folder}/{name}"));
                fs::read(moved).is_ok_and(|bytes| bytes == name.as_bytes())
            });
            assert_eq!(places.count(), 1, "{when}: {name}");
        }
        let check = trees.check(&["--quiet"]);
        assert_eq!(check.status, 0, "{when}: {check:?}");
    }
}

/// Runs with `--delete`, and injects errors into system calls.
fn with_errors(trees: &Trees, injection: &[&OsStr], options: &[&str]) -> Run {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null"])
        .args(injection);
    strace.args([env!("CARGO_BIN_EXE_zc-dircopy"), "-q", "--delete"]);
    run(strace.args(options).arg(trees.source()).arg(trees.copy()))
}

/// A file whose directory cannot be synced has moved even so, and its record with it.
#[test]
fn records_follow_files_that_are_moved_and_not_synced() {
    if !has_program("strace") {
        return;
    }
    let trees = trees();
    lose(&trees);
    let directory = trees.copied("d");
    let injection = [
        "-P".as_ref(),
        directory.as_os_str(),
        "--inject=fsync:error=EIO".as_ref(),
    ];
    let run = with_errors(&trees, &injection, &["--durable"]);
    assert_eq!(run.status, 1, "{run:?}");
    let complaint = "d/gone: it is moved, but a loss of power may undo that: Input/output error";
    assert!(run.stderr.contains(complaint), "{run:?}");
    have_moved(&trees);
    trees
        .check(&["--strict", "--silent"])
        .without_total("6 matching, 0 differing, 0 missing, 0 unreadable");
}

#[test]
fn an_entry_that_cannot_be_moved_leaves_no_directory_in_the_folder() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    for name in ["kept", "a/b/kept", "a/b/gone"] {
        trees.put(name, name);
    }
    trees.succeeds(&[]);
    fs::remove_file(trees.original("a/b/gone")).unwrap();
    // The folder and a are made, and b is not.
    let injection = ["--inject=mkdirat:error=EIO:when=3".as_ref()];
    let run = with_errors(&trees, &injection, &[]);
    run.failed_naming(&[&["a/b/gone: cannot make its directory: Input/output error"]]);
    assert_eq!(folders(&trees), [""; 0]);
    // Nothing can be renamed out of a/b.
    let directory = trees.copied("a/b");
    let injection = [
        "-P".as_ref(),
        directory.as_os_str(),
        "--inject=renameat:error=EIO".as_ref(),
    ];
    let run = with_errors(&trees, &injection, &[]);
    run.failed_naming(&[&["a/b/gone: cannot move it: Input/output error"]]);
    assert_eq!(folders(&trees), [""; 0]);
    trees.holds("a/b/gone", "a/b/gone");
    trees.check(&["--quiet"]).is_quiet();
}

#[test]
fn nothing_is_moved_in_a_history() {
    let trees = trees();
    lose(&trees);
    let run = trees.run(&["--delete", "--manifest=ascmhl"]);
    assert_eq!(run.status, 2, "{run:?}");
    let complaint = "--delete does not go with --manifest=ascmhl";
    assert!(run.stderr.contains(complaint), "{run:?}");
    assert_eq!(folders(&trees), [""; 0]);
}

/// What the journal announces of a killed run may not have happened.
#[test]
fn nothing_is_moved_before_the_digests_of_a_killed_run_are_certain() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    for n in 0..40 {
        trees.put(format!("d/{n}"), format!("{n}"));
    }
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]);
    strace.arg("--inject=linkat:signal=KILL:when=20");
    strace.args([env!("CARGO_BIN_EXE_zc-dircopy"), "-q", "-j1"]);
    let killed = run(strace.arg(trees.source()).arg(trees.copy()));
    assert_eq!(killed.status, 137, "{killed:?}");
    fs::rename(trees.original("d"), trees.original("e")).unwrap();
    let refused = trees.run_aloud(&["--delete"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    trees.succeeds(&[]);
    trees.succeeds(&["--delete"]);
    let check = trees.check(&["--quiet", "--strict"]);
    assert_eq!(check.status, 0, "{check:?}");
}
