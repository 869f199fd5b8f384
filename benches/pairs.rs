//! The pairs of descriptors that the benchmarks move bytes between, and the ways to move them.
//!
//! Sources are warm in the page cache, targets are fresh. Peers (the writer of a source pipe, the
//! reader of a sink) are threads of this process. What is timed is the transfer alone: from the
//! call until it returns.

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

use std::time::{Duration, Instant};

use zcopy::{Strategy, Transfer};

use ends::{Sink, Source, Stream};
#[allow(unused_imports, reason = "one benchmark alone has several sinks")]
pub(crate) use fans::FANS;
#[allow(unused_imports, reason = "one benchmark alone has a choice of peers")]
pub(crate) use files::{Files, Peers};
use mounts::Fs;
#[allow(unused_imports, reason = "one benchmark alone has sizes of its own")]
pub(crate) use sizes::{sizes, sizes_or};

mod ends;
#[allow(dead_code, reason = "one benchmark alone has several sinks")]
mod fans;
mod files;
mod peers;
#[path = "sizes.rs"]
mod sizes;

// File systems are mounted, and left out aloud, as in the tests.
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "the tests need more of it, and may panic"
)]
#[path = "../crates/zcopy/tests/it/mounts.rs"]
mod mounts;
#[allow(dead_code, reason = "the tests need more of it")]
#[path = "../crates/zcopy/tests/it/skip.rs"]
mod skip;

const MIB: usize = 1 << 20;

/// A way to move bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mover {
    /// `Transfer` as the plan decides.
    Plan,
    /// `Transfer` with one strategy requested.
    Forced(Strategy),
    /// `std::io::copy`.
    Std,
}

/// A pair of descriptors to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    /// The strategies that can serve it.
    pub(crate) strategies: &'static [Strategy],
    source: Source,
    sink: Sink,
}

/// The pairs, in the order of the table in `docs/benchmarks.md`.
pub(crate) const PAIRS: &[Pair] = {
    use Strategy::{Buffered, CopyFileRange, Reflink, Sendfile, Splice, SplicePipe};
    const SHARING: &[Strategy] = &[Reflink, CopyFileRange, SplicePipe, Buffered];
    const WITHIN: &[Strategy] = &[CopyFileRange, SplicePipe, Buffered];
    const ACROSS: &[Strategy] = &[SplicePipe, Buffered];
    const BY_SENDFILE: &[Strategy] = &[Sendfile, SplicePipe, Buffered];
    const TO_PIPE: &[Strategy] = &[Sendfile, Splice, SplicePipe, Buffered];
    const WITH_PIPE: &[Strategy] = &[Splice, SplicePipe, Buffered];

    const EXT4: Source = Source::File(Fs::Ext4);
    const TMPFS: Source = Source::File(Fs::Tmpfs);
    const BTRFS: Source = Source::File(Fs::Btrfs);
    const XFS: Source = Source::File(Fs::Xfs);
    const WRITTEN: Source = Source::WrittenPipe;
    const TEED: Source = Source::TeedPipe;
    const TO_EXT4: Sink = Sink::File(Fs::Ext4);
    const TO_TMPFS: Sink = Sink::File(Fs::Tmpfs);
    const TO_BTRFS: Sink = Sink::File(Fs::Btrfs);
    const TO_XFS: Sink = Sink::File(Fs::Xfs);
    const SPLICED: Sink = Sink::SplicedPipe;
    const READ: Sink = Sink::ReadPipe;
    &[
        pair("file_to_null", EXT4, Sink::Null, BY_SENDFILE),
        pair("file_to_pipe", EXT4, SPLICED, TO_PIPE),
        pair("file_to_pipe_read", EXT4, READ, TO_PIPE),
        pair("tmpfs_to_pipe", TMPFS, SPLICED, TO_PIPE),
        pair("file_to_tcp", EXT4, Sink::Tcp, BY_SENDFILE),
        pair("tmpfs_to_tcp", TMPFS, Sink::Tcp, BY_SENDFILE),
        pair("file_to_unix", EXT4, Sink::Unix, BY_SENDFILE),
        pair("file_to_file_ext4", EXT4, TO_EXT4, WITHIN),
        pair("file_to_file_tmpfs", TMPFS, TO_TMPFS, WITHIN),
        pair("file_to_file_btrfs", BTRFS, TO_BTRFS, SHARING),
        pair("file_to_file_xfs", XFS, TO_XFS, SHARING),
        pair("ext4_to_tmpfs", EXT4, TO_TMPFS, ACROSS),
        pair("tmpfs_to_ext4", TMPFS, TO_EXT4, ACROSS),
        pair("pipe_to_pipe", WRITTEN, READ, WITH_PIPE),
        pair("pipe_to_pipe_teed", TEED, SPLICED, WITH_PIPE),
        pair("pipe_to_null", WRITTEN, Sink::Null, WITH_PIPE),
        pair("pipe_to_null_teed", TEED, Sink::Null, WITH_PIPE),
        pair("pipe_to_file", WRITTEN, TO_TMPFS, ACROSS),
        pair("pipe_to_tcp", WRITTEN, Sink::Tcp, WITH_PIPE),
        pair("tcp_to_tcp", Source::Tcp, Sink::Tcp, ACROSS),
        pair("tcp_to_null", Source::Tcp, Sink::Null, ACROSS),
        pair("tcp_to_file", Source::Tcp, TO_TMPFS, ACROSS),
        pair("tcp_to_pipe", Source::Tcp, READ, WITH_PIPE),
        pair("unix_to_unix", Source::Unix, Sink::Unix, ACROSS),
    ]
};

const fn pair(
    name: &'static str,
    source: Source,
    sink: Sink,
    strategies: &'static [Strategy],
) -> Pair {
    Pair {
        name,
        strategies,
        source,
        sink,
    }
}

impl Mover {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Plan => "plan".to_owned(),
            Self::Forced(strategy) => strategy.to_string(),
            Self::Std => "std_io_copy".to_owned(),
        }
    }
}

impl Pair {
    /// The plan, each strategy by itself, and the standard library.
    pub(crate) fn movers(&self) -> impl Iterator<Item = Mover> {
        let requested = self.strategies.iter().copied().map(Mover::Forced);
        [Mover::Plan]
            .into_iter()
            .chain(requested)
            .chain([Mover::Std])
    }

    /// Whether this machine has such a pair; says so if not.
    pub(crate) fn is_possible(&self, files: &Files) -> bool {
        self.source.is_possible(files) && self.sink.is_possible(files)
    }

    /// Moves `bytes` bytes once and returns how long that took.
    ///
    /// # Panics
    ///
    /// If anything fails, or not exactly `bytes` bytes arrive.
    #[allow(dead_code, reason = "one benchmark alone measures more")]
    pub(crate) fn time(&self, files: &Files, bytes: u64, mover: Mover) -> Duration {
        let before = Instant::now;
        self.observe(files, bytes, mover, before, |start| start.elapsed())
    }

    /// Moves `bytes` bytes once. `before` and `after` are called right before and right after the
    /// transfer.
    ///
    /// # Panics
    ///
    /// If anything fails, or not exactly `bytes` bytes arrive.
    pub(crate) fn observe<Start, Taken>(
        &self,
        files: &Files,
        bytes: u64,
        mover: Mover,
        before: impl FnOnce() -> Start,
        after: impl FnOnce(Start) -> Taken,
    ) -> Taken {
        self.observe_by(files, bytes, mover, |run| {
            let start = before();
            run();
            after(start)
        })
    }

    /// Moves `bytes` bytes once, when `around` calls what it is given.
    ///
    /// # Panics
    ///
    /// If anything fails, or not exactly `bytes` bytes arrive.
    pub(crate) fn observe_by<Taken>(
        &self,
        files: &Files,
        bytes: u64,
        mover: Mover,
        around: impl FnOnce(&mut dyn FnMut()) -> Taken,
    ) -> Taken {
        let (mut source, feeder) = self.source.open(files, bytes);
        let (mut sink, drainer) = self.sink.open(files);
        Peers::wait_for_source(&source, bytes);
        let mut result = Ok(0);
        let taken = around(&mut || result = move_bytes(mover, &mut source, &mut sink));
        let n_bytes = result.expect("the transfer");
        assert_eq!(n_bytes, bytes, "{} by {mover:?}", self.name);
        drop((source, sink));
        feeder.join().expect("the writer");
        let arrived = drainer.join().expect("the reader");
        assert!(arrived.is_none_or(|n| n == bytes), "{}", self.name);
        taken
    }
}

/// Moves all bytes. It is a function of its own because callgrind counts by function.
#[inline(never)]
fn move_bytes(mover: Mover, source: &mut Stream, sink: &mut Stream) -> zcopy::Result<u64> {
    let transfer = || Transfer::new(&*source, &*sink);
    match mover {
        Mover::Plan => transfer().run().map(|it| it.bytes()),
        Mover::Forced(strategy) => transfer().strategy(strategy).run().map(|it| it.bytes()),
        Mover::Std => Ok(source.copy_to(sink)),
    }
}
