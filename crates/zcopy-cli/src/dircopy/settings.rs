//! The settings of a copy, as the command line gives them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::Mode;

use super::args::Args;
use super::copy::policy::Policy;
use super::hash::pool::{self, Queue};
use super::interrupt::Interrupt;
use super::schedule::batches;
use super::walk::{self, DirectoryAttributes, Exclude, GivenTo};
use super::write::atomic_file::Durability;
use super::write::metadata::{Permissions, Preserve};
use crate::digest::{Algorithm, Backend};
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::quote::argument;

/// The most files that are copied at once without `--jobs`. Each may have buffers.
const MOST_JOBS: usize = 64;

/// The most files per core that are copied at once to fill lanes: all 8 lanes of AVX2, and half of the
/// 16 lanes of AVX-512: full lanes of one core hash as fast as half-full lanes of two.
const MOST_STREAMS: usize = 8;

/// The default of `--queue-size`.
const QUEUE_SIZE: usize = 10;

/// The default of `--block-size`: 128 KiB.
const BLOCK_SIZE: usize = 128 << 10;

/// `BTRFS_SUPER_MAGIC`.
const BTRFS: i128 = 0x9123_683e;

/// The settings of a copy.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
pub(crate) struct Settings {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
    pub(crate) policy: Policy,
    /// The algorithm of all digests. Without `--hash` it becomes the algorithm of the newest manifest
    /// of the destination.
    pub(crate) algorithm: Algorithm,
    pub(crate) has_chosen_algorithm: bool,
    /// Whether the run writes a manifest.
    pub(crate) writes_manifest: bool,
    /// Whether files that are left are read, so that they get lines in it.
    pub(crate) hashes_skipped: bool,
    pub(crate) verifies: bool,
    pub(crate) verifies_existing: bool,
    /// Whether the readable bytes of a damaged file are copied.
    pub(crate) skips_errors: bool,
    pub(crate) durability: Durability,
    /// The attributes that copies get from their originals.
    pub(crate) preserve: Preserve,
    pub(crate) follows_symlinks: bool,
    pub(crate) one_file_system: bool,
    pub(crate) exclude: Exclude,
    /// `--jobs`.
    n_jobs: Option<usize>,
    n_cores: usize,
    /// The blocks of a file that may wait to be hashed.
    pub(crate) queue: Queue,
    /// The implementation of the digests.
    pub(crate) backend: Backend,
    pub(crate) explains: bool,
    /// Files of the destination that are recorded as they are.
    pub(crate) accepted: BTreeSet<Vec<u8>>,
    /// Whether records of files that are gone are dropped.
    pub(crate) forgets_missing: bool,
    /// The mode of a new manifest.
    pub(crate) manifest_mode: Mode,
}

/// The number of threads that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyThreads {
    pub(crate) n_jobs: usize,
    /// The most of them that create short files at the same time.
    pub(crate) n_creators: usize,
}

impl Settings {
    /// The settings of a command line without `--check`.
    ///
    /// # Errors
    ///
    /// A message, if the command line is wrong.
    pub(crate) fn of(args: &Args, umask: Mode) -> Result<Self, String> {
        if args.has_check_option() {
            return Err(
                "--hash-file, --no-convert-paths, --silent, --no-summary, --strict and --verbose go with --check"
                    .to_owned(),
            );
        }
        if args.no_hash && !args.accept.is_empty() {
            return Err("--accept makes a digest, and --no-hash makes none".to_owned());
        }
        let (source, destination) = source_and_destination(args)?;
        let accepted = accepted(args, &destination)?;
        let exclude = Exclude::new(&args.exclude).map_err(|error| error.to_string())?;
        let algorithm = match args.hash {
            None | Some(ChecksumAlgorithm::Sha256) => Algorithm::Sha256,
            Some(ChecksumAlgorithm::Blake3) => Algorithm::Blake3,
            Some(other) => {
                let other = other.name();
                return Err(format!(
                    "--hash={other} goes with --check; a copy has digests of sha256 or blake3"
                ));
            }
        };
        let n_cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(Self {
            source,
            destination,
            policy: args.overwrite_policy,
            algorithm,
            has_chosen_algorithm: args.hash.is_some(),
            writes_manifest: !args.no_hash,
            hashes_skipped: !args.no_hash && !args.no_hash_skipped,
            verifies: args.verify,
            verifies_existing: args.verify_existing,
            skips_errors: args.skip_errors,
            durability: if args.durable {
                Durability::Synced
            } else {
                Durability::Cached
            },
            preserve: Preserve {
                owner: !args.no_owner,
                permissions: if args.no_perms {
                    Permissions::Created { umask }
                } else {
                    Permissions::Original
                },
                xattrs: !args.no_xattrs,
                acls: !args.no_acls,
            },
            follows_symlinks: args.dereference,
            one_file_system: args.one_file_system,
            exclude,
            n_jobs: args.jobs.map(NonZeroUsize::get),
            n_cores,
            backend: args.lanes.backend(),
            queue: Queue {
                size: args.queue_size.map_or(QUEUE_SIZE, NonZeroUsize::get),
                block_size: args.block_size.map_or(BLOCK_SIZE, NonZeroUsize::get),
            },
            explains: args.explain,
            accepted,
            forgets_missing: args.forget_missing,
            manifest_mode: manifest_mode(umask),
        })
    }

    /// The number of files that a thread hashes together, at least 1.
    pub(crate) fn lanes(&self) -> usize {
        pool::lanes(self.algorithm, self.backend)
    }

    /// The size up to which files are copied in batches. Longer files fill the lanes, if there are any.
    pub(crate) fn longest_short(&self) -> u64 {
        if self.wants_digests() && self.lanes() > 1 {
            pool::SHORT
        } else {
            batches::MAX_BYTES
        }
    }

    /// The number of files that are copied at once into the file system of this directory, at most 64.
    ///
    /// Short files: two a core, because two threads read a cold disk twice as fast as one, and four
    /// no faster. On btrfs one a core, because threads that create files there wait for each other.
    /// Files that are [long](Self::longest_short): as many as fill the lanes, at most eight a core.
    /// With `--durable` as many short files.
    pub(crate) fn copy_threads(&self, destination: impl AsFd) -> CopyThreads {
        if let Some(n_jobs) = self.n_jobs {
            return CopyThreads {
                n_jobs,
                n_creators: n_jobs,
            };
        }
        let file_system = rustix::fs::fstatfs(destination);
        // The type of `f_type` depends on the architecture.
        let is_btrfs = file_system.is_ok_and(|found| i128::from(found.f_type) == BTRFS);
        let n_creators = self.n_cores * if is_btrfs { 1 } else { 2 };
        let n_streams = if self.wants_digests() {
            self.n_cores * self.lanes().min(MOST_STREAMS)
        } else {
            0
        };
        let n_jobs = n_creators.max(n_streams).min(MOST_JOBS);
        CopyThreads {
            n_jobs,
            n_creators: match self.durability {
                Durability::Cached => n_creators.min(n_jobs),
                // Files that several threads sync at the same time share a commit of the journal.
                Durability::Synced => n_jobs,
            },
        }
    }

    /// Whether files that are copied are hashed.
    pub(crate) fn wants_digests(&self) -> bool {
        self.writes_manifest || self.verifies
    }

    /// The number of hashing threads.
    pub(crate) fn n_hashers(&self) -> usize {
        if self.wants_digests() {
            self.n_cores
        } else {
            0
        }
    }

    /// The attributes that directories of the destination get.
    pub(crate) fn directory_attributes(&self) -> DirectoryAttributes {
        DirectoryAttributes {
            preserve: self.preserve,
            given_to: match self.policy {
                Policy::Never => GivenTo::New,
                Policy::Default | Policy::Always | Policy::Update => GivenTo::All,
            },
        }
    }

    /// The options of the walk.
    pub(crate) fn walk(&self, interrupt: &Interrupt) -> walk::Options {
        walk::Options::new()
            .follow_symlinks(self.follows_symlinks)
            .one_file_system(self.one_file_system)
            .exclude(self.exclude.clone())
            .stop(Arc::clone(interrupt.flag()))
    }
}

/// The mode of a new manifest.
pub(crate) fn manifest_mode(umask: Mode) -> Mode {
    Mode::from_raw_mode(0o666) - umask
}

/// The paths of `--accept`, relative to `destination`. An absolute path may begin with the path of
/// the destination.
///
/// # Errors
///
/// A message, if a path leads out of the destination.
pub(crate) fn accepted(args: &Args, destination: &Path) -> Result<BTreeSet<Vec<u8>>, String> {
    let mut accepted = BTreeSet::new();
    for path in &args.accept {
        let relative = below(path, destination);
        let is_name = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !relative.components().all(is_name) || normalized(&relative).is_empty() {
            let path = argument(path.as_os_str());
            return Err(format!(
                "{path} is not a path below the destination; give it relative to that"
            ));
        }
        accepted.insert(normalized(&relative));
    }
    Ok(accepted)
}

/// An absolute path relative to the destination, if it begins with the path of that, as it was given
/// or without symbolic links. Other paths stay as they are.
fn below<'a>(path: &'a Path, destination: &Path) -> Cow<'a, Path> {
    if path.is_absolute() {
        let given = std::path::absolute(destination);
        for destination in [given, destination.canonicalize()].into_iter().flatten() {
            if let Ok(relative) = path.strip_prefix(destination) {
                return relative.into();
            }
        }
    }
    path.into()
}

/// A path as manifests write it.
fn normalized(path: &Path) -> Vec<u8> {
    // This drops `.` and repeated slashes.
    let path: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    path.into_os_string().into_vec()
}

/// The source and the destination: the values of `-i` and `-o`, or else the operands.
fn source_and_destination(args: &Args) -> Result<(PathBuf, PathBuf), String> {
    let mut operands = args.paths.iter();
    let source = args.input.as_ref().or_else(|| operands.next());
    let source = source.ok_or("missing source operand")?;
    let destination = args.output.as_ref().or_else(|| operands.next());
    let destination = destination.ok_or_else(|| {
        let source = argument(source.as_os_str());
        format!("missing destination operand after {source}")
    })?;
    if let Some(extra) = operands.next() {
        return Err(format!("extra operand {}", argument(extra.as_os_str())));
    }
    for (role, operand) in [("source", source), ("destination", destination)] {
        if operand.as_os_str().is_empty() {
            return Err(format!("the {role} has no name"));
        }
    }
    Ok((source.clone(), destination.clone()))
}
