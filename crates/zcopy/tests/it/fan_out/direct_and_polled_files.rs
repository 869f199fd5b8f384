//! Files that need aligned memory, whole blocks, or a poll.

use std::fs::File;
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{Ended, Strategy, Transfer};

use crate::endpoints::null;
use crate::files::{assert_same, contents, cursor, file, file_in, pattern, reopen, set_cursor};
use crate::mounts::Fs;
use crate::skip::{is_root, skip};

const DIRECT: OFlags = OFlags::DIRECT.union(OFlags::RDWR);

#[test]
fn a_direct_sink_gets_aligned_memory_at_every_position() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    // The transfer is short, so that it is written; it has whole blocks, as a direct sink needs.
    let bytes = pattern(16 << 10);
    for direct_index in [0, 1, 2] {
        let source = file(&bytes);
        set_cursor(&source, 0);
        let files = [file_in(&dir, b""), file_in(&dir, b""), file_in(&dir, b"")];
        let mode = |it| {
            if it == direct_index {
                DIRECT
            } else {
                OFlags::RDWR
            }
        };
        let sinks = [0, 1, 2].map(|it| reopen(&files[it], mode(it)));
        let report = Transfer::new(&source, &sinks[0])
            .also_to(&sinks[1])
            .also_to(&sinks[2])
            .run()
            .unwrap_or_else(|error| panic!("direct at {direct_index}: {error:#}"));
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
        for file in &files {
            assert_same(&contents(file), &bytes, "each has everything");
        }
    }
}

#[test]
fn a_direct_source_is_not_read_past_the_limit() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern((1 << 20) + 777);
    let plain = file_in(&dir, &bytes);
    let source = reopen(&plain, DIRECT);
    set_cursor(&source, 0);
    let (sink, other) = (file(b""), file(b""));
    let limit = 300_001;
    let report = Transfer::new(&source, &sink)
        .also_to(&other)
        .limit(limit as u64)
        .inspect(|_| {})
        .run()
        .unwrap();
    assert_eq!(
        (report.bytes(), report.ended()),
        (limit as u64, Ended::Limit)
    );
    assert_same(&contents(&sink), &bytes[..limit], "the first");
    assert_same(&contents(&other), &bytes[..limit], "the second");
    assert_eq!(cursor(&source), limit as u64);
}

#[test]
fn a_file_that_claims_to_be_empty_and_blocks_is_polled() {
    if !is_root() {
        return;
    }
    let Ok(log) = File::open("/proc/kmsg") else {
        skip("/proc/kmsg cannot be read here");
        return;
    };
    let null = null();
    let report = Transfer::new(&log, &null)
        .also_to(&null)
        .tick(Duration::from_millis(1))
        .observe(|progress| match progress.blocked() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        })
        .run();
    assert_eq!(report.unwrap().ended(), Ended::Stopped);
}
