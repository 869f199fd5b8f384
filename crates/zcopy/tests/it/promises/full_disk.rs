//! Promises 1 and 9 on full file systems of 8 MiB.

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use zcopy::{Side, Strategy, Transfer};

use super::assert_nothing_lost;
use crate::endpoints::{Source, SourceKind};
use crate::files::{contents, file, file_in, pattern};
use crate::mounts::{Fs, Root, loop_mount, mount_tmpfs};
use crate::options::MaybeOptions as _;
use crate::strategies::{assert_served, every_strategy};

/// File systems of 8 MiB, each with its name.
fn small_disks() -> impl Iterator<Item = (&'static str, Root)> {
    let small = [("tmpfs", mount_tmpfs(8)), ("ext4", loop_mount("ext4", 8))];
    let mounted = small.into_iter();
    mounted.filter_map(|(name, root)| root.map(|root| (name, root)))
}

#[test]
fn promise_1_a_full_disk_loses_no_count() {
    for (name, root) in small_disks() {
        overfill(name, &root.dir());
        copy_within(name, &root.dir());
    }
}

/// If a transfer reserved a range of the file, the other would write behind it, and the full disk
/// would leave the range empty.
#[test]
fn promise_9_two_writers_of_one_open_file_fill_a_disk_without_a_gap() {
    for (name, root) in small_disks() {
        for round in 0..12 {
            let sink = file_in(&root.dir(), b"");
            std::thread::scope(|scope| {
                for byte in [b'a', b'b'] {
                    let shared = sink.try_clone().unwrap();
                    scope.spawn(move || {
                        let source = file(&vec![byte; 6 << 20]);
                        let error = Transfer::new(&source, &shared).run().err();
                        let is_full = error.is_none_or(|error| error.side() == Side::Sink);
                        assert!(is_full);
                    });
                }
            });
            let found = contents(&sink);
            assert!(!found.contains(&0), "{name}, round {round}");
        }
    }
}

/// Moves 12 MiB from another file system.
fn overfill(name: &str, dir: &Path) {
    let bytes = pattern(12 << 20);
    for from in [
        SourceKind::Regular(Fs::Ext4),
        SourceKind::Memfd,
        SourceKind::Pipe,
        SourceKind::UnixStream,
    ] {
        for strategy in every_strategy() {
            if !matches!(
                strategy,
                None | Some(Strategy::SplicePipe | Strategy::Buffered)
            ) {
                continue;
            }
            if let Some(source) = Source::new(from, &bytes) {
                let sink = file_in(dir, b"");
                let what = format!("{from:?} to {name}, {strategy:?}");
                assert_fails_with_enospc(source, &sink, strategy, &bytes, &what);
            }
        }
    }
}

/// Copies a file of 5 MiB on a file system that has less than 3 MiB left.
fn copy_within(name: &str, dir: &Path) {
    let bytes = pattern(5 << 20);
    for strategy in every_strategy() {
        if matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
        ) {
            continue;
        }
        let Some(mut source) = Source::new(SourceKind::Memfd, b"") else {
            continue;
        };
        source.fd = file_in(dir, &bytes).into();
        let sink = file_in(dir, b"");
        let what = format!("within {name}, {strategy:?}");
        assert_fails_with_enospc(source, &sink, strategy, &bytes, &what);
    }
}

fn assert_fails_with_enospc(
    source: Source,
    sink: &File,
    strategy: Option<Strategy>,
    bytes: &[u8],
    what: &str,
) {
    let transfer = Transfer::new(&source.fd, sink).maybe_strategy(strategy);
    let error = transfer.run().expect_err(what);
    assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
    let errno = Some(Errno::NOSPC.raw_os_error());
    assert_eq!(error.raw_os_error(), errno, "{what}: {error:#}");
    assert_served(error.report(), strategy, what);
    // The plan reserves nothing of a disk that is nearly full, and reads and writes.
    let arrived = contents(sink);
    assert!(!arrived.is_empty(), "{what}");
    assert_nothing_lost(&error, source, &arrived, bytes, what);
    // A child process that another test is starting may hold the file a little longer.
    sink.set_len(0).unwrap();
}
