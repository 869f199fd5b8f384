//! Runs a real program while the kernel moves less than the program asks for.
//!
//! A tracer lowers the count of one chosen system call at its entry, and puts the register back at
//! its exit. So the running kernel makes a short transfer, and the program sees a short count that
//! is true: the bytes that were not moved are still where they were.
//!
//! The tools make their system calls themselves, without libc (rustix' `linux_raw` backend). A
//! library in `LD_PRELOAD` would not see these calls. So the tracer uses ptrace(2), which sees all
//! of them.
//!
//! A program that is right finishes as it does without the tracer: with the same status and the
//! same bytes, and counts that are those of the bytes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use crate::sweep::Options;
use crate::tracer::{self, Amount, Call, Ending, Extent, Shortening, Traced};

mod sweep;

/// How many calls a report shows of each kind.
const SHOWN: usize = 20;

/// Arguments for a sweep of scenarios, or for one run of one command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,

    /// Lower the count of this system call [default: each in turn; of a command none, which only reports the calls].
    #[arg(long, value_enum)]
    call: Option<Call>,

    /// Lower the count of the Nth such call of all processes together.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "call")]
    when: u32,

    /// Lower the count to this: `one`, `half`, `all-but-one`, or a number of bytes.
    #[arg(long, default_value_t = Amount::One, requires = "call")]
    amount: Amount,

    /// Lower the counts of the calls that follow, too.
    #[arg(long, requires = "call")]
    on: bool,

    /// Read standard input from this file [default: inherited].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Kill the command after this many seconds.
    #[arg(long, value_name = "SEC", default_value_t = 10.0)]
    limit: f64,

    /// Write the report to this file [default: standard error].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Run this program with these arguments once, and sweep no scenario. The tools and examples
    /// that cargo built need no path.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Sweeps scenarios, or runs one command and reports on standard error. The status of one
/// command is passed on, as a shell does it.
///
/// # Errors
///
/// A command cannot be run or traced, it hangs, or a sweep finds something.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let shortening = args.call.map(|call| Shortening {
        call,
        first: args.when,
        extent: if args.on {
            Extent::FromThen
        } else {
            Extent::Once
        },
        amount: args.amount,
    });
    if args.command.is_empty() {
        return sweep::sweep(&args.options, shortening);
    }
    let limit = Duration::try_from_secs_f64(args.limit)?;
    let traced = tracer::run(command(args)?, shortening.as_ref(), limit)?;
    let report = report(&traced, shortening.as_ref());
    match &args.report {
        Some(path) => fs::write(path, report)?,
        None => io::stderr().write_all(report.as_bytes())?,
    }
    match traced.ending {
        Ending::Exited(0) => Ok(()),
        Ending::Exited(status) => std::process::exit(status),
        Ending::Killed(signal) => std::process::exit(128 + signal),
        Ending::Hung => anyhow::bail!("the command hung"),
    }
}

/// The command, with the tools' directories in front of its `PATH`.
fn command(args: &Args) -> anyhow::Result<Command> {
    let mut command = tracer::command(&args.command[0]);
    command.args(&args.command[1..]);
    command.env("PATH", path_with_tools()?);
    if let Some(input) = &args.input {
        let file = File::open(input).with_context(|| input.display().to_string())?;
        command.stdin(file);
    }
    Ok(command)
}

/// The calls, the lower counts, and the ending, a line each.
fn report(traced: &Traced, shortening: Option<&Shortening>) -> String {
    let mut lines = Vec::new();
    for (call, results) in &traced.results {
        let shown: Vec<String> = results.iter().take(SHOWN).map(i64::to_string).collect();
        let dots = if results.len() > SHOWN { " ..." } else { "" };
        let (count, shown) = (results.len(), shown.join(" "));
        lines.push(format!("{call}: {count} calls returned {shown}{dots}"));
    }
    let shortened = traced.shortened.iter().take(SHOWN);
    lines.extend(shortened.map(ToString::to_string));
    if traced.shortened.len() > SHOWN {
        let more = traced.shortened.len() - SHOWN;
        lines.push(format!("and {more} calls more"));
    }
    if traced.left_alone > 0 {
        let left_alone = traced.left_alone;
        lines.push(format!(
            "{left_alone} calls could not be lowered (O_DIRECT or events)"
        ));
    }
    if shortening.is_some() && !traced.is_reached() {
        lines.push("not reached: no count was lowered".to_owned());
    }
    lines.push(traced.ending.to_string());
    lines.push(String::new());
    lines.join("\n")
}

/// `PATH` with the directory of this program in front, where cargo puts the tools, and `examples`.
fn path_with_tools() -> anyhow::Result<OsString> {
    let program = std::env::current_exe()?;
    let mut directories = Vec::new();
    if let Some(directory) = program.parent() {
        directories.push(directory.to_owned());
        directories.push(directory.join("examples"));
    }
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    directories.extend(std::env::split_paths(&inherited));
    Ok(std::env::join_paths(directories)?)
}
