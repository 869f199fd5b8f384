//! Messages on standard error in the wording of GNU tools, and the initial state of a tool.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::anyhow;
use rustix::io::Errno;

use crate::common::cli::quote::quoted;
use crate::common::io::fd_writer;
use crate::common::sys;

/// Restores the signals and standard descriptors that Rust's runtime changed, and makes writes
/// beyond the limit of file sizes fail with an error. Every tool calls this first.
pub fn prepare() {
    sys::restore_inherited();
    sys::ignore_sigxfsz();
}

/// Returns the name by which the program was called, without directories. Messages begin with it.
#[must_use]
pub fn program() -> OsString {
    let program = PROGRAM.get_or_init(|| {
        let called = std::env::args_os().next().unwrap_or_default();
        without_directories(&called)
    });
    program.clone()
}

/// Sets the name that [`program`] returns. Without this call, `program` copies all arguments to
/// find the name.
pub(crate) fn set_program(name: &OsStr) {
    let _ = PROGRAM.set(without_directories(name));
}

/// The name of the program. It is stored because a title may replace the arguments.
static PROGRAM: OnceLock<OsString> = OnceLock::new();

fn without_directories(called: &OsStr) -> OsString {
    Path::new(called)
        .file_name()
        .map_or_else(|| "zcopy".into(), Into::into)
}

/// Writes an error and its causes to standard error, in one line: `zc-cat: NAME: CAUSE`.
///
/// Ignores write errors: the exit status tells that the tool failed.
pub fn error(error: &anyhow::Error) {
    warn(&chained(error.chain()));
}

/// Writes a message to standard error, after the program's name.
pub fn warn(line: &str) {
    let mut message = program().into_vec();
    message.extend_from_slice(b": ");
    message.extend_from_slice(line.as_bytes());
    put(message);
}

/// Returns whether a transfer got no memory of its own. (The kernel may lack memory for a call.)
pub(crate) fn is_out_of_memory(error: &zcopy::Error) -> bool {
    error.call() == Some("malloc")
}

/// The message of GNU tools that get no memory.
pub(crate) fn memory_exhausted() -> anyhow::Error {
    anyhow!("memory exhausted")
}

/// Refers to `--help`, as GNU tools do after a usage error.
pub fn refer_to_help() {
    let program = program().into_vec();
    put([b"Try '", &program[..], b" --help' for more information."].concat());
}

/// Writes a line to standard error without the program's name, to be read by programs. Waits until
/// it is accepted.
///
/// # Errors
///
/// The error of `write(2)`, unless standard error is closed: then the user wants no messages.
pub(crate) fn line(line: &[u8]) -> io::Result<()> {
    match fd_writer::write_all(rustix::stdio::stderr(), &[line, b"\n"].concat()) {
        Err(Errno::BADF) => Ok(()),
        written => Ok(written?),
    }
}

/// Writes a line to standard error by one call, so that the lines of two processes do not mix.
fn put(mut line: Vec<u8>) {
    line.push(b'\n');
    // If standard error is closed, the user wants no messages.
    let _ = io::stderr().write_all(&line);
}

/// Joins errors, each of which is the cause of the one before.
pub(crate) fn chained<'a>(errors: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let errors: Vec<String> = errors.map(worded).collect();
    errors.join(": ")
}

/// Returns the text of an error, without the error number that Rust adds.
pub(crate) fn worded(error: &(dyn Error + 'static)) -> String {
    let worded = error.to_string();
    let number = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error);
    match number {
        Some(number) => worded
            .trim_end_matches(&format!(" (os error {number})"))
            .to_owned(),
        None => worded,
    }
}

/// Returns the kernel's error that made a transfer fail. The caller adds the name of the operand.
#[must_use]
pub fn cause(error: &zcopy::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.io_error_kind(), format!("{error:#}")),
    }
}

/// An error whose words begin with the path of its file.
pub(crate) fn naming(path: &OsStr, error: &io::Error) -> io::Error {
    let words = worded(error);
    io::Error::new(error.kind(), format!("{}: {words}", quoted(path)))
}
