//! `cat` in its smallest form: copies files, and standard input for `-`, to standard output.
//!
//! `cargo run --release --example cat -- [FILE]...`

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Write, stderr, stdin, stdout};
use std::process::ExitCode;

use zcopy::{Series, Side};

fn main() -> ExitCode {
    let mut names: Vec<_> = std::env::args_os().skip(1).collect();
    if names.is_empty() {
        names.push("-".into());
    }
    let out = stdout();
    // A series asks the kernel once what standard output is, and not again for every file.
    let series = Series::new(&out);
    let mut status = ExitCode::SUCCESS;
    for name in names {
        if let Err(error) = copy(&name, &series) {
            status = ExitCode::FAILURE;
            let is_output = error
                .downcast_ref()
                .is_some_and(|error: &zcopy::Error| error.side() == Side::Sink);
            if is_output {
                let _ = writeln!(stderr(), "cat: standard output: {error:#}");
                break;
            }
            // The other files are not to blame.
            let _ = writeln!(stderr(), "cat: {}: {error:#}", name.display());
        }
    }
    status
}

fn copy(name: &OsStr, series: &Series<'_>) -> anyhow::Result<()> {
    if name == "-" {
        series.transfer(stdin()).run()?;
    } else {
        series.transfer(File::open(name)?).run()?;
    }
    Ok(())
}
