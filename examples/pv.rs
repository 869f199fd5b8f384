//! The whole of `pv`: moves standard input, or FILE, to standard output, and shows on a terminal
//! how far it has come, how fast, and how long it will take.
//!
//! `cargo run --release --example pv -- [FILE] | gzip > packed.gz`

use std::fs::File;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use byte_unit::{Byte, UnitType};
use zcopy::Transfer;

/// The time between two drawings.
const INTERVAL: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    if let Err(error) = run() {
        let _ = writeln!(stderr(), "pv: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn run() -> anyhow::Result<()> {
    let source = match std::env::args_os().nth(1) {
        Some(path) => File::open(&path).with_context(|| path.display().to_string())?,
        None => File::from(stdin().as_fd().try_clone_to_owned()?),
    };
    let (start, mut next, mut total) = (Instant::now(), INTERVAL, None);
    let result = Transfer::new(source, stdout())
        // The tick moves the clock on while the source or the reader keeps the transfer waiting.
        .tick(INTERVAL)
        .observe(|progress| {
            // The size of a file, whether it is FILE or standard input. A pipe has none.
            total = progress.total();
            // The observer also runs after every step, which is far too often for a terminal.
            if start.elapsed() >= next {
                next = start.elapsed() + INTERVAL;
                draw(progress.bytes(), total, start.elapsed());
            }
            ControlFlow::Continue(())
        })
        .run();
    if let Ok(report) = &result {
        draw(report.bytes(), total, report.elapsed());
    }
    if stderr().is_terminal() {
        let _ = writeln!(stderr());
    }
    Ok(result.map(drop)?)
}

fn draw(bytes: u64, total: Option<u64>, elapsed: Duration) {
    if !stderr().is_terminal() {
        return;
    }
    let unit = |n| Byte::from_u64(n).get_appropriate_unit(UnitType::Binary);
    let human = |n| format!("{:.1}", unit(n));
    let clock = |s| format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    let rate = bytes * 1000 / elapsed.as_millis().max(1) as u64;
    let bar = total.filter(|total| *total > 0).map(|total| {
        let percent = bytes.min(total) * 100 / total;
        let bar = "=".repeat(percent as usize * 30 / 100) + ">";
        let left = clock((total - bytes.min(total)) / rate.max(1));
        format!(" [{bar:31}] {percent:3}% ETA {left}")
    });
    let (bar, now) = (bar.unwrap_or_default(), clock(elapsed.as_secs()));
    let (moved, rate) = (human(bytes), human(rate));
    let _ = write!(stderr(), "\r{moved:>10} {now} [{rate:>10}/s]{bar}\x1b[K");
}
