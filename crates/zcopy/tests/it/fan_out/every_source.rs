//! Every kind of source to sets of different sinks, at every length where something changes.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use zcopy::{Candidate, Ended, OnSinkError, Report, Strategy};

use super::{Kind, TestSink, strategies_of, to_all};
use crate::endpoints::{Source, SourceKind};
use crate::every_pair::LENGTHS;
use crate::files::{assert_same, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::is_refused;

/// Sinks that take a splice.
const SPLICED: [Kind; 9] = [
    Kind::Pipe,
    Kind::File,
    Kind::OneSlot,
    Kind::Tcp,
    Kind::SlowPipe,
    Kind::Null,
    Kind::NonBlocking,
    Kind::TinySocket,
    Kind::Tmpfs,
];

/// Sinks of which some must be written to and one always fails.
const MIXED: [Kind; 11] = [
    Kind::Append,
    Kind::Pipe,
    Kind::Tmpfs,
    Kind::Terminal,
    Kind::SlowPipe,
    Kind::Full,
    Kind::TinySocket,
    Kind::OneSlot,
    Kind::Null,
    Kind::File,
    Kind::NonBlocking,
];

/// One sink and this many further ones. All take a splice if the number is even.
fn sinks_with_further(n_further: usize) -> Vec<Kind> {
    let kinds = if n_further.is_multiple_of(2) {
        &SPLICED[..]
    } else {
        &MIXED[..]
    };
    // Each number begins the set with another sink.
    let kinds = kinds.iter().cycle().skip(n_further * 3);
    kinds.take(n_further + 1).copied().collect()
}

fn to_every_set_of_sinks(from: SourceKind) {
    for n_further in 0..=13 {
        let kinds = sinks_with_further(n_further);
        for len in LENGTHS {
            if len < 32_000 {
                assert_arrives_everywhere(from, &kinds, len, false);
                assert_arrives_everywhere(from, &kinds, len, true);
            } else {
                // Long transfers take time: each set makes them either with or without a tick.
                let ticks = n_further % 4 < 2;
                assert_arrives_everywhere(from, &kinds, len, ticks);
            }
        }
    }
}

macro_rules! every_source {
    ($($name:ident: $kind:expr;)*) => {$(
        #[test]
        fn $name() {
            to_every_set_of_sinks($kind);
        }
    )*};
}

every_source! {
    out_of_a_pipe: SourceKind::Pipe;
    out_of_a_fifo_that_does_not_block: SourceKind::Fifo;
    out_of_a_file_on_ext4: SourceKind::Regular(Fs::Ext4);
    out_of_a_file_on_tmpfs: SourceKind::Regular(Fs::Tmpfs);
    out_of_tcp: SourceKind::Tcp;
    out_of_a_unix_stream: SourceKind::UnixStream;
    out_of_messages: SourceKind::UnixSeqpacket;
    out_of_a_terminal: SourceKind::Terminal;
    out_of_proc_version: SourceKind::ProcVersion;
}

fn is_pipe_or_stream(from: SourceKind) -> bool {
    use SourceKind as S;
    matches!(from, S::Pipe | S::Fifo | S::UnixStream | S::Tcp)
}

/// The strategy of each sink, before one sink is chosen to consume the bytes of the source.
///
/// The table repeats what the kernel offers, so that a test fails if the plan changes.
fn shared_strategies(from: SourceKind, kinds: &[Kind], len: usize) -> Vec<Strategy> {
    use SourceKind as S;
    let is_small_file = matches!(from, S::Regular(_)) && len <= 32 << 10;
    // A terminal has a limit in these tests, so that its transfer is known to be small.
    let cannot_be_shared = matches!(from, S::UnixSeqpacket | S::Terminal | S::ProcVersion);
    // If one sink must be written to, the bytes are in memory, and sharing them with `/dev/null`
    // alone gains nothing.
    let must_write = kinds.iter().any(|kind| kind.must_be_written_to());
    let gains_by_sharing = |kind: &Kind| !kind.must_be_written_to() && *kind != Kind::Null;
    let gains_nothing = must_write && !kinds.iter().any(gains_by_sharing);
    if is_small_file || cannot_be_shared || gains_nothing {
        return vec![Strategy::Buffered; kinds.len()];
    }
    let strategy_of = |kind: &Kind| {
        if kind.must_be_written_to() {
            Strategy::Buffered
        } else if kind.is_pipe() {
            Strategy::Tee
        } else {
            Strategy::SplicePipe
        }
    };
    kinds.iter().map(strategy_of).collect()
}

/// The strategy of each sink, if those sinks fail for which `survives` is false.
///
/// One of the survivors gets the bytes by a splice that consumes them, unless a survivor is written
/// to: the last one behind a pipe of its own, or the last pipe.
fn expected_strategies(
    from: SourceKind,
    kinds: &[Kind],
    len: usize,
    survives: impl Fn(Kind) -> bool,
) -> Vec<Strategy> {
    let mut strategies = shared_strategies(from, kinds, len);
    let survivors: Vec<usize> = (0..kinds.len()).filter(|&i| survives(kinds[i])).collect();
    let is_written_to = survivors
        .iter()
        .any(|&i| strategies[i] == Strategy::Buffered);
    if !is_written_to {
        let last_by = |strategy| survivors.iter().rfind(|&&i| strategies[i] == strategy);
        let consumer = last_by(Strategy::SplicePipe)
            .or(last_by(Strategy::Tee))
            .copied();
        if let Some(consumer) = consumer {
            strategies[consumer] = Strategy::Splice;
        }
    }
    strategies
}

/// Moves `len` bytes to sinks of these kinds, with or without a tick.
fn assert_arrives_everywhere(from: SourceKind, kinds: &[Kind], len: usize, ticks: bool) {
    let what = format!("{from:?} to {kinds:?}, {len} bytes, {ticks}");
    let bytes = if from.has_own_bytes() {
        std::fs::read("/proc/version").unwrap()
    } else {
        pattern(len)
    };
    let Some(source) = Source::new(from, &bytes) else {
        return;
    };
    if from == SourceKind::Fifo {
        ioctl_fionbio(&source.fd, true).unwrap();
    }
    let test_sinks: Option<Vec<_>> = kinds.iter().copied().map(TestSink::new).collect();
    let Some(test_sinks) = test_sinks else { return };
    let fds: Vec<_> = test_sinks.iter().map(TestSink::fd).collect();
    let mut transfer = to_all(&source.fd, &fds)
        .on_sink_error(OnSinkError::Detach)
        .maybe_limit(source.limit);
    if ticks {
        transfer = transfer
            .tick(Duration::from_millis(1))
            .observe(|_| ControlFlow::Continue(()));
    }
    let plan = transfer.plan().unwrap();
    let planned: Vec<_> = plan
        .sink_candidates()
        .iter()
        .map(Candidate::strategy)
        .collect();
    let expected = expected_strategies(from, kinds, len, |_| true);
    assert_eq!(planned, expected, "{what}: {plan}");

    let report = transfer.run().unwrap();
    let n_bytes = bytes.len() as u64;
    let ended = match source.limit {
        Some(_) => Ended::Limit,
        None => Ended::Eof,
    };
    assert_eq!(report.bytes(), n_bytes, "{what}: {report:#}");
    assert_eq!(report.ended(), ended, "{what}: {report:#}");
    assert_eq!(report.undelivered(), b"", "{what}");
    // `/dev/full` fails at the first byte.
    let survives = |kind| kind != Kind::Full || n_bytes == 0;
    let expected = expected_strategies(from, kinds, len, survives);
    assert_strategies(from, kinds, expected, survives, &report, &what);

    for (index, test_sink) in test_sinks.into_iter().enumerate() {
        let sink = &report.sinks()[index];
        let what = format!("{what}: sink {index}");
        assert_eq!(sink.index(), index, "{what}");
        if !survives(kinds[index]) {
            let error = sink.error().unwrap().kind();
            assert_eq!(error, std::io::ErrorKind::StorageFull, "{what}");
            assert_eq!(sink.bytes(), 0, "{what}");
            continue;
        }
        assert!(sink.error().is_none(), "{what}: {report:#}");
        assert_eq!(sink.bytes(), n_bytes, "{what}: {report:#}");
        if let Some(arrived) = test_sink.into_bytes(n_bytes) {
            assert_same(&arrived, &bytes, &what);
        }
    }
}

/// Asserts that each sink was served by the expected strategy, or by its replacement if a filter
/// refuses a call.
fn assert_strategies(
    from: SourceKind,
    kinds: &[Kind],
    mut expected: Vec<Strategy>,
    survives: impl Fn(Kind) -> bool,
    report: &Report,
    what: &str,
) {
    let mut found = strategies_of(report.sinks());
    // When bytes come out of a pipe in bulk, the only pipe among the sinks is given a pipe of its
    // own. The scheduler decides whether they come in bulk.
    let is_pipe = |i: &usize| kinds[*i].is_pipe() && survives(kinds[*i]);
    let pipes: Vec<usize> = (0..kinds.len()).filter(is_pipe).collect();
    if let ([only], SourceKind::Pipe | SourceKind::Fifo) = (&pipes[..], from)
        && expected[*only] == Strategy::Tee
        && found[*only] == Strategy::SplicePipe
    {
        found[*only] = Strategy::Tee;
    }
    // Few bytes at once are written. The scheduler also decides how many come at once.
    if is_pipe_or_stream(from) && report.bytes() <= 64 << 10 {
        for index in (0..kinds.len()).filter(|&index| survives(kinds[index])) {
            if (1..=16 << 10).contains(&report.bytes()) {
                expected[index] = Strategy::Buffered;
            } else if found[index] == Strategy::Buffered {
                found[index] = expected[index];
            }
        }
    }
    // A transfer that shares bytes needs tee(2); one with a single sink needs splice(2) alone.
    let is_shared = |strategy: &Strategy| matches!(strategy, Strategy::Tee | Strategy::SplicePipe);
    let needed = if expected.iter().any(is_shared) {
        Strategy::Tee
    } else {
        Strategy::Splice
    };
    // An empty transfer may find the end before a call is refused.
    let is_all_buffered = found.iter().all(|strategy| *strategy == Strategy::Buffered);
    if is_refused(needed) && (report.bytes() > 0 || is_all_buffered) {
        expected.fill(Strategy::Buffered);
    }
    assert_eq!(found, expected, "{what}: {report:#}");
}
