//! Every kind of source to every kind of sink, at every length where something changes, by the plan
//! and by each strategy, compared with a plain loop of read and write.

use std::collections::HashSet;

use std::os::fd::AsFd;
use zcopy::{Candidate, Ended, Strategy, Transfer};

use crate::endpoints::{Sink, SinkKind, Source, SourceKind};
use crate::files::{assert_same, pattern, write_all};
use crate::mounts::Fs;
use crate::options::MaybeOptions as _;
use crate::refused::{is_refused, served_by};
use crate::strategies::{STRATEGIES, can_be_spliced, serves};

/// The default capacity of a pipe.
const PIPE: usize = 64 << 10;
/// Up to this length the plan may read and write, whatever the pair.
const SMALL: usize = 32 << 10;
/// Up to this length it may do so from a file to a pipe.
const SMALL_TO_PIPE: usize = 12 << 10;
pub(crate) const LARGE: usize = (3 << 20) + 7;

/// Lengths around pages, pipes and the limits of the plan.
pub(crate) const LENGTHS: [usize; 14] = [
    0,
    1,
    4095,
    4096,
    4097,
    SMALL_TO_PIPE,
    SMALL_TO_PIPE + 1,
    SMALL - 1,
    SMALL,
    SMALL + 1,
    PIPE - 1,
    PIPE,
    PIPE + 1,
    LARGE,
];

macro_rules! every_pair {
    ($($name:ident: $kind:expr;)*) => {$(
        #[test]
        fn $name() {
            to_every_sink($kind);
        }
    )*};
}

every_pair! {
    from_a_file_on_ext4: SourceKind::Regular(Fs::Ext4);
    from_a_file_on_tmpfs: SourceKind::Regular(Fs::Tmpfs);
    from_a_file_on_btrfs: SourceKind::Regular(Fs::Btrfs);
    from_a_file_on_xfs: SourceKind::Regular(Fs::Xfs);
    from_proc_version: SourceKind::ProcVersion;
    from_proc_self_status: SourceKind::ProcStatus;
    from_a_sysfs_file: SourceKind::Sysfs;
    from_a_memfd: SourceKind::Memfd;
    from_a_sealed_memfd: SourceKind::SealedMemfd;
    from_a_pipe: SourceKind::Pipe;
    from_a_fifo: SourceKind::Fifo;
    from_tcp: SourceKind::Tcp;
    from_a_unix_stream: SourceKind::UnixStream;
    from_unix_datagrams: SourceKind::UnixDatagram;
    from_unix_seqpackets: SourceKind::UnixSeqpacket;
    from_a_terminal: SourceKind::Terminal;
    from_dev_zero: SourceKind::Zero;
    from_dev_urandom: SourceKind::Random;
    from_a_block_device: SourceKind::Block;
}

/// No test would try a strategy that this list lacks.
#[test]
fn every_strategy_that_a_plan_names_is_tried() {
    let source = std::fs::File::open("/dev/null").unwrap();
    let sink = std::fs::File::create("/dev/null").unwrap();
    let plan = Transfer::new(&source, &sink).plan().unwrap();
    let planned = plan.candidates().iter().map(Candidate::strategy);
    assert_eq!(planned.collect::<HashSet<_>>(), STRATEGIES.into());
}

/// Whether the plan must offload for this pair when there is much to move.
fn deserves_offload(from: SourceKind, to: SinkKind) -> bool {
    use SourceKind as S;
    let by_messages = matches!(from, S::UnixDatagram | S::UnixSeqpacket);
    let has_own_bytes = from.has_own_bytes();
    let terminal = from == S::Terminal || to == SinkKind::Terminal;
    // These devices make bytes as they are read. A splice would allocate a new page for them each
    // time.
    let is_made_by_device = matches!(from, S::Zero | S::Random) && !to.is_pipe();
    !(by_messages || has_own_bytes || terminal || is_made_by_device || to == SinkKind::Append)
}

fn to_every_sink(from: SourceKind) {
    let lengths: &[usize] = match from {
        _ if from.has_own_bytes() => &[LARGE],
        _ => &LENGTHS,
    };
    for to in SinkKind::ALL {
        for &len in lengths {
            // A terminal takes 4 KiB at a time, each after a switch of threads, so long transfers
            // would be slow.
            let has_terminal = from == SourceKind::Terminal || to == SinkKind::Terminal;
            if !(has_terminal && !from.has_own_bytes() && len > PIPE + 1) {
                assert_pair(from, to, &pattern(len));
            }
        }
    }
}

/// The outcome of one transfer.
struct Outcome {
    count: u64,
    ended: Ended,
    arrived: Option<Vec<u8>>,
    source_cursor: Option<u64>,
    sink_cursor: Option<u64>,
}

/// Moves these bytes from one kind of source to one kind of sink, by each strategy and by the plan.
fn assert_pair(from: SourceKind, to: SinkKind, bytes: &[u8]) {
    let Some(expected) = run(from, to, bytes, read_and_write) else {
        return;
    };
    for strategy in STRATEGIES {
        let what = format!("{from:?} to {to:?}, {} bytes, {strategy}", bytes.len());
        if !serves(strategy, from, to) || is_refused(strategy) {
            assert_unsuitable(from, to, bytes, strategy, &what);
            continue;
        }
        let found = run(from, to, bytes, |source, sink| {
            let transfer = transfer(source, sink).strategy(strategy);
            let report = transfer
                .run()
                .unwrap_or_else(|error| panic!("{what}: {error:#}"));
            assert_eq!(report.strategy(), Some(strategy), "{what}");
            assert!(report.attempts().len() <= 1, "{what}:\n{report:#}");
            (report.bytes(), report.ended())
        });
        expected.assert_matched_by(&found.unwrap(), from, &what);
    }
    let what = format!("{from:?} to {to:?}, {} bytes, by the plan", bytes.len());
    let found = run(from, to, bytes, |source, sink| {
        let plan = transfer(source, sink).plan().unwrap();
        let report = transfer(source, sink)
            .run()
            .unwrap_or_else(|error| panic!("{what}: {error:#}"));
        let strategy = report.strategy();
        if !can_be_spliced(from) {
            // The plan learns it from the call.
            assert_eq!(strategy, Some(Strategy::Buffered), "{what}:\n{report:#}");
            return (report.bytes(), report.ended());
        }
        assert_planned(from, to, bytes.len(), plan.strategy(), &what);
        let starts_small = bytes.len() <= 4 * PIPE
            && plan.warm_up().is_some_and(|warm_up| {
                strategy == Some(warm_up)
                    || is_refused(warm_up) && strategy == Some(Strategy::Buffered)
            });
        // A read confirms that there is nothing to move.
        let is_nothing = report.bytes() == 0 && strategy == Some(Strategy::Buffered);
        if !(starts_small || is_nothing) {
            assert_eq!(
                strategy,
                Some(served_by(&plan)),
                "{what}:\n{plan}\n{report:#}"
            );
        }
        (report.bytes(), report.ended())
    });
    expected.assert_matched_by(&found.unwrap(), from, &what);
}

/// Asserts that the plan chooses a strategy that serves the pair, and an offload if there is much
/// to move.
fn assert_planned(from: SourceKind, to: SinkKind, len: usize, chosen: Strategy, what: &str) {
    assert!(serves(chosen, from, to), "{what}: {chosen}");
    if len == LARGE && deserves_offload(from, to) {
        assert_ne!(chosen, Strategy::Buffered, "{what}");
    }
    if !deserves_offload(from, to) {
        assert_eq!(chosen, Strategy::Buffered, "{what}");
    }
    let knows_size = matches!(from, SourceKind::Regular(_)) || from == SourceKind::Memfd;
    let small = match to {
        SinkKind::Pipe | SinkKind::Fifo => SMALL_TO_PIPE,
        _ => SMALL,
    };
    if knows_size && len <= small {
        assert_eq!(chosen, Strategy::Buffered, "{what}");
    }
}

/// Asserts that a strategy that cannot serve the pair fails as unsuitable and moves nothing.
fn assert_unsuitable(from: SourceKind, to: SinkKind, bytes: &[u8], strategy: Strategy, what: &str) {
    let source = Source::new(from, bytes).unwrap();
    let sink = Sink::new(to).unwrap();
    if source.limit == Some(0) {
        return;
    }
    let outcome = transfer(&source, &sink).strategy(strategy).run();
    if let (Ok(report), true, true) = (&outcome, is_refused(strategy), bytes.is_empty()) {
        // Two files without bytes to move take no call, so that none is refused.
        assert_eq!(report.bytes(), 0, "{what}: {report:#}");
        return;
    }
    let error = outcome.expect_err(what);
    assert!(error.is_unsuitable(), "{what}: {error:#}");
    assert_eq!(error.side(), zcopy::Side::Neither, "{what}");
    assert_eq!((error.bytes(), error.undelivered()), (0, &[][..]), "{what}");
    assert_eq!(source.cursor().unwrap_or(0), 0, "{what}");
    let arrived = sink.into_bytes(0).unwrap_or_default();
    assert!(arrived.is_empty(), "{what}: {} bytes", arrived.len());
    let untouched = source.into_rest();
    if !(from.has_own_bytes() || matches!(from, SourceKind::Zero | SourceKind::Random)) {
        assert_same(&untouched, bytes, what);
    }
}

fn transfer<'a>(source: &'a Source, sink: &'a Sink) -> Transfer<'a> {
    let transfer = Transfer::new(source.fd.as_fd(), sink.fd.as_fd());
    transfer.maybe_limit(source.limit)
}

/// Runs one transfer between a new source and a new sink. Returns `None` if this machine has no
/// such pair.
fn run(
    from: SourceKind,
    to: SinkKind,
    bytes: &[u8],
    transfer: impl FnOnce(&Source, &Sink) -> (u64, Ended),
) -> Option<Outcome> {
    let source = Source::new(from, bytes)?;
    let sink = Sink::new(to)?;
    let (count, ended) = transfer(&source, &sink);
    Some(Outcome {
        count,
        ended,
        source_cursor: source.cursor(),
        sink_cursor: sink.cursor(),
        arrived: sink.into_bytes(count),
    })
}

/// The oracle: a plain loop of read and write.
fn read_and_write(source: &Source, sink: &Sink) -> (u64, Ended) {
    let mut buffer = vec![0; 64 << 10];
    let mut count = 0;
    loop {
        let left = source.limit.map_or(u64::MAX, |limit| limit - count);
        if left == 0 {
            return (count, Ended::Limit);
        }
        let len = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let n = rustix::io::read(&source.fd, &mut buffer[..len]).unwrap();
        if n == 0 {
            return (count, Ended::Eof);
        }
        assert!(write_all(&sink.fd, &buffer[..n]));
        count += n as u64;
    }
}

impl Outcome {
    #[track_caller]
    fn assert_matched_by(&self, found: &Self, from: SourceKind, what: &str) {
        assert_eq!(found.ended, self.ended, "{what}");
        match (&self.arrived, &found.arrived) {
            (Some(expected), Some(arrived)) => match from {
                SourceKind::Random => assert_random(arrived, self.count, what),
                SourceKind::ProcStatus => {
                    assert_eq!(field_names(arrived), field_names(expected), "{what}");
                    assert_eq!(arrived.len() as u64, found.count, "{what}");
                    return;
                }
                _ => assert_same(arrived, expected, what),
            },
            (expected, arrived) => assert_eq!(expected.is_some(), arrived.is_some(), "{what}"),
        }
        if from != SourceKind::ProcStatus {
            assert_eq!(found.count, self.count, "{what}");
            assert_eq!(found.source_cursor, self.source_cursor, "{what}");
            assert_eq!(found.sink_cursor, self.sink_cursor, "{what}");
        }
    }
}

#[track_caller]
fn assert_random(bytes: &[u8], count: u64, what: &str) {
    assert_eq!(bytes.len() as u64, count, "{what}");
    // 15 equal bytes in a row or more have such a word among them. Eight bytes at a time, because
    // tests are not optimized.
    let (words, _) = bytes.as_chunks();
    let is_one_byte = |word: &[u8; 8]| {
        let word = u64::from_ne_bytes(*word);
        word == word.rotate_left(8)
    };
    assert!(
        !words.iter().any(is_one_byte),
        "{what}: a run of equal bytes"
    );
}

/// The numbers in `/proc/self/status` change from read to read; the names do not.
fn field_names(status: &[u8]) -> Vec<String> {
    let status = std::str::from_utf8(status).unwrap();
    let names = status.lines().map(|line| line.split(':').next());
    names.map(|name| name.unwrap().to_owned()).collect()
}
