//! Calls that fail: what has been copied is kept wherever it can be of use.

use super::*;

#[test]
fn a_full_disk_keeps_nothing_for_other_files_need_the_space() {
    let Some(disk) = mount_tmpfs(100) else {
        return;
    };
    let trees = tree();
    fs::create_dir(disk.dir().join("copy")).unwrap();
    std::os::unix::fs::symlink(disk.dir().join("copy"), trees.copy()).unwrap();
    let run = trees.run(&["--resume", "--lanes=never", "--no-space-check"]);
    run.failed_naming(&[&["d/long", "No space left on device"]]);
    hides_nothing(&disk.dir());
}

#[test]
fn a_read_error_keeps_what_was_copied() {
    if !has_program("strace") {
        return;
    }
    // A network file system that loses its server may fail, or read as if the file ended there.
    let ends = format!("d/long: cannot read: end of file at offset @, but its size is {LEN}\n");
    for (fault, words) in [
        (
            "error=EIO",
            "d/long: cannot read: Input/output error at offset @\n",
        ),
        ("retval=0", &ends),
    ] {
        let trees = tree();
        let run = failing(&trees, &[], PREADS, &format!("{fault}:when=900+"));
        run.run.ended_with(1);
        let left = Partial::only_in(&trees.copy());
        let words = words.replace('@', &left.len().to_string());
        assert!(run.run.stderr.contains(&words), "{words}: {:?}", run.run);
        assert!(left.last() > 0 && left.last() == left.len(), "{left:?}");
        assert_eq!(resumed(&trees, &[]), left.last());
        is_complete(&trees);
    }
}

/// The server of a network file system that is lost may not tell the size of a file either.
#[test]
fn an_original_that_ends_early_and_cannot_be_examined_keeps_what_was_copied() {
    if !has_program("strace") {
        return;
    }
    let calls = format!("{PREADS},fstat,statx,newfstatat");
    let options = |more: Vec<String>| {
        let trees = tree();
        let path = trees.original("d/long");
        let path = path.to_str().unwrap();
        let common = ["-P", path, "-e", &format!("trace={calls}"), "-e"].map(str::to_owned);
        let ends = format!("inject={PREADS}:retval=0:when=60+");
        let options = [common.to_vec(), vec![ends], more].concat();
        let run = traced(&trees.command(&options_of(&["--jobs=1"])), &options);
        (trees, run)
    };
    let (_, run) = options(Vec::new());
    // What is asked behind the early end fails in the second run.
    let n_before = |call: &str| {
        let mut lines = run.log.lines();
        let before = lines
            .by_ref()
            .take_while(|line| !line.contains("(INJECTED)"));
        before
            .filter(|line| line.contains(&format!(" {call}(")))
            .count()
    };
    let stats = ["fstat", "statx", "newfstatat"].map(|call| {
        let nth = n_before(call) + 1;
        format!("inject={call}:error=ENOTCONN:when={nth}+")
    });
    let more = stats
        .into_iter()
        .flat_map(|inject| ["-e".to_owned(), inject]);
    let (trees, run) = options(more.collect());
    let failed = run.injected();
    assert!(
        failed.iter().any(|line| line.contains("ENOTCONN")),
        "{failed:?}"
    );
    run.run
        .failed_naming(&[&["d/long: cannot read: end of file at offset "]]);
    let left = Partial::only_in(&trees.copy());
    assert!(left.last() > 0 && left.last() == left.len(), "{left:?}");
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn bytes_of_a_partial_copy_that_cannot_be_read_cost_only_what_is_behind_them() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    // The end is read by a call of its own.
    let run = begin(&trees, &[SLOW]);
    wait_until("nothing is written behind a checkpoint", || {
        let all = Partial::all_in(&trees.copy());
        all.first()
            .is_some_and(|it| it.last() > 0 && it.len() > it.last() + (2 << 20))
    });
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let left = Partial::only_in(&trees.copy());
    let [first, _] = left.offsets[..] else {
        panic!("{left:?}");
    };
    // The read behind the first checkpoint.
    let n = first.div_ceil(MIB as u64) + 1;
    let fault = format!("error=EIO:when={n}");
    let run = meddled_with(&trees, &left.path, PREADS, &fault);
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    for words in [
        "d/long: its partial copy cannot be read: Input/output error at offset ".to_owned(),
        format!("d/long: goes on behind {first} bytes that an earlier run has copied\n"),
    ] {
        assert!(run.run.stderr.contains(&words), "{run:?}");
    }
    is_complete(&trees);
}

#[test]
fn a_partial_copy_that_cannot_be_read_or_opened_now_stays_for_a_later_run() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    ended_after(&trees, &[], 1, Signal::TERM);
    let left = Partial::only_in(&trees.copy());
    let original = trees.original("d/long");
    let name = Path::new(left.path.file_name().unwrap());
    let log = Path::new(left.log.file_name().unwrap());
    let unreadable = "cannot read its partial copy: Input/output error at offset 0";
    let differing = "cannot compare it with its partial copy: Input/output error";
    let ended = "cannot compare it with its partial copy: end of file";
    let closed = "cannot open its partial copy: Too many open files";
    for (path, calls, fault, words) in [
        (&*left.path, PREADS, "error=EIO:when=1+", unreadable),
        (&original, PREADS, "error=EIO:when=1+", differing),
        (&original, PREADS, "retval=0:when=1+", ended),
        // The first call finds out whether it is a partial copy.
        (name, "openat,openat2", "error=EMFILE:when=2+", closed),
        (log, "openat,openat2", "error=EMFILE:when=2+", closed),
    ] {
        let run = meddled_with(&trees, path, calls, fault);
        assert!(!run.injected().is_empty(), "{words}: {run:?}");
        assert_eq!(run.run.status, 1, "{run:?}");
        let words = format!("d/long: {words}");
        assert!(run.run.stderr.contains(&words), "{words}: {run:?}");
        let kept = Partial::only_in(&trees.copy());
        assert_eq!(
            (kept.offsets, kept.path),
            (left.offsets.clone(), left.path.clone())
        );
    }
    // With --skip-errors a bad block costs nothing that was read before.
    let path = original.to_str().unwrap();
    let options = ["-P", path, "-e", &format!("trace={PREADS}"), "-e"];
    let inject = format!("inject={PREADS}:error=EIO:when=1");
    let options = [&options[..], &[&inject]].concat().into_iter();
    let options: Vec<_> = options.map(str::to_owned).collect();
    let command = trees.command(&options_of(&["--jobs=1", "--explain", "--skip-errors"]));
    let run = traced(&command, &options);
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    let words = format!("goes on behind {} bytes", left.last());
    assert!(run.run.stderr.contains(&words), "{run:?}");
    is_complete(&trees);
}

#[test]
fn a_directory_of_the_source_that_cannot_be_read_now_keeps_its_partial_copies() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let left = killed(&trees, &[]);
    let directory = trees.original("d");
    let run = meddled_with(&trees, &directory, "getdents64", "error=EIO:when=1+");
    assert!(!run.injected().is_empty(), "{run:?}");
    run.run.failed_naming(&[&["d", "Input/output error"]]);
    assert_eq!(resumed(&trees, &[]), left.last());
    is_complete(&trees);
}

#[test]
fn a_further_name_that_fails_keeps_its_partial_copy() {
    let trees = tree();
    fs::hard_link(trees.original("d/long"), trees.original("d/name")).unwrap();
    let left = killed(&trees, &["--exclude=long"]);
    // Its file is copied under its first name, and a directory is in the way of the other one.
    fs::create_dir(trees.copied("d/name")).unwrap();
    let run = trees.run(&options_of(&[]));
    run.failed_naming(&[&["d/name"]]);
    assert!(trees.copied("d/long").exists());
    assert_eq!(Partial::only_in(&trees.copy()).offsets, left.offsets);
    fs::remove_dir(trees.copied("d/name")).unwrap();
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

/// It is not known which file it is of, so that the run copies all.
#[test]
fn a_log_that_cannot_be_opened_now_is_not_removed_with_its_file() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let left = killed(&trees, &[]);
    let log = Path::new(left.log.file_name().unwrap());
    let run = meddled_with(&trees, log, "openat,openat2", "error=EIO:when=1");
    assert_eq!(run.injected().len(), 1, "{run:?}");
    assert_eq!(run.run.status, 0, "{run:?}");
    assert_eq!(Partial::only_in(&trees.copy()).last(), left.last());
    assert_eq!(resumed(&trees, &[]), 0);
    is_complete(&trees);
}

/// The kernel reports an error of a write-back once. If a checkpoint gets it, the copy fails all the
/// same.
#[test]
fn a_durable_copy_whose_bytes_do_not_reach_the_disk_gets_no_name() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    // The first call is for the log, and the second for the copy at its first checkpoint.
    let inject = "inject=fdatasync:error=EIO:when=2".to_owned();
    let trace = "trace=fdatasync".to_owned();
    let options = options_of(&["--durable", "--jobs=1", SLOW]);
    let run = traced(
        &trees.command(&options),
        &["-e".into(), trace, "-e".into(), inject],
    );
    let [injected] = run.injected()[..] else {
        panic!("{run:?}");
    };
    assert!(injected.contains("/d/.zc-dircopy-"), "{injected}");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    assert!(!trees.copied("d/long").exists());
    assert_eq!(trees.check(&["--silent"]).status, 0);
    assert_eq!(resumed(&trees, &["--durable"]), 0);
    is_complete(&trees);
}

#[test]
fn a_durable_copy_ends_with_the_first_error_of_a_sync() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let options = ["--durable", SLOW];
    let run = failing(&trees, &options, "fdatasync", "error=EIO:when=2");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    let left = Partial::only_in(&trees.copy());
    assert!(left.offsets.is_empty(), "{left:?}");
    assert!((64 << 20..LEN as u64).contains(&left.len()), "{left:?}");
    assert_eq!(resumed(&trees, &options), 0);
    is_complete(&trees);
    // The second checkpoint of a copy, or its end. The first one serves.
    let trees = tree();
    let run = failing(&trees, &options, "fdatasync", "error=EIO:when=4");
    run.run
        .failed_naming(&[&["d/long: cannot write its copy: Input/output error"]]);
    let left = Partial::only_in(&trees.copy());
    assert_eq!(left.offsets.len(), 1, "{left:?}");
    assert_eq!(resumed(&trees, &options), left.last());
    is_complete(&trees);
}

#[test]
fn a_copy_that_fails_behind_its_last_byte_is_kept() {
    if !has_program("strace") {
        return;
    }
    let renames = "renameat,renameat2,linkat";
    let named = "d/long: cannot give its copy the name";
    for (options, calls, error, words, is_kept) in [
        (&[][..], renames, "EIO", named, true),
        (&[], renames, "ENOSPC", named, false),
        (
            &["--verify"],
            "fdatasync",
            "EIO",
            "d/long: cannot write its copy",
            true,
        ),
    ] {
        let trees = Trees::within(Path::new("/dev/shm"));
        trees.put("d/long", &LONG[..70 * MIB + 5]);
        let fault = format!("error={error}:when=1+");
        let run = failing(&trees, options, calls, &fault);
        assert!(!run.injected().is_empty(), "{run:?}");
        assert!(run.run.stderr.contains(words), "{words}: {run:?}");
        if is_kept {
            let left = Partial::only_in(&trees.copy());
            assert_eq!(left.last(), left.len(), "{left:?}");
            assert_eq!(left.last(), 70 * MIB as u64 + 5);
            assert_eq!(resumed(&trees, &[]), left.last());
        } else {
            assert!(Partial::all_in(&trees.copy()).is_empty(), "{run:?}");
            assert_eq!(resumed(&trees, &[]), 0);
        }
        is_complete(&trees);
    }
}

/// What cannot be read is skipped behind the bytes of the former run, and no digest covers it.
#[test]
fn a_damaged_original_is_gone_on_with_up_to_its_damage() {
    let Some(disk) = BadDisk::new(400) else {
        return;
    };
    let trees = Trees::within(Path::new("/dev/shm"));
    let bytes = words(130 * MIB + 777);
    put(&disk.dir().join("src/clip"), &bytes);
    let command = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.args(["--quiet", "--lanes=never", "--resume"]);
        command.args(options);
        command.arg(disk.dir().join("src")).arg(trees.copy());
        command
    };
    let slow = ["--skip-errors", "--bwlimit=66MiB"];
    let mut run = command(&slow);
    let run = run.stderr(Stdio::null()).spawn().unwrap();
    wait_until("nothing is written", || {
        let all = Partial::all_in(&trees.copy());
        all.first().is_some_and(|it| it.len() > 5 << 20)
    });
    kill_process(Pid::from_child(&run), Signal::TERM).unwrap();
    end_of(run);
    let left = Partial::only_in(&trees.copy());
    let bad = [(left.last() as usize + 20 * MIB) / BLOCK, 120 * MIB / BLOCK];
    let clip = fs::File::open(disk.dir().join("src/clip")).unwrap();
    disk.flip(&clip, &bytes, &bad);
    // Without --skip-errors it ends at the damage, and keeps what is before it.
    let failed = crate::dircopy::run(&mut command(&[]));
    failed.failed_naming(&[&["clip: cannot read: Input/output error at offset "]]);
    let kept = Partial::only_in(&trees.copy());
    assert_eq!(kept.last(), kept.len());
    assert!(kept.last() > left.last() && kept.last() <= (bad[0] * BLOCK) as u64);
    let skipped = crate::dircopy::run(&mut command(&["--skip-errors"]));
    assert_eq!(skipped.status, 1, "{skipped:?}");
    let found = fs::read(trees.copied("clip")).unwrap();
    crate::files::assert_same(&found, &zeroed(&bytes, &bad), "clip");
    assert!(trees.copied("clip.damaged").exists());
    hides_nothing(&trees.copy());
    assert_eq!(trees.check(&["--silent"]).status, 1);
    // Once it can be read again, the copy is completed.
    disk.flip(&clip, &bytes, &bad);
    crate::dircopy::run(&mut command(&["--skip-errors"])).is_quiet();
    assert!(fs::read(trees.copied("clip")).unwrap() == bytes);
    assert!(!trees.copied("clip.damaged").exists());
    hides_nothing(&trees.copy());
}
