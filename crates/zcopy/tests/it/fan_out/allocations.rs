//! The allocations of a transfer to several sinks do not depend on the number of bytes moved.

use allocation_counter::measure;
use zcopy::Strategy;

use super::to_all;
use crate::endpoints::{Sink, SinkKind, null};
use crate::files::{appending, file_in};
use crate::mounts::Fs;
use crate::refused::allowed;

const BUFFER: u64 = 256 << 10;
/// The most bytes that plan, attempts and reports may take.
const OTHER_BYTES: u64 = 16 << 10;

/// Moves a hole of this many bytes. Returns the number of allocations and the most bytes allocated
/// at a time.
fn allocated(strategy: Strategy, bytes: u64, is_appended_to: bool) -> Option<(u64, u64)> {
    let source = file_in(&Fs::Tmpfs.dir()?, b"");
    source.set_len(bytes).unwrap();
    let source = source.into();
    let pipes = (Sink::new(SinkKind::Pipe)?, Sink::new(SinkKind::UnixStream)?);
    let mut others = vec![null(), null()];
    if is_appended_to {
        others.push(appending(&null()));
    }
    let mut sinks = vec![&pipes.0.fd, &pipes.1.fd];
    sinks.extend(&others);
    let info = measure(|| {
        let report = to_all(&source, &sinks).strategy(strategy).run().unwrap();
        assert_eq!((report.bytes(), report.strategy()), (bytes, Some(strategy)));
    });
    Some((info.count_total, info.bytes_max))
}

#[test]
fn allocations_do_not_grow_with_the_data() {
    for strategy in allowed([Strategy::Tee, Strategy::Buffered]) {
        for is_appended_to in [false, true] {
            let what = format!("{strategy}, {is_appended_to}");
            let few = allocated(strategy, 1 << 20, is_appended_to);
            let many = allocated(strategy, 64 << 20, is_appended_to);
            let (Some((few, _)), Some((many, most))) = (few, many) else {
                return;
            };
            assert_eq!(few, many, "{what}: 64 times the bytes");
            // Even shared bytes end with a read, which confirms the end of the file.
            assert!(most <= BUFFER + OTHER_BYTES, "{what}: {most} bytes");
        }
    }
}
