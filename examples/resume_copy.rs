//! Copies a file with a progress bar. When it is interrupted, the next run continues.
//!
//! `cargo run --release --example resume_copy -- [--rate BYTES-PER-SECOND] SOURCE DEST`
//!
//! Ctrl-C ends it with status 130. The size of DEST says how far an earlier run has come, because
//! the copy only ever grows at its end. That DEST is such a beginning of SOURCE is not taken on
//! trust: its last bytes are compared.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write, stderr};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use zcopy::{Ended, Stop, SyncData, Transfer};

/// How many bytes at the end of DEST are compared.
const COMPARED: u64 = 1 << 20;

const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    match run() {
        Ok(Ended::Stopped) => ExitCode::from(INTERRUPTED),
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "resume_copy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<Ended> {
    let (rate, from, to) = arguments()?;
    let (in_source, in_dest) = (|| from.display().to_string(), || to.display().to_string());
    let source = File::open(&from).with_context(in_source)?;
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    let dest = options.open(&to).with_context(in_dest)?;
    let total = len(&source).with_context(in_source)?;
    let done = len(&dest).with_context(in_dest)?;
    let is_beginning = done <= total
        && last_bytes(&source, done).with_context(in_source)?
            == last_bytes(&dest, done).with_context(in_dest)?;
    ensure!(
        is_beginning,
        "{} is not the beginning of {}",
        in_dest(),
        in_source()
    );

    let bar = ProgressBar::new(total).with_style(ProgressStyle::with_template(
        "{bytes} of {total_bytes} {bar:30} {binary_bytes_per_sec}, {eta} left",
    )?);
    bar.set_position(done);
    // The bytes of an earlier run say nothing about the speed of this one.
    bar.reset_eta();
    let mut transfer = Transfer::new(&source, &dest)
        .source_offset(done)
        .sink_offset(done)
        .stop_with(&stop_at_signals()?)
        // After a loss of power, the end of DEST would otherwise be in doubt.
        .sync_data(SyncData::AtEnd)
        .tick(Duration::from_millis(100))
        .observe(|progress| {
            bar.set_position(done + progress.bytes());
            ControlFlow::Continue(())
        });
    if let Some(rate) = rate {
        transfer = transfer.rate_limit(rate);
    }
    let result = transfer.run();
    bar.abandon();
    let report = result.with_context(|| format!("{} to {}", in_source(), in_dest()))?;
    let now = done + report.bytes();
    let _ = match report.ended() {
        Ended::Stopped => writeln!(
            stderr(),
            "stopped at {now} of {total} bytes: run it again to go on"
        ),
        _ if done > 0 => writeln!(stderr(), "{now} bytes, {done} of them by an earlier run"),
        _ => writeln!(stderr(), "{now} bytes"),
    };
    Ok(report.ended())
}

/// The rate, SOURCE and DEST.
fn arguments() -> anyhow::Result<(Option<u64>, PathBuf, PathBuf)> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut rate = None;
    if let [option, value, ..] = &arguments[..]
        && option == "--rate"
    {
        rate = Some(value.to_string_lossy().parse().context("--rate")?);
        arguments.drain(..2);
    }
    let [from, to] = &arguments[..] else {
        bail!("usage: resume_copy [--rate BYTES-PER-SECOND] SOURCE DEST");
    };
    Ok((rate, from.into(), to.into()))
}

fn len(file: &File) -> anyhow::Result<u64> {
    let entry = file.metadata()?;
    ensure!(entry.is_file(), "not a regular file");
    Ok(entry.len())
}

/// Returns the last of the first `len` bytes of a file.
fn last_bytes(file: &File, len: u64) -> io::Result<Vec<u8>> {
    let n = len.min(COMPARED);
    let mut bytes = vec![0; n as usize];
    file.read_exact_at(&mut bytes, len - n)?;
    Ok(bytes)
}

/// Returns what SIGINT and SIGTERM stop.
fn stop_at_signals() -> anyhow::Result<Stop> {
    let stop = Stop::new()?;
    let (mut reader, writer) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        // The handler writes one byte.
        pipe::register(signal, writer.try_clone()?)?;
    }
    let stopper = stop.clone();
    thread::Builder::new().spawn(move || {
        while reader.read(&mut [0]).is_err() {}
        stopper.stop();
    })?;
    Ok(stop)
}
