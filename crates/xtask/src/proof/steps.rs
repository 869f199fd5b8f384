//! The table of the gate and of the steps of `.ci/run-long`: when each was last run, and how it ended.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, anyhow};

use super::{PAGE, noted_commit, today, write_section};

/// The heading of the table.
const HEADING: &str = "The two tiers";

/// The text in front of the rows.
const HEAD: &str = "The gate `.ci/run`, which may take 30 minutes on two processors, and the steps of \
                    `.ci/run-long`, with the last run of each. Most steps have sections of their \
                    own with their results.\n\n\
                    | step | date | commit | seconds | outcome |\n|---|---|---|---:|---|\n";

/// A step, and the command that it consists of.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The name of the step
    name: String,
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Runs the command, and replaces the row of the step, or adds it.
///
/// # Errors
///
/// If git did not answer, the command fails, or the page cannot be written.
pub(crate) fn run(step: &Args) -> anyhow::Result<()> {
    let started = Instant::now();
    let (program, arguments) = step.command.split_first().context("no command")?;
    let ended = match Command::new(program).args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(error) => Err(format!("{program}: {error}")),
    };
    let seconds = started.elapsed().as_secs();
    let outcome = match &ended {
        Ok(()) => "passed".to_owned(),
        Err(reason) => format!("failed, {reason}"),
    };
    let cells = format!("{} | {} | {seconds} | {outcome}", today()?, noted_commit()?);
    write_section(PAGE, HEADING, |page| with_row(page, &step.name, &cells))?;
    ended.map_err(|reason| anyhow!("{}: {reason}", step.name))
}

/// Returns the section of the page, with these cells behind the name of a step.
fn with_row(page: &str, name: &str, cells: &str) -> String {
    let title = format!("\n## {HEADING}\n");
    let section = page.split_once(&title).map_or("", |(_, section)| section);
    let section = section.split("\n## ").next().unwrap_or_default();
    let own = format!("| {name} |");
    let old = section.lines().filter(|line| line.starts_with("| "));
    let row = format!("{own} {cells} |");
    let mut rows: Vec<_> = old.skip(1).collect();
    match rows.iter().position(|old| old.starts_with(&own)) {
        Some(place) => rows[place] = &row,
        None => rows.push(&row),
    }
    format!("{HEAD}{}\n", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::super::replace;
    use super::*;

    #[test]
    fn a_step_replaces_its_row_and_leaves_the_others() {
        let row = |page: &str, name: &str, cells: &str| {
            format!(
                "# Proof\n\n{}",
                replace(page, HEADING, &with_row(page, name, cells))
            )
        };
        let page = row("\n## Kills\n\ntext\n", "kills", "one");
        let page = row(&page, "fuzz", "two");
        let page = row(&page, "kills", "three");
        let (_, rows) = page.split_once("|---|\n").unwrap();
        assert_eq!(rows, "| kills | three |\n| fuzz | two |\n");
        assert!(page.contains("## Kills\n\ntext\n"), "{page}");
    }
}
