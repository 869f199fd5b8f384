//! File systems that stop in mid-copy: ext4 after an error, which takes no more writes (`EROFS`),
//! and ext4 and xfs after a shutdown, which take no more calls at all (`EIO`).

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;

use rustix::fs::OFlags;
use rustix::io::Errno;
use zcopy::{Error, Side, Strategy, Transfer};

use super::{
    LEN, assert_last_was, assert_sink_failed, run_with_fault, source_in, sparse_source_in,
};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, pipe};
use crate::files::{assert_same, cursor, file_in, pattern};
use crate::mounts::{Fs, Root, loop_mount, loop_mount_with};
use crate::options::MaybeOptions as _;
use crate::promises::{assert_nothing_lost, assert_rest};
use crate::refused::needs;
use crate::skip::{has_program, report};
use crate::strategies::strategies_for;

/// A new file system that takes no more writes after an error.
fn ext4_that_stops() -> Option<Root> {
    loop_mount_with("ext4", 32, &["-e", "remount-ro"])
}

/// A new file system that can be shut down.
fn fs_to_shut_down(fs: Fs) -> Option<Root> {
    if !has_program("xfs_io") {
        return None;
    }
    match fs {
        Fs::Ext4 => loop_mount("ext4", 32),
        _ => loop_mount("xfs", 320),
    }
}

/// Tells ext4 that it has an error. No writer of an open file delays what follows, as it would delay
/// `mount -o remount,ro`.
fn report_error_to_ext4(file: &File) {
    let device = file.metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).unwrap();
    let name = device.file_name().unwrap().to_str().unwrap();
    std::fs::write(format!("/sys/fs/ext4/{name}/trigger_fs_error"), "a test").unwrap();
}

/// Shuts the file system of a file down: `ioctl(FS_IOC_SHUTDOWN)`.
fn shut_down(file: &impl AsFd) {
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.as_fd().as_raw_fd()
    );
    let output = Command::new("xfs_io")
        .args(["-x", "-c", "shutdown", &path])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Whether a requested strategy was refused because it could not reserve a range: `lseek(2)` fails
/// on xfs after a shutdown.
fn may_not_reserve(fs: Fs, strategy: Option<Strategy>, error: &Error) -> bool {
    fs == Fs::Xfs && strategy.is_some() && error.is_unsuitable()
}

/// The kinds of sources of a file on this file system.
fn sources(fs: Fs) -> [SourceKind; 3] {
    [
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Regular(fs),
        SourceKind::Pipe,
    ]
}

/// A source that every strategy serves in more than one step, and its bytes. A regular file on the
/// same kind of file system as the sink is in the very file system of the sink.
fn source_beside(fs: Fs, from: SourceKind, root: &Root) -> Option<(Source, Vec<u8>)> {
    if from == SourceKind::Regular(fs) {
        return sparse_source_in(&root.dir());
    }
    let bytes = pattern(LEN);
    Some((Source::new(from, &bytes)?, bytes))
}

#[test]
fn a_sink_that_becomes_read_only_in_mid_copy_is_counted_to_the_byte() {
    for from in sources(Fs::Ext4) {
        for strategy in strategies_for(from, SinkKind::Regular(Fs::Ext4)) {
            let what = format!("{from:?}, {strategy:?}");
            let Some(root) = ext4_that_stops() else {
                return;
            };
            let Some((source, bytes)) = source_beside(Fs::Ext4, from, &root) else {
                return;
            };
            let sink = file_in(&root.dir(), b"");
            let mut takes_writes = false;
            let transfer = Transfer::new(&source.fd, &sink)
                .limit(bytes.len() as u64)
                .maybe_strategy(strategy);
            let (outcome, moved) = run_with_fault(transfer, || {
                report_error_to_ext4(&sink);
                takes_writes = sink.write_at(&bytes[..1], 0).is_ok();
            });
            if takes_writes {
                report("this kernel's ext4 takes writes into the page cache after an error");
                continue;
            }
            let error = outcome.expect_err(&what);
            assert_eq!(error.bytes(), moved, "{what}: {error:#}");
            assert_eq!(cursor(&sink), moved, "{what}");
            assert_eq!(sink.metadata().unwrap().len(), moved, "{what}");
            let mut arrived = vec![0; moved as usize];
            if let Err(error) = sink.read_exact_at(&mut arrived, 0) {
                // The next test is about that.
                assert_eq!(
                    error.raw_os_error(),
                    Some(Errno::IO.raw_os_error()),
                    "{what}"
                );
                report("this kernel shuts ext4 down after an error");
                continue;
            }
            assert_sink_failed(&error, Errno::ROFS, strategy, &what);
            assert_nothing_lost(&error, source, &arrived, &bytes, &what);
        }
    }
}

/// A sink that is shut down cannot be read. Its size shows what has arrived, on ext4 alone: xfs
/// fails `fstat(2)` and `lseek(2)`, too.
#[test]
fn a_sink_that_is_shut_down_in_mid_copy_is_counted_to_the_byte() {
    for fs in [Fs::Ext4, Fs::Xfs] {
        for from in sources(fs) {
            for strategy in strategies_for(from, SinkKind::Regular(fs)) {
                let what = format!("{from:?} to {fs:?}, {strategy:?}");
                let Some(root) = fs_to_shut_down(fs) else {
                    break;
                };
                let Some((source, bytes)) = source_beside(fs, from, &root) else {
                    break;
                };
                let sink = file_in(&root.dir(), b"");
                let transfer = Transfer::new(&source.fd, &sink)
                    .limit(bytes.len() as u64)
                    .maybe_strategy(strategy);
                let (outcome, moved) = run_with_fault(transfer, || shut_down(&sink));
                let error = outcome.expect_err(&what);
                let is_alone = from != SourceKind::Regular(fs);
                if may_not_reserve(fs, strategy, &error) {
                    assert_last_was(&error, strategy, &what);
                } else if is_alone {
                    assert_sink_failed(&error, Errno::IO, strategy, &what);
                }
                let errno = Some(Errno::IO.raw_os_error());
                assert_eq!(error.raw_os_error(), errno, "{what}: {error:#}");
                assert_eq!(error.bytes(), moved, "{what}: {error:#}");
                if fs == Fs::Ext4 {
                    assert_eq!(sink.metadata().unwrap().len(), moved, "{what}: {error:#}");
                    assert_eq!(cursor(&sink), moved, "{what}");
                }
                if is_alone {
                    assert_rest(&error, source, &bytes, &what);
                } else if fs == Fs::Ext4 {
                    assert_eq!(cursor(&source.fd), moved, "{what}: {error:#}");
                }
            }
        }
    }
}

#[test]
fn a_source_that_is_shut_down_in_mid_copy_gives_an_exact_prefix() {
    let bytes = pattern(LEN);
    for fs in [Fs::Ext4, Fs::Xfs] {
        for to in [
            SinkKind::Regular(Fs::Tmpfs),
            SinkKind::Pipe,
            SinkKind::UnixStream,
        ] {
            for strategy in strategies_for(SourceKind::Regular(fs), to) {
                let what = format!("{fs:?} to {to:?}, {strategy:?}");
                let (Some(root), Some(sink)) = (fs_to_shut_down(fs), Sink::new(to)) else {
                    break;
                };
                let Some(source) = source_in(&root.dir(), &bytes) else {
                    break;
                };
                let transfer = Transfer::new(&source.fd, &sink.fd).maybe_strategy(strategy);
                let (outcome, _) = run_with_fault(transfer, || shut_down(&source.fd));
                let error = outcome.expect_err(&what);
                let is_source = error.side() == Side::Source;
                let is_honest = is_source || may_not_reserve(fs, strategy, &error);
                assert!(is_honest, "{what}: {error:#}");
                let errno = Some(Errno::IO.raw_os_error());
                assert_eq!(error.raw_os_error(), errno, "{what}: {error:#}");
                assert_last_was(&error, strategy, &what);
                assert_eq!(error.undelivered(), b"", "{what}: {error:#}");
                if fs == Fs::Ext4 {
                    assert_eq!(cursor(&source.fd), error.bytes(), "{what}: {error:#}");
                }
                let arrived = sink.into_bytes(error.bytes()).unwrap();
                assert_eq!(arrived.len() as u64, error.bytes(), "{what}: {error:#}");
                assert_same(&arrived, &bytes[..arrived.len()], &what);
            }
        }
    }
}

/// After a shutdown of xfs `lseek(2)` fails, so that the transfer cannot move the cursor of the
/// source back.
#[test]
fn bytes_in_flight_of_a_source_that_cannot_be_rewound_are_handed_back() {
    let bytes = pattern(LEN);
    for strategy in [Strategy::SplicePipe, Strategy::Buffered] {
        if !needs(&[strategy]) {
            continue;
        }
        let Some(root) = fs_to_shut_down(Fs::Xfs) else {
            return;
        };
        let Some(source) = source_in(&root.dir(), &bytes) else {
            return;
        };
        let (reader, sink) = pipe();
        // Without a reader a write to a full pipe in blocking mode would not return.
        rustix::fs::fcntl_setfl(&sink, OFlags::NONBLOCK).unwrap();
        let mut reader = Some(reader);
        let mut moved = 0;
        let transfer = Transfer::new(&source.fd, &sink)
            .grow_pipes(false)
            .strategy(strategy)
            .observe(|progress| {
                if reader.take().is_some() {
                    moved = progress.bytes();
                    shut_down(&source.fd);
                }
                ControlFlow::Continue(())
            });
        let error = transfer.run().unwrap_err();
        let found = (error.side(), error.raw_os_error());
        let expected = (Side::Sink, Some(Errno::PIPE.raw_os_error()));
        assert_eq!(found, expected, "{strategy}: {error:#}");
        assert_eq!(error.bytes(), moved, "{strategy}: {error:#}");
        let handed_back = error.undelivered();
        assert!(!handed_back.is_empty(), "{strategy}: {error:#}");
        let accepted = usize::try_from(moved).unwrap();
        let expected = &bytes[accepted..accepted + handed_back.len()];
        assert_same(handed_back, expected, &format!("{strategy}"));
    }
}
