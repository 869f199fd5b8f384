//! One command under the tracer, instead of a sweep of scenarios.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::{Ending, Intervention, Traced};

/// A report shows this many results of a call, and this many lowered calls.
const SHOWN: usize = 20;
/// The words after the number of all calls in a report.
const CALLS_IN_ALL: &str = " calls in all";

/// A command to trace, with its input, its time limit and the file for the report.
#[derive(Debug, clap::Args)]
pub(crate) struct TracedCommand {
    /// Read standard input from this file [default: inherited].
    #[arg(long, value_name = "FILE", requires = "command")]
    input: Option<PathBuf>,

    /// Kill the command after this many seconds.
    #[arg(long, value_name = "SEC", default_value_t = 15.0, requires = "command")]
    limit: f64,

    /// Write the report to this file [default: standard error].
    #[arg(long, value_name = "FILE", requires = "command")]
    report: Option<PathBuf>,

    /// Run this program with these arguments once, and sweep no scenario. The tools and examples
    /// that cargo built need no path.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl TracedCommand {
    /// Whether the user names a command.
    pub(crate) fn is_given(&self) -> bool {
        !self.command.is_empty()
    }

    /// Runs the command, writes the report, and exits with the status of the command, as a shell
    /// does.
    ///
    /// # Errors
    ///
    /// The command cannot be run or traced, or it hangs.
    pub(crate) fn run(&self, intervention: Option<Intervention>) -> anyhow::Result<()> {
        let limit = Duration::try_from_secs_f64(self.limit)?;
        let traced = super::run(self.command()?, intervention, limit)?;
        let text = report(&traced, intervention);
        match &self.report {
            Some(path) => fs::write(path, text)?,
            None => io::stderr().write_all(text.as_bytes())?,
        }
        match traced.ending {
            Ending::Exited(0) => Ok(()),
            Ending::Exited(status) => std::process::exit(status),
            Ending::Killed(signal) => std::process::exit(128 + signal),
            Ending::Hung => anyhow::bail!("the command hung"),
        }
    }

    /// The command, with the tools' directories in front of its `PATH`.
    fn command(&self) -> anyhow::Result<Command> {
        let (program, args) = self.command.split_first().context("no command")?;
        let mut command = super::command(program);
        command.args(args).env("PATH", path_with_tools()?);
        if let Some(input) = &self.input {
            let file = File::open(input).with_context(|| input.display().to_string())?;
            command.stdin(file);
        }
        Ok(command)
    }
}

/// The calls, the lower counts, and the ending, a line each.
fn report(traced: &Traced, intervention: Option<Intervention>) -> String {
    let mut lines = Vec::new();
    for (call, results) in &traced.results {
        let shown: Vec<String> = results.iter().take(SHOWN).map(i64::to_string).collect();
        let dots = if results.len() > SHOWN { " ..." } else { "" };
        let (count, shown) = (results.len(), shown.join(" "));
        lines.push(format!("{call}: {count} calls returned {shown}{dots}"));
    }
    lines.push(format!("{}{CALLS_IN_ALL}", traced.n_calls));
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
    if matches!(intervention, Some(Intervention::Shorten(_))) && !traced.is_reached() {
        lines.push("not reached: no count was lowered".to_owned());
    }
    lines.push(traced.ending.to_string());
    lines.push(String::new());
    lines.join("\n")
}

/// Reads the number of all calls from a report. `None` if the report has no such line.
pub(crate) fn n_calls(report: &str) -> Option<u32> {
    let mut lines = report.lines();
    lines.find_map(|line| line.strip_suffix(CALLS_IN_ALL)?.parse().ok())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_number_of_calls() {
        let traced =
            super::super::run(super::super::command("true"), None, Duration::from_secs(60));
        let traced = traced.unwrap();
        let report = report(&traced, None);
        assert!(traced.n_calls > 0);
        assert_eq!(n_calls(&report), Some(traced.n_calls), "{report}");
        assert_eq!(n_calls("exited with status 0\n"), None);
    }
}
