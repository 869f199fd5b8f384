//! Repeats the line.

use std::collections::TryReserveError;
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
/// The failure of standard output, or the lack of memory for the line.
pub fn run(args: &Args, strings: &[OsString]) -> anyhow::Result<()> {
    let Ok(line) = line(strings) else {
        return Err(message::memory_exhausted());
    };
    repeat(&line, args.common.explain)
        .map_err(|error| convert_error(&error))
        .context("standard output")
}

/// Joins all strings by spaces, and appends a newline. Without strings the line is `y`.
///
/// # Errors
///
/// Memory is refused: the arguments may take megabytes.
fn line(strings: &[OsString]) -> Result<Vec<u8>, TryReserveError> {
    let mut line = Vec::new();
    let Some((first, others)) = strings.split_first() else {
        line.extend_from_slice(b"y\n");
        return Ok(line);
    };
    // A blank or a newline follows each string.
    line.try_reserve_exact(strings.iter().map(|string| string.len() + 1).sum())?;
    line.extend_from_slice(first.as_bytes());
    for other in others {
        line.push(b' ');
        line.extend_from_slice(other.as_bytes());
    }
    line.push(b'\n');
    Ok(line)
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
