//! Changes the library in small ways, one at a time, and counts the changes that no test notices.
//!
//! cargo-mutants makes the changes, the *mutants*. This chore draws a sample of them, and runs the
//! unit tests against each and, if these pass, the integration tests.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use anyhow::ensure;
use sha2::{Digest, Sha256};

use crate::proof;

mod passes;
mod tree;

use tree::Tree;

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

    /// Least seconds before the quick tests of one mutant are given up; ten times as many for the
    /// others
    #[arg(long, value_name = "SEC", default_value_t = 120)]
    timeout: u32,

    /// Write the result to docs/proof.md
    #[arg(long)]
    record: bool,
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

/// Runs the chore. An interrupted run goes on where it was, unless the library has changed. If its
/// tests have, only the mutants that survived or timed out are tested again.
///
/// # Errors
///
/// If a test fails without a mutant, fewer than 95 % of the mutants are caught, none compiles, or
/// cargo-mutants does not run.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut tree = Tree::prepare()?;
    let names = tree.list()?;
    let mut known = tree.known()?;
    let mut outcomes = BTreeMap::new();
    let mut survivors = Vec::new();
    let mut n_earlier = 0;
    let drawn = draw(&names, args.seed).into_iter();
    for (index, name) in drawn.filter(|(_, name)| name.contains(&args.only)) {
        if viable(&outcomes) == args.sample {
            break;
        }
        let outcome = match known.remove(name) {
            Some(known) => {
                n_earlier += usize::from(!known.has_same_tests);
                known.outcome
            }
            None => tree.test((index, names.len()), name, args.timeout)?,
        };
        *outcomes.entry(outcome).or_default() += 1;
        if outcome == Outcome::Survived {
            survivors.push(name);
        }
    }
    let text = summary(&outcomes, n_earlier, &survivors, args.sample);
    println!("{text}");
    if args.record {
        proof::record("Mutants of the library", &text)?;
    }
    let n_viable = viable(&outcomes);
    ensure!(n_viable > 0, "no mutant that compiles was tested");
    ensure!(
        100 * (n_viable - survivors.len()) >= LEAST * n_viable,
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

/// The result as a table and a list. `n_earlier` of the outcomes are of runs with other tests.
fn summary(
    outcomes: &BTreeMap<Outcome, usize>,
    n_earlier: usize,
    survivors: &[&str],
    sample: usize,
) -> String {
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
    let n_timed_out = outcomes.get(&Outcome::TimedOut).copied().unwrap_or(0);
    lines.push(format!(
        "\n{n_caught} of {n_viable} that compile are caught, {n_timed_out} of them by a time-out."
    ));
    if n_earlier > 0 {
        lines.push(format!(
            "{n_earlier} of these outcomes are of runs before the last tests were added."
        ));
    }
    if n_viable < sample {
        lines.push(format!(
            "No more than {n_viable} compile, and {sample} were wanted."
        ));
    }
    let survivors = survivors.iter();
    lines.extend(survivors.map(|name| format!("- survived: `{name}`")));
    lines.join("\n")
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
    fn a_summary_counts_what_compiles_and_names_the_survivors() {
        let outcomes = [
            (Outcome::Unviable, 7),
            (Outcome::CaughtByUnitTests, 3),
            (Outcome::TimedOut, 1),
            (Outcome::Survived, 1),
        ];
        let survivors = ["a.rs:1:2: replace f"];
        let text = summary(&BTreeMap::from(outcomes), 0, &survivors, 4);
        assert!(
            text.contains("| drawn | 12 |\n| does not compile | 7 |\n"),
            "{text}"
        );
        assert!(text.contains("| timed out | 1 |\n"), "{text}");
        let end = "\n4 of 5 that compile are caught, 1 of them by a time-out.\n\
                   - survived: `a.rs:1:2: replace f`";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("tests were added"), "{text}");
        let text = summary(&BTreeMap::from(outcomes), 3, &survivors, 200);
        assert!(text.contains("No more than 5 compile, and 200 were wanted.\n"));
        assert!(
            text.contains("\n3 of these outcomes are of runs before the last tests were added.")
        );
    }
}
