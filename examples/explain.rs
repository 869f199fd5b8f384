//! Says which way the bytes of one path would go to another, and why. Moves nothing.
//!
//! `cargo run --release --example explain -- SRC DST`
//!
//! Both have to exist, for the plan depends on what they are: `touch DST` first. Paths of pipes,
//! terminals and devices will do: `explain /dev/zero /dev/null`, `explain /dev/stdin FILE`.

use std::fs::File;
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use zcopy::Transfer;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // `eprintln!` panics where standard error cannot be written.
            let _ = writeln!(stderr(), "explain: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [from, to] = &arguments[..] else {
        bail!("usage: explain SRC DST");
    };
    let source = File::open(from).with_context(|| from.display().to_string())?;
    // Opened for writing and not touched.
    let sink = File::options().write(true).open(to);
    let sink = sink.with_context(|| match to.try_exists() {
        Ok(false) => format!("{}: a plan needs a DST that exists", to.display()),
        _ => to.display().to_string(),
    })?;
    let pair = || format!("{} to {}", from.display(), to.display());

    let transfer = Transfer::new(&source, &sink);
    let plan = transfer.plan().with_context(pair)?;
    let stable = transfer.stable(true).plan().with_context(pair)?;
    writeln!(
        stdout(),
        "{plan}\n\nand if the source must not change under the reader:\n{stable}"
    )
    .context("standard output")
}
