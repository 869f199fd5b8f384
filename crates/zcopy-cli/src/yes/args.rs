//! The command line of `zc-yes`.

use std::ffi::OsString;

use crate::common::cli::args::{Common, Tool};

/// The command line of `zc-yes`.
#[derive(Debug, clap::Parser)]
#[command(
    name = "zc-yes",
    version,
    about = "Repeat a line until killed, by the best route the kernel offers.\n\n\
             The line is all STRINGs with blanks between them, or 'y'."
)]
pub struct Args {
    /// What to repeat
    // For the help alone: see `args::parse_beside_operands`.
    #[arg(id = "strings", value_name = "STRING")]
    _strings: Vec<OsString>,

    #[command(flatten)]
    pub(super) common: Common,
}

impl Tool for Args {
    const MANUAL: &str = include_str!("manual.man");
}
