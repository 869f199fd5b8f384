//! Hard links: files that have several names.

use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;

fn link(trees: &Trees, from: &str, to: &str) {
    let to = trees.original(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::hard_link(trees.original(from), to).unwrap();
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Files with names in several directories, before and behind the first.
fn tree() -> Trees {
    let trees = Trees::new();
    trees.put("m/file", "some").put("m/other", "other");
    link(&trees, "m/file", "a/name");
    link(&trees, "m/file", "z/name");
    link(&trees, "m/file", "m/second");
    link(&trees, "m/other", "a/other");
    trees
}

#[test]
fn names_of_one_file_are_names_of_one_copy() {
    for jobs in ["1", "8"] {
        let trees = tree();
        trees.succeeds(&["--jobs", jobs]).are_alike();
        trees.succeeds(&["--jobs", jobs]).are_alike();
        trees.sums().satisfies_sha256sum(&trees.copy());
    }
}

#[test]
fn many_names_of_one_file_are_names_of_one_copy() {
    let trees = Trees::new();
    trees.put("0/file", vec![7; 100_000]);
    for n in 0..300 {
        link(&trees, "0/file", &format!("{}/name{n}", n % 17));
    }
    trees.succeeds(&["--jobs=4"]).are_alike();
}

#[test]
fn a_later_run_links_what_was_copied_earlier() {
    let trees = tree();
    trees.succeeds(&[]);
    link(&trees, "m/file", "b/later");
    trees.succeeds(&[]).are_alike();
    fs::remove_file(trees.copied("a/name")).unwrap();
    trees.succeeds(&[]).are_alike();
}

#[test]
fn names_that_belong_together_are_put_together() {
    let trees = tree();
    for name in ["a/name", "z/name", "m/file"] {
        trees.put_copy(name, "some");
        dated(&trees.copied(name), 10);
        dated(&trees.original(name), 10);
    }
    trees.succeeds(&[]).are_alike();
}

#[test]
fn names_that_no_longer_belong_together_are_parted() {
    let trees = Trees::new();
    trees.put("a", "one").put("b", "another");
    trees.put_copy("a", "the same");
    fs::hard_link(trees.copied("a"), trees.copied("b")).unwrap();
    trees.succeeds(&[]).are_alike();
}

/// The first name is copied to a name of its own, not through what a neighbour shares with it.
#[test]
fn a_link_of_the_destination_to_something_outside_is_not_written_through() {
    let trees = tree();
    put(&trees.path().join("outside"), "untouched");
    fs::create_dir_all(trees.copied("z")).unwrap();
    fs::hard_link(trees.path().join("outside"), trees.copied("z/name")).unwrap();
    trees.succeeds(&[]).are_alike();
    assert_eq!(
        fs::read(trees.path().join("outside")).unwrap(),
        b"untouched"
    );
}

#[test]
fn symbolic_links_and_fifos_have_several_names_too() {
    let trees = Trees::new();
    symlink("nowhere", trees.original("link")).unwrap();
    link(&trees, "link", "a/link");
    let (kind, mode) = (rustix::fs::FileType::Fifo, 0o600.into());
    rustix::fs::mknodat(rustix::fs::CWD, trees.original("fifo"), kind, mode, 0).unwrap();
    link(&trees, "fifo", "z/fifo");
    trees.succeeds(&[]).succeeds(&[]).are_alike();
    assert_eq!(inode(&trees.copied("link")), inode(&trees.copied("a/link")));
}

#[test]
fn names_outside_of_the_tree_change_nothing() {
    let trees = Trees::new();
    trees.put("file", "x").put("excluded", "y");
    fs::hard_link(trees.original("file"), trees.path().join("outside")).unwrap();
    link(&trees, "excluded", "kept");
    trees.succeeds(&["--exclude=excluded"]);
    trees.holds("file", "x").holds("kept", "y");
    assert!(!trees.copied("excluded").exists());
    trees
        .sums()
        .lists(&["file", "kept"])
        .holds_in(&trees.copy());
}

/// Otherwise its names would be those of a file that is not there.
#[test]
fn names_of_a_file_that_cannot_be_copied_are_reported() {
    let trees = tree();
    fs::create_dir_all(trees.copied("a/name")).unwrap();
    let run = trees.run(&[]);
    run.ended_with(1);
    assert!(run.stderr.contains("a/name"), "{run:?}");
    trees
        .sums()
        .holds_in(&trees.copy())
        .satisfies_sha256sum(&trees.copy());
    trees.holds("a/other", "other").holds("m/other", "other");
    // Each name is copied, or is told of.
    for name in ["m/file", "m/second", "z/name"] {
        let is_copied = trees.copied(name).is_file();
        let has_line = trees.sums().paths().contains(&Path::new(name));
        assert_eq!(is_copied, has_line, "{name}");
        assert!(is_copied || run.stderr.contains(name), "{name}: {run:?}");
    }
}

#[test]
fn never_leaves_names_that_are_there() {
    let trees = tree();
    trees.put_copy("m/second", "own");
    trees.succeeds(&["--overwrite-policy=never"]);
    trees.holds("m/second", "own").holds("z/name", "some");
    let sums = trees.sums();
    sums.is_whole(&trees.source()).holds_in(&trees.copy());
}

#[test]
fn a_link_that_is_not_read_keeps_its_line() {
    let trees = tree();
    trees.succeeds(&[]);
    trees.put("m/alone", "is copied");
    let before = trees.sums().lines;
    trees.succeeds(&["--no-hash-skipped"]);
    let mut after = trees.sums().lines;
    after.retain(|(path, _)| path != Path::new("m/alone"));
    assert_eq!(after, before);
    trees.sums().holds_in(&trees.copy());
}

/// Somebody has worked on one of the names since.
#[test]
fn a_newer_file_of_the_same_size_does_not_become_a_link() {
    for policy in ["default", "update"] {
        let trees = tree();
        trees.put_copy("m/second", "edit");
        trees.succeeds(&["--overwrite-policy", policy]);
        trees.holds("m/second", "edit").holds("z/name", "some");
        trees.sums().holds_in(&trees.copy());
    }
}

#[test]
fn another_name_that_is_left_is_compared_too() {
    let trees = tree();
    trees.put_copy("m/second", "edit");
    let copied = trees.run(&["--overwrite-policy=never", "--verify-existing"]);
    copied.ended_with(1);
    assert!(copied.stderr.contains("m/second"), "{copied:?}");
    // It has no line, which would vouch for it.
    let check = trees.check(&["--strict"]);
    let unlisted = "m/second: FAILED not listed\n";
    assert!(check.stdout.contains(unlisted), "{check:?}");
}

/// The first name belongs to a file of another program, which is no copy: other names are not linked
/// to it.
#[test]
fn names_are_not_linked_to_what_was_left() {
    for policy in ["never", "default", "update"] {
        let trees = Trees::new();
        trees.put("a", "source").put_copy("a", "theirs");
        link(&trees, "a", "b");
        link(&trees, "a", "c");
        dated(&trees.original("a"), 2000);
        dated(&trees.copied("a"), 1000);
        let options = ["--overwrite-policy", policy];
        trees.succeeds(&options);
        trees
            .holds("a", "theirs")
            .holds("b", "source")
            .holds("c", "source");
        let number = |name| inode(&trees.copied(name));
        assert_eq!(number("b"), number("c"), "{policy}");
        assert_ne!(number("a"), number("b"), "{policy}");
        trees.sums().lists(&["a", "b", "c"]).holds_in(&trees.copy());
        trees.succeeds(&options);
        trees
            .holds("a", "theirs")
            .holds("b", "source")
            .holds("c", "source");
    }
}

#[test]
fn symbolic_links_are_not_linked_to_what_was_left() {
    let trees = Trees::new();
    symlink("here", trees.original("a")).unwrap();
    link(&trees, "a", "b");
    fs::create_dir_all(trees.copy()).unwrap();
    symlink("there", trees.copied("a")).unwrap();
    trees.succeeds(&["--overwrite-policy=never"]);
    let led_to = |name| fs::read_link(trees.copied(name)).unwrap();
    assert_eq!(led_to("a"), Path::new("there"));
    assert_eq!(led_to("b"), Path::new("here"));
}

#[test]
fn if_the_first_name_fails_the_next_is_the_first() {
    let trees = Trees::new();
    trees.put("a", "some");
    for name in ["b", "d/c", "e"] {
        link(&trees, "a", name);
    }
    fs::create_dir_all(trees.copied("a")).unwrap();
    trees.run(&[]).failed_naming(&[&["a", "Is a directory"]]);
    let number = |name| inode(&trees.copied(name));
    for name in ["b", "d/c", "e"] {
        trees.holds(name, "some");
        assert_eq!(number(name), number("b"), "{name}");
    }
    trees
        .sums()
        .lists(&["b", "d/c", "e"])
        .holds_in(&trees.copy());
}

/// Its size and its time are those of the original, and a run that reads no copies believes them.
#[test]
fn a_new_name_does_not_become_a_link_to_a_copy_that_differs() {
    for options in [&["--no-hash-skipped"][..], &["--no-hash"]] {
        for records in [&[][..], &["--no-hash"]] {
            let trees = Trees::new();
            trees.put("m/file", "some").put("m/whole", "other");
            trees.succeeds(records);
            trees.put_copy("m/file", "rots");
            for path in [trees.original("m/file"), trees.copied("m/file")] {
                dated(&path, 7);
            }
            for (from, to) in [
                ("m/file", "n/name"),
                ("m/file", "z/name"),
                ("m/whole", "z/w"),
            ] {
                link(&trees, from, to);
            }
            let run = trees.run(options);
            let damaged: [&str; 2] = ["m/file", "its copy differs from it"];
            run.failed_naming(&[&damaged]);
            trees.holds("m/file", "rots");
            trees.holds("n/name", "some").holds("z/name", "some");
            let inode = |name| inode(&trees.copied(name));
            assert_eq!(inode("n/name"), inode("z/name"), "{options:?}");
            assert_eq!(inode("m/whole"), inode("z/w"), "{options:?}");
        }
    }
}
