//! Promise 8: page sharing is never silent.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;
use zcopy::{Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, Source, SourceKind, null, pipe, unix};
use crate::files::{file_in, reopen};
use crate::mounts::Fs;
use crate::options::{MaybeOptions as _, run_also_to};
use crate::refused::{first_allowed, is_allowed, served_by};
use crate::strategies::every_strategy;

const LEN: usize = 60_000;

/// Moves a file full of `a` into a pipe, overwrites the file with `b`, and then reads the pipe.
fn read_after_write(file: &File, transfer: impl FnOnce(&File, &OwnedFd)) -> Vec<u8> {
    let (reader, sink) = pipe();
    transfer(file, &sink);
    file.write_all_at(&vec![b'b'; LEN], 0).unwrap();
    drop(sink);
    crate::files::read_to_end(&reader)
}

fn is_filled_with(bytes: &[u8], byte: u8) -> bool {
    bytes.len() == LEN && bytes.iter().all(|found| *found == byte)
}

#[test]
fn promise_8_stable_keeps_the_old_bytes_and_the_default_says_what_it_does() {
    for fs in Fs::ALL {
        let Some(dir) = fs.dir() else {
            continue;
        };
        let file = file_in(&dir, &vec![b'a'; LEN]);
        let read = read_after_write(&file, |file, sink| {
            let transfer = || Transfer::new(file, sink).stable(true);
            let plan = transfer().plan().unwrap();
            assert!(!plan.shares_pages(), "{fs:?}");
            let report = transfer().run().unwrap();
            assert!(!report.shared_pages(), "{fs:?}");
            assert_eq!(report.strategy(), Some(Strategy::Buffered), "{fs:?}");
            assert_eq!(report.bytes(), LEN as u64);
        });
        assert!(is_filled_with(&read, b'a'), "{fs:?}: the old bytes");

        for strategy in every_strategy() {
            if matches!(strategy, Some(Strategy::Reflink | Strategy::CopyFileRange)) {
                continue;
            }
            let file = file_in(&dir, &vec![b'a'; LEN]);
            let mut shared = false;
            let read = read_after_write(&file, |file, sink| {
                let transfer = || Transfer::new(file, sink).maybe_strategy(strategy);
                let plan = transfer().plan().unwrap();
                let report = transfer().run().unwrap();
                shared = report.shared_pages();
                assert_eq!(report.strategy(), Some(served_by(&plan)), "{fs:?}");
                let is_offloaded = report.strategy() != Some(Strategy::Buffered);
                assert_eq!(shared, is_offloaded, "{fs:?}, {strategy:?}");
                let would_share = strategy != Some(Strategy::Buffered);
                assert_eq!(plan.shares_pages(), would_share, "{fs:?}, {strategy:?}");
                let plan_says_so = plan.to_string().contains("pages: shared");
                let report_says_so = format!("{report:#}").contains("pages: shared");
                assert_eq!((plan_says_so, report_says_so), (would_share, shared));
            });
            // Some kernels copy nevertheless; a report must not hide new bytes.
            let is_new = is_filled_with(&read, b'b');
            assert!(
                is_new || is_filled_with(&read, b'a'),
                "{fs:?}, {strategy:?}: a mixture"
            );
            assert!(
                shared || !is_new,
                "{fs:?}, {strategy:?}: the report hides that pages are shared"
            );
        }
    }
}

#[test]
fn promise_8_stable_refuses_a_strategy_that_shares() {
    let file = crate::files::file(&vec![b'a'; LEN]);
    let (_reader, to_pipe) = pipe();
    let (_peer, to_socket) = unix(rustix::net::SocketType::STREAM);
    for strategy in [Strategy::Sendfile, Strategy::SplicePipe, Strategy::Splice] {
        for sink in [&to_pipe, &to_socket] {
            let transfer = Transfer::new(&file, sink).stable(true).strategy(strategy);
            let error = transfer.run().unwrap_err();
            assert!(error.is_unsuitable(), "{strategy}: {error:#}");
            assert_eq!(error.bytes(), 0);
        }
    }
}

#[test]
fn promise_8_stable_offloads_bytes_that_cannot_change() {
    // The first bytes of a socket are read and written with and without `stable`. Bytes that a
    // socket or pipe holds are copied into a file.
    let bytes = crate::files::pattern(crate::every_pair::LARGE);
    for (from, to) in [
        (SourceKind::SealedMemfd, SinkKind::Pipe),
        (SourceKind::UnixStream, SinkKind::Memfd),
        (SourceKind::Pipe, SinkKind::Memfd),
    ] {
        let source = Source::new(from, &bytes).unwrap();
        let sink = Sink::new(to).unwrap();
        let transfer = Transfer::new(&source.fd, &sink.fd).stable(true);
        let report = transfer.run().unwrap();
        let offloads = match to {
            SinkKind::Pipe => &[Strategy::Splice, Strategy::Sendfile][..],
            _ => &[Strategy::SplicePipe],
        };
        let offload_is_allowed = first_allowed(offloads) != Strategy::Buffered;
        let is_offloaded = report.strategy() != Some(Strategy::Buffered);
        assert_eq!(is_offloaded, offload_is_allowed, "{from:?}\n{report:#}");
        assert!(!report.shared_pages());
        let arrived = sink.into_bytes(0).unwrap();
        crate::files::assert_same(&arrived, &bytes, "stable, and offloaded");
    }
}

/// Nor do the pages of a file that is just long enough to be spliced.
#[test]
fn promise_8_a_short_file_that_cannot_change_is_not_said_to_share_its_pages() {
    let bytes = crate::files::pattern(16 << 10);
    let source = Source::new(SourceKind::SealedMemfd, &bytes).unwrap();
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    let report = Transfer::new(&source.fd, &sink.fd).run().unwrap();
    let offload = first_allowed(&[Strategy::Splice, Strategy::Sendfile]);
    assert_eq!(report.strategy(), Some(offload), "{report:#}");
    assert!(!report.shared_pages(), "{report:#}");
    crate::files::assert_same(&sink.into_bytes(0).unwrap(), &bytes, "sealed");
}

/// The kernel copies into a file, so that no page is shared.
#[test]
fn promise_8_between_files_nothing_is_shared_in_the_page_cache() {
    // Longer than a transfer that the plan reads and writes.
    const LEN: usize = 300_000;
    let source = crate::files::file(&vec![b'a'; LEN]);
    for strategy in every_strategy() {
        if matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::Splice | Strategy::Sendfile)
        ) {
            continue;
        }
        let sink = file_in(&std::env::temp_dir(), b"");
        let transfer = Transfer::new(&source, &sink)
            .source_offset(0)
            .maybe_strategy(strategy);
        let report = transfer.run().unwrap();
        assert!(!report.shared_pages());
        assert_ne!(report.strategy(), Some(Strategy::Splice));
        source.write_all_at(&vec![b'b'; LEN], 0).unwrap();
        let arrived = crate::files::contents(&sink);
        crate::files::assert_same(&arrived, &vec![b'a'; LEN], &format!("{strategy:?}"));
        source.write_all_at(&vec![b'a'; LEN], 0).unwrap();
    }
}

/// A descriptor that cannot write does not make the file unchangeable.
#[test]
fn promise_8_pages_of_a_read_only_descriptor_are_shared_too() {
    let file = crate::files::file(&vec![b'a'; LEN]);
    let reader = reopen(&file, OFlags::RDONLY);
    let (_reader, sink) = pipe();
    let transfer = || Transfer::new(&reader, &sink);
    assert!(transfer().plan().unwrap().shares_pages());
    assert!(!transfer().stable(true).plan().unwrap().shares_pages());
}

#[test]
fn promise_8_a_memfd_that_can_be_cut_short_is_not_taken_for_immutable() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let fd = memfd_create("cut short", MemfdFlags::ALLOW_SEALING).unwrap();
    let file = File::from(fd);
    file.write_all_at(&vec![b'a'; LEN], 0).unwrap();
    // The seal forbids writing, and allows to shrink the file, which zeroes the rest of a page in
    // place.
    fcntl_add_seals(&file, SealFlags::WRITE).unwrap();
    let (reader, sink) = pipe();
    let report = Transfer::new(&file, &sink).stable(true).run().unwrap();
    assert!(!report.shared_pages());
    file.set_len(10).unwrap();
    drop(sink);
    let read = crate::files::read_to_end(&reader);
    assert_eq!(read.len(), LEN);
    assert!(is_filled_with(&read, b'a'));
}

/// The peer of a stream.
type Reader = OwnedFd;

/// Empty pipes and sockets of all kinds that can hold pages of a file.
fn page_holders() -> Vec<(&'static str, Reader, OwnedFd)> {
    let named = |name, (reader, writer)| (name, reader, writer);
    let (there, here) = crate::endpoints::tcp();
    vec![
        named("pipe", pipe()),
        named("unix", unix(rustix::net::SocketType::STREAM)),
        named("tcp", (there, here)),
    ]
}

/// A file is sent into a pipe or socket, moved on from there, and then overwritten.
#[test]
fn promise_8_file_pages_in_a_pipe_or_socket_do_not_change_with_stable() {
    for (from, source, feeder) in page_holders() {
        for (to, reader, sink) in page_holders() {
            for also in [false, true] {
                for strategy in every_strategy() {
                    if matches!(
                        strategy,
                        Some(Strategy::Reflink | Strategy::CopyFileRange | Strategy::Sendfile)
                    ) {
                        continue;
                    }
                    let what = format!("{from} to {to}, {also}, {strategy:?}");
                    let file = crate::files::file(&vec![b'a'; LEN]);
                    let sent = Transfer::new(&file, &feeder)
                        .source_offset(0)
                        .limit(LEN as u64);
                    let offloads = match from {
                        "pipe" => &[Strategy::Splice, Strategy::Sendfile][..],
                        _ => &[Strategy::Sendfile, Strategy::SplicePipe],
                    };
                    let offload_is_allowed = first_allowed(offloads) != Strategy::Buffered;
                    assert_eq!(
                        sent.run().unwrap().shared_pages(),
                        offload_is_allowed,
                        "{what}"
                    );
                    let (log, (other, also_sink)) = (crate::files::file(b""), pipe());
                    let transfer = |stable| {
                        let transfer = Transfer::new(&source, &sink)
                            .limit(LEN as u64)
                            .maybe_strategy(strategy);
                        let others = [&log as &(dyn AsFd + Sync), &also_sink];
                        let others = others.into_iter().filter(|_| also);
                        run_also_to(transfer.stable(stable), others)
                    };
                    // A requested strategy that `stable` forbids says so and moves nothing; the
                    // plan then moves the bytes.
                    let requested = transfer(true);
                    let report = match requested {
                        Err(error) => {
                            assert!(error.is_unsuitable(), "{what}: {error:#}");
                            assert_eq!(error.bytes(), 0, "{what}");
                            Transfer::new(&source, &sink)
                                .limit(LEN as u64)
                                .stable(true)
                                .run()
                                .unwrap()
                        }
                        Ok(report) => report,
                    };
                    assert!(!report.shared_pages(), "{what}: {report:#}");
                    assert!(!format!("{report:#}").contains("pages: shared"), "{what}");
                    file.write_all_at(&vec![b'b'; LEN], 0).unwrap();
                    let read = |reader: &OwnedFd| {
                        let mut bytes = vec![0; LEN];
                        std::io::Read::read_exact(
                            &mut File::from(reader.try_clone().unwrap()),
                            &mut bytes,
                        )
                        .unwrap();
                        bytes
                    };
                    assert!(is_filled_with(&read(&reader), b'a'), "{what}: {report:#}");
                    if !report.sinks().is_empty() {
                        assert!(is_filled_with(&read(&other), b'a'), "{what}: {report:#}");
                    }
                }
            }
        }
    }
}

#[test]
fn promise_8_the_plan_and_the_report_name_pages_that_are_passed_on() {
    for (_, source, feeder) in page_holders() {
        for (_, _reader, sink) in page_holders() {
            let transfer = || Transfer::new(&source, &sink);
            let plan = transfer().plan().unwrap();
            assert!(plan.shares_pages(), "{plan}");
            assert!(
                plan.to_string()
                    .contains("\npages: shared with the source pipe or socket")
            );
            let plan = transfer().stable(true).plan().unwrap();
            assert!(!plan.shares_pages(), "{plan}");
            assert_eq!(plan.strategy(), Strategy::Buffered);
            // Only a pipe or socket keeps pages.
            let (log, null) = (OwnedFd::from(crate::files::file(b"")), null());
            for sink in [&log, &null] {
                let plan = Transfer::new(&source, sink).stable(true).plan().unwrap();
                assert!(!plan.shares_pages(), "{plan}");
                assert_ne!(plan.strategy(), Strategy::Buffered, "{plan}");
            }
        }
        assert!(crate::files::write_all(&feeder, &[b'a'; 1000]));
        let (_reader, sink) = pipe();
        let transfer = Transfer::new(&source, &sink).limit(1000);
        let shares = is_allowed(Strategy::SplicePipe);
        let transfer = if shares {
            transfer.strategy(Strategy::SplicePipe)
        } else {
            transfer
        };
        let report = transfer.run().unwrap();
        assert_eq!(report.shared_pages(), shares, "{report:#}");
        let text = format!("{report:#}");
        let says_so = text.contains("\npages: shared with the source pipe or socket");
        assert_eq!(says_so, shares, "{text}");
    }
}
