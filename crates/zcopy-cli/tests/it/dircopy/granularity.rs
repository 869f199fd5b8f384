//! File systems that round times: nothing is copied for ever, and no newer source stays hidden.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::mounts::{loop_mount, loop_mount_with, mount_tmpfs, mount_with_script};
use crate::skip::is_root;
use file_systems::{FileSystem, NtfsNames};

const SECOND: i64 = 1_000_000_000;

/// 2001, in nanoseconds: an odd second, and a fraction without zeros.
const TIME: i64 = 1_000_000_001 * SECOND + 123_456_789;

/// A file system, and the nanoseconds between two of its times.
struct Rounding {
    name: &'static str,
    granularity: i64,
    file_system: FileSystem,
}

/// File systems of every granularity.
fn file_systems() -> impl Iterator<Item = Rounding> {
    let small_inodes = || loop_mount_with("ext4", 64, &["-I", "128"]);
    let mounted = if is_root() {
        vec![
            ("tmpfs", 1, mount_tmpfs(16).map(FileSystem::from)),
            ("ext4", 1, loop_mount("ext4", 64).map(FileSystem::from)),
            (
                "ext4 of small inodes",
                SECOND,
                small_inodes().map(FileSystem::from),
            ),
            (EXFAT, SECOND, FileSystem::exfat()),
            ("ntfs", 100, FileSystem::ntfs(NtfsNames::CaseSensitive)),
            ("vfat", 2 * SECOND, FileSystem::vfat()),
        ]
    } else {
        Vec::new()
    };
    mounted
        .into_iter()
        .filter_map(|(name, granularity, file_system)| {
            Some(Rounding {
                name,
                granularity,
                file_system: file_system?,
            })
        })
}

/// Its driver reports times that it cannot write, until it is mounted again.
const EXFAT: &str = "exfat";

impl Rounding {
    /// A time as it is kept there.
    fn floor(&self, time: i64) -> i64 {
        time - time.rem_euclid(self.granularity)
    }

    fn copy(&self) -> PathBuf {
        self.file_system.path().join("copy")
    }

    /// Copies a file over one of the same size, with these modification times. Returns the contents
    /// of the copy: "new" if it was replaced, "old" otherwise.
    #[track_caller]
    fn after(&self, original: i64, existing: i64) -> String {
        let trees = Trees::new();
        trees.put("file", "new");
        set_modified(&trees.original("file"), original);
        let copy = self.copy();
        put(&copy.join("file"), "old");
        set_modified(&copy.join("file"), existing);
        run(zc_dircopy()
            .args(["-q", "--no-hash"])
            .arg(trees.source())
            .arg(&copy))
        .is_quiet();
        hides_nothing(&copy);
        fs::read_to_string(copy.join("file")).unwrap()
    }
}

fn set_modified(path: &Path, time: i64) {
    let time = rustix::fs::Timespec {
        tv_sec: time.div_euclid(SECOND),
        tv_nsec: time.rem_euclid(SECOND),
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
}

fn modified(path: &Path) -> i64 {
    let metadata = fs::metadata(path).unwrap();
    metadata.mtime() * SECOND + metadata.mtime_nsec()
}

#[test]
fn a_second_run_copies_nothing_however_times_are_rounded() {
    for on in file_systems() {
        let trees = Trees::new();
        trees.put("a/file", "new");
        set_modified(&trees.original("a/file"), TIME);
        let (command, copied) = (
            || {
                let mut command = zc_dircopy();
                command.args(["-q", "--no-hash"]);
                command.arg(trees.source()).arg(on.copy());
                command
            },
            on.copy().join("a/file"),
        );
        put(&copied, "of another size");
        run(&mut command()).is_quiet();
        let kept = modified(&copied);
        assert_eq!(kept, on.floor(TIME), "{}", on.name);
        // A copy would show.
        fs::write(&copied, "old").unwrap();
        set_modified(&copied, kept);
        run(&mut command()).is_quiet();
        assert_eq!(fs::read(&copied).unwrap(), b"old", "{}", on.name);
    }
}

/// The time of the existing copy, which another tool may have set, ends in any number of zeros.
#[test]
fn a_source_that_is_newer_by_what_the_file_system_can_tell_is_copied() {
    for on in file_systems() {
        let even = 1_000_000_000 * SECOND;
        for existing in [even, even + SECOND, even + SECOND / 2, even + SECOND / 1000] {
            let existing = on.floor(existing);
            let newer = on.after(existing + on.granularity, existing);
            assert_eq!(newer, "new", "on {} at {existing}", on.name);
            if on.granularity > 1 {
                let same = on.after(existing + on.granularity - 1, existing);
                assert_eq!(same, "old", "on {} at {existing}", on.name);
            }
        }
    }
}

/// Where all later times become one, the contents decide.
#[test]
fn a_time_beyond_2038_hides_no_newer_source() {
    let late = 5_000_000_000 * SECOND + 7;
    let end = i64::from(i32::MAX) * SECOND;
    for on in file_systems() {
        if on.name != EXFAT {
            assert_eq!(on.after(late, end), "new", "{}", on.name);
        }
    }
}

#[test]
fn a_copy_beyond_2038_is_left_if_its_contents_are_the_same() {
    for on in file_systems() {
        if on.name == EXFAT {
            continue;
        }
        let trees = Trees::new();
        trees.put("file", "same");
        set_modified(&trees.original("file"), 5_000_000_000 * SECOND + 7);
        let copy = on.copy();
        let inode = || {
            run(zc_dircopy().arg("-q").arg(trees.source()).arg(&copy)).is_quiet();
            fs::metadata(copy.join("file")).unwrap().ino()
        };
        assert_eq!(inode(), inode(), "{}", on.name);
    }
}

/// The protocol has whole seconds, in 32 bits.
#[test]
fn over_sftp_only_a_newer_second_is_copied() {
    let Some(file_system) = FileSystem::sshfs() else {
        return;
    };
    let on = Rounding {
        name: "sshfs",
        granularity: SECOND,
        file_system,
    };
    let even = 1_000_000_000 * SECOND;
    assert_eq!(on.after(even + SECOND - 1, even), "old");
    assert_eq!(on.after(even + SECOND, even), "new");
    // As it begins anew after 136 years.
    let wrapped = (5_000_000_000 - (1 << 32)) * SECOND;
    assert_eq!(on.after(5_000_000_000 * SECOND + 7, wrapped), "old");
}

#[test]
fn contents_decide_where_no_time_can_be_tried() {
    if !is_root() {
        return;
    }
    // The root, a directory and two files are all that it has room for.
    let script = "mount -t tmpfs -o nr_inodes=5,size=1m none \"$2\"";
    let Some(root) = mount_with_script("tmpfs", 0, script) else {
        return;
    };
    let trees = Trees::new();
    let copy = root.dir().join("copy");
    for (name, bytes) in [("differs", "old"), ("same", "new")] {
        put(&trees.original(name), "new");
        put(&copy.join(name), bytes);
        set_modified(&copy.join(name), 1_000_000_000 * SECOND);
        set_modified(&trees.original(name), TIME);
    }
    while fs::File::create(
        copy.with_extension(fs::read_dir(root.dir()).unwrap().count().to_string()),
    )
    .is_ok()
    {}
    let mut command = zc_dircopy();
    command.args(["-q", "--no-hash"]);
    let run = run(command.arg(trees.source()).arg(&copy));
    run.failed_naming(&[&["differs", "No space left on device"]]);
}

#[test]
fn a_directory_that_a_killed_run_has_tried_times_on_is_removed() {
    let trees = Trees::new();
    trees.put("file", "x");
    let [empty, full] = [".zc-dircopy-time-AbCdEf01", ".zc-dircopy-time-AbCdEf02"];
    fs::create_dir_all(trees.copied(empty)).unwrap();
    trees.put_copy(format!("{full}/file"), "not ours");
    trees.succeeds(&[]);
    assert!(!trees.copied(empty).exists());
    trees.holds(format!("{full}/file"), "not ours");
}
