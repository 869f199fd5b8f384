//! Every kind of source to sets of mixed sinks, of every length at which something changes.

use std::ops::ControlFlow;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use zcopy::{Ended, OnSinkError, Strategy};

use super::{Kind, Taker, strategies_of, to_all};
use crate::endpoints::{Source, SourceKind};
use crate::every_pair::LENGTHS;
use crate::files::{assert_same, pattern};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::is_refused;

/// They take a splice.
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

/// Some of them must be written to, and one always fails.
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

/// A sink with so many further ones: with an even number all take a splice.
fn set(n_further: usize) -> Vec<Kind> {
    let kinds = if n_further.is_multiple_of(2) {
        &SPLICED[..]
    } else {
        &MIXED[..]
    };
    let kinds = kinds.iter().cycle().skip(n_further * 3);
    kinds.take(n_further + 1).copied().collect()
}

macro_rules! everything {
    ($($name:ident: $kind:expr;)*) => {$(
        #[test]
        fn $name() {
            for n_further in 0..=13 {
                for length in LENGTHS {
                    // The long ones take turns.
                    let ticking = [false, true].into_iter();
                    for ticks in ticking.filter(|it| length < 32_000 || *it == (n_further % 4 < 2)) {
                        arrives_everywhere($kind, &set(n_further), length, ticks);
                    }
                }
            }
        }
    )*};
}

everything! {
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

/// How each sink is served: written down again, from what the kernel offers, and told with the sinks that are left.
fn strategies(
    from: SourceKind,
    kinds: &[Kind],
    length: usize,
    left: impl Fn(Kind) -> bool,
) -> Vec<Strategy> {
    use SourceKind as S;
    let is_written_to = |kind: &Kind| kind.must_be_written_to();
    let is_small_file = matches!(from, S::Regular(_)) && length <= 32 << 10;
    // What is limited is known to be small too.
    let cannot_be_shared = matches!(from, S::UnixSeqpacket | S::Terminal | S::ProcVersion);
    let gains = |kind: &Kind| !is_written_to(kind) && *kind != Kind::Null;
    let is_for_nothing = kinds.iter().any(is_written_to) && !kinds.iter().any(gains);
    if is_small_file || cannot_be_shared || is_for_nothing {
        return vec![Strategy::Buffered; kinds.len()];
    }
    let strategy = |kind: &Kind| match kind {
        kind if is_written_to(kind) => Strategy::Buffered,
        kind if kind.is_pipe() => Strategy::Tee,
        _ => Strategy::SplicePipe,
    };
    let mut strategies: Vec<_> = kinds.iter().map(strategy).collect();
    let left: Vec<_> = (0..kinds.len()).filter(|&i| left(kinds[i])).collect();
    if left.iter().all(|&i| strategies[i] != Strategy::Buffered) {
        let last = |strategy| left.iter().rfind(|&&i| strategies[i] == strategy).copied();
        if let Some(last) = last(Strategy::SplicePipe).or_else(|| last(Strategy::Tee)) {
            strategies[last] = Strategy::Splice;
        }
    }
    strategies
}

fn arrives_everywhere(from: SourceKind, kinds: &[Kind], length: usize, ticks: bool) {
    let what = format!("{from:?} to {kinds:?}, {length} bytes, {ticks}");
    let bytes = if from.has_own_bytes() {
        std::fs::read("/proc/version").unwrap()
    } else {
        pattern(length)
    };
    let Some(source) = Source::new(from, &bytes) else {
        return;
    };
    if from == SourceKind::Fifo {
        ioctl_fionbio(&source.fd, true).unwrap();
    }
    let takers: Option<Vec<_>> = kinds.iter().copied().map(Taker::new).collect();
    let Some(takers) = takers else { return };
    let fds: Vec<_> = takers.iter().map(Taker::fd).collect();
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
        .sinks()
        .iter()
        .map(zcopy::Candidate::strategy)
        .collect();
    assert_eq!(
        planned,
        strategies(from, kinds, length, |_| true),
        "{what}: {plan}"
    );

    let report = transfer.run().unwrap();
    let len = bytes.len() as u64;
    let ended = match source.limit {
        Some(_) => Ended::Limit,
        None => Ended::Eof,
    };
    assert_eq!(
        (report.bytes(), report.ended()),
        (len, ended),
        "{what}: {report}"
    );
    assert_eq!(report.undelivered(), b"", "{what}");
    // What failed when it was given something leaves its part to the others.
    let survives = |kind| kind != Kind::Full || len == 0;
    let mut served = strategies(from, kinds, length, survives);
    let mut found = strategies_of(report.sinks());
    // When bytes come out of a pipe in bulk, a lone reader is given a pipe of its own; whether they do is
    // up to the scheduler.
    let is_pipe = |i: &usize| kinds[*i].is_pipe() && survives(kinds[*i]);
    let readers: Vec<_> = (0..kinds.len()).filter(is_pipe).collect();
    if let ([lone], SourceKind::Pipe | SourceKind::Fifo) = (&readers[..], from)
        && served[*lone] == Strategy::Tee
        && found[*lone] == Strategy::SplicePipe
    {
        found[*lone] = Strategy::Tee;
    }
    // A lone sink needs no tee.
    let needs_tee = [Strategy::Tee, Strategy::SplicePipe];
    let needs_tee = served.iter().any(|strategy| needs_tee.contains(strategy));
    let needed = if needs_tee {
        Strategy::Tee
    } else {
        Strategy::Splice
    };
    // The end may be found before a call is refused.
    let is_met = len > 0 || found.iter().all(|strategy| *strategy == Strategy::Buffered);
    if is_refused(needed) && is_met {
        served.fill(Strategy::Buffered);
    }
    assert_eq!(found, served, "{what}: {report}");
    for ((index, taker), sink) in takers.into_iter().enumerate().zip(report.sinks()) {
        let what = format!("{what}: sink {index}");
        assert_eq!(sink.index(), index, "{what}");
        if !survives(kinds[index]) {
            let error = sink.error().unwrap().kind();
            assert_eq!(error, std::io::ErrorKind::StorageFull, "{what}");
            assert_eq!(sink.bytes(), 0, "{what}");
            continue;
        }
        assert!(sink.error().is_none(), "{what}: {report}");
        assert_eq!(sink.bytes(), len, "{what}: {report}");
        if let Some(arrived) = taker.into_bytes(len) {
            assert_same(&arrived, &bytes, &what);
        }
    }
}
