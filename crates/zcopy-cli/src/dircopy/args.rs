//! The command line of `zc-dircopy`, and what it asks for.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ArgAction;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::budget::Budget;
use super::face::Manner;
use super::policy::Policy;
use crate::choice::{self, Choice};
use crate::digest::{Algorithm, Way};
use crate::dircopy::manifest::check;
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
                  never    leave them\n  \
                  always   replace them\n  \
                  update   as default, and compare the contents of those that seem to be the same\n\
                  A GLOB without / leaves out what bears such a name, one with / what has such a path from SRC; \
                  one that ends in /\nmeans directories alone.\n\n\
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

    /// The digest: sha256 or blake3 [default: that of the newest manifest in DST, or sha256]
    #[arg(
        long,
        value_name = "HASH",
        hide_possible_values = true,
        value_parser = choice::parser::<Algorithm>()
    )]
    pub(super) hash: Option<Algorithm>,

    /// Make no digests, and no sum file
    #[arg(long)]
    pub(super) no_hash: bool,

    /// Keep the recorded digests of files that are not copied, instead of reading the files
    #[arg(long)]
    pub(super) no_hash_skipped: bool,

    /// Record the file PATH in DST as it is now, whatever was recorded before; may be repeated
    #[arg(long, value_name = "PATH", value_parser = path(), action = ArgAction::Append, allow_hyphen_values = true)]
    pub(super) accept: Vec<PathBuf>,

    /// Drop the digests of files that are gone from DST
    #[arg(long)]
    pub(super) forget_missing: bool,

    /// Read every copy back from the disk before it gets its name
    #[arg(long)]
    pub(super) verify: bool,

    /// Compare files that are not copied with their originals, by their digests
    #[arg(long)]
    pub(super) verify_existing: bool,

    /// Bring every file, directory and digest to the disk
    #[arg(long)]
    pub(super) durable: bool,

    /// Copy what symbolic links lead to in their place
    #[arg(short = 'L', long)]
    pub(super) dereference: bool,

    /// Leave out what is mounted below SRC
    #[arg(short = 'x', long)]
    pub(super) one_file_system: bool,

    /// Leave out what matches GLOB; may be repeated
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(super) exclude: Vec<String>,

    /// How many files are copied, or verified, at once, where there are descriptors for so many; 1 suits disks that spin
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

    /// How many blocks of each file may wait to be hashed
    #[arg(long, value_name = "N", default_value = "10", value_parser = number)]
    pub(super) queue_size: NonZeroUsize,

    /// How much is read and written at once; less than 4K is 4K
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = block_size)]
    pub(super) block_size: usize,

    /// Show no progress and no summary, but to programs that ask by --json
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Tell progress, errors and the summary on standard output, in lines of JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Verify trees against their newest sum files
    #[arg(long, conflicts_with_all = COPIES)]
    pub(super) check: bool,

    /// With --check, verify against FILE
    #[arg(long, value_name = "FILE", value_parser = path(), allow_hyphen_values = true)]
    pub(super) hash_file: Option<PathBuf>,

    /// With --check, say nothing of files that have their digests
    #[arg(long)]
    pub(super) silent: bool,

    /// With --check, do not count at the end what failed
    #[arg(long)]
    pub(super) no_summary: bool,

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
const COPIES: [&str; 19] = [
    "accept",
    "forget_missing",
    "input",
    "output",
    "overwrite_policy",
    "no_hash",
    "no_hash_skipped",
    "verify",
    "verify_existing",
    "durable",
    "dereference",
    "one_file_system",
    "exclude",
    "lanes",
    "queue_size",
    "block_size",
    "quiet",
    "json",
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

    /// What is verified, and how that is told.
    pub(super) fn check_options(&self, budget: Budget) -> check::Options {
        let mut options = check::Options::new()
            .silent(self.silent)
            .summary(!self.no_summary);
        for directory in &self.paths {
            options = options.directory(directory);
        }
        if let Some(file) = &self.hash_file {
            options = options.hash_file(file);
        }
        if let Some(algorithm) = self.hash {
            options = options.hash(algorithm);
        }
        if let Some(n_jobs) = self.jobs {
            let n_jobs = budget.jobs(n_jobs.get());
            options = options.threads(NonZeroUsize::new(n_jobs).unwrap_or(NonZeroUsize::MIN));
        }
        options
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

impl Choice for Algorithm {
    const WORDS: &'static [(&'static str, Self)] =
        &[("sha256", Algorithm::Sha256), ("blake3", Algorithm::Blake3)];
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

fn block_size(text: &str) -> Result<usize, String> {
    let size = parse_size(text, false).ok();
    let size = size.filter(|size| (1..=LARGEST_BLOCK).contains(size));
    // A gigabyte fits everywhere.
    let size = size.and_then(|size| usize::try_from(size).ok());
    size.ok_or_else(|| format!("invalid block size '{text}'"))
}
