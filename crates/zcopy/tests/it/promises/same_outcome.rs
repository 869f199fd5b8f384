//! Promise 2: the strategy changes the speed and nothing else. The transfers here fail;
//! `every_pair` compares those that succeed.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use zcopy::{Side, Strategy, Transfer};

use crate::endpoints::{Source, SourceKind, pipe};
use crate::every_pair::LARGE;
use crate::files::{contents, file, pattern};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, first_allowed};
use crate::strategies::{assert_served, every_strategy};

fn memfd(bytes: &[u8], seals: SealFlags) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memfd = File::from(rustix::fs::memfd_create("zcopy", flags).unwrap());
    std::os::unix::fs::FileExt::write_all_at(&memfd, bytes, 0).unwrap();
    rustix::fs::fcntl_add_seals(&memfd, seals).unwrap();
    memfd
}

/// After `EPERM` each next strategy is tried, until only read and write are left.
#[test]
fn promise_2_a_sink_that_may_not_be_written_fails_by_every_strategy() {
    let source = file(&pattern(LARGE));
    for strategy in every_strategy() {
        let sink = memfd(b"", SealFlags::WRITE);
        let transfer = Transfer::new(&source, &sink)
            .source_offset(0)
            .maybe_strategy(strategy);
        let error = transfer.run().unwrap_err();
        assert_eq!(error.bytes(), 0);
        match strategy {
            None | Some(Strategy::Buffered) => {
                assert_eq!(error.side(), Side::Sink, "{error:#}");
                assert_eq!(error.raw_os_error(), Some(Errno::PERM.raw_os_error()));
            }
            Some(_) => assert!(error.is_unsuitable(), "{strategy:?}: {error:#}"),
        }
    }
}

/// The sink fails in the middle of the transfer.
#[test]
fn promise_2_a_sink_that_may_not_grow_fails_by_every_strategy() {
    const ROOM: usize = 1 << 20;
    let bytes = pattern(LARGE);
    // Linux 7.3 takes nothing of a write that does not fit as a whole.
    let sealed = memfd(&[0; 4096], SealFlags::GROW);
    let refuses_too_long = rustix::io::write(&sealed, &[0; 8192]) == Err(Errno::PERM);
    for from in [SourceKind::Memfd, SourceKind::Pipe, SourceKind::UnixStream] {
        for strategy in every_strategy() {
            let is_served = match strategy {
                Some(Strategy::Reflink | Strategy::Sendfile | Strategy::Splice) => false,
                Some(Strategy::CopyFileRange) => from.has_cursor(),
                _ => true,
            };
            if !is_served {
                continue;
            }
            let what = format!("{from:?}, {strategy:?}");
            let source = Source::new(from, &bytes).unwrap();
            let sink = memfd(&vec![0; ROOM], SealFlags::GROW);
            let transfer = Transfer::new(&source.fd, &sink).maybe_strategy(strategy);
            let error = transfer.run().unwrap_err();
            assert_eq!(error.side(), Side::Sink, "{what}: {error:#}");
            let errno = Some(Errno::PERM.raw_os_error());
            assert_eq!(error.raw_os_error(), errno, "{what}");
            assert_served(error.report(), strategy, &what);
            let found = contents(&sink);
            let (arrived, rest) = found.split_at(usize::try_from(error.bytes()).unwrap());
            assert!(rest.iter().all(|byte| *byte == 0), "{what}: {error:#}");
            assert!(rest.is_empty() || refuses_too_long, "{what}: {error:#}");
            super::assert_nothing_lost(&error, source, arrived, &bytes, &what);
        }
    }
}

#[test]
fn promise_2_a_socket_without_a_peer_fails_by_every_strategy() {
    let socket = || -> OwnedFd {
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
    };
    for strategy in allowed([
        None,
        Some(Strategy::Splice),
        Some(Strategy::SplicePipe),
        Some(Strategy::Buffered),
    ]) {
        let source = socket();
        let (_reader, sink) = pipe();
        let transfer = Transfer::new(&source, &sink).maybe_strategy(strategy);
        let error = transfer.run().unwrap_err();
        assert_eq!(
            (error.side(), error.bytes()),
            (Side::Source, 0),
            "{strategy:?}"
        );
        let errno = Some(Errno::NOTCONN.raw_os_error());
        assert_eq!(error.raw_os_error(), errno, "{strategy:?}");

        let sink = socket();
        let source = Source::new(SourceKind::Pipe, b"hello").unwrap();
        let transfer = Transfer::new(&source.fd, &sink).maybe_strategy(strategy);
        let error = transfer.run().unwrap_err();
        assert_eq!(error.side(), Side::Sink, "{strategy:?}");
        assert_eq!(error.raw_os_error(), Some(Errno::PIPE.raw_os_error()));
        super::assert_nothing_lost(&error, source, b"", b"hello", "no peer");
    }
}

#[test]
fn promise_2_a_source_that_cannot_be_read_fails() {
    // Nothing is mapped at address 0.
    let source = File::open("/proc/self/mem").unwrap();
    let sink = file(b"");
    let error = zcopy::copy(&source, &sink).unwrap_err();
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(error.report().strategy(), Some(Strategy::Buffered));
}

#[test]
fn an_empty_source_does_not_blame_a_closed_pipe() {
    // All bytes have been delivered, so the reader may close the pipe.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let (gone, sink) = std::io::pipe().unwrap();
    drop(gone);
    let report = Transfer::new(&reader, &sink).run().unwrap();
    assert_eq!((report.bytes(), report.ended()), (0, zcopy::Ended::Eof));
}

#[test]
fn a_file_that_has_been_delivered_does_not_blame_a_closed_pipe() {
    for len in [40_000, 3 << 20] {
        let mut source = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut source, &vec![7; len]).unwrap();
        let (reader, sink) = std::io::pipe().unwrap();
        let mut reader = Some(reader);
        let report = Transfer::new(&source, &sink)
            .source_offset(0)
            .observe(|progress| {
                // Takes what the pipe holds, and closes it once everything has arrived.
                let mut taken = vec![0; 2 << 20];
                if let Some(pipe) = &mut reader {
                    std::io::Read::read(pipe, &mut taken).unwrap();
                }
                if progress.bytes() == len as u64 {
                    reader = None;
                }
                std::ops::ControlFlow::Continue(())
            })
            .run()
            .unwrap();
        assert_eq!(
            (report.bytes(), report.ended()),
            (len as u64, zcopy::Ended::Eof)
        );
        let offloads = [Strategy::Splice, Strategy::Sendfile];
        let offload_is_allowed = first_allowed(&offloads) != Strategy::Buffered;
        assert_eq!(
            report.strategy() != Some(Strategy::Buffered),
            offload_is_allowed,
            "{report:#}"
        );
    }
}
