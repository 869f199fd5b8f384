//! The sizes of the buffer and of the pipes that the caller requests.

use std::ops::ControlFlow;

use rustix::net::SocketType;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use zcopy::{Strategy, Transfer};

use crate::endpoints::{null, pipe, unix};
use crate::files::{assert_same, contents, file, pattern, read_to_end, write_all};
use crate::options::run_also_to;
use crate::refused::{allowed, is_allowed};

const MIB: usize = 1 << 20;

/// The longest step of a transfer of 8 MiB between two files.
fn longest_step(strategy: Strategy, buffer_size: usize) -> u64 {
    let bytes = pattern(8 * MIB);
    let (source, sink) = (file(&bytes), file(b""));
    let (mut last, mut longest) = (0, 0);
    let report = Transfer::new(&source, &sink)
        .strategy(strategy)
        .buffer_size(buffer_size)
        .observe(|progress| {
            longest = longest.max(progress.bytes() - last);
            last = progress.bytes();
            ControlFlow::Continue(())
        })
        .run()
        .unwrap();
    assert_eq!(report.strategy(), Some(strategy));
    assert_same(&contents(&sink), &bytes, &format!("{strategy}"));
    longest
}

#[test]
fn a_step_is_as_long_as_the_buffer_or_the_private_pipe() {
    for strategy in allowed([Strategy::Buffered, Strategy::SplicePipe]) {
        for (requested, step) in [
            (0, 4096),
            (1, 4096),
            (5000, 8192),
            (64 << 10, 64 << 10),
            (MIB - 1, MIB as u64),
        ] {
            assert_eq!(
                longest_step(strategy, requested),
                step,
                "{strategy}, {requested}"
            );
        }
    }
    assert_eq!(longest_step(Strategy::Buffered, 3 * MIB), 3 * MIB as u64);
    // The buffer is no larger than the file.
    assert_eq!(longest_step(Strategy::Buffered, usize::MAX), 8 * MIB as u64);
    // A user without the privilege for a large pipe gets a smaller one.
    let (_reader, large) = pipe();
    let granted = fcntl_setpipe_size(&large, 4 * MIB).unwrap_or(MIB);
    if is_allowed(Strategy::SplicePipe) {
        let longest = longest_step(Strategy::SplicePipe, 4 * MIB);
        assert_eq!(longest, granted as u64);
    }
}

/// A message that does not fit into the buffer would be truncated.
#[test]
fn a_message_finds_room_in_the_smallest_buffer() {
    let message = pattern(100_000);
    for to_two in [false, true] {
        let (source, sender) = unix(SocketType::SEQPACKET);
        rustix::io::write(&sender, &message).unwrap();
        drop(sender);
        let (sink, other) = (file(b""), file(b""));
        let transfer = Transfer::new(&source, &sink).buffer_size(1);
        let report = run_also_to(transfer, to_two.then_some(&other)).unwrap();
        assert_eq!(report.bytes(), message.len() as u64);
        assert_same(&contents(&sink), &message, "the message");
    }
}

/// The bytes of one read are written as one message, so that a read may not exceed the longest
/// message.
#[test]
fn a_large_buffer_makes_no_message_larger() {
    let bytes = pattern(MIB);
    let source = file(&bytes);
    let (reader, sink) = unix(SocketType::SEQPACKET);
    let reading = std::thread::spawn(move || read_to_end(&reader));
    let transfer = Transfer::new(&source, &sink).buffer_size(MIB);
    assert_eq!(transfer.run().unwrap().bytes(), MIB as u64);
    drop(sink);
    assert_same(&reading.join().unwrap(), &bytes, "the messages");
}

#[test]
fn pipes_are_enlarged_to_the_requested_size_and_never_shrunk() {
    let source = file(&pattern(100_000));
    let null = null();
    for to_two in [false, true] {
        for (old_size, requested, new_size) in [
            (64 << 10, 256 << 10, 256 << 10),
            (64 << 10, 200_000, 256 << 10),
            (64 << 10, 4096, 64 << 10),
            (64 << 10, 0, 64 << 10),
            (512 << 10, 256 << 10, 512 << 10),
        ] {
            let (reader, sink) = pipe();
            let reading = std::thread::spawn(move || read_to_end(&reader).len());
            fcntl_setpipe_size(&sink, old_size).unwrap();
            let transfer = Transfer::new(&source, &sink)
                .source_offset(0)
                .pipe_size(requested);
            let report = run_also_to(transfer, to_two.then_some(&null)).unwrap();
            let what = format!("{old_size} bytes, {requested} requested, {to_two}");
            assert_eq!(fcntl_getpipe_size(&sink), Ok(new_size), "{what}");
            let grown = Some(new_size).filter(|new_size| *new_size > old_size);
            assert_eq!(report.grown_sink(), grown, "{what}");
            drop(sink);
            assert_eq!(reading.join().unwrap(), 100_000);
        }
    }
    let (reader, sink) = pipe();
    let reading = std::thread::spawn(move || read_to_end(&reader).len());
    let transfer = Transfer::new(&source, &sink).pipe_size(MIB);
    assert_eq!(transfer.grow_pipes(false).run().unwrap().grown_sink(), None);
    drop(sink);
    assert_eq!(reading.join().unwrap(), 100_000);
}

/// If a user requests more than is allowed, the pipe gets the largest size that is allowed.
#[test]
fn a_pipe_larger_than_allowed_becomes_as_large_as_allowed() {
    let source = file(&pattern(100_000));
    let (_reader, sink) = pipe();
    let transfer = Transfer::new(&source, &sink);
    let grown = transfer.pipe_size(usize::MAX).run().unwrap().grown_sink();
    assert!(grown.is_some_and(|grown| grown >= MIB), "{grown:?}");
}

#[test]
fn several_sinks_get_all_through_buffers_and_pipes_of_any_size() {
    let bytes = pattern(2 * MIB + 7);
    for size in [1, 8192, 300_000, 8 * MIB] {
        let (source, writer) = pipe();
        let (reader, sink) = pipe();
        let (log, appending) = (file(b""), file(b""));
        rustix::fs::fcntl_setfl(&appending, rustix::fs::OFlags::APPEND).unwrap();
        let (fed, read) = std::thread::scope(|scope| {
            let feeding = scope.spawn(|| {
                let fed = write_all(&writer, &bytes);
                drop(writer);
                fed
            });
            let reading = scope.spawn(|| read_to_end(&reader));
            let transfer = Transfer::new(&source, &sink)
                .also_to(&log)
                .also_to(&appending);
            let report = transfer.buffer_size(size).pipe_size(size).run().unwrap();
            assert_eq!(report.bytes(), bytes.len() as u64);
            drop(sink);
            (feeding.join().unwrap(), reading.join().unwrap())
        });
        assert!(fed);
        assert_same(&read, &bytes, "the pipe");
        assert_same(&contents(&log), &bytes, "the file");
        assert_same(&contents(&appending), &bytes, "the appending file");
    }
}

/// Another reader of the pipe then gets whole records, if pages hold whole ones.
#[test]
fn a_read_of_a_pipe_that_was_enlarged_meanwhile_ends_between_pages() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, &pattern(64 << 10)));
    let sink = null();
    let mut steps = Vec::new();
    let report = Transfer::new(&source, &sink)
        .strategy(Strategy::Buffered)
        .grow_pipes(false)
        .observe(|progress| {
            if steps.is_empty() {
                assert!(fcntl_setpipe_size(&writer, MIB).is_ok());
                assert!(write_all(&writer, &pattern(MIB / 2)));
            }
            steps.push(progress.bytes());
            if progress.bytes() == (64 << 10) + MIB as u64 / 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .run()
        .unwrap();
    assert!(report.bytes() > 64 << 10, "{report:#}");
    assert!(steps.iter().all(|bytes| bytes % 4096 == 0), "{steps:?}");
}
