//! File systems that share blocks between files.

use serde_json::Value;
use zcopy::Strategy;

use super::*;
use crate::mounts::{Fs, loop_mount};
use crate::refused::needs;
use crate::skip::has_program;

const LEN: usize = 8 << 20;

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
    if !needs(&[Strategy::Reflink]) {
        return;
    }
    // Of their own: what others write at the same time would be counted.
    for (fs, mib) in [("btrfs", 256), ("xfs", 320)] {
        let Some(root) = loop_mount(fs, mib) else {
            continue;
        };
        let directory = root.dir();
        let trees = Trees::within(&directory);
        trees
            .put("large", crate::files::pattern(LEN))
            .put("a/small", "some")
            .put("empty", "");
        trees
            .put("odd", crate::files::pattern((1 << 20) + 1))
            .put("hole", crate::files::pattern(70_000));
        fs::OpenOptions::new()
            .write(true)
            .open(trees.original("hole"))
            .unwrap()
            .set_len(300_000)
            .unwrap();
        // More than are read ahead at once.
        for nth in 0..40 {
            trees.put(format!("many/{nth}"), crate::files::pattern(nth * 500));
        }
        let cases: [&[&str]; 3] = [
            &[],
            &["--overwrite-policy=always", "--verify"],
            &["--overwrite-policy=always", "--no-hash"],
        ];
        // Of an empty file nothing can be shared.
        let [cloned, copied] = [43, 2];
        for options in cases {
            let before = free(&directory);
            let summary = summary(&trees, options);
            let taken = before.saturating_sub(free(&directory));
            assert!(
                taken < LEN as u64 / 2,
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

/// Short ones are read ahead, all before the first of them is read; long ones past the cache.
#[test]
fn clones_are_read_together_and_long_ones_past_the_cache() {
    if !has_program("strace") || !needs(&[Strategy::Reflink]) {
        return;
    }
    for fs in [Fs::Btrfs, Fs::Xfs] {
        let Some(directory) = fs.dir() else { continue };
        let trees = Trees::within(&directory);
        for nth in 10..20 {
            trees.put(format!("{nth}"), crate::files::pattern(5000));
        }
        trees.put("long", crate::files::pattern((1 << 20) + 5));
        let options = ["--trace=fadvise64,fcntl,pread64".to_owned()];
        let traced = traced::traced(&trees.command(&["--jobs=1"]), &options);
        traced.run.is_quiet();
        let lines = traced.log.lines();
        let of_copies: Vec<&str> = lines.filter(|line| line.contains("/dst/")).collect();
        let mut before = of_copies.split(|line| line.contains("pread64"));
        let is_hint = |line: &&&str| line.contains("POSIX_FADV_WILLNEED");
        let n_ahead = before.next().unwrap().iter().filter(is_hint).count();
        assert_eq!(n_ahead, 10, "{fs:?} {}", traced.log);
        let mut of_long = of_copies
            .iter()
            .skip_while(|line| !(line.contains("F_SETFL") && line.contains("O_DIRECT")));
        let file = |line: &str| {
            let (_, rest) = line.split_once('<').unwrap();
            rest.split_once('>').unwrap().0.to_owned()
        };
        let set = of_long.next().unwrap();
        let read = of_long.find(|line| line.contains("pread64")).unwrap();
        assert_eq!(file(set), file(read), "{fs:?}");
        assert!(read.contains("1048576"), "{fs:?} {read}");
    }
}

/// Whoever writes to one of them does not write to the other.
#[test]
fn what_shares_its_data_is_a_copy_all_the_same() {
    for fs in [Fs::Btrfs, Fs::Xfs] {
        let Some(directory) = fs.dir() else { continue };
        let trees = Trees::within(&directory);
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
        let trees = Trees::within(&directory);
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
