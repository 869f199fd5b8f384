//! The whole of `pv`: moves standard input, or FILE, to standard output, and shows on a terminal how
//! far it has come, how fast, and how long it will take.
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
    run().map_or_else(
        |error| {
            let _ = writeln!(stderr(), "pv: {error:#}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn run() -> anyhow::Result<()> {
    let source = match std::env::args_os().nth(1) {
        Some(path) => File::open(&path).with_context(|| path.display().to_string())?,
        None => File::from(stdin().as_fd().try_clone_to_owned()?),
    };
    let (start, mut next, mut total) = (Instant::now(), INTERVAL, None);
    let report = Transfer::new(source, stdout())
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
        .run()?;
    draw(report.bytes(), total, report.elapsed());
    if stderr().is_terminal() {
        let _ = writeln!(stderr());
    }
    Ok(())
}

fn draw(bytes: u64, total: Option<u64>, elapsed: Duration) {
    const WIDTH: usize = 30;
    let human = |n| Byte::from_u64(n).get_appropriate_unit(UnitType::Binary);
    let human = |n| format!("{:.1}", human(n));
    let clock = |s| format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
    let rate = (bytes as f64 / elapsed.as_secs_f64().max(0.001)) as u64;
    let mut line = format!("\r{:>10} {} ", human(bytes), clock(elapsed.as_secs()));
    line += &format!("[{:>10}/s]", human(rate));
    if let Some(total) = total.filter(|total| *total > 0) {
        let done = bytes.min(total) as f64 / total as f64;
        let bar = "=".repeat((done * WIDTH as f64) as usize) + ">";
        let left = (total - bytes.min(total)) / rate.max(1);
        line += &format!(" [{bar:31}] {:3.0}% ETA {}", done * 100.0, clock(left));
    }
    if stderr().is_terminal() {
        let _ = write!(stderr(), "{line}\x1b[K");
    }
}
