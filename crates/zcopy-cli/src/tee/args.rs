//! The command line of `zc-tee`.

use std::ffi::OsString;

use clap::ValueHint;

use super::mode::Mode;
use crate::common::cli::args::{Common, Tool};
use crate::common::cli::keyword::{self, Keyword};

/// The command line of `zc-tee`.
#[derive(Debug, clap::Parser)]
#[allow(clippy::struct_excessive_bools, reason = "one for each switch")]
#[command(
    name = "zc-tee",
    version,
    about = "Copy standard input to each FILE, and also to standard output, by the best route the \
             kernel offers.",
    after_help = "MODE says what happens if an output cannot be written:\n  \
                  warn         diagnose it, and go on with the other outputs\n  \
                  warn-nopipe  the same, but say nothing of pipes whose reader has gone\n  \
                  exit         diagnose it, and exit\n  \
                  exit-nopipe  the same, but go on without pipes whose reader has gone\n\
                  With -p it is warn-nopipe. The nopipe modes end when the last reader has gone, \
                  without waiting for more input. Without either option errors are diagnosed, and \
                  SIGPIPE ends it all."
)]
pub struct Args {
    /// Files to write; - is a file of that name
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) files: Vec<OsString>,

    /// Append to the files instead of writing them anew
    #[arg(short, long)]
    pub(super) append: bool,

    /// Ignore interrupts
    #[arg(short, long)]
    pub(super) ignore_interrupts: bool,

    /// Go on when a pipe's reader goes away, until there is none left
    #[arg(short = 'p', overrides_with = "output_error")]
    outlives_readers: bool,

    /// Choose by MODE, as described below, whether zc-tee reports a write error and whether it exits
    /// [without MODE: warn-nopipe]
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "warn-nopipe",
        hide_possible_values = true,
        value_parser = keyword::parser::<Mode>(),
        overrides_with = "outlives_readers"
    )]
    output_error: Option<Mode>,

    /// Leave no pages of the files in the page cache. WHAT is drop, or keep to undo the option
    /// [without WHAT: drop]
    #[arg(
        short,
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "drop",
        hide_possible_values = true,
        value_parser = keyword::parser::<Pages>()
    )]
    pub(super) cache: Option<Pages>,

    /// Copy instead of sharing a file's pages, so that later writes cannot change data already sent
    #[arg(long)]
    pub(super) stable: bool,

    // Without a long name, so that `--ver` stays short for `--version`.
    /// Say at the end how many bytes went to each output, and by which route
    #[arg(short)]
    pub(super) verbose: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Tool for Args {
    const MANUAL: &str = include_str!("manual.man");
}

/// What to do with the pages of the outputs in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Keep them.
    Keep,
    /// Drop them when they are written back.
    Drop,
}

impl Keyword for Pages {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Pages::Keep), ("drop", Pages::Drop)];
}

impl Args {
    /// Returns the mode that the options select.
    pub(super) fn mode(&self) -> Mode {
        match self.output_error {
            Some(mode) => mode,
            None if self.outlives_readers => Mode::WarnNopipe,
            None => Mode::default(),
        }
    }
}
