//! Descriptors that are open with `O_DIRECT`, and offsets and lengths that are not whole blocks.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use zcopy::{Ended, Repeat, Side, SyncData, Transfer};

use super::DIRECT;
use crate::endpoints::pipe;
use crate::files::{
    assert_same, contents, cursor, file, file_in, pattern, read_to_end, reopen, set_cursor,
    write_all,
};
use crate::mounts::{Device, Fs};

/// The length of [`Device::ForSink`].
const DEVICE_LEN: u64 = 8 << 20;
const LENGTHS: [usize; 9] = [0, 1, 511, 512, 513, 4095, 4096, 4097, (1 << 20) + 7];
const OFFSETS: [usize; 5] = [0, 100, 512, 4096, 4097];

/// The source of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceType {
    File,
    /// Open with `O_DIRECT`, with its cursor at 0.
    DirectFile,
    /// Open with `O_DIRECT`, with its cursor at the offset where the sink begins.
    UnalignedDirectFile,
    /// Written in pieces of odd lengths.
    Pipe,
}

impl SourceType {
    const ALL: [Self; 4] = [
        Self::File,
        Self::DirectFile,
        Self::UnalignedDirectFile,
        Self::Pipe,
    ];
}

/// The reader of a pipe into which a thread writes these bytes in pieces of odd lengths.
fn pipe_with_odd_pieces(bytes: &[u8]) -> OwnedFd {
    let (source, writer) = pipe();
    let bytes = bytes.to_vec();
    thread::spawn(move || {
        let mut rest = &bytes[..];
        for piece in [1, 4095, 7, 513, 70_001, 4096, 3].into_iter().cycle() {
            let (now, later) = rest.split_at(rest.len().min(piece));
            if rest.is_empty() || !write_all(&writer, now) {
                break;
            }
            rest = later;
        }
    });
    source
}

/// The bytes that a sink holds before the transfer.
fn old_bytes(len: usize) -> Vec<u8> {
    vec![0xa5; len]
}

/// The old bytes with these bytes written over them at an offset.
fn written_over(old: &[u8], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut all = old.to_vec();
    all.resize(all.len().max(offset + bytes.len()), 0);
    all[offset..offset + bytes.len()].copy_from_slice(bytes);
    all
}

fn moves_to_a_direct_sink(fs: Fs) {
    if let Some(dir) = fs.dir() {
        for from in SourceType::ALL {
            moves_from(from, fs, &dir);
        }
    }
}

fn moves_from(from: SourceType, fs: Fs, dir: &Path) {
    for (index, len) in LENGTHS.into_iter().enumerate() {
        for offset in OFFSETS {
            for by_offset in [false, true] {
                let what = format!("{fs:?}, {from:?}, {len} bytes to {offset}, {by_offset}");
                let bytes = pattern(len);
                // Some sinks are longer than the bytes that are written.
                let old = old_bytes([0, 6000, 1_100_000][index % 3]);
                let plain = file_in(dir, &old);
                let sink = reopen(&plain, DIRECT);
                let flags = rustix::fs::fcntl_getfl(&sink).unwrap();
                let source_start = if from == SourceType::UnalignedDirectFile {
                    offset
                } else {
                    0
                };
                let source = match from {
                    SourceType::Pipe => pipe_with_odd_pieces(&bytes),
                    SourceType::File => reopen(&file(&bytes), OFlags::RDONLY),
                    SourceType::DirectFile | SourceType::UnalignedDirectFile => {
                        let source = file_in(dir, &written_over(&[], source_start, &bytes));
                        let source = reopen(&source, DIRECT);
                        set_cursor(&source, source_start as u64);
                        source
                    }
                };
                let mut transfer = Transfer::new(&source, &sink);
                if by_offset {
                    transfer = transfer.sink_offset(offset as u64);
                } else {
                    set_cursor(&sink, offset as u64);
                }
                let report = transfer
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}\n{:#}", error.report()));
                let found = (report.bytes(), report.ended());
                assert_eq!(found, (len as u64, Ended::Eof), "{what}");
                let expected = match len {
                    0 => old,
                    _ => written_over(&old, offset, &bytes),
                };
                assert_same(&contents(&plain), &expected, &what);
                let end = if by_offset { 0 } else { offset + len };
                assert_eq!(cursor(&sink), end as u64, "{what}");
                if from != SourceType::Pipe {
                    assert_eq!(cursor(&source), (source_start + len) as u64, "{what}");
                }
                assert_eq!(rustix::fs::fcntl_getfl(&sink), Ok(flags), "{what}");
            }
        }
    }
}

#[test]
fn a_direct_sink_on_ext4_takes_any_length_at_any_offset() {
    moves_to_a_direct_sink(Fs::Ext4);
}

#[test]
fn a_direct_sink_on_xfs_takes_any_length_at_any_offset() {
    moves_to_a_direct_sink(Fs::Xfs);
}

#[test]
fn a_direct_sink_on_btrfs_takes_any_length_at_any_offset() {
    moves_to_a_direct_sink(Fs::Btrfs);
}

#[test]
fn a_direct_sink_on_tmpfs_takes_any_length_at_any_offset() {
    if Fs::direct().any(|fs| fs == Fs::Tmpfs) {
        moves_to_a_direct_sink(Fs::Tmpfs);
    }
}

#[test]
fn a_direct_source_is_read_from_any_offset_to_any_limit() {
    let bytes = pattern((1 << 20) + 777);
    for fs in Fs::direct() {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let plain = file_in(&dir, &bytes);
        for offset in OFFSETS {
            for limit in [1, 511, 4096, 5000, 300_001, u64::MAX] {
                for by_offset in [false, true] {
                    let what = format!("{fs:?}, {limit} bytes from {offset}, {by_offset}");
                    let source = reopen(&plain, DIRECT);
                    let sink = file(b"");
                    let mut transfer = Transfer::new(&source, &sink).limit(limit);
                    if by_offset {
                        transfer = transfer.source_offset(offset as u64);
                    } else {
                        set_cursor(&source, offset as u64);
                    }
                    let report = transfer
                        .run()
                        .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    let n = limit.min((bytes.len() - offset) as u64);
                    assert_eq!(report.bytes(), n, "{what}");
                    let n = usize::try_from(n).unwrap();
                    assert_same(&contents(&sink), &bytes[offset..offset + n], &what);
                    let end = if by_offset { 0 } else { offset + n };
                    assert_eq!(cursor(&source), end as u64, "{what}");
                }
            }
        }
    }
}

/// Each transfer begins where the one before ended, also within a block.
#[test]
fn transfers_to_one_direct_sink_continue_where_the_last_one_ended() {
    let bytes = pattern(100_000);
    for fs in Fs::direct() {
        let Some(dir) = fs.dir() else {
            continue;
        };
        for appends in [false, true] {
            let plain = file_in(&dir, b"");
            let flags = if appends {
                OFlags::APPEND
            } else {
                OFlags::empty()
            };
            let sink = reopen(&plain, DIRECT | flags);
            let source = file(&bytes);
            for limit in [1, 4095, 4096, 3000, 50_000, u64::MAX] {
                let transfer = Transfer::new(&source, &sink).limit(limit);
                transfer.run().unwrap_or_else(|error| {
                    panic!(
                        "{fs:?}, {appends}, {limit}: {error:#}\n{:#}",
                        error.report()
                    )
                });
                assert_eq!(cursor(&sink), cursor(&source), "{fs:?}, {appends}");
            }
            assert_same(&contents(&plain), &bytes, &format!("{fs:?}, {appends}"));
        }
    }
}

#[test]
fn a_direct_block_device_takes_any_length_at_any_offset() {
    let Some(device) = Device::ForSink.get() else {
        return;
    };
    let device = device.lock().unwrap();
    let old = old_bytes(3 << 20);
    for len in LENGTHS {
        for offset in OFFSETS {
            for from_pipe in [false, true] {
                let what = format!("{len} bytes to {offset}, {from_pipe}");
                device.write_all_at(&old, 0).unwrap();
                let sink = reopen(&*device, DIRECT);
                set_cursor(&sink, offset as u64);
                let bytes = pattern(len);
                let source = if from_pipe {
                    pipe_with_odd_pieces(&bytes)
                } else {
                    reopen(&file(&bytes), OFlags::RDONLY)
                };
                let transfer = Transfer::new(&source, &sink).sync_data(SyncData::EachStep);
                let report = transfer
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}\n{:#}", error.report()));
                assert_eq!(report.bytes(), len as u64, "{what}");
                assert_eq!(cursor(&sink), (offset + len) as u64, "{what}");
                let mut found = vec![0; old.len()];
                device.read_exact_at(&mut found, 0).unwrap();
                assert_same(&found, &written_over(&old, offset, &bytes), &what);
            }
        }
    }
}

#[test]
fn bytes_that_a_full_direct_device_does_not_take_are_handed_back() {
    let Some(device) = Device::ForSink.get() else {
        return;
    };
    let device = device.lock().unwrap();
    let bytes = pattern(300_000);
    for room in [0, 1, 100, 4096, 10_000, 200_001] {
        let sink = reopen(&*device, DIRECT);
        let offset = DEVICE_LEN - room;
        set_cursor(&sink, offset);
        let source = pipe_with_odd_pieces(&bytes);
        let error = Transfer::new(&source, &sink).run().unwrap_err();
        let what = format!("room for {room}: {error:#}");
        assert_eq!(error.side(), Side::Sink, "{what}");
        assert_eq!(
            error.io_error_kind(),
            std::io::ErrorKind::StorageFull,
            "{what}"
        );
        assert_eq!(error.bytes(), room, "{what}");
        assert_eq!(cursor(&sink), DEVICE_LEN, "{what}");
        let n = usize::try_from(room).unwrap();
        let mut found = vec![0; n];
        device.read_exact_at(&mut found, offset).unwrap();
        let rest = [error.undelivered(), &read_to_end(&source)].concat();
        assert_same(&[found, rest].concat(), &bytes, &what);
    }
}

/// The buffer holds an incomplete block; the observer is called nevertheless, and can stop the
/// transfer.
#[test]
fn ticks_continue_while_a_block_is_incomplete_and_a_stop_hands_it_back() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let plain = file_in(&dir, b"");
    let sink = reopen(&plain, DIRECT);
    let (source, writer) = pipe();
    let bytes = pattern(5000);
    assert!(write_all(&writer, &bytes));
    let mut n_ticks = 0;
    let report = Transfer::new(&source, &sink)
        .tick(Duration::from_millis(1))
        .observe(|progress| {
            n_ticks += u32::from(progress.blocked() == Some(Side::Source));
            if n_ticks < 5 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (4096, Ended::Stopped));
    assert_eq!(report.undelivered(), &bytes[4096..]);
    assert_same(&contents(&plain), &bytes[..4096], "the whole block");
}

#[test]
fn no_more_is_taken_from_a_pipe_than_the_limit_says() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(20_000);
    for limit in [1, 4095, 4096, 4097, 12_345] {
        let plain = file_in(&dir, b"");
        let sink = reopen(&plain, DIRECT);
        let source = pipe_with_odd_pieces(&bytes);
        let report = Transfer::new(&source, &sink).limit(limit).run().unwrap();
        assert_eq!((report.bytes(), report.ended()), (limit, Ended::Limit));
        let (given, kept) = bytes.split_at(usize::try_from(limit).unwrap());
        assert_same(&contents(&plain), given, &format!("{limit}"));
        assert_same(&read_to_end(&source), kept, &format!("{limit}"));
    }
}

/// Bytes that wait for a whole block are in flight all the time; the rate is kept nevertheless.
#[test]
fn a_direct_sink_keeps_to_the_rate() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(1_000_001);
    let plain = file_in(&dir, b"");
    let sink = reopen(&plain, DIRECT);
    let source = pipe_with_odd_pieces(&bytes);
    let start = Instant::now();
    let transfer = Transfer::new(&source, &sink).rate_limit(2_000_000);
    assert_eq!(transfer.run().unwrap().bytes(), bytes.len() as u64);
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(450), "{took:?}");
    assert_same(&contents(&plain), &bytes, "the file");
}

#[test]
fn several_direct_sinks_take_any_length() {
    let bytes = pattern(300_001);
    for fs in Fs::direct() {
        let Some(dir) = fs.dir() else {
            continue;
        };
        for from_pipe in [false, true] {
            let what = format!("{fs:?}, {from_pipe}");
            let source = if from_pipe {
                pipe_with_odd_pieces(&bytes)
            } else {
                let source = reopen(&file_in(&dir, &[&[7; 5], &bytes[..]].concat()), DIRECT);
                set_cursor(&source, 5);
                source
            };
            let plain = [file_in(&dir, b""), file_in(&dir, b"")];
            let [one, other] = plain.each_ref().map(|plain| reopen(plain, DIRECT));
            set_cursor(&other, 3);
            let transfer = Transfer::new(&source, &one).also_to(&other);
            let report = transfer
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}\n{:#}", error.report()));
            assert_eq!(report.bytes(), bytes.len() as u64, "{what}");
            assert_same(&contents(&plain[0]), &bytes, &what);
            assert_same(&contents(&plain[1])[3..], &bytes, &what);
            assert_eq!(cursor(&one) + 3, cursor(&other), "{what}");
        }
    }
}

#[test]
fn a_pattern_is_repeated_into_a_direct_sink() {
    for fs in Fs::direct() {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let plain: File = file_in(&dir, b"");
        let sink = reopen(&plain, DIRECT);
        let report = Repeat::new("abc").limit(700_001).run(&sink).unwrap();
        assert_eq!(report.bytes(), 700_001);
        let expected = b"abc".repeat(240_000);
        assert_same(&contents(&plain), &expected[..700_001], &format!("{fs:?}"));
    }
}
