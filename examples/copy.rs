//! Copies one file to another, with a progress line, and says how it was done.
//!
//! `cargo run --release --example copy -- SRC DST`

use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use zcopy::Transfer;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "copy: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else {
        bail!("usage: copy SRC DST");
    };
    let source = File::open(from).with_context(|| from.display().to_string())?;
    // Not `File::create`: that would empty the file before it can be seen to be the source itself.
    let sink = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(to)
        .with_context(|| to.display().to_string())?;
    let has_terminal = stderr().is_terminal();

    let report = Transfer::new(&source, &sink)
        // Without a tick nobody would be told while a slow source keeps the copy waiting.
        .tick(Duration::from_millis(100))
        .observe(|progress| {
            if has_terminal {
                let total = progress.total().unwrap_or(progress.bytes()).max(1);
                let percent = progress.bytes().min(total) * 100 / total;
                let _ = write!(
                    stderr(),
                    "\r{percent:3}%  {} bytes by {}",
                    progress.bytes(),
                    progress.strategy()
                );
            }
            ControlFlow::Continue(())
        })
        .run();
    if has_terminal {
        // Whatever comes next, be it an error, begins a line.
        let _ = writeln!(stderr());
    }
    let report = report.with_context(|| format!("{} to {}", from.display(), to.display()))?;
    // What an older, longer file had beyond is not part of the copy.
    let status = sink.metadata().with_context(|| to.display().to_string())?;
    if status.is_file() {
        sink.set_len(report.bytes())
            .with_context(|| to.display().to_string())?;
    }
    writeln!(stdout(), "{report:#}").context("standard output")
}
