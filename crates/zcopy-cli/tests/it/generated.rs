//! The manual pages and completions that `examples/generate.rs` makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::skip::skip;

const TOOLS: [(&str, &str); 5] = [
    ("zc-cat", env!("CARGO_BIN_EXE_zc-cat")),
    ("zc-dircopy", env!("CARGO_BIN_EXE_zc-dircopy")),
    ("zc-pv", env!("CARGO_BIN_EXE_zc-pv")),
    ("zc-tee", env!("CARGO_BIN_EXE_zc-tee")),
    ("zc-yes", env!("CARGO_BIN_EXE_zc-yes")),
];

/// What the example makes when it is told this. `None`, and said aloud, if it was not built: `cargo test`
/// builds it, `cargo test --test it` does not.
fn generated(what: &[&str]) -> Option<TempDir> {
    let mut example: PathBuf = std::env::current_exe().unwrap();
    example.pop();
    example.pop();
    example.extend(["examples", "generate"]);
    if !example.exists() {
        skip("example generate is not built");
        return None;
    }
    let dir = TempDir::new().unwrap();
    let output = Command::new(example).args(what).arg(dir.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let n_files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(n_files, TOOLS.len(), "one for each tool");
    Some(dir)
}

/// The long options that a tool's help names.
fn long_options(program: &str) -> Vec<String> {
    let help = Command::new(program).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.split(|c: char| c.is_whitespace() || ",=[.".contains(c));
    let options: Vec<_> = words
        .filter(|word| word.starts_with("--"))
        .map(ToOwned::to_owned)
        .collect();
    assert!(options.contains(&"--explain".to_owned()), "{help}");
    options
}

fn read(dir: &TempDir, name: impl AsRef<Path>) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap()
}

#[test]
fn a_manual_page_has_every_option_of_the_help() {
    let Some(dir) = generated(&["man"]) else {
        return;
    };
    for (name, program) in TOOLS {
        let page = read(&dir, format!("{name}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        for option in long_options(program) {
            // Hyphens that are to stay hyphens are escaped.
            let escaped = option.replace('-', "\\-");
            assert!(page.contains(&escaped), "{option} is missing:\n{page}");
        }
    }
}

#[test]
fn bash_reads_its_completions_and_completes_every_option() {
    let Some(dir) = generated(&["completions", "bash"]) else {
        return;
    };
    for (name, program) in TOOLS {
        let path = dir.path().join(format!("{name}.bash"));
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
            let is_there = completed.lines().any(|line| line == option);
            assert!(is_there, "{name}: {option} is missing:\n{completed}");
        }
    }
}

#[test]
fn other_shells_have_theirs() {
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let Some(dir) = generated(&["completions", shell]) else {
            return;
        };
        for file in fs::read_dir(dir.path()).unwrap() {
            let bytes = fs::read_to_string(file.unwrap().path()).unwrap();
            assert!(bytes.contains("explain"), "{shell}");
        }
    }
}
