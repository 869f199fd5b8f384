//! The settings of a copy, as the command line gives them.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ArgMatches;
use rustix::fs::Mode;
use zcopy::RateLimiter;

use super::args::Args;
use super::hash::pool::Queue;
use super::policy::Policy;
use super::walk::{Exclude, Rule};
use super::write::atomic_file::Durability;
use super::write::metadata::{Permissions, Preserve};
use crate::common::cli::quote::argument;
use crate::common::digest::{Algorithm, Backend};
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::manifest::mhl;
use crate::dircopy::policy::Verify;

/// The default of `--queue-size`.
const QUEUE_SIZE: usize = 10;

/// The default of `--block-size`: 128 KiB.
const BLOCK_SIZE: usize = 128 << 10;

/// The error of options that would change records of a history.
pub(crate) const FIRST_DIGESTS: &str = "--accept and --forget-missing change records, and an ASC MHL history keeps the first digest of each file";

/// The error of `--delete` with a history.
const MOVES_IN_HISTORIES: &str = "--delete does not go with --manifest=ascmhl: a history keeps the paths of files, and would report those that are moved as missing";

/// The settings of a copy to one destination.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
pub(crate) struct Settings {
    pub(crate) source: PathBuf,
    pub(crate) destination: PathBuf,
    pub(crate) policy: Policy,
    /// The algorithm of all digests. Without `--hash` it becomes the algorithm of the newest
    /// manifest of the destination.
    pub(crate) algorithm: Algorithm,
    pub(crate) has_chosen_algorithm: bool,
    /// The kind of the manifest.
    pub(crate) manifest: ManifestKind,
    /// Whether the run writes a manifest.
    pub(crate) writes_manifest: bool,
    /// Whether files that are left are read, so that they get lines in it.
    pub(crate) hashes_skipped: bool,
    pub(crate) verify: Option<Verify>,
    pub(crate) verifies_existing: bool,
    /// Whether the readable bytes of a damaged file are copied.
    pub(crate) skips_errors: bool,
    /// Whether long files outlive a run that does not complete them, and the next run goes on inside
    /// them.
    pub(crate) resumes: bool,
    /// Whether entries of the destination that the source lacks are moved.
    pub(crate) deletes: bool,
    /// Whether the run only tells what it would do.
    pub(crate) is_dry_run: bool,
    /// Whether a run that has too little space does not begin.
    pub(crate) checks_space: bool,
    pub(crate) durability: Durability,
    /// The attributes that copies get from their originals.
    pub(crate) preserve: Preserve,
    pub(crate) follows_symlinks: bool,
    pub(crate) one_file_system: bool,
    pub(crate) exclude: Exclude,
    /// The rules that it was made of.
    pub(crate) filters: Vec<Rule>,
    /// `--jobs`.
    pub(crate) n_jobs: Option<usize>,
    /// The blocks of a file that may wait to be hashed.
    pub(crate) queue: Queue,
    /// Limits the bytes that all jobs copy and read per second.
    pub(crate) rate_limiter: Option<RateLimiter>,
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

impl Settings {
    /// The settings of a command line without `--check`, for each destination. `matches` hold the
    /// order of the options.
    ///
    /// # Errors
    ///
    /// Returns the message about a wrong command line.
    pub(crate) fn of(args: &Args, matches: &ArgMatches, umask: Mode) -> Result<Vec<Self>, String> {
        if args.has_check_option() {
            return Err(
                "--hash-file, --no-convert-paths, --silent, --no-summary, --strict and --verbose go with --check"
                    .to_owned(),
            );
        }
        if args.no_hash && !args.accept.is_empty() {
            return Err("--accept makes a digest, and --no-hash makes none".to_owned());
        }
        if args.dry_run && (args.forget_missing || !args.accept.is_empty()) {
            return Err(
                "--accept and --forget-missing change records, and --dry-run changes nothing"
                    .to_owned(),
            );
        }
        let (source, destinations) = source_and_destinations(args)?;
        let manifest = args.manifest.unwrap_or_default();
        let accepted = super::args::accepted_in_each(args, &destinations)?;
        let mut filters = super::args::filters(args, matches)?;
        if manifest == ManifestKind::Mhl {
            // The history of the source is no part of its files: the run continues it.
            filters.insert(0, Rule::exclude(format!("/{}/", mhl::DIRECTORY).into()));
        }
        let exclude = Exclude::from_rules(&filters).map_err(|error| error.to_string())?;
        let changes_records = !args.accept.is_empty() || args.forget_missing;
        if manifest.keeps_first_digest() && changes_records {
            return Err(FIRST_DIGESTS.to_owned());
        }
        if args.delete && manifest == ManifestKind::Mhl {
            return Err(MOVES_IN_HISTORIES.to_owned());
        }
        if args.no_hash && manifest != ManifestKind::Sums {
            let word = manifest.word();
            return Err(format!(
                "--manifest={word} lists digests, and --no-hash makes none"
            ));
        }
        if args.resume && args.no_hash && args.verify.is_none() {
            return Err(
                "--resume proves by digests what an earlier run has copied, and --no-hash makes none"
                    .to_owned(),
            );
        }
        let algorithm = manifest.algorithm(&args.hash)?;
        let settings = Self {
            source,
            destination: PathBuf::new(),
            policy: args.overwrite_policy,
            algorithm,
            has_chosen_algorithm: !args.hash.is_empty(),
            manifest,
            writes_manifest: !args.no_hash,
            hashes_skipped: !args.no_hash && !args.no_hash_skipped,
            verify: args.verify,
            verifies_existing: args.verify_existing,
            skips_errors: args.skip_errors,
            resumes: args.resume,
            deletes: args.delete,
            is_dry_run: args.dry_run,
            checks_space: !args.no_space_check,
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
            filters,
            n_jobs: args.jobs.map(NonZeroUsize::get),
            rate_limiter: args.bwlimit.rate_limiter(),
            backend: args.lanes.backend(),
            queue: Queue {
                size: args.queue_size.map_or(QUEUE_SIZE, NonZeroUsize::get),
                block_size: args.block_size.map_or(BLOCK_SIZE, NonZeroUsize::get),
            },
            explains: args.explain,
            accepted: BTreeSet::new(),
            forgets_missing: args.forget_missing,
            manifest_mode: super::manifest::write::manifest_mode(umask),
        };
        let each = destinations.into_iter().zip(accepted);
        let each = each.map(|(destination, accepted)| {
            Ok(Self {
                destination,
                accepted: manifest.payload_paths(accepted)?,
                ..settings.clone()
            })
        });
        each.collect()
    }

    /// Whether files that are copied are hashed.
    pub(crate) fn wants_digests(&self) -> bool {
        self.writes_manifest || self.verify.is_some()
    }
}

/// The source and the destinations: the values of `-i` and `-o`, or else the operands.
fn source_and_destinations(args: &Args) -> Result<(PathBuf, Vec<PathBuf>), String> {
    let mut operands = args.paths.iter();
    let source = args.input.as_ref().or_else(|| operands.next());
    let source = source.ok_or("missing source operand")?;
    let destinations = if args.output.is_empty() {
        let destination = operands.next().ok_or_else(|| {
            let source = argument(source.as_os_str());
            format!("missing destination operand after {source}")
        })?;
        vec![destination.clone()]
    } else {
        args.output.clone()
    };
    if let Some(extra) = operands.next() {
        return Err(format!("extra operand {}", argument(extra.as_os_str())));
    }
    let roles = destinations.iter().map(|path| ("destination", path));
    for (role, operand) in [("source", source)].into_iter().chain(roles) {
        if operand.as_os_str().is_empty() {
            return Err(format!("the {role} has no name"));
        }
    }
    Ok((source.clone(), destinations))
}
