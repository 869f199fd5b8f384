//! The manual pages and completions that the programs make of themselves.

use std::collections::BTreeSet;
use std::process::Command;

use tempfile::TempDir;

use crate::interactive::{Session, Shell};
use crate::skip::has_program;
use crate::tools::TOOLS;

/// What the program prints when it is told `--generate FORMAT`.
pub(crate) fn generated(program: &str, format: &str) -> String {
    let output = Command::new(program)
        .args(["--generate", format])
        .output()
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What the program prints when it is told `--help`.
pub(crate) fn help(program: &str) -> String {
    let help = Command::new(program)
        .arg("--help")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    String::from_utf8(help.stdout).unwrap()
}

/// The long options that a tool's help names.
fn long_options(program: &str) -> Vec<String> {
    let help = help(program);
    let words = help.split(|c: char| c.is_whitespace() || ",=[.".contains(c));
    let options: Vec<_> = words
        // The word `--` is no option.
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(ToOwned::to_owned)
        .collect();
    assert!(options.contains(&"--explain".to_owned()), "{help}");
    options
}

/// The options at the beginning of such a line: `-c, --cache[=<WHAT>]`.
fn spellings(line: &str) -> impl Iterator<Item = String> {
    line.split(", ")
        .map(|option| {
            option
                .split(['=', '[', ' ', '.'])
                .next()
                .unwrap_or_default()
        })
        .filter(|option| option.starts_with('-'))
        .map(ToOwned::to_owned)
}

/// The options that `--help` describes.
fn options_of_help(program: &str) -> BTreeSet<String> {
    let help = help(program);
    help.lines()
        // Where a description is wrapped, it is indented further.
        .filter(|line| line.starts_with("  -") || line.starts_with("      -"))
        .filter_map(|line| line.trim_start().split("  ").next())
        .flat_map(spellings)
        .collect()
}

/// The text that a page shows for its source.
pub(crate) fn plain(source: &str) -> String {
    [
        (r"\fB", ""),
        (r"\fI", ""),
        (r"\fR", ""),
        (r"\-", "-"),
        (r"\(aq", "'"),
        (r"\(ti", "~"),
        (r"\(ha", "^"),
        (r"\(ga", "`"),
        (r"\e", r"\"),
    ]
    .iter()
    .fold(source.to_owned(), |text, (escape, character)| {
        text.replace(escape, character)
    })
}

/// The section of a page with this heading.
pub(crate) fn section<'page>(page: &'page str, heading: &str) -> &'page str {
    let heading = format!(".SH {heading}\n");
    let (_, section) = page
        .split_once(&heading)
        .unwrap_or_else(|| panic!("{heading} is missing:\n{page}"));
    section.split("\n.SH ").next().unwrap_or_default()
}

/// The tags of the paragraphs of a section, as a reader sees them.
pub(crate) fn tags(section: &str) -> Vec<String> {
    let plain = plain(section);
    let mut lines = plain.lines();
    let mut tags = Vec::new();
    // The line behind a request for a tagged paragraph is its tag.
    while lines.by_ref().any(|line| line == ".TP") {
        let tag = lines.next().unwrap_or_default();
        let tag = tag.trim_start_matches(".BR ").trim_start_matches(".B ");
        tags.push(tag.replace(r#" ", " "#, ", ").replace('"', ""));
    }
    tags
}

/// The options that the manual page describes.
fn options_of_page(program: &str) -> BTreeSet<String> {
    let page = generated(program, "man");
    let tags = tags(section(&page, "OPTIONS"));
    tags.iter().flat_map(|tag| spellings(tag)).collect()
}

#[test]
fn help_manual_page_and_completions_have_the_same_options() {
    for (name, program) in TOOLS {
        let help = options_of_help(program);
        assert!(help.contains("--explain"), "{name}: {help:?}");
        assert_eq!(options_of_page(program), help, "{name}: manual page");
    }
    let directory = TempDir::new().unwrap();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let Some(mut session) = Session::start(shell, directory.path()) else {
            continue;
        };
        for (name, program) in TOOLS {
            let offered: BTreeSet<_> = session
                .candidates(&format!("{name} -"))
                .iter()
                .map(|option| option.trim_end_matches('=').to_owned())
                .collect();
            assert_eq!(offered, options_of_help(program), "{name} in {shell:?}");
        }
    }
}

#[test]
fn a_manual_page_has_every_option_of_the_help() {
    for (_, program) in TOOLS {
        let page = generated(program, "man");
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        for option in long_options(program) {
            // Hyphens that are to stay hyphens are escaped.
            let escaped = option.replace('-', "\\-");
            assert!(page.contains(&escaped), "{option} is missing:\n{page}");
        }
    }
}

#[test]
fn mandoc_has_nothing_to_say_of_a_manual_page() {
    if !has_program("mandoc") {
        return;
    }
    let directory = TempDir::new().unwrap();
    for (name, program) in TOOLS {
        let page = directory.path().join(name);
        std::fs::write(&page, generated(program, "man")).unwrap();
        let lint = Command::new("mandoc")
            .args(["-T", "lint"])
            .arg(page)
            .output()
            .unwrap();
        let said = String::from_utf8(lint.stdout).unwrap();
        assert!(lint.status.success() && said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn groff_has_nothing_to_say_of_a_manual_page() {
    if !has_program("groff") {
        return;
    }
    let directory = TempDir::new().unwrap();
    for (name, program) in TOOLS {
        let page = directory.path().join(name);
        std::fs::write(&page, generated(program, "man")).unwrap();
        let shown = Command::new("groff")
            .args(["-ww", "-man", "-T", "utf8"])
            .arg(page)
            .output()
            .unwrap();
        let said = String::from_utf8(shown.stderr).unwrap();
        assert!(shown.status.success() && said.is_empty(), "{name}: {said}");
        assert!(!shown.stdout.is_empty());
    }
}

#[test]
fn a_manual_page_has_the_sections_that_readers_look_for() {
    for (name, program) in TOOLS {
        let page = generated(program, "man");
        let headings: Vec<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix(".SH "))
            .collect();
        let (first, rest) = headings.split_at(4);
        assert_eq!(
            first,
            ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"],
            "{name}"
        );
        let (_, last) = rest.split_at(rest.len() - 4);
        let expected = ["EXIT STATUS", "ENVIRONMENT", "EXAMPLES", "SEE ALSO"];
        assert_eq!(last, expected, "{name}");
        let synopsis = plain(section(&page, "SYNOPSIS"));
        let operands = if name == "zc-yes" {
            "[STRING]..."
        } else {
            "..."
        };
        let first = format!("{name} [OPTION]... ");
        assert!(
            synopsis.starts_with(&first) && synopsis.contains(operands),
            "{synopsis}"
        );
        let title = plain(page.lines().next().unwrap_or_default());
        assert!(
            title.starts_with(&format!(".TH {} 1 20", name.to_uppercase())),
            "{title}"
        );
    }
}

#[test]
fn bash_reads_its_completions_and_completes_every_option() {
    let dir = TempDir::new().unwrap();
    for (name, program) in TOOLS {
        let path = dir.path().join(name);
        std::fs::write(&path, generated(program, "bash")).unwrap();
        let script = "set -u; source \"$1\"; COMP_WORDS=(\"$2\" --) COMP_CWORD=1 COMPREPLY=(); \
                      f=$(complete -p \"$2\" | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
                      $f \"$2\" -- \"$2\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let output = Command::new("bash")
            .args(["-c", script, "bash"])
            .arg(path)
            .arg(name)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let completed = String::from_utf8(output.stdout).unwrap();
        for option in long_options(program) {
            // One whose value has to be attached ends in "=".
            let is_there = completed
                .lines()
                .any(|line| line.strip_suffix('=').unwrap_or(line) == option);
            assert!(is_there, "{name}: {option} is missing:\n{completed}");
        }
    }
}

#[test]
fn other_shells_have_theirs() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        for (_, program) in TOOLS {
            let script = generated(program, shell);
            assert!(script.contains("explain"), "{shell}");
        }
    }
}

#[test]
fn a_wrong_format_is_a_usage_error() {
    for (name, program) in TOOLS {
        for arguments in [&["--generate"][..], &["--generate", "tcsh"]] {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(!output.status.success() && output.stdout.is_empty());
            let message = String::from_utf8(output.stderr).unwrap();
            let last = format!("Try '{name} --help' for more information.\n");
            assert!(
                message.starts_with(name) && message.ends_with(&last),
                "{message}"
            );
        }
    }
}

#[test]
fn a_page_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let output = Command::new(TOOLS[0].1)
        .args(["--generate", "man"])
        .stdout(full.unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "zc-cat: write error: No space left on device\n");
}
