//! Holes, and space that was allocated and never written: neither is read, and neither is written.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::FallocateFlags;

use super::*;
use crate::files::pattern;
use crate::mounts::Fs;
use crate::skip::has_program;
use traced::traced;

/// How much of a file is data.
const DATA: usize = 300_000;

/// A file that holds little data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sparse,
    /// All of its space is allocated.
    Allocated,
}

/// A file of zeros, and some data in the middle.
fn make(path: &Path, kind: Kind, len: u64, data_at: u64) {
    let file = fs::File::create(path).unwrap();
    match kind {
        Kind::Sparse => file.set_len(len).unwrap(),
        Kind::Allocated => {
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).unwrap();
        }
    }
    file.write_all_at(&pattern(DATA), data_at).unwrap();
}

/// Counts the bytes that a command read from files with this in their paths.
fn bytes_read(log: &str, below: &str) -> u64 {
    let is_read = |line: &&str| {
        let is_call = [
            "read(",
            "pread64(",
            "preadv2(",
            "splice(",
            "copy_file_range(",
        ]
        .iter()
        .any(|call| line.contains(call));
        is_call && line.contains(below)
    };
    let count = |line: &str| line.rsplit_once("= ")?.1.parse::<u64>().ok();
    log.lines().filter(is_read).filter_map(count).sum()
}

const CALLS: &str = "--trace=read,pread64,preadv2,splice,copy_file_range,write,pwrite64";

/// Runs a command, which succeeds and reads hardly more than the data `n_times`.
#[track_caller]
fn reads_the_data_alone(command: &Command, below: &str, n_times: u64, what: &str) {
    let traced = traced(command, &[CALLS.to_owned()]);
    assert_eq!(traced.run.status, 0, "{what}: {traced:?}");
    let n_bytes = bytes_read(&traced.log, below);
    let data = n_times * DATA as u64;
    // Whole blocks are read, and past the cache whole MiB.
    assert!(
        (data..data + n_times * (2 << 20)).contains(&n_bytes),
        "{what}: {n_bytes} bytes are read"
    );
}

/// A copy, a second run that reads everything, one that compares, and a check.
#[track_caller]
fn holes_are_not_read(source: &Path, copy: &Path, kind: Kind, len: u64, what: &str) {
    make(&source.join("file"), kind, len, len / 2);
    let command = |options: &[&str]| {
        let mut command = zc_dircopy();
        command.arg("--quiet").args(options).arg(source).arg(copy);
        command
    };
    let (below, copied) = (source.parent().unwrap(), copy.to_str().unwrap());
    let below = below.to_str().unwrap();
    reads_the_data_alone(&command(&["--verify"]), below, 2, &format!("{what}: copy"));
    reads_the_data_alone(&command(&[]), copied, 1, &format!("{what}: second run"));
    let existing = command(&["--verify-existing"]);
    reads_the_data_alone(&existing, below, 2, &format!("{what}: comparison"));
    reads_the_data_alone(
        &check_command(copy, &["--quiet"]),
        copied,
        1,
        &format!("{what}: check"),
    );
    let queued = check_command(copy, &["--quiet", "--queue-size=4"]);
    reads_the_data_alone(&queued, copied, 1, &format!("{what}: queued check"));
    let found = fs::metadata(copy.join("file")).unwrap();
    assert_eq!(found.len(), len, "{what}");
    assert!(found.blocks() * 512 < 8 << 20, "{what}: {found:?}");
    Sums::newest_in(copy).satisfies_sha256sum(copy);
}

#[test]
fn holes_are_hashed_without_being_read() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::on_disk();
    let (source, copy) = (trees.source(), trees.copy());
    holes_are_not_read(&source, &copy, Kind::Sparse, 16 << 20, "on a disk");
}

#[test]
fn allocated_space_that_was_never_written_is_a_hole_in_the_copy() {
    if !has_program("strace") {
        return;
    }
    for on in Fs::ALL {
        let Some(directory) = on.dir() else { continue };
        // Not within a btrfs, where a clone shares the allocated space too.
        let source = tempfile::tempdir_in(&directory).unwrap();
        let trees = Trees::on_disk();
        let what = format!("{on:?}");
        fs::create_dir(source.path().join("src")).unwrap();
        let original = source.path().join("src");
        make(&original.join("file"), Kind::Allocated, 16 << 20, 10 << 20);
        let mut command = zc_dircopy();
        command.arg("--quiet").arg(&original).arg(trees.copy());
        reads_the_data_alone(&command, "/src/file", 1, &what);
        let found = fs::metadata(trees.copied("file")).unwrap();
        assert!(found.blocks() * 512 < 8 << 20, "{what}: {found:?}");
        trees.sums().holds_in(&trees.copy());
        trees.sums().holds_in(&original);
    }
}

/// By each of the ways in which bytes go between files.
#[test]
fn allocated_space_that_was_never_written_is_not_copied_without_digests_either() {
    for on in Fs::ALL {
        let Some(directory) = on.dir() else { continue };
        let within = tempfile::tempdir_in(&directory).unwrap();
        let elsewhere = Trees::on_disk();
        for (n, copy) in [within.path().join("dst"), elsewhere.copy()]
            .iter()
            .enumerate()
        {
            // What the page cache has counts as data on ext4 and xfs, so that nothing has read it.
            let source = within.path().join(n.to_string());
            fs::create_dir(&source).unwrap();
            make(&source.join("file"), Kind::Allocated, 64 << 20, 10 << 20);
            let mut command = zc_dircopy();
            command.args(["--quiet", "--no-hash"]);
            run(command.arg(&source).arg(copy)).is_quiet();
            let found = fs::metadata(copy.join("file")).unwrap();
            let is_clone = on == Fs::Btrfs && copy.starts_with(&directory);
            // A clone on btrfs has the allocated space too, which costs nothing.
            assert!(
                is_clone || found.blocks() * 512 < 8 << 20,
                "{on:?}: {found:?}"
            );
            let (a, b) = (source.join("file"), copy.join("file"));
            assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{on:?}");
        }
    }
}
