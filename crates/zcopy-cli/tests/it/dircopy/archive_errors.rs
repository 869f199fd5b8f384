//! Runs into an archive in which a call fails: no line of it becomes false, and what was not done is told.

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

#[test]
fn a_file_of_a_killed_run_that_cannot_be_read_is_not_called_damaged() {
    if !has_program("strace") {
        return;
    }
    let (archive, card) = archive_and_card();
    let killed = ["--trace=renameat", "--inject=renameat:signal=KILL:when=1"].map(str::to_owned);
    let command = archive.command(&card, &["--jobs=1"]);
    assert_eq!(traced::traced(&command, &killed).run.status, 128 + 9);
    assert_eq!(fs::read(archive.0.copied("a")).unwrap(), b"a");
    // The journal announces another digest, so that the file is read to find out which it has.
    let mut check = zc_dircopy();
    check.arg("--check").arg(archive.0.copy());
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
