//! Promise 4: a transfer changes no flag of the caller's descriptors, shrinks no pipe, and closes
//! no descriptor.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use zcopy::{Repeat, Strategy, Transfer};

use crate::child_process::Child;
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, full, pipe};
use crate::every_pair::LARGE;
use crate::files::{assert_same, file, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::{first_allowed, is_allowed, served_by};
use crate::strategies::{assert_served, can_be_spliced, every_strategy};

const SOURCES: [SourceKind; 6] = [
    SourceKind::Regular(Fs::Ext4),
    SourceKind::Pipe,
    SourceKind::Tcp,
    SourceKind::UnixStream,
    SourceKind::Block,
    SourceKind::Zero,
];
const SINKS: [SinkKind; 6] = [
    SinkKind::Regular(Fs::Ext4),
    SinkKind::Append,
    SinkKind::Pipe,
    SinkKind::Tcp,
    SinkKind::UnixStream,
    SinkKind::Block,
];

#[test]
fn promise_4_no_flag_is_changed() {
    // Long enough that a stream leaves its warm-up phase.
    let bytes = pattern(LARGE);
    for (from, to) in SOURCES
        .into_iter()
        .flat_map(|from| SINKS.map(|to| (from, to)))
    {
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            for tick in [None, Some(Duration::from_secs(3600))] {
                let what = format!("{from:?} to {to:?}, {flags:?}, {tick:?}");
                let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(to)) else {
                    continue;
                };
                let append = rustix::fs::fcntl_getfl(&sink.fd).unwrap() & OFlags::APPEND;
                rustix::fs::fcntl_setfl(&source.fd, flags).unwrap();
                rustix::fs::fcntl_setfl(&sink.fd, flags | append).unwrap();
                let flags = || {
                    let flags = |fd| rustix::fs::fcntl_getfl(fd).unwrap();
                    (flags(&source.fd), flags(&sink.fd))
                };
                let before = flags();
                let transfer = Transfer::new(&source.fd, &sink.fd).limit(LARGE as u64);
                let offload_is_allowed = served_by(&transfer.plan().unwrap()) != Strategy::Buffered;
                let report = transfer
                    .maybe_tick(tick)
                    .run()
                    .unwrap_or_else(|error| panic!("{what}: {error:#}"));
                assert_eq!(report.bytes(), LARGE as u64, "{what}");
                if tick.is_none() {
                    let is_offloaded = report.strategy() != Some(Strategy::Buffered);
                    let device_makes_bytes = from == SourceKind::Zero && !to.is_pipe();
                    let expected =
                        to != SinkKind::Append && !device_makes_bytes && can_be_spliced(from);
                    let expected =
                        expected && (offload_is_allowed || is_allowed(Strategy::SplicePipe));
                    assert_eq!(is_offloaded, expected, "{what}\n{report:#}");
                }
                assert_eq!(flags(), before, "{what}");
                if from != SourceKind::Zero {
                    assert_same(&sink.into_bytes(LARGE as u64).unwrap(), &bytes, &what);
                }
            }
        }
    }
}

#[test]
fn promise_4_no_pipe_is_shrunk() {
    let bytes = pattern(LARGE);
    for strategy in every_strategy() {
        if matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::CopyFileRange | Strategy::Sendfile)
        ) {
            continue;
        }
        for wanted in [4 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20] {
            let (source, sink) = (
                Source::new(SourceKind::Pipe, &bytes[..4096]).unwrap(),
                Sink::new(SinkKind::Pipe).unwrap(),
            );
            // More than 1 MiB is root's privilege.
            for fd in [&source.fd, &sink.fd] {
                let _ = fcntl_setpipe_size(fd, wanted);
            }
            let sizes = || [&source.fd, &sink.fd].map(|fd| fcntl_getpipe_size(fd).unwrap());
            let before = sizes();
            let transfer = Transfer::new(&source.fd, &sink.fd).maybe_strategy(strategy);
            let report = transfer.limit(LARGE as u64).run().unwrap();
            assert_eq!(report.bytes(), 4096);
            assert_served(&report, strategy, &format!("{strategy:?}"));
            let after = sizes();
            assert!(
                after[0] >= before[0] && after[1] >= before[1],
                "{before:?} {after:?}"
            );
            let grown = |before, after| (after > before).then_some(after);
            assert_eq!(report.grown_source(), grown(before[0], after[0]));
            assert_eq!(report.grown_sink(), grown(before[1], after[1]));
        }
    }
}

#[test]
fn promise_4_pipes_grow_only_if_they_may_and_the_report_says_so() {
    let bytes = pattern(LARGE);
    for may_grow in [true, false] {
        let source = Source::new(SourceKind::Memfd, &bytes).unwrap();
        let sink = Sink::new(SinkKind::Pipe).unwrap();
        let transfer = Transfer::new(&source.fd, &sink.fd).grow_pipes(may_grow);
        let report = transfer.run().unwrap();
        assert_eq!(report.bytes(), LARGE as u64);
        let expected = first_allowed(&[Strategy::Splice, Strategy::Sendfile]);
        let is_offloaded = report.strategy() != Some(Strategy::Buffered);
        assert_eq!(is_offloaded, expected != Strategy::Buffered);
        let capacity = fcntl_getpipe_size(&sink.fd).unwrap();
        assert_eq!(capacity > 64 << 10, may_grow);
        assert_eq!(report.grown_sink(), may_grow.then_some(capacity));
        assert_eq!(report.grown_source(), None);
        assert_same(&sink.into_bytes(0).unwrap(), &bytes, "a pipe");
    }
}

#[test]
fn promise_4_nothing_is_closed() {
    let bytes = pattern(LARGE);
    for strategy in every_strategy() {
        if matches!(
            strategy,
            Some(Strategy::Reflink | Strategy::CopyFileRange | Strategy::Sendfile)
        ) {
            continue;
        }
        let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
        let sink = Sink::new(SinkKind::Pipe).unwrap();
        let transfer = Transfer::new(&source.fd, &sink.fd).maybe_strategy(strategy);
        assert_eq!(transfer.run().unwrap().bytes(), LARGE as u64);
        assert_eq!(rustix::io::read(&source.fd, &mut [0; 1]), Ok(0));
        assert!(crate::files::write_all(&sink.fd, b"and one more"));
        let arrived = sink.into_bytes(0).unwrap();
        assert_same(&arrived, &[&bytes[..], b"and one more"].concat(), "a pipe");
    }
}

/// Other tests open descriptors at the same time, so a child process counts its own.
#[test]
fn promise_4_no_descriptor_is_left_open() {
    let report = Child::new()
        .counting_descriptors()
        .run(file(&pattern(LARGE)).into(), file(b"").into())
        .unwrap();
    assert_eq!(report.bytes, LARGE as u64);
}

/// Makes transfers that succeed, fail, stop and fall back, and asserts that no descriptor stays
/// open. The child process calls this.
pub(crate) fn leave_no_descriptor_open() {
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let bytes = pattern(LARGE);
    let before = open();
    for strategy in every_strategy() {
        for from in [SourceKind::Memfd, SourceKind::Pipe] {
            let transfers = |sink: &std::os::fd::OwnedFd, breaks: bool| {
                let source = Source::new(from, &bytes[..64 << 10]).unwrap();
                let mut transfer = Transfer::new(&source.fd, sink).maybe_strategy(strategy);
                if breaks {
                    transfer = transfer.observe(|_| ControlFlow::Break(()));
                }
                transfer.run().is_ok()
            };
            let (reader, writer) = pipe();
            fcntl_setpipe_size(&writer, 1 << 20).unwrap();
            transfers(&writer, false);
            transfers(&writer, true);
            drop(reader);
            assert!(!transfers(&writer, false), "nobody reads");
            assert!(!transfers(&full(), false));
            transfers(&file(b"").into(), false);
        }
    }
    for breaks in [false, true] {
        let (_reader, writer) = pipe();
        let repeat = Repeat::new("y\n").tick(Duration::from_millis(1));
        let repeat = repeat.observe(|progress| match progress.blocked() {
            Some(_) if breaks => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        let sink = if breaks { writer } else { full() };
        assert_eq!(repeat.run(&sink).is_ok(), breaks);
    }
    assert_eq!(open(), before, "descriptors before and after");
}
