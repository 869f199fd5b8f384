//! A sink that gets the immutable attribute in mid-copy.
//!
//! ext4 fails each later write with `EPERM`, although the descriptor was open before. The other file
//! systems ask at open alone, and go on. `copy_file_range(2)` and clones always ask.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use zcopy::{Strategy, Transfer};

use super::{LEN, assert_sink_failed, run_with_fault, sparse_source_in};
use crate::endpoints::{SinkKind, Source, SourceKind};
use crate::files::{assert_same, contents, cursor, file_in, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::promises::assert_nothing_lost;
use crate::skip::{is_root, report};
use crate::strategies::{assert_served, strategies_for};

/// Sets or clears the attribute. Returns false if the file system has none.
fn set_immutable(file: &File, immutable: bool) -> bool {
    let flags = ioctl_getflags(file);
    flags.is_ok_and(|mut flags| {
        flags.set(IFlags::IMMUTABLE, immutable);
        ioctl_setflags(file, flags).is_ok()
    })
}

#[test]
fn a_sink_that_becomes_immutable_in_mid_copy_gets_every_byte_or_is_counted_to_the_byte() {
    if !is_root() {
        return;
    }
    for fs in Fs::ALL {
        let mut others = Fs::ALL.into_iter().filter(|other| *other != fs);
        let other = others.next_back().unwrap();
        for from in [
            SourceKind::Regular(other),
            SourceKind::Regular(fs),
            SourceKind::Pipe,
        ] {
            for strategy in strategies_for(from, SinkKind::Regular(fs)) {
                become_immutable(fs, from, strategy);
            }
        }
    }
}

fn become_immutable(fs: Fs, from: SourceKind, strategy: Option<Strategy>) {
    let what = format!("{from:?} to {fs:?}, {strategy:?}");
    let Some(dir) = fs.dir() else {
        return;
    };
    let source_and_bytes = if from == SourceKind::Regular(fs) {
        sparse_source_in(&dir)
    } else {
        let bytes = pattern(LEN);
        Source::new(from, &bytes).map(|source| (source, bytes))
    };
    let Some((source, bytes)) = source_and_bytes else {
        return;
    };
    let sink = file_in(&dir, b"");
    let (mut is_immutable, mut takes_writes) = (false, false);
    let transfer = Transfer::new(&source.fd, &sink)
        .limit(bytes.len() as u64)
        .maybe_strategy(strategy);
    let (outcome, moved) = run_with_fault(transfer, || {
        is_immutable = set_immutable(&sink, true);
        takes_writes = sink.write_at(&bytes[..1], 0).is_ok();
    });
    if !is_immutable {
        report(&format!("{fs:?} has no immutable files here"));
        return;
    }
    assert!(set_immutable(&sink, false), "{what}");
    assert_eq!(takes_writes, fs != Fs::Ext4, "{what}");
    let always_asks = matches!(strategy, Some(Strategy::Reflink | Strategy::CopyFileRange));
    if takes_writes && !always_asks {
        let report = outcome.unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert_eq!(report.bytes(), bytes.len() as u64, "{what}\n{report:#}");
        assert_served(&report, strategy, &what);
        assert_same(&contents(&sink), &bytes, &what);
        assert_eq!(cursor(&sink), bytes.len() as u64, "{what}");
        return;
    }
    let error = outcome.expect_err(&what);
    assert_sink_failed(&error, Errno::PERM, strategy, &what);
    if takes_writes {
        // A write has given the hole its length.
        assert!(error.bytes() >= moved, "{what}: {error:#}");
    } else {
        assert_eq!(error.bytes(), moved, "{what}: {error:#}");
    }
    assert_eq!(cursor(&sink), error.bytes(), "{what}");
    assert_nothing_lost(&error, source, &contents(&sink), &bytes, &what);
}
