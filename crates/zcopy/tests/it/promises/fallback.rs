//! Promise 3: a fall-back is invisible and exact.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::Errno;
use zcopy::{Ended, Strategy, Transfer};

use crate::child_process::Child;
use crate::endpoints::{Sink, SinkKind, Source, SourceKind};
use crate::every_pair::LARGE;
use crate::files::{assert_same, contents, cursor, file_in, pattern, reopen};
use crate::mounts::Fs;
use crate::refused::{allowed, needs};
use crate::skip::{is_root, skip};

/// If another process sets `O_APPEND` during the transfer, no offload is left. The private pipe may
/// hold bytes at that moment.
#[test]
fn promise_3_a_sink_that_begins_to_append_is_continued_by_read_and_write() {
    if !needs(&[Strategy::SplicePipe]) {
        return;
    }
    let bytes = pattern(70 << 20);
    for (from, len) in [
        (SourceKind::Regular(Fs::Tmpfs), bytes.len()),
        (SourceKind::Memfd, bytes.len()),
        (SourceKind::Pipe, LARGE),
        (SourceKind::UnixStream, LARGE),
    ] {
        let Some(dir) = Fs::Tmpfs.dir() else {
            return;
        };
        let Some(source) = Source::new(from, &bytes[..len]) else {
            return;
        };
        let file = file_in(&dir, b"");
        let sink = reopen(&file, OFlags::WRONLY);
        let mut offloaded = 0;
        let report = Transfer::new(&source.fd, &sink)
            .observe(|progress| {
                let is_offloaded = progress.strategy() != Strategy::Buffered;
                if is_offloaded && offloaded == 0 && progress.bytes() >= 100_000 {
                    offloaded = progress.bytes();
                    rustix::fs::fcntl_setfl(&sink, OFlags::APPEND).unwrap();
                }
                ControlFlow::Continue(())
            })
            .run()
            .unwrap();
        let what = format!("{from:?}\n{report:#}");
        assert!(offloaded > 0, "{what}");
        assert_eq!((report.bytes(), report.ended()), (len as u64, Ended::Eof));
        assert_same(&contents(&file), &bytes[..len], &what);
        assert_eq!(cursor(&sink), len as u64, "{what}");
        let mut attempts = report.attempts().iter();
        let last_resort = attempts.find(|attempt| attempt.strategy() == Strategy::Buffered);
        assert!(last_resort.is_some_and(|it| it.bytes() > 0), "{what}");
        let was_refused = report.attempts().iter().any(|attempt| {
            let errno = attempt.error().and_then(|error| error.raw_os_error());
            matches!(
                errno.map(Errno::from_raw_os_error),
                Some(Errno::INVAL | Errno::BADF)
            )
        });
        assert!(was_refused, "{what}");
    }
}

#[test]
fn promise_3_without_a_descriptor_for_the_private_pipe_the_rest_still_works() {
    let bytes = pattern(LARGE);
    for (from, to) in [
        (SourceKind::Regular(Fs::Ext4), SinkKind::Regular(Fs::Tmpfs)),
        (SourceKind::Pipe, SinkKind::Pipe),
        (SourceKind::Tcp, SinkKind::Tcp),
        (SourceKind::Memfd, SinkKind::Pipe),
    ] {
        let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(to)) else {
            continue;
        };
        let what = format!("{from:?} to {to:?}");
        let child = Child::new().without_descriptors();
        let report = child.run(dup(&source.fd), dup(&sink.fd)).unwrap();
        assert_eq!(
            (report.bytes, report.outcome),
            (LARGE as u64, Ok(())),
            "{what}"
        );
        let refused = ("splice_pipe".to_owned(), Errno::MFILE.raw_os_error());
        assert!(
            report.attempts.contains(&refused),
            "{what}: {:?}",
            report.attempts
        );
        assert_ne!(report.strategy, "splice_pipe", "{what}");
        let arrived = sink.into_bytes(0).unwrap();
        assert_same(&arrived, &bytes, &what);
    }
}

#[test]
fn promise_3_a_user_over_the_pipe_budget_is_served_by_other_means() {
    if !is_root() {
        return;
    }
    let bytes = pattern(LARGE);
    for (from, to) in [
        (SourceKind::Memfd, SinkKind::Pipe),
        (SourceKind::Pipe, SinkKind::Pipe),
        (SourceKind::Tcp, SinkKind::Tcp),
    ] {
        let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(to)) else {
            continue;
        };
        let what = format!("{from:?} to {to:?}");
        let child = Child::new().over_the_pipe_budget();
        let report = match child.run(dup(&source.fd), dup(&sink.fd)) {
            Ok(report) => report,
            Err(error) => return skip(&format!("the user nobody may not run the tests: {error}")),
        };
        assert_eq!(
            (report.bytes, report.outcome),
            (LARGE as u64, Ok(())),
            "{what}"
        );
        let refused = ("splice_pipe".to_owned(), Errno::NOBUFS.raw_os_error());
        assert!(
            report.attempts.contains(&refused),
            "{what}: {:?}",
            report.attempts
        );
        assert_ne!(report.strategy, "splice_pipe", "{what}");
        let arrived = sink.into_bytes(0).unwrap();
        assert_same(&arrived, &bytes, &what);
    }
}

/// `/proc/version` claims size 0. An offload that believed it would copy nothing.
#[test]
fn promise_3_proc_version_is_copied_whole() {
    let source = File::open("/proc/version").unwrap();
    let expected = std::fs::read("/proc/version").unwrap();
    let (dir, what) = (std::env::temp_dir(), "/proc/version");
    for strategy in allowed([Strategy::Buffered, Strategy::SplicePipe]) {
        let sink = file_in(&dir, b"");
        crate::files::set_cursor(&source, 0);
        let report = Transfer::new(&source, &sink).strategy(strategy).run();
        let report = report.unwrap();
        assert_eq!(report.strategy(), Some(strategy));
        assert_eq!(report.ended(), Ended::Eof);
        assert_same(&contents(&sink), &expected, what);
    }
}

fn dup(fd: &OwnedFd) -> OwnedFd {
    fd.try_clone().unwrap()
}
