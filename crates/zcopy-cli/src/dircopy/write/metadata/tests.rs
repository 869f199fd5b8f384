use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::XattrFlags;

use super::*;
use crate::dircopy::test_support::{Mounted, NOBODY, as_nobody, mode, open, scratch, stat};
use crate::skip::is_root;

/// Preserves everything, so that nothing depends on what the copy replaces.
fn apply(source: impl AsFd, destination: impl AsFd, stat: &Stat) -> Result<(), Error> {
    let replaces = Replaces::Mode(Mode::empty());
    super::apply(source, destination, stat, Preserve::ALL, replaces)
}

fn apply_named(source: Named<'_>, destination: Named<'_>, stat: &Stat) -> Result<(), Error> {
    let replaces = Replaces::Mode(Mode::empty());
    super::apply_named(source, destination, stat, Preserve::ALL, replaces)
}

/// Times that differ in every part from those of anything made just now.
const TIMES: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 1_000_000_001,
        tv_nsec: 123_456_789,
    },
    last_modification: Timespec {
        tv_sec: 1_000_000_002,
        tv_nsec: 987_654_321,
    },
};

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn get(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; 100_000];
    let n = rustix::fs::lgetxattr(path, name, &mut *value)?;
    value.truncate(n);
    Ok(value)
}

fn date(path: &Path) {
    rustix::fs::utimensat(CWD, path, &TIMES, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Mode, owner and times.
fn looks(path: &Path) -> (u32, u32, u32, [i64; 4]) {
    let stat = stat(path);
    let Timestamps {
        last_access,
        last_modification,
    } = times(&stat);
    let times = [
        last_access.tv_sec,
        last_access.tv_nsec,
        last_modification.tv_sec,
        last_modification.tv_nsec,
    ];
    (stat.st_mode, stat.st_uid, stat.st_gid, times)
}

/// An access list: `u::rw-,u:1:NAMED,g::r--,m::rw-,o::---`, as the kernel keeps it.
fn list(named: u8) -> Vec<u8> {
    let entry = |tag: u8, permissions: u8, id: u32| {
        let mut entry = vec![tag, 0, permissions, 0];
        entry.extend(id.to_le_bytes());
        entry
    };
    let mut list = vec![2, 0, 0, 0];
    for (tag, permissions, id) in [
        (0x01, 6, u32::MAX),
        (0x02, named, 1),
        (0x04, 4, u32::MAX),
        (0x10, 6, u32::MAX),
        (0x20, 0, u32::MAX),
    ] {
        list.extend(entry(tag, permissions, id));
    }
    list
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

#[test]
fn a_file_keeps_owner_mode_attributes_lists_and_times() {
    if !is_root() {
        return;
    }
    let scratch = scratch();
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    let (source, destination) = (File::create(&from).unwrap(), File::create(&to).unwrap());
    std::os::unix::fs::chown(&from, Some(1), Some(2)).unwrap();
    let long = vec![b'x'; 3000];
    set(&from, "user.long", &long);
    set(&from, "user.empty", b"");
    set(&from, "trusted.odd\u{1}name", b"\0\xff");
    set(
        &from,
        "security.capability",
        &[1, 0, 0, 2, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    set(&from, ACCESS, &list(6));
    rustix::fs::chmod(&from, Mode::from_raw_mode(0o6460)).unwrap();
    date(&from);
    set(&to, "user.more", b"gone");

    apply(&source, &destination, &stat(&from)).unwrap();

    assert_eq!(looks(&to), looks(&from));
    assert_eq!(mode(&to), "6460");
    for name in [
        "user.long",
        "user.empty",
        "trusted.odd\u{1}name",
        "security.capability",
        ACCESS,
    ] {
        assert_eq!(get(&to, name), get(&from, name), "{name}");
        assert!(get(&to, name).is_ok(), "{name}");
    }
    assert_eq!(get(&to, "user.more"), Err(Errno::NODATA));
}

#[test]
fn a_list_that_the_directory_passes_on_is_not_kept() {
    let scratch = scratch();
    let parent = scratch.path().join("parent");
    fs::create_dir(&parent).unwrap();
    set(&parent, DEFAULT, &list(6));
    let from = scratch.path().join("from");
    for is_directory in [false, true] {
        let to = parent.join(if is_directory { "directory" } else { "file" });
        if is_directory {
            fs::remove_file(&from).unwrap();
            fs::create_dir(&from).unwrap();
            fs::create_dir(&to).unwrap();
            assert!(get(&to, DEFAULT).is_ok());
        } else {
            File::create(&from).unwrap();
            File::create(&to).unwrap();
        }
        assert!(get(&to, ACCESS).is_ok());
        rustix::fs::chmod(&from, Mode::from_raw_mode(0o640)).unwrap();
        apply(
            File::open(&from).unwrap(),
            File::open(&to).unwrap(),
            &stat(&from),
        )
        .unwrap();
        assert_eq!(get(&to, ACCESS), Err(Errno::NODATA));
        assert_eq!(get(&to, DEFAULT), Err(Errno::NODATA));
        assert_eq!(mode(&to), "640");
    }
}

#[test]
fn a_directory_keeps_its_sticky_bit_and_the_list_that_it_passes_on() {
    let scratch = scratch();
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    set(&from, DEFAULT, &list(4));
    rustix::fs::chmod(&from, Mode::from_raw_mode(0o3751)).unwrap();
    date(&from);
    let original = looks(&from);
    apply(open(&from), open(&to), &stat(&from)).unwrap();
    assert_eq!(looks(&to), original);
    assert_eq!(get(&to, DEFAULT), Ok(list(4)));
}

#[test]
fn a_link_and_a_fifo_keep_theirs_and_what_the_link_leads_to_is_left_alone() {
    if !is_root() {
        return;
    }
    let scratch = scratch();
    let path = |name| scratch.path().join(name);
    File::create(path("led to")).unwrap();
    date(&path("led to"));
    for name in ["link", "link copy"] {
        symlink("led to", path(name)).unwrap();
    }
    for name in ["fifo", "fifo copy"] {
        rustix::fs::mkfifoat(CWD, path(name), Mode::RUSR).unwrap();
    }
    rustix::fs::chmod(path("fifo"), Mode::from_raw_mode(0o4642)).unwrap();
    let before = looks(&path("led to"));
    let directory = open(scratch.path());
    for (from, to) in [(c"link", c"link copy"), (c"fifo", c"fifo copy")] {
        let [source, copy] = [from, to].map(|name| path(name.to_str().unwrap()));
        std::os::unix::fs::lchown(&source, Some(1), Some(2)).unwrap();
        if from == c"fifo" {
            rustix::fs::chmod(&source, Mode::from_raw_mode(0o4642)).unwrap();
        }
        set(&source, "trusted.name", b"value");
        date(&source);
        let [from, to] = [from, to].map(|name| Named {
            directory: directory.as_fd(),
            name,
        });
        apply_named(from, to, &stat(&source)).unwrap();
        assert_eq!(looks(&copy), looks(&source));
        assert_eq!(get(&copy, "trusted.name"), Ok(b"value".to_vec()));
    }
    assert_eq!(mode(&path("fifo copy")), "4642");
    assert_eq!(looks(&path("led to")), before);
    assert_eq!(get(&path("led to"), "trusted.name"), Err(Errno::NODATA));
}

#[test]
fn whoever_may_not_give_files_away_keeps_the_rest_but_no_foreign_powers() {
    let scratch = scratch();
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    File::create(&from).unwrap();
    set(&from, "user.name", b"value");
    rustix::fs::chmod(&from, Mode::from_raw_mode(0o7555)).unwrap();
    date(&from);
    let applied = as_nobody(|| apply_anew(&from, &to));
    let Some(applied) = applied else { return };
    applied.unwrap();
    let (original, copy) = (looks(&from), looks(&to));
    assert_eq!((copy.1, copy.2), (NOBODY, NOBODY));
    assert_eq!(mode(&to), "1555");
    assert_eq!(copy.3, original.3);
    assert_eq!(get(&to, "user.name"), Ok(b"value".to_vec()));
}

/// Makes the destination, and gives it what its original has.
fn apply_anew(from: &Path, to: &Path) -> Result<(), Error> {
    let (source, destination) = (File::open(from).unwrap(), File::create(to).unwrap());
    apply(source, destination, &stat(from))
}

#[test]
fn ones_own_files_keep_their_powers() {
    let scratch = scratch();
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    let applied = as_nobody(|| {
        File::create(&from).unwrap();
        rustix::fs::chmod(&from, Mode::from_raw_mode(0o4711)).unwrap();
        apply_anew(&from, &to)
    });
    let Some(applied) = applied else { return };
    applied.unwrap();
    assert_eq!(mode(&to), "4711");
}

#[test]
fn what_has_other_names_or_is_of_another_kind_is_not_given_away() {
    if !is_root() {
        return;
    }
    let scratch = scratch();
    let path = |name| scratch.path().join(name);
    for name in ["fifo", "other"] {
        rustix::fs::mkfifoat(CWD, path(name), Mode::RWXU).unwrap();
    }
    std::os::unix::fs::chown(path("fifo"), Some(NOBODY), None).unwrap();
    fs::hard_link(path("other"), path("linked")).unwrap();
    File::create(path("file")).unwrap();
    let directory = open(scratch.path());
    let named = |name| Named {
        directory: directory.as_fd(),
        name,
    };
    for (name, it) in [(c"linked", "linked"), (c"file", "file")] {
        let before = looks(&path(it));
        let error = apply_named(named(c"fifo"), named(name), &stat(&path("fifo"))).unwrap_err();
        assert_eq!(
            format!("{:#}", anyhow::Error::from(error)),
            "cannot keep any attribute: what was made has been replaced"
        );
        assert_eq!(looks(&path(it)), before);
    }
}

#[test]
fn a_file_system_without_attributes_loses_a_users_own_aloud_and_others_silently() {
    // It has access lists and nothing else to lose.
    let Some(ramfs) = Mounted::new("ramfs") else {
        return;
    };
    let scratch = scratch();
    let (from, to) = (scratch.path().join("from"), ramfs.path().join("to"));
    let (source, destination) = (File::create(&from).unwrap(), File::create(&to).unwrap());
    set(&from, "trusted.name", b"value");
    set(&from, ACCESS, &list(6));
    rustix::fs::chmod(&from, Mode::from_raw_mode(0o640)).unwrap();
    date(&from);
    apply(&source, &destination, &stat(&from)).unwrap();
    set(&from, "user.name", b"value");
    let error = apply(&source, &destination, &stat(&from)).unwrap_err();
    assert_eq!(
        format!("{:#}", anyhow::Error::from(error)),
        "cannot keep the extended attribute user.name: Operation not supported (os error 95)"
    );
    // All else is there.
    assert_eq!(looks(&to), looks(&from));
}
