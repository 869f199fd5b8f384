//! `O_DIRECT`: the kernel accepts only whole blocks in aligned memory. Other bytes ([`unaligned`])
//! go through the same file, opened a second time.

use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use zcopy::{Ended, Strategy, Transfer};

use crate::files::{assert_same, contents, cursor, file, file_in, pattern, reopen, set_cursor};
use crate::mounts::{Device, Fs};
use crate::options::MaybeOptions as _;

mod unaligned;

/// The last block of the file is incomplete.
const LEN: usize = (3 << 20) + 777;
const DIRECT: OFlags = OFlags::DIRECT.union(OFlags::RDWR);

#[test]
fn a_direct_source_is_read_in_aligned_blocks() {
    let bytes = pattern(LEN);
    for fs in Fs::direct() {
        let Some(dir) = fs.dir() else {
            continue;
        };
        for strategy in [None, Some(Strategy::Buffered)] {
            for (limit, end) in [(u64::MAX, Ended::Eof), (1_000_001, Ended::Limit)] {
                for by_offset in [false, true] {
                    let what = format!("{fs:?}, {strategy:?}, {limit} bytes, {by_offset}");
                    let plain = file_in(&dir, &bytes);
                    let source = reopen(&plain, DIRECT);
                    let sink = file(b"");
                    set_cursor(&source, 4096);
                    let mut seen = 0;
                    let mut transfer = Transfer::new(&source, &sink).limit(limit);
                    if by_offset {
                        transfer = transfer.source_offset(4096);
                    }
                    match strategy {
                        Some(strategy) => transfer = transfer.strategy(strategy),
                        None => transfer = transfer.inspect(|bytes| seen += bytes.len() as u64),
                    }
                    let report = transfer
                        .run()
                        .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    let n = limit.min(LEN as u64 - 4096);
                    assert_eq!((report.bytes(), report.ended()), (n, end), "{what}");
                    assert_eq!(seen, if strategy.is_none() { n } else { 0 }, "{what}");
                    assert_eq!(report.strategy(), Some(Strategy::Buffered));
                    let expected = &bytes[4096..4096 + usize::try_from(n).unwrap()];
                    assert_same(&contents(&sink), expected, &what);
                    let at = if by_offset { 4096 } else { 4096 + n };
                    assert_eq!(cursor(&source), at, "{what}");
                }
            }
        }
    }
}

/// The file does not end with a whole block, so that the end is read and written, whatever the plan
/// begins with.
#[test]
fn a_direct_source_is_moved_whole_by_the_plan_at_any_rate() {
    let bytes = pattern(LEN);
    for fs in Fs::direct() {
        for rate in [None, Some(100 << 20)] {
            let Some(dir) = fs.dir() else {
                continue;
            };
            let plain = file_in(&dir, &bytes);
            let source = reopen(&plain, DIRECT);
            let sink = file(b"");
            let transfer = Transfer::new(&source, &sink).maybe_rate_limit(rate);
            let report = transfer.run().unwrap();
            assert_eq!((report.bytes(), report.ended()), (LEN as u64, Ended::Eof));
            assert_same(&contents(&sink), &bytes, &format!("{fs:?}, {rate:?}"));
        }
    }
}

#[test]
fn a_direct_block_device_is_read_to_its_end() {
    let Some(device) = Device::ForSource.get() else {
        return;
    };
    let device = device.lock().unwrap();
    let expected = {
        let mut bytes = vec![0; 8 << 20];
        device.write_all_at(&pattern(8 << 20), 0).unwrap();
        device.sync_all().unwrap();
        device.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    let source = reopen(&*device, OFlags::DIRECT);
    let sink = file(b"");
    let transfer = Transfer::new(&source, &sink).strategy(Strategy::Buffered);
    let report = transfer.run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (8 << 20, Ended::Eof));
    assert_same(&contents(&sink), &expected, "the device");
}

/// The blocks of the sink lie in several extents. A splice would write the first ones, and then
/// fail as a whole because of the incomplete block at the end. The transfer does not make such a
/// splice.
#[test]
fn a_direct_sink_holds_no_more_than_is_reported() {
    const BLOCK: usize = 4096;
    let bytes = pattern(20_000);
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let strategies = [
        Strategy::SplicePipe,
        Strategy::Sendfile,
        Strategy::CopyFileRange,
    ];
    for strategy in strategies {
        // Every other block is a hole.
        let plain = file_in(&dir, b"");
        let old = vec![0xff; 16 * BLOCK];
        let mut expected = vec![0; old.len()];
        for start in (0..old.len()).step_by(2 * BLOCK) {
            let block = start..start + BLOCK;
            plain
                .write_all_at(&old[block.clone()], start as u64)
                .unwrap();
            expected[block].fill(0xff);
        }
        plain.set_len(old.len() as u64).unwrap();
        plain.sync_all().unwrap();
        let sink = reopen(&plain, DIRECT);
        let source = file_in(&dir, &bytes);
        let error = Transfer::new(&source, &sink).strategy(strategy).run();
        let n = usize::try_from(error.expect_err("the last block is incomplete").bytes()).unwrap();
        expected[..n].copy_from_slice(&bytes[..n]);
        assert_same(&contents(&plain), &expected, &format!("{strategy}"));
        assert_eq!((cursor(&source), cursor(&sink)), (n as u64, n as u64));
    }
}
