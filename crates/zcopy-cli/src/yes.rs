//! `zc-yes`: repeats a line for ever.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, anyhow};
use rustix::io::Errno;
use zcopy::Repeat;

use crate::args::Common;
use crate::exit;

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
    #[arg(value_name = "STRING")]
    strings: Vec<OsString>,

    #[command(flatten)]
    common: Common,
}

/// Repeats the line until it fails, which is the only way it ends.
///
/// # Errors
///
/// What standard output says.
pub fn run(args: &Args) -> anyhow::Result<()> {
    repeat(&line(&args.strings), args.common.explain)
        .map_err(|error| cause(&error))
        .context("standard output")
}

/// All strings with blanks between them, or `y`, and a newline.
fn line(strings: &[OsString]) -> Vec<u8> {
    let strings: Vec<&[u8]> = strings.iter().map(|string| string.as_bytes()).collect();
    let mut line = match &strings[..] {
        [] => b"y".to_vec(),
        strings => strings.join(&b' '),
    };
    line.push(b'\n');
    line
}

/// Repeats the line, and explains it if asked to.
fn repeat(line: &[u8], explains: bool) -> zcopy::Result<()> {
    let stdout = rustix::stdio::stdout();
    let repeat = Repeat::new(line);
    if !explains {
        return repeat.run(stdout).map(|_| ());
    }
    exit::say(&repeat.plan(stdout)?.to_string());
    let outcome = repeat.run(stdout);
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    exit::say(&report.to_string());
    outcome.map(|_| ())
}

/// GNU yes learns by writing what is wrong with its output, and is told `EBADF` of all that is not open
/// for it.
fn cause(error: &zcopy::Error) -> anyhow::Error {
    if error.is_refused() {
        return anyhow!(io::Error::from(Errno::BADF));
    }
    anyhow!(exit::cause(error))
}
