//! The benchmark `ratios` in a guest: how the plan compares with read and write on its kernel.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use super::guest::Job;
use super::package::Kernel;
use super::run_in_guest;
use crate::programs::built_by;

/// An emulated processor takes about a minute for a turn of all pairs at both sizes.
const SIZES: &str = "ZCOPY_BENCH_SIZES=64KiB,1MiB";
const TURNS: &str = "ZCOPY_BENCH_TURNS=5";

/// The built benchmark.
#[derive(Debug)]
pub(super) struct Ratios {
    program: PathBuf,
}

impl Ratios {
    /// Builds the benchmark.
    ///
    /// # Errors
    ///
    /// If cargo fails.
    pub(super) fn build() -> anyhow::Result<Self> {
        let mut cargo = Command::new("cargo");
        cargo.args(["bench", "--quiet", "--locked", "--no-run"]);
        cargo.args(["--package", "zcopy", "--bench", "ratios"]);
        let built = built_by(&mut cargo)?;
        let program = built.first().and_then(|built| built["executable"].as_str());
        let program = program.context("cargo has not built the benchmark")?;
        Ok(Self {
            program: program.into(),
        })
    }

    /// Runs the benchmark on a kernel. Returns a table for people.
    ///
    /// # Errors
    ///
    /// The kernel does not boot, or the benchmark does not end.
    pub(super) fn run(&self, kernel: &Kernel, args: &super::Args) -> anyhow::Result<String> {
        let program = self.program.to_string_lossy().into_owned();
        let mut command: Vec<_> = ["env", SIZES, TURNS].map(str::to_owned).into();
        command.push(program);
        command.extend_from_slice(&args.selection.arguments);
        let dir = std::env::current_dir()?;
        let job = Job {
            name: "ratios",
            command,
            dir: &dir,
        };
        let ran = run_in_guest(kernel, &job, args)?;
        println!("{}", ran.messages.trim_end());
        let log = ran.log.display();
        ensure!(ran.has_succeeded, "the benchmark did not end: {log}");
        Ok(format!(
            "- {}, {SIZES} {TURNS}\n\n{}",
            kernel.release,
            table(&ran.messages)
        ))
    }
}

/// The ratios that a benchmark has printed.
fn table(printed: &str) -> String {
    let mut table = "| pair | speed, best strategy = 1 | speed, read and write = 1 | speed, `std::io::copy` = 1 |\n\
                     |---|---|---|---|\n"
        .to_owned();
    let mut pair = "";
    let mut ratios = Vec::new();
    for line in printed.lines() {
        if let Some(ratio) = line.strip_prefix("  plan: ") {
            ratios.push(ratio.split_once(" x ").map_or(ratio, |(ratio, _)| ratio));
            if ratios.len() == 3 {
                let _ = writeln!(table, "| {pair} | {} |", ratios.join(" | "));
                ratios.clear();
            }
        } else if !line.starts_with(' ') {
            pair = line;
            ratios.clear();
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_pair_has_a_row_of_its_three_ratios() {
        let printed = "file_to_null/1MiB\n  plan: 1.00 [0.96, 0.98] x the best strategy\n\
                       file_to_pipe/64KiB\n  plan  1.00 GB/s\n  \
                       plan: 0.97 [0.96, 0.98] x the best strategy\n  \
                       plan: 2.00 [1.90, 2.10] x buffered\n  \
                       plan: 3.00 [2.00, 4.00] x std::io::copy\n";
        let row =
            "| file_to_pipe/64KiB | 0.97 [0.96, 0.98] | 2.00 [1.90, 2.10] | 3.00 [2.00, 4.00] |";
        assert_eq!(table(printed).lines().nth(2), Some(row));
    }
}
