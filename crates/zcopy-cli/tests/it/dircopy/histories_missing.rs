//! What a history of ASC MHL lists, and the destination lacks, held against `ascmhl`.

use super::histories::{MHL, ascmhl, generations};
use super::reference::Reference;
use super::*;

/// The status of `ascmhl` if what a history lists is missing.
const MISSING: i32 = 10;

fn creates(ascmhl: &Reference, tree: &Path) {
    let run = ascmhl.run(&["create", "-h", "xxh64"], tree);
    assert_eq!(run.status, 0, "{run:?}");
}

/// Three programs find all that is listed, and nothing else.
#[track_caller]
fn is_accepted((ascmhl, debug): &(Reference, Reference), trees: &Trees) {
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, 0, "{run:?}");
    let run = ascmhl.run(&["diff"], &trees.copy());
    assert_eq!(run.status, 0, "{run:?}");
    trees.check(&["--quiet", "--strict"]).is_quiet();
}

/// The patterns of the newest generation that are not those of every history.
fn patterns(trees: &Trees) -> Vec<String> {
    let newest = generations(&trees.copy()).pop().unwrap();
    let lines = newest.lines().map(str::trim);
    let patterns = lines.filter_map(|line| line.strip_prefix("<pattern>"));
    let patterns = patterns.filter_map(|line| line.strip_suffix("</pattern>"));
    patterns.skip(3).map(str::to_owned).collect()
}

#[test]
fn what_a_run_excludes_is_not_missing_until_a_run_copies_it() {
    let Some(programs) = ascmhl() else { return };
    let trees = Trees::new();
    trees
        .put("a.tmp", "a")
        .put("kept", "kept")
        .put("sub/b.tmp", "b")
        .put("sub/proxies/deep/c", "c")
        .put("[1] * \\ {x} ", "d");
    creates(&programs.0, &trees.source());
    let of_all = [
        "--exclude=*.tmp",
        "--exclude=/sub/proxies/",
        "--exclude=[[]1*",
    ];
    trees.succeeds(&[&[MHL], &of_all[..]].concat());
    is_accepted(&programs, &trees);
    assert_eq!(
        patterns(&trees),
        [
            r"**/\[1\]\ \*\ \\\ \{x\}\ ",
            "**/a.tmp",
            "**/sub/b.tmp",
            "**/sub/proxies"
        ]
    );
    // Another destination gets all generations, and none of the files.
    let again = Trees::new();
    let mut command = zc_dircopy();
    command.args([MHL, "--quiet"]).arg(trees.copy());
    run(command.arg(again.copy())).is_quiet();
    is_accepted(&programs, &again);

    trees.succeeds(&[MHL, "--exclude=*.tmp"]);
    is_accepted(&programs, &trees);
    assert_eq!(patterns(&trees), ["**/a.tmp", "**/sub/b.tmp"]);
    trees.succeeds(&[MHL]);
    is_accepted(&programs, &trees);
    assert!(patterns(&trees).is_empty());
    fs::write(trees.copied("sub/proxies/deep/c"), "C").unwrap();
    assert_eq!(trees.check(&["--quiet"]).status, 1);
}

/// In a pattern of `ascmhl` a path begins in any directory.
#[test]
fn an_excluded_file_whose_pattern_would_leave_out_another_one_is_an_error() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = Trees::new();
    trees.put("name", "").put("sub/name", "");
    creates(&ascmhl, &trees.source());
    let run = trees.run(&[MHL, "--exclude=/name"]);
    run.failed_naming(&[&["name: it is excluded and missing"]]);
    assert!(patterns(&trees).is_empty());
    assert_eq!(debug.run(&["verify"], &trees.copy()).status, MISSING);
}

#[test]
fn directories_and_files_that_are_gone_are_errors() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = Trees::new();
    trees.put("kept", "").put("file", "");
    fs::create_dir(trees.original("empty")).unwrap();
    creates(&ascmhl, &trees.source());
    fs::remove_dir(trees.original("empty")).unwrap();
    fs::remove_file(trees.original("file")).unwrap();
    for _ in 0..2 {
        let run = trees.run(&[MHL]);
        run.failed_naming(&[
            &["empty: an earlier generation lists it, and it is missing"],
            &["file: an earlier generation lists it, and it is missing"],
        ]);
        trees.holds("kept", "");
        assert_eq!(debug.run(&["verify"], &trees.copy()).status, MISSING);
    }
}

/// The next run removes the journal of a killed one, and `ascmhl` called it missing.
#[test]
fn a_journal_that_ascmhl_has_listed_is_not_missing_once_it_is_removed() {
    let Some(programs) = ascmhl() else { return };
    if !crate::skip::has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("a", "a").put("b", "b");
    let kills = "mkdirat:signal=KILL:when=1";
    trees.succeeds(&[MHL, "--exclude=*"]);
    fs::remove_dir_all(trees.copied("ascmhl")).unwrap();
    let traced = traced::meddled(&trees.command(&[MHL]), "mkdirat", kills);
    assert_eq!(traced.run.status, 128 + 9, "{traced:?}");
    creates(&programs.0, &trees.copy());
    let listed = generations(&trees.copy()).concat();
    assert!(listed.contains(">.zc-dircopy-journal-"), "{listed}");
    trees.check(&["--quiet", "--strict"]).is_quiet();
    for _ in 0..2 {
        trees.succeeds(&[MHL]);
        hides_nothing(&trees.copy());
        is_accepted(&programs, &trees);
        assert_eq!(patterns(&trees).len(), 1);
    }
}
