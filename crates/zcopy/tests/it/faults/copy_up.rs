//! Files of an overlay that are copied from the lower layer to the upper one during a transfer. The
//! kernel does this when a process opens the file for writing.
//!
//! Since Linux 4.19 a descriptor that was opened before reads the file in the upper layer from then
//! on ([overlayfs](https://docs.kernel.org/filesystems/overlayfs.html#non-standard-behavior): only a
//! shared mapping keeps the old one). A transfer therefore gets what any other reader gets.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use zcopy::{Ended, Reflink, Report, Strategy, Transfer};

use super::{LEN, run_with_fault};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind};
use crate::files::{appending, assert_same, contents, cursor, file_in, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::overlay::Overlay;
use crate::refused::{first_allowed, is_allowed};
use crate::strategies::{assert_served, strategies_for};

/// The file systems of the layers.
const LAYERS: [Fs; 3] = [Fs::Ext4, Fs::Xfs, Fs::Tmpfs];

/// Another file system than those of the layers: it determines the strategies.
const ELSEWHERE: Fs = Fs::Btrfs;

fn open_to_write(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

/// Moves a file of the lower layer to each kind of sink by each strategy. `change` gets its path
/// after the first step, and `check` what arrived and how many bytes had moved before the change.
fn copy_while(change: impl Fn(&Path) + Sync, check: impl Fn(&[u8], usize, &str)) {
    let bytes = pattern(LEN);
    let sinks = [
        SinkKind::Pipe,
        SinkKind::UnixStream,
        SinkKind::Regular(Fs::Tmpfs),
    ];
    let from = SourceKind::Regular(ELSEWHERE);
    let cases: Vec<_> = sinks
        .into_iter()
        .flat_map(|to| strategies_for(from, to).map(move |strategy| (to, strategy)))
        .collect();
    for layers in LAYERS {
        let Some(overlay) = Overlay::new(layers, cases.len(), &bytes) else {
            continue;
        };
        for (n, (to, strategy)) in cases.iter().copied().enumerate() {
            let what = format!("{layers:?} to {to:?}, {strategy:?}");
            let Some(sink) = Sink::new(to) else {
                continue;
            };
            let source = File::open(overlay.file(n)).unwrap();
            let transfer = Transfer::new(&source, &sink.fd).maybe_strategy(strategy);
            let (outcome, moved) = run_with_fault(transfer, || change(&overlay.file(n)));
            let report = outcome.unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.ended(), Ended::Eof, "{what}\n{report:#}");
            assert_served(&report, strategy, &what);
            assert_eq!(cursor(&source), report.bytes(), "{what}");
            let arrived = sink.into_bytes(report.bytes()).unwrap();
            assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
            check(&arrived, usize::try_from(moved).unwrap(), &what);
            assert_same(&overlay.lower(n), &bytes, &what);
        }
    }
}

#[test]
fn a_source_that_is_copied_up_in_mid_copy_arrives_whole() {
    copy_while(
        |path| drop(open_to_write(path)),
        |arrived, _, what| assert_same(arrived, &pattern(LEN), what),
    );
}

#[test]
fn a_source_that_is_replaced_in_mid_copy_arrives_as_it_was() {
    copy_while(
        |path| {
            let new = path.with_extension("new");
            std::fs::write(&new, "new").unwrap();
            std::fs::rename(&new, path).unwrap();
        },
        |arrived, _, what| assert_same(arrived, &pattern(LEN), what),
    );
}

/// The bytes in flight may still be those of the lower layer.
const IN_FLIGHT: usize = 1 << 20;

#[test]
fn a_source_that_is_copied_up_and_changed_arrives_as_other_readers_see_it() {
    copy_while(
        |path| open_to_write(path).write_all_at(&vec![0; LEN], 0).unwrap(),
        |arrived, moved, what| {
            assert_eq!(arrived.len(), LEN, "{what}");
            let old = pattern(LEN);
            // No word of the pattern is all zeros.
            let words = arrived.chunks(8).zip(old.chunks(8));
            let n_old = 8 * words.take_while(|(found, old)| found == old).count();
            let is_at_change = (moved..=moved + IN_FLIGHT).contains(&n_old);
            assert!(is_at_change, "{what}: {n_old}, changed after {moved}");
            assert_same(&arrived[n_old..], &vec![0; LEN - n_old], what);
        },
    );
}

#[test]
fn a_source_that_is_copied_up_and_cut_ends_where_it_was_cut() {
    const CUT: usize = 2 << 20;
    copy_while(
        |path| open_to_write(path).set_len(CUT as u64).unwrap(),
        |arrived, moved, what| {
            let most = CUT.max(moved + IN_FLIGHT);
            assert!((CUT..=most).contains(&arrived.len()), "{what}");
            assert_same(arrived, &pattern(LEN)[..arrived.len()], what);
        },
    );
}

#[track_caller]
fn assert_whole(outcome: zcopy::Result<Report>, len: usize, what: &str) -> Report {
    let report = outcome.unwrap_or_else(|error| panic!("{what}: {error:#}"));
    let found = (report.bytes(), report.ended());
    assert_eq!(found, (len as u64, Ended::Eof), "{what}\n{report:#}");
    report
}

#[test]
fn files_of_an_overlay_are_copied_by_their_file_system() {
    let bytes = pattern(LEN);
    for layers in Fs::ALL {
        let strategies = [
            None,
            Some(Strategy::Reflink),
            Some(Strategy::CopyFileRange),
            Some(Strategy::SplicePipe),
            Some(Strategy::Buffered),
        ];
        let cases: Vec<_> = strategies
            .into_iter()
            .filter(|strategy| is_allowed(*strategy))
            .flat_map(|strategy| [(strategy, false), (strategy, true)])
            .collect();
        let Some(overlay) = Overlay::new(layers, cases.len(), &bytes) else {
            continue;
        };
        for (n, (strategy, is_copied_up)) in cases.into_iter().enumerate() {
            let what = format!("{layers:?}, {strategy:?}, copied up: {is_copied_up}");
            let source = File::open(overlay.file(n)).unwrap();
            if is_copied_up {
                drop(open_to_write(&overlay.file(n)));
            }
            let sink = file_in(&overlay.dir(), b"");
            let outcome = Transfer::new(&source, &sink).maybe_strategy(strategy).run();
            let can_share = matches!(layers, Fs::Xfs | Fs::Btrfs);
            if strategy == Some(Strategy::Reflink) && !can_share {
                let error = outcome.unwrap_err();
                assert!(error.is_unsuitable(), "{what}: {error:#}");
                assert_eq!(error.bytes(), 0, "{what}: {error:#}");
                assert_eq!(contents(&sink), b"", "{what}");
                continue;
            }
            let report = assert_whole(outcome, LEN, &what);
            let order = [
                Strategy::Reflink,
                Strategy::CopyFileRange,
                Strategy::SplicePipe,
            ];
            let planned = first_allowed(if can_share { &order } else { &order[1..] });
            assert_served(&report, strategy.or(Some(planned)), &what);
            assert_same(&contents(&sink), &bytes, &what);
            assert_same(&overlay.lower(n), &bytes, &what);
        }
    }
}

#[test]
fn files_of_an_overlay_always_share_blocks_or_the_request_fails() {
    let bytes = pattern(LEN);
    for layers in Fs::ALL {
        let Some(overlay) = Overlay::new(layers, 1, &bytes) else {
            continue;
        };
        let source = File::open(overlay.file(0)).unwrap();
        let sink = file_in(&overlay.dir(), b"");
        let transfer = Transfer::new(&source, &sink).reflink(Reflink::Always);
        let outcome = transfer.run();
        let what = format!("{layers:?}");
        if is_allowed(Strategy::Reflink) && matches!(layers, Fs::Xfs | Fs::Btrfs) {
            let report = assert_whole(outcome, LEN, &what);
            assert_eq!(report.strategy(), Some(Strategy::Reflink), "{what}");
            assert_same(&contents(&sink), &bytes, &what);
        } else {
            let error = outcome.unwrap_err();
            assert!(error.is_unsuitable(), "{what}: {error:#}");
            assert_eq!(contents(&sink), b"", "{what}");
        }
    }
}

/// Opening the sink copies it up.
#[test]
fn a_sink_in_the_lower_layer_takes_bytes_at_offsets_and_at_its_end() {
    const AT: usize = 100_003;
    let old = pattern(LEN);
    let new: Vec<_> = old.iter().map(|byte| !byte).collect();
    let kinds = [SinkKind::Regular(Fs::Tmpfs), SinkKind::Append];
    let sources = [SourceKind::Regular(ELSEWHERE), SourceKind::Pipe];
    let cases: Vec<_> = kinds
        .into_iter()
        .flat_map(|to| sources.map(|from| (from, to)))
        .flat_map(|(from, to)| strategies_for(from, to).map(move |strategy| (from, to, strategy)))
        .collect();
    for layers in LAYERS {
        let Some(overlay) = Overlay::new(layers, cases.len(), &old) else {
            continue;
        };
        for (n, (from, to, strategy)) in cases.iter().copied().enumerate() {
            let what = format!("{from:?} to {layers:?}, {to:?}, {strategy:?}");
            let Some(source) = Source::new(from, &new) else {
                continue;
            };
            let file = open_to_write(&overlay.file(n));
            let (outcome, expected) = if to == SinkKind::Append {
                let sink = appending(&file);
                let transfer = Transfer::new(&source.fd, &sink).maybe_strategy(strategy);
                (transfer.run(), [&old[..], &new].concat())
            } else {
                let transfer = Transfer::new(&source.fd, &file).maybe_strategy(strategy);
                let outcome = transfer.sink_offset(AT as u64).run();
                (outcome, [&old[..AT], &new].concat())
            };
            let report = assert_whole(outcome, LEN, &what);
            assert_served(&report, strategy, &what);
            let found = std::fs::read(overlay.file(n)).unwrap();
            assert_same(&found, &expected, &what);
            assert_same(&overlay.lower(n), &old, &what);
        }
    }
}

/// The source was opened in the lower layer, and the sink in the upper one.
#[test]
fn a_file_of_an_overlay_is_not_copied_to_its_own_end() {
    let Some(overlay) = Overlay::new(Fs::Tmpfs, 1, b"hello") else {
        return;
    };
    let source = File::open(overlay.file(0)).unwrap();
    let sink = OpenOptions::new().append(true).open(overlay.file(0));
    let error = Transfer::new(&source, &sink.unwrap()).run().unwrap_err();
    assert!(error.is_refused(), "{error:#}");
    assert_eq!(std::fs::read(overlay.file(0)).unwrap(), b"hello");
}
