//! Checks the project's pages: every link leads somewhere, and every shell line works.
//!
//! The language of a block of code decides what happens to it:
//!
//! - `sh`: bash runs the lines. One that fails ends the page.
//! - `console`: bash runs the commands, the lines that begin with `$ `. The lines below a command
//!   are its output, compared without regard to numbers and to the width of white space. A line
//!   `…` stands for any lines, and `…` within a line for any characters.
//! - `text`, and all others: not run. They need root, a device or hours, or show a display that
//!   moves.
//!
//! The blocks of a page share one shell, which starts in the root of the workspace. `PATH` begins
//! with the built tools. `HOME` and `TMPDIR` are temporary, and `cargo install` installs into a
//! directory of the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

mod links;
mod markdown;
mod shell;

pub(crate) use markdown::anchor;

use markdown::Page;

/// Where the pages stand whose shell lines are run. Other pages, such as CONTRIBUTING.md, have
/// commands that take hours.
const RUN: [&str; 3] = ["README.md", "crates/zcopy/README.md", "docs/"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run the shell lines, too
    #[arg(long)]
    run: bool,

    /// Check these pages alone
    pages: Vec<PathBuf>,
}

/// Runs the chore.
///
/// # Errors
///
/// If a link leads nowhere, a shell line fails, or a command prints something else than its page
/// shows.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()?;
    let files = if args.pages.is_empty() {
        tracked(&workspace)?
    } else {
        args.pages.clone()
    };
    let mut problems = Vec::new();
    for file in &files {
        problems.extend(links::check(&workspace, file)?);
    }
    report(&problems)?;
    if args.run {
        let runner = shell::Runner::new(&workspace)?;
        for file in files.iter().filter(|file| is_run(file)) {
            println!("--- {}", file.display());
            problems.extend(runner.run(file, &read(&workspace, file)?)?);
        }
        report(&problems)?;
    }
    Ok(())
}

/// The pages that git knows.
fn tracked(workspace: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args(["ls-files", "--", "*.md"])
        .current_dir(workspace)
        .output()?;
    ensure!(listed.status.success(), "git ls-files: {}", listed.status);
    let names = String::from_utf8(listed.stdout)?;
    ensure!(!names.is_empty(), "git knows no pages");
    Ok(names.lines().map(PathBuf::from).collect())
}

fn is_run(file: &Path) -> bool {
    RUN.iter().any(|place| file.starts_with(place))
}

fn read(workspace: &Path, file: &Path) -> anyhow::Result<Page> {
    let text = std::fs::read_to_string(workspace.join(file));
    Page::parse(&text.with_context(|| file.display().to_string())?)
        .with_context(|| file.display().to_string())
}

fn report(problems: &[String]) -> anyhow::Result<()> {
    for problem in problems {
        println!("{problem}");
    }
    match problems.len() {
        0 => Ok(()),
        n => bail!("problems: {n}"),
    }
}
