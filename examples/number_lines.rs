//! Numbers the lines of files, or of standard input, as `cat -n` does.
//!
//! `cargo run --release --example number_lines -- [FILE]...`
//!
//! The numbers run on from file to file, and so does a line that does not end with its file.

use std::fs::File;
use std::io::{Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use zcopy::{Filter, FilterTransfer, Filtered, Input};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "number_lines: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let out = stdout();
    let mut filter = FilterTransfer::new(&out, Numbers::default());
    if std::env::args_os().len() <= 1 {
        filter.run(stdin()).context("standard input")?;
    }
    for name in std::env::args_os().skip(1) {
        let shown = || Path::new(&name).display().to_string();
        let file = File::open(&name).with_context(shown)?;
        filter.run(&file).with_context(shown)?;
    }
    // This filter takes every byte when it comes. One that holds some back is called here once
    // more.
    filter.finish().context("standard output")?;
    Ok(())
}

/// Puts its number in front of every line.
///
/// A part of a line is taken when it comes, because the filter knows where the next line begins. So
/// lines may have any length, and half a line shows at a terminal at once.
#[derive(Default)]
struct Numbers {
    /// Of the last line that has begun.
    line: u64,
    is_within_line: bool,
}

impl Filter for Numbers {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        let mut done = Filtered::default();
        while done.consumed < input.bytes.len() {
            let rest = &input.bytes[done.consumed..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let number = if self.is_within_line {
                String::new()
            } else {
                format!("{:6}\t", self.line + 1)
            };
            // What there is no room for now is shown again, with room for it.
            let room = &mut room[done.produced..];
            let Some(space) = room.len().checked_sub(number.len()).filter(|n| *n > 0) else {
                break;
            };
            let len = end.map_or(rest.len(), |end| end + 1).min(space);
            let piece = &rest[..len];
            room[..number.len()].copy_from_slice(number.as_bytes());
            room[number.len()..][..len].copy_from_slice(piece);
            self.line += u64::from(!self.is_within_line);
            self.is_within_line = !piece.ends_with(b"\n");
            done.consumed += len;
            done.produced += number.len() + len;
        }
        done
    }
}
