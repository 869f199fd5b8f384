//! Several runs on the same files: killed ones, ones that refuse originals, ones that read nothing.

use super::archive::Archive;
use super::*;
use crate::skip::has_program;

const NAMES: [&str; 6] = ["f0", "f1", "f2", "f3", "f4", "f5"];

/// The map of a file of four bytes, of which those in the middle are missing.
const DAMAGE: &str = "# Mapfile. Created by GNU ddrescue version 1.27\n0x00000004 + 1\n\
    0x00000000 0x00000001 +\n0x00000001 0x00000002 -\n0x00000003 0x00000001 +\n";

/// The map of such a file, of which nothing is missing.
const WHOLE: &str =
    "# Mapfile. Created by GNU ddrescue version 1.27\n0x00000004 + 1\n0x00000000 0x00000004 +\n";

/// Gives all files of the card these contents, and a time so many seconds before the others'.
fn write_version(card: &Path, contents: &str, seconds_before: u64) {
    for name in NAMES {
        put(&card.join(name), contents);
        dated(&card.join(name), seconds_before);
    }
}

/// Copies the card, and kills the run at this call.
fn kill(archive: &Archive, card: &Path, calls: &str, nth: u32) {
    let trace = [
        format!("--trace={calls}"),
        format!("--inject={calls}:signal=KILL:when={nth}"),
    ];
    let traced = traced::traced(&archive.command(card, &["--jobs=1"]), &trace);
    assert_eq!(traced.run.status, 137, "{traced:?}");
}

/// The first run into a new archive has been killed.
fn killed_while_adding() -> (Archive, PathBuf) {
    let archive = Archive::new();
    let card = archive.card("one", &NAMES);
    write_version(&card, "two", 50);
    kill(&archive, &card, "linkat", 4);
    (archive, card)
}

/// A run that replaced the recorded version `one` by `two` has been killed.
fn killed_while_replacing() -> (Archive, PathBuf) {
    let archive = Archive::new();
    let card = archive.card("one", &NAMES);
    write_version(&card, "one", 100);
    archive.add(&card, &[]).is_quiet();
    write_version(&card, "two", 50);
    kill(&archive, &card, "renameat", 3);
    (archive, card)
}

/// The contents of all copies.
fn copies(archive: &Archive) -> Vec<String> {
    let read = |name: &str| fs::read_to_string(archive.0.copied(name)).unwrap();
    NAMES.map(read).into()
}

#[test]
fn originals_that_are_refused_are_not_announced() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = archive.card("one", &NAMES);
    write_version(&card, "good", 100);
    archive.add(&card, &[]).is_quiet();
    write_version(&card, "old and other", 200);
    // A newer file comes last, and its announcement is synced.
    put(&card.join("f5"), "newer");
    kill(&archive, &card, "fsync,fdatasync", 1);
    let run = archive.add(&card, &[]);
    assert_eq!(run.status, 1, "{run:?}");
    let expected = ["good", "good", "good", "good", "good", "newer"];
    assert_eq!(copies(&archive), expected);
    archive.is_intact(&NAMES);
}

#[test]
fn an_announcement_makes_no_other_original_acceptable() {
    if !has_program("strace") {
        return;
    }
    for is_gone in [false, true] {
        let (archive, card) = killed_while_replacing();
        write_version(&card, "rotten", 200);
        let before = copies(&archive);
        assert!(before.contains(&"one".to_owned()) && before.contains(&"two".to_owned()));
        if is_gone {
            for name in NAMES {
                fs::remove_file(archive.0.copied(name)).unwrap();
            }
        }
        let run = archive.add(&card, &[]);
        assert_eq!(run.status, 1, "{run:?}");
        if is_gone {
            assert!(NAMES.iter().all(|name| !archive.0.copied(name).exists()));
        } else {
            assert_eq!(copies(&archive), before);
            archive.is_intact(&NAMES);
        }
    }
}

#[test]
fn files_of_two_killed_runs_keep_their_digests() {
    if !has_program("strace") {
        return;
    }
    for is_new in [false, true] {
        let (archive, card) = if is_new {
            killed_while_adding()
        } else {
            killed_while_replacing()
        };
        let copied = || {
            let is_there = |name: &&str| archive.0.copied(name).exists();
            NAMES.into_iter().filter(is_there).collect::<Vec<_>>()
        };
        let before = copied();
        assert_eq!(archive.check_strictly().status, 0);
        write_version(&card, "three", 20);
        kill(&archive, &card, "fsync,fdatasync", 1);
        assert_eq!(copied(), before);
        assert_eq!(archive.check_strictly().status, 0);
        archive.add(&card, &[]).is_quiet();
        assert_eq!(copies(&archive), ["three"; 6]);
        archive.is_intact(&NAMES);
    }
}

#[test]
fn additional_names_that_are_not_read_keep_their_records() {
    for accepted in ["a", "b"] {
        let (archive, card) = changed_copy_with_two_names();
        archive.0.check(&["--accept", accepted]);
        for _ in 0..2 {
            let expected = match accepted {
                "a" => "a: OK\nb: FAILED\n",
                _ => "a: FAILED\nb: OK\n",
            };
            assert_eq!(archive.check().stdout, expected);
            archive.add(&card, &["--no-hash-skipped"]).is_quiet();
        }
    }
}

#[test]
fn an_additional_name_is_accepted_by_a_run_that_reads_nothing_else() {
    let (archive, card) = changed_copy_with_two_names();
    let options = ["--no-hash-skipped", "--accept=b"];
    archive.add(&card, &options).is_quiet();
    assert_eq!(archive.check().stdout, "a: FAILED\nb: OK\n");
}

/// A recorded copy with the names `a` and `b`, which has changed.
fn changed_copy_with_two_names() -> (Archive, PathBuf) {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    fs::hard_link(card.join("a"), card.join("b")).unwrap();
    archive.add(&card, &[]).is_quiet();
    fs::write(archive.0.copied("a"), "X").unwrap();
    dated(&archive.0.copied("a"), 1000);
    (archive, card)
}

#[test]
fn a_manifest_that_a_run_without_digests_copies_is_not_the_archives_own() {
    let trees = Trees::new();
    trees
        .put("file", "x")
        .put("shasum.2020-01-01.00.00.00.txt", "notes");
    trees.succeeds(&["--no-hash"]).succeeds(&[]);
    assert_eq!(trees.check(&["--strict"]).status, 0);
}

#[test]
fn verify_existing_does_not_record_the_digest_of_a_damaged_original() {
    let trees = Trees::new();
    trees.put("file", "good").put_copy("file", "good");
    trees.put("file", "g\0\0d");
    trees.put("file.damaged", DAMAGE);
    for path in [trees.original("file"), trees.copied("file")] {
        dated(&path, 100);
    }
    let run = trees.run(&["--verify-existing"]);
    assert_eq!(run.status, 1, "{run:?}");
    trees.holds("file", "good");
    assert!(!trees.check(&[]).stdout.contains("file: FAILED"));
}

/// The other name is linked to the copy of the first, which has no map.
#[test]
fn the_map_of_an_additional_name_is_copied() {
    let trees = Trees::new();
    trees.put("a", "g\0\0d").put("b.damaged", DAMAGE);
    fs::hard_link(trees.original("a"), trees.original("b")).unwrap();
    let run = trees.run(&[]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(trees.copied("b.damaged").exists());
    assert_eq!(trees.check(&[]).stdout, "a: OK\nb: FAILED damaged\n");
}

#[test]
fn a_map_of_a_damaged_copy_does_not_become_a_recorded_file() {
    let trees = Trees::new();
    trees.put("file", "g\0\0d").put("file.damaged", DAMAGE);
    dated(&trees.original("file"), 100);
    assert_eq!(trees.run(&[]).status, 1);
    // The original is whole again, and ddrescue has completed its map.
    trees.put("file", "good").put("file.damaged", WHOLE);
    dated(&trees.original("file"), 100);
    trees.run(&["--overwrite-policy=never"]);
    fs::remove_file(trees.original("file.damaged")).unwrap();
    assert_eq!(trees.check(&[]).stdout, "file: FAILED damaged\n");
    trees.succeeds(&[]).are_alike();
}
