//! Pipes with different readers and of different capacities.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};
use zcopy::{Repeat, Strategy};

use super::{LARGE, endless, repeat};
use crate::endpoints::{Sink, SinkKind, pipe};
use crate::files::{assert_same, contents, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, first_allowed, is_allowed, needs};
use crate::strategies::{assert_served, moved_by};

/// Starts a thread that splices everything into a memfd.
fn splice_all(reader: OwnedFd, len: usize) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let memfd = rustix::fs::memfd_create("zcopy", MemfdFlags::CLOEXEC).unwrap();
        while splice(&reader, None, &memfd, None, len, SpliceFlags::empty()).unwrap() > 0 {}
        contents(&File::from(memfd))
    })
}

#[test]
fn a_reader_that_splices_gets_the_same_bytes() {
    if !needs(&[Strategy::Splice]) {
        return;
    }
    for len in [1, 3, 4097, (32 << 10) + 1, (1 << 20) + 3] {
        // One slot at a time, parts of slots, and as much as there is.
        for step in [4096, 10_000, 8 << 20] {
            let pattern = pattern(len);
            let (reader, writer) = pipe();
            let arrived = splice_all(reader, step);
            let limit = LARGE + 2 * len as u64;
            let report = Repeat::new(&pattern).limit(limit).run(&writer).unwrap();
            drop(writer);
            let what = format!("{len} bytes, by {step}: {report:#}");
            let by_tee = moved_by(&report, Strategy::Tee);
            assert_eq!(by_tee > 0, is_allowed(Strategy::Tee), "{what}");
            assert_same(&arrived.join().unwrap(), &endless(&pattern, limit), &what);
        }
    }
}

/// Each splice moves one slot, so that a pattern is split at almost every slot.
#[test]
fn a_sink_of_one_slot_is_enough() {
    for len in [1, 3, 4097, (1 << 20) + 3] {
        let pattern = pattern(len);
        for strategy in allowed([None, Some(Strategy::Tee), Some(Strategy::Buffered)]) {
            let sink = Sink::new(SinkKind::Pipe).unwrap();
            assert_eq!(fcntl_setpipe_size(&sink.fd, 4096), Ok(4096));
            let limit = LARGE + len as u64;
            let repeat = Repeat::new(&pattern)
                .limit(limit)
                .grow_pipes(false)
                .maybe_strategy(strategy);
            let report = repeat.run(&sink.fd).unwrap();
            assert_eq!(report.grown_sink(), None);
            let expected = strategy.unwrap_or(first_allowed(&[Strategy::Tee]));
            assert!(moved_by(&report, expected) > 0, "{report:#}");
            let arrived = sink.into_bytes(limit).unwrap();
            assert_same(&arrived, &endless(&pattern, limit), "one slot");
        }
    }
}

#[test]
fn both_modes_work_with_and_without_a_tick() {
    let pattern = pattern(4097);
    let expected = endless(&pattern, LARGE);
    for kind in [
        SinkKind::Pipe,
        SinkKind::Fifo,
        SinkKind::Tcp,
        SinkKind::UnixStream,
        SinkKind::Memfd,
    ] {
        for mode in [OFlags::empty(), OFlags::NONBLOCK] {
            for tick in [None, Some(Duration::from_secs(3600))] {
                for strategy in allowed([None, Some(Strategy::Tee), Some(Strategy::Buffered)]) {
                    let what = format!("{kind:?}, {mode:?}, {tick:?}, {strategy:?}");
                    let sink = Sink::new(kind).unwrap();
                    rustix::fs::fcntl_setfl(&sink.fd, mode).unwrap();
                    let repeat = Repeat::new(&pattern)
                        .limit(LARGE)
                        .maybe_tick(tick)
                        .maybe_strategy(strategy);
                    let report = repeat
                        .run(&sink.fd)
                        .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                    assert_eq!(report.bytes(), LARGE, "{what}");
                    assert_served(&report, strategy, &what);
                    assert_same(&sink.into_bytes(0).unwrap(), &expected, &what);
                }
            }
        }
    }
}

/// A message holds many repetitions of the pattern, up to the length that every socket family
/// takes.
#[test]
fn a_message_is_as_long_as_every_family_takes() {
    let (collect, sink) = crate::endpoints::unix(rustix::net::SocketType::SEQPACKET);
    let lines = pattern(1000);
    let report = Repeat::new(&lines).limit(100_000).run(&sink).unwrap();
    assert_eq!(report.strategy(), Some(Strategy::Buffered));
    drop(sink);
    let (mut arrived, mut longest) = (Vec::new(), 0);
    loop {
        let mut message = vec![0; 1 << 20];
        let n = rustix::io::read(&collect, &mut message).unwrap();
        longest = longest.max(n);
        arrived.extend_from_slice(&message[..n]);
        if n == 0 {
            break;
        }
    }
    assert!((30_000..=32 << 10).contains(&longest), "{longest} bytes");
    assert_same(&arrived, &endless(&lines, 100_000), "messages");
}

#[test]
fn a_long_repetition_reports_two_attempts() {
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    let report = repeat(b"y\n", 64 << 20, None, sink);
    let strategies: Vec<_> = report
        .attempts()
        .iter()
        .map(zcopy::Attempt::strategy)
        .collect();
    assert_eq!(strategies, [Strategy::Buffered, Strategy::Tee]);
    let [warm_up, _] = report.attempts() else {
        panic!("{report:#}");
    };
    if is_allowed(Strategy::Tee) {
        assert!(warm_up.bytes() <= 512 << 10, "{report:#}");
    }
}
