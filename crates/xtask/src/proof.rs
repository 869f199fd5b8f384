//! Writes what was tried, when, on which commit, and what came of it, to `docs/proof.md` or another
//! page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, anyhow, ensure};

pub(crate) mod steps;

mod selection;
mod summary;

/// The page of most records, from the root of the workspace.
const PAGE: &str = "docs/proof.md";

/// The commit on which this program was started, or the error of git. It is read at the start,
/// because somebody may commit during the run.
static COMMIT: LazyLock<Result<String, String>> =
    LazyLock::new(|| commit().map_err(|error| format!("{error:#}")));

/// Takes note of the commit, for a record at the end.
pub(crate) fn note_commit() {
    LazyLock::force(&COMMIT);
}

/// Replaces the section with this heading in `docs/proof.md`, or adds it, with the date, the commit
/// and the command of this run. Writes the summary at the head of the page anew.
///
/// # Errors
///
/// If git did not answer or the page cannot be written.
pub(crate) fn record(heading: &str, text: &str) -> anyhow::Result<()> {
    record_in(PAGE, heading, text)
}

/// The same in another page, whose path begins at the root of the workspace.
///
/// # Errors
///
/// As [`record`].
pub(crate) fn record_in(page: &'static str, heading: &str, text: &str) -> anyhow::Result<()> {
    let section = with_command(text)?;
    write_section(page, heading, |_| section)
}

/// The same for a run that may make a selection by the arguments behind `--`. The record of another
/// selection stays, and this one gets a section of its own, whose heading has the arguments.
///
/// # Errors
///
/// As [`record`].
pub(crate) fn record_selection_in(
    page: &'static str,
    heading: &str,
    arguments: &[String],
    text: &str,
) -> anyhow::Result<()> {
    let arguments: Vec<_> = arguments.iter().map(|argument| quoted(argument)).collect();
    let old = fs::read_to_string(root().join(page)).unwrap_or_default();
    let heading = selection::heading(&old, heading, &arguments.join(" "));
    record_in(page, &heading, text)
}

/// Returns a section with this text, behind the command, the date and the commit of this run.
fn with_command(text: &str) -> anyhow::Result<String> {
    let (date, commit) = (today()?, noted_commit()?);
    let kernel = output("uname", &["-r"])?;
    let arguments: Vec<_> = std::env::args()
        .skip(1)
        .map(|argument| quoted(&argument))
        .collect();
    let arguments = arguments.join(" ");
    Ok(format!(
        "`cargo xtask {arguments}`, {date}, commit {commit}, Linux {kernel}:\n\n{text}\n"
    ))
}

/// Replaces a section of a page by one that is made from the page, and the summary.
fn write_section(
    page: &'static str,
    heading: &str,
    section: impl FnOnce(&str) -> String,
) -> anyhow::Result<()> {
    let path = root().join(page);
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, replace(&old, heading, &section(&old))).context(page)?;
    summarize()
}

fn today() -> anyhow::Result<String> {
    output("date", &["-u", "+%Y-%m-%d"])
}

/// Returns the commit on which this program started.
fn noted_commit() -> anyhow::Result<&'static str> {
    let commit = COMMIT.as_ref();
    commit
        .map(String::as_str)
        .map_err(|error| anyhow!("{error}"))
}

/// Returns the commit of the clone. `-dirty` tells of changes that it lacks.
fn commit() -> anyhow::Result<String> {
    let mut commit = output("git", &["describe", "--always", "--abbrev=12"])?;
    // The pages change no program.
    let status = [
        "status",
        "--porcelain",
        "--",
        ":/",
        ":(top,exclude)docs/*.md",
    ];
    if !output("git", &status)?.is_empty() {
        commit.push_str("-dirty");
    }
    Ok(commit)
}

/// Returns an argument as a shell reads it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c);
    if argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{argument}'")
    }
}

/// Writes the table at the head of the page anew.
///
/// # Errors
///
/// If a page cannot be read or written.
pub(crate) fn summarize() -> anyhow::Result<()> {
    fs::write(root().join(PAGE), summarized()?).context(PAGE)
}

/// The page with the table of its sections and of those of the kernels.
fn summarized() -> anyhow::Result<String> {
    const KERNELS: &str = "kernels.md";
    let page = fs::read_to_string(root().join(PAGE)).context(PAGE)?;
    let kernels = fs::read_to_string(root().join("docs").join(KERNELS)).context(KERNELS)?;
    let section = summary::section(&page, &[(KERNELS, &kernels)]);
    Ok(summary::put(&page, &section))
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page with another text under a heading.
fn replace(page: &str, heading: &str, section: &str) -> String {
    let title = format!("## {heading}\n");
    let (before, after) = match page.find(&title) {
        Some(at) => {
            let rest = &page[at + title.len()..];
            let end = rest.find("\n## ").map_or(rest.len(), |at| at + 1);
            (&page[..at], &rest[end..])
        }
        None => (page, ""),
    };
    let gap = if before.is_empty() || before.ends_with("\n\n") {
        ""
    } else {
        "\n"
    };
    let tail = if after.is_empty() { "" } else { "\n" };
    format!("{before}{gap}{title}\n{section}{tail}{after}")
}

fn output(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(args)
        .output()
        .context(program.to_owned())?;
    ensure!(output.status.success(), "{program}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_on_the_page_is_that_of_its_sections() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let is_current = page == summarized().unwrap();
        assert!(is_current, "`cargo xtask summary` has not run");
    }

    #[test]
    fn a_section_replaces_its_predecessor_and_leaves_the_others() {
        let page = replace("# Proof\n", "Faults", "one\n");
        assert_eq!(page, "# Proof\n\n## Faults\n\none\n");
        let page = replace(&page, "Mutants", "two\n");
        assert_eq!(page, "# Proof\n\n## Faults\n\none\n\n## Mutants\n\ntwo\n");
        let page = replace(&page, "Faults", "three\n");
        assert_eq!(page, "# Proof\n\n## Faults\n\nthree\n\n## Mutants\n\ntwo\n");
    }
}
