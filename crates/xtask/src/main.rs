//! The project's own chores, as `cargo xtask COMMAND`.

#![expect(clippy::print_stdout, reason = "a chore reports on standard output")]

use clap::{Parser, Subcommand};

mod faults;
mod without;

#[derive(Debug, Parser)]
#[command(about, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    command: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Runs the tools and examples under strace, which makes each of their system calls fail.
    Faults(faults::Args),
    /// Runs a command, or all tests, on a kernel that refuses splice, tee, sendfile,
    /// `copy_file_range` or FICLONE.
    Without(without::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Chore::Faults(args) => faults::run(&args),
        Chore::Without(args) => without::run(&args),
    }
}
