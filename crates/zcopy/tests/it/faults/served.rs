//! Servers in user space that claim, read or write other than they should.

use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use zcopy::{Ended, Side, SkipErrors, Strategy, SyncData, Transfer};

use super::{assert_last_was, assert_sink_failed};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind};
use crate::files::{assert_same, contents, cursor, file, pattern};
use crate::fuse::{Access, BAD, FULL, Server, serve};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::promises::assert_nothing_lost;
use crate::refused::allowed;
use crate::skip::report;
use crate::strategies::{assert_served, moved_by, strategies_for};

/// Enough for every strategy, and the last page is incomplete.
const LEN: usize = 400_003;

/// The strategies that serve a file of a server and a sink elsewhere: those of another file system.
fn strategies_to(to: SinkKind) -> impl Iterator<Item = Option<Strategy>> {
    strategies_for(SourceKind::Regular(Fs::Btrfs), to)
}

const SINKS: [SinkKind; 4] = [
    SinkKind::Regular(Fs::Tmpfs),
    SinkKind::Append,
    SinkKind::Pipe,
    SinkKind::UnixStream,
];

/// Reads end before the size that the file claims.
#[test]
fn a_file_that_claims_twice_its_size_arrives_without_the_rest() {
    let bytes = pattern(LEN);
    for access in [Access::Cached, Access::Direct] {
        for to in SINKS {
            for strategy in strategies_to(to) {
                let what = format!("{access:?} to {to:?}, {strategy:?}");
                let Some(source) = serve(Server::ClaimsTwice(access), &bytes) else {
                    return;
                };
                let Some(sink) = Sink::new(to) else {
                    break;
                };
                let transfer = Transfer::new(&source.file, &sink.fd).maybe_strategy(strategy);
                let report = transfer
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(report.ended(), Ended::Eof, "{what}\n{report:#}");
                assert_served(&report, strategy, &what);
                let arrived = sink.into_bytes(report.bytes()).unwrap();
                assert_same(&arrived, &bytes, &what);
                assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
                assert_eq!(cursor(&source.file), LEN as u64, "{what}");
            }
        }
    }
}

/// Since Linux 6.5 a splice takes the page cache although reads go past it, and the first short read
/// ends the file there. Only a read finds more.
#[test]
fn a_file_whose_reads_are_short_arrives_whole_or_is_counted_to_the_byte() {
    let bytes = pattern(LEN);
    for to in SINKS {
        for strategy in strategies_to(to) {
            let what = format!("{to:?}, {strategy:?}");
            let Some(source) = serve(Server::ReadsShort, &bytes) else {
                return;
            };
            let Some(sink) = Sink::new(to) else {
                break;
            };
            let transfer = Transfer::new(&source.file, &sink.fd).maybe_strategy(strategy);
            let outcome = transfer.run();
            let moved = match outcome {
                Ok(report) => {
                    assert_eq!(report.ended(), Ended::Eof, "{what}\n{report:#}");
                    assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
                    report.bytes()
                }
                Err(error) => {
                    let must_succeed = matches!(strategy, None | Some(Strategy::Buffered));
                    assert!(!must_succeed, "{what}: {error:#}");
                    assert!(error.is_unsuitable(), "{what}: {error:#}");
                    assert!(error.bytes() > 0, "{what}: {error:#}");
                    assert_eq!(error.undelivered(), b"", "{what}: {error:#}");
                    error.bytes()
                }
            };
            assert_eq!(cursor(&source.file), moved, "{what}");
            let arrived = sink.into_bytes(moved).unwrap();
            assert_eq!(arrived.len() as u64, moved, "{what}");
            assert_same(&arrived, &bytes[..arrived.len()], &what);
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_in_the_middle_gives_an_exact_prefix() {
    let bytes = pattern(LEN);
    for access in [Access::Cached, Access::Direct] {
        for to in SINKS {
            for strategy in strategies_to(to) {
                let what = format!("{access:?} to {to:?}, {strategy:?}");
                let Some(source) = serve(Server::FailsToRead(access), &bytes) else {
                    return;
                };
                let Some(sink) = Sink::new(to) else {
                    break;
                };
                let transfer = Transfer::new(&source.file, &sink.fd).maybe_strategy(strategy);
                let error = transfer.run().expect_err(&what);
                assert_eq!(error.side(), Side::Source, "{what}: {error:#}");
                let errno = Some(Errno::IO.raw_os_error());
                assert_eq!(error.raw_os_error(), errno, "{what}: {error:#}");
                assert_last_was(&error, strategy, &what);
                assert_eq!(error.undelivered(), b"", "{what}: {error:#}");
                assert_eq!(cursor(&source.file), error.bytes(), "{what}: {error:#}");
                let arrived = sink.into_bytes(error.bytes()).unwrap();
                assert_eq!(arrived.len() as u64, error.bytes(), "{what}: {error:#}");
                assert_same(&arrived, &bytes[..arrived.len()], &what);
                // With direct access the kernel asks for 128 KiB at a time.
                let least = BAD.start - BAD.start % (128 << 10);
                assert!(
                    (least..=BAD.start).contains(&arrived.len()),
                    "{what}: {error:#}"
                );
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_in_the_middle_is_moved_without_its_bad_block() {
    let mut expected = pattern(LEN);
    expected[BAD].fill(0);
    for access in [Access::Cached, Access::Direct] {
        for to in SINKS {
            let what = format!("{access:?} to {to:?}");
            let Some(source) = serve(Server::FailsToRead(access), &pattern(LEN)) else {
                return;
            };
            let Some(sink) = Sink::new(to) else {
                continue;
            };
            let transfer = Transfer::new(&source.file, &sink.fd);
            let report = transfer
                .skip_errors(SkipErrors::Adaptive)
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
            assert_eq!(
                report.skipped_bytes(),
                BAD.len() as u64,
                "{what}\n{report:#}"
            );
            assert_same(&sink.into_bytes(report.bytes()).unwrap(), &expected, &what);
        }
    }
}

/// The sources of transfers to a server.
const SOURCES: [SourceKind; 3] = [
    SourceKind::Regular(Fs::Tmpfs),
    SourceKind::Pipe,
    SourceKind::UnixStream,
];

fn strategies_from(from: SourceKind) -> impl Iterator<Item = Option<Strategy>> {
    strategies_for(from, SinkKind::Regular(Fs::Btrfs))
}

#[test]
fn a_file_that_fails_to_be_written_in_the_middle_is_counted_to_the_byte() {
    let bytes = pattern(LEN);
    for access in [Access::Cached, Access::Direct] {
        for errno in [Errno::NOSPC, Errno::IO] {
            for from in SOURCES {
                for strategy in strategies_from(from) {
                    let what = format!("{from:?} to {access:?}, {errno:?}, {strategy:?}");
                    let Some(sink) = serve(Server::FailsToWrite(access, errno), b"") else {
                        return;
                    };
                    let Some(source) = Source::new(from, &bytes) else {
                        break;
                    };
                    let transfer = Transfer::new(&source.fd, &sink.file).maybe_strategy(strategy);
                    let error = transfer.run().expect_err(&what);
                    assert_sink_failed(&error, errno, strategy, &what);
                    assert_eq!(cursor(&sink.file), error.bytes(), "{what}: {error:#}");
                    assert!(
                        (1..=FULL as u64).contains(&error.bytes()),
                        "{what}: {error:#}"
                    );
                    assert_nothing_lost(&error, source, &sink.bytes(), &bytes, &what);
                }
            }
        }
    }
}

#[test]
fn a_file_whose_writes_are_short_gets_every_byte_once() {
    let bytes = pattern(LEN);
    for access in [Access::Cached, Access::Direct] {
        for from in SOURCES {
            for strategy in strategies_from(from) {
                let what = format!("{from:?} to {access:?}, {strategy:?}");
                let Some(sink) = serve(Server::WritesShort(access), b"") else {
                    return;
                };
                let Some(source) = Source::new(from, &bytes) else {
                    break;
                };
                let transfer = Transfer::new(&source.fd, &sink.file).maybe_strategy(strategy);
                let report = transfer
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
                assert_served(&report, strategy, &what);
                assert_same(&sink.bytes(), &bytes, &what);
            }
        }
    }
}

/// The caller's `close(2)` reports what the server says to a flush. A transfer closes nothing that
/// it borrows, and has moved what it reports.
#[test]
fn a_file_that_fails_to_be_flushed_has_every_byte() {
    let bytes = pattern(LEN);
    for errno in [Errno::NOSPC, Errno::IO] {
        for from in SOURCES {
            for strategy in strategies_from(from) {
                let what = format!("{from:?}, {errno:?}, {strategy:?}");
                let Some(sink) = serve(Server::FailsToFlush(errno), b"") else {
                    return;
                };
                let Some(source) = Source::new(from, &bytes) else {
                    break;
                };
                let transfer = Transfer::new(&source.fd, &sink.file).maybe_strategy(strategy);
                let report = transfer.sync_data(SyncData::AtEnd).run();
                let report = report.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
                assert_served(&report, strategy, &what);
                assert_same(&sink.bytes(), &bytes, &what);
            }
        }
    }
}

#[test]
fn a_file_that_fails_to_be_synced_is_an_error_of_the_sink() {
    let bytes = pattern(LEN);
    for errno in [Errno::NOSPC, Errno::IO] {
        for when in [SyncData::AtEnd, SyncData::EachStep] {
            for from in SOURCES {
                for strategy in strategies_from(from) {
                    let what = format!("{from:?}, {errno:?}, {when:?}, {strategy:?}");
                    let Some(sink) = serve(Server::FailsToSync(errno), b"") else {
                        return;
                    };
                    let Some(source) = Source::new(from, &bytes) else {
                        break;
                    };
                    let transfer = Transfer::new(&source.fd, &sink.file).maybe_strategy(strategy);
                    let error = transfer.sync_data(when).run().expect_err(&what);
                    assert_sink_failed(&error, errno, strategy, &what);
                    if when == SyncData::AtEnd {
                        assert_eq!(error.bytes(), LEN as u64, "{what}: {error:#}");
                    }
                    assert_nothing_lost(&error, source, &sink.bytes(), &bytes, &what);
                }
            }
        }
    }
}

/// The page cache accepts what the server refuses later. `sync_data` is what tells.
#[test]
fn a_server_that_refuses_cached_pages_is_an_error_of_the_sink_with_sync_data() {
    let bytes = pattern(LEN);
    for errno in [Errno::NOSPC, Errno::IO] {
        for syncs in [SyncData::Never, SyncData::AtEnd] {
            for from in SOURCES {
                for strategy in strategies_from(from) {
                    let what = format!("{from:?}, {errno:?}, {syncs:?}, {strategy:?}");
                    let server = Server::FailsToWrite(Access::WrittenLater, errno);
                    let Some(sink) = serve(server, b"") else {
                        return;
                    };
                    let Some(source) = Source::new(from, &bytes) else {
                        break;
                    };
                    let transfer = Transfer::new(&source.fd, &sink.file).maybe_strategy(strategy);
                    let outcome = transfer.sync_data(syncs).run();
                    if syncs == SyncData::Never {
                        let report = outcome.unwrap_or_else(|error| panic!("{what}: {error:#}"));
                        assert_eq!(report.bytes(), LEN as u64, "{what}\n{report:#}");
                        assert_served(&report, strategy, &what);
                        let later = sink.file.sync_data().unwrap_err().raw_os_error();
                        assert_eq!(later, Some(errno.raw_os_error()), "{what}");
                    } else {
                        let error = outcome.expect_err(&what);
                        assert_sink_failed(&error, errno, strategy, &what);
                        assert_eq!(error.bytes(), LEN as u64, "{what}: {error:#}");
                    }
                }
            }
        }
    }
}

/// Copies the first half of a file to its second half.
fn copy_within(server: Server, bytes: &[u8]) -> Option<(zcopy::Result<zcopy::Report>, Vec<u8>)> {
    let file = serve(server, bytes)?;
    let len = bytes.len() as u64;
    let outcome = Transfer::new(&file.file, &file.file)
        .source_offset(0)
        .sink_offset(len)
        .limit(len)
        .strategy(Strategy::CopyFileRange)
        .run();
    let mut read = vec![0; file.bytes().len()];
    file.file.read_exact_at(&mut read, 0).unwrap();
    assert_same(&read, &file.bytes(), &format!("{server:?}"));
    Some((outcome, read))
}

#[test]
fn a_server_that_copies_short_copies_all_and_one_that_fails_is_counted_to_the_byte() {
    let bytes = pattern(LEN);
    if allowed([Strategy::CopyFileRange]).next().is_none() {
        return;
    }
    for server in [Server::Ordinary, Server::CopiesShort] {
        let Some((outcome, found)) = copy_within(server, &bytes) else {
            return;
        };
        let report = outcome.unwrap_or_else(|error| panic!("{server:?}: {error:#}"));
        assert_eq!(moved_by(&report, Strategy::CopyFileRange), LEN as u64);
        assert_same(
            &found,
            &[&bytes[..], &bytes].concat(),
            &format!("{server:?}"),
        );
    }
    let Some((outcome, found)) = copy_within(Server::FailsToCopy, &bytes) else {
        return;
    };
    let Err(error) = outcome else {
        report("this kernel asks no server to copy");
        return;
    };
    assert_sink_failed(&error, Errno::IO, Some(Strategy::CopyFileRange), "a copy");
    assert_eq!(error.bytes(), FULL as u64, "{error:#}");
    assert_same(
        &found,
        &[&bytes[..], &bytes[..FULL]].concat(),
        "a failed copy",
    );
}

/// The transfer leaves nothing in flight: both cursors stand behind the last byte.
#[test]
fn a_transfer_that_a_full_server_ended_goes_on_elsewhere() {
    let bytes = pattern(LEN);
    let Some(sink) = serve(Server::FailsToWrite(Access::Cached, Errno::NOSPC), b"") else {
        return;
    };
    let source = file(&bytes);
    let error = Transfer::new(&source, &sink.file).run().unwrap_err();
    let at = usize::try_from(error.bytes()).unwrap();
    assert_eq!(
        (cursor(&source), cursor(&sink.file)),
        (at as u64, at as u64)
    );
    let elsewhere = file(&sink.bytes());
    crate::files::set_cursor(&elsewhere, at as u64);
    let rest = Transfer::new(&source, &elsewhere).run().unwrap();
    assert_eq!(rest.bytes(), (LEN - at) as u64);
    assert_same(&contents(&elsewhere), &bytes, "resumed");
}
