//! Destinations on file systems whose drivers run in user space, of which each lacks something
//! else.

use std::os::unix::fs::{MetadataExt as _, symlink};

use serde_json::Value;
use zcopy_cli::dircopy::write::atomic_file::{AtomicFile, Durability, Exclusivity, Replace};

use super::*;
use crate::passthrough_fs::{Faults, Links, Mounted, Renames, Symlinks};
use crate::skip::has_program;
use file_systems::{FileSystem, NtfsNames};
use traced::meddled;

/// The message where a name that is taken may be replaced.
pub(super) const NAMES: &str = "zc-dircopy: .: the file system has neither RENAME_NOREPLACE nor hard links: \
     a file that another process creates while its name is given to a copy may be replaced\n";

/// The message where modes are not kept.
pub(super) const MODES: &str = "zc-dircopy: .: the file system does not keep all modes\n";

/// A tree whose copy goes to another file system.
pub(super) fn onto(file_system: &Path) -> Trees {
    let trees = Trees::new();
    let destination = file_system.join("dst");
    fs::create_dir(&destination).unwrap();
    symlink(destination, trees.copy()).unwrap();
    trees
}

/// Waits until no name is left of a file that was removed while it was open. The kernel tells a
/// driver behind a program's back that a file was closed.
fn libfuse_has_settled(tree: &Path) {
    let start = Instant::now();
    let is_left = |name: &PathBuf| name.to_string_lossy().contains(".fuse_hidden");
    while hidden_names(tree).iter().any(is_left) {
        assert!(start.elapsed() < Duration::from_secs(60), "it stays");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Files of a few sizes, in a few directories, whose times do not end in zeros. Each belongs to
/// root, as each of such a file system does.
fn some_files(trees: &Trees) {
    trees
        .put("a", "first")
        .put("empty", "")
        .put("d/long", crate::files::pattern((1 << 20) + 7))
        .put("d/deep/er/file", "deep");
    for name in ["a", "d/long", "d/deep/er/file"] {
        dated(&trees.original(name), 100);
    }
}

const SOME_FILES: [&str; 4] = ["a", "d/deep/er/file", "d/long", "empty"];

/// The lines on standard error, in the order of their bytes: threads meet different things first.
pub(super) fn said_by(run: &Run) -> Vec<&str> {
    let mut lines: Vec<_> = run.stderr.split_inclusive('\n').collect();
    lines.sort_unstable();
    lines
}

/// What the summary counts.
#[track_caller]
pub(super) fn counts(run: &Run, names: &[&str]) -> Vec<u64> {
    let last = run.stdout.lines().last().unwrap();
    let summary: Value = serde_json::from_str(last).unwrap();
    let count = |name: &&str| summary[*name].as_u64().unwrap();
    names.iter().map(count).collect()
}

/// All is copied, the next run leaves it, and each way to look at it finds it whole.
#[track_caller]
fn is_kept_over_runs(trees: &Trees, said: &[&str]) {
    some_files(trees);
    for (options, expected) in [
        (&[][..], [4, 0]),
        (&[], [0, 4]),
        (&["--durable"], [0, 4]),
        (&["--no-hash-skipped"], [0, 4]),
        (&["--verify-existing"], [0, 4]),
        (&["--overwrite-policy=update"], [0, 4]),
        (
            &["--overwrite-policy=always", "--durable", "--verify"],
            [4, 0],
        ),
    ] {
        let run = trees.run_aloud(&[options, &["--json"]].concat());
        assert_eq!((run.status, &said_by(&run)[..]), (0, said), "{options:?}");
        assert_eq!(
            counts(&run, &["copied", "skipped"]),
            expected,
            "{options:?}"
        );
        trees.sums().lists(&SOME_FILES).holds_in(&trees.copy());
        trees.sums().satisfies_sha256sum(&trees.copy());
    }
    libfuse_has_settled(&trees.copy());
    trees.check(&["--strict", "-q"]).is_quiet();
    hides_nothing(&trees.copy());
}

#[test]
fn exfat_gets_all_files_and_later_runs_leave_them() {
    if let Some(exfat) = FileSystem::exfat() {
        is_kept_over_runs(&onto(&exfat.path()), &[MODES, NAMES]);
    }
}

#[test]
fn ext4_in_user_space_gets_all_files_and_later_runs_leave_them() {
    if let Some(ext4) = FileSystem::fuse2fs() {
        is_kept_over_runs(&onto(&ext4.path()), &[]);
    }
}

#[test]
fn ntfs_gets_all_files_and_later_runs_leave_them() {
    if let Some(ntfs) = FileSystem::ntfs(NtfsNames::CaseSensitive) {
        is_kept_over_runs(&onto(&ntfs.path()), &[MODES]);
    }
}

#[test]
fn sshfs_gets_all_files_and_later_runs_leave_them() {
    if let Some(sshfs) = FileSystem::sshfs() {
        is_kept_over_runs(&onto(&sshfs.path()), &[]);
    }
}

/// Drivers differ in how they say that they know no hard links.
#[test]
fn without_rename_noreplace_and_hard_links_all_files_are_copied() {
    for errno in ["EPERM", "ENOSYS", "EOPNOTSUPP", "EINVAL", "EMLINK", "EXDEV"] {
        let scratch = tempfile::tempdir_in(DISK).unwrap();
        let Some(mounted) = Mounted::over(scratch.path(), without_links(errno)) else {
            return;
        };
        is_kept_over_runs(&onto(&mounted.path()), &[NAMES]);
    }
}

/// Neither `RENAME_NOREPLACE` nor hard links, which fail with this.
pub(super) fn without_links(errno: &str) -> Faults {
    use rustix::io::Errno;
    let errno = match errno {
        "EPERM" => Errno::PERM,
        "ENOSYS" => Errno::NOSYS,
        "EOPNOTSUPP" => Errno::OPNOTSUPP,
        "EINVAL" => Errno::INVAL,
        "EMLINK" => Errno::MLINK,
        "EXDEV" => Errno::XDEV,
        _ => panic!("{errno}"),
    };
    Faults {
        renames: Renames::WithoutFlags,
        links: Links::Fail(errno.raw_os_error()),
        ..Faults::default()
    }
}

#[test]
fn a_weaker_promise_is_said_once_and_not_to_those_who_want_errors_alone() {
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let Some(mounted) = Mounted::over(scratch.path(), without_links("EPERM")) else {
        return;
    };
    let trees = onto(&mounted.path());
    some_files(&trees);
    trees.succeeds(&[]);
    let run = trees.run_aloud(&["--overwrite-policy=always"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, NAMES));
    let run = trees.run_aloud(&["--json"]);
    let events = run.stdout.lines();
    let events = events.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let remarks: Vec<_> = events.filter(|event| event["event"] == "remark").collect();
    let [remark] = &remarks[..] else {
        panic!("{run:?}");
    };
    assert_eq!(remark["path"], ".");
    let message = remark["message"].as_str().unwrap();
    assert_eq!(NAMES, format!("zc-dircopy: .: {message}\n"));
}

#[test]
fn without_rename_noreplace_and_hard_links_a_name_that_is_taken_stays() {
    for errno in ["EPERM", "EOPNOTSUPP"] {
        let scratch = tempfile::tempdir_in(DISK).unwrap();
        let Some(mounted) = Mounted::over(scratch.path(), without_links(errno)) else {
            return;
        };
        fs::write(mounted.path().join("taken"), "theirs").unwrap();
        symlink("nowhere", mounted.path().join("dangling")).unwrap();
        let directory = fs::File::open(mounted.path()).unwrap();
        let mut place = AtomicFile::new(&directory).unwrap();
        for name in [c"taken", c"dangling"] {
            let error = place
                .try_commit(name, Replace::No, Durability::Synced)
                .unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
        }
        let free = place.try_commit(c"free", Replace::No, Durability::Synced);
        assert_eq!(free.unwrap(), Exclusivity::Checked);
        drop(place);
        assert_eq!(fs::read(scratch.path().join("taken")).unwrap(), b"theirs");
        assert!(scratch.path().join("dangling").is_symlink());
        hides_nothing(scratch.path());
    }
}

#[test]
fn a_name_is_given_by_a_link_where_renames_have_no_flags() {
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let faults = Faults {
        renames: Renames::WithoutFlags,
        ..Faults::default()
    };
    let Some(mounted) = Mounted::over(scratch.path(), faults) else {
        return;
    };
    is_kept_over_runs(&onto(&mounted.path()), &[]);
}

/// exFAT has neither. What the driver makes instead goes.
#[test]
fn links_and_special_files_are_errors_on_exfat_and_leave_nothing_behind() {
    let Some(exfat) = FileSystem::exfat() else {
        return;
    };
    let trees = onto(&exfat.path());
    trees.put("d/file", "copied");
    symlink("file", trees.original("d/link")).unwrap();
    mkfifo(&trees.original("d/fifo"));
    for _ in 0..2 {
        let run = trees.run(&[]);
        run.failed_naming(&[
            &["d/link: cannot make its copy"],
            &["d/fifo: cannot make its copy"],
        ]);
        trees.sums().lists(&["d/file"]).holds_in(&trees.copy());
        hides_nothing(&trees.copy());
    }
}

/// exFAT is where the last resort is a plain rename.
#[test]
fn killed_at_any_call_that_gives_a_name_on_exfat_nothing_is_half_done() {
    if !has_program("strace") {
        return;
    }
    for call in ["renameat", "write", "unlinkat"] {
        for nth in 1.. {
            let Some(exfat) = FileSystem::exfat() else {
                return;
            };
            let trees = onto(&exfat.path());
            trees.put("a", "first").put("d/b", "second").put("e", "");
            trees.put_copy("a", "it was another one before");
            let kills = format!("{call}:signal=KILL:when={nth}");
            let traced = meddled(&trees.command(&[]), call, &kills);
            if traced.run.status == 0 {
                assert!(nth > 1, "{call} is not made");
                break;
            }
            assert_eq!(traced.run.status, 128 + 9, "{traced:?}");
            let what = format!("killed at {call} {nth}");
            for sums in Sums::all_in(&trees.copy()) {
                sums.holds_in(&trees.copy());
            }
            for (name, bytes) in [("d/b", "second"), ("e", "")] {
                if let Ok(found) = fs::read_to_string(trees.copied(name)) {
                    assert_eq!(found, bytes, "{what}: {name}");
                }
            }
            // What has its name by now is not read again, so that its digest is the journal's.
            trees.succeeds(&["--no-hash-skipped"]);
            let sums = trees.sums();
            sums.lists(&["a", "d/b", "e"]).holds_in(&trees.copy());
            trees.holds("a", "first");
            assert_eq!(
                hidden_names(&trees.copy()),
                [""; 0].map(PathBuf::from),
                "{what}"
            );
        }
    }
}

/// Files with owners, modes and extended attributes that only a Linux disk has.
fn files_with_attributes(trees: &Trees) {
    use std::os::unix::fs::chown;
    trees
        .put("d/program", "x")
        .put("d/secret", "y")
        .put("z", "z");
    let mode = |name, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(trees.original(name), mode).unwrap();
    };
    for name in ["d", "d/program", "d/secret"] {
        chown(trees.original(name), Some(1000), Some(1000)).unwrap();
    }
    mode("d/program", 0o4755);
    mode("d/secret", 0o600);
    mode("d", 0o750);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(trees.original("z"), "user.note", b"note", flags).unwrap();
}

/// `cp -a` and rsync complain of each file there, on every card.
#[test]
fn attributes_that_exfat_cannot_keep_are_reported_once_and_fail_nothing() {
    let Some(exfat) = FileSystem::exfat() else {
        return;
    };
    let trees = onto(&exfat.path());
    files_with_attributes(&trees);
    let owners = "zc-dircopy: .: the file system does not keep all owners\n";
    let xattrs = "zc-dircopy: .: the file system does not keep all extended attributes\n";
    let run = trees.run_aloud(&[]);
    let said = [xattrs, MODES, owners, NAMES];
    assert_eq!((run.status, &said_by(&run)[..]), (0, &said[..]));
    // Directories are given theirs again.
    let run = trees.run_aloud(&[]);
    let said = [MODES, owners, NAMES];
    assert_eq!((run.status, &said_by(&run)[..]), (0, &said[..]));
    trees.succeeds(&["--overwrite-policy=always"]);
    trees.holds("d/secret", "y");
}

/// Without its option `permissions`, the driver says that it has done what it has not.
#[test]
fn owners_and_modes_that_ntfs_ignores_are_told_of() {
    let Some(ntfs) = FileSystem::ntfs(NtfsNames::CaseSensitive) else {
        return;
    };
    let trees = onto(&ntfs.path());
    files_with_attributes(&trees);
    let owners = "zc-dircopy: .: the file system does not keep all owners\n";
    let run = trees.run_aloud(&[]);
    assert_eq!((run.status, &said_by(&run)[..]), (0, &[MODES, owners][..]));
}

#[test]
fn ext4_in_user_space_keeps_what_files_have() {
    let Some(ext4) = FileSystem::fuse2fs() else {
        return;
    };
    let trees = onto(&ext4.path());
    files_with_attributes(&trees);
    let run = trees.run_aloud(&[]);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    for name in ["d", "d/program", "d/secret", "z"] {
        let kept = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            let xattrs = facts::xattrs(path);
            (found.uid(), found.gid(), found.mode(), xattrs)
        };
        assert_eq!(
            kept(&trees.copied(name)),
            kept(&trees.original(name)),
            "{name}"
        );
    }
}

/// The calls say that links are not to be followed, but sshfs passes on a path, which the server
/// follows.
#[test]
fn links_on_sshfs_change_nothing_that_they_lead_to() {
    let Some(sshfs) = FileSystem::sshfs() else {
        return;
    };
    links_change_nothing_that_they_lead_to(&sshfs.path());
}

#[test]
fn where_attributes_follow_links_these_change_nothing_that_they_lead_to() {
    let scratch = tempfile::tempdir_in(DISK).unwrap();
    let faults = Faults {
        symlinks: Symlinks::Followed,
        ..Faults::default()
    };
    if let Some(mounted) = Mounted::over(scratch.path(), faults) {
        links_change_nothing_that_they_lead_to(&mounted.path());
    }
}

fn links_change_nothing_that_they_lead_to(file_system: &Path) {
    let trees = onto(file_system);
    trees.put("file", "copied");
    put(&trees.path().join("outside"), "somebody else's");
    symlink("file", trees.original("to the file")).unwrap();
    symlink("nowhere", trees.original("dangling")).unwrap();
    symlink(trees.path().join("outside"), trees.original("out")).unwrap();
    for name in ["to the file", "dangling", "out"] {
        let link = trees.original(name);
        std::os::unix::fs::lchown(&link, Some(1000), Some(1000)).unwrap();
        let touch = Command::new("touch")
            .args(["-h", "-d", "2010-01-01 00:00:01"])
            .arg(link)
            .status();
        assert!(touch.unwrap().success());
    }
    let fact = |path: &Path| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.mtime(), found.ctime_nsec())
    };
    let before = fact(&trees.path().join("outside"));
    for copied in [1, 0, 0] {
        let run = trees.run_aloud(&["--json"]);
        let remark = "zc-dircopy: .: the file system passes attributes of symbolic links on to the files that these lead to: \
                      owners and times of symbolic links are not kept\n";
        let said = if copied == 1 { remark } else { "" };
        assert_eq!((run.status, run.stderr.as_str()), (0, said));
        assert_eq!(counts(&run, &["copied", "failed"]), [copied, 0]);
        assert_eq!(fact(&trees.path().join("outside")), before);
        hides_nothing(&trees.copy());
    }
    let mtime = |path| fs::metadata(path).unwrap().mtime();
    assert_eq!(mtime(trees.copied("file")), mtime(trees.original("file")));
    assert!(trees.copied("dangling").is_symlink());
}
