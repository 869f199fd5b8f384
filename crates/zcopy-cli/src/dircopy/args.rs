//! The command line of `zc-dircopy`, and what it asks for.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;

use clap::ArgAction;
use clap::builder::{OsStringValueParser, TypedValueParser};
use rustix::fs::Mode;

use super::amend::Amendment;
use super::budget::{Descriptors, TooFew};
use super::face::Manner;
use super::policy::Policy;
use super::settings;
use crate::choice::{self, Choice};
use crate::digest::Way;
use crate::dircopy::manifest::check;
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::number::parse_size;

/// The command line of `zc-dircopy`.
#[derive(Debug, clap::Parser)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
#[command(
    name = "zc-dircopy",
    version,
    override_usage = "zc-dircopy [OPTION]... SRC DST\n       \
                      zc-dircopy [OPTION]... -i SRC -o DST\n       \
                      zc-dircopy --check [OPTION]... [DIR]...",
    about = "Copy the tree SRC to DST, and leave the digests of all its files in DST.",
    after_help = "POLICY says what becomes of files that DST has already:\n  \
                  default  replace them if they differ in size or are older\n  \
                  never    leave them, and directories that exist with their attributes\n  \
                  always   replace them\n  \
                  update   as default, and compare the contents of those that seem to be the same\n\
                  A GLOB without / leaves out what bears such a name, one with / what has such a path from SRC; \
                  one that ends in /\nmeans directories alone. \
                  ? and […] match a character of UTF-8, or a byte that belongs to none.\n\n\
                  The digests stand in DST/shasum.YYYY-MM-DD.HH.MM.SS.txt, or b3sum.… for BLAKE3, as sha256sum and b3sum write them.\n\
                  The status is 0, 1 if anything failed, and 2 for bad usage."
)]
pub struct Args {
    /// SRC and DST, or with --check the trees to verify
    #[arg(value_name = "PATH", value_parser = path())]
    pub(super) paths: Vec<PathBuf>,

    /// The tree to copy
    #[arg(short, long, value_name = "SRC", value_parser = path(), allow_hyphen_values = true)]
    pub(super) input: Option<PathBuf>,

    /// Where the copy goes; it is made if it does not exist
    #[arg(short, long, value_name = "DST", value_parser = path(), allow_hyphen_values = true)]
    pub(super) output: Option<PathBuf>,

    /// What becomes of files that DST has already; see below
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "default",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = choice::parser::<Policy>()
    )]
    pub(super) overwrite_policy: Policy,

    /// The digest: sha256 or blake3 [default: that of the newest manifest in DST, or sha256]; with
    /// --check that of lines without a tag, and also md5, sha1, sha512 or xxh128 [default: told by
    /// the list's name and the number of digits]
    #[arg(
        long,
        value_name = "HASH",
        hide_possible_values = true,
        value_parser = choice::parser::<ChecksumAlgorithm>()
    )]
    pub(super) hash: Option<ChecksumAlgorithm>,

    /// Make no digests; a manifest is written only if records change
    #[arg(long)]
    pub(super) no_hash: bool,

    /// Keep the recorded digests of files that are not copied, instead of reading the files
    #[arg(long)]
    pub(super) no_hash_skipped: bool,

    /// Record the file PATH (relative to DST) as it is now, whatever was recorded before; may be repeated; with
    /// --check before DIR is verified
    #[arg(long, value_name = "PATH", value_parser = path(), action = ArgAction::Append, allow_hyphen_values = true)]
    pub(super) accept: Vec<PathBuf>,

    /// Drop the digests of files that are gone from DST; with --check before DIR is verified
    #[arg(long)]
    pub(super) forget_missing: bool,

    /// Read every copy back from the disk before it gets its name
    #[arg(long)]
    pub(super) verify: bool,

    /// Compare files that are not copied with their originals, by their digests
    #[arg(long)]
    pub(super) verify_existing: bool,

    /// Keep what can be read of a file that is damaged in SRC; its copy has zeros for the rest, no
    /// digest, and a map of what is missing beside it, NAME.damaged
    #[arg(long)]
    pub(super) skip_errors: bool,

    /// Bring every file, directory and digest to the disk
    #[arg(long)]
    pub(super) durable: bool,

    /// Leave the owner and the group of what is created as they are; the set-user-ID and set-group-ID
    /// bits are not copied to files of another owner
    #[arg(long)]
    pub(super) no_owner: bool,

    /// Give what is created the mode of any new file or directory, and leave the mode of what exists,
    /// also of a file that is replaced; access lists, which hold permissions too, are not copied
    #[arg(long)]
    pub(super) no_perms: bool,

    /// Neither copy nor remove extended attributes, capabilities among them; access lists are still copied
    #[arg(long)]
    pub(super) no_xattrs: bool,

    /// Neither copy nor remove access lists; what is created inherits the default list of its directory
    #[arg(long)]
    pub(super) no_acls: bool,

    /// Copy what symbolic links lead to in their place
    #[arg(short = 'L', long)]
    pub(super) dereference: bool,

    /// Leave out directories of other file systems below SRC
    #[arg(short = 'x', long)]
    pub(super) one_file_system: bool,

    /// Leave out what matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(super) exclude: Vec<OsString>,

    /// Copy or verify N files in parallel, as far as there are descriptors (use 1 for hard disks)
    #[arg(short, long, value_name = "N", value_parser = number)]
    pub(super) jobs: Option<NonZeroUsize>,

    /// Make the SHA-256 of many files together: WHEN is always, never, or auto, where that is faster
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        value_parser = choice::parser::<Lanes>()
    )]
    pub(super) lanes: Lanes,

    /// Let N blocks of each file wait to be hashed [default: 10]; with --check, hash files of 256K
    /// and more in a second thread, for which N blocks may wait [default: the thread that reads a
    /// file hashes it]
    #[arg(long, value_name = "N", value_parser = number)]
    pub(super) queue_size: Option<NonZeroUsize>,

    /// Read and write SIZE bytes at once; less than 4K is 4K [default: 128K; with --check as suits
    /// the file]
    #[arg(long, value_name = "SIZE", value_parser = block_size)]
    pub(super) block_size: Option<NonZeroUsize>,

    /// Show no progress and no summary, except in JSON; with --check also list
    /// only the files that failed
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Write progress, errors and the summary to standard output, as JSON, one object a line; with
    /// --check also the result for each file
    #[arg(long)]
    pub(super) json: bool,

    /// Verify trees against their manifests
    #[arg(long, conflicts_with_all = COPIES)]
    pub(super) check: bool,

    /// With --check, verify against FILE: lines of sha256sum, b3sum, md5sum, sha1sum, sha512sum or
    /// xxh128sum, tagged or not
    #[arg(long, value_name = "FILE", value_parser = path(), allow_hyphen_values = true)]
    pub(super) hash_file: Option<PathBuf>,

    /// With --check, do not try / in place of \ in the paths that are not found
    #[arg(long)]
    pub(super) no_convert_paths: bool,

    /// With --check, fail also for files that no manifest lists, and with --hash-file for improperly formatted lines
    #[arg(long)]
    pub(super) strict: bool,

    /// With --check, list only the files that failed; the warnings and the total still follow
    #[arg(long)]
    pub(super) silent: bool,

    /// With --check, leave out the warnings and the total, which otherwise follow on standard error
    #[arg(long)]
    pub(super) no_summary: bool,

    /// With --check, add the algorithm, the size and the rate to the line of each file
    #[arg(long)]
    pub(super) verbose: bool,

    /// Say for each file how it was copied
    #[arg(long)]
    pub(super) explain: bool,

    /// Print this help, and exit
    #[arg(short, long, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print the version, and exit
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// What goes with a copy, and not with `--check`.
const COPIES: [&str; 18] = [
    "input",
    "output",
    "overwrite_policy",
    "no_hash",
    "no_hash_skipped",
    "verify",
    "verify_existing",
    "skip_errors",
    "durable",
    "no_owner",
    "no_perms",
    "no_xattrs",
    "no_acls",
    "dereference",
    "one_file_system",
    "exclude",
    "lanes",
    "explain",
];

impl Args {
    /// How things are told.
    pub(super) fn manner(&self) -> Manner {
        match (self.json, self.quiet) {
            (true, _) => Manner::Json,
            (false, true) => Manner::Quiet,
            (false, false) => Manner::Normal,
        }
    }

    /// Whether there is an option that only `--check` takes.
    pub(super) fn is_about_check(&self) -> bool {
        self.hash_file.is_some()
            || self.no_convert_paths
            || self.silent
            || self.no_summary
            || self.verbose
            || self.strict
    }

    /// The changes to records that `--check` makes first.
    ///
    /// # Errors
    ///
    /// They do not go with the other options, in words.
    pub(super) fn amendment(&self, mode: Mode) -> Result<Option<Amendment>, String> {
        if self.accept.is_empty() && !self.forget_missing {
            return Ok(None);
        }
        if self.hash_file.is_some() {
            return Err(
                "--accept and --forget-missing change manifests, and not --hash-file".to_owned(),
            );
        }
        if !self.accept.is_empty() && self.paths.len() > 1 {
            return Err("--accept takes one tree".to_owned());
        }
        Ok(Some(Amendment {
            accepted: settings::accepted(self)?,
            forgets_missing: self.forget_missing,
            mode,
        }))
    }

    /// What is verified, and how that is told.
    ///
    /// # Errors
    ///
    /// There are too few descriptors.
    pub(super) fn check_options(&self, descriptors: Descriptors) -> Result<check::Options, TooFew> {
        let mut options = check::Options::new()
            .convert_paths(!self.no_convert_paths)
            .strict(self.strict)
            .silent(self.silent || self.quiet)
            .summary(!self.no_summary)
            .total(!self.quiet);
        if self.json {
            options = options.json(true);
        } else if self.verbose {
            options = options.verbose(true);
        }
        if let Some(size) = self.block_size {
            options = options.block_size(size);
        }
        if let Some(size) = self.queue_size {
            options = options.queue_size(size);
        }
        for directory in &self.paths {
            options = options.directory(directory);
        }
        if let Some(file) = &self.hash_file {
            options = options.hash_file(file);
        }
        if let Some(algorithm) = self.hash {
            options = options.hash(algorithm);
        }
        let n_threads = match self.jobs {
            Some(n_jobs) => n_jobs,
            None => thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        Ok(options
            .threads(descriptors.verifiers(n_threads)?)
            .most_open(descriptors.levels_of_a_check()))
    }
}

impl Choice for Policy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("default", Policy::Default),
        ("never", Policy::Never),
        ("always", Policy::Always),
        ("update", Policy::Update),
    ];
}

/// When files are hashed together, in lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lanes {
    Auto,
    Always,
    Never,
}

impl Choice for Lanes {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("always", Self::Always),
        ("never", Self::Never),
    ];
}

impl Lanes {
    /// How digests are made then.
    pub(super) fn way(self) -> Way {
        match self {
            Self::Auto => Way::best(),
            Self::Always => Way::in_lanes(),
            Self::Never => Way::one_by_one(),
        }
    }
}

impl Choice for ChecksumAlgorithm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("sha256", Self::Sha256),
        ("blake3", Self::Blake3),
        ("md5", Self::Md5),
        ("sha1", Self::Sha1),
        ("sha512", Self::Sha512),
        ("xxh128", Self::Xxh128),
    ];
}

/// Any, and be it empty: what is wrong with that is better said by whoever opens it.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The most jobs, and blocks that wait: more would wait for each other, and for memory.
const MOST: usize = 4096;

fn number(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|n| *n <= MOST);
    let number = number.and_then(NonZeroUsize::new);
    number.ok_or_else(|| format!("not a number from 1 to {MOST}"))
}

/// The most that a block may have: a thousand workers could not have more.
const LARGEST_BLOCK: u64 = 1 << 30;

/// A smaller block is rounded up to this: 4 KiB.
const SMALLEST_BLOCK: usize = 4 << 10;

fn block_size(text: &str) -> Result<NonZeroUsize, String> {
    let size = parse_size(text, false).ok();
    let size = size.filter(|size| (1..=LARGEST_BLOCK).contains(size));
    // A gigabyte fits everywhere.
    let size = size.and_then(|size| usize::try_from(size).ok());
    let size = size.and_then(|size| NonZeroUsize::new(size.max(SMALLEST_BLOCK)));
    size.ok_or_else(|| format!("invalid block size '{text}'"))
}
