//! The project's own chores, as `cargo xtask COMMAND`.

#![expect(clippy::print_stdout, reason = "a chore reports on standard output")]

use clap::{Parser, Subcommand};

mod faults;
mod short_counts;

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
    /// Runs a command while the kernel moves less than the command asks for.
    ShortCounts(short_counts::Args),
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Chore::Faults(args) => faults::run(&args),
        Chore::ShortCounts(args) => short_counts::run(&args),
    }
}
