//! `--check` with `--accept` and `--forget-missing`: records that are changed without a source.

use super::*;

/// An archive of three files, of which one was changed and one is gone.
fn archive() -> Trees {
    let trees = Trees::new();
    trees
        .put("changed", "old")
        .put("d/gone", "x")
        .put("same", "y");
    trees.succeeds(&[]);
    fs::write(trees.copied("changed"), "new").unwrap();
    fs::remove_file(trees.copied("d/gone")).unwrap();
    trees
}

#[test]
fn a_file_is_accepted_and_missing_files_are_forgotten_without_a_source() {
    let trees = archive();
    assert_eq!(trees.check(&[]).status, 1);

    let run = trees.check(&["--accept=changed"]);
    assert_eq!(run.status, 1, "one is missing still");
    assert_eq!(
        run.stdout,
        "changed: OK\nd/gone: FAILED open or read\nsame: OK\n"
    );
    let newest = trees.sums();
    assert!(
        run.stderr.contains(newest.path.to_str().unwrap()),
        "{run:?}"
    );

    let run = trees.check(&["--forget-missing"]);
    assert_eq!(
        (run.status, run.stdout.as_str()),
        (0, "changed: OK\nsame: OK\n")
    );
    trees
        .sums()
        .lists(&["changed", "same"])
        .holds_in(&trees.copy());
    assert_eq!(trees.check(&["--strict"]).status, 0);
}

#[test]
fn each_record_that_is_changed_or_dropped_is_named() {
    let accepted = "changed: accepted: it is recorded as it is now";
    let forgotten = "d/gone: forgotten: it is gone, and its record is dropped";
    let options = ["--accept=changed", "--accept=same", "--forget-missing"];
    for is_check in [true, false] {
        for output in ["", "--quiet", "--json"] {
            let trees = archive();
            let empty = trees.path().join("empty");
            fs::create_dir(&empty).unwrap();
            let mut command = zc_dircopy();
            command
                .args(options)
                .args((!output.is_empty()).then_some(output));
            if is_check {
                command.arg("--check").arg(trees.copy());
            } else {
                command.arg(empty).arg(trees.copy());
            }
            let run = run(&mut command);
            assert_eq!(run.status, 0, "{run:?}");
            for words in [accepted, forgotten] {
                let line = format!("zc-dircopy: {words}\n");
                assert_eq!(run.stderr.contains(&line), output != "--quiet", "{run:?}");
                let (path, message) = words.split_once(": ").unwrap();
                let event = run.stdout.lines().any(|line| {
                    line.contains("\"event\":\"remark\"")
                        && line.contains(&format!("\"path\":\"{path}\""))
                        && line.contains(&format!("\"message\":\"{message}\""))
                });
                assert_eq!(event, output == "--json", "{run:?}");
            }
            // This one is as it was recorded.
            assert!(!run.stderr.contains("same"), "{run:?}");
        }
    }
}

#[test]
fn an_amendment_that_changes_nothing_writes_no_manifest() {
    let trees = Trees::new();
    trees.put("file", "x").succeeds(&[]);
    let before = Sums::all_in(&trees.copy()).len();
    let run = trees.check(&["--forget-missing"]);
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(Sums::all_in(&trees.copy()).len(), before);
}

#[test]
fn a_path_that_cannot_be_accepted_keeps_its_record_and_fails() {
    let trees = archive();
    for (path, words) in [
        ("d/gone", "there is no regular file of this name"),
        ("d", "there is no regular file of this name"),
        ("nothing", "there is no regular file of this name"),
    ] {
        let run = trees.check(&["--accept", path]);
        assert_eq!(run.status, 1, "{path}");
        let message = format!("zc-dircopy: {path}: cannot accept it: {words}\n");
        assert!(run.stderr.contains(&message), "{run:?}");
        assert!(
            run.stdout.contains("d/gone: FAILED open or read\n"),
            "{run:?}"
        );
    }
}

#[test]
fn a_damaged_manifest_is_not_amended() {
    let trees = archive();
    let path = trees.sums().path;
    let manifest = fs::read(&path).unwrap();
    fs::write(&path, &manifest[..manifest.len() - 5]).unwrap();
    let run = trees.check(&["--accept=changed", "--forget-missing"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("is damaged"), "{run:?}");
    let entries = fs::read_dir(trees.copy()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let n_manifests = names.filter(|name| name.as_bytes().starts_with(b"shasum."));
    assert_eq!(n_manifests.count(), 1);
}

#[test]
fn the_journal_of_a_killed_run_is_taken_over() {
    if !crate::skip::has_program("strace") {
        return;
    }
    let trees = archive();
    trees.put("more", "of it");
    let killed = "linkat:signal=SIGKILL:when=2";
    let traced = traced::meddled(&trees.command(&["--jobs=1"]), "linkat", killed);
    assert_eq!(traced.run.status, 128 + 9);
    let n_journals = || {
        let names = hidden_names(&trees.copy()).into_iter();
        let is_journal = |path: &PathBuf| path.to_string_lossy().contains("/.zc-dircopy-journal-");
        names.filter(is_journal).count()
    };
    assert_eq!(n_journals(), 1);
    let run = trees.check(&["--accept=changed", "--forget-missing"]);
    assert_eq!(n_journals(), 0, "{run:?}");
    trees.sums().holds_in(&trees.copy());
}

#[test]
fn an_absolute_path_below_the_destination_is_accepted() {
    let trees = archive();
    let link = trees.path().join("link");
    std::os::unix::fs::symlink(trees.copy(), &link).unwrap();
    for (tree, path) in [
        (trees.copy(), trees.copied("changed")),
        (link.clone(), link.join("changed")),
        (link, trees.copied("changed")),
    ] {
        fs::write(trees.copied("changed"), path.as_os_str().as_bytes()).unwrap();
        let accept = format!("--accept={}", path.display());
        let run = check(&tree, &[&accept]);
        assert!(run.stdout.contains("changed: OK\n"), "{run:?}");
    }
    fs::write(trees.copied("changed"), "again").unwrap();
    let accept = format!("--accept={}", trees.copied("changed").display());
    trees.run(&[&accept, "--overwrite-policy=never"]).is_quiet();
    let run = trees.check(&["--accept=/absolute"]);
    assert!(run.stderr.contains("give it relative to that"), "{run:?}");
}

#[test]
fn usage_that_makes_no_sense_is_refused() {
    let trees = archive();
    let list = trees.path().join("list");
    fs::write(&list, "").unwrap();
    let list = format!("--hash-file={}", list.display());
    for options in [
        &["--accept=changed", &*list][..],
        &["--forget-missing", &*list],
        &["--accept=../out"],
        &["--accept=/absolute"],
        &["--accept=changed", "."],
    ] {
        let run = trees.check(options);
        run.ended_with(2);
        assert!(run.stderr.contains("--help"), "{run:?}");
    }
    assert_eq!(Sums::all_in(&trees.copy()).len(), 1);
}
