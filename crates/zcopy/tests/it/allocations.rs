//! A transfer allocates a buffer and the list of its attempts, once.

use std::fs::File;
use std::io::{Write, pipe};
use std::thread;

use allocation_counter::measure;
use zcopy::{Strategy, Transfer};

use crate::endpoints::{SinkKind, SourceKind, null};
use crate::refused::allowed;
use crate::strategies::serves;

/// Room for the list of attempts and the boxes of a report.
const OTHER_BYTES: u64 = 4096;
const BUFFER: u64 = 256 << 10;

/// Moves `bytes` zeros by `strategy`. Returns the number of allocations and the most bytes
/// allocated at a time.
fn allocated(strategy: Strategy, bytes: u64) -> (u64, u64) {
    let zeros = File::open("/dev/zero").unwrap();
    let sink = null();
    let info = measure(|| {
        let report = Transfer::new(&zeros, &sink)
            .limit(bytes)
            .strategy(strategy)
            .run()
            .unwrap();
        assert_eq!((report.bytes(), report.strategy()), (bytes, Some(strategy)));
    });
    (info.count_total, info.bytes_max)
}

#[test]
fn a_step_allocates_nothing() {
    let strategies = [Strategy::Sendfile, Strategy::SplicePipe, Strategy::Buffered];
    let are_served = |strategy: &Strategy| serves(*strategy, SourceKind::Zero, SinkKind::Null);
    for strategy in allowed(strategies).filter(are_served) {
        let (few, _) = allocated(strategy, 1 << 20);
        let (many, most) = allocated(strategy, 256 << 20);
        assert_eq!(few, many, "{strategy}: 256 times the bytes");
        assert!(most <= BUFFER + OTHER_BYTES, "{strategy}: {most} bytes");
    }
}

#[test]
fn a_stream_allocates_one_small_and_one_full_buffer_at_most() {
    let (reader, mut writer) = pipe().unwrap();
    let sink = null();
    let feeder = thread::spawn(move || writer.write_all(&vec![7; 16 << 20]).unwrap());
    let info = measure(|| {
        let report = Transfer::new(&reader, &sink).inspect(|_| ()).run().unwrap();
        assert_eq!(report.strategy(), Some(Strategy::Buffered));
    });
    feeder.join().unwrap();
    assert!(info.count_total < 16, "{} allocations", info.count_total);
    assert!(
        info.bytes_max <= BUFFER + OTHER_BYTES,
        "{} bytes",
        info.bytes_max
    );
}
