//! Sources that change while they are copied: a digest is a promise, and none is made of them.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use super::*;
use crate::files::pattern;
use crate::skip::has_program;
use traced::while_reading;

/// A file that is long enough to be read in several pieces, beside two that nobody touches.
fn tree() -> Trees {
    let trees = Trees::new();
    trees
        .put("before", "x")
        .put("changes", pattern(1 << 20))
        .put("later", "y");
    dated(&trees.original("changes"), 1000);
    trees
}

/// It was reported; it has no line; the destination has what it had; and the others are copied.
#[track_caller]
fn is_reported(trees: &Trees, options: &[&str], had: Option<&[u8]>, change: impl FnOnce(&Path)) {
    let file = trees.original("changes");
    let command = trees.command(options);
    let traced = while_reading(&command, &file, 1, || change(&file));
    traced.run.failed_naming(&[&["changes"]]);
    let left = fs::read(trees.copied("changes")).ok();
    assert!(left.as_deref() == had, "it has got a name: {}", traced.log);
    trees.holds("before", "x").holds("later", "y");
    trees
        .sums()
        .lists(&["before", "later"])
        .holds_in(&trees.copy());
    assert_eq!(hidden_names(&trees.copy()), [""; 0].map(PathBuf::from));
}

fn rewrite(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(b"changed", 999_999).unwrap();
}

fn append(path: &Path) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(b"more").unwrap();
}

fn truncate(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(500_000).unwrap();
}

/// Only the time of the change tells.
fn rewrite_secretly(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    rewrite(path);
    File::open(path).unwrap().set_modified(modified).unwrap();
}

/// The name stands for another file of the same size and time.
fn replace(path: &Path) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let other = path.with_file_name("../other");
    fs::write(&other, vec![7; 1 << 20]).unwrap();
    File::open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, path).unwrap();
}

#[test]
fn a_source_that_is_written_to_gets_no_name_and_no_line() {
    if has_program("strace") {
        is_reported(&tree(), &[], None, rewrite);
    }
}

#[test]
fn a_source_that_grows_gets_no_name_and_no_line() {
    if has_program("strace") {
        is_reported(&tree(), &[], None, append);
    }
}

#[test]
fn a_source_that_is_cut_off_gets_no_name_and_no_line() {
    if has_program("strace") {
        is_reported(&tree(), &[], None, truncate);
    }
}

#[test]
fn a_source_whose_times_are_put_back_gets_no_name_and_no_line() {
    if has_program("strace") {
        is_reported(&tree(), &[], None, rewrite_secretly);
    }
}

#[test]
fn a_source_that_is_replaced_gets_no_name_and_no_line() {
    if has_program("strace") {
        is_reported(&tree(), &[], None, replace);
    }
}

#[test]
fn what_the_destination_had_stays_if_the_source_changes() {
    if has_program("strace") {
        let trees = tree();
        trees.put_copy("changes", "what was there");
        is_reported(&trees, &[], Some(b"what was there"), rewrite);
    }
}

#[test]
fn a_source_that_changes_is_no_copy_without_digests_either() {
    if !has_program("strace") {
        return;
    }
    for change in [append, rewrite_secretly] {
        let trees = tree();
        let file = trees.original("changes");
        let command = trees.command(&["--no-hash"]);
        let traced = while_reading(&command, &file, 1, || change(&file));
        traced.run.failed_naming(&[&["changes"]]);
        assert!(!trees.copied("changes").exists());
        trees.holds("before", "x").holds("later", "y");
    }
}

#[test]
fn a_source_that_changes_while_it_is_compared_has_no_line() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    trees.succeeds(&[]);
    let file = trees.original("changes");
    let command = trees.command(&["--verify-existing"]);
    let traced = while_reading(&command, &file, 1, || rewrite_secretly(&file));
    traced.run.failed_naming(&[&["changes"]]);
    trees
        .sums()
        .lists(&["before", "later"])
        .holds_in(&trees.copy());
}

#[test]
fn a_skipped_file_that_changes_while_it_is_digested_has_no_line() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    trees.succeeds(&[]);
    let file = trees.copied("changes");
    let traced = while_reading(&trees.command(&[]), &file, 1, || rewrite_secretly(&file));
    traced.run.failed_naming(&[&["changes"]]);
    trees
        .sums()
        .lists(&["before", "later"])
        .holds_in(&trees.copy());
}

/// Whoever reads a file must not make it look changed.
#[test]
fn a_source_that_is_only_read_meanwhile_is_copied() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let file = trees.original("changes");
    let read = || drop(fs::read(&file).unwrap());
    let traced = while_reading(&trees.command(&[]), &file, 1, read);
    traced.run.is_quiet();
    trees.are_alike();
}
