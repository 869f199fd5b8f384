//! Copies one file to another, with a progress line, and says how it was done.
//!
//! `cargo run --release --example copy -- SRC DST`

#![allow(clippy::print_stdout, reason = "the report is for whoever runs it")]

use std::error::Error;
use std::fs::File;
use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;
use std::time::Duration;

use zcopy::Transfer;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: copy SRC DST".into());
    };
    let source = File::open(&from)?;
    // Not `File::create`: that would empty the file before it can be seen to be the source itself.
    let sink = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&to)?;
    let has_terminal = stderr().is_terminal();

    let report = Transfer::new(&source, &sink)
        // Without a tick nobody would be told while a slow source keeps the copy waiting.
        .tick(Duration::from_millis(100))
        .observe(|progress| {
            if has_terminal {
                let total = progress.total().unwrap_or(progress.bytes()).max(1);
                let percent = progress.bytes().min(total) * 100 / total;
                eprint!(
                    "\r{percent:3}%  {} bytes by {}",
                    progress.bytes(),
                    progress.strategy()
                );
            }
            ControlFlow::Continue(())
        })
        .run()?;
    if sink.metadata()?.is_file() {
        // What an older, longer file had beyond is not part of the copy.
        sink.set_len(report.bytes())?;
    }

    if has_terminal {
        eprintln!();
    }
    println!("{report}");
    Ok(())
}
