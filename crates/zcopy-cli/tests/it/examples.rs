//! The examples of the manual pages, run as they stand there.
//!
//! `examples/` has a script for each tool: what the examples need, then each example behind `$ `,
//! and under it the commands that fail if the example did not do what the page says. `$out` and
//! `$err` are files with what it printed, and `$status` is its exit status.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::generated::{generated, plain, section};
use crate::tools::TOOLS;

const SCRIPTS: [(&str, &str); 5] = [
    ("zc-cat", include_str!("examples/zc-cat.sh")),
    ("zc-dircopy", include_str!("examples/zc-dircopy.sh")),
    ("zc-pv", include_str!("examples/zc-pv.sh")),
    ("zc-tee", include_str!("examples/zc-tee.sh")),
    ("zc-yes", include_str!("examples/zc-yes.sh")),
];

/// The commands under EXAMPLES, as a reader sees them.
fn examples_of_page(program: &str) -> Vec<String> {
    let page = generated(program, "man");
    let examples = section(&page, "EXAMPLES");
    let blocks = examples.split(".EX\n").skip(1);
    blocks
        .map(|block| {
            let (command, _) = block.split_once("\n.EE").expect("the block ends");
            plain(command)
        })
        .collect()
}

/// The examples that a script runs.
fn examples_of_script(script: &str) -> Vec<&str> {
    let lines = script.lines();
    lines.filter_map(|line| line.strip_prefix("$ ")).collect()
}

/// The script for bash: each example runs in a shell of its own, and a check that fails ends it.
fn for_bash(script: &str) -> String {
    let mut lines = vec!["set -eu".to_owned()];
    for line in script.lines() {
        let Some(example) = line.strip_prefix("$ ") else {
            lines.push(line.to_owned());
            continue;
        };
        let quoted = example.replace('\'', r"'\''");
        lines.push(format!("echo '$ {quoted}' >> \"$log\"; status=0"));
        lines.push(format!(
            "bash -c '{quoted}' > \"$out\" 2> \"$err\" || status=$?"
        ));
    }
    lines.join("\n")
}

fn run(name: &str, script: &str, programs: &Path) {
    let directory = TempDir::new().unwrap();
    let (work, record) = (
        directory.path().join("work"),
        directory.path().join("record"),
    );
    fs::create_dir(&work).unwrap();
    fs::create_dir(&record).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let (out, err, log) = (record.join("out"), record.join("err"), record.join("log"));
    let output = Command::new("bash")
        .args(["-c", &for_bash(script)])
        .current_dir(&work)
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("HOME", &record)
        .env("LC_ALL", "C.UTF-8")
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .env_remove("POSIXLY_CORRECT")
        .envs([("out", &out), ("err", &err), ("log", &log)])
        .output()
        .unwrap();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    assert!(
        output.status.success(),
        "{name}: after {}{}--- it printed\n{}{}",
        read(&log).lines().last().unwrap_or_default(),
        String::from_utf8_lossy(&output.stderr),
        read(&out),
        read(&err),
    );
}

#[test]
fn a_manual_page_has_ten_examples_and_each_is_tested() {
    for ((name, program), (of, script)) in TOOLS.iter().zip(SCRIPTS) {
        assert_eq!(*name, of);
        let examples = examples_of_page(program);
        assert!(examples.len() >= 10, "{name}: {examples:#?}");
        let tested = examples_of_script(script);
        assert_eq!(examples, tested);
        for example in tested {
            // Behind an indentation of 11, in a terminal of 80 columns.
            assert!(example.len() <= 69, "{name}: {example}");
        }
    }
}

#[test]
fn examples_of_the_manual_pages_do_what_the_pages_say() {
    let programs = Path::new(TOOLS[0].1)
        .parent()
        .expect("they stand in a directory");
    for (name, script) in SCRIPTS {
        run(name, script, programs);
    }
}
