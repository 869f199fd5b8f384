//! Runs that are killed, their journals, and runs at the same time.

use super::*;

#[test]
fn a_second_run_waits_for_the_first() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let before = archive.card("before", &["same", "x"]);
    archive.add(&before, &[]).is_quiet();
    let (slow, fast) = (
        archive.card("slow", &["slow"]),
        archive.card("fast", &["fast"]),
    );
    put(&slow.join("x"), "another take");
    put(&fast.join("same"), "another take too");
    let stop = traced::as_it_reads(&slow.join("x"));
    let mut second = None;
    let traced = traced::while_stopped(&archive.command(&slow, &[]), &stop, || {
        let mut command = archive.command(&fast, &[]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 64];
        let n = child.stderr.as_mut().unwrap().read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..n]).into_owned();
        assert!(said.contains("waiting"), "{said}");
        assert!(!archive.0.copied("fast").exists());
        second = Some(child);
    });
    traced.run.is_quiet();
    assert!(end_of(second.unwrap()).success());
    archive.is_intact(&["fast", "same", "slow", "x"]);
}

/// The run adds files, and replaces some that have been recorded. Wherever it is killed, no file
/// that is whole fails, and the next run has all digests without reading the copies.
#[test]
fn a_run_that_is_killed_leaves_its_digests() {
    if !has_program("strace") {
        return;
    }
    let files = ["a", "b", "c/1", "c/2", "d", "e"];
    for options in [&[][..], &["--jobs=1"], &["--durable"]] {
        let mut n_killed = 0;
        for call in [
            "linkat",
            "renameat",
            "renameat2",
            "write",
            "unlinkat",
            "fsync",
        ] {
            for nth in 1..200 {
                let archive = Archive::new();
                let card = archive.card("one", &["a", "c/1", "d"]);
                archive.add(&card, &[]).is_quiet();
                for file in files {
                    put(&card.join(file), format!("another take of {file}"));
                }
                fs::hard_link(card.join("a"), card.join("z")).unwrap();
                let kills = format!("--inject={call}:signal=KILL:when={nth}");
                let command = archive.command(&card, options);
                let trace = [format!("--trace={call}"), kills];
                let status = traced::traced(&command, &trace).run.status;
                let what = format!("{options:?} {call} {nth}");
                let check = archive.check_strictly();
                assert_eq!(check.status, 0, "{what}: {check:?}");
                if status == 0 {
                    break;
                }
                assert_eq!(status, 128 + 9, "{what}");
                n_killed += 1;
                let other = archive.card("other", &["f"]);
                archive.add(&other, &["--no-hash-skipped"]).is_quiet();
                let check = archive.check();
                assert_eq!(check.status, 0, "{what}: {check:?}");
                archive.add(&card, &["--no-hash-skipped"]).is_quiet();
                archive.is_intact(&["a", "b", "c/1", "c/2", "d", "e", "f", "z"]);
                hides_nothing(&archive.0.copy());
            }
        }
        assert!(n_killed >= 12, "{options:?}: {n_killed} runs were killed");
    }
}

#[test]
fn two_manifests_are_finished_together_or_not_at_all() {
    if !has_program("strace") {
        return;
    }
    for fault in ["signal=KILL", "error=ENOSPC"] {
        for call in ["linkat", "fsync", "write"] {
            for nth in 1..100 {
                let archive = Archive::new();
                let (one, two) = (archive.card("one", &["a"]), archive.card("two", &["b"]));
                archive.add(&one, &[]).is_quiet();
                archive.add(&two, &["--hash=blake3"]).is_quiet();
                let trace = [
                    format!("--trace={call}"),
                    format!("--inject={call}:{fault}:when={nth}"),
                ];
                let command = archive.command(&two, &["--hash=blake3"]);
                let traced = traced::traced(&command, &trace);
                archive.rot("a");
                archive.rot("b");
                archive.fails(&["a", "b"]);
                archive.add(&one, &[]).failed_naming(&[&["a", "differs"]]);
                archive.fails(&["a", "b"]);
                if traced.run.status == 0 {
                    break;
                }
            }
        }
    }
}

/// Whatever call fails, a rotten file still fails, and no file that was recorded is forgotten.
#[test]
fn no_failing_call_costs_a_record() {
    if !has_program("strace") {
        return;
    }
    let calls =
        "openat,read,pread64,write,linkat,fsync,fcntl,flock,getdents64,newfstatat,fstat,lseek";
    for call in calls.split(',') {
        for nth in 1..300 {
            let archive = Archive::new();
            let card = archive.card("one", &["a", "b", "c"]);
            archive.add(&card, &[]).is_quiet();
            archive.rot("b");
            let other = archive.card("two", &["c", "d"]);
            put(&other.join("c"), "another take");
            let trace = [
                format!("--trace={call}"),
                format!("--inject={call}:error=EIO:when={nth}"),
            ];
            let traced = traced::traced(&archive.command(&other, &[]), &trace);
            let what = format!("{call} {nth}: {:?}", traced.run);
            let check = archive.check();
            for line in ["a: OK\n", "b: FAILED\n", "c: OK\n"] {
                assert!(check.stdout.contains(line), "{what}: {check:?}");
            }
            archive.add(&other, &["--no-hash-skipped"]).is_quiet();
            archive.fails(&["b"]);
            let listed = archive.newest();
            let listed = listed.paths();
            for path in ["a", "b", "c"] {
                assert!(listed.contains(&Path::new(path)), "{what}: {listed:?}");
            }
            if traced.injected().is_empty() {
                assert!(nth > 1, "{call} is never called");
                break;
            }
        }
    }
}

/// Runs that make no digests, and runs that put symbolic links in the place of files, tell the
/// journal so.
#[test]
fn a_run_without_digests_that_is_killed_leaves_no_lie() {
    if !has_program("strace") {
        return;
    }
    for options in [&["--no-hash"][..], &[]] {
        for call in ["linkat", "renameat", "symlinkat", "write", "unlinkat"] {
            for nth in 1..200 {
                let archive = Archive::new();
                let card = archive.card("one", &["a", "b", "c", "d"]);
                archive.add(&card, &[]).is_quiet();
                fs::remove_file(archive.0.copied("b")).unwrap();
                put(&card.join("a"), "another take");
                put(&card.join("b"), "and another");
                fs::remove_file(card.join("c")).unwrap();
                std::os::unix::fs::symlink("d", card.join("c")).unwrap();
                let trace = [
                    format!("--trace={call}"),
                    format!("--inject={call}:signal=KILL:when={nth}"),
                ];
                let status = traced::traced(&archive.command(&card, options), &trace);
                let status = status.run.status;
                let what = format!("{options:?} {call} {nth}");
                let check = archive.check();
                let is_missing = !archive.0.copied("b").exists();
                let expected = i32::from(is_missing);
                assert_eq!(check.status, expected, "{what}: {check:?}");
                archive.add(&card, options).is_quiet();
                assert_eq!(archive.check().status, 0, "{what}: {:?}", archive.check());
                archive.add(&card, &[]).is_quiet();
                archive.is_intact(&["a", "b", "d"]);
                if status == 0 {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_file_that_rots_after_a_killed_run_is_repaired_from_its_source() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = killed_after_replacing(&archive);
    archive.rot("a");
    archive.fails(&["a"]);
    archive.add(&card, &[]).failed_naming(&[&["a", "differs"]]);
    archive
        .add(&card, &["--overwrite-policy=update"])
        .is_quiet();
    archive.is_intact(&["a", "b"]);
}

#[test]
fn a_journal_stays_if_its_files_cannot_be_read() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = killed_after_replacing(&archive);
    let other = archive.card("two", &["c"]);
    let trace = ["--trace=openat2", "--inject=openat2:error=EIO"].map(str::to_owned);
    let traced = traced::traced(&archive.command(&other, &[]), &trace);
    assert_eq!(traced.run.status, 1);
    archive.add(&other, &[]).is_quiet();
    assert_eq!(archive.check().status, 0);
    archive.add(&card, &[]).is_quiet();
    archive.is_intact(&["a", "b", "c"]);
}

#[test]
fn a_journal_of_any_name_is_read() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    let name = OsStr::from_bytes(b".zc-dircopy-journal-\xff");
    fs::write(archive.0.copied(name), "").unwrap();
    archive.add(&card, &[]).is_quiet();
    assert!(!archive.0.copied(name).exists());
    archive.is_intact(&["a"]);
}
