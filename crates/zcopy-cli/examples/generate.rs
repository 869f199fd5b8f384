//! Makes the tools' manual pages and shell completions, from the definitions that parse their
//! command lines.
//!
//! `cargo run -p zcopy-cli --example generate -- man DIR`
//! `cargo run -p zcopy-cli --example generate -- completions bash DIR`

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Command, Parser};
use clap_complete::Shell;
use clap_mangen::Man;
use zcopy_cli::{args, cat, dircopy, pv, tee, yes};

/// Every tool.
const TOOLS: [fn() -> Command; 5] = [
    args::command::<cat::Args>,
    args::command::<dircopy::Args>,
    args::command::<pv::Args>,
    args::command::<tee::Args>,
    args::command::<yes::Args>,
];

/// Make the tools' manual pages and shell completions
#[derive(Debug, Parser)]
enum Wanted {
    /// One manual page for each tool
    Man {
        /// Where to put them; it is made if it is not there
        directory: PathBuf,
    },
    /// One completion file for each tool
    Completions {
        /// For this shell
        shell: Shell,
        /// Where to put them; it is made if it is not there
        directory: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Wanted::parse() {
        Wanted::Man { directory } => in_directory(&directory, |tool| {
            let name = format!("{}.1", tool.get_name());
            let path = directory.join(name);
            let mut page = File::create(&path).with_context(|| path.display().to_string())?;
            Ok(Man::new(summarised(tool)).render(&mut page)?)
        }),
        Wanted::Completions { shell, directory } => in_directory(&directory, |mut tool| {
            let name = tool.get_name().to_owned();
            clap_complete::generate_to(shell, &mut tool, name, &directory)
                .with_context(|| directory.display().to_string())?;
            Ok(())
        }),
    }
}

/// The tool with its first sentence alone for the line that `apropos` shows; the description keeps the
/// rest.
fn summarised(tool: Command) -> Command {
    let about = tool
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let summary = about.lines().next().unwrap_or_default();
    let summary = summary.trim_end_matches('.').to_owned();
    tool.about(summary).long_about(about)
}

/// Does this for each tool, when the directory is there.
fn in_directory(
    directory: &Path,
    make: impl Fn(Command) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    TOOLS.iter().try_for_each(|tool| make(tool()))
}
