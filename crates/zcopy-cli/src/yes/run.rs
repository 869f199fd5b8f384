//! Repeats the line.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::{Context as _, anyhow};
use rustix::io::Errno;
use zcopy::Repeat;

use super::args::Args;
use crate::common::cli::message;

/// Repeats the line until standard output fails.
///
/// # Errors
///
/// The failure of standard output.
pub fn run(args: &Args) -> anyhow::Result<()> {
    repeat(&line(&args.strings), args.common.explain)
        .map_err(|error| convert_error(&error))
        .context("standard output")
}

/// Joins all strings by spaces, and appends a newline. Without strings the line is `y`.
fn line(strings: &[OsString]) -> Vec<u8> {
    let strings: Vec<&[u8]> = strings.iter().map(|string| string.as_bytes()).collect();
    let mut line = match &strings[..] {
        [] => b"y".to_vec(),
        strings => strings.join(&b' '),
    };
    line.push(b'\n');
    line
}

/// Repeats the line, and explains it if `explains` is set.
fn repeat(line: &[u8], explains: bool) -> zcopy::Result<()> {
    let stdout = rustix::stdio::stdout();
    let repeat = Repeat::new(line);
    if !explains {
        return repeat.run(stdout).map(|_| ());
    }
    message::warn(&repeat.plan(stdout)?.to_string());
    let outcome = repeat.run(stdout);
    let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
    message::warn(&format!("{report:#}"));
    outcome.map(|_| ())
}

/// Converts an error to that of GNU yes: write(2) on a descriptor that is not open for writing
/// fails with `EBADF`.
fn convert_error(error: &zcopy::Error) -> anyhow::Error {
    if error.is_refused() {
        return anyhow!(io::Error::from(Errno::BADF));
    }
    anyhow!(message::cause(error))
}
