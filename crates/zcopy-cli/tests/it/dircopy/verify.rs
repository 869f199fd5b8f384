//! Copies that are read back before they get their names.

use super::*;
use crate::mounts::mount_with_script;
use crate::skip::has_program;
use traced::traced;

#[test]
fn copies_that_are_verified_are_copies() {
    for hash in ["sha256", "blake3"] {
        let trees = Trees::on_disk();
        trees
            .put("a/long", crate::files::pattern(3_000_007))
            .put("a/empty", "");
        trees.put("short", "x");
        trees.succeeds(&["--verify", "--hash", hash]).are_alike();
    }
}

#[test]
fn copies_are_verified_without_digests_too() {
    let trees = Trees::on_disk();
    trees.put("long", crate::files::pattern(3_000_007));
    trees.succeeds(&["--verify", "--no-hash"]);
    facts::assert_same(&trees.source(), &trees.copy());
    assert_eq!(Sums::all_in(&trees.copy()).len(), 0);
}

/// Cached pages would only tell what was written to them.
#[test]
fn a_copy_is_read_from_the_disk_and_not_from_the_cache() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::on_disk();
    trees.put("file", crate::files::pattern(1 << 20));
    let calls =
        "--trace=openat,fcntl,fsync,fdatasync,sync_file_range,fadvise64,linkat,renameat,renameat2";
    let traced = traced(&trees.command(&["--verify"]), &[calls.to_owned()]);
    traced.run.is_quiet();
    let line = |words: &[&str]| {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        traced.log.lines().position(has_all)
    };
    let written = line(&["sync("]).expect("it is brought to the disk");
    let is_dropped = line(&["DONTNEED"]).or(line(&["O_DIRECT"]));
    let named = line(&["link", "\"file\""]).expect("it is named");
    let dropped = is_dropped.expect("its pages are sent away, or passed by");
    assert!(written < dropped && dropped < named, "{}", traced.log);
}

/// Reading the page cache proves nothing.
#[test]
fn the_summary_tells_how_files_were_read_back() {
    const DISK: &str = "read back from the disk (O_DIRECT)";
    const EMPTIED: &str = "read back after dropping their pages from the cache";
    const MEMORY: &str = "read back from memory, which proves nothing about a disk";
    let put = |trees: &Trees| {
        trees
            .put("long", crate::files::pattern(3_000_007))
            .put("short", "x")
            .put("empty", "");
        rustix::fs::sync();
    };
    let told = |trees: &Trees, option: &str| {
        let mut command = zc_dircopy();
        command.arg(option).arg(trees.source()).arg(trees.copy());
        let run = run(&mut command);
        run.ended_with(0);
        let lines = run.stdout.lines();
        let lines = lines.filter(|line| line.contains("read back"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (option, n) in [
        ("--verify", 1),
        ("--verify=copy", 1),
        ("--verify=source", 1),
        ("--verify=both", 2),
    ] {
        let expected = [format!("{n} {DISK}"), format!("{n} {EMPTIED}")];
        // The kernel keeps a page that somebody else holds just then, and the summary says so. Then
        // the next copy tells.
        let mut told_by = Vec::new();
        while told_by.len() < 3 && told_by.last() != Some(&expected.to_vec()) {
            let trees = Trees::on_disk();
            put(&trees);
            told_by.push(told(&trees, option));
        }
        assert_eq!(
            told_by.pop().unwrap(),
            expected,
            "{option}, before: {told_by:?}"
        );
    }
    let trees = Trees::within(Path::new("/dev/shm"));
    put(&trees);
    assert_eq!(told(&trees, "--verify=both"), [format!("4 {MEMORY}")]);
    // Past the cache of the overlay there is another one.
    let script = r#"
        mkdir "$1.t"
        mount -t tmpfs none "$1.t"
        mkdir "$1.t/lower" "$1.t/upper" "$1.t/work"
        layers="lowerdir=$1.t/lower,upperdir=$1.t/upper,workdir=$1.t/work"
        mount -t overlay -o "$layers" none "$2"
        umount -l "$1.t"
        rmdir "$1.t"
    "#;
    let Some(root) = mount_with_script("overlayfs", 0, script) else {
        return;
    };
    let trees = Trees::within(&root.dir());
    put(&trees);
    let told = told(&trees, "--verify=both");
    assert!(!told.is_empty());
    for line in told {
        assert!(!line.contains(DISK) && !line.contains(EMPTIED), "{line}");
    }
}

#[test]
fn an_original_that_reads_otherwise_the_second_time_is_not_copied() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::on_disk();
    trees.put("file", crate::files::pattern(1 << 20));
    let stop = ["--inject=fadvise64:signal=SIGSTOP:when=1".to_owned()];
    let command = trees.command(&["--jobs=1", "--verify=source"]);
    let traced = traced::while_stopped(&command, &stop, || {
        fs::write(trees.original("file"), vec![7; 1 << 20]).unwrap();
    });
    let words = "it has other bytes when it is read a second time";
    traced.run.failed_naming(&[&["file", words]]);
    assert!(!trees.copied("file").exists());
    trees.sums().lists(&[]);
}

/// A read that fails while it is verified is no copy either.
#[test]
fn what_cannot_be_read_back_gets_no_name() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::on_disk();
    trees
        .put("file", crate::files::pattern(300_000))
        .put("other", "x");
    trees.put_copy("file", "what was there");
    // All reads of what is open without a name: there is no path to tell it by, so it is told by
    // what it is not.
    let reads = "read,pread64,preadv,preadv2";
    for nth in 1..=64 {
        let fails = format!("{reads}:error=EIO:when={nth}");
        let command = trees.command(&["--verify", "--jobs=1", "--overwrite-policy=always"]);
        let traced = traced::meddled(&command, reads, &fails);
        let injected = traced.injected();
        let of_copy = injected.iter().find(|line| line.contains("/dst/#"));
        if of_copy.is_none() {
            continue;
        }
        traced.run.ended_with(1);
        let is_old = fs::read(trees.copied("file")).unwrap() == b"what was there";
        let sums = trees.sums();
        let has_line = sums.paths().contains(&Path::new("file"));
        assert!(is_old != has_line, "{traced:?}");
        sums.holds_in(&trees.copy());
        return;
    }
    panic!("a copy is never read");
}

/// As over a network whose server is lost.
#[test]
fn a_copy_whose_reads_end_early_is_neither_recorded_nor_called_different() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("file", crate::files::pattern(3_000_000));
    trees.succeeds(&["--no-hash"]);
    let path = trees.copied("file").to_str().unwrap().to_owned();
    let ended = |command: &Command, nth: u32| {
        let trace = "--trace=read,pread64".to_owned();
        let inject = format!("--inject=read,pread64:retval=0:when={nth}+");
        let options = ["-P".to_owned(), path.clone(), trace, inject];
        let traced = traced(command, &options);
        assert!(!traced.injected().is_empty(), "{traced:?}");
        traced.run
    };
    for options in [&[][..], &["--verify-existing"], &["--hash=blake3"]] {
        let run = ended(&trees.command(options), 3);
        run.failed_naming(&[&["file: cannot read its copy: end of file at offset "]]);
        // The manifest has no line for it.
        let listed = Sums::all_in(&trees.copy());
        assert!(
            listed.iter().all(|sums| sums.paths().is_empty()),
            "{options:?}"
        );
    }
    trees.succeeds(&["--overwrite-policy=always"]);
    let mut check = zc_dircopy();
    check.arg("--check").arg(trees.copy());
    let run = ended(&check, 3);
    run.ended_with(1);
    assert_eq!(run.stdout, "file: FAILED open or read\n");
    assert!(run.stderr.contains("end of file at offset "), "{run:?}");
    assert_eq!(trees.check(&[]).stdout, "file: OK\n");
}
