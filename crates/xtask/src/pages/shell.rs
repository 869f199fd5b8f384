//! Runs the shell lines of a page, and compares what they print with what the page shows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use super::markdown::Page;

mod output;
#[cfg(test)]
mod tests;

/// Bash, with the built tools in `PATH`.
pub(super) struct Runner {
    workspace: PathBuf,
    programs: PathBuf,
    /// Where `cargo install` installs. It stays, so that a program is compiled once.
    installed: PathBuf,
}

/// A command of a `console` block.
struct Example {
    /// The number of its line in the page.
    line: usize,
    command: String,
    shown: Vec<String>,
}

impl Runner {
    /// Builds the tools.
    ///
    /// # Errors
    ///
    /// If they cannot be built.
    pub(super) fn new(workspace: &Path) -> anyhow::Result<Self> {
        let status = Command::new("cargo")
            .args(["build", "--quiet", "--release", "--locked"])
            .args(["--package", "zcopy-cli", "--bins"])
            .current_dir(workspace)
            .status()?;
        ensure!(status.success(), "cargo build: {status}");
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = workspace.join(target);
        Ok(Self {
            workspace: workspace.to_owned(),
            programs: target.join("release"),
            installed: target.join("pages"),
        })
    }

    /// Runs the shell lines of a page, and returns the differences to what it shows.
    ///
    /// # Errors
    ///
    /// If a line of an `sh` block fails.
    pub(super) fn run(&self, file: &Path, page: &Page) -> anyhow::Result<Vec<String>> {
        let scratch = tempfile::tempdir()?;
        let (script, examples) = script(page, scratch.path());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = [self.programs.clone(), self.installed.join("bin")];
        let path = first.into_iter().chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path)?;
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &script])
            .current_dir(&self.workspace)
            .env("PATH", path)
            .env("CARGO_INSTALL_ROOT", &self.installed);
        set_places(&mut bash, &scratch)?;
        let status = bash.status()?;
        ensure!(
            status.success(),
            "{}: the line above ended with {status}",
            file.display()
        );
        let mut problems = Vec::new();
        for (number, example) in examples.iter().enumerate() {
            let printed = fs::read(output_file(scratch.path(), number))?;
            let printed = String::from_utf8_lossy(&printed);
            let printed: Vec<_> = printed.lines().collect();
            let shown: Vec<_> = example.shown.iter().map(String::as_str).collect();
            if !output::matches(&shown, &printed) {
                problems.push(format!(
                    "{}:{}: `{}` prints:\n{}",
                    file.display(),
                    example.line,
                    example.command,
                    printed.join("\n")
                ));
            }
        }
        Ok(problems)
    }
}

/// Has programs leave nothing outside of a temporary directory. Cargo keeps its own directories.
fn set_places(bash: &mut Command, scratch: &TempDir) -> anyhow::Result<()> {
    let home = std::env::home_dir().context("no home directory")?;
    for (name, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let place = std::env::var_os(name).map_or_else(|| home.join(default), PathBuf::from);
        bash.env(name, place);
    }
    for (name, directory) in [("HOME", "home"), ("TMPDIR", "tmp")] {
        let place = scratch.path().join(directory);
        fs::create_dir(&place)?;
        bash.env(name, place);
    }
    Ok(())
}

/// The script of a page, and the commands whose output it stores.
fn script(page: &Page, scratch: &Path) -> (String, Vec<Example>) {
    let mut script = String::new();
    let mut examples = Vec::new();
    for block in &page.blocks {
        match block.language.as_str() {
            "sh" => {
                // The tests of the README are a step of their own in `.ci/run`.
                let lines = block
                    .lines
                    .iter()
                    .filter(|line| !line.starts_with("cargo test"));
                script.push_str("set -x\n");
                lines.for_each(|line| script.extend([line, "\n"]));
                script.push_str("{ set +x; } 2>/dev/null\n");
            }
            "console" => {
                for example in split(block.line, &block.lines) {
                    let file = output_file(scratch, examples.len());
                    let command = &example.command;
                    // Writing to a string cannot fail. What a command prints tells whether it
                    // failed.
                    let _ = writeln!(script, "{{ {command}\n}} >{} 2>&1 || true", file.display());
                    examples.push(example);
                }
            }
            _ => {}
        }
    }
    (script, examples)
}

/// The commands of a `console` block, each with the output below it.
fn split(first: usize, lines: &[String]) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for (line, content) in (first..).zip(lines) {
        match (content.strip_prefix("$ "), examples.last_mut()) {
            (Some(command), _) => examples.push(Example {
                line,
                command: command.to_owned(),
                shown: Vec::new(),
            }),
            (None, Some(example)) => example.shown.push(content.clone()),
            (None, None) => {}
        }
    }
    examples
}

fn output_file(scratch: &Path, number: usize) -> PathBuf {
    scratch.join(format!("output-{number}"))
}
