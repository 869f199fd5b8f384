//! The project's own chores, as `cargo xtask COMMAND`.

#![expect(clippy::print_stdout, reason = "a chore reports on standard output")]

use clap::{Parser, Subcommand};

mod charts;
mod faults;
mod file_systems;
mod fuzz;
mod image;
mod imports;
mod integration_tests;
mod kernels;
mod kills;
mod mutants;
mod pages;
mod power_cuts;
mod programs;
mod proof;
mod scenario;
mod scenarios;
mod short_counts;
mod slow_disks;
mod start_up;
mod strace;
mod sweep;
mod tracer;
mod verdict;
mod without;

#[derive(Debug, Parser)]
#[command(about, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Make each system call of the tools and examples fail, under strace
    Faults(faults::Args),
    /// Run the tests with their files on other file systems
    FileSystems(file_systems::Args),
    /// Run the tests on the kernels that Debian packages, in an emulator
    Kernels(kernels::Args),
    /// Kill the tools at each system call, and look at what they leave behind
    Kills(kills::Args),
    /// Have the kernel move less than the tools and examples ask for
    ShortCounts(short_counts::Args),
    /// Run a command, or all tests, where the kernel refuses the calls that move bytes inside it
    Without(without::Args),
    /// Cut the power of a disk during durable copies, and look at what it holds
    PowerCuts(power_cuts::Args),
    /// Time zc-dircopy between disks that are slow or that stall
    SlowDisks(slow_disks::Args),
    /// Run the property tests under libFuzzer
    Fuzz(fuzz::Args),
    /// Change the library in small ways, and count the changes that no test notices
    Mutants(mutants::Args),
    /// Time the tools and the originals as they move one byte
    StartUp(start_up::Args),
    /// Check that the imports between the modules of the library point down the list in
    /// ARCHITECTURE.md
    Imports,
    /// Check that the links of the pages lead somewhere, and that their shell lines work
    Pages(pages::Args),
    /// Write the table at the head of docs/proof.md anew, from its sections and those of
    /// docs/kernels.md
    Summary,
    /// Run a step of .ci/run-long, and note its end in docs/proof.md
    Step(proof::steps::Args),
    /// Draw the charts of docs/benchmarks.md from a record of the benchmarks
    Charts(charts::Args),
}

fn main() -> anyhow::Result<()> {
    proof::note_commit();
    match Args::parse().chore {
        Chore::Faults(args) => faults::run(&args),
        Chore::FileSystems(args) => file_systems::run(&args),
        Chore::Kernels(args) => kernels::run(&args),
        Chore::Kills(args) => kills::run(&args),
        Chore::ShortCounts(args) => short_counts::run(&args),
        Chore::Without(args) => without::run(&args),
        Chore::PowerCuts(args) => power_cuts::run(&args),
        Chore::SlowDisks(args) => slow_disks::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
        Chore::StartUp(args) => start_up::run(&args),
        Chore::Imports => imports::run(),
        Chore::Pages(args) => pages::run(&args),
        Chore::Summary => proof::summarize(),
        Chore::Step(args) => proof::steps::run(&args),
        Chore::Charts(args) => charts::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_option_has_a_name_of_its_own() {
        Args::command().debug_assert();
    }
}
