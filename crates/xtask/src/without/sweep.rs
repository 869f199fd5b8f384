//! Runs of the tests under one filter after the other, and the table of their results.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};

use super::{Refusal, filter};

/// A test prints this when it needs the very call that is refused: `tests/it/refused.rs` of zcopy.
const NEEDS: &str = "NEEDS A REFUSED CALL: ";

/// The results of the tests of one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: u64,
    pub(super) failed: u64,
    pub(super) ignored: u64,
    /// Tests that returned early because the filter refuses the call that they test. They count as
    /// passed, too.
    pub(super) needs_call: u64,
}

impl Tally {
    /// Adds what one line of a test program's output says.
    pub(super) fn add_line(&mut self, line: &str) {
        if line.contains(NEEDS) {
            self.needs_call += 1;
        }
        // A program's standard error may stand before it in the same line.
        let Some((_, counts)) = line.split_once("test result: ") else {
            return;
        };
        // "ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s"
        let (_, counts) = counts.split_once(". ").unwrap_or_default();
        for count in counts.split("; ") {
            let (number, what) = count.split_once(' ').unwrap_or_default();
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Runs a command for each refusal, or all tests if there is no command, and prints a table.
///
/// # Errors
///
/// Fails if a run fails, after all of them.
pub(super) fn run(command: &[OsString], refusals: &[Refusal]) -> anyhow::Result<()> {
    if command.is_empty() {
        let status = tests()
            .arg("--no-run")
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "the tests cannot be built");
    }
    let mut table = String::new();
    let mut failed = 0;
    for refusal in refusals {
        println!("=== {refusal}");
        let started = Instant::now();
        let command = match command {
            [] => tests(),
            [program, args @ ..] => {
                let mut command = Command::new(program);
                command.args(args);
                command
            }
        };
        let (status, tally) = run_once(command, refusal, &mut std::io::stdout().lock())?;
        failed += u32::from(!status.success());
        table += &row(refusal, status, &tally, started.elapsed());
    }
    println!(
        "\n{:<22} {:>7} {:>7} {:>7} {:>10} {:>7}",
        "refused", "passed", "failed", "ignored", "need call", "time"
    );
    print!("{table}");
    match failed {
        0 => Ok(()),
        _ => bail!("{failed} of {} runs failed", refusals.len()),
    }
}

/// The tests of the crates that move bytes. The chores are left out, since they install filters of
/// their own, and the examples of the documentation, of which some show a strategy at work.
fn tests() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "test",
        "--workspace",
        "--exclude",
        "xtask",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--tests",
    ]);
    // Directories of a workspace: cargo sets this for a program that it runs.
    if let Some(xtask) = std::env::var_os("CARGO_MANIFEST_DIR") {
        command.current_dir(Path::new(&xtask).join("../.."));
    }
    command
}

/// Runs a command under a filter, passes on what it prints except for tests that passed, and counts
/// the tests.
pub(super) fn run_once(
    mut command: Command,
    refusal: &Refusal,
    sink: &mut impl Write,
) -> anyhow::Result<(ExitStatus, Tally)> {
    refusal.describe_to(&mut command);
    let (output, input) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(input.try_clone()?).stderr(input);
    // A filter belongs to a thread and to what that thread starts. Its end takes the filter away.
    let mut child = std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            filter::install(refusal)?;
            command.spawn().context("cannot run the command")
        });
        starter.join().map_err(|_| anyhow!("the thread panicked"))?
    })?;
    // It holds the pipe's writer, which would keep the output from ending.
    drop(command);

    let mut tally = Tally::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read the output of the command")?;
        let line = String::from_utf8_lossy(&line);
        tally.add_line(&line);
        let has_passed = line.starts_with("test ") && line.ends_with(" ... ok");
        if !has_passed && !line.is_empty() {
            writeln!(sink, "{line}")?;
        }
    }
    Ok((child.wait()?, tally))
}

fn row(refusal: &Refusal, status: ExitStatus, tally: &Tally, time: Duration) -> String {
    let Tally {
        passed,
        failed,
        ignored,
        needs_call,
    } = tally;
    // A run can fail without a failed test: by a signal, or while it builds.
    let ending = if !status.success() && *failed == 0 {
        format!("  {status}")
    } else {
        String::new()
    };
    format!(
        "{:<22} {passed:>7} {failed:>7} {ignored:>7} {needs_call:>10} {:>6.0}s{ending}\n",
        refusal.to_string(),
        time.as_secs_f64()
    )
}
