//! Runs into an archive in which a call fails: no line of it becomes false, and what was not done
//! is told.

use super::archive::Archive;
use super::*;
use crate::skip::has_program;

/// An archive and a card by which a file is replaced, a file becomes a symbolic link, and another
/// becomes a further name of the first.
fn archive_and_card() -> (Archive, PathBuf) {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b", "c", "d"]);
    archive.add(&card, &[]).is_quiet();
    put(&card.join("a"), "another take");
    for file in ["b", "c"] {
        fs::remove_file(card.join(file)).unwrap();
    }
    std::os::unix::fs::symlink("d", card.join("b")).unwrap();
    fs::hard_link(card.join("a"), card.join("c")).unwrap();
    (archive, card)
}

#[test]
fn no_failing_call_leaves_a_false_line() {
    if !has_program("strace") {
        return;
    }
    for (call, fault, options) in [
        // Neither the journal nor the manifest can be written.
        ("write", "ENOSPC+", &[][..]),
        ("newfstatat", "EIO", &[]),
        ("renameat", "EIO", &[]),
        ("unlinkat", "EIO", &[]),
        // A directory cannot be synced after a name has changed in it.
        ("fsync", "EIO", &["--durable"]),
    ] {
        for nth in 1..300 {
            let (archive, card) = archive_and_card();
            let (errno, extent) = match fault.strip_suffix('+') {
                Some(errno) => (errno, "+"),
                None => (fault, ""),
            };
            let trace = [
                format!("--trace={call}"),
                format!("--inject={call}:error={errno}:when={nth}{extent}"),
            ];
            let traced = traced::traced(&archive.command(&card, options), &trace);
            let what = format!("{call} {fault} {nth}: {:?}", traced.run);
            let check = archive.check();
            assert_eq!(check.status, 0, "{what}: {check:?}");
            archive.add(&card, options).is_quiet();
            archive.is_intact(&["a", "c", "d"]);
            if traced.injected().is_empty() {
                assert!(nth > 1, "{call} is never called");
                break;
            }
        }
    }
}

/// An archive in which a run was killed before it replaced `a`. The journal announces another
/// digest of `a`, so that the next run reads the file to find out which digest it has.
fn killed_archive() -> Archive {
    let (archive, card) = archive_and_card();
    // The first call gives `b` its name: files get theirs after the group has been announced.
    let killed = ["--trace=renameat", "--inject=renameat:signal=KILL:when=2"].map(str::to_owned);
    let command = archive.command(&card, &["--jobs=1"]);
    assert_eq!(traced::traced(&command, &killed).run.status, 128 + 9);
    assert!(archive.0.copied("b").is_symlink());
    assert_eq!(fs::read(archive.0.copied("a")).unwrap(), b"a");
    archive
}

#[test]
fn a_file_of_a_killed_run_that_cannot_be_read_is_not_called_damaged() {
    if !has_program("strace") {
        return;
    }
    let archive = killed_archive();
    let check = check_command(&archive.0.copy(), &[]);
    let unreadable = ["--trace=openat2", "--inject=openat2:error=EIO:when=1"].map(str::to_owned);
    let check = traced::traced(&check, &unreadable).run;
    assert_eq!(check.status, 1);
    // Each thread has a first call.
    let first_line = check.stdout.lines().next();
    assert_eq!(first_line, Some("a: FAILED open or read"), "{check:?}");
    assert!(
        check.stderr.contains("/a: Input/output error\n"),
        "{check:?}"
    );
}

#[test]
fn a_file_that_prevents_the_manifest_is_named() {
    if !has_program("strace") {
        return;
    }
    let archive = killed_archive();
    let other = archive.card("two", &["z"]);
    let unreadable = [
        "-P".to_owned(),
        archive.0.copied("a").to_str().unwrap().to_owned(),
        "--inject=read:error=EIO".to_owned(),
    ];
    let run = traced::traced(&archive.command(&other, &[]), &unreadable).run;
    run.failed_naming(&[&["cannot write the manifest: a: Input/output error"]]);
}

#[test]
fn a_file_is_forgotten_or_this_is_told() {
    if !has_program("strace") {
        return;
    }
    for nth in 1..300 {
        let archive = Archive::new();
        let (one, two) = (
            archive.card("one", &["a", "b"]),
            archive.card("two", &["c"]),
        );
        archive.add(&one, &[]).is_quiet();
        fs::remove_file(archive.0.copied("a")).unwrap();
        let command = archive.command(&two, &["--forget-missing"]);
        let fault = format!("newfstatat:error=EIO:when={nth}");
        let traced = traced::meddled(&command, "newfstatat", &fault);
        if traced.run.status == 0 {
            archive.is_intact(&["b", "c"]);
        } else {
            // The dynamic linker meets the error too.
            assert!(!traced.run.stderr.is_empty(), "{traced:?}");
        }
        if traced.injected().is_empty() {
            assert!(nth > 1);
            break;
        }
    }
}

#[test]
fn a_run_that_can_record_nothing_tells_that_it_copies_nothing() {
    if !has_program("strace") {
        return;
    }
    let (archive, card) = archive_and_card();
    let options = [
        "-P".to_owned(),
        card.to_str().unwrap().to_owned(),
        "--inject=getdents64:error=EIO:when=1".to_owned(),
    ];
    let run = traced::traced(&archive.command(&card, &[]), &options).run;
    run.failed_naming(&[
        &["cannot write the manifest", "Input/output error"],
        &["nothing is copied"],
    ]);
    assert_eq!(fs::read(archive.0.copied("a")).unwrap(), b"a");
}

/// The cache of a network file system may be stale, so that a name is listed and not found.
#[test]
fn a_manifest_that_is_listed_and_not_found_costs_no_record() {
    if !has_program("strace") {
        return;
    }
    let mut n_refused = 0;
    for nth in 1..300 {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b"]);
        archive.add(&card, &[]).is_quiet();
        put(&card.join("a"), "another take");
        archive.add(&card, &[]).is_quiet();
        archive.rot("b");
        let fault = format!("openat:error=ENOENT:when={nth}");
        let traced = traced::meddled(&archive.command(&card, &[]), "openat", &fault);
        n_refused += u32::from(traced.run.stderr.contains("the manifest is damaged"));
        archive.fails(&["b"]);
        if traced.injected().is_empty() {
            break;
        }
    }
    assert!(n_refused > 1, "no manifest was missed");
}

/// A file whose copy was recorded, and an original with the same size and time and other contents.
fn rotten_original() -> Trees {
    let trees = Trees::new();
    trees.put("file", "good");
    dated(&trees.original("file"), 100);
    trees.succeeds(&[]);
    trees.put("file", "rot!");
    dated(&trees.original("file"), 100);
    trees
}

#[test]
fn a_rotten_original_does_not_take_the_place_of_a_copy_that_is_gone() {
    for options in [&[][..], &["--overwrite-policy=update"], &["--durable"]] {
        let trees = rotten_original();
        fs::remove_file(trees.copied("file")).unwrap();
        let run = trees.run(options);
        run.failed_naming(&[&["file", "--overwrite-policy=always copies it"]]);
        assert!(!trees.copied("file").exists());
        let check = trees.check(&[]);
        assert_eq!(
            (check.status, &*check.stdout),
            (1, "file: FAILED open or read\n")
        );

        trees.succeeds(&["--overwrite-policy=always"]);
        trees.holds("file", "rot!");
        assert_eq!(trees.check(&[]).status, 0);
    }
}

#[test]
fn a_rotten_original_does_not_repair_a_copy_that_was_cut() {
    for options in [&[][..], &["--overwrite-policy=update"]] {
        let trees = rotten_original();
        fs::write(trees.copied("file"), "go").unwrap();
        dated(&trees.copied("file"), 100);
        let run = trees.run(options);
        run.failed_naming(&[&["file", "no newer than the copy"]]);
        trees.holds("file", "go");
        assert_eq!(trees.check(&[]).stdout, "file: FAILED\n");
    }
}

#[test]
fn a_link_or_a_fifo_replaces_a_recorded_file_only_if_it_is_newer() {
    for kind in ["link", "fifo"] {
        let trees = Trees::new();
        trees.put("file", "good");
        dated(&trees.original("file"), 100);
        trees.succeeds(&[]);
        fs::remove_file(trees.original("file")).unwrap();
        let path = trees.original("file");
        if kind == "link" {
            std::os::unix::fs::symlink("nowhere", &path).unwrap();
        } else {
            mkfifo(&path);
        }
        let old = Command::new("touch")
            .args(["-h", "-d", "1990-01-01"])
            .arg(&path)
            .status();
        assert!(old.unwrap().success());
        for options in [&[][..], &["--overwrite-policy=update"]] {
            let run = trees.run(options);
            run.failed_naming(&[&["file", "not newer than the recorded file"]]);
            trees.holds("file", "good");
            assert_eq!(trees.check(&[]).status, 0);
        }
        let new = Command::new("touch").arg("-h").arg(&path).status();
        assert!(new.unwrap().success());
        trees.succeeds(&[]);
        assert!(
            !fs::symlink_metadata(trees.copied("file"))
                .unwrap()
                .is_file()
        );
        assert_eq!(trees.check(&[]).status, 0, "it has no record any more");
    }
}

#[test]
fn a_newer_version_replaces_the_copy_and_its_record() {
    for size in ["longer than before", "newv"] {
        let trees = rotten_original();
        trees.put("file", size);
        dated(&trees.original("file"), 99);
        trees.succeeds(&[]).are_alike();
    }
}

#[test]
fn update_repairs_a_copy_that_was_changed_later() {
    let trees = Trees::new();
    trees.put("file", "good");
    dated(&trees.original("file"), 100);
    trees.succeeds(&[]);
    fs::write(trees.copied("file"), "rot!").unwrap();
    trees
        .run(&[])
        .failed_naming(&[&["file", "differs from the digest"]]);
    trees.succeeds(&["--overwrite-policy=update"]).are_alike();

    // An original that is not what was recorded repairs nothing.
    fs::write(trees.copied("file"), "rot!").unwrap();
    trees.put("file", "rot?");
    dated(&trees.original("file"), 100);
    let run = trees.run(&["--overwrite-policy=update"]);
    run.failed_naming(&[&["file", "differs from the digest"]]);
    trees.holds("file", "rot!");
}
