//! The project's own chores, as `cargo xtask COMMAND`.

#![expect(clippy::print_stdout, reason = "a chore reports on standard output")]

use clap::{Parser, Subcommand};

mod faults;
mod mutants;
mod programs;
mod proof;
mod scenario;
mod scenarios;
mod strace;
mod verdict;

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
    /// Change the library in small ways, and count the changes that no test notices
    Mutants(mutants::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::Faults(args) => faults::run(&args),
        Chore::Mutants(args) => mutants::run(&args),
    }
}
