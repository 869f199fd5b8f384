//! Runs the tools and examples under strace, which makes each of their system calls fail.

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    println!("{args:?}");
    Ok(())
}
