//! Histories of ASC MHL, held against `ascmhl`.

use super::reference::{Reference, reference};
use super::*;

pub(super) const MHL: &str = "--manifest=ascmhl";

/// The status of `ascmhl-debug verify` if a file differs.
pub(super) const VERIFICATION_FAILED: i32 = 11;

fn tree() -> Trees {
    let trees = Trees::new();
    trees
        .put("Clips/A001.mov", "one")
        .put("Clips/b/é", "two")
        .put("Clips.txt", "between a directory and its files")
        .put("a & b <c>", "")
        .put("tab\t", "x")
        .put(".DS_Store", "left out")
        .put("long", vec![7; (1 << 20) + 5]);
    fs::create_dir(trees.original("empty")).unwrap();
    trees
}

/// `ascmhl`, and the program that verifies.
pub(super) fn ascmhl() -> Option<(Reference, Reference)> {
    Some((reference("ascmhl")?, reference("ascmhl-debug")?))
}

#[track_caller]
pub(super) fn verifies(debug: &Reference, tree: &Path) {
    for options in [&["verify"][..], &["verify", "-dh"]] {
        let run = debug.run(options, tree);
        assert_eq!(run.status, 0, "{options:?}: {run:?}");
    }
}

/// The generations of a tree, the oldest first.
pub(super) fn generations(tree: &Path) -> Vec<String> {
    let names = fs::read_dir(tree.join("ascmhl")).unwrap();
    let names = names.map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = names
        .filter(|path| path.extension().is_some_and(|extension| extension == "mhl"))
        .collect();
    names.sort();
    names
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// How many digests of the newest generation have this action.
fn n_newest(tree: &Path, action: &str) -> usize {
    let generations = generations(tree);
    let newest = generations.last().unwrap();
    newest.matches(&format!("action=\"{action}\"")).count()
}

pub(super) fn flip_a_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[0] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A run that copies the source to another place.
fn copied_to(trees: &Trees, copy: &Path) -> Run {
    let mut command = zc_dircopy();
    command.args([MHL, "--quiet"]);
    run(command.arg(trees.source()).arg(copy))
}

#[test]
fn a_place_that_no_directory_of_generations_can_have_is_named() {
    let trees = tree();
    fs::create_dir(trees.copy()).unwrap();
    mkfifo(&trees.copied("ascmhl"));
    let failure = ".: cannot write the manifest: ascmhl: Not a directory";
    trees.run(&[MHL]).failed_naming(&[&[failure]]);
    trees.holds("Clips/A001.mov", "one");
}

#[test]
fn each_run_adds_a_generation_that_ascmhl_verifies() {
    let Some((_, debug)) = ascmhl() else { return };
    for hash in [
        "xxh128",
        "xxh64",
        "xxh3",
        "md5",
        "sha1",
        "c4",
        "xxh64,md5",
        "c4,sha1,xxh128",
    ] {
        let trees = tree();
        let option = format!("--hash={hash}");
        let n_hashes = hash.split(',').count();
        trees.succeeds(&[MHL, &option]);
        verifies(&debug, &trees.copy());
        assert_eq!(n_newest(&trees.copy(), "original"), 6 * n_hashes, "{hash}");
        // In any other directory, its earlier digest would be another one.
        trees.put("added", "added");
        trees.succeeds(&[MHL]);
        verifies(&debug, &trees.copy());
        let counts = ["original", "verified", "failed"].map(|one| n_newest(&trees.copy(), one));
        assert_eq!(counts, [n_hashes, 6 * n_hashes, 0], "{hash}");
        assert_eq!(trees.check(&["--quiet"]).status, 0, "{hash}");
        assert_eq!(generations(&trees.copy()).len(), 2);
    }
}

/// `ascmhl` indents the lines of such a name when it writes one.
#[test]
fn a_name_may_have_a_line_feed() {
    let Some((_, debug)) = ascmhl() else { return };
    let trees = tree();
    trees.put("line\nfeed\rreturn", "");
    trees.succeeds(&[MHL]);
    verifies(&debug, &trees.copy());
    assert_eq!(trees.check(&["--quiet"]).status, 0);
}

#[test]
fn both_find_a_flipped_byte_and_the_next_generation_says_so() {
    let Some((_, debug)) = ascmhl() else { return };
    let trees = tree();
    trees.succeeds(&[MHL]);
    flip_a_byte(&trees.copied("Clips/A001.mov"));
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, VERIFICATION_FAILED, "{run:?}");
    let run = trees.check(&["--silent", "--no-summary"]);
    assert_eq!((run.status, &*run.stdout), (1, "Clips/A001.mov: FAILED\n"));
    let run = trees.run(&[MHL]);
    run.failed_naming(&[&["Clips/A001.mov", "differs from the digest"]]);
    assert_eq!(n_newest(&trees.copy(), "failed"), 1);
    // The card repairs it, and the first digest still counts.
    trees.succeeds(&[MHL, "--overwrite-policy=update"]);
    assert_eq!(n_newest(&trees.copy(), "verified"), 6);
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, 0, "{run:?}");
}

#[test]
fn a_history_of_ascmhl_is_compared_with_while_its_tree_is_copied_and_goes_on() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = tree();
    let options = ["create", "-h", "xxh64", "-h", "c4"];
    assert_eq!(ascmhl.run(&options, &trees.source()).status, 0);
    assert_eq!(check(&trees.source(), &["--quiet"]).status, 0);
    trees.succeeds(&[MHL]);
    verifies(&debug, &trees.copy());
    assert_eq!(generations(&trees.copy()).len(), 2);
    assert_eq!(n_newest(&trees.copy(), "verified"), 12);
    // The other program goes on with it, and so do further runs.
    assert_eq!(
        ascmhl.run(&["create", "-h", "md5"], &trees.copy()).status,
        0
    );
    trees.succeeds(&[MHL]);
    verifies(&debug, &trees.copy());
    assert_eq!(generations(&trees.copy()).len(), 4);

    flip_a_byte(&trees.original("long"));
    let elsewhere = trees.path().join("elsewhere");
    let run = copied_to(&trees, &elsewhere);
    run.failed_naming(&[&["long", "differs from the first digest"]]);
    assert!(!elsewhere.join("long").exists());
}

#[test]
fn a_history_of_ascmhl_in_the_destination_goes_on_and_a_flipped_byte_is_found() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    for hash in ["md5", "sha1", "xxh128", "xxh3", "xxh64", "c4"] {
        let trees = tree();
        trees
            .put_copy("Clips/A001.mov", "one")
            .put_copy("own", "not of the card");
        assert_eq!(ascmhl.run(&["create", "-h", hash], &trees.copy()).status, 0);
        assert_eq!(trees.check(&["--quiet"]).status, 0, "{hash}");
        // The digests are of another function, and stand beside one of the history's.
        trees.succeeds(&[MHL, "--hash=xxh64"]);
        assert_eq!(debug.run(&["verify"], &trees.copy()).status, 0, "{hash}");
        flip_a_byte(&trees.copied("own"));
        assert_eq!(trees.check(&["--quiet"]).status, 1, "{hash}");
        let run = debug.run(&["verify"], &trees.copy());
        assert_eq!(run.status, VERIFICATION_FAILED, "{hash}: {run:?}");
    }
}

#[test]
fn a_file_that_ascmhl_found_renamed_has_its_new_name_alone() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = tree();
    assert_eq!(
        ascmhl
            .run(&["create", "-h", "xxh64"], &trees.source())
            .status,
        0
    );
    fs::rename(trees.original("long"), trees.original("renamed")).unwrap();
    let options = ["create", "-h", "xxh64", "--detect_renaming"];
    let run = ascmhl.run(&options, &trees.source());
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(check(&trees.source(), &["--quiet"]).status, 0);
    trees.succeeds(&[MHL]);
    assert_eq!(n_newest(&trees.copy(), "verified"), 6);
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, 0, "{run:?}");
}

/// A file that has the old name of a renamed one was never verified.
#[test]
fn a_new_file_under_the_old_name_of_a_renamed_one_is_verified() {
    let Some((ascmhl, _)) = ascmhl() else { return };
    let trees = Trees::new();
    trees.put("old", "of the first").put("other", "");
    let options = ["create", "-h", "xxh64", "--detect_renaming"];
    assert_eq!(ascmhl.run(&options, &trees.source()).status, 0);
    fs::rename(trees.original("old"), trees.original("new")).unwrap();
    assert_eq!(ascmhl.run(&options, &trees.source()).status, 0);
    trees.put("old", "of the second");
    // It calls the file another version of the renamed one, and its digest a failure.
    let run = ascmhl.run(&options, &trees.source());
    assert_eq!(run.status, VERIFICATION_FAILED, "{run:?}");
    assert_eq!(check(&trees.source(), &["--quiet", "--strict"]).status, 0);
    trees.succeeds(&[MHL]);
    assert_eq!(trees.check(&["--quiet", "--strict"]).status, 0);
    for tree in [trees.source(), trees.copy()] {
        for (name, other) in [("old", "new"), ("new", "old")] {
            flip_a_byte(&tree.join(name));
            let run = check(&tree, &["--silent", "--no-summary"]);
            let expected = format!("{name}: FAILED\n");
            assert_eq!((run.status, run.stdout), (1, expected), "{other} is whole");
            flip_a_byte(&tree.join(name));
        }
    }
}

/// Of two histories only that of the destination was compared with.
#[test]
fn a_copy_is_compared_with_both_histories_if_they_differ() {
    let Some((ascmhl, _)) = ascmhl() else { return };
    for own in ["xxh64", "md5"] {
        let trees = Trees::new();
        trees.put("file", "whole").put("other", "");
        let run = ascmhl.run(&["create", "-h", "xxh64"], &trees.source());
        assert_eq!(run.status, 0, "{run:?}");
        // What the destination has on record is the damaged file.
        flip_a_byte(&trees.original("file"));
        fs::create_dir(trees.copy()).unwrap();
        fs::copy(trees.original("file"), trees.copied("file")).unwrap();
        let run = ascmhl.run(&["create", "-h", own], &trees.copy());
        assert_eq!(run.status, 0, "{run:?}");
        let run = trees.run(&[MHL]);
        assert!(
            run.status == 1 && run.stderr.contains("file: "),
            "{own}: {run:?}"
        );
        // The other way round, the copy is what differs.
        flip_a_byte(&trees.original("file"));
        let run = trees.run(&[MHL, "--overwrite-policy=always"]);
        assert!(
            run.status == 1 && run.stderr.contains("file: "),
            "{own}: {run:?}"
        );
        // A file that both have on record is whole.
        let trees = Trees::new();
        trees.put("file", "whole").put_copy("file", "whole");
        for (hash, tree) in [("xxh64", trees.source()), (own, trees.copy())] {
            let run = ascmhl.run(&["create", "-h", hash], &tree);
            assert_eq!(run.status, 0, "{run:?}");
        }
        trees.succeeds(&[MHL]);
        assert_eq!(trees.check(&["--quiet", "--strict"]).status, 0);
    }
}

/// Nothing is called verified that was not compared.
#[test]
fn hashes_without_room_for_one_of_the_history_are_refused() {
    let trees = tree();
    trees.succeeds(&[MHL, "--hash=xxh64"]);
    flip_a_byte(&trees.copied("long"));
    let run = trees.run(&[MHL, "--hash=c4,md5,sha1", "--no-hash-skipped"]);
    run.failed_naming(&[&["dst", "leaves no room for a function of its history"]]);
    assert_eq!(generations(&trees.copy()).len(), 1);
}

#[test]
fn a_file_whose_record_has_another_function_than_all_that_are_asked_for_is_read_twice() {
    let Some((ascmhl, debug)) = ascmhl() else {
        return;
    };
    let trees = Trees::new();
    trees.put("old", "old").put("changed", "changed");
    trees.succeeds(&[MHL, "--hash=xxh64"]);
    trees.put_copy("new", "new");
    let new = trees.copied("new");
    let options = ["create", "-h", "md5", "-sf", new.to_str().unwrap()];
    let run = ascmhl.run(&options, &trees.copy());
    assert_eq!(run.status, 0, "{run:?}");
    flip_a_byte(&trees.copied("changed"));
    let run = trees.run(&[MHL, "--hash=c4,md5,sha1", "--no-hash-skipped"]);
    run.failed_naming(&[&["changed", "differs from the digest"]]);
    let counts = ["original", "verified", "failed"].map(|one| n_newest(&trees.copy(), one));
    assert_eq!(counts, [0, 4 + 3, 1]);
    let run = debug.run(&["verify"], &trees.copy());
    assert_eq!(run.status, VERIFICATION_FAILED, "{run:?}");
}

/// A crew's files do not change. One that did has another digest than the history says.
#[test]
fn the_first_digest_counts_for_ever() {
    let trees = tree();
    trees.succeeds(&[MHL]);
    trees.put("Clips/A001.mov", "newer");
    for policy in ["default", "update", "always"] {
        let run = trees.run(&[MHL, "--overwrite-policy", policy]);
        run.failed_naming(&[&["Clips/A001.mov", "differs from the first digest"]]);
        trees.holds("Clips/A001.mov", "one");
    }
    for options in [
        &["--accept=long"][..],
        &["--forget-missing"],
        &["--no-hash"],
        &["--hash=sha256"],
        &["--hash=xxh128,blake3"],
        &["--hash=c4,md5,sha1,xxh128"],
    ] {
        trees.run(&[&[MHL], options].concat()).ended_with(2);
    }
    let run = trees.check(&["--accept=long", "--quiet"]);
    run.failed_naming(&[&["keeps the first digest"]]);
}

/// A history refuses the policy that the message advised.
#[test]
fn no_policy_is_advised_for_an_original_that_differs() {
    let trees = Trees::new();
    trees.put("file", "contents");
    trees.succeeds(&[MHL]);
    let copied = fs::metadata(trees.copied("file")).unwrap();
    flip_a_byte(&trees.original("file"));
    let original = fs::File::options().write(true).open(trees.original("file"));
    let time = copied.modified().unwrap();
    original.unwrap().set_modified(time).unwrap();
    for policy in ["update", "always"] {
        let run = trees.run(&[MHL, "--overwrite-policy", policy]);
        run.failed_naming(&[&["file", "differs from the first digest"]]);
        assert!(!run.stderr.contains("=always"), "{policy}: {run:?}");
        trees.holds("file", "contents");
    }
}

#[test]
fn a_generation_that_changed_is_damaged_and_nothing_is_copied() {
    let trees = tree();
    trees.succeeds(&[MHL]);
    let mut names = fs::read_dir(trees.copied("ascmhl"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let generation = names
        .find(|path| path.extension().is_some_and(|extension| extension == "mhl"))
        .unwrap();
    let text = fs::read_to_string(&generation).unwrap();
    fs::write(&generation, text.replace("zc-dircopy", "another")).unwrap();
    trees
        .check(&["--quiet"])
        .failed_naming(&[&["dst/ascmhl/0001_dst", "differs from its C4"]]);
    trees
        .run(&[MHL])
        .failed_naming(&[&["ascmhl/0001_dst", "nothing is copied"]]);
    fs::remove_file(&generation).unwrap();
    assert_eq!(trees.check(&["--quiet"]).status, 1);
}

#[test]
fn a_check_says_what_is_wrong_with_the_chain() {
    let trees = tree();
    trees.succeeds(&[MHL]);
    let chain = trees.copied("ascmhl/ascmhl_chain.xml");
    let text = fs::read_to_string(&chain).unwrap();
    for (damaged, said) in [
        (
            text.replace("c4>", "c5>"),
            "it has a generation without a C4",
        ),
        (text[..text.len() / 2].to_owned(), "its end is missing"),
        (String::new(), "it is no list of generations"),
    ] {
        fs::write(&chain, damaged).unwrap();
        trees
            .check(&["--quiet"])
            .failed_naming(&[&["ascmhl_chain.xml", said]]);
    }
}

#[test]
fn entries_that_a_history_cannot_list_are_errors() {
    let trees = tree();
    std::os::unix::fs::symlink("long", trees.original("link")).unwrap();
    trees
        .put("bell\u{7}", "")
        .put("ascmhl", "")
        .put(OsStr::from_bytes(b"\xff"), "");
    let run = trees.run(&[MHL]);
    run.failed_naming(&[
        &["ascmhl", "the history needs its name for a directory"],
        &["link", "a history has regular files alone"],
        &["bell", "XML cannot have its name"],
        &["XML cannot have its name"],
    ]);
    assert_eq!(n_newest(&trees.copy(), "original"), 6);
    fs::remove_file(trees.original("bell\u{7}")).unwrap();
    fs::remove_file(trees.original("ascmhl")).unwrap();
    fs::remove_file(trees.original(OsStr::from_bytes(b"\xff"))).unwrap();
    trees.succeeds(&[MHL, "-L"]);
    assert_eq!(n_newest(&trees.copy(), "original"), 1);
}

#[test]
fn files_that_a_killed_run_has_in_its_journal_are_originals_of_the_next_run() {
    if !crate::skip::has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("a", "a").put("b", "b").put("c", "c");
    let kills = "mkdirat:signal=KILL:when=1";
    trees.succeeds(&[MHL, "--exclude=*"]);
    fs::remove_dir_all(trees.copied("ascmhl")).unwrap();
    let traced = traced::meddled(&trees.command(&[MHL]), "mkdirat", kills);
    assert_eq!(traced.run.status, 128 + 9, "{traced:?}");
    trees.holds("c", "c");
    trees.succeeds(&[MHL, "--no-hash-skipped"]);
    assert_eq!(n_newest(&trees.copy(), "original"), 3);
    hides_nothing(&trees.copy());
}

#[test]
fn a_generation_that_the_chain_lacks_is_reported_and_stays() {
    let trees = tree();
    trees.succeeds(&[MHL]);
    let chain = trees.copied("ascmhl/ascmhl_chain.xml");
    let earlier = fs::read(&chain).unwrap();
    trees.succeeds(&[MHL]);
    fs::write(&chain, earlier).unwrap();
    let second = generations(&trees.copy()).pop().unwrap();
    let run = trees.run(&[MHL]);
    run.failed_naming(&[&["ascmhl/0002_dst", "ascmhl_chain.xml lacks this generation"]]);
    let generations = generations(&trees.copy());
    assert_eq!(generations.len(), 3);
    assert!(generations.contains(&second));
    assert_eq!(trees.check(&["--quiet"]).status, 0);
}

#[test]
fn a_tree_may_have_a_long_name_and_one_with_control_characters() {
    let trees = tree();
    for name in [&"é".repeat(120), "bell\u{1}name", &"x".repeat(255)] {
        let copy = trees.path().join(name);
        for _ in 0..2 {
            let mut command = zc_dircopy();
            command
                .args([MHL, "--quiet"])
                .arg(trees.source())
                .arg(&copy);
            let run = run(&mut command);
            assert_eq!((run.status, &*run.stderr), (0, ""), "{name}");
        }
        assert_eq!(generations(&copy).len(), 2);
        assert_eq!(check(&copy, &["--quiet"]).status, 0, "{name}");
        if let Some((_, debug)) = ascmhl() {
            verifies(&debug, &copy);
        }
    }
}

/// `ascmhl` forgets what it ignores below a directory whose name has a line feed.
#[test]
fn a_history_in_a_tree_whose_name_has_a_line_feed_is_written_and_an_error() {
    let Some((_, debug)) = ascmhl() else { return };
    let trees = tree();
    let copy = trees.path().join("line\nfeed");
    let run = copied_to(&trees, &copy);
    run.failed_naming(&[&["ascmhl: ", "path of the tree has a line feed"]]);
    assert_eq!(check(&copy, &["--quiet"]).status, 0);
    assert_ne!(debug.run(&["verify"], &copy).status, 0);
}

#[test]
fn results_have_the_digests_of_all_functions_as_the_history_spells_them() {
    let trees = Trees::new();
    trees.put("empty", "");
    let run = trees.run_aloud(&[MHL, "--json", "--hash=c4,md5"]);
    let md5 = "\"md5\":\"d41d8cd98f00b204e9800998ecf8427e\"";
    assert!(run.stdout.contains(md5), "{run:?}");
    assert!(run.stdout.contains("\"c4\":\"c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT\""), "{run:?}");
}

#[test]
fn a_damaged_history_of_the_source_is_named_with_the_path_of_the_source() {
    let trees = tree();
    fs::create_dir(trees.original("ascmhl")).unwrap();
    trees.put("ascmhl/ascmhl_chain.xml", "<cut");
    let run = trees.run(&[MHL]);
    run.failed_naming(&[&["src/ascmhl/ascmhl_chain.xml", "nothing is copied"]]);
}

#[test]
fn a_signal_ends_the_reading_of_files_that_have_no_record() {
    let trees = Trees::new();
    trees.put("file", "contents").put_copy("own", "");
    let own = fs::File::options().write(true).open(trees.copied("own"));
    own.unwrap().set_len(1 << 43).unwrap();
    let child = trees.command(&[MHL, "--hash=md5"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    trees.holds("file", "contents");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let status = end_of(child);
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
    assert!(!trees.copied("ascmhl").exists());
}

/// Whatever a killed run leaves, no generation lists a file that is not there, and the next run
/// lists all.
#[test]
fn killed_at_any_moment_a_history_lists_nothing_that_was_not_written() {
    let programs = ascmhl();
    let put_many = |trees: &Trees| {
        for n in 0..40 {
            trees.put(format!("many/{n}"), vec![n; 5000]);
        }
    };
    let trees = tree();
    put_many(&trees);
    let step = a_part_of_the_time(|| trees.run(&[MHL]).is_quiet());
    let mut delay = Duration::ZERO;
    loop {
        let trees = tree();
        put_many(&trees);
        trees.succeeds(&[MHL, "--exclude=many"]);
        let mut child = trees.command(&[MHL]).spawn().unwrap();
        std::thread::sleep(delay);
        child.kill().unwrap();
        let is_over = end_of(child).success();
        assert_eq!(trees.check(&["--quiet"]).status, 0, "{delay:?}");
        for generation in generations(&trees.copy()) {
            for (at, _) in generation.match_indices(">many/") {
                let path = generation[at + 1..].split('<').next().unwrap();
                assert!(trees.copied(path).exists(), "{delay:?}: {path}");
            }
        }
        trees.succeeds(&[MHL]);
        assert_eq!(hidden_names(&trees.copy()), [trees.copied(".DS_Store")]);
        let n_listed = generations(&trees.copy())
            .concat()
            .matches("action=\"original\"")
            .count();
        assert_eq!(n_listed, 46, "{delay:?}");
        if let Some((_, debug)) = &programs
            && is_over
        {
            verifies(debug, &trees.copy());
        }
        if is_over {
            break;
        }
        delay += step;
    }
}
