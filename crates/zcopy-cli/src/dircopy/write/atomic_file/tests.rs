use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FileType, Timespec, Timestamps};

use super::*;
use crate::dircopy::test_support::{as_nobody, names, open, scratch, stat};
use crate::dircopy::walk::listing;
use crate::dircopy::write::metadata::Named;
use crate::skip::{has_program, is_root};

/// The two ways in which a file waits for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nameless,
    Temporary,
}

const BOTH: [Waits; 2] = [Waits::Nameless, Waits::Temporary];

impl Waits {
    fn place(self, directory: &OwnedFd) -> AtomicFile<&OwnedFd> {
        let new_file = match self {
            Self::Nameless => AtomicFile::new(directory).unwrap(),
            Self::Temporary => AtomicFile::with_temp_name(directory).unwrap(),
        };
        assert_eq!(new_file.temp_name.name.is_some(), self == Self::Temporary);
        new_file
    }
}

fn errno_of(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

#[test]
fn a_file_appears_whole_and_alone() {
    for waits in BOTH {
        let scratch = scratch();
        let directory = open(scratch.path());
        let new_file = waits.place(&directory);
        new_file.file().write_all(b"whole").unwrap();
        assert!(!scratch.path().join("name").exists(), "{waits:?}");
        let file = new_file
            .commit(c"name", Replace::No, Durability::Synced)
            .unwrap();
        assert_eq!(file.metadata().unwrap().nlink(), 1);
        assert_eq!(fs::read(scratch.path().join("name")).unwrap(), b"whole");
        assert_eq!(names(scratch.path()), ["name"], "{waits:?}");
    }
}

#[test]
fn what_bears_the_name_is_replaced_and_never_followed() {
    for waits in BOTH {
        for present in ["file", "link", "dangling", "fifo"] {
            let scratch = scratch();
            let name = scratch.path().join("name");
            let other = scratch.path().join("other");
            fs::write(&other, "other").unwrap();
            match present {
                "file" => fs::write(&name, "old").unwrap(),
                "link" => symlink("other", &name).unwrap(),
                "dangling" => symlink("absent", &name).unwrap(),
                _ => rustix::fs::mkfifoat(CWD, &name, Mode::RUSR).unwrap(),
            }
            let directory = open(scratch.path());
            let new_file = waits.place(&directory);
            new_file.file().write_all(b"new").unwrap();
            let refused = waits
                .place(&directory)
                .commit(c"name", Replace::No, Durability::Cached);
            assert_eq!(errno_of(&refused.unwrap_err()), Some(Errno::EXIST));
            new_file
                .commit(c"name", Replace::Yes, Durability::Cached)
                .unwrap();
            assert!(
                stat(&name).st_mode & 0o170_000 == 0o100_000,
                "{waits:?} {present}"
            );
            assert_eq!(fs::read(&name).unwrap(), b"new");
            assert_eq!(fs::read(&other).unwrap(), b"other");
            assert_eq!(names(scratch.path()), ["name", "other"]);
        }
    }
}

#[test]
fn a_directory_is_in_the_way() {
    for waits in BOTH {
        let scratch = scratch();
        fs::create_dir(scratch.path().join("name")).unwrap();
        let directory = open(scratch.path());
        let committed = waits
            .place(&directory)
            .commit(c"name", Replace::Yes, Durability::Cached);
        assert_eq!(
            errno_of(&committed.unwrap_err()),
            Some(Errno::ISDIR),
            "{waits:?}"
        );
        assert_eq!(names(scratch.path()), ["name"]);
    }
}

#[test]
fn what_is_dropped_leaves_nothing() {
    for waits in BOTH {
        let scratch = scratch();
        let directory = open(scratch.path());
        let new_file = waits.place(&directory);
        assert_eq!(
            names(scratch.path()).len(),
            usize::from(waits == Waits::Temporary)
        );
        drop(new_file);
        assert_eq!(names(scratch.path()), [""; 0]);
    }
}

#[test]
fn a_file_system_without_nameless_files_gets_hidden_ones() {
    // procfs has no nameless files. That error comes before the one that it has no new files.
    if is_root() {
        assert!(
            nameless(open(Path::new("/proc")).as_fd(), PRIVATE)
                .unwrap()
                .is_none()
        );
    }
}

/// Removes what killed runs have left in a directory.
fn sweep(directory: BorrowedFd<'_>) {
    let mut leftovers = temp_name::Leftovers::default();
    listing::each(directory, |name, kind| leftovers.add(name, kind)).unwrap();
    leftovers.remove(directory, |_| false);
}

#[test]
fn a_sweep_removes_what_the_dead_left_and_nothing_else() {
    let scratch = scratch();
    let directory = open(scratch.path());
    let alive = Waits::Temporary.place(&directory);
    let alive_name = names(scratch.path()).remove(0);
    for name in [
        ".zc-dircopy-aA0bB1cC",
        ".zc-dircopy-short",
        ".zc-dircopy-aA0bB1c-",
        "zc-dircopy-aA0bB1cC",
    ] {
        fs::write(scratch.path().join(name), "").unwrap();
    }
    symlink("absent", scratch.path().join(".zc-dircopy-symlink0")).unwrap();
    rustix::fs::mkfifoat(
        CWD,
        scratch.path().join(".zc-dircopy-fifo0000"),
        Mode::empty(),
    )
    .unwrap();
    fs::create_dir(scratch.path().join(".zc-dircopy-dir00000")).unwrap();
    sweep(directory.as_fd());
    let mut expected = vec![
        alive_name,
        ".zc-dircopy-aA0bB1c-".into(),
        ".zc-dircopy-dir00000".into(),
        ".zc-dircopy-short".into(),
        "zc-dircopy-aA0bB1cC".into(),
    ];
    expected.sort();
    assert_eq!(names(scratch.path()), expected);
    alive
        .commit(c"name", Replace::Yes, Durability::Cached)
        .unwrap();
}

#[test]
fn a_hidden_name_that_another_run_takes_away_is_made_again() {
    let scratch = scratch();
    let directory = open(scratch.path());
    fs::write(scratch.path().join("name"), "old").unwrap();
    let tries = std::cell::Cell::new(0);
    temp_name::put(directory.as_fd(), c"name", Replace::Yes, |name| {
        rustix::fs::symlinkat(c"target", &directory, name)?;
        tries.set(tries.get() + 1);
        if tries.get() < 3 {
            let before = directory.try_clone().unwrap();
            rustix::fs::seek(&before, rustix::fs::SeekFrom::Start(0))?;
            sweep(before.as_fd());
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(tries.get(), 3);
    assert_eq!(
        fs::read_link(scratch.path().join("name")).unwrap(),
        Path::new("target")
    );
    assert_eq!(names(scratch.path()), ["name"]);
}

#[test]
fn links_and_special_files_are_placed_with_their_attributes() {
    let scratch = scratch();
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    symlink("any\u{ff}where/\n", from.join("symlink")).unwrap();
    let mode = Mode::from_raw_mode(0o622);
    let mut kinds = vec!["symlink", "fifo", "socket"];
    rustix::fs::mkfifoat(CWD, from.join("fifo"), mode).unwrap();
    rustix::fs::mknodat(CWD, from.join("socket"), FileType::Socket, mode, 0).unwrap();
    if is_root() {
        let device = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(
            CWD,
            from.join("null"),
            FileType::CharacterDevice,
            mode,
            device,
        )
        .unwrap();
        rustix::fs::mknodat(CWD, from.join("block"), FileType::BlockDevice, mode, device).unwrap();
        kinds.extend(["null", "block"]);
    }
    let time = Timespec {
        tv_sec: 1_000_000_001,
        tv_nsec: 123_456_789,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let (source, destination) = (open(&from), open(&to));
    for name in kinds {
        rustix::fs::utimensat(&source, name, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        fs::write(to.join(name), "in the way").unwrap();
        let c_name = CString::new(name).unwrap();
        let [original, copy] = [&source, &destination].map(|directory| Named {
            directory: directory.as_fd(),
            name: &c_name,
        });
        let stat_of = stat(&from.join(name));
        let other = SpecialFile::read(original, &stat_of).unwrap();
        let place = |replace| place_other(&other, copy, replace, Durability::Synced);
        assert_eq!(
            errno_of(&place(Replace::No).unwrap_err()),
            Some(Errno::EXIST)
        );
        assert_eq!(fs::read(to.join(name)).unwrap(), b"in the way");
        place(Replace::Yes).unwrap().attributes.unwrap();
        let placed = stat(&to.join(name));
        assert_eq!(
            (placed.st_mode, placed.st_rdev),
            (stat_of.st_mode, stat_of.st_rdev),
            "{name}"
        );
        assert_eq!(
            (placed.st_mtime, placed.st_mtime_nsec),
            (1_000_000_001, 123_456_789),
            "{name}"
        );
    }
    assert_eq!(
        fs::read_link(to.join("symlink")).unwrap(),
        fs::read_link(from.join("symlink")).unwrap()
    );
    assert_eq!(names(&to), names(&from));
}

#[test]
fn a_device_is_refused_to_whoever_is_not_root_and_leaves_nothing() {
    let scratch = scratch();
    let directory = open(scratch.path());
    let null = stat(Path::new("/dev/null"));
    let dev = open(Path::new("/dev"));
    let placed = as_nobody(|| {
        let source = Named {
            directory: dev.as_fd(),
            name: c"null",
        };
        let copy = Named {
            directory: directory.as_fd(),
            name: c"null",
        };
        let other = SpecialFile::read(source, &null).unwrap();
        place_other(&other, copy, Replace::Yes, Durability::Cached)
    });
    let Some(placed) = placed else { return };
    assert_eq!(errno_of(&placed.unwrap_err()), Some(Errno::PERM));
    assert_eq!(names(scratch.path()), [""; 0]);
}

#[test]
fn another_name_is_placed_over_whatever_bears_it() {
    let scratch = scratch();
    let path = |name| scratch.path().join(name);
    fs::write(path("first"), "contents").unwrap();
    fs::write(path("taken"), "old").unwrap();
    fs::hard_link(path("first"), path("linked already")).unwrap();
    symlink("first", path("symlink")).unwrap();
    let directory = open(scratch.path());
    let named = |name| Named {
        directory: directory.as_fd(),
        name,
    };
    for (name, replace) in [
        (c"free", Replace::No),
        (c"taken", Replace::Yes),
        (c"linked already", Replace::Yes),
        (c"symlink", Replace::Yes),
    ] {
        place_link(named(c"first"), named(name), replace, Durability::Synced).unwrap();
        assert_eq!(
            stat(&path(name.to_str().unwrap())).st_ino,
            stat(&path("first")).st_ino
        );
    }
    let refused = place_link(
        named(c"first"),
        named(c"taken"),
        Replace::No,
        Durability::Cached,
    );
    assert_eq!(errno_of(&refused.unwrap_err()), Some(Errno::EXIST));
    assert_eq!(
        names(scratch.path()),
        ["first", "free", "linked already", "symlink", "taken"]
    );
}

/// Where the process that is to be killed works.
const VICTIM: &str = "ZCOPY_TEST_VICTIM";

#[test]
#[ignore = "it is killed: `at_whatever_call_it_is_killed_the_name_stands_for_one_of_the_two` runs it"]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    let directory = open(Path::new(&path));
    for waits in BOTH {
        let new_file = waits.place(&directory);
        new_file.file().write_all(&vec![b'n'; 100_000]).unwrap();
        new_file
            .commit(c"name", Replace::Yes, Durability::Synced)
            .unwrap();
        fs::write(Path::new(&path).join("again"), "").unwrap();
    }
    fs::write(Path::new(&path).join("survived"), "").unwrap();
}

#[test]
fn at_whatever_call_it_is_killed_the_name_stands_for_one_of_the_two() {
    if !has_program("strace") {
        return;
    }
    let (old, new) = (vec![b'o'; 200_000], vec![b'n'; 100_000]);
    let mut n_killed = 0;
    for call in ["write", "fsync", "flock", "linkat", "renameat", "unlinkat"] {
        for time in 1.. {
            let scratch = scratch();
            fs::write(scratch.path().join("name"), &old).unwrap();
            let ran = Command::new("strace")
                .args([
                    "-f",
                    "-qq",
                    "-o",
                    "/dev/null",
                    "-e",
                    &format!("trace={call}"),
                ])
                .args(["-e", &format!("inject={call}:signal=KILL:when={time}")])
                .arg(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--ignored",
                    "dircopy::write::atomic_file::tests::victim",
                ])
                .env(VICTIM, scratch.path())
                .output()
                .unwrap();
            let path = |name| scratch.path().join(name);
            if path("survived").exists() {
                assert!(time > 1, "{call} is never called");
                break;
            }
            n_killed += 1;
            assert!(
                time < 1000,
                "it does not survive without being killed: {ran:?}"
            );
            assert!(!ran.status.success(), "{ran:?}");
            let found = fs::read(path("name")).unwrap();
            let is_replaced = path("again").exists();
            assert!(
                found == new || found == old && !is_replaced,
                "{call} {time}"
            );
            // The next run finds all that is left.
            sweep(open(scratch.path()).as_fd());
            let _ = fs::remove_file(path("again"));
            assert_eq!(names(scratch.path()), ["name"], "{call} {time}");
        }
    }
    assert!(n_killed >= 10, "{n_killed}");
}
