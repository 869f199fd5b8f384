//! Pipes as sinks: pipes that are too small or too few, and one pipe named several times.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zcopy::Strategy;

use super::{Kind, TestSink, strategies_of, to_all, unless_refused};
use crate::child_process::{NOBODY, can_run_as_nobody, fill_pipes};
use crate::endpoints::{Sink, SinkKind, Source, SourceKind, pipe};
use crate::files::{assert_same, pattern};
use crate::mounts::Fs;
use crate::own_process::{is_own_process, is_own_process_under};
use crate::skip::has_program;

const LEN: usize = (1 << 20) + 7;

/// Moves [`LEN`] bytes to each of these sinks and returns the strategy of each.
fn strategies_to(from: SourceKind, kinds: &[Kind]) -> Vec<Strategy> {
    let bytes = pattern(LEN);
    let source = Source::new(from, &bytes).unwrap();
    if matches!(from, SourceKind::Pipe) && kinds.contains(&Kind::OneSlot) {
        // Bytes in many slots cannot move into one slot at once, so give the source one slot too.
        let _ = fcntl_setpipe_size(&source.fd, 4096);
    }
    let test_sinks: Vec<_> = kinds
        .iter()
        .map(|kind| TestSink::new(*kind).unwrap())
        .collect();
    assert_arrives(
        &source,
        test_sinks,
        &bytes,
        &format!("{from:?} to {kinds:?}"),
    )
}

fn assert_arrives(
    source: &Source,
    test_sinks: Vec<TestSink>,
    bytes: &[u8],
    what: &str,
) -> Vec<Strategy> {
    let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
    let report = to_all(&source.fd, &fds).grow_pipes(false).run().unwrap();
    assert_eq!(report.bytes(), bytes.len() as u64, "{what}: {report:#}");
    for (test_sink, sink) in test_sinks.into_iter().zip(report.sinks()) {
        assert_eq!(sink.bytes(), bytes.len() as u64, "{what}: {report:#}");
        if let Some(arrived) = test_sink.into_bytes(sink.bytes()) {
            assert_same(&arrived, bytes, what);
        }
    }
    strategies_of(report.sinks())
}

const MIXED: [Kind; 4] = [Kind::Pipe, Kind::Tcp, Kind::Pipe, Kind::TinySocket];
/// The strategies if there are no private pipes.
const ALTERNATING: [Strategy; 4] = [
    Strategy::Tee,
    Strategy::Buffered,
    Strategy::Tee,
    Strategy::Buffered,
];
const SHARED: [Strategy; 4] = [
    Strategy::Tee,
    Strategy::SplicePipe,
    Strategy::Tee,
    Strategy::Splice,
];

#[test]
fn a_pipe_of_one_slot_sets_the_pace() {
    use Strategy::{Splice, Tee};
    for from in [SourceKind::Pipe, SourceKind::Memfd, SourceKind::Tcp] {
        let strategies = strategies_to(from, &[Kind::OneSlot; 3]);
        assert_eq!(strategies, unless_refused([Tee, Tee, Splice]), "{from:?}");
        let strategies = strategies_to(from, &[Kind::Pipe, Kind::OneSlot, Kind::Null]);
        assert_eq!(strategies, unless_refused([Tee, Tee, Splice]), "{from:?}");
    }
}

/// New pipes of this user have two slots at most, which are not worth the calls: no private pipes
/// are used.
#[test]
fn a_user_over_the_pipe_budget_writes_to_every_sink() {
    let as_nobody = |command: &mut Command| {
        command.uid(NOBODY);
    };
    if !can_run_as_nobody()
        || !is_own_process(
            "fan_out::pipe_capacity::a_user_over_the_pipe_budget_writes_to_every_sink",
            as_nobody,
        )
    {
        return;
    }
    // Make and fill this pipe while the budget lasts.
    let bytes = pattern(LEN);
    let source = Source::new(SourceKind::Pipe, &bytes).unwrap();
    assert_eq!(
        fcntl_getpipe_size(&source.fd).unwrap(),
        64 << 10,
        "another process of this user has used the budget up"
    );
    let _budget = fill_pipes();
    let (reader, _writer) = pipe();
    assert!(fcntl_getpipe_size(&reader).unwrap() < 64 << 10);
    for from in [SourceKind::Memfd, SourceKind::UnixStream] {
        assert_eq!(
            strategies_to(from, &MIXED),
            [Strategy::Buffered; 4],
            "{from:?}"
        );
    }
    let test_sinks = MIXED.into_iter().filter_map(TestSink::new).collect();
    let strategies = assert_arrives(&source, test_sinks, &bytes, "out of a pipe");
    assert_eq!(strategies, [Strategy::Buffered; 4]);
}

/// Lets this process open `n` more pipes. Returns the limit from before.
fn allow_pipes(n: usize) -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    let pipes: Vec<_> = (0..n).map(|_| pipe()).collect();
    let used = pipes.iter().flat_map(|(reader, writer)| [reader, writer]);
    let next = std::fs::File::open("/dev/null").unwrap();
    // Each descriptor takes the lowest free number, so that all numbers below the highest are used.
    let highest = used.map(AsRawFd::as_raw_fd).max();
    let end = highest.map_or(next.as_raw_fd(), |highest| highest + 1);
    let limited = Rlimit {
        current: Some(u64::try_from(end).unwrap()),
        ..before
    };
    setrlimit(Resource::Nofile, limited).unwrap();
    before
}

#[test]
fn without_descriptors_for_pipes_sinks_are_written_to() {
    let name = "fan_out::pipe_capacity::without_descriptors_for_pipes_sinks_are_written_to";
    if is_own_process(name, |_| ()) {
        assert_written_to_without_descriptors();
    }
}

/// Before Linux 6.4 the kernel has no `PR_GET_AUXV`, and the size of a page must not be looked for
/// in `/proc/self/auxv`, which needs a descriptor.
#[test]
fn without_descriptors_the_page_size_is_known_all_the_same() {
    let name = "fan_out::pipe_capacity::without_descriptors_the_page_size_is_known_all_the_same";
    let refused = ["--trace=prctl", "--inject=prctl:error=EINVAL"];
    let strace = [&["strace", "-f", "-qq", "-o", "/dev/null"], &refused[..]].concat();
    if has_program("strace") && is_own_process_under(&strace, name, |_| ()) {
        assert_written_to_without_descriptors();
    }
}

fn assert_written_to_without_descriptors() {
    let bytes = pattern(LEN);
    // One private pipe holds the bytes of the source, and the first socket needs a second one.
    // Without it this socket is written to; the last socket can then not consume the bytes, and
    // would need a pipe too. Packets of a pipe are looked for in one more pipe.
    let expected = [
        (SourceKind::Memfd, 0, [Strategy::Buffered; 4]),
        (SourceKind::Memfd, 1, ALTERNATING),
        (SourceKind::Memfd, 2, SHARED),
        (SourceKind::Pipe, 0, [Strategy::Buffered; 4]),
        (SourceKind::Pipe, 1, [Strategy::Buffered; 4]),
        (SourceKind::Pipe, 2, ALTERNATING),
        (SourceKind::Pipe, 3, SHARED),
    ];
    for (from, n_pipes, expected) in expected {
        let what = format!("{from:?} and {n_pipes} pipes");
        let source = Source::new(from, &bytes).unwrap();
        let test_sinks: Vec<_> = MIXED.into_iter().filter_map(TestSink::new).collect();
        let before = allow_pipes(n_pipes);
        let strategies = assert_arrives(&source, test_sinks, &bytes, &what);
        setrlimit(Resource::Nofile, before).unwrap();
        assert_eq!(strategies, unless_refused(expected), "{what}");
    }
}

/// A pipe that is named three times gets every byte three times, in any mixture.
#[test]
fn a_pipe_that_is_named_several_times_gets_every_byte_as_often() {
    let bytes = pattern(LEN);
    let count = |bytes: &[u8]| {
        let mut counts = HashMap::new();
        for byte in bytes {
            *counts.entry(*byte).or_insert(0_u32) += 1;
        }
        counts
    };
    let expected = count(&bytes.repeat(3));
    for from in [
        SourceKind::Pipe,
        SourceKind::Regular(Fs::Tmpfs),
        SourceKind::Tcp,
    ] {
        let (Some(source), Some(sink)) = (Source::new(from, &bytes), Sink::new(SinkKind::Pipe))
        else {
            return;
        };
        let again = sink.fd.try_clone().unwrap();
        let report = to_all(&source.fd, &[&sink.fd, &again, &sink.fd])
            .run()
            .unwrap();
        drop(again);
        let lengths: Vec<_> = report
            .sinks()
            .iter()
            .map(zcopy::SinkReport::bytes)
            .collect();
        assert_eq!(lengths, [LEN as u64; 3], "{from:?}: {report:#}");
        let strategies = unless_refused([Strategy::Tee, Strategy::Tee, Strategy::Splice]);
        assert_eq!(
            strategies_of(report.sinks()),
            strategies,
            "{from:?}: {report:#}"
        );
        let arrived = sink.into_bytes(LEN as u64).unwrap();
        assert!(
            count(&arrived) == expected,
            "{from:?}: {} bytes",
            arrived.len()
        );
    }
}
