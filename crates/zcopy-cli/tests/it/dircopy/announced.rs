//! Files get their names after the journal has announced them: on the disk, if they have records.

use super::archive::Archive;
use super::*;
use crate::mounts::{image, mount_tmpfs, skip_mount, try_mount};
use crate::skip::{has_program, is_root};

/// The calls that a test of the order of syncs needs to see.
const CALLS: &str = "--trace=write,fsync,fdatasync,linkat,renameat,renameat2,symlinkat";

/// Files `f0`, `f1` and so on, which are recorded. The card has newer versions.
fn archive_with_newer_originals(n_files: usize) -> (Archive, PathBuf) {
    let archive = Archive::new();
    let names: Vec<String> = (0..n_files).map(|n| format!("f{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let card = archive.card("one", &names);
    archive.add(&card, &[]).is_quiet();
    for name in names {
        put(&card.join(name), "another take");
    }
    (archive, card)
}

/// Asserts that no name changes while announcements are in the journal and not on the disk.
#[track_caller]
fn syncs_before_names(log: &str) {
    let mut is_synced = true;
    let mut n_names = 0;
    for line in log.lines() {
        let in_journal = line.contains(".zc-dircopy-journal-");
        let announces = [" ~ ", " ? ", " + "].iter().any(|sign| line.contains(sign));
        if in_journal && line.contains("write(") && announces {
            is_synced = false;
        } else if in_journal && line.contains("fdatasync(") {
            is_synced = true;
        } else if line.contains("renameat") && !line.contains("shasum.") {
            n_names += 1;
            assert!(is_synced, "{line}\n{log}");
        }
    }
    assert!(n_names > 0, "{log}");
}

#[test]
fn a_recorded_file_is_replaced_after_its_announcement_is_on_the_disk() {
    if !has_program("strace") {
        return;
    }
    for options in [&[][..], &["--no-hash"], &["--durable"], &["--lanes=always"]] {
        let (archive, card) = archive_with_newer_originals(3);
        fs::remove_file(card.join("f1")).unwrap();
        std::os::unix::fs::symlink("f0", card.join("f1")).unwrap();
        fs::remove_file(card.join("f2")).unwrap();
        fs::hard_link(card.join("f0"), card.join("f2")).unwrap();
        let command = archive.command(&card, &[options, &["--jobs=1"]].concat());
        let traced = traced::traced(&command, &[CALLS.to_owned()]);
        traced.run.is_quiet();
        syncs_before_names(&traced.log);
    }
}

#[test]
fn many_recorded_files_that_are_replaced_share_a_sync() {
    if !has_program("strace") {
        return;
    }
    for options in [&[][..], &["--no-hash"]] {
        let (archive, card) = archive_with_newer_originals(200);
        let command = archive.command(&card, &[options, &["--jobs=1"]].concat());
        let traced = traced::traced(&command, &[CALLS.to_owned()]);
        traced.run.is_quiet();
        syncs_before_names(&traced.log);
        let n_syncs = traced.n_lines_with("fdatasync(");
        assert!((1..=50).contains(&n_syncs), "{n_syncs} syncs");
    }
}

#[test]
fn new_files_and_repairs_need_no_sync() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    let trace = [CALLS.to_owned()];
    let new = traced::traced(&archive.command(&card, &[]), &trace);
    new.run.is_quiet();
    archive.rot("a");
    let repair = archive.command(&card, &["--overwrite-policy=update"]);
    let repair = traced::traced(&repair, &trace);
    repair.run.is_quiet();
    archive.is_intact(&["a", "b"]);
    for traced in [new, repair] {
        assert_eq!(traced.n_lines_with("fdatasync("), 0, "{}", traced.log);
    }
}

/// The disk is copied while a run has replaced a file. The copy of the disk has what a loss of
/// power would leave.
#[test]
fn a_loss_of_power_leaves_no_replaced_file_with_its_old_record() {
    if !is_root() || !has_program("strace") || !has_program("mkfs.ext4") {
        return;
    }
    let disk = image(32);
    let script = "mkfs.ext4 -qF \"$1\"; mount -o loop \"$1\" \"$2\"";
    let Some(root) = try_mount(disk.path(), script) else {
        return skip_mount("ext4");
    };
    let trees = Trees::new();
    trees.put("a", "old");
    dated(&trees.original("a"), 1000);
    let copy = root.dir().join("copy");
    let mut first = zc_dircopy();
    run(first.arg("--quiet").arg(trees.source()).arg(&copy)).is_quiet();
    rustix::fs::syncfs(fs::File::open(&copy).unwrap()).unwrap();
    trees.put("a", "another take");
    let mut command = zc_dircopy();
    command.args(["--quiet", "--jobs=1"]);
    command.arg(trees.source()).arg(&copy);
    let left = image(32);
    let stop = [
        "--trace=renameat",
        "--inject=renameat:signal=SIGSTOP:when=1",
    ]
    .map(str::to_owned);
    let traced = traced::while_stopped(&command, &stop, || {
        assert_eq!(fs::read(copy.join("a")).unwrap(), b"another take");
        // The new name is on the disk, as if the file system had just written its journal.
        fs::File::open(copy.join("a")).unwrap().sync_all().unwrap();
        fs::File::open(&copy).unwrap().sync_all().unwrap();
        fs::copy(disk.path(), left.path()).unwrap();
    });
    traced.run.is_quiet();

    let Some(root) = try_mount(left.path(), "mount -o loop \"$1\" \"$2\"") else {
        return skip_mount("ext4");
    };
    let copy = root.dir().join("copy");
    assert_eq!(fs::read(copy.join("a")).unwrap(), b"another take");
    let checked = check(&copy, &[]);
    assert_eq!(
        (checked.status, &*checked.stdout),
        (0, "a: OK\n"),
        "{checked:?}"
    );
    let mut next = zc_dircopy();
    run(next.arg("--quiet").arg(trees.source()).arg(&copy)).is_quiet();
    Sums::newest_in(&copy).lists(&["a"]).holds_in(&copy);
}

#[test]
fn no_file_gets_a_name_if_its_announcement_cannot_be_written() {
    if !is_root() {
        return;
    }
    let Some(root) = mount_tmpfs(1) else {
        return;
    };
    let trees = Trees::new();
    let n_files = 40;
    for n in 0..n_files {
        // Empty files need no block. Their long names fill the journal.
        trees.put(format!("{n:04}{}", "-long-name".repeat(20)), "");
    }
    let copy = root.dir().join("copy");
    fs::create_dir(&copy).unwrap();
    let free = || rustix::fs::statvfs(&copy).unwrap();
    // One page is left for the journal.
    let filler = vec![0; usize::try_from((free().f_bfree - 1) * free().f_bsize).unwrap()];
    fs::write(root.dir().join("filler"), filler).unwrap();
    let mut command = zc_dircopy();
    command.args(["--quiet", "--jobs=1"]);
    let failed = run(command.arg(trees.source()).arg(&copy));
    failed.ended_with(1);
    let names = facts::files_of(&copy).into_iter();
    let names: Vec<_> = names
        .filter(|name| !name.as_os_str().as_bytes().starts_with(b".zc-"))
        .collect();
    assert!(names.len() < n_files, "the journal was never full");
    let not_copied = "it is not copied: the journal cannot be written\n";
    assert_eq!(
        failed.stderr.matches(not_copied).count(),
        n_files - names.len()
    );
    let n_causes = failed
        .stderr
        .matches("cannot write the journal: No space left")
        .count();
    assert_eq!(n_causes, 1, "{failed:?}");

    // Every file that has a name has a record: a check verifies it.
    let check = run(zc_dircopy().args(["--check", "--strict"]).arg(&copy));
    assert!(!check.stdout.contains("not listed"), "{check:?}");
    fs::remove_file(root.dir().join("filler")).unwrap();
    let mut again = zc_dircopy();
    run(again.arg("--quiet").arg(trees.source()).arg(&copy)).is_quiet();
    assert_eq!(facts::files_of(&copy).len(), n_files + 1);
}

#[test]
fn a_run_without_any_record_needs_no_journal() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    put(&card.join("a"), "");
    // Nothing can be written. An empty file needs no write.
    let command = archive.command(&card, &["--no-hash"]);
    let traced = traced::meddled(&command, "write", "write:error=ENOSPC:when=1+");
    traced.run.is_quiet();
    assert!(archive.0.copied("a").exists());
}
