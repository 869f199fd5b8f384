//! Damage is found, repaired, accepted or forgotten.

use super::*;

#[test]
fn a_rotten_byte_fails_until_it_is_repaired_or_accepted() {
    for (options, status) in [
        // It is read, and compared with what was recorded.
        (&[][..], 1),
        (&["--verify-existing"], 1),
        (&["--overwrite-policy=never"], 1),
        // It is not read.
        (&["--no-hash-skipped"], 0),
        (&["--no-hash"], 0),
    ] {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b", "c"]);
        archive.add(&card, &[]).is_quiet();
        archive.rot("b");
        for _ in 0..2 {
            let run = archive.add(&card, options);
            assert_eq!(run.status, status, "{options:?}: {run:?}");
            if status > 0 {
                run.failed_naming(&[&["b", "differs"]]);
            }
            archive.fails(&["b"]);
        }
        // Another card does not hide it either.
        let other = archive.card("two", &["d"]);
        archive.add(&other, options);
        archive.fails(&["b"]);
    }
}

#[test]
fn a_rotten_file_is_repaired_from_its_source() {
    for policy in ["update", "always"] {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b", "c"]);
        archive.add(&card, &[]).is_quiet();
        archive.rot("b");
        archive
            .add(&card, &["--overwrite-policy", policy])
            .is_quiet();
        archive.is_intact(&["a", "b", "c"]);
    }
}

#[test]
fn a_file_is_accepted_by_its_name() {
    let archive = Archive::new();
    let first = archive.card("one", &["dir/a", "b"]);
    archive.add(&first, &[]).is_quiet();
    archive.rot("dir/a");
    // The source of this run has it.
    archive.add(&first, &["--accept=./dir/a"]).is_quiet();
    archive.is_intact(&["b", "dir/a"]);
    // Or has it not; and it need not have been recorded.
    archive.rot("dir/a");
    let second = archive.card("two", &["c"]);
    archive.0.put_copy("later", "made here");
    let accepted = ["--accept", "dir/a", "--accept", "later"];
    archive.add(&second, &accepted).is_quiet();
    archive.is_intact(&["b", "c", "dir/a", "later"]);
    let run = archive.add(&second, &["--accept=nowhere"]);
    run.failed_naming(&[&["nowhere", "cannot accept it", "no regular file"]]);
    archive.is_intact(&["b", "c", "dir/a", "later"]);
}

#[test]
fn what_is_gone_is_missed_until_it_is_forgotten() {
    let archive = Archive::new();
    let first = archive.card("one", &["dir/a", "b"]);
    let second = archive.card("two", &["c"]);
    archive.add(&first, &[]).is_quiet();
    fs::remove_dir_all(archive.0.copied("dir")).unwrap();
    archive.add(&second, &[]).is_quiet();
    archive.fails(&["dir/a"]);
    archive.add(&second, &["--forget-missing"]).is_quiet();
    archive.is_intact(&["b", "c"]);
    archive.add(&second, &[]).is_quiet();
    archive.is_intact(&["b", "c"]);
}

#[test]
fn an_archive_is_repaired_from_its_own_copy() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    archive.add(&card, &[]).is_quiet();
    let backup = archive.0.path().join("backup");
    run(zc_dircopy().arg("-q").arg(archive.0.copy()).arg(&backup)).is_quiet();
    archive.rot("a");
    let run = archive.add(&backup, &[]);
    run.failed_naming(&[&["a", "differs"]]);
    archive
        .add(&backup, &["--overwrite-policy=update"])
        .is_quiet();
    let check = archive.check();
    assert_eq!(check.status, 0, "{check:?}");
    assert!(check.stdout.starts_with("a: OK\nb: OK\n"), "{check:?}");
}

#[test]
fn a_source_that_has_rotted_does_not_replace_its_copy() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    archive.add(&card, &[]).is_quiet();
    let rot = |path: &Path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, "R").unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    };
    rot(&card.join("a"));
    let run = archive.add(&card, &["--overwrite-policy=update"]);
    run.failed_naming(&[&["a", "differs from its copy, which is as it was recorded"]]);
    archive.is_intact(&["a", "b"]);
    // Neither does it repair one that has rotted otherwise.
    archive.rot("a");
    let run = archive.add(&card, &["--overwrite-policy=update"]);
    run.failed_naming(&[&["a", "cannot repair"]]);
    archive.fails(&["a"]);
}

#[test]
fn what_cannot_be_accepted_is_refused() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    std::os::unix::fs::symlink("a", archive.0.copied("link")).unwrap();
    std::os::unix::fs::symlink("a", card.join("link")).unwrap();
    fs::create_dir(archive.0.copied("dir")).unwrap();
    for accepted in ["dir/../a", "/a", "..", "."] {
        let run = archive.add(&card, &["--accept", accepted]);
        assert_eq!(run.status, 2, "{accepted}: {run:?}");
    }
    assert_eq!(archive.add(&card, &["--no-hash", "--accept=a"]).status, 2);
    for accepted in ["dir", "link"] {
        let run = archive.add(&card, &["--accept", accepted]);
        run.failed_naming(&[&[accepted, "accept"]]);
        archive.is_intact(&["a"]);
    }
    // Nor is one that would be replaced by a link of the source.
    fs::remove_file(card.join("a")).unwrap();
    std::os::unix::fs::symlink("link", card.join("a")).unwrap();
    archive.rot("a");
    archive.add(&card, &["--accept=a"]).is_quiet();
    archive.is_intact(&["a"]);
    // A file that is accepted is not replaced.
    fs::remove_file(card.join("a")).unwrap();
    put(&card.join("a"), "another take");
    let before = fs::read(archive.0.copied("a")).unwrap();
    archive.rot("a");
    archive
        .add(&card, &["--overwrite-policy=always", "--accept=a"])
        .is_quiet();
    assert_ne!(fs::read(archive.0.copied("a")).unwrap(), before);
    assert_ne!(fs::read(archive.0.copied("a")).unwrap(), b"another take");
    archive.is_intact(&["a"]);
}

/// What a check calls missing is forgotten. What it calls unreadable stays recorded: the files may
/// have been moved elsewhere, with a link in their place.
#[test]
fn a_file_is_forgotten_only_if_nothing_is_in_its_place() {
    let files = [
        "b", "d/gone", "d2/gone", "dir", "fifo", "in/file", "link", "out/file",
    ];
    let archive = Archive::new();
    let card = archive.card("one", &files);
    archive.add(&card, &[]).is_quiet();
    let copied = |name: &str| archive.0.copied(name);
    for name in ["dir", "fifo", "link"] {
        fs::remove_file(copied(name)).unwrap();
    }
    for name in ["d", "d2"] {
        fs::remove_dir_all(copied(name)).unwrap();
    }
    put(&copied("d2"), "no directory any more");
    fs::create_dir(copied("dir")).unwrap();
    mkfifo(&copied("fifo"));
    std::os::unix::fs::symlink("nowhere", copied("link")).unwrap();
    fs::rename(copied("out"), archive.0.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("../moved", copied("out")).unwrap();
    // A check follows this one.
    fs::rename(copied("in"), copied("inner")).unwrap();
    std::os::unix::fs::symlink("inner", copied("in")).unwrap();

    let there = ["dir", "fifo", "link", "out/file"];
    let check = archive.check();
    let counts = "2 matching, 0 differing, 2 missing, 4 unreadable";
    assert!(check.stderr.contains(counts), "{check:?}");
    archive.fails(&["d/gone", "d2/gone", "dir", "fifo", "link", "out/file"]);
    let other = archive.card("two", &["b"]);
    for run in [
        archive.add(&other, &["--forget-missing"]),
        run(zc_dircopy()
            .args(["--check", "--forget-missing", "--silent", "--no-summary"])
            .arg(archive.0.copy())),
    ] {
        assert_eq!(run.status, 1);
        for name in there {
            let kept =
                format!("zc-dircopy: {name}: its record stays: what is there is no regular file\n");
            assert!(run.stderr.contains(&kept), "{run:?}");
        }
        archive.fails(&there);
    }
}

#[test]
fn strict_reports_files_that_no_manifest_lists() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b/c"]);
    archive.add(&card, &["--hash=blake3"]).is_quiet();
    let strict = || archive.check_strictly();
    assert_eq!(strict().status, 0, "{:?}", strict());
    archive
        .0
        .put_copy("b.txt", "extra")
        .put_copy("b/z", "extra");
    std::os::unix::fs::symlink("a", archive.0.copied("link")).unwrap();
    assert_eq!(archive.check().status, 0);
    let check = strict();
    let expected = "a: OK\nb/c: OK\nb.txt: FAILED not listed\nb/z: FAILED not listed\n";
    assert_eq!((check.status, check.stdout.as_str()), (1, expected));
    assert!(check.stderr.contains("2 not listed"), "{check:?}");
    archive
        .add(&card, &["--accept=b.txt", "--accept=b/z"])
        .is_quiet();
    assert_eq!(strict().status, 0);
}
