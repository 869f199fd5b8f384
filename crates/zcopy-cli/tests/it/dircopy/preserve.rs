//! Attributes that a copy does not take from its original.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};

use super::*;
use crate::mounts::Fs;
use crate::skip::{is_root, skip};
use file_systems::FileSystem;
use kept::{access_list, chmod, set_xattr};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// `ping`'s capability: version 2, effective, `CAP_NET_RAW`.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Type and permissions, in octal digits.
fn mode(path: &Path) -> String {
    format!("{:o}", fs::symlink_metadata(path).unwrap().mode())
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.uid(), metadata.gid())
}

fn modified(path: &Path) -> (i64, i64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

/// All that a directory has besides its entries and times.
type State = (String, (u32, u32), BTreeMap<CString, Vec<u8>>);

fn state(path: &Path) -> State {
    (mode(path), owner(path), facts::xattrs(path))
}

fn has_access_lists(directory: &Path) -> bool {
    let flags = rustix::fs::XattrFlags::empty();
    let probe = directory.join("probe");
    fs::write(&probe, "").unwrap();
    let can = rustix::fs::lsetxattr(&probe, ACCESS, &access_list(4), flags).is_ok();
    fs::remove_file(probe).unwrap();
    if !can {
        skip("the file system has no access lists");
    }
    can
}

/// Runs it under a mask.
fn run_with_mask(trees: &Trees, mask: &str, options: &[&str]) -> Run {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask \"$0\"; exec \"$@\"", mask]);
    let command = trees.command(options);
    run(shell.arg(command.get_program()).args(command.get_args()))
}

/// A source whose directories `old` and `new` have everything that a directory can have, and a
/// destination with an `old` and a root of their own.
fn directories_with_attributes() -> Trees {
    let trees = Trees::new();
    trees.put("old/file", "x").put("new/file", "y");
    fs::create_dir_all(trees.copied("old")).unwrap();
    for directory in ["old", "new", ""] {
        let original = trees.original(directory);
        chown(&original, Some(1), Some(2)).unwrap();
        chmod(&original, 0o2775);
        set_xattr(&original, "user.name", b"original");
        set_xattr(&original, "user.other", b"original");
    }
    for directory in ["old", ""] {
        let copy = trees.copied(directory);
        chown(&copy, Some(3), Some(4)).unwrap();
        chmod(&copy, 0o1750);
        set_xattr(&copy, "user.name", b"copy");
        set_xattr(&copy, "user.more", b"copy");
    }
    trees
}

#[test]
fn never_leaves_owner_mode_and_attributes_of_directories_that_exist() {
    if !is_root() {
        return;
    }
    let trees = directories_with_attributes();
    dated(&trees.original("old"), 5);
    if has_access_lists(trees.path()) {
        for name in [ACCESS, DEFAULT] {
            set_xattr(&trees.copied("old"), name, &access_list(6));
            set_xattr(&trees.original(""), name, &access_list(4));
        }
    }
    let before = ["old", ""].map(|directory| state(&trees.copied(directory)));
    trees.succeeds(&["--overwrite-policy=never"]);
    let after = ["old", ""].map(|directory| state(&trees.copied(directory)));
    assert_eq!(after, before);
    let times = [trees.copied("old"), trees.original("old")].map(|path| modified(&path));
    assert_eq!(times[0], times[1], "new entries do not make it look newer");
    trees.holds("old/file", "x").holds("new/file", "y");
    let [new, original] =
        [trees.copied("new"), trees.original("new")].map(|path| (state(&path), modified(&path)));
    assert_eq!(new, original, "a new directory has its original's");
    // Another policy gives them to all.
    trees.succeeds(&[]).are_alike();
}

#[test]
fn a_directory_that_was_opened_up_to_be_filled_gets_its_mode_back() {
    for options in [&["--overwrite-policy=never"], &["--no-perms"]] {
        for before in [0o000, 0o500, 0o1477] {
            let trees = Trees::new();
            trees.put("a/b/file", "x");
            fs::create_dir_all(trees.copied("a/b")).unwrap();
            for directory in ["a/b", "a", ""] {
                chmod(&trees.copied(directory), before);
            }
            trees.succeeds(options);
            for directory in ["", "a", "a/b"] {
                let copy = trees.copied(directory);
                assert_eq!(mode(&copy), format!("{:o}", 0o040_000 | before));
                chmod(&copy, 0o700);
            }
            trees.holds("a/b/file", "x");
        }
    }
}

/// A source with a program, a directory, a link and a FIFO, all of user 1 and group 2.
fn somebody_elses() -> Trees {
    let trees = Trees::new();
    trees.put("a/program", "x").put("a/plain", "y");
    symlink("program", trees.original("a/link")).unwrap();
    mkfifo(&trees.original("a/fifo"));
    for name in ["a/program", "a/plain", "a/link", "a/fifo", "a", ""] {
        lchown(trees.original(name), Some(1), Some(2)).unwrap();
    }
    chmod(&trees.original("a/program"), 0o6755);
    chmod(&trees.original("a"), 0o2770);
    trees
}

#[test]
fn no_owner_leaves_owners_and_drops_what_goes_with_them() {
    if !is_root() {
        return;
    }
    let trees = somebody_elses();
    set_xattr(
        &trees.original("a/plain"),
        "security.capability",
        &CAPABILITY,
    );
    set_xattr(&trees.original("a/plain"), "user.name", b"kept");
    fs::create_dir_all(trees.copied("a")).unwrap();
    chown(trees.copied("a"), Some(5), Some(6)).unwrap();
    trees.succeeds(&["--no-owner"]);
    for name in ["a/program", "a/plain", "a/link", "a/fifo", ""] {
        assert_eq!(owner(&trees.copied(name)), (0, 0), "{name}");
    }
    assert_eq!(owner(&trees.copied("a")), (5, 6), "it exists");
    assert_eq!(mode(&trees.copied("a/program")), "100755");
    assert_eq!(mode(&trees.copied("a")), "40770");
    let kept = (CString::new("user.name").unwrap(), b"kept".to_vec());
    let found = facts::xattrs(&trees.copied("a/plain"));
    assert_eq!(found, BTreeMap::from([kept]));
    for name in ["a/program", "a/link", "a/fifo", "a"] {
        let [copy, original] = [trees.copied(name), trees.original(name)].map(|p| modified(&p));
        assert_eq!(copy, original, "{name}");
    }
}

#[test]
fn no_owner_keeps_the_set_id_bits_of_what_has_its_owner_anyway() {
    let trees = Trees::new();
    chmod(trees.put("file", "x").original("file").as_path(), 0o4755);
    trees.succeeds(&["--no-owner"]).are_alike();
}

#[test]
fn no_perms_gives_what_is_created_the_mode_that_the_mask_leaves() {
    if !is_root() {
        return;
    }
    let trees = somebody_elses();
    chmod(&trees.original("a/plain"), 0o400);
    for (mask, expected) in [
        ("027", ["100640", "100640", "10640", "40750", "40750"]),
        ("0", ["100666", "100666", "10666", "40777", "40777"]),
        ("777", ["100000", "100000", "10000", "40000", "40000"]),
    ] {
        run_with_mask(&trees, mask, &["--no-perms"]).is_quiet();
        let names = ["a/program", "a/plain", "a/fifo", "a", ""];
        let found = names.map(|name| mode(&trees.copied(name)));
        assert_eq!(found, expected, "{mask}");
        assert_eq!(owner(&trees.copied("a/plain")), (1, 2));
        fs::remove_dir_all(trees.copy()).unwrap();
    }
}

#[test]
fn no_perms_leaves_the_modes_of_what_exists_and_of_what_is_replaced() {
    let trees = Trees::new();
    trees
        .put("a/file", "new and longer")
        .put("a/program", "new");
    chmod(&trees.original("a/file"), 0o777);
    chmod(&trees.original("a"), 0o777);
    trees
        .put_copy("a/file", "old")
        .put_copy("a/program", "older");
    mkfifo(&trees.original("a/fifo"));
    mkfifo(&trees.copied("a/fifo"));
    chmod(&trees.copied("a/fifo"), 0o620);
    chmod(&trees.copied("a/file"), 0o604);
    chmod(&trees.copied("a/program"), 0o4711);
    chmod(&trees.copied("a"), 0o2711);
    chmod(&trees.copy(), 0o711);
    trees.succeeds(&["--no-perms", "--overwrite-policy=always"]);
    trees.holds("a/file", "new and longer");
    assert_eq!(mode(&trees.copied("a/file")), "100604");
    assert_eq!(mode(&trees.copied("a/fifo")), "10620");
    // Nobody has given these contents away.
    assert_eq!(mode(&trees.copied("a/program")), "100711");
    assert_eq!(mode(&trees.copied("a")), "42711");
    assert_eq!(mode(&trees.copy()), "40711");
}

/// The oracle is a file that the kernel creates in the same directory.
#[test]
fn no_perms_and_no_acls_have_copies_inherit_what_the_kernel_hands_down() {
    if !is_root() {
        return;
    }
    for fs in Fs::ALL {
        let Some(directory) = fs.dir() else { continue };
        for (list, mask) in [(Some(6), "077"), (Some(0), "022"), (None, "027")] {
            let trees = Trees::within(&directory);
            trees.put("a/file", "x").put("file", "y");
            mkfifo(&trees.original("a/fifo"));
            let copy = trees.copy();
            fs::create_dir(&copy).unwrap();
            chmod(&copy, 0o2755);
            if let Some(list) = list {
                set_xattr(&copy, DEFAULT, &access_list(list));
            }
            for name in ["a/file", "a", "file", ""] {
                set_xattr(&trees.original(name), ACCESS, &access_list(4));
            }
            run_with_mask(&trees, mask, &["--no-perms", "--no-owner"]).is_quiet();
            let script = "umask $0; cd \"$1\"; mkdir p; touch p/file; mkfifo p/fifo; touch p2";
            let mut shell = Command::new("sh");
            shell.args(["-ec", script, mask]).arg(&copy);
            assert!(shell.status().unwrap().success());
            for (name, plain) in [
                ("a", "p"),
                ("a/file", "p/file"),
                ("a/fifo", "p/fifo"),
                ("file", "p2"),
            ] {
                let [found, expected] = [name, plain].map(|name| state(&trees.copied(name)));
                assert_eq!(found, expected, "{name} on {fs:?} below {list:?}");
            }
        }
    }
}

/// There, files under construction have hidden names.
#[test]
fn no_perms_goes_by_the_mask_where_no_file_is_without_a_name() {
    let Some(bindfs) = FileSystem::bindfs() else {
        return;
    };
    let trees = Trees::within(&bindfs.path());
    trees.put("a/file", "x").put("a/old", "new and longer");
    trees.put_copy("a/old", "old");
    chmod(&trees.copied("a/old"), 0o606);
    run_with_mask(&trees, "026", &["--no-perms"]).is_quiet();
    assert_eq!(mode(&trees.copied("a/file")), "100640");
    assert_eq!(mode(&trees.copied("a/old")), "100606");
}

#[test]
fn each_manifest_is_written_where_no_mode_can_be_set() {
    for manifest in ["sha256sum", "bagit", "ascmhl"] {
        let Some(bindfs) = FileSystem::bindfs_with_one_mode() else {
            return;
        };
        let trees = Trees::new();
        trees.put("a/file", "x");
        let copy = bindfs.path().join("copy");
        let copies = |options: &[&str]| {
            let mut command = zc_dircopy();
            command.args(["-q", "--manifest", manifest]).args(options);
            run(command.arg(trees.source()).arg(&copy))
        };
        copies(&["--no-perms"]).is_quiet();
        assert_eq!(check(&copy, &["-q", "--strict"]).status, 0, "{manifest}");
        trees.put("a/other", "y");
        copies(&[]).is_quiet();
        assert_eq!(check(&copy, &["-q", "--strict"]).status, 0, "{manifest}");
    }
}

#[test]
fn no_acls_neither_copies_nor_removes_access_lists() {
    let trees = Trees::new();
    if !is_root() || !has_access_lists(trees.path()) {
        return;
    }
    trees.put("a/file", "x").put("a/plain", "y");
    fs::create_dir_all(trees.copied("a")).unwrap();
    set_xattr(&trees.original("a/file"), ACCESS, &access_list(4));
    set_xattr(&trees.original("a/file"), "user.name", b"kept");
    set_xattr(&trees.original("a"), DEFAULT, &access_list(4));
    set_xattr(&trees.copied("a"), ACCESS, &access_list(6));
    // The mode, which is kept, is the one of the list.
    chmod(&trees.original("a"), 0o660);
    let before = facts::xattrs(&trees.copied("a"));
    trees.succeeds(&["--no-acls"]);
    assert_eq!(facts::xattrs(&trees.copied("a")), before);
    let kept = (CString::new("user.name").unwrap(), b"kept".to_vec());
    let found = facts::xattrs(&trees.copied("a/file"));
    assert_eq!(found, BTreeMap::from([kept]));
    // Its group may do nothing; the group's bits in the original's mode are those of the mask.
    assert_eq!(mode(&trees.original("a/file")), "100660");
    assert_eq!(mode(&trees.copied("a/file")), "100600");
}

#[test]
fn a_replaced_file_does_not_open_to_its_group_what_its_access_list_kept_from_it() {
    let trees = Trees::new();
    if !has_access_lists(trees.path()) {
        return;
    }
    trees.put("file", "new and longer").put_copy("file", "old");
    set_xattr(&trees.copied("file"), ACCESS, &access_list(6));
    assert_eq!(mode(&trees.copied("file")), "100660");
    trees.succeeds(&["--no-perms"]);
    assert_eq!(mode(&trees.copied("file")), "100600");
}

#[test]
fn no_xattrs_neither_copies_nor_removes_extended_attributes_but_access_lists() {
    if !is_root() {
        return;
    }
    let trees = Trees::new();
    trees.put("a/file", "x");
    let file = trees.original("a/file");
    set_xattr(&file, "user.name", b"x");
    set_xattr(&file, "trusted.name", b"x");
    set_xattr(&file, "security.capability", &CAPABILITY);
    symlink("nowhere", trees.original("link")).unwrap();
    set_xattr(&trees.original("link"), "trusted.name", b"of a link");
    set_xattr(&trees.original("a"), "user.name", b"x");
    fs::create_dir_all(trees.copied("a")).unwrap();
    set_xattr(&trees.copied("a"), "user.more", b"copy");
    let before = facts::xattrs(&trees.copied("a"));
    let lists = has_access_lists(trees.path());
    if lists {
        set_xattr(&file, ACCESS, &access_list(4));
    }
    trees.succeeds(&["--no-xattrs"]);
    assert_eq!(facts::xattrs(&trees.copied("a")), before);
    assert_eq!(facts::xattrs(&trees.copied("link")), BTreeMap::new());
    let found = facts::xattrs(&trees.copied("a/file"));
    let list = lists.then(|| (CString::new(ACCESS).unwrap(), access_list(4)));
    assert_eq!(found, list.into_iter().collect());
}

#[test]
fn without_any_attribute_only_contents_and_times_are_kept() {
    if !is_root() {
        return;
    }
    let trees = somebody_elses();
    set_xattr(&trees.original("a/plain"), "user.name", b"x");
    dated(&trees.original("a/plain"), 9);
    let none = ["--no-owner", "--no-perms", "--no-xattrs", "--no-acls"];
    for _ in 0..2 {
        run_with_mask(&trees, "022", &none).is_quiet();
        let found = state(&trees.copied("a/plain"));
        assert_eq!(found, ("100644".to_owned(), (0, 0), BTreeMap::new()));
        assert_eq!(
            modified(&trees.copied("a/plain")),
            modified(&trees.original("a/plain"))
        );
    }
}
