//! Copies one file to another and prints the SHA-256 of the bytes that arrived, in one pass.
//!
//! `cargo run --release --example hash_while_copying -- SRC DST`
//!
//! The line it prints is the one that `sha256sum DST` would print, and `sha256sum -c` can check it.

use std::fs::File;
use std::io::{Write, stderr, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use zcopy::Transfer;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "hash_while_copying: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else {
        bail!("usage: hash_while_copying SRC DST");
    };
    let source = File::open(from).with_context(|| from.display().to_string())?;
    // Not `File::create`: that would empty the file before it can be seen to be the source itself.
    let sink = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(to)
        .with_context(|| to.display().to_string())?;

    let mut hash = Sha256::new();
    // The inspector sees every byte that the sink accepted, once and in order. The plan knows
    // that the bytes then have to pass through user space.
    let report = Transfer::new(&source, &sink)
        .inspect(|bytes| hash.update(bytes))
        .run()
        .with_context(|| format!("{} to {}", from.display(), to.display()))?;
    if sink.metadata().is_ok_and(|sink| sink.is_file()) {
        sink.set_len(report.bytes())
            .with_context(|| to.display().to_string())?;
    }
    stdout()
        .write_all(&line(&hash.finalize(), to))
        .context("standard output")
}

/// A line as `sha256sum` prints it. A name that would break the line is escaped, and a backslash in
/// front of the line says so.
fn line(digest: &[u8], name: &Path) -> Vec<u8> {
    let name = name.as_os_str().as_bytes();
    let mut line = Vec::new();
    if name.iter().any(|byte| b"\\\n\r".contains(byte)) {
        line.push(b'\\');
    }
    for byte in digest {
        line.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            _ => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}
