//! File systems that share blocks between files.

use serde_json::Value;

use super::*;
use crate::mounts::{Fs, loop_mount};
use disk::seen_by_others;

const LEN: usize = 16 << 20;

/// What the file system has left, in bytes.
fn free(directory: &Path) -> u64 {
    let synced = fs::File::open(directory).unwrap();
    rustix::fs::syncfs(&synced).unwrap();
    let stat = rustix::fs::statvfs(directory).unwrap();
    stat.f_bfree * stat.f_frsize
}

fn summary(trees: &Trees, options: &[&str]) -> Value {
    let mut command = zc_dircopy();
    command
        .arg("--json")
        .args(options)
        .arg(trees.source())
        .arg(trees.copy());
    let run = run(&mut command);
    assert_eq!((run.status, run.stderr.as_str()), (0, ""));
    serde_json::from_str(run.stdout.lines().last().unwrap()).unwrap()
}

#[test]
fn data_is_shared_where_the_file_system_can() {
    // Of their own: what others write at the same time would be counted.
    for (fs, mib) in [("btrfs", 256), ("xfs", 320)] {
        let Some(root) = loop_mount(fs, mib) else {
            continue;
        };
        let directory = seen_by_others(&root.dir());
        let trees = Trees::within(&directory);
        trees
            .put("large", crate::files::pattern(LEN))
            .put("a/small", "some")
            .put("empty", "");
        trees.put("odd", crate::files::pattern(100_001));
        // What is hashed and small is written, and of an empty file nothing can be shared.
        let cases: [(&[&str], [i32; 2]); 3] = [
            (&[], [2, 2]),
            (&["--overwrite-policy=always", "--verify"], [2, 2]),
            (&["--overwrite-policy=always", "--no-hash"], [3, 1]),
        ];
        for (options, [cloned, copied]) in cases {
            let before = free(&directory);
            let summary = summary(&trees, options);
            let taken = before.saturating_sub(free(&directory));
            assert!(
                taken < LEN as u64 / 4,
                "{fs:?} {options:?}: it took {taken} bytes"
            );
            assert_eq!(
                (&summary["cloned"], &summary["copied"]),
                (&cloned.into(), &copied.into()),
                "{fs:?} {options:?}: {summary}"
            );
            facts::assert_same(&trees.source(), &trees.copy());
        }
        trees.sums().satisfies_sha256sum(&trees.copy());
    }
}

/// Whoever writes to one of them does not write to the other.
#[test]
fn what_shares_its_data_is_a_copy_all_the_same() {
    for fs in [Fs::Btrfs, Fs::Xfs] {
        let Some(directory) = fs.dir() else { continue };
        let trees = Trees::within(&seen_by_others(&directory));
        trees.put("file", crate::files::pattern(1 << 20));
        trees.succeeds(&[]).are_alike();
        trees.put("file", "changed");
        trees.holds("file", crate::files::pattern(1 << 20));
        trees.sums().holds_in(&trees.copy());
    }
}

#[test]
fn where_nothing_can_be_shared_everything_is_copied() {
    for fs in [Fs::Ext4, Fs::Tmpfs] {
        let Some(directory) = fs.dir() else { continue };
        let trees = Trees::within(&seen_by_others(&directory));
        trees.put("a", crate::files::pattern(1 << 20)).put("b", "x");
        let summary = summary(&trees, &[]);
        assert_eq!(
            (&summary["cloned"], &summary["copied"]),
            (&0.into(), &2.into()),
            "{fs:?}"
        );
        trees.are_alike();
    }
}
