//! Runs a real program while the kernel moves less than the program asks for.
//!
//! A tracer lowers the count of one chosen system call at its entry, and puts the register back at
//! its exit. So the running kernel makes a short transfer, and the program sees a short count that is
//! true: the bytes that were not moved are still where they were.
//!
//! The tools make their system calls themselves, without libc (rustix' `linux_raw` backend). A
//! library in `LD_PRELOAD` would not see these calls. So the tracer uses ptrace(2), which sees all of
//! them.
//!
//! A program that is right finishes as it does without the tracer: with the same status, the same
//! bytes, and the same counts in its reports.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use self::sweep::{Bounds, Prepared, Verdict};
use self::tracer::Traced;

pub(crate) use self::call::Call;
pub(crate) use self::shortening::{Amount, Extent, Shortening};

mod call;
mod shortening;
pub(crate) mod sweep;
pub(crate) mod tracer;

/// How many calls a report shows of each kind.
const SHOWN: usize = 20;

/// Arguments for one run, or for a sweep of one command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Lower the count of this system call [default: none, which only reports the calls].
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

    /// Run the command once for each call and amount, and compare its standard output each time.
    #[arg(long, conflicts_with_all = ["call", "report"])]
    sweep: bool,

    /// Sweep the first N calls of each kind, and the last.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "sweep")]
    most: u32,

    /// Read standard input from this file [default: inherited; for a sweep none].
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Kill the command after this many seconds.
    #[arg(long, value_name = "SEC", default_value_t = 10.0)]
    limit: f64,

    /// Write the report to this file [default: standard error].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The program and its arguments. The tools and examples that cargo built need no path.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs one command and reports on standard error, or sweeps it and reports on standard output.
///
/// # Errors
///
/// The command cannot be run or traced, it ends otherwise than with status 0, or a sweep finds
/// something.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let limit = Duration::try_from_secs_f64(args.limit)?;
    if args.sweep {
        return sweep_command(args, limit);
    }
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
    let traced = tracer::run(command(args)?, shortening.as_ref(), limit)?;
    let report = report(&traced, shortening.as_ref());
    match &args.report {
        Some(path) => fs::write(path, report)?,
        None => io::stderr().write_all(report.as_bytes())?,
    }
    anyhow::ensure!(traced.ending.is_success(), "the command failed");
    Ok(())
}

/// Sweeps one command whose standard output goes to a pipe.
fn sweep_command(args: &Args, limit: Duration) -> anyhow::Result<()> {
    // The first run lowers no count. What it writes is what the others are to write.
    let expected = Rc::new(OnceCell::new());
    let prepare = || {
        let mut command = command(args)?;
        if args.input.is_none() {
            command.stdin(Stdio::null());
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let expected = Rc::clone(&expected);
        let verdict: Verdict = Box::new(move |traced| {
            if *expected.get_or_init(|| traced.stdout.clone()) == traced.stdout {
                Ok(())
            } else {
                Err("standard output differs".to_owned())
            }
        });
        Ok(Prepared { command, verdict })
    };
    let bounds = Bounds {
        calls: Call::value_variants().to_vec(),
        most: args.most,
        limit,
    };
    let swept = sweep::sweep(prepare, &bounds)?;
    for finding in &swept.findings {
        println!("{finding}");
    }
    println!("{swept}");
    anyhow::ensure!(swept.findings.is_empty(), "the command is wrong");
    Ok(())
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
