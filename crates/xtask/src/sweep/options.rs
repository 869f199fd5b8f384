//! The options that all sweeps share.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use sha2::{Digest, Sha256};

use crate::image::FileSystem;
use crate::programs::Build;
use crate::scenario::{Scenario, TimeLimits};
use crate::scenarios;

/// The options that all sweeps share.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) build: Build,
    /// Make only N runs, drawn at random: first one of each call and error, then any
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Draw N scenarios first, and run no others: a run without faults in each comes before the
    /// sample
    #[arg(long, value_name = "N")]
    sample_scenarios: Option<usize>,
    /// Make only the runs of part I of N, such as 1/3: the N parts together are the whole sweep
    #[arg(long, value_name = "I/N", conflicts_with = "sample")]
    part: Option<Part>,
    /// Draw the sample from this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only scenarios whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Make the scratch directories here
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Make the scratch directories on a new file system, which only the sweep sees (as root)
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    pub(super) fs: Option<FileSystem>,
    /// List the scenarios, and run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Give programs N times as long before they count as hanging, as on an emulated machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    timeout_multiplier: Option<u32>,
    /// Write the totals to docs/proof.md though only a part was run
    #[arg(long, conflicts_with = "programs")]
    record: bool,
}

/// One part of a sweep that is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    /// Counted from 1.
    nth: u64,
    of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(nth, of)| {
            let (nth, of) = (nth.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&nth).then_some(Self { nth, of })
        });
        parsed.ok_or_else(|| "not a part such as 1/3".to_owned())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "part {} of {}", self.nth, self.of)
    }
}

impl Options {
    /// Whether the sweep writes the totals to `docs/proof.md`: a whole sweep and each part of one
    /// do so, and other selections on request. A sweep of programs that were built before does not:
    /// they may be those of another commit. `restriction` has the other options that leave out
    /// runs.
    pub(super) fn are_recorded(&self, restriction: Option<&str>) -> bool {
        let is_sampled = self.sample.is_some() || self.sample_scenarios.is_some();
        let is_whole = !is_sampled && self.scenario.is_none() && restriction.is_none();
        self.record || is_whole && self.build.programs.is_none()
    }

    /// Whether a sample was asked for.
    pub(crate) fn is_sample(&self) -> bool {
        self.sample.is_some()
    }

    /// The heading of the section in `docs/proof.md`. Each selection of runs, each target, and each
    /// file system or directory has a section of its own.
    pub(super) fn heading(&self, title: &str, restriction: Option<&str>) -> String {
        let words = [
            Some(title.to_owned()),
            restriction.map(|options| format!("with `{options}`")),
            self.scenario
                .as_ref()
                .map(|text| format!("in scenarios with '{text}'")),
            self.build
                .target
                .as_ref()
                .map(|target| format!("of programs for {target}")),
            self.fs.map(|fs| format!("on {fs}")),
            self.dir.as_ref().map(|dir| format!("in {}", dir.display())),
            self.part.map(|part| part.to_string()),
            self.sample
                .or(self.sample_scenarios)
                .map(|_| "sampled".to_owned()),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        words.join(" ")
    }

    /// The options that repeat a run of this scenario in the same surroundings.
    pub(super) fn repeating(&self, scenario: &Scenario) -> String {
        let Self {
            build,
            fs,
            dir,
            timeout_multiplier,
            ..
        } = self;
        let fs = fs.and_then(|fs| fs.to_possible_value());
        let options = [
            build.release.then(|| "--release".to_owned()),
            build
                .target
                .as_ref()
                .map(|target| format!("--target {target}")),
            build
                .programs
                .as_ref()
                .map(|dir| format!("--programs '{}'", dir.display())),
            timeout_multiplier.map(|n| format!("--timeout-multiplier {n}")),
            fs.map(|fs| format!("--fs {}", fs.get_name())),
            dir.as_ref().map(|dir| format!("--dir '{}'", dir.display())),
            Some(format!("--scenario '{}'", scenario.name())),
        ];
        let options: Vec<_> = options.into_iter().flatten().collect();
        options.join(" ")
    }

    /// The time limits of programs.
    pub(super) fn time_limits(&self) -> TimeLimits {
        TimeLimits::multiplied(self.timeout_multiplier.unwrap_or(1))
    }

    /// The scenarios that are asked for and that suit the sweep.
    pub(crate) fn scenarios(&self, is_suitable: impl Fn(&Scenario) -> bool) -> Vec<Scenario> {
        let text = self.scenario.as_deref().unwrap_or("");
        let mut scenarios = scenarios::all();
        scenarios.retain(|scenario| scenario.name().contains(text) && is_suitable(scenario));
        if scenarios.is_empty() {
            println!("no scenario of this sweep has a name with '{text}': --list lists them");
        }
        if let Some(n) = self.sample_scenarios {
            fastrand::Rng::with_seed(self.seed).shuffle(&mut scenarios);
            scenarios.truncate(n);
        }
        scenarios
    }

    /// Draws the sample that is asked for, or puts all runs in random order. One run of each group
    /// comes before all others, so that a sample larger than the number of groups has one of each.
    pub(crate) fn draw<T, K: Hash + Eq>(
        &self,
        mut runs: Vec<T>,
        group: impl Fn(&T) -> K,
    ) -> Vec<T> {
        fastrand::Rng::with_seed(self.seed).shuffle(&mut runs);
        let mut seen = HashSet::new();
        let (mut drawn, rest): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|run| seen.insert(group(run)));
        drawn.extend(rest);
        drawn.truncate(self.sample.unwrap_or(drawn.len()));
        drawn
    }

    /// Whether a run with this name belongs to the part that is asked for. This depends on no other
    /// run: the next sweep may find other runs.
    pub(super) fn is_in_part(&self, name: &str) -> bool {
        let Some(Part { nth, of }) = self.part else {
            return true;
        };
        let mut first = [0; 8];
        first.copy_from_slice(&Sha256::digest(name)[..8]);
        u64::from_le_bytes(first) % of == nth - 1
    }
}

/// Prints the names of scenarios.
pub(crate) fn print_names(scenarios: &[Scenario]) {
    for scenario in scenarios {
        println!("{}", scenario.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_one_of_each_group() {
        let options = Options {
            sample: Some(12),
            ..Options::default()
        };
        // A thousand even numbers, and ten odd ones in groups of their own.
        let work = (0..2_000).step_by(2).chain((1..20).step_by(2)).collect();
        let group = |n: &u32| if n.is_multiple_of(2) { 0 } else { *n };
        let drawn = options.draw(work, group);
        assert_eq!(drawn.len(), 12);
        assert_eq!(drawn.iter().filter(|n| !n.is_multiple_of(2)).count(), 10);
    }

    #[test]
    fn a_section_tells_which_runs_were_selected() {
        let whole = Options::default();
        assert_eq!(whole.heading("Kills", None), "Kills");
        assert!(whole.are_recorded(None) && !whole.are_recorded(Some("--when 3")));
        let selected = Options {
            sample: Some(12),
            scenario: Some("archive".to_owned()),
            part: Some("1/3".parse().unwrap()),
            ..Options::default()
        };
        assert_eq!(
            selected.heading("Kills", Some("--when 3")),
            "Kills with `--when 3` in scenarios with 'archive' part 1 of 3 sampled"
        );
        assert!(!selected.are_recorded(None));
        let mut built_before = Options::default();
        built_before.build.programs = Some("/programs".into());
        assert!(!built_before.are_recorded(None));
    }

    #[test]
    fn the_parts_are_the_whole() {
        let mut n_parts = [0; 100];
        for part in ["1/3", "2/3", "3/3"] {
            let options = Options {
                part: Some(part.parse().unwrap()),
                ..Options::default()
            };
            for (name, n) in (0..).zip(&mut n_parts) {
                *n += usize::from(options.is_in_part(&format!("{name}")));
            }
        }
        assert_eq!(n_parts, [1; 100]);
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }
}
