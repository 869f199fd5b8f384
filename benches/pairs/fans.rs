//! One source and several sinks.

use std::time::{Duration, Instant};

use rustix::io::{read, write};
use zcopy::{FanOut, Strategy};

use super::ends::{Sink, Source, Stream};
use super::files::Files;
use super::mounts::Fs;

/// Up to this size nothing of a file is shared.
const SMALL: u64 = 32 << 10;

/// A source and several sinks to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan {
    pub(crate) name: &'static str,
    source: Source,
    sinks: &'static [Sink],
}

/// A way to move bytes to several sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FanMover {
    /// `Transfer` with one strategy requested.
    Forced(Strategy),
    /// Reads into a buffer of 256 KiB, and writes that to each sink.
    ReadWrite,
}

pub(crate) const FANS: &[Fan] = &[
    fan(
        "pipe_to_pipe_and_null",
        Source::WrittenPipe,
        &[Sink::ReadPipe, Sink::Null],
    ),
    fan(
        "pipe_to_pipe_and_null_teed",
        Source::TeedPipe,
        &[Sink::SplicedPipe, Sink::Null],
    ),
    fan(
        "pipe_to_pipe_and_file",
        Source::WrittenPipe,
        &[Sink::ReadPipe, Sink::File(Fs::Tmpfs)],
    ),
    fan(
        "pipe_to_four_pipes",
        Source::WrittenPipe,
        &[Sink::ReadPipe; 4],
    ),
    fan(
        "file_to_two_pipes",
        Source::File(Fs::Ext4),
        &[Sink::SplicedPipe; 2],
    ),
    fan(
        "file_to_two_files",
        Source::File(Fs::Ext4),
        &[Sink::File(Fs::Tmpfs), Sink::File(Fs::Ext4)],
    ),
    fan("file_to_two_tcp", Source::File(Fs::Ext4), &[Sink::Tcp; 2]),
    fan(
        "tcp_to_file_and_tcp",
        Source::Tcp,
        &[Sink::File(Fs::Tmpfs), Sink::Tcp],
    ),
];

const fn fan(name: &'static str, source: Source, sinks: &'static [Sink]) -> Fan {
    Fan {
        name,
        source,
        sinks,
    }
}

impl FanMover {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Forced(strategy) => strategy.to_string(),
            Self::ReadWrite => "read_write".to_owned(),
        }
    }
}

impl Fan {
    /// Whether this machine has such ends; says so if not.
    pub(crate) fn is_possible(&self, files: &Files) -> bool {
        let mut sinks = self.sinks.iter();
        self.source.is_possible(files) && sinks.all(|sink| sink.is_possible(files))
    }

    /// Both strategies, where they serve so many bytes, and the plain loop.
    pub(crate) fn movers(&self, bytes: u64) -> impl Iterator<Item = FanMover> {
        let shares = !matches!(self.source, Source::File(_)) || bytes > SMALL;
        let tee = shares.then_some(FanMover::Forced(Strategy::Tee));
        let others = [FanMover::Forced(Strategy::Buffered), FanMover::ReadWrite];
        tee.into_iter().chain(others)
    }

    /// Moves `bytes` bytes once and returns how long that took.
    ///
    /// # Panics
    ///
    /// If anything fails, or not exactly `bytes` bytes arrive everywhere.
    pub(crate) fn time(&self, files: &Files, bytes: u64, mover: FanMover) -> Duration {
        let (source, feeder) = self.source.open(files, bytes);
        let (sinks, drainers): (Vec<_>, Vec<_>) =
            self.sinks.iter().map(|sink| sink.open(files)).unzip();
        let start = Instant::now();
        let n_bytes = match mover {
            FanMover::Forced(strategy) => transfer(&source, &sinks, strategy),
            FanMover::ReadWrite => read_write(&source, &sinks),
        };
        let elapsed = start.elapsed();
        assert_eq!(n_bytes, bytes, "{} by {mover:?}", self.name);
        drop((source, sinks));
        feeder.join().expect("the writer");
        for drainer in drainers {
            let arrived = drainer.join().expect("the reader");
            assert!(arrived.is_none_or(|n| n == bytes), "{}", self.name);
        }
        elapsed
    }
}

fn transfer(source: &Stream, sinks: &[Stream], strategy: Strategy) -> u64 {
    let (first, others) = sinks.split_first().expect("a sink");
    let fan_out = FanOut::new(source, first).strategy(strategy);
    let fan_out = others.iter().fold(fan_out, FanOut::also_to);
    fan_out.run().expect("the fan-out").bytes()
}

fn read_write(source: &Stream, sinks: &[Stream]) -> u64 {
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        let n = read(source, &mut buffer).expect("bytes");
        if n == 0 {
            return total;
        }
        total += n as u64;
        for sink in sinks {
            let mut rest = &buffer[..n];
            while !rest.is_empty() {
                rest = &rest[write(sink, rest).expect("a reader")..];
            }
        }
    }
}
