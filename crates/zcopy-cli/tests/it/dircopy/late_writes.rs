//! Disks that fail only when the kernel writes back what `write(2)` took.

use super::*;
use crate::mounts::{Root, mount_with_script};
use crate::skip::{has_program, is_root, report};
use traced::{meddled, traced};

/// A disk of 40 MiB, of which 4 MiB in the middle cannot be written.
///
/// A file system with a journal becomes read-only if it cannot write that.
pub(super) fn failing_disk(has_journal: bool) -> Option<(Root, PathBuf)> {
    if !is_root() || !has_program("mkfs.ext4") {
        return None;
    }
    // The image has a hole there, and the file system below has no room left to fill it. mkfs makes
    // holes of its own, which dd fills. Linux 6.18's loop driver takes a short write for a whole
    // one, and a page is never written in part.
    let script = r#"
        mkdir "$1.t"
        mount -t tmpfs -o size=40m none "$1.t"
        head -c 40M /dev/zero >"$1.t/image"
        mkfs.ext4 -q -F -b 4096 @OPTIONS@ -E nodiscard "$1.t/image"
        dd if="$1.t/image" of="$1.t/image" conv=notrunc bs=1M status=none
        fallocate --punch-hole --offset 8M --length 4M "$1.t/image"
        head -c 8M /dev/zero >"$1.t/ballast" 2>/dev/null || true
        loop=$(losetup --find --show "$1.t/image")
        echo 4 >"/sys/block/${loop#/dev/}/queue/max_sectors_kb"
        mount "$loop" "$2"
        losetup --detach "$loop"
        umount -l "$1.t"
        rmdir "$1.t"
    "#;
    let options = if has_journal { "" } else { "-O ^has_journal" };
    let script = script.replace("@OPTIONS@", options);
    let root = mount_with_script("ext4 over a full tmpfs", 0, &script)?;
    let path = root.dir().join("copy");
    Some((root, path))
}

/// Twenty files of 1 MiB.
fn tree() -> Trees {
    let trees = Trees::on_disk();
    for (n, name) in (1..).zip(names()) {
        trees.put(name, vec![n; 1 << 20]);
    }
    trees
}

fn names() -> Vec<String> {
    (10..30).map(|n| n.to_string()).collect()
}

/// The names of files that a run reported.
fn reported(run: &Run) -> Vec<String> {
    let lines = run.stderr.lines();
    lines
        .map(|line| line.split(": ").nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn a_write_that_fails_late_is_reported_and_keeps_its_line() {
    let Some((_root, copy)) = failing_disk(false) else {
        return;
    };
    let trees = tree();
    let mut command = zc_dircopy();
    command
        .args(["-q", "--jobs=1"])
        .arg(trees.source())
        .arg(&copy);
    let run = run(&mut command);
    run.ended_with(1);
    let failed = reported(&run);
    assert!((1..20).contains(&failed.len()), "{run:?}");
    for line in run.stderr.lines() {
        assert!(
            line.contains(": its copy may not be on the disk: "),
            "{run:?}"
        );
    }
    // A check fails until the copies are repaired.
    let all = names();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    Sums::newest_in(&copy).lists(&all).holds_in(&trees.source());
}

#[test]
fn a_durable_copy_whose_write_fails_costs_its_line() {
    let Some((_root, copy)) = failing_disk(false) else {
        return;
    };
    let trees = tree();
    let mut command = zc_dircopy();
    command.args(["-q", "--jobs=1", "--durable"]);
    let run = run(command.arg(trees.source()).arg(&copy));
    run.ended_with(1);
    let failed = reported(&run);
    let whole = names();
    let whole = whole.iter().filter(|name| !failed.contains(name));
    let whole: Vec<&str> = whole.map(String::as_str).collect();
    assert!((1..20).contains(&whole.len()), "{run:?}");
    if Sums::all_in(&copy).is_empty() {
        // The blocks of files that failed are free again, and the manifest may have got them.
        let message = "cannot write the manifest: No space left on device";
        assert!(run.stderr.contains(message), "{run:?}");
    } else {
        Sums::newest_in(&copy).lists(&whole).holds_in(&copy);
    }
}

#[test]
fn a_bad_block_is_given_to_no_other_file_before_the_manifest_is_written() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let options = [
        "--trace=fsync,close,linkat".to_owned(),
        "--inject=fsync:error=EIO:when=5".to_owned(),
    ];
    let traced = traced(&trees.command(&["--durable", "--jobs=1"]), &options);
    traced.run.ended_with(1);
    let [failed] = &reported(&traced.run)[..] else {
        panic!("{:?}", traced.run);
    };
    let names = names();
    let whole = names.iter().filter(|name| *name != failed);
    let whole: Vec<&str> = whole.map(String::as_str).collect();
    trees.sums().lists(&whole).holds_in(&trees.copy());

    let injected = traced.injected();
    let file = injected[0].split(['(', ')']).nth(1).unwrap();
    let position = |words: [&str; 2]| {
        let is_it = |line: &str| words.iter().all(|word| line.contains(word));
        traced.log.lines().position(is_it)
    };
    let manifest = position(["linkat(", "shasum."]).unwrap();
    let closed = position(["close(", file]);
    assert!(
        closed.is_none_or(|closed| manifest < closed),
        "{}",
        traced.log
    );
}

/// Forty files of 4 KiB in one directory.
fn short_files() -> (Trees, Vec<String>) {
    let trees = Trees::on_disk();
    let names: Vec<_> = (10..50).map(|n| format!("d/{n}")).collect();
    for (n, name) in (1..).zip(&names) {
        trees.put(name, vec![n; 4096]);
    }
    (trees, names)
}

#[test]
fn short_files_are_brought_to_the_disk_together_before_they_are_named() {
    if !has_program("strace") {
        return;
    }
    let (trees, names) = short_files();
    let options = ["--trace=syncfs,fsync,linkat".to_owned()];
    let traced = traced(&trees.command(&["--durable"]), &options);
    traced.run.is_quiet();
    trees.are_alike();
    let position = |words: &[&str]| {
        let has_all = |line: &str| words.iter().all(|word| line.contains(word));
        let lines = || traced.log.lines();
        (
            lines().position(has_all).unwrap(),
            lines().count() - 1 - lines().rev().position(has_all).unwrap(),
        )
    };
    let (first_named, last_named) = position(&["linkat(", "/dst/d>, \""]);
    assert_eq!(last_named - first_named + 1, names.len(), "{}", traced.log);
    assert!(position(&["syncfs("]).0 < first_named, "{}", traced.log);
    assert_eq!(position(&["fsync(", "/dst/d>"]).0, last_named + 1);
    // Two more calls of each kind belong to the manifest and to the end of the run.
    assert!(traced.n_lines_with("syncfs(") <= 3, "{}", traced.log);
    assert!(traced.n_lines_with("fsync(") < 10, "{}", traced.log);
}

#[test]
fn of_files_that_are_synced_together_the_one_that_fails_is_found() {
    if !has_program("strace") {
        return;
    }
    let (trees, names) = short_files();
    let options = [
        "--trace=syncfs,fsync".to_owned(),
        "--inject=syncfs:error=EIO:when=1".to_owned(),
        "--inject=fsync:error=EIO:when=5".to_owned(),
    ];
    let traced = traced(&trees.command(&["--durable", "--jobs=1"]), &options);
    traced.run.ended_with(1);
    let [failed] = &reported(&traced.run)[..] else {
        panic!("{:?}", traced.run);
    };
    let whole = names.iter().filter(|name| *name != failed);
    let whole: Vec<&str> = whole.map(String::as_str).collect();
    assert_eq!(whole.len(), names.len() - 1, "{:?}", traced.run);
    trees.sums().lists(&whole).holds_in(&trees.copy());
    assert!(!trees.copied(failed).exists());
}

#[test]
fn names_that_may_not_be_on_the_disk_are_reported_and_have_no_lines() {
    if !has_program("strace") {
        return;
    }
    let (trees, names) = short_files();
    fs::create_dir(trees.copy()).unwrap();
    fs::create_dir(trees.copied("d")).unwrap();
    let directory = trees.copied("d");
    let options = [
        "-P".to_owned(),
        directory.to_str().unwrap().to_owned(),
        "--trace=fsync".to_owned(),
        "--inject=fsync:error=EIO:when=1".to_owned(),
    ];
    let traced = traced(&trees.command(&["--durable"]), &options);
    traced.run.ended_with(1);
    assert_eq!(reported(&traced.run), names);
    let uncertain = "cannot give its copy the name for certain: Input/output error";
    assert_eq!(traced.run.stderr.matches(uncertain).count(), names.len());
    // The next run reads them, and records them.
    trees.sums().lists(&[]);
    trees.succeeds(&["--durable"]);
    trees.are_alike();
}

#[test]
fn durable_short_files_that_a_disk_does_not_take_have_no_lines() {
    let Some((_root, copy)) = failing_disk(true) else {
        return;
    };
    let trees = Trees::on_disk();
    let names: Vec<_> = (100..500).map(|n| n.to_string()).collect();
    for (n, name) in (1_u16..).zip(&names) {
        trees.put(name, vec![(n % 251).to_le_bytes()[0]; 64 << 10]);
    }
    let mut command = zc_dircopy();
    command.args(["-q", "--durable"]);
    let run = run(command.arg(trees.source()).arg(&copy));
    run.ended_with(1);
    let failed = reported(&run);
    let whole = names.iter().filter(|name| !failed.contains(name));
    let whole: Vec<&str> = whole.map(String::as_str).collect();
    assert!(whole.len() < names.len(), "{} are whole", whole.len());
    // ext4 gives up if it cannot write its journal. Then it may be unable to read what it has, and
    // all files are reported that it has given a name since.
    if run.stderr.contains("Read-only file system") {
        report("ext4 gave up on the failing disk, whose files are not judged");
        return;
    }
    for name in &whole {
        let file = fs::File::open(copy.join(name)).unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    if !Sums::all_in(&copy).is_empty() {
        Sums::newest_in(&copy).lists(&whole).holds_in(&copy);
    }
}

#[test]
fn one_call_finds_out_whether_a_write_failed_late() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let options = ["--trace=syncfs,fsync".to_owned()];
    let traced = traced(&trees.command(&[]), &options);
    traced.run.is_quiet();
    assert_eq!(traced.n_lines_with("syncfs("), 1, "{}", traced.log);
    let n_files = traced.n_lines_with("fsync(");
    assert!(n_files < 3, "no file is synced by itself: {}", traced.log);
}

#[test]
fn an_error_that_belongs_to_no_file_is_reported() {
    if !has_program("strace") {
        return;
    }
    for options in [&[][..], &["--durable"]] {
        let trees = tree();
        let traced = meddled(&trees.command(options), "syncfs", "syncfs:error=EIO");
        traced.run.ended_with(1);
        let message = "zc-dircopy: .: cannot bring the copy to the disk: Input/output error\n";
        assert!(traced.run.stderr.starts_with(message), "{:?}", traced.run);
        trees.are_alike();
    }
}

#[test]
fn another_failure_does_not_hide_the_error() {
    if !has_program("strace") {
        return;
    }
    let trees = tree();
    let _socket = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let traced = meddled(
        &trees.command(&["--durable"]),
        "syncfs",
        "syncfs:error=EIO:when=1",
    );
    traced.run.ended_with(1);
    let message = "zc-dircopy: .: cannot bring the copy to the disk: Input/output error\n";
    assert!(traced.run.stderr.contains(message), "{:?}", traced.run);
}

#[test]
fn a_system_without_syncfs_fails_only_durable_copies() {
    if !has_program("strace") {
        return;
    }
    for error in ["ENOSYS", "EPERM"] {
        let trees = tree();
        let fails = format!("syncfs:error={error}");
        let traced = meddled(&trees.command(&[]), "syncfs", &fails);
        traced.run.is_quiet();
        let traced = meddled(&trees.command(&["--durable"]), "syncfs", &fails);
        traced.run.ended_with(1);
    }
}

/// The kernel may tell it nowhere else. The call is made several times for a long file.
#[test]
fn a_write_that_cannot_begin_is_reported_once_with_its_file() {
    if !has_program("strace") {
        return;
    }
    for errno in ["EIO", "ENOSPC"] {
        let trees = Trees::new();
        trees.put("long", vec![7; 20 << 20]).put("short", "x");
        let inject = format!("--inject=sync_file_range:error={errno}");
        let options = ["--trace=sync_file_range".to_owned(), inject];
        let traced = traced(&trees.command(&["--jobs=1", "--lanes=never"]), &options);
        assert!(traced.injected().len() > 1, "{errno}");
        let words = ["long: its copy may not be on the disk"];
        traced.run.failed_naming(&[&words]);
        facts::assert_same(&trees.source(), &trees.copy());
    }
    // Where the call is refused, the kernel writes later.
    let trees = Trees::new();
    trees.put("long", vec![7; 2 << 20]);
    let options = [
        "--trace=sync_file_range",
        "--inject=sync_file_range:error=ENOSYS",
    ];
    let options = options.map(str::to_owned);
    let traced = traced(&trees.command(&["--lanes=never"]), &options);
    assert!(!traced.injected().is_empty());
    assert_eq!(traced.run.status, 0, "{:?}", traced.run);
}
