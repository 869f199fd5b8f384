//! An original that is no newer version than the recorded one, and has other contents: a card that
//! has rotted, or another clip of the same name.

use super::mounting::{apart, can_mount};
use super::*;
use crate::skip::has_program;

/// A file whose copy was recorded, and an original with this and with the same modification time.
fn recorded_and_then(original: &str) -> Trees {
    let trees = Trees::new();
    trees.put("clip", "good");
    dated(&trees.original("clip"), 100);
    trees.succeeds(&[]);
    trees.put("clip", original);
    dated(&trees.original("clip"), 100);
    trees
}

const WITHOUT_ITS_DIGEST: [&[&str]; 4] = [
    &["--hash=blake3"],
    &["--no-hash"],
    &["--no-hash", "--overwrite-policy=update"],
    &["--hash=blake3", "--no-hash-skipped"],
];

#[test]
fn a_run_that_makes_no_digest_or_another_one_refuses_it_too() {
    for options in WITHOUT_ITS_DIGEST {
        let trees = recorded_and_then("rot!");
        fs::remove_file(trees.copied("clip")).unwrap();
        let run = trees.run(options);
        run.failed_naming(&[&["clip", "--overwrite-policy=always copies it"]]);
        assert!(!trees.copied("clip").exists(), "{options:?}");
        assert_eq!(trees.check(&[]).stdout, "clip: FAILED open or read\n");

        trees.put("clip", "good");
        dated(&trees.original("clip"), 100);
        trees.succeeds(options).holds("clip", "good");
    }
}

#[test]
fn it_does_not_replace_a_copy_that_was_cut() {
    for policy in ["default", "update"] {
        let trees = recorded_and_then("rot!");
        // The copy is newer than the original now.
        fs::write(trees.copied("clip"), "go").unwrap();
        let run = trees.run(&["--overwrite-policy", policy]);
        run.failed_naming(&[&["clip", "no newer than the copy"]]);
        trees.holds("clip", "go");
        assert_eq!(trees.check(&[]).stdout, "clip: FAILED\n");

        trees.put("clip", "good");
        dated(&trees.original("clip"), 100);
        trees.succeeds(&["--overwrite-policy", policy]);
        trees.holds("clip", "good").sums().holds_in(&trees.copy());
    }
}

#[test]
fn a_shorter_original_that_is_no_newer_does_not_replace_a_good_copy() {
    for policy in ["default", "update"] {
        for seconds_before in [100, 5000] {
            let trees = recorded_and_then("go");
            dated(&trees.original("clip"), seconds_before);
            let run = trees.run(&["--overwrite-policy", policy]);
            run.failed_naming(&[&["clip", "--overwrite-policy=always replaces the copy"]]);
            trees.holds("clip", "good");
            assert_eq!(trees.check(&[]).stdout, "clip: OK\n");
            trees.succeeds(&["--overwrite-policy=always"]).are_alike();
        }
    }
}

/// A camera's clock may be ahead, and that of the archive behind.
#[test]
fn nor_does_one_with_a_time_behind_that_of_the_newest_manifest() {
    let ahead = |hours: u64| SystemTime::now() + Duration::from_secs(3600 * hours);
    let dated = |trees: &Trees, hours| {
        let original = fs::File::open(trees.original("clip")).unwrap();
        original.set_modified(ahead(hours)).unwrap();
    };
    for format in ["sha256sum", "bagit"] {
        let options = ["--manifest", format];
        let trees = Trees::new();
        trees.put("clip", "good");
        dated(&trees, 9);
        trees.succeeds(&options);
        trees.put("clip", "go");
        dated(&trees, 8);
        let run = trees.run(&options);
        assert_eq!(run.status, 1, "{run:?}");
        let words = "clip: it differs from the digest that its copy was recorded with";
        assert!(run.stderr.contains(words), "{run:?}");
        let copied = ["clip", "data/clip"].map(|path| fs::read(trees.copied(path)).ok());
        assert!(copied.contains(&Some(b"good".to_vec())), "{format}");
        // A newer version may.
        dated(&trees, 10);
        trees.succeeds(&options);
    }
}

#[test]
fn another_name_of_it_does_not_replace_a_good_copy() {
    for policy in ["default", "update"] {
        let trees = recorded_and_then("rot!");
        fs::hard_link(trees.original("clip"), trees.original("alias")).unwrap();
        let run = trees.run(&["--overwrite-policy", policy]);
        assert_eq!(run.status, i32::from(policy == "update"), "{run:?}");
        trees.holds("alias", "rot!").holds("clip", "good");
        assert_eq!(trees.check(&[]).stdout, "alias: OK\nclip: OK\n");
    }
}

#[test]
fn another_name_of_a_newer_version_replaces_the_copy() {
    let trees = recorded_and_then("newv");
    dated(&trees.original("clip"), 99);
    fs::hard_link(trees.original("clip"), trees.original("alias")).unwrap();
    trees.succeeds(&[]).are_alike();
}

#[test]
fn times_that_another_disk_has_rounded_make_it_no_newer() {
    let trees = recorded_and_then("rot!");
    // As on exFAT, from which the archive was moved.
    let copy = fs::File::open(trees.copied("clip")).unwrap();
    let rounded = Duration::new(1_780_000_000 - 100, 120_000_000);
    copy.set_modified(SystemTime::UNIX_EPOCH + rounded).unwrap();
    let run = trees.run(&[]);
    run.failed_naming(&[&["clip", "no newer than the copy"]]);
    trees.holds("clip", "good");
}

#[test]
fn dropped_records_and_replaced_files_are_told() {
    let trees = recorded_and_then("a newer version");
    dated(&trees.original("clip"), 50);
    let run = trees.run_aloud(&["--no-hash"]);
    let told =
        "1 file of the destination replaced\n1 record dropped, as --no-hash makes no digests\n";
    assert!(run.stdout.contains(told), "{run:?}");
}

/// The driver passes on the inode numbers of two disks as if they were one.
#[test]
fn files_of_two_disks_with_one_inode_number_do_not_become_links() {
    if !can_mount() || !has_program("bindfs") {
        return;
    }
    let script = "cd \"$1\"
        trap 'umount shown; umount src/a src/b' EXIT
        mkdir shown
        for disk in a b; do
            truncate -s 8M $disk.img; mkfs.ext4 -qF $disk.img
            mkdir src/$disk; mount -o loop $disk.img src/$disk
            mkdir src/$disk/other; echo \"of $disk\" >src/$disk/file; ln src/$disk/file src/$disk/other/name
            touch -d 2025-01-01 src/$disk/file
        done
        bindfs src shown
        [ \"$(stat -c %d:%i shown/a/file)\" = \"$(stat -c %d:%i shown/b/file)\" ]
        \"$2\" --exclude other --exclude lost+found shown dst";
    for no_hash in ["", " --no-hash"] {
        let trees = Trees::new();
        let mut shell = apart(&format!("set -e\n{script}{no_hash}"));
        let run = run(shell.arg(trees.path()).arg(zc_dircopy().get_program()));
        assert_eq!(run.status, 0, "{run:?}");
        trees.holds("a/file", "of a\n").holds("b/file", "of b\n");
    }
}
