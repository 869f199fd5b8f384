//! Sinks that fail, and processes that cannot open descriptors or pipes.

use std::fs::File;
use std::io::{ErrorKind, Read};

use rustix::io::Errno;
use zcopy::{Repeat, Side, Strategy};

use super::{LARGE, endless};
use crate::child_process::Child;
use crate::endpoints::{Sink, SinkKind, full, null, pipe};
use crate::files::{assert_same, contents, file_in, pattern};
use crate::mounts::{Fs, mount_tmpfs};
use crate::options::MaybeOptions as _;
use crate::refused::{allowed, refused_with};
use crate::skip::is_root;

#[test]
fn an_empty_pattern_is_refused() {
    let null = null();
    let error = Repeat::new(b"").limit(0).run(&null).unwrap_err();
    assert!(error.is_refused());
    assert_eq!((error.side(), error.bytes()), (Side::Source, 0));
    assert_eq!(error.raw_os_error(), Some(Errno::INVAL.raw_os_error()));
    assert!(Repeat::new(b"").plan(&null).unwrap_err().is_refused());
}

#[test]
fn a_sink_that_cannot_be_written_to_is_refused() {
    for (path, errno) in [("/", Errno::ISDIR), ("/dev/zero", Errno::BADF)] {
        let error = Repeat::new("y\n")
            .run(File::open(path).unwrap())
            .unwrap_err();
        assert!(error.is_refused());
        assert_eq!(error.side(), Side::Sink);
        assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
    }
}

#[test]
fn a_requested_strategy_that_cannot_serve_the_sink_is_unsuitable() {
    let full = full();
    for strategy in [Strategy::Tee, Strategy::Sendfile] {
        let error = Repeat::new("y\n").strategy(strategy).run(&full);
        assert!(error.unwrap_err().is_unsuitable());
    }
}

#[test]
fn a_full_device_takes_nothing() {
    let full = full();
    let error = Repeat::new("y\n").run(&full).unwrap_err();
    assert_eq!((error.kind(), error.bytes()), (ErrorKind::StorageFull, 0));
    assert_eq!(error.side(), Side::Sink);
    assert_eq!(error.report().strategy(), Strategy::Buffered);
}

#[test]
fn a_full_disk_loses_no_count() {
    for strategy in allowed([None, Some(Strategy::Tee)]) {
        let Some(root) = mount_tmpfs(1) else {
            return;
        };
        let sink = file_in(&root.dir(), b"");
        let pattern = pattern(4097);
        let repeat = Repeat::new(&pattern).maybe_strategy(strategy);
        let error = repeat.run(&sink).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        let arrived = contents(&sink);
        assert_eq!(error.bytes(), arrived.len() as u64, "{strategy:?}");
        assert!(error.bytes() > 900_000);
        assert_same(&arrived, &endless(&pattern, error.bytes()), "a full disk");
    }
}

#[test]
fn a_reader_that_closes_ends_the_repetition_and_the_count_covers_what_it_read() {
    for n in [0, 1, 100_000, 3 << 20] {
        for strategy in allowed([None, Some(Strategy::Tee), Some(Strategy::Buffered)]) {
            let (reader, writer) = pipe();
            let reader = std::thread::spawn(move || {
                let mut start = vec![0; n];
                File::from(reader).read_exact(&mut start).unwrap();
                start
            });
            let repeat = Repeat::new("abc").maybe_strategy(strategy);
            let error = repeat.run(&writer).unwrap_err();
            assert_eq!(
                (error.kind(), error.side()),
                (ErrorKind::BrokenPipe, Side::Sink)
            );
            let start = reader.join().unwrap();
            assert!(error.bytes() >= n as u64);
            assert_same(&start, &endless(b"abc", n as u64), "the start");
        }
    }
}

#[test]
fn a_file_size_limit_is_reached_to_the_byte() {
    const LIMIT: u64 = (1 << 20) + 1000;
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    for len in [2, 4097] {
        let sink = file_in(&dir, b"");
        let child = Child::that_ignores_xfsz().file_size(LIMIT);
        let null = File::open("/dev/null").unwrap();
        let fd = sink.try_clone().unwrap();
        let report = child
            .repeating(len, LARGE)
            .run(null.into(), fd.into())
            .unwrap();
        let errno = Errno::FBIG.raw_os_error();
        assert_eq!(report.outcome, Err(("sink".to_owned(), errno)));
        assert_eq!(report.bytes, LIMIT);
        assert_same(&contents(&sink), &endless(&pattern(len), LIMIT), "a limit");
    }
}

/// Repeats a pattern into a pipe, in a child, and asserts that every byte arrives.
fn assert_arrives(child: Child, tee_fails_with: Option<Errno>) {
    let sink = Sink::new(SinkKind::Pipe).unwrap();
    let null = File::open("/dev/null").unwrap();
    let fd = sink.fd.try_clone().unwrap();
    let report = child.repeating(4097, LARGE).run(null.into(), fd).unwrap();
    assert_eq!((report.bytes, &report.outcome), (LARGE, &Ok(())));
    let tee = report
        .attempts
        .iter()
        .find(|(strategy, _)| strategy == "tee");
    let expected = tee_fails_with.map_or(0, Errno::raw_os_error);
    assert_eq!(tee, Some(&("tee".to_owned(), expected)));
    let strategy = if tee_fails_with.is_some() {
        "buffered"
    } else {
        "tee"
    };
    assert_eq!(report.strategy, strategy);
    let arrived = sink.into_bytes(LARGE).unwrap();
    assert_same(&arrived, &endless(&pattern(4097), LARGE), "in a child");
}

#[test]
fn a_child_without_limits_uses_tee() {
    let refused = refused_with(Strategy::Tee);
    assert_arrives(Child::new(), refused);
}

#[test]
fn without_descriptors_the_pattern_is_written() {
    assert_arrives(Child::new().without_descriptors(), Some(Errno::MFILE));
}

#[test]
fn over_the_pipe_budget_the_pattern_is_written() {
    if is_root() {
        assert_arrives(Child::new().over_the_pipe_budget(), Some(Errno::NOBUFS));
    }
}
