//! Sources that change while they are copied: a digest is a promise, and none is made of them.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;

use super::*;
use crate::files::pattern;
use crate::refused::needs;
use crate::skip::has_program;
use traced::{as_it_has_cloned, as_it_reads, while_stopped};

/// Long enough to be read in several pieces, and short enough to be dealt with together with
/// others.
const LEN: usize = (256 << 10) - 10;

/// A file of that length, beside two that nobody touches.
fn tree() -> Trees {
    filled(Trees::new())
}

fn filled(trees: Trees) -> Trees {
    trees
        .put("before", "x")
        .put("changes", pattern(LEN))
        .put("later", "y");
    dated(&trees.original("changes"), 1000);
    trees
}

/// It changes while a run is stopped: that is reported, it has no line but the one of an earlier
/// run, and the others are copied and have theirs. Without `strace` nothing is known, which is
/// said.
#[track_caller]
fn has_no_line(trees: &Trees, options: &[&str], stop: &[String], change: impl FnOnce()) {
    if !has_program("strace") {
        return;
    }
    let line_of = |sums: Option<Sums>| {
        let lines = sums.map(|sums| sums.lines).unwrap_or_default();
        let line = lines
            .into_iter()
            .find(|(path, _)| path == Path::new("changes"));
        line.map(|(_, digest)| digest)
    };
    let newest = || Sums::all_in(&trees.copy()).into_iter().next();
    let recorded = if trees.copy().exists() {
        line_of(newest())
    } else {
        None
    };
    let traced = while_stopped(&trees.command(options), stop, change);
    traced.run.failed_naming(&[&["changes"]]);
    trees.holds("before", "x").holds("later", "y");
    assert_eq!(line_of(newest()), recorded);
    let others = Sums {
        lines: trees
            .sums()
            .lines
            .into_iter()
            .filter(|(path, _)| path != Path::new("changes"))
            .collect(),
        path: trees.sums().path,
    };
    others.lists(&["before", "later"]).holds_in(&trees.copy());
    hides_nothing(&trees.copy());
}

/// Nor has it a name: the destination holds what it did.
#[track_caller]
fn has_no_name(trees: &Trees, change: impl FnOnce(&Path)) {
    let had = fs::read(trees.copied("changes")).ok();
    let file = trees.original("changes");
    has_no_line(trees, &[], &as_it_reads(&file), || change(&file));
    assert!(fs::read(trees.copied("changes")).ok() == had);
}

fn rewrite(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(b"changed", 199_999).unwrap();
}

fn append(path: &Path) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(b"more").unwrap();
}

fn truncate(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(100_000).unwrap();
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
    fs::write(&other, vec![7; LEN]).unwrap();
    File::open(&other).unwrap().set_modified(modified).unwrap();
    fs::rename(&other, path).unwrap();
}

#[test]
fn a_source_that_is_written_to_gets_no_name_and_no_line() {
    has_no_name(&tree(), rewrite);
}

#[test]
fn a_source_that_grows_gets_no_name_and_no_line() {
    has_no_name(&tree(), append);
}

/// It is not followed for as long as it grows, which may be until the disk is full.
#[test]
fn of_a_source_that_grows_no_more_is_copied_than_tells_so() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let file = trees.original("changes");
    let stop = ["--trace=read,pread64,copy_file_range,splice,sendfile".to_owned()];
    let stop = [&as_it_reads(&file)[..], &stop].concat();
    for options in [&[][..], &["--no-hash"], &["--verify-existing"]] {
        if options == ["--verify-existing"] {
            trees.succeeds(&["--no-hash"]);
        }
        let traced = while_stopped(&trees.command(options), &stop, || {
            let file = File::options().append(true).open(&file).unwrap();
            file.set_len(file.metadata().unwrap().len() + (50 << 20))
                .unwrap();
        });
        traced.run.failed_naming(&[&["changes", "it changed"]]);
        let moved = |line: &str| line.rsplit_once("= ")?.1.trim().parse::<usize>().ok();
        let moved: usize = traced.log.lines().filter_map(moved).sum();
        assert!(
            (LEN..2 * LEN + 1000).contains(&moved),
            "{moved}: {}",
            traced.log
        );
        let _ = fs::remove_dir_all(trees.copy());
        fs::write(&file, pattern(LEN)).unwrap();
    }
}

#[test]
fn a_source_that_is_cut_off_gets_no_name_and_no_line() {
    has_no_name(&tree(), truncate);
}

#[test]
fn a_source_whose_times_are_put_back_gets_no_name_and_no_line() {
    has_no_name(&tree(), rewrite_secretly);
}

#[test]
fn a_source_that_is_replaced_gets_no_name_and_no_line() {
    has_no_name(&tree(), replace);
}

/// The source of a clone that has not got its name yet.
#[test]
fn a_source_that_changes_when_it_has_been_cloned_gets_no_name_and_no_line() {
    if !needs(&[zcopy::Strategy::Reflink]) {
        return;
    }
    for change in [rewrite, append, truncate, rewrite_secretly, replace] {
        let Some(directory) = crate::mounts::Fs::Btrfs.dir() else {
            return;
        };
        let trees = filled(Trees::within(&directory));
        has_no_line(&trees, &["--jobs=1"], &as_it_has_cloned(), || {
            change(&trees.original("changes"));
        });
        assert!(!trees.copied("changes").exists());
    }
}

#[test]
fn what_the_destination_had_stays_if_the_source_changes() {
    let trees = tree();
    trees.put_copy("changes", "what was there");
    has_no_name(&trees, rewrite);
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
        let traced = while_stopped(&command, &as_it_reads(&file), || change(&file));
        traced.run.failed_naming(&[&["changes"]]);
        assert!(!trees.copied("changes").exists());
        trees.holds("before", "x").holds("later", "y");
    }
}

#[test]
fn a_source_that_changes_while_it_is_compared_has_no_line() {
    let trees = tree();
    trees.succeeds(&[]);
    let file = trees.original("changes");
    has_no_line(&trees, &["--verify-existing"], &as_it_reads(&file), || {
        rewrite_secretly(&file);
    });
}

#[test]
fn a_skipped_file_that_changes_while_it_is_digested_has_no_line() {
    let trees = tree();
    trees.succeeds(&[]);
    let file = trees.copied("changes");
    has_no_line(&trees, &[], &as_it_reads(&file), || rewrite_secretly(&file));
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
    let traced = while_stopped(&trees.command(&[]), &as_it_reads(&file), read);
    traced.run.is_quiet();
    trees.are_alike();
}
