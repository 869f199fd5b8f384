//! A quota of btrfs that is exceeded in mid-copy (`EDQUOT`).

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::io::Errno;
use zcopy::{Reflink, Strategy, Transfer};

use super::{LEN, assert_sink_failed, run_with_fault, source_in, sparse_source_in};
use crate::endpoints::{SinkKind, Source, SourceKind};
use crate::files::{contents, cursor, file_in, pattern};
use crate::mounts::{Fs, Root, loop_mount};
use crate::options::MaybeOptions as _;
use crate::promises::assert_nothing_lost;
use crate::skip::has_program;
use crate::strategies::strategies_for;

/// A btrfs with quotas, in which each case has a subvolume of its own.
struct Quotas {
    root: Root,
    n_subvolumes: Cell<u32>,
}

impl Quotas {
    fn new() -> Option<Self> {
        if !has_program("btrfs") {
            return None;
        }
        let root = loop_mount("btrfs", 512)?;
        btrfs(&["quota", "enable"], &root.dir());
        let n_subvolumes = Cell::new(0);
        Some(Self { root, n_subvolumes })
    }

    /// A new subvolume without a limit.
    fn subvolume(&self) -> PathBuf {
        let n = self.n_subvolumes.replace(self.n_subvolumes.get() + 1);
        let dir = self.root.dir().join(n.to_string());
        btrfs(&["subvolume", "create"], &dir);
        dir
    }
}

/// Limits what a subvolume may refer to.
fn limit(subvolume: &Path, bytes: u64) {
    btrfs(&["qgroup", "limit", &bytes.to_string()], subvolume);
}

fn btrfs(args: &[&str], path: &Path) {
    let output = Command::new("btrfs").args(args).arg(path).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

#[test]
fn a_quota_that_is_exceeded_in_mid_copy_is_counted_to_the_byte() {
    const QUOTA: u64 = 2 << 20;
    let Some(quotas) = Quotas::new() else {
        return;
    };
    let bytes = pattern(LEN);
    for from in [
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Regular(Fs::Btrfs),
        SourceKind::Pipe,
    ] {
        for strategy in strategies_for(from, SinkKind::Regular(Fs::Btrfs)) {
            // btrfs charges shared blocks after the call, at its next commit.
            if matches!(strategy, Some(Strategy::Reflink | Strategy::CopyFileRange)) {
                continue;
            }
            let what = format!("{from:?}, {strategy:?}");
            let (dir, beside) = (quotas.subvolume(), quotas.subvolume());
            limit(&dir, QUOTA);
            let source = match from {
                SourceKind::Regular(Fs::Btrfs) => source_in(&beside, &bytes),
                _ => Source::new(from, &bytes),
            };
            let Some(source) = source else {
                continue;
            };
            let sink = file_in(&dir, b"");
            let transfer = Transfer::new(&source.fd, &sink)
                .reflink(Reflink::Never)
                .maybe_strategy(strategy);
            let error = transfer.run().expect_err(&what);
            assert_sink_failed(&error, Errno::DQUOT, strategy, &what);
            assert!((1..QUOTA).contains(&error.bytes()), "{what}: {error:#}");
            assert_eq!(cursor(&sink), error.bytes(), "{what}");
            assert_nothing_lost(&error, source, &contents(&sink), &bytes, &what);
        }
    }
}

/// A clone charges a quota for metadata alone. It fails as soon as the subvolume refers to more than
/// its limit.
#[test]
fn a_quota_that_is_lowered_in_mid_copy_ends_every_strategy() {
    let Some(quotas) = Quotas::new() else {
        return;
    };
    for from in [
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Regular(Fs::Btrfs),
        SourceKind::Pipe,
    ] {
        for strategy in strategies_for(from, SinkKind::Regular(Fs::Btrfs)) {
            let what = format!("{from:?}, {strategy:?}");
            let dir = quotas.subvolume();
            let source_and_bytes = if from == SourceKind::Regular(Fs::Btrfs) {
                sparse_source_in(&dir)
            } else {
                let bytes = pattern(LEN);
                Source::new(from, &bytes).map(|source| (source, bytes))
            };
            let Some((source, bytes)) = source_and_bytes else {
                continue;
            };
            let sink = file_in(&dir, b"");
            let transfer = Transfer::new(&source.fd, &sink)
                .limit(bytes.len() as u64)
                .maybe_strategy(strategy);
            let (outcome, moved) = run_with_fault(transfer, || {
                // The quota counts what has been committed.
                rustix::fs::syncfs(&sink).unwrap();
                limit(&dir, 64 << 10);
            });
            let error = outcome.expect_err(&what);
            assert_sink_failed(&error, Errno::DQUOT, strategy, &what);
            assert_eq!(error.bytes(), moved, "{what}: {error:#}");
            assert_eq!(cursor(&sink), moved, "{what}");
            assert_nothing_lost(&error, source, &contents(&sink), &bytes, &what);
        }
    }
}
