//! The number of threads of a copy, and the sizes of the files that they take together.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::thread;

use super::batches::MAX_BYTES;
use crate::dircopy::hash::pool;
use crate::dircopy::settings::Settings;
use crate::dircopy::write::atomic_file::Durability;
use crate::dircopy::write::file_system;

/// The most files that are copied at once without `--jobs`. Each may have buffers.
const MOST_JOBS: usize = 64;

/// The most files per core that are copied at once to fill lanes: all 8 lanes of AVX2, and half of
/// the 16 lanes of AVX-512: full lanes of one core hash as fast as half-full lanes of two.
const MOST_STREAMS: usize = 8;

/// The most files of a thread that are brought to the disk together: with 64, a file takes half the
/// time that it takes by itself, and with 200 not much less.
const MOST_SYNCED: usize = 64;

/// The number of threads that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyThreads {
    pub(crate) n_jobs: usize,
    /// The most of them that create short files at the same time.
    pub(crate) n_creators: usize,
}

/// How short files are brought to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// By the kernel, later.
    None,
    /// Each by itself.
    Each,
    /// Many by one call, on the file system of this device number. On others, which are mounted
    /// below the destination, each by itself.
    Together { device: u64 },
}

impl Syncs {
    /// The way for this destination.
    pub(crate) fn of(settings: &Settings, destination: impl AsFd) -> Self {
        match settings.durability {
            Durability::Cached => Self::None,
            Durability::Synced => match rustix::fs::fstat(&destination) {
                Ok(stat) if file_system::syncs_as_a_whole(&destination) => Self::Together {
                    device: stat.st_dev,
                },
                _ => Self::Each,
            },
        }
    }

    /// The device on which files are brought to the disk together.
    pub(crate) fn together_on(self) -> Option<u64> {
        match self {
            Self::None | Self::Each => None,
            Self::Together { device } => Some(device),
        }
    }
}

/// The number of files that one thread copies step by step together, at least 1.
pub(crate) fn together(settings: &Settings, syncs: Syncs) -> usize {
    match syncs {
        Syncs::None | Syncs::Each => lanes(settings),
        Syncs::Together { .. } => lanes(settings).max(MOST_SYNCED),
    }
}

/// The number of files that one thread hashes together, at least 1.
pub(crate) fn lanes(settings: &Settings) -> usize {
    pool::lanes(settings.algorithm, settings.backend)
}

/// The size in bytes up to which files are short: they are copied in batches. Longer files fill the
/// lanes, if there are any.
pub(crate) fn max_short(settings: &Settings) -> u64 {
    if settings.wants_digests() && lanes(settings) > 1 {
        pool::SHORT
    } else {
        MAX_BYTES
    }
}

/// The number of hashing threads.
pub(crate) fn n_hashers(settings: &Settings) -> usize {
    if settings.wants_digests() {
        n_cores()
    } else {
        0
    }
}

fn n_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

impl CopyThreads {
    /// The number of files that are copied at once into the file system of this directory, at most
    /// 64.
    ///
    /// Short files: two a core, because two threads read a cold disk twice as fast as one, and four
    /// no faster. On btrfs one a core, because threads that create files there wait for each other.
    /// Files that are [long](max_short): as many as fill the lanes, at most eight a core.
    /// As many short files, if each is synced by itself.
    pub(crate) fn new(settings: &Settings, destination: impl AsFd, syncs: Syncs) -> Self {
        if let Some(n_jobs) = settings.n_jobs {
            return Self {
                n_jobs,
                n_creators: n_jobs,
            };
        }
        let is_btrfs = file_system::is_btrfs(destination);
        let n_cores = n_cores();
        let n_creators = n_cores * if is_btrfs { 1 } else { 2 };
        let n_streams = if settings.wants_digests() {
            n_cores * lanes(settings).min(MOST_STREAMS)
        } else {
            0
        };
        let n_jobs = n_creators.max(n_streams).min(MOST_JOBS);
        Self {
            n_jobs,
            n_creators: match syncs {
                Syncs::None | Syncs::Together { .. } => n_creators.min(n_jobs),
                // Files that several threads sync at the same time share a commit of the journal.
                Syncs::Each => n_jobs,
            },
        }
    }
}
