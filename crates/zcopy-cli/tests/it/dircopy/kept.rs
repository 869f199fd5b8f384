//! What a copy keeps of its original besides the contents.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::fs::{MetadataExt as _, chown};

use rustix::fs::XattrFlags;

use super::*;
use crate::mounts::Fs;
use crate::skip::{is_root, skip};

pub(super) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

pub(super) fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

#[test]
fn modes_are_kept_whatever_the_mask() {
    let trees = Trees::new();
    let modes = [
        0o000, 0o400, 0o600, 0o644, 0o666, 0o711, 0o755, 0o777, 0o1644, 0o2755, 0o4755, 0o6711,
    ];
    for mode in modes {
        let file = format!("file {mode:o}");
        chmod(trees.put(&file, "x").original(&file).as_path(), mode);
        let directory = trees.original(format!("directory {mode:o}"));
        put(&directory.join("file"), "in it");
        chmod(&directory, mode);
    }
    chmod(&trees.source(), 0o2710);
    let quoted = |path: PathBuf| path.to_str().unwrap().to_owned();
    let script = "umask 077; exec \"$0\" -q \"$1\" \"$2\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_zc-dircopy")]);
    run(shell.args([quoted(trees.source()), quoted(trees.copy())])).is_quiet();
    if is_root() {
        trees.are_alike();
        // Directories that nobody may write to are filled again.
        trees
            .put("directory 0/later", "x")
            .succeeds(&[])
            .are_alike();
    }
}

#[test]
fn times_are_kept_to_the_nanosecond() {
    let trees = Trees::new();
    trees.put("a/b/file", "x").put("a/other", "y");
    std::os::unix::fs::symlink("nowhere", trees.original("a/link")).unwrap();
    for (path, before) in [
        ("a/b/file", 1),
        ("a/other", 2),
        ("a/b", 3),
        ("a", 4),
        ("", 5),
    ] {
        dated(&trees.original(path), before);
    }
    let link = trees.original("a/link");
    let touch = ["-h", "-d", "2001-02-03 04:05:06.789012345"];
    assert!(
        Command::new("touch")
            .args(touch)
            .arg(&link)
            .status()
            .unwrap()
            .success()
    );
    trees.succeeds(&[]).are_alike();
}

#[test]
fn times_before_1970_and_far_in_the_future_are_kept() {
    let trees = Trees::new();
    for (name, date) in [
        ("old", "1931-01-01 00:00:00.5"),
        ("new", "2400-01-01"),
        ("zero", "@0"),
    ] {
        trees.put(name, "x");
        let path = trees.original(name);
        assert!(
            Command::new("touch")
                .args(["-d", date])
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    }
    trees.succeeds(&[]).are_alike();
    let before = fs::metadata(trees.copied("old")).unwrap();
    trees.succeeds(&[]);
    let after = fs::metadata(trees.copied("old")).unwrap();
    assert_eq!(before.ino(), after.ino(), "it is not copied again");
}

#[test]
fn owners_are_kept() {
    if !is_root() {
        return;
    }
    let trees = Trees::new();
    trees.put("a/file", "x").put("a/program", "y");
    std::os::unix::fs::symlink("file", trees.original("a/link")).unwrap();
    chown(trees.original("a/file"), Some(1234), Some(4321)).unwrap();
    chown(trees.original("a/program"), Some(65534), Some(0)).unwrap();
    // A change of owner would take this away.
    chmod(&trees.original("a/program"), 0o6755);
    chown(trees.original("a"), Some(7), Some(8)).unwrap();
    chown(trees.source(), Some(5), Some(6)).unwrap();
    std::os::unix::fs::lchown(trees.original("a/link"), Some(9), Some(10)).unwrap();
    trees.succeeds(&[]).are_alike();
}

#[test]
fn extended_attributes_are_kept() {
    let trees = Trees::new();
    trees.put("a/file", "x").put("a/plain", "y");
    set_xattr(&trees.original("a/file"), "user.comment", b"of a file");
    set_xattr(&trees.original("a/file"), "user.empty", b"");
    set_xattr(&trees.original("a/file"), "user.long", &[7; 3000]);
    set_xattr(&trees.original("a"), "user.comment", b"of a directory");
    set_xattr(&trees.source(), "user.comment", b"of the root");
    if is_root() {
        set_xattr(&trees.original("a/file"), "trusted.secret", b"root's");
        // What ping has: version 2, effective, CAP_NET_RAW.
        let capability = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        set_xattr(
            &trees.original("a/file"),
            "security.capability",
            &capability,
        );
    }
    trees.succeeds(&[]).are_alike();
    let file = facts::xattrs(&trees.copied("a/file"));
    assert!(file.len() >= 3, "{file:?}");
}

/// ext4 has room for 4 KiB of them.
#[test]
fn attributes_that_do_not_fit_are_told_and_counted() {
    let (Some(source), Some(destination)) = (Fs::Xfs.dir(), Fs::Ext4.dir()) else {
        return;
    };
    let trees = Trees::within(&source);
    let copy = Trees::within(&destination).copy();
    trees.put("file", "x");
    for name in ["user.a", "user.b", "user.c"] {
        set_xattr(&trees.original("file"), name, &vec![7; 30_000]);
    }
    set_xattr(&trees.original("file"), "user.short", b"kept");
    let mut command = zc_dircopy();
    let run = run(command.arg("-q").arg(trees.source()).arg(&copy));
    run.failed_naming(&[&["file", "user.a and 2 more"]]);
    let found = facts::xattrs(&copy.join("file"));
    let short = CString::new("user.short").unwrap();
    assert_eq!(found, BTreeMap::from([(short, b"kept".to_vec())]));
}

#[test]
fn attributes_of_links_are_kept() {
    if !is_root() {
        return;
    }
    let trees = Trees::new();
    let link = trees.original("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    set_xattr(&link, "trusted.secret", b"of a link");
    trees.succeeds(&[]);
    assert_eq!(facts::xattrs(&trees.copied("link")), facts::xattrs(&link));
}

/// The list of a file that user 1234 may read and the group may not, as the kernel takes it.
pub(super) fn access_list(tag_user_permissions: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, nobody),
        (0x02, tag_user_permissions, 1234),
        (0x04, 0, nobody),
        (0x10, 6, nobody),
        (0x20, 0, nobody),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn access_lists_are_kept() {
    let trees = Trees::new();
    trees.put("a/file", "x").put("a/plain", "y");
    let list = access_list(4);
    let flags = XattrFlags::empty();
    let file = trees.original("a/file");
    if rustix::fs::lsetxattr(&file, "system.posix_acl_access", &list, flags).is_err() {
        skip("the file system has no access lists");
        return;
    }
    set_xattr(
        &trees.original("a"),
        "system.posix_acl_default",
        &access_list(6),
    );
    // What is made in such a directory inherits a list that its original has not.
    trees.put("a/inherits", "z");
    let plain = trees.original("a/without");
    put(&trees.original("without"), "w");
    fs::rename(trees.original("without"), plain).unwrap();
    trees.succeeds(&[]).are_alike();
    let copy = facts::xattrs(&trees.copied("a/file"));
    let name = CString::new("system.posix_acl_access").unwrap();
    assert_eq!(copy, BTreeMap::from([(name, list)]));
}

/// xfs has two names for each.
#[test]
fn access_lists_go_from_any_file_system_to_any() {
    for from in Fs::ALL {
        for to in Fs::ALL {
            let (Some(source), Some(destination)) = (from.dir(), to.dir()) else {
                continue;
            };
            let from = Trees::within(&source);
            let to_trees = Trees::within(&destination);
            from.put("a/file", "x").put("a/plain", "y");
            let list = access_list(4);
            set_xattr(&from.original("a/file"), "system.posix_acl_access", &list);
            // What its parent hands down goes.
            fs::create_dir(to_trees.copy()).unwrap();
            set_xattr(
                &to_trees.copy(),
                "system.posix_acl_default",
                &access_list(6),
            );
            let mut command = zc_dircopy();
            run(command.arg("-q").arg(from.source()).arg(to_trees.copy())).is_quiet();
            for (name, expected) in [
                ("a/file", Some(&list)),
                ("a/plain", None),
                ("a", None),
                ("", None),
            ] {
                let mut found = facts::xattrs(&to_trees.copied(name));
                if to == Fs::Xfs {
                    found.retain(|name, _| !name.to_bytes().starts_with(b"trusted.SGI_ACL_"));
                }
                let acl = CString::new("system.posix_acl_access").unwrap();
                let expected = expected.map(|list| (acl, list.clone()));
                assert_eq!(found, expected.into_iter().collect(), "{name} on {to:?}");
            }
        }
    }
}

#[test]
fn access_lists_that_the_destination_hands_down_are_not_kept() {
    let trees = Trees::new();
    for directory in ["", "there/", "new/", "new/below/"] {
        trees.put(format!("{directory}file"), "x");
        for name in ["replaced", "plain"] {
            trees.put(format!("{directory}{name}"), "old and new");
        }
    }
    trees
        .put_copy("replaced", "old")
        .put_copy("there/replaced", "old");
    let list = access_list(6);
    for path in [trees.copy(), trees.copied("there")] {
        let flags = XattrFlags::empty();
        if rustix::fs::lsetxattr(&path, "system.posix_acl_default", &list, flags).is_err() {
            skip("the file system has no access lists");
            return;
        }
    }
    trees.succeeds(&[]).are_alike();
    for path in facts::files_of(&trees.source()) {
        assert_eq!(
            facts::xattrs(&trees.copied(&path)),
            BTreeMap::new(),
            "{path:?}"
        );
    }
}

#[test]
fn attributes_of_what_was_there_do_not_stay() {
    let trees = Trees::new();
    trees.put("file", "new and longer").put_copy("file", "old");
    set_xattr(&trees.copied("file"), "user.old", b"x");
    fs::create_dir(trees.original("directory")).unwrap();
    fs::create_dir(trees.copied("directory")).unwrap();
    set_xattr(&trees.copied("directory"), "user.old", b"x");
    chmod(&trees.copied("directory"), 0o700);
    trees.succeeds(&[]).are_alike();
}

#[test]
fn every_file_system_keeps_what_another_has() {
    for from in Fs::ALL {
        for to in Fs::ALL {
            let (Some(from), Some(to)) = (from.dir(), to.dir()) else {
                continue;
            };
            let from = Trees::within(&from);
            let to = Trees::within(&to);
            from.put("a/b/file", crate::files::pattern(200_001))
                .put("a/empty", "");
            std::os::unix::fs::symlink("b/file", from.original("a/link")).unwrap();
            fs::hard_link(from.original("a/b/file"), from.original("hard")).unwrap();
            chmod(&from.original("a/empty"), 0o640);
            dated(&from.original("a/b/file"), 77);
            dated(&from.original("a"), 99);
            for _ in 0..2 {
                let mut command = zc_dircopy();
                run(command.arg("-q").arg(from.source()).arg(to.copy())).is_quiet();
                facts::assert_same(&from.source(), &to.copy());
            }
        }
    }
}
