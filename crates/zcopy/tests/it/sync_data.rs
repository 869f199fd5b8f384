//! `fdatasync(2)` after each step, or at the end.

use zcopy::{Ended, SyncData, Transfer};

use crate::endpoints::{Sink, SinkKind};
use crate::files::{assert_same, contents, file, file_in, pattern};
use crate::mounts::Fs;
use crate::options::run_also_to;

#[test]
fn every_kind_of_sink_takes_a_transfer_that_syncs() {
    let bytes = pattern(300_000);
    let when = [SyncData::EachStep, SyncData::AtEnd];
    for (kind, when) in SinkKind::ALL
        .into_iter()
        .flat_map(|kind| when.map(|when| (kind, when)))
    {
        let Some(sink) = Sink::new(kind) else {
            continue;
        };
        let source = file(&bytes);
        let transfer = Transfer::new(&source, &sink.fd).sync_data(when);
        let report = transfer.run().unwrap();
        assert_eq!(
            (report.bytes(), report.ended()),
            (bytes.len() as u64, Ended::Eof),
            "{kind:?}"
        );
        if let Some(found) = sink.into_bytes(report.bytes()) {
            assert_same(&found, &bytes, &format!("{kind:?}"));
        }
    }
}

/// The unit tests show that each sync comes in time, because the simulated kernel records the calls
/// (`src/engine/pair/tests/syncing.rs`).
#[test]
fn each_step_can_be_synced_on_every_file_system_and_for_several_sinks() {
    let bytes = pattern(3 << 20);
    for fs in Fs::ALL {
        let Some(dir) = fs.dir() else {
            continue;
        };
        for to_two in [false, true] {
            let source = file(&bytes);
            let (sink, other) = (file_in(&dir, b""), file_in(&dir, b""));
            let transfer = Transfer::new(&source, &sink).sync_data(SyncData::EachStep);
            let report = run_also_to(transfer, to_two.then_some(&other)).unwrap();
            assert_eq!(report.bytes(), 3 << 20);
            assert_same(&contents(&sink), &bytes, &format!("{fs:?}"));
            if to_two {
                assert_same(&contents(&other), &bytes, &format!("{fs:?}"));
            }
        }
    }
}
