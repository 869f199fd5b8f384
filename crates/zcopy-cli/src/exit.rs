//! How a tool speaks of errors, treats signals, and ends.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::sys;

/// To be called first in every tool: undoes what Rust's runtime did to signals and standard
/// descriptors, and has a file that grows too large reported like any other error.
pub fn prepare() {
    sys::as_the_parent_left_it();
    sys::ignore_sigxfsz();
}

/// The name that the program was called by, without directories, as it stands before its messages.
#[must_use]
pub fn program() -> OsString {
    let program = PROGRAM.get_or_init(|| {
        let called = std::env::args_os().next().unwrap_or_default();
        without_directories(&called)
    });
    program.clone()
}

/// Says how the program was called. Whoever has the arguments knows, and [`program`] would copy all of them to learn
/// it.
pub(crate) fn was_called(name: &OsStr) {
    let _ = PROGRAM.set(without_directories(name));
}

/// The name of the program. It is kept: a title may come to stand where the arguments were.
static PROGRAM: OnceLock<OsString> = OnceLock::new();

fn without_directories(called: &OsStr) -> OsString {
    Path::new(called)
        .file_name()
        .map_or_else(|| "zcopy".into(), Into::into)
}

/// Says on standard error what failed, in one line: `zc-cat: NAME: CAUSE`.
///
/// Where standard error takes nothing, the exit status has to do.
pub fn complain(error: &anyhow::Error) {
    say(&chained(error.chain()));
}

/// Says on standard error, after the program's name, what is the matter.
pub fn say(line: &str) {
    let mut message = program().into_vec();
    message.extend_from_slice(b": ");
    message.extend_from_slice(line.as_bytes());
    put(message);
}

/// Says where the usage is told, which GNU tools do after a usage error.
pub fn refer_to_help() {
    let program = program().into_vec();
    put([b"Try '", &program[..], b" --help' for more information."].concat());
}

/// Writes a line to standard error, for programs to read.
pub(crate) fn tell(line: &[u8]) {
    put(line.to_vec());
}

/// Writes a line to standard error, at once, so that the lines of two processes do not mix.
fn put(mut line: Vec<u8>) {
    line.push(b'\n');
    // Whoever closed standard error wants to hear nothing.
    let _ = io::stderr().write_all(&line);
}

/// Errors, each the cause of the one before.
pub(crate) fn chained<'a>(errors: impl Iterator<Item = &'a (dyn Error + 'static)>) -> String {
    let errors: Vec<String> = errors.map(worded).collect();
    errors.join(": ")
}

/// The error in the kernel's words, without the number that Rust adds.
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

/// The kernel's error behind a failed transfer, to be named by whoever knows the operand.
#[must_use]
pub fn cause(error: &zcopy::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.io_error_kind(), format!("{error:#}")),
    }
}
