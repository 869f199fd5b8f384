//! The command line of `zc-dircopy`.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, ValueHint};

use super::policy::Policy;
use super::reporter::Verbosity;
use crate::common::cli::args::Tool;
use crate::common::cli::keyword;
use crate::dircopy::manifest::checksum::ChecksumAlgorithm;
use crate::dircopy::manifest::kind::ManifestKind;
use crate::dircopy::policy::Verify;

pub(crate) use accepted::{accepted, accepted_in_each};
pub(crate) use filters::filters;
use values::{Lanes, Rate, block_size, number, path, rate};

mod accepted;
mod filters;
mod values;

/// The command line of `zc-dircopy`.
#[derive(Debug, clap::Parser)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
#[command(
    name = "zc-dircopy",
    version,
    override_usage = "zc-dircopy [OPTION]... SRC DST\n       \
                      zc-dircopy [OPTION]... -i SRC -o DST [-o DST]...\n       \
                      zc-dircopy --check [OPTION]... [DIR]...",
    about = "Copy the tree SRC to DST, and record the digests of all its files in DST.",
    after_help = "POLICY is one of:\n  \
                  default  replace files that differ in size or are older than their originals;\n           \
                           recorded files only by originals that are newer or have the\n           \
                           recorded digest\n  \
                  never    leave existing files, and the attributes of existing directories\n  \
                  always   replace all files\n  \
                  update   as default, and compare files of the same size and time\n\n\
                  FORMAT is one of:\n  \
                  sha256sum  DST/shasum.YYYY-MM-DD.HH.MM.SS.txt, or b3sum.… for BLAKE3, as sha256sum\n             \
                             and b3sum write them; HASH is sha256 or blake3\n  \
                  ascmhl     an ASC MHL history: DST/ascmhl; HASH is xxh128, xxh64, xxh3, md5, sha1 or c4\n  \
                  bagit      a bag (RFC 8493): files in DST/data, and DST/manifest-sha256.txt; HASH is\n             \
                             sha256, sha512, sha1 or md5\n\n\
                  A GLOB without / matches names, one with / matches paths from SRC; one that ends in / matches \
                  only directories.\n\
                  The first GLOB that matches decides, in the order of the command line; directories that are \
                  excluded are not entered.\n\
                  ? and […] match a character of UTF-8, or a byte that belongs to none.\n\n\
                  The status is 0, 1 if anything failed, and 2 for bad usage."
)]
pub struct Args {
    /// SRC and DST, or with --check the trees to verify
    #[arg(value_name = "PATH", value_parser = path(), value_hint = ValueHint::DirPath)]
    pub(crate) paths: Vec<PathBuf>,

    /// The tree to copy
    #[arg(
        short,
        long,
        value_name = "SRC",
        value_parser = path(),
        value_hint = ValueHint::DirPath,
        allow_hyphen_values = true
    )]
    pub(crate) input: Option<PathBuf>,

    /// The directory to copy to; it is created if it does not exist; may be repeated, to copy to
    /// several directories at once and read SRC once
    #[arg(
        short,
        long,
        value_name = "DST",
        value_parser = path(),
        value_hint = ValueHint::DirPath,
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    pub(crate) output: Vec<PathBuf>,

    /// Replace existing files by POLICY; see below
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "default",
        hide_possible_values = true,
        value_parser = keyword::parser::<Policy>()
    )]
    pub(crate) overwrite_policy: Policy,

    /// Write and, with --check, read a manifest of FORMAT; see below [default: sha256sum; with
    /// --check all that DIR has]
    #[arg(
        long,
        value_name = "FORMAT",
        hide_possible_values = true,
        value_parser = keyword::parser::<ManifestKind>()
    )]
    pub(crate) manifest: Option<ManifestKind>,

    /// Make digests with HASH: one that FORMAT has, or several, divided by commas [default: as the
    /// newest manifest in DST, or the first of FORMAT]; with --check, verify lines without a tag
    /// with HASH, which is md5, sha1, sha256, sha512, blake3 or xxh128 [default: by the list's name
    /// and the number of digits]
    #[arg(
        long,
        value_name = "HASH",
        hide_possible_values = true,
        value_delimiter = ',',
        value_parser = keyword::parser::<ChecksumAlgorithm>()
    )]
    pub(crate) hash: Vec<ChecksumAlgorithm>,

    /// Make no digests. A manifest is still written if the run drops or changes earlier records, or
    /// copies manifests of SRC
    #[arg(long)]
    pub(crate) no_hash: bool,

    /// Keep the recorded digests of files that are not copied, instead of reading the files
    #[arg(long)]
    pub(crate) no_hash_skipped: bool,

    /// Record the file PATH (relative to DST, or absolute) as it is now, and drop its earlier
    /// record; may be repeated; with --check before DIR is verified
    #[arg(
        long,
        value_name = "PATH",
        value_parser = path(),
        value_hint = ValueHint::FilePath,
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    pub(crate) accept: Vec<PathBuf>,

    /// Drop the digests of files that are gone from DST; with --check before DIR is verified
    #[arg(long)]
    pub(crate) forget_missing: bool,

    /// Read files back from the disk before a copy gets its name, and tell by which method; WHAT
    /// is copy, source or both [without WHAT: copy]
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "copy",
        hide_possible_values = true,
        value_parser = keyword::parser::<Verify>()
    )]
    pub(crate) verify: Option<Verify>,

    /// Compare files that are not copied with their originals, by their digests
    #[arg(long)]
    pub(crate) verify_existing: bool,

    /// Keep what can be read of a file that is damaged in SRC; its copy has zeros for the rest, no
    /// digest, and a map of what is missing beside it, NAME.damaged
    #[arg(long)]
    pub(crate) skip_errors: bool,

    /// Keep what was copied of a file of 64 MiB or more when the run ends before the file is
    /// complete, for the next run with this option: that run reads it back, compares it with the
    /// digests that were noted with it, and copies the rest
    #[arg(long)]
    pub(crate) resume: bool,

    /// Move what DST has and SRC lacks into DST/deleted.YYYY-MM-DD.HH.MM.SS, before files are
    /// copied; nothing is removed
    #[arg(long)]
    pub(crate) delete: bool,

    /// Print what would be copied, replaced, compared, linked and left, and write nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Begin to copy even if DST has less space than the files take, and copy what fits
    #[arg(long)]
    pub(crate) no_space_check: bool,

    /// Bring every file to the disk before it gets its name, and all directories and digests before
    /// the run ends
    #[arg(long)]
    pub(crate) durable: bool,

    /// Leave the owner and the group of what is created as they are; the set-user-ID and
    /// set-group-ID bits are not copied to files of another owner
    #[arg(long)]
    pub(crate) no_owner: bool,

    /// Copy neither permissions nor access lists: new files and directories get the usual mode (see
    /// umask(2)), and files that are replaced keep theirs
    #[arg(long)]
    pub(crate) no_perms: bool,

    /// Neither copy nor remove extended attributes, capabilities among them; access lists are still
    /// copied
    #[arg(long)]
    pub(crate) no_xattrs: bool,

    /// Neither copy nor remove access lists; what is created inherits the default list of its
    /// directory
    #[arg(long)]
    pub(crate) no_acls: bool,

    /// Copy the files that symbolic links lead to, instead of the links
    #[arg(short = 'L', long)]
    pub(crate) dereference: bool,

    /// Exclude directories of other file systems below SRC
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,

    /// Exclude entries that match GLOB, unless an --include stands before it; may be repeated
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) exclude: Vec<OsString>,

    /// Include entries that match GLOB, whatever the --exclude after it say; may be repeated
    #[arg(long, value_name = "GLOB", action = ArgAction::Append, allow_hyphen_values = true)]
    pub(crate) include: Vec<OsString>,

    /// Exclude entries that match the globs of FILE, one a line; those behind "+ " include; may be
    /// repeated
    #[arg(
        long,
        value_name = "FILE",
        value_parser = path(),
        value_hint = ValueHint::FilePath,
        action = ArgAction::Append,
        allow_hyphen_values = true
    )]
    pub(crate) exclude_from: Vec<PathBuf>,

    /// Copy or verify N files in parallel, as far as there are descriptors (use 1 for hard disks)
    #[arg(short, long, value_name = "N", value_parser = number("number of jobs"))]
    pub(crate) jobs: Option<NonZeroUsize>,

    /// Copy and read at most RATE bytes per second, all jobs together; a suffix may follow, as in
    /// 10MiB; 0 is no limit
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = rate())]
    pub(crate) bwlimit: Rate,

    /// Hash many files together with SHA-256: always, never, or auto (if it is faster)
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        value_parser = keyword::parser::<Lanes>()
    )]
    pub(crate) lanes: Lanes,

    /// Let the thread that reads a file run up to N blocks ahead of the thread that hashes it
    /// [default: 10]. With --check, one thread reads and hashes a file; with this option, another
    /// thread hashes files of 256K and more
    #[arg(long, value_name = "N", value_parser = number("number of blocks"))]
    pub(crate) queue_size: Option<NonZeroUsize>,

    /// Read and write SIZE bytes at once, up to 1G; less than 4K counts as 4K [default: 128K; with --check it depends on
    /// the file]
    #[arg(long, value_name = "SIZE", value_parser = block_size())]
    pub(crate) block_size: Option<NonZeroUsize>,

    /// Show no progress and no summary, except in JSON; with --check list only the files that
    /// failed, and print the warnings, as sha256sum -c --quiet does
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Write progress, errors and the summary to standard output, as JSON, one object a line; with
    /// --check also the result for each file
    #[arg(long)]
    pub(crate) json: bool,

    /// Verify trees against their manifests
    #[arg(long, conflicts_with_all = COPY_OPTIONS)]
    pub(crate) check: bool,

    /// With --check, verify against FILE: lines of sha256sum, b3sum, md5sum, sha1sum, sha512sum or
    /// xxh128sum, tagged or not
    #[arg(
        long,
        value_name = "FILE",
        value_parser = path(),
        value_hint = ValueHint::FilePath,
        allow_hyphen_values = true
    )]
    pub(crate) hash_file: Option<PathBuf>,

    /// With --check, do not try / in place of \ in the paths that are not found
    #[arg(long)]
    pub(crate) no_convert_paths: bool,

    /// With --check, fail also for files that no manifest lists, and with --hash-file for
    /// improperly formatted lines
    #[arg(long)]
    pub(crate) strict: bool,

    /// With --check, list only the files that failed; the warnings and the total still follow
    #[arg(long)]
    pub(crate) silent: bool,

    /// With --check, leave out the warnings and the total, which otherwise follow on standard error
    #[arg(long)]
    pub(crate) no_summary: bool,

    /// With --check, add the algorithm, the size and the rate to the line of each file
    #[arg(long)]
    pub(crate) verbose: bool,

    /// Print how each file was copied
    #[arg(long)]
    pub(crate) explain: bool,

    /// Print this help, and exit
    #[arg(short, long, action = ArgAction::HelpShort)]
    help: Option<bool>,

    /// Print the version, and exit
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

impl Tool for Args {
    const MANUAL: &str = include_str!("manual.man");
}

/// The options that `--check` does not take.
const COPY_OPTIONS: [&str; 25] = [
    "input",
    "output",
    "overwrite_policy",
    "no_hash",
    "no_hash_skipped",
    "verify",
    "verify_existing",
    "skip_errors",
    "resume",
    "delete",
    "dry_run",
    "no_space_check",
    "durable",
    "no_owner",
    "no_perms",
    "no_xattrs",
    "no_acls",
    "dereference",
    "one_file_system",
    "exclude",
    "include",
    "exclude_from",
    "bwlimit",
    "lanes",
    "explain",
];

impl Args {
    /// Which messages are written, and in which format.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.json, self.quiet) {
            (true, _) => Verbosity::Json,
            (false, true) => Verbosity::Quiet,
            (false, false) => Verbosity::Normal,
        }
    }

    /// Whether an option is given that only `--check` takes.
    pub(crate) fn has_check_option(&self) -> bool {
        self.hash_file.is_some()
            || self.no_convert_paths
            || self.silent
            || self.no_summary
            || self.verbose
            || self.strict
    }
}
