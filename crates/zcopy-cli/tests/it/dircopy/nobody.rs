//! Copies by a user without privileges.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

use super::*;
use crate::skip::{is_root, skip};

/// Everywhere.
const NOBODY: u32 = 65534;

/// The same command by somebody without privileges; none, said aloud, if that cannot be had.
fn by_nobody(mut command: Command) -> Option<Run> {
    if !is_root() {
        return None;
    }
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    match command.stdin(Stdio::null()).output() {
        Ok(output) => Some(output.into()),
        Err(error) => {
            skip(&format!("nobody may not run the tool: {error}"));
            None
        }
    }
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything belongs to nobody, but for what is made later.
fn given_away(trees: &Trees) {
    let given = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(trees.source())
        .status();
    assert!(given.unwrap().success());
}

#[test]
fn what_may_not_be_read_is_reported_and_the_rest_copied() {
    let trees = Trees::new();
    trees
        .put("a", "before")
        .put("d/readable", "x")
        .put("z", "behind");
    trees
        .put("d/secret", "root's")
        .put("locked/file", "root's")
        .put("listed/file", "not to be searched");
    chmod(&trees.original("d/secret"), 0o600);
    chmod(&trees.original("locked"), 0o700);
    chmod(&trees.original("listed"), 0o744);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.failed_naming(&[
        &["d/secret", "Permission denied"],
        &["listed/file", "Permission denied"],
        &["locked", "Permission denied"],
    ]);
    trees
        .sums()
        .lists(&["a", "d/readable", "z"])
        .holds_in(&trees.copy());
    let owner = fs::metadata(trees.copied("a")).unwrap().uid();
    assert_eq!(owner, NOBODY, "nobody may give files away");
}

#[test]
fn a_users_own_tree_is_copied_with_all_it_has() {
    let trees = Trees::new();
    trees
        .put("a/file", "x")
        .put("a/private", "y")
        .put("program", "z");
    std::os::unix::fs::symlink("a", trees.original("link")).unwrap();
    fs::hard_link(trees.original("program"), trees.original("a/hard")).unwrap();
    given_away(&trees);
    chmod(&trees.original("a/private"), 0o400);
    chmod(&trees.original("program"), 0o4755);
    // What its owner may not write to is filled all the same.
    chmod(&trees.original("a"), 0o555);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.is_quiet();
    trees.are_alike();
    let again = by_nobody(trees.command(&["--overwrite-policy=always"]));
    again.unwrap().is_quiet();
    trees.are_alike();
}

#[test]
fn what_its_owner_may_not_write_to_keeps_its_attributes() {
    let trees = Trees::new();
    trees.put("file", "x");
    let (name, flags) = ("user.note", rustix::fs::XattrFlags::empty());
    rustix::fs::setxattr(trees.original("file"), name, b"kept", flags).unwrap();
    given_away(&trees);
    chmod(&trees.original("file"), 0o444);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.is_quiet();
    trees.are_alike();
}

/// Who runs such a program becomes its owner: that must not be somebody who never gave the right.
#[test]
fn privileges_of_others_are_not_passed_on() {
    let trees = Trees::new();
    trees.put("program", "x");
    chmod(&trees.original("program"), 0o6755);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.is_quiet();
    let mode = fs::metadata(trees.copied("program")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o755);
    trees.sums().lists(&["program"]).holds_in(&trees.copy());
}

#[test]
fn a_destination_that_may_not_be_written_to_is_reported() {
    let trees = Trees::new();
    trees.put("d/file", "x").put("z", "y");
    trees.put_copy("d/own", "root's");
    chmod(&trees.copied("d"), 0o755);
    chmod(&trees.copy(), 0o777);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.ended_with(1);
    assert!(run.stderr.contains("d/file"), "{run:?}");
    assert!(!trees.copied("d/file").exists());
    trees.sums().lists(&["z"]).holds_in(&trees.copy());
}

#[test]
fn a_destination_that_may_not_be_made_is_reported() {
    let trees = Trees::new();
    trees.put("file", "x");
    chmod(trees.path(), 0o755);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.failed_naming(&[&["dst", "Permission denied"]]);
}

#[test]
fn a_skipped_file_that_may_not_be_read_is_reported() {
    let trees = Trees::new();
    trees.put("file", "x").put("z", "y");
    given_away(&trees);
    trees.put_copy("file", "x");
    chmod(&trees.copied("file"), 0o600);
    std::os::unix::fs::chown(trees.copy(), Some(NOBODY), Some(NOBODY)).unwrap();
    dated(&trees.original("file"), 10);
    dated(&trees.copied("file"), 10);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.failed_naming(&[&["file", "Permission denied"]]);
    trees.sums().lists(&["z"]).holds_in(&trees.copy());
    // Without a digest nobody needs to read it.
    by_nobody(trees.command(&["--no-hash-skipped"]))
        .unwrap()
        .is_quiet();
}

#[test]
fn a_manifest_that_may_not_be_read_is_not_called_damaged() {
    let trees = Trees::new();
    trees.put("a", "x").succeeds(&[]);
    let manifest = trees.sums().path;
    chmod(&manifest, 0o600);
    let amend = check_command(&trees.copy(), &["--forget-missing"]);
    for command in [trees.command(&[]), check_command(&trees.copy(), &[]), amend] {
        let Some(run) = by_nobody(command) else {
            return;
        };
        assert_eq!(run.status, 1, "{run:?}");
        assert!(run.stderr.contains("cannot be read"), "{run:?}");
        assert!(run.stderr.contains("Permission denied"), "{run:?}");
        assert!(!run.stderr.contains("damaged"), "{run:?}");
    }
}

#[test]
fn what_is_gone_is_moved_out_of_a_directory_that_its_owner_may_not_write_to() {
    let trees = Trees::new();
    trees.put("d/kept", "x").put("d/gone", "y");
    given_away(&trees);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.is_quiet();
    fs::remove_file(trees.original("d/gone")).unwrap();
    for directory in [trees.original("d"), trees.copied("d")] {
        chmod(&directory, 0o555);
    }
    let run = by_nobody(trees.command(&["--delete"])).unwrap();
    run.is_quiet();
    assert!(!trees.copied("d/gone").exists());
    assert_eq!(
        fs::metadata(trees.copied("d")).unwrap().mode() & 0o777,
        0o555
    );
    trees.check(&["--quiet"]).is_quiet();
}

/// The move of a directory changes its `..`, which takes the right to write to it.
#[test]
fn a_directory_that_its_owner_may_not_write_to_is_moved_with_its_mode() {
    let trees = Trees::new();
    trees.put("kept", "x").put("d/e/gone", "y");
    given_away(&trees);
    let Some(run) = by_nobody(trees.command(&[])) else {
        return;
    };
    run.is_quiet();
    fs::remove_dir_all(trees.original("d/e")).unwrap();
    let modes = [("d/e", 0o555), ("d", 0o555)];
    for (path, mode) in modes {
        chmod(&trees.copied(path), mode);
    }
    chmod(&trees.original("d"), 0o555);
    by_nobody(trees.command(&["--delete"])).unwrap().is_quiet();
    assert!(!trees.copied("d/e").exists());
    let folder = fs::read_dir(trees.copy()).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with("deleted.").then_some(name)
    });
    let moved = format!("{}/d/e", folder.unwrap());
    trees.holds(format!("{moved}/gone"), "y");
    for path in ["d", &moved] {
        let mode = fs::metadata(trees.copied(path)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o555, "{path}");
    }
    trees.check(&["--quiet"]).is_quiet();
}

/// It once verified nothing at all.
#[test]
fn a_strict_check_verifies_all_files_beside_a_directory_that_may_not_be_read() {
    let trees = Trees::new();
    trees.put("a", "before").put("locked/file", "root's");
    trees.put("z", "behind");
    trees.succeeds(&[]);
    trees.put_copy("unlisted", "");
    chmod(&trees.copied("locked"), 0o700);
    let options = ["--strict", "--no-summary"];
    let Some(run) = by_nobody(check_command(&trees.copy(), &options)) else {
        return;
    };
    let expected = "a: OK\nlocked/file: FAILED open or read\nz: OK\nunlisted: FAILED not listed\n";
    assert_eq!(run.stdout, expected);
    let is_told = |line: &str| line.contains("dst/locked: cannot look for files");
    assert_eq!(run.stderr.lines().filter(|line| is_told(line)).count(), 1);
    assert_eq!(run.status, 1);
}
