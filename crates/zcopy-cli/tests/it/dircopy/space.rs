//! Copies that have too little space, which is found out before they begin.

use super::disk::disks;
use super::*;
use crate::mounts::{loop_mount, mount_tmpfs};
use crate::skip::is_root;

/// Copies the source to a directory.
fn copy_to(trees: &Trees, copy: &Path, options: &[&str]) -> Run {
    let mut command = zc_dircopy();
    command.arg("-q").args(options);
    run(command.arg(trees.source()).arg(copy))
}

#[test]
fn a_copy_without_room_does_not_begin_and_leaves_no_directory() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("a", "before").put("large", vec![7; 6 << 20]);
        let copy = disk.path.join("copy");
        let run = copy_to(&trees, &copy, &[]);
        run.failed_naming(&[&[
            "copy: not enough space: the copy takes ",
            " bytes (6.00MiB), and ",
            " are free; --no-space-check copies what fits",
        ]]);
        assert!(!copy.exists());
        // The disk may have it: then the files that fit are copied.
        let run = copy_to(&trees, &copy, &["--no-space-check"]);
        run.failed_naming(&[&["large", "No space left on device"]]);
        assert_eq!(fs::read(copy.join("a")).unwrap(), b"before");
    }
}

#[test]
fn a_copy_without_room_leaves_what_is_there() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("large", vec![7; 6 << 20]);
        let copy = disk.path.join("copy");
        put(&copy.join("large"), "what was there");
        copy_to(&trees, &copy, &[]).failed_naming(&[&["not enough space"]]);
        assert_eq!(facts::files_of(&copy), [PathBuf::from("large")]);
        assert_eq!(fs::read(copy.join("large")).unwrap(), b"what was there");
    }
}

/// A length that no disk here has room for.
const SPARSE: u64 = 16 << 20;

#[test]
fn holes_hard_links_and_excluded_files_take_no_space() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("file", vec![7; 1 << 20]);
        for name in ["b", "c", "d", "e"] {
            fs::hard_link(trees.original("file"), trees.original(name)).unwrap();
        }
        let sparse = fs::File::create(trees.original("sparse")).unwrap();
        sparse.set_len(SPARSE).unwrap();
        trees.put("left-out", vec![7; 6 << 20]);
        let copy = disk.path.join("copy");
        copy_to(&trees, &copy, &["--exclude=left-out"]).is_quiet();
        assert_eq!(fs::metadata(copy.join("sparse")).unwrap().len(), SPARSE);
    }
}

#[test]
fn files_that_the_destination_has_take_no_space_again() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("large", vec![7; 5 << 18]);
        let copy = disk.path.join("copy");
        copy_to(&trees, &copy, &[]).is_quiet();
        // The disk has no room for a second one.
        trees.put("new", "x");
        copy_to(&trees, &copy, &[]).is_quiet();
        assert_eq!(fs::read(copy.join("new")).unwrap(), b"x");
    }
}

#[test]
fn a_file_that_replaces_another_needs_room_beside_it() {
    let Some(root) = is_root().then(|| mount_tmpfs(4)).flatten() else {
        return;
    };
    let trees = Trees::new();
    trees.put("large", vec![7; 5 << 19]);
    let copy = root.dir().join("copy");
    copy_to(&trees, &copy, &[]).is_quiet();
    trees.put("large", vec![8; 5 << 19]);
    copy_to(&trees, &copy, &["--overwrite-policy=always"])
        .failed_naming(&[&["not enough space", "2621440 bytes"]]);
    assert_eq!(fs::read(copy.join("large")).unwrap(), vec![7; 5 << 19]);
}

#[test]
fn files_that_share_their_blocks_take_no_space() {
    let Some(root) = is_root().then(|| loop_mount("xfs", 320)).flatten() else {
        return;
    };
    let source = root.dir().join("source");
    let len = 32 << 20;
    put(&source.join("large"), crate::files::pattern(len));
    // Half of the file is all that is left.
    let available = || {
        let stat = rustix::fs::statvfs(root.dir()).unwrap();
        stat.f_bavail * stat.f_frsize
    };
    let ballast = fs::File::create(root.dir().join("ballast")).unwrap();
    let flags = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&ballast, flags, 0, available() - len as u64 / 2).unwrap();
    assert!((1..len as u64).contains(&available()), "{}", available());
    let mut command = zc_dircopy();
    command.arg("-q").arg(&source).arg(root.dir().join("copy"));
    run(&mut command).is_quiet();
}

#[test]
fn too_few_inodes_are_found_out_too() {
    let script = "mount -t tmpfs -o size=64m,nr_inodes=100 none \"$2\"";
    let mount = || crate::mounts::mount_with_script("tmpfs", 0, script);
    let Some(root) = is_root().then(mount).flatten() else {
        return;
    };
    let trees = Trees::new();
    for n in 0..200 {
        trees.put(format!("{n}"), "");
    }
    let copy = root.dir().join("copy");
    copy_to(&trees, &copy, &[]).failed_naming(&[&[
        "not enough inodes: the copy takes 200, and ",
        " are free; --no-space-check copies what fits",
    ]]);
    assert!(!copy.exists());
}

#[test]
fn a_refusal_is_an_error_of_json() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("large", vec![7; 6 << 20]);
        let copy = disk.path.join("copy");
        let mut command = zc_dircopy();
        let run = run(command.arg("--json").arg(trees.source()).arg(&copy));
        assert_eq!(run.status, 1);
        let lines: Vec<_> = run.stdout.lines().collect();
        let [error, summary] = lines[..] else {
            panic!("{run:?}");
        };
        assert!(error.contains(r#""event":"error""#) && error.contains("not enough space"));
        assert!(summary.contains(r#""state":"failed""#), "{summary}");
    }
}
