//! Histories of ASC MHL in directories below the root of a tree, held against `ascmhl`.

use super::histories::{MHL, VERIFICATION_FAILED, ascmhl, flip_a_byte, generations, verifies};
use super::reference::Reference;
use super::*;

/// The status of `ascmhl-debug verify` if a file has no record.
const NEW_FILES_FOUND: i32 = 21;

/// A source whose root, `card` and `card/inner/deep` have histories.
fn tree(ascmhl: &Reference) -> Trees {
    let trees = Trees::new();
    trees
        .put("notes", "of the root")
        .put("card/clip", "of the card")
        .put("card/inner/clip", "of the card, too")
        .put("card/inner/deep/clip", "of the deepest");
    for directory in ["card/inner/deep", "card", ""] {
        creates(ascmhl, &trees.original(directory));
    }
    trees
}

fn creates(ascmhl: &Reference, tree: &Path) {
    let run = ascmhl.run(&["create", "-h", "xxh64"], tree);
    assert_eq!(run.status, 0, "{run:?}");
}

const CLIPS: [&str; 3] = ["card/clip", "card/inner/clip", "card/inner/deep/clip"];

#[test]
fn check_verifies_files_by_the_nearest_history() {
    let Some((ascmhl, _)) = ascmhl() else { return };
    let trees = tree(&ascmhl);
    let source = trees.source();
    assert_eq!(check(&source, &["--quiet", "--strict"]).status, 0);
    for clip in CLIPS {
        flip_a_byte(&trees.original(clip));
        let run = check(&source, &["--silent", "--no-summary"]);
        assert_eq!((run.status, run.stdout), (1, format!("{clip}: FAILED\n")));
        flip_a_byte(&trees.original(clip));
    }
    trees.put("card/inner/new", "");
    let run = check(&source, &["--silent", "--no-summary", "--strict"]);
    let expected = "card/inner/new: FAILED not listed\n";
    assert_eq!((run.status, &*run.stdout), (1, expected));
}

#[test]
fn check_finds_damage_of_a_nested_history() {
    let Some((ascmhl, _)) = ascmhl() else { return };
    let trees = tree(&ascmhl);
    fs::remove_file(trees.original("card/inner/deep/ascmhl/ascmhl_chain.xml")).unwrap();
    check(&trees.source(), &["--quiet"]).failed_naming(&[&["src/card/inner/deep/ascmhl"]]);
}

/// What was copied is refused by `ascmhl` if the generation of the root lists the files of others.
#[test]
fn a_copy_with_nested_histories_is_verified_by_both_and_goes_on_in_ascmhl() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = tree(&ascmhl);
    let verifies_all = || {
        let run = debug.run(&["verify"], &trees.copy());
        assert_eq!(run.status, 0, "{run:?}");
        assert_eq!(trees.check(&["--quiet", "--strict"]).status, 0);
    };
    trees.succeeds(&[MHL]);
    verifies(&debug, &trees.copy());
    verifies_all();
    let newest = generations(&trees.copy()).pop().unwrap();
    assert_eq!(newest.matches("action=").count(), 1);
    assert_eq!(newest.matches("<hashlistreference>").count(), 1);
    assert!(newest.contains("<path>card/ascmhl/"), "{newest}");
    // All histories of the source go on, and so do their copies. The digests of directories are
    // others then.
    trees.put("card/inner/new", "");
    creates(&ascmhl, &trees.source());
    trees.succeeds(&[MHL]);
    verifies_all();
    // They go on in the copy, and the next run replaces none by the shorter one of the source.
    creates(&ascmhl, &trees.copy());
    verifies_all();
    for _ in 0..2 {
        trees.succeeds(&[MHL]);
        verifies_all();
    }
}

#[test]
fn what_a_run_excludes_below_a_nested_history_is_not_missing() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    for exclude in ["/card/inner", "/card/inner/clip", "deep", "card", "clip"] {
        let trees = tree(&ascmhl);
        trees.succeeds(&[MHL, "--exclude", exclude]);
        let run = debug.run(&["verify"], &trees.copy());
        assert_eq!(run.status, 0, "{exclude}: {run:?}");
        assert_eq!(trees.check(&["--quiet", "--strict"]).status, 0, "{exclude}");
        trees.succeeds(&[MHL]);
        verifies(&debug, &trees.copy());
        assert_eq!(trees.check(&["--quiet", "--strict"]).status, 0, "{exclude}");
        flip_a_byte(&trees.copied("card/inner/deep/clip"));
        assert_eq!(trees.check(&["--quiet"]).status, 1, "{exclude}");
    }
}

#[test]
fn a_file_that_differs_from_its_nested_history_is_not_copied() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    for clip in CLIPS {
        let trees = tree(&ascmhl);
        flip_a_byte(&trees.original(clip));
        let run = trees.run(&[MHL]);
        run.failed_naming(&[&[clip, "differs from the first digest"]]);
        assert!(!trees.copied(clip).exists());
        flip_a_byte(&trees.original(clip));
        trees.succeeds(&[MHL]);
        verifies(&debug, &trees.copy());
        flip_a_byte(&trees.copied(clip));
        let run = trees.run(&[MHL]);
        run.failed_naming(&[&[clip, "differs from the digest"]]);
        let run = debug.run(&["verify"], &trees.copy());
        assert_eq!(run.status, VERIFICATION_FAILED, "{run:?}");
    }
}

/// The run cannot make it whole: it leaves nested histories as they are.
#[test]
fn a_file_that_a_nested_history_lacks_is_copied_recorded_and_an_error() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = tree(&ascmhl);
    trees.put("card/inner/new", "new");
    let run = trees.run(&[MHL]);
    run.failed_naming(&[&[
        "card/inner/new",
        "nearest history above it does not list it",
    ]]);
    trees.holds("card/inner/new", "new");
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, NEW_FILES_FOUND, "{run:?}");
    flip_a_byte(&trees.copied("card/inner/new"));
    let run = trees.check(&["--silent", "--no-summary"]);
    let expected = "card/inner/new: FAILED\n";
    assert_eq!((run.status, &*run.stdout), (1, expected));
}

#[test]
fn a_damaged_nested_history_of_the_source_is_an_error_of_the_copy() {
    let Some((ascmhl, _)) = ascmhl() else { return };
    let trees = tree(&ascmhl);
    trees.put("card/ascmhl/ascmhl_chain.xml", "<cut");
    let run = trees.run(&[MHL]);
    let is_named = run
        .stderr
        .contains("card/ascmhl/ascmhl_chain.xml: the manifest is damaged");
    assert!(run.status == 1 && is_named, "{run:?}");
    trees.holds("card/clip", "of the card");
}
