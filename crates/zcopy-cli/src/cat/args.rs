//! The command line of `zc-cat`.

use std::ffi::OsString;

use clap::ValueHint;

use super::highlight::when::ColorWhen;
use super::timestamp;
use crate::common::cli::args::{Common, Tool};
use crate::common::cli::keyword;

/// The command line of `zc-cat`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-cat",
    version,
    about = "Concatenate files to standard output, by the best route the kernel offers.\n\n\
             Without FILE, or when FILE is -, read standard input.",
    mut_arg("help", |help| help.alias("h")) // beside --highlight
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub struct Args {
    /// Files to concatenate
    // For the help alone: see `args::parse_beside_operands`.
    #[arg(id = "files", value_name = "FILE", value_hint = ValueHint::FilePath)]
    _files: Vec<OsString>,

    /// Equivalent to -vET
    #[arg(short = 'A', long)]
    pub(super) show_all: bool,

    /// Number the lines that are not blank, which overrides -n
    #[arg(short = 'b', long)]
    pub(super) number_nonblank: bool,

    /// Equivalent to -vE
    #[arg(short = 'e')]
    pub(super) shown_with_ends: bool,

    /// Put $ at the end of each line, and ^M before it where the line ends in CR LF
    #[arg(short = 'E', long)]
    pub(super) show_ends: bool,

    /// Number all lines
    #[arg(short = 'n', long)]
    pub(super) number: bool,

    /// Keep only the first of several blank lines that follow each other
    #[arg(short = 's', long)]
    pub(super) squeeze_blank: bool,

    /// Equivalent to -vT
    #[arg(short = 't')]
    pub(super) shown_with_tabs: bool,

    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    pub(super) show_tabs: bool,

    /// Ignored, because output is never delayed in a buffer
    #[arg(short = 'u')]
    unbuffered: bool,

    /// Use ^ and M- notation, except for newlines and tabs
    #[arg(short = 'v', long)]
    pub(super) show_nonprinting: bool,

    /// Put the time at which it was read in front of each line, in the manner of strftime(3)
    /// [without FORMAT: %Y-%m-%dT%H:%M:%S%.6f%z]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = timestamp::DEFAULT_FORMAT)]
    pub(super) timestamp: Option<OsString>,

    /// Tell the time of --timestamp in UTC
    #[arg(long)]
    pub(super) utc: bool,

    /// Put the seconds since the previous line in front of each line
    #[arg(long)]
    pub(super) timestamp_delta: bool,

    /// Colour what matches SPEC: PATTERN=STYLE, a regular expression (of which only the groups are
    /// coloured, if it has any) and a style, for example 'timeout|refused=bold,red' or
    /// 'id=(\d+)=208,on-black'; or log, for levels, failures and times in logs of programs, syslog
    /// and the kernel. A later SPEC overrides those before it
    // No value is an argument of its own, so that what is an operand shows without parsing.
    #[arg(long, value_name = "SPEC", require_equals = true)]
    pub(super) highlight: Vec<OsString>,

    // As an attribute, because clippy wants backquotes around NO_COLOR, which help would show.
    #[arg(
        long,
        help = "When to colour matches: always, never, or auto (if standard output is a terminal, TERM is set and not dumb, and NO_COLOR is not set); without WHEN, always",
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "always",
        hide_possible_values = true,
        value_parser = keyword::parser::<ColorWhen>()
    )]
    pub(super) color: ColorWhen,

    /// Open and check every FILE before anything is written, and write nothing if one of them
    /// cannot be read
    #[arg(long)]
    pub(super) strict: bool,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long)]
    pub(super) stable: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Tool for Args {
    const MANUAL: &str = include_str!("manual.man");

    const CANDIDATES: &'static [&'static str] = &[
        "number-nonblank",
        "number",
        "squeeze-blank",
        "show-nonprinting",
        "show-ends",
        "show-tabs",
        "show-all",
    ];
}
