//! Promise 6: no single call takes long, so that the observer is called, and can stop the transfer,
//! promptly.

use std::fs::File;
use std::ops::ControlFlow;

use std::os::fd::AsFd;
use zcopy::{Ended, Strategy, Transfer};

use crate::endpoints::{SinkKind, Source, SourceKind, null, pipe};
use crate::every_pair::LARGE;
use crate::files::{assert_same, contents, file_in, pattern, read_to_end};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::allowed;
use crate::strategies::{assert_served, every_strategy, serves, waits_for_readers};

#[test]
fn promise_6_no_step_to_a_device_moves_more_than_4_mib() {
    let zeros = File::open("/dev/zero").unwrap();
    let null = null();
    let memfd = Source::new(SourceKind::Memfd, &vec![1; 64 << 20]).unwrap();
    for strategy in allowed([
        None,
        Some(Strategy::Sendfile),
        Some(Strategy::SplicePipe),
        Some(Strategy::Buffered),
    ]) {
        if strategy.is_none_or(|strategy| serves(strategy, SourceKind::Zero, SinkKind::Null)) {
            let transfer = Transfer::new(&zeros, &null).limit(64 << 20);
            assert_steps(transfer, strategy, 4 << 20);
        }
        let transfer = Transfer::new(&memfd.fd, &null).source_offset(0);
        assert_steps(transfer, strategy, 4 << 20);
    }
}

/// A hole of 2⁶² bytes would take 2³⁶ steps of 64 MiB.
#[test]
fn promise_6_a_hole_is_stepped_over_promptly_and_ends() {
    let (Some(dir), len) = (Fs::Tmpfs.dir(), 1 << 62) else {
        return;
    };
    let source = file_in(&dir, b"data");
    source.set_len(len).unwrap();
    let sink = file_in(&dir, b"");
    let mut counts = Vec::new();
    let report = Transfer::new(&source, &sink)
        .rate_limit(1 << 20)
        .observe(|progress| {
            counts.push(progress.bytes());
            ControlFlow::Continue(())
        })
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (len, Ended::Eof));
    assert_eq!(report.hole_bytes(), len - 4096);
    assert_eq!(sink.metadata().unwrap().len(), len);
    let steps: Vec<_> = counts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps[..3], [64 << 20, 128 << 20, 256 << 20], "{steps:?}");
    assert!(steps.len() < 64, "{steps:?}");

    // The observer can stop the transfer between two steps.
    let sink = file_in(&dir, b"");
    let report = Transfer::new(&source, &sink)
        .source_offset(0)
        .observe(|progress| match progress.bytes() {
            0..100_000 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        })
        .run()
        .unwrap();
    assert_eq!(report.ended(), Ended::Stopped);
    assert_eq!(report.bytes(), (64 << 20) + 4096);
}

#[test]
fn promise_6_no_step_to_a_pipe_moves_more_than_4_mib() {
    let memfd = Source::new(SourceKind::Memfd, &vec![1; 64 << 20]).unwrap();
    for strategy in allowed([
        None,
        Some(Strategy::Sendfile),
        Some(Strategy::Splice),
        Some(Strategy::SplicePipe),
        Some(Strategy::Buffered),
    ]) {
        let (reader, sink) = pipe();
        let reader = std::thread::spawn(move || read_to_end(&reader).len());
        let transfer = Transfer::new(&memfd.fd, &sink).source_offset(0);
        assert_steps(transfer, strategy, 4 << 20);
        drop(sink);
        assert_eq!(reader.join().unwrap(), 64 << 20);
    }
}

#[test]
fn promise_6_no_step_between_files_moves_more_than_64_mib() {
    for fs in [Fs::Tmpfs, Fs::Btrfs] {
        let Some(dir) = fs.dir() else {
            continue;
        };
        // Data, because no call moves holes.
        let source = file_in(&dir, &vec![1; 140 << 20]);
        for strategy in every_strategy().filter(|strategy| match strategy {
            Some(Strategy::Splice | Strategy::Sendfile) => false,
            Some(Strategy::Reflink) => fs == Fs::Btrfs,
            Some(Strategy::CopyFileRange) | None => true,
            Some(_) => fs == Fs::Tmpfs,
        }) {
            let sink = file_in(&dir, b"");
            // The limit prevents a clone of the whole file.
            let transfer = Transfer::new(&source, &sink).source_offset(0);
            assert_steps(transfer.limit(139 << 20), strategy, 64 << 20);
        }
    }
}

/// Asserts that no step moves more than `most` bytes.
fn assert_steps(
    transfer: Transfer<'_, impl AsFd, impl AsFd>,
    strategy: Option<Strategy>,
    most: u64,
) {
    let mut before = 0;
    let mut longest_step = 0;
    let observed = transfer.maybe_strategy(strategy).observe(|progress| {
        longest_step = longest_step.max(progress.bytes() - before);
        before = progress.bytes();
        ControlFlow::Continue(())
    });
    let report = observed.run().unwrap();
    assert!(report.bytes() > 2 * most, "{report:#}");
    assert!(
        longest_step <= most,
        "{longest_step} bytes in one step\n{report:#}"
    );
    assert_eq!(before, report.bytes(), "the last step is observed too");
}

#[test]
fn promise_6_break_stops_after_the_step_with_everything_accounted_for() {
    let bytes = pattern(LARGE);
    for from in [
        SourceKind::Memfd,
        SourceKind::Pipe,
        SourceKind::Tcp,
        SourceKind::UnixStream,
    ] {
        for strategy in every_strategy() {
            let is_served = match strategy {
                Some(Strategy::Reflink | Strategy::CopyFileRange) => false,
                Some(Strategy::Sendfile) => from.has_cursor(),
                _ => true,
            };
            if !is_served || waits_for_readers(strategy) {
                continue;
            }
            for stop_at in [1, 2] {
                let what = format!("{from:?}, {strategy:?}, step {stop_at}");
                let source = Source::new(from, &bytes).unwrap();
                // The observer takes what a step brought; if it stops, the rest stays in the pipe.
                let (reader, sink) = pipe();
                rustix::pipe::fcntl_setpipe_size(&sink, 1 << 20).unwrap();
                let mut arrived = Vec::new();
                let mut drain_pipe = || {
                    let there = rustix::io::ioctl_fionread(&reader).unwrap();
                    let mut bytes = vec![0; usize::try_from(there).unwrap()];
                    rustix::io::read(&reader, &mut bytes).unwrap();
                    arrived.extend(bytes);
                };
                let mut steps = 0;
                let transfer = Transfer::new(&source.fd, &sink)
                    .observe(|_| {
                        drain_pipe();
                        steps += 1;
                        if steps == stop_at {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    })
                    .maybe_strategy(strategy);
                let report = transfer.run().unwrap();
                assert_eq!(steps, stop_at, "{what}");
                assert_eq!(report.ended(), Ended::Stopped, "{what}");
                assert_served(&report, strategy, &what);
                assert_eq!(report.bytes(), arrived.len() as u64, "{what}");
                if let Some(cursor) = source.cursor() {
                    assert_eq!(cursor, report.bytes(), "{what}");
                }
                let rest = source.into_rest();
                let all = [&arrived[..], report.undelivered(), &rest].concat();
                assert_same(&all, &bytes, &what);
            }
        }
    }
}

#[test]
fn promise_6_a_rate_limit_holds_to_the_byte_and_between_short_steps() {
    let bytes = pattern(200_000);
    let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
    let sink = crate::files::file(b"");
    let mut longest_step = 0;
    let mut before = 0;
    let report = Transfer::new(&source.fd, &sink)
        .rate_limit(1_000_000)
        .observe(|progress| {
            longest_step = longest_step.max(progress.bytes() - before);
            before = progress.bytes();
            ControlFlow::Continue(())
        })
        .run()
        .unwrap();
    assert_eq!((report.bytes(), report.ended()), (200_000, Ended::Eof));
    assert_eq!(report.strategy(), Some(report.attempts()[0].strategy()));
    assert!(
        longest_step <= 100_000,
        "a burst is a tenth of a second's worth"
    );
    assert_same(&contents(&sink), &bytes, "at a rate");
}
