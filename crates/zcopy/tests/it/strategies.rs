//! The strategies, and the pairs of source and sink that each of them serves.

use std::fs::File;
use std::io::pipe;
use std::sync::LazyLock;

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};
use zcopy::{Attempt, Report, Strategy};

use crate::endpoints::{SinkKind, SourceKind};
use crate::mounts::Fs;
use crate::refused::allowed;
use crate::skip::report;

/// The strategies of a transfer to one sink.
pub(crate) const STRATEGIES: [Strategy; 6] = [
    Strategy::Reflink,
    Strategy::CopyFileRange,
    Strategy::Sendfile,
    Strategy::Splice,
    Strategy::SplicePipe,
    Strategy::Buffered,
];

/// Each strategy that is not refused, and `None`, which leaves the choice to the plan.
pub(crate) fn every_strategy() -> impl Iterator<Item = Option<Strategy>> {
    allowed(STRATEGIES.into_iter().map(Some).chain([None]))
}

/// The strategies of [`every_strategy`] that serve a pair.
pub(crate) fn strategies_for(
    from: SourceKind,
    to: SinkKind,
) -> impl Iterator<Item = Option<Strategy>> {
    every_strategy()
        .filter(move |strategy| strategy.is_none_or(|strategy| serves(strategy, from, to)))
}

/// Whether a strategy serves a pair.
///
/// The table repeats what the kernel offers, so that a test fails if a strategy stops serving a
/// pair.
pub(crate) fn serves(strategy: Strategy, from: SourceKind, to: SinkKind) -> bool {
    use SourceKind as S;
    let keeps_boundaries = matches!(from, S::UnixDatagram | S::UnixSeqpacket);
    if strategy != Strategy::Buffered && (keeps_boundaries || to == SinkKind::Append) {
        return false;
    }
    if strategy != Strategy::Buffered && !can_be_spliced(from) {
        return false;
    }
    match strategy {
        Strategy::Reflink => match (from, to) {
            (S::Regular(a), SinkKind::Regular(b)) => a == b && matches!(a, Fs::Btrfs | Fs::Xfs),
            _ => false,
        },
        Strategy::CopyFileRange => match (from, to) {
            (S::Regular(a), SinkKind::Regular(b)) => a == b,
            (S::Memfd | S::SealedMemfd, SinkKind::Memfd) => true,
            _ => false,
        },
        // sendfile(2) takes no offset for its sink. A splice(2) would wait for bytes at a cursor
        // that others may move.
        Strategy::Sendfile | Strategy::Splice if to.has_cursor() => false,
        Strategy::Sendfile => matches!(
            from,
            S::Regular(_)
                | S::Memfd
                | S::SealedMemfd
                | S::ProcVersion
                | S::Sysfs
                | S::Zero
                | S::Random
                | S::Block
        ),
        Strategy::Splice => (from.is_pipe() || to.is_pipe()) && from != S::ProcStatus,
        Strategy::SplicePipe => from != S::ProcStatus,
        Strategy::Buffered => true,
        _ => unreachable!("{strategy} has no row"),
    }
}

/// Whether the kernel can splice a source at all. Some kernels, such as 5.10, can read `/dev/zero`
/// and `/dev/urandom` only.
pub(crate) fn can_be_spliced(from: SourceKind) -> bool {
    static SPLICES_DEVICES: LazyLock<bool> = LazyLock::new(|| {
        let zeros = File::open("/dev/zero").unwrap();
        let (_reader, writer) = pipe().unwrap();
        let flags = SpliceFlags::empty();
        let splices = splice(zeros, None, writer, None, 1, flags) != Err(Errno::INVAL);
        if !splices {
            report("this kernel splices no bytes out of /dev/zero and /dev/urandom");
        }
        splices
    });
    !matches!(from, SourceKind::Zero | SourceKind::Random) || *SPLICES_DEVICES
}

/// Whether a call of this strategy into a pipe may sleep until the pipe has taken all of it, though
/// the pipe had room: that of `sendfile(2)` does before Linux 5.12. Says so if it does.
pub(crate) fn waits_for_readers(strategy: Option<Strategy>) -> bool {
    static WAITS: LazyLock<bool> = LazyLock::new(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split('.').map(|number| number.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
        version < (5, 12)
    });
    let waits = strategy == Some(Strategy::Sendfile) && *WAITS;
    if waits {
        report("before Linux 5.12 sendfile(2) waits until a pipe has taken all bytes");
    }
    waits
}

/// Returns how many bytes this strategy moved.
pub(crate) fn moved_by(report: &Report, strategy: Strategy) -> u64 {
    let attempts = report.attempts().iter();
    let those = attempts.filter(|attempt| attempt.strategy() == strategy);
    those.map(Attempt::bytes).sum()
}

/// Asserts that the requested strategy moved the bytes, if one was requested.
#[track_caller]
pub(crate) fn assert_served(report: &Report, requested: Option<Strategy>, what: &str) {
    if let Some(requested) = requested {
        assert_eq!(report.strategy(), Some(requested), "{what}\n{report:#}");
    }
}
