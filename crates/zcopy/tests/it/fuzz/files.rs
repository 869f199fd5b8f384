//! Random transfers from file to file.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::OFlags;
use zcopy::{Cache, Ended, Reflink, Sparse, Strategy, SyncData, Transfer};

use super::fuzz;
use crate::concurrency::scratch_dirs;
use crate::files::{
    assert_same, contents, cursor, file_in, pattern, reopen, set_cursor, try_reopen,
};
use crate::mounts::Fs;
use crate::random::Random;
use crate::strategies::STRATEGIES;

const BLOCK: usize = 4096;

/// Where the transfer begins in the source or the sink.
#[derive(Clone, Copy, Debug)]
enum Start {
    Cursor(u64),
    Offset(u64),
}

impl Start {
    fn draw(random: &mut Random, len: usize) -> Self {
        let position = match random.below(4) {
            0 | 1 => 0,
            2 => random.below(len as u64 / BLOCK as u64 + 1) * BLOCK as u64,
            _ => random.below(len as u64 + 1),
        };
        if random.one_in(2) {
            Self::Cursor(position)
        } else {
            Self::Offset(position)
        }
    }

    fn position(self) -> u64 {
        match self {
            Self::Cursor(position) | Self::Offset(position) => position,
        }
    }

    /// The cursor after a transfer of this many bytes.
    fn cursor_after(self, bytes: u64) -> u64 {
        match self {
            Self::Cursor(position) => position + bytes,
            Self::Offset(_) => 0,
        }
    }
}

#[derive(Debug)]
struct Case {
    source_dir: PathBuf,
    sink_dir: PathBuf,
    source: Vec<u8>,
    sink: Vec<u8>,
    source_flags: OFlags,
    sink_flags: OFlags,
    from: Start,
    to: Start,
    limit: Option<u64>,
    strategy: Option<Strategy>,
    sparse: Sparse,
    reflink: Reflink,
    cache: Cache,
    sync_data: SyncData,
    buffer_size: Option<usize>,
    is_stable: bool,
    is_inspected: bool,
    has_tick: bool,
}

fn draw_len(random: &mut Random) -> usize {
    match random.below(8) {
        0 => 0,
        1 => 1,
        2 => random.below_len(BLOCK),
        3 => random.below_len(9) * BLOCK,
        4 | 5 => random.below_len(100_000),
        _ => random.below_len(600_000),
    }
}

/// Bytes with some runs of blocks of zeros.
fn draw_bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = pattern(len);
    let zero_share = 1 + random.below(5);
    let mut is_zero = false;
    for block in bytes.chunks_mut(BLOCK) {
        if random.one_in(1 + zero_share) {
            is_zero = !is_zero && zero_share < 5;
        }
        if is_zero {
            block.fill(0);
        }
    }
    bytes
}

/// A file with these bytes, in which some blocks of zeros are holes.
fn make_file(dir: &std::path::Path, bytes: &[u8], random: &mut Random) -> File {
    let file = file_in(dir, b"");
    file.set_len(bytes.len() as u64).unwrap();
    for (n, block) in bytes.chunks(BLOCK).enumerate() {
        let is_zero = block.iter().all(|byte| *byte == 0);
        if !is_zero || random.one_in(4) {
            file.write_all_at(block, (n * BLOCK) as u64).unwrap();
        }
    }
    file
}

/// Opens a file again, without `O_DIRECT` where its file system has none.
fn reopen_direct_if_possible(file: &File, flags: OFlags) -> OwnedFd {
    try_reopen(file, flags).unwrap_or_else(|_| reopen(file, flags - OFlags::DIRECT))
}

impl Case {
    fn draw(random: &mut Random) -> Self {
        let mounted = Fs::ALL.into_iter().filter_map(Fs::dir);
        let dirs: Vec<PathBuf> = scratch_dirs().into_iter().chain(mounted).collect();
        let source_dir = random.pick(&dirs).clone();
        let sink_dir = if random.one_in(2) {
            source_dir.clone()
        } else {
            random.pick(&dirs).clone()
        };
        let (len, sink_len) = (draw_len(random), draw_len(random));
        let direct = |random: &mut Random| {
            if random.one_in(6) {
                OFlags::DIRECT
            } else {
                OFlags::empty()
            }
        };
        let is_appending = random.one_in(6);
        let append = if is_appending {
            OFlags::APPEND
        } else {
            OFlags::empty()
        };
        Self {
            source_dir,
            sink_dir,
            source: draw_bytes(random, len),
            sink: if random.one_in(2) {
                Vec::new()
            } else {
                vec![b's'; sink_len]
            },
            source_flags: OFlags::RDONLY | direct(random),
            sink_flags: OFlags::WRONLY | append | direct(random),
            from: Start::draw(random, len),
            to: if is_appending {
                Start::Cursor(0)
            } else {
                Start::draw(random, sink_len)
            },
            limit: random.one_in(2).then(|| match random.below(3) {
                0 => random.below(10) * BLOCK as u64,
                _ => random.below(len as u64 + 1000),
            }),
            strategy: random.one_in(2).then(|| *random.pick(&STRATEGIES)),
            sparse: *random.pick(&[Sparse::Keep, Sparse::Keep, Sparse::Fill, Sparse::Detect]),
            reflink: match random.below(10) {
                0 => Reflink::Always,
                1 | 2 => Reflink::Never,
                _ => Reflink::Auto,
            },
            cache: *random.pick(&[Cache::Keep, Cache::Keep, Cache::Keep, Cache::DropBehind]),
            // Rarely, because a sync of a disk is slow.
            sync_data: if random.one_in(40) {
                SyncData::EachStep
            } else {
                SyncData::Never
            },
            buffer_size: random.one_in(3).then(|| 1 + random.below_len(300_000)),
            is_stable: random.one_in(6),
            is_inspected: random.one_in(6),
            has_tick: random.one_in(4),
        }
    }

    /// The case without its bytes.
    fn summary(&self) -> String {
        let Self { source, sink, .. } = self;
        let rest = Self {
            source: Vec::new(),
            sink: Vec::new(),
            source_dir: self.source_dir.clone(),
            sink_dir: self.sink_dir.clone(),
            ..*self
        };
        format!("from {} bytes to {}: {rest:?}", source.len(), sink.len())
    }

    fn configure<'a>(&self, mut transfer: Transfer<'a>) -> Transfer<'a> {
        if let Start::Offset(offset) = self.from {
            transfer = transfer.source_offset(offset);
        }
        if let Start::Offset(offset) = self.to {
            transfer = transfer.sink_offset(offset);
        }
        if let Some(limit) = self.limit {
            transfer = transfer.limit(limit);
        }
        if let Some(strategy) = self.strategy {
            transfer = transfer.strategy(strategy);
        }
        if let Some(bytes) = self.buffer_size {
            transfer = transfer.buffer_size(bytes);
        }
        if self.has_tick {
            transfer = transfer.tick(Duration::from_millis(1));
        }
        transfer
            .sparse(self.sparse)
            .reflink(self.reflink)
            .cache(self.cache)
            .sync_data(self.sync_data)
            .stable(self.is_stable)
    }

    fn run(&self, random: &mut Random) {
        let case = self.summary();
        let source_file = make_file(&self.source_dir, &self.source, random);
        let sink_file = make_file(&self.sink_dir, &self.sink, random);
        let source = reopen_direct_if_possible(&source_file, self.source_flags);
        let sink = reopen_direct_if_possible(&sink_file, self.sink_flags);
        if let Start::Cursor(position) = self.from {
            set_cursor(&source, position);
        }
        if let Start::Cursor(position) = self.to {
            set_cursor(&sink, position);
        }

        let mut seen = Vec::new();
        let transfer = self.configure(Transfer::new(source.as_fd(), sink.as_fd()));
        let transfer = if self.is_inspected {
            transfer.inspect(|bytes| seen.extend_from_slice(bytes))
        } else {
            transfer
        };
        let outcome = transfer.run();

        let from = usize::try_from(self.from.position()).unwrap();
        let rest = &self.source[from.min(self.source.len())..];
        let limit = self.limit.unwrap_or(u64::MAX);
        let expected = &rest[..rest.len().min(usize::try_from(limit).unwrap_or(usize::MAX))];
        let report = match outcome {
            Ok(report) => {
                assert_eq!(report.bytes(), expected.len() as u64, "{case}");
                let ended = match report.ended() {
                    Ended::Limit => report.bytes() == limit,
                    ended => ended == Ended::Eof,
                };
                assert!(ended, "{case}: {report:#}");
                report
            }
            Err(error) => {
                let is_requested = self.strategy.is_some() || self.reflink == Reflink::Always;
                let is_explained = error.is_unsuitable() || error.is_refused();
                assert!(is_requested && is_explained, "{case}: {error:#}");
                error.into_report()
            }
        };

        let arrived = &expected[..usize::try_from(report.bytes()).unwrap()];
        let is_appending = self.sink_flags.contains(OFlags::APPEND);
        let to = if is_appending {
            self.sink.len()
        } else {
            usize::try_from(self.to.position()).unwrap()
        };
        let mut expected_sink = self.sink.clone();
        if !arrived.is_empty() {
            expected_sink.resize(expected_sink.len().max(to + arrived.len()), 0);
            expected_sink[to..to + arrived.len()].copy_from_slice(arrived);
        }
        assert_same(&contents(&sink_file), &expected_sink, &case);
        assert_same(&contents(&source_file), &self.source, &case);
        assert!(report.undelivered().is_empty(), "{case}");
        let bytes = report.bytes();
        assert_eq!(
            cursor(&source),
            self.from.cursor_after(bytes),
            "{case}: source"
        );
        if !is_appending {
            assert_eq!(cursor(&sink), self.to.cursor_after(bytes), "{case}: sink");
        }
        if self.is_inspected {
            assert_same(&seen, arrived, &case);
        }
    }
}

#[test]
fn files() {
    fuzz("files::files", 600, |random| {
        let case = Case::draw(random);
        case.run(random);
    });
}
