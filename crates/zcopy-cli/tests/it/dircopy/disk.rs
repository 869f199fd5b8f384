//! Disks that are full, and quotas that are used up.
//!
//! Files are copied one after the other. A file that is copied while another one still holds the last
//! block would fail, too.

use super::*;
use crate::mounts::{Root, loop_mount, mount_tmpfs};
use crate::skip::{has_program, is_root};

/// A small disk, as other processes find it.
pub(super) struct Disk {
    _root: Root,
    pub(super) path: PathBuf,
}

pub(super) fn disks() -> Vec<Disk> {
    if !is_root() {
        return Vec::new();
    }
    let roots = [mount_tmpfs(2), loop_mount("ext4", 4)];
    let disk = |root: Root| Disk {
        path: root.dir(),
        _root: root,
    };
    roots.into_iter().flatten().map(disk).collect()
}

#[test]
fn a_full_disk_costs_the_file_that_does_not_fit() {
    for disk in disks() {
        let trees = Trees::new();
        trees
            .put("a", "before")
            .put("large", vec![7; 6 << 20])
            .put("z", "later");
        let copy = disk.path.join("copy");
        let mut command = zc_dircopy();
        command.args(["-q", "--jobs=1", "--no-space-check"]);
        let run = run(command.arg(trees.source()).arg(&copy));
        run.failed_naming(&[&["large", "No space left on device"]]);
        assert!(!copy.join("large").exists());
        let sums = Sums::newest_in(&copy);
        sums.lists(&["a", "z"]).holds_in(&copy);
        sums.satisfies_sha256sum(&copy);
        hides_nothing(&copy);
    }
}

#[test]
fn a_full_disk_leaves_what_was_there() {
    for disk in disks() {
        let trees = Trees::new();
        trees.put("large", vec![7; 6 << 20]).put("z", "later");
        let copy = disk.path.join("copy");
        put(&copy.join("large"), "what was there");
        let mut command = zc_dircopy();
        command.args(["-q", "--jobs=1", "--no-space-check"]);
        let run = run(command.arg(trees.source()).arg(&copy));
        run.failed_naming(&[&["large", "No space left on device"]]);
        assert_eq!(fs::read(copy.join("large")).unwrap(), b"what was there");
        Sums::newest_in(&copy).lists(&["z"]).holds_in(&copy);
    }
}

#[test]
fn a_quota_costs_the_file_that_goes_beyond_it() {
    if !is_root() || !has_program("btrfs") {
        return;
    }
    let Some(root) = loop_mount("btrfs", 512) else {
        return;
    };
    let limited = root.dir().join("limited");
    let btrfs = |words: &[&str], path: &Path| {
        let made = Command::new("btrfs").args(words).arg(path).output();
        assert!(made.unwrap().status.success(), "{words:?}");
    };
    btrfs(&["quota", "enable"], limited.parent().unwrap());
    btrfs(&["subvolume", "create"], &limited);
    btrfs(&["qgroup", "limit", "4M"], &limited);
    let trees = Trees::new();
    trees
        .put("a", "before")
        .put("large", crate::files::pattern(6 << 20))
        .put("z", "later");
    let copy = limited.join("copy");
    let mut command = zc_dircopy();
    command.args(["-q", "--jobs=1"]);
    let run = run(command.arg(trees.source()).arg(&copy));
    run.failed_naming(&[&["large", "Disk quota exceeded"]]);
    assert!(!copy.join("large").exists());
    let sums = Sums::newest_in(&copy);
    sums.lists(&["a", "z"]).holds_in(&copy);
    sums.satisfies_sha256sum(&copy);
    hides_nothing(&copy);
}

/// Then nothing can be promised, and that is an error too.
#[test]
fn a_disk_without_room_for_the_sum_file_has_none_that_is_cut_off() {
    for disk in disks() {
        let trees = Trees::new();
        for n in 0..1500 {
            trees.put(format!("{n:04}{}", "-long-name".repeat(20)), vec![1; 4096]);
        }
        let copy = disk.path.join("copy");
        let mut command = zc_dircopy();
        command.args(["-q", "--jobs=1", "--no-space-check"]);
        let run = run(command.arg(trees.source()).arg(&copy));
        run.ended_with(1);
        assert!(run.stderr.contains("No space left on device"), "{run:?}");
        for sums in Sums::all_in(&copy) {
            sums.holds_in(&copy).satisfies_sha256sum(&copy);
        }
        for name in facts::files_of(&copy) {
            let is_own = ["sum.", ".zc-dircopy-journal-"];
            if !is_own
                .iter()
                .any(|own| name.to_str().unwrap().contains(own))
            {
                assert_eq!(fs::read(copy.join(name)).unwrap(), [1; 4096]);
            }
        }
    }
}
