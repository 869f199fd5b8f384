//! Changes the library in small ways, one at a time, and counts the changes that no test notices.
//!
//! cargo-mutants makes the changes, the *mutants*. This chore draws a sample of them, and runs the
//! unit tests against each and, if these pass, the integration tests.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use crate::proof;

/// Unit tests that take more than half of the time of all, and rarely are the only ones to notice a
/// mutant.
const SLOW_UNIT_TESTS: &[&str] = &[
    "a_sink_that_fails_in_any_role",
    "a_stop_leaves_no_gap_in_any_sink",
    "drop_behind::",
    "records::count::tests",
];

/// Integration tests that take nine tenths of the time of all.
const SLOW_INTEGRATION_TESTS: &[&str] = &[
    "bad_blocks::",
    "cache::",
    "direct::odd",
    "every_pair::",
    "fan_out::everything",
    "fan_out::failing",
    "fan_out::pipes",
    "fuzz::",
    "interference::",
    "lines_keep_their_rate",
    "more_than_4_gib",
    "promises::exact_count",
    "promises::fallback",
    "promises::file_size",
    "promises::full_disk",
    "promises::no_surprise",
    "promises::steps",
    "repeat::every",
    "repeat::readers",
    "repeat::the_strategy",
    "rewrite::",
    "route_table::what_must",
    "sizes::a_step",
    "sparse::",
    "urgent_bytes",
    "whole_messages::a_message",
];

/// An integration test that a busy machine fails without any mutant.
const TIMED_TESTS: &[&str] = &["lines_keep_their_rate"];

/// The tests that run against a mutant, in this order, until one notices it.
const PASSES: [Pass; 4] = [
    Pass {
        caught: Outcome::CaughtByUnitTests,
        target: "--lib",
        cases: 16,
        patience: 1,
        skipped: SLOW_UNIT_TESTS,
    },
    Pass {
        caught: Outcome::CaughtByIntegrationTests,
        target: "--test=it",
        cases: 16,
        patience: 1,
        skipped: SLOW_INTEGRATION_TESTS,
    },
    Pass {
        caught: Outcome::CaughtByUnitTests,
        target: "--lib",
        cases: 256,
        patience: 10,
        skipped: &[],
    },
    Pass {
        caught: Outcome::CaughtByIntegrationTests,
        target: "--test=it",
        cases: 256,
        patience: 10,
        skipped: TIMED_TESTS,
    },
];

/// The least share of mutants that tests must notice, in percent.
const LEAST: usize = 95;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Stop after this many mutants that compile
    #[arg(long, value_name = "N", default_value_t = 200)]
    sample: usize,

    /// Draw another sample
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Draw only from mutants whose name contains this text, such as a file
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Give up on the quick tests of one mutant after this many seconds, and on all of them after ten times as many
    #[arg(long, value_name = "SEC", default_value_t = 120)]
    timeout: u32,

    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
}

struct Pass {
    caught: Outcome,
    target: &'static str,
    /// Cases of each property test.
    cases: u32,
    /// How many times as long as quick tests it may take.
    patience: u32,
    skipped: &'static [&'static str],
}

/// The outcome of the tests against a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Unviable,
    CaughtByUnitTests,
    CaughtByIntegrationTests,
    TimedOut,
    Survived,
}

impl Outcome {
    const ALL: [Self; 5] = [
        Self::Unviable,
        Self::CaughtByUnitTests,
        Self::CaughtByIntegrationTests,
        Self::TimedOut,
        Self::Survived,
    ];
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unviable => "does not compile",
            Self::CaughtByUnitTests => "caught by unit tests",
            Self::CaughtByIntegrationTests => "caught by integration tests",
            Self::TimedOut => "timed out",
            Self::Survived => "survived",
        })
    }
}

/// Runs the chore. An interrupted run goes on where it was, unless the library has changed.
///
/// # Errors
///
/// If fewer than 95 % of the mutants are caught, or cargo-mutants does not run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tree = Tree::prepare()?;
    let names = tree.list()?;
    let mut known = tree.known()?;
    let mut outcomes = BTreeMap::new();
    let mut survivors = Vec::new();
    let drawn = draw(&names, args.seed).into_iter();
    for (index, name) in drawn.filter(|(_, name)| name.contains(&args.only)) {
        if viable(&outcomes) == args.sample {
            break;
        }
        let outcome = match known.remove(name) {
            Some(outcome) => outcome,
            None => tree.test((index, names.len()), name, args.timeout)?,
        };
        *outcomes.entry(outcome).or_default() += 1;
        if outcome == Outcome::Survived {
            survivors.push(name);
        }
    }
    let text = summary(&outcomes, &survivors);
    println!("{text}");
    if args.record {
        proof::record("Mutants of the library", &text)?;
    }
    let n_caught = viable(&outcomes) - survivors.len();
    ensure!(
        100 * n_caught >= LEAST * viable(&outcomes),
        "fewer than {LEAST} % of the mutants are caught"
    );
    Ok(())
}

/// All mutants, with their places in the list, in an order that depends on the seed and on their
/// names alone: the line that they are on does not count, so that an edit elsewhere leaves the
/// sample as it was.
fn draw(names: &[String], seed: u64) -> Vec<(usize, &str)> {
    let mut n_seen = HashMap::new();
    let mut keyed: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let mut parts = name.splitn(4, ':');
            let (file, what) = (parts.next(), parts.nth(2));
            let name_without_line = format!("{}:{}", file.unwrap_or(""), what.unwrap_or(""));
            let nth = n_seen.entry(name_without_line.clone()).or_insert(0);
            *nth += 1;
            let key = Sha256::digest(format!("{seed} {name_without_line} #{nth}"));
            (key, index, name.as_str())
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, i, name)| (i, name)).collect()
}

fn viable(outcomes: &BTreeMap<Outcome, usize>) -> usize {
    let viable = outcomes.iter().filter(|(o, _)| **o != Outcome::Unviable);
    viable.map(|(_, n)| n).sum()
}

/// The result as a table and a list.
fn summary(outcomes: &BTreeMap<Outcome, usize>, survivors: &[&str]) -> String {
    let n_viable = viable(outcomes);
    let n_drawn: usize = outcomes.values().sum();
    let n_caught = n_viable - survivors.len();
    let mut lines = vec![
        "| mutants | number |".to_owned(),
        "|---|---:|".to_owned(),
        format!("| drawn | {n_drawn} |"),
    ];
    lines.extend(Outcome::ALL.map(|outcome| {
        let n = outcomes.get(&outcome).copied().unwrap_or(0);
        format!("| {outcome} | {n} |")
    }));
    lines.push(format!(
        "\n{n_caught} of {n_viable} that compile are caught."
    ));
    let survivors = survivors.iter();
    lines.extend(survivors.map(|name| format!("- survived: `{name}`")));
    lines.join("\n")
}

/// A copy of the workspace, in which mutants are made.
struct Tree {
    root: PathBuf,
    /// The outcomes of mutants of this very tree, one a line.
    results: PathBuf,
}

impl Tree {
    /// Brings the copy up to date. Files that have not changed are left alone, and so are not
    /// compiled again.
    fn prepare() -> anyhow::Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| workspace.join("target"), PathBuf::from);
        let target = target.join("mutants");
        let root = target.join("tree");
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(&workspace)
            .output()
            .context("git ls-files")?;
        let mut digest = Sha256::new();
        for name in String::from_utf8(listed.stdout)?.lines() {
            let Ok(text) = fs::read(workspace.join(name)) else {
                continue;
            };
            let text = match name {
                "crates/zcopy/src/lib.rs" => expanded(&String::from_utf8(text)?)?.into_bytes(),
                _ => text,
            };
            if name.starts_with("crates/zcopy/") {
                digest.update(&text);
            }
            let copy = root.join(name);
            if fs::read(&copy).ok().as_ref() != Some(&text) {
                fs::create_dir_all(copy.parent().context("a file without a directory")?)?;
                fs::write(&copy, text)?;
            }
        }
        let digest = digest.finalize();
        let results = target.join(format!(
            "{:02x}{:02x}{:02x}.tsv",
            digest[0], digest[1], digest[2]
        ));
        Ok(Self { root, results })
    }

    /// The names of all mutants, as `FILE:LINE:COLUMN: CHANGE`.
    fn list(&self) -> anyhow::Result<Vec<String>> {
        let listed = self
            .cargo_mutants()
            .arg("--list")
            .output()
            .context("cargo mutants")?;
        ensure!(
            listed.status.success(),
            "cargo mutants does not run (`cargo install cargo-mutants --locked` installs it): {}",
            String::from_utf8_lossy(&listed.stderr)
        );
        let names = String::from_utf8(listed.stdout)?;
        ensure!(!names.is_empty(), "cargo mutants finds nothing to change");
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// The outcomes that an earlier run has written down.
    fn known(&self) -> anyhow::Result<HashMap<String, Outcome>> {
        let Ok(text) = fs::read_to_string(&self.results) else {
            return Ok(HashMap::new());
        };
        let known = text.lines().map(|line| {
            let (said, name) = line.split_once('\t').context("a line without a tab")?;
            let outcome = Outcome::ALL.into_iter().find(|o| o.to_string() == said);
            Ok((name.to_owned(), outcome.context("an unknown outcome")?))
        });
        known.collect()
    }

    /// Runs the tests against one mutant, and writes the outcome down.
    fn test(&self, place: (usize, usize), name: &str, timeout: u32) -> anyhow::Result<Outcome> {
        let outcome = self.outcome(place, name, timeout)?;
        println!("{outcome:<28}{name}");
        let mut results = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.results)?;
        writeln!(results, "{outcome}\t{name}")?;
        Ok(outcome)
    }

    fn outcome(
        &self,
        (index, len): (usize, usize),
        name: &str,
        timeout: u32,
    ) -> anyhow::Result<Outcome> {
        let said = self.root.with_file_name("said");
        for pass in PASSES {
            let mut command = self.cargo_mutants();
            command
                .arg(format!("--shard={index}/{len}"))
                .args(["--sharding=slice", "--in-place", "--baseline=skip"])
                .arg(format!("--timeout={}", timeout * pass.patience))
                .arg(format!("--cargo-arg={}", pass.target))
                // libtest stops at the first failure if it may do what is not stable.
                .arg("--cargo-arg=--config=target.'cfg(all())'.runner=['env','RUSTC_BOOTSTRAP=1']")
                .arg("--output")
                .arg(&said)
                .args(["--", "--", "-Zunstable-options", "--fail-fast"])
                .args(pass.skipped.iter().flat_map(|test| ["--skip", test]))
                .env("PROPTEST_RNG_SEED", "1")
                .env("PROPTEST_CASES", pass.cases.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().context("cargo mutants")?;
            let is_in = |list: &str| {
                let list = fs::read_to_string(said.join("mutants.out").join(list));
                list.is_ok_and(|list| list.trim() == name)
            };
            if is_in("unviable.txt") {
                return Ok(Outcome::Unviable);
            } else if is_in("caught.txt") {
                return Ok(pass.caught);
            } else if is_in("timeout.txt") {
                return Ok(Outcome::TimedOut);
            } else if !is_in("missed.txt") {
                bail!("cargo mutants does not say what became of {name}");
            }
        }
        Ok(Outcome::Survived)
    }

    /// The command, for the library, without the debugging information that would have to be linked
    /// each time.
    fn cargo_mutants(&self) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(["mutants", "--package=zcopy"])
            .current_dir(&self.root)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_TEST_DEBUG", "0");
        command
    }
}

/// The library's root without the macro `cfg_if`, which hides its modules from cargo-mutants.
fn expanded(text: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once("\ncfg_if! {\n").context("no cfg_if")?;
    let (_, rest) = rest.split_once('\n').context("no condition")?;
    let (items, rest) = rest.split_once("\n    } else {\n").context("no else")?;
    let (_, after) = rest.split_once("\n}\n").context("no end of cfg_if")?;
    Ok(format!("{before}\n{items}\n{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_does_not_depend_on_line_numbers() {
        let names = |line: u32| -> Vec<String> {
            (0..50)
                .map(|nth| format!("a.rs:{}:9: replace f{} with 0", line + nth, nth / 2))
                .collect()
        };
        let (before, after) = (names(1), names(700));
        let places = |names, seed| -> Vec<usize> {
            let drawn = draw(names, seed);
            drawn.into_iter().map(|(index, _)| index).collect()
        };
        assert_eq!(places(&before, 1), places(&after, 1));
        assert_ne!(places(&before, 1), places(&after, 2));
        let mut all = places(&before, 1);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..50));
    }

    #[test]
    fn the_modules_of_the_library_are_seen_without_their_macro() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zcopy/src/lib.rs");
        let text = expanded(&fs::read_to_string(root).unwrap()).unwrap();
        assert!(!text.contains("cfg_if! {") && !text.contains("compile_error"));
        assert!(text.contains("        mod transfer;\n") && text.contains("struct Readme"));
    }

    #[test]
    fn a_summary_counts_what_compiles_and_names_the_survivors() {
        let outcomes = [
            (Outcome::Unviable, 7),
            (Outcome::CaughtByUnitTests, 3),
            (Outcome::Survived, 1),
        ];
        let text = summary(&BTreeMap::from(outcomes), &["a.rs:1:2: replace f"]);
        assert!(
            text.contains("| drawn | 11 |\n| does not compile | 7 |\n"),
            "{text}"
        );
        assert!(text.contains("| timed out | 0 |\n"), "{text}");
        let end = "\n3 of 4 that compile are caught.\n- survived: `a.rs:1:2: replace f`";
        assert!(text.ends_with(end), "{text}");
    }
}
