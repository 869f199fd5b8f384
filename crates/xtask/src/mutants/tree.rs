//! The copy of the workspace in which mutants are made, and the outcomes of those that were tested.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::Outcome;
use super::passes::{PASSES, Pass};

/// cargo-mutants changes all modules, also those of a feature.
const FEATURES: &str = "--all-features";

/// A test program may only be told to stop at the first failure if it may do what is not stable.
const RUNNER: &str = "--config=target.'cfg(all())'.runner=['env','RUSTC_BOOTSTRAP=1']";

/// The outcome of an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) outcome: Outcome,
    /// Whether the tests have not changed since.
    pub(super) has_same_tests: bool,
}

/// A copy of the workspace, in which mutants are made.
pub(super) struct Tree {
    root: PathBuf,
    /// The outcomes of mutants of this very library, one a line.
    results: PathBuf,
    /// Names the tests of this tree.
    tests_key: String,
    /// Seconds after which a pass is given up, for each of [`PASSES`], once that is known.
    timeouts: Option<[u64; PASSES.len()]>,
}

impl Tree {
    /// Brings the copy up to date. Files that have not changed are left alone, and so are not
    /// compiled again.
    pub(super) fn prepare() -> anyhow::Result<Self> {
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
        let compiler = Command::new("rustc")
            .arg("-vV")
            .current_dir(&workspace)
            .output()
            .context("rustc")?;
        let mut library = vec![
            compiler.stdout,
            format!("{PASSES:?} {FEATURES}").into_bytes(),
        ];
        let mut tests = Vec::new();
        for name in String::from_utf8(listed.stdout)?.lines() {
            let Ok(text) = fs::read(workspace.join(name)) else {
                continue;
            };
            let text = match name {
                "crates/zcopy/src/lib.rs" => expanded(&String::from_utf8(text)?)?.into_bytes(),
                _ => text,
            };
            let copy = root.join(name);
            if fs::read(&copy).ok().as_ref() != Some(&text) {
                fs::create_dir_all(copy.parent().context("a file without a directory")?)?;
                fs::write(&copy, &text)?;
            }
            if is_test(name) {
                tests.extend([name.into(), text]);
            } else if name.starts_with("crates/zcopy/") || name == "Cargo.lock" {
                library.extend([name.into(), text]);
            }
        }
        Ok(Self {
            root,
            results: target.join(format!("{}.tsv", key(&library))),
            tests_key: key(&tests),
            timeouts: None,
        })
    }

    /// The names of all mutants, as `FILE:LINE:COLUMN: CHANGE`.
    pub(super) fn list(&self) -> anyhow::Result<Vec<String>> {
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

    /// The outcomes that an earlier run has written down, as far as they still hold.
    pub(super) fn known(&self) -> anyhow::Result<HashMap<String, Known>> {
        match fs::read_to_string(&self.results) {
            Ok(text) => outcomes(&text, &self.tests_key),
            Err(_) => Ok(HashMap::new()),
        }
    }

    /// Runs the tests against one mutant, and writes the outcome down.
    ///
    /// # Errors
    ///
    /// If a test fails without a mutant, or cargo-mutants gives no outcome.
    pub(super) fn test(
        &mut self,
        place: (usize, usize),
        name: &str,
        timeout: u32,
    ) -> anyhow::Result<Outcome> {
        let timeouts = match self.timeouts {
            Some(timeouts) => timeouts,
            None => *self.timeouts.insert(self.baseline(timeout)?),
        };
        let outcome = self.outcome(place, name, timeouts)?;
        println!("{outcome:<28}{name}");
        let mut results = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.results)?;
        writeln!(results, "{outcome}\t{}\t{name}", self.tests_key)?;
        Ok(outcome)
    }

    /// Runs all passes without a mutant, and returns the time that each has with one, in seconds.
    fn baseline(&self, timeout: u32) -> anyhow::Result<[u64; PASSES.len()]> {
        let mut timeouts = [0; PASSES.len()];
        for (pass, limit) in PASSES.iter().zip(&mut timeouts) {
            // Compiles, which does not count.
            self.test_unmutated(pass, &["--no-run"])?;
            let took = self.test_unmutated(pass, &[])?;
            *limit = pass.timeout(timeout, took);
            println!(
                "{:<28}cargo test {} with {} random cases: {} s, given up after {limit} s",
                "passes without a mutant",
                pass.target,
                pass.cases,
                took.as_secs(),
            );
        }
        Ok(timeouts)
    }

    /// Runs one pass without a mutant, and returns how long it took.
    fn test_unmutated(&self, pass: &Pass, args: &[&str]) -> anyhow::Result<Duration> {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--package=zcopy", pass.target, FEATURES, RUNNER])
            .args(args)
            .arg("--")
            .args(pass.test_args());
        self.configure(&mut command, pass.cases);
        let start = Instant::now();
        let output = command.output().context("cargo test")?;
        ensure!(
            output.status.success(),
            "tests fail without a mutant, so that no mutant can be tested:\n{command:?}\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(start.elapsed())
    }

    fn outcome(
        &self,
        place: (usize, usize),
        name: &str,
        timeouts: [u64; PASSES.len()],
    ) -> anyhow::Result<Outcome> {
        for (pass, timeout) in PASSES.iter().zip(timeouts) {
            let mut outcome = self.run_pass(pass, place, name, timeout)?;
            if outcome == Outcome::TimedOut {
                // Something else may have kept the machine busy.
                outcome = self.run_pass(pass, place, name, timeout)?;
            }
            if outcome != Outcome::Survived {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survived)
    }

    /// Runs one pass against one mutant, by its index and the number of all.
    fn run_pass(
        &self,
        pass: &Pass,
        (index, len): (usize, usize),
        name: &str,
        timeout: u64,
    ) -> anyhow::Result<Outcome> {
        let output_dir = self.root.with_file_name("output");
        let mut command = self.cargo_mutants();
        command
            .arg(format!("--shard={index}/{len}"))
            .args(["--sharding=slice", "--in-place", "--baseline=skip"])
            .arg(format!("--timeout={timeout}"))
            .arg(format!("--cargo-arg={}", pass.target))
            .arg(format!("--cargo-arg={FEATURES}"))
            .arg(format!("--cargo-arg={RUNNER}"))
            .arg("--output")
            .arg(&output_dir)
            .args(["--", "--"])
            .args(pass.test_args())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.configure(&mut command, pass.cases);
        command.status().context("cargo mutants")?;
        let lists = [
            ("unviable.txt", Outcome::Unviable),
            ("caught.txt", pass.caught),
            ("timeout.txt", Outcome::TimedOut),
            ("missed.txt", Outcome::Survived),
        ];
        for (list, outcome) in lists {
            let list = fs::read_to_string(output_dir.join("mutants.out").join(list));
            if list.is_ok_and(|list| list.trim() == name) {
                return Ok(outcome);
            }
        }
        bail!("cargo mutants gives no outcome for {name}");
    }

    /// The command, for the library.
    fn cargo_mutants(&self) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(["mutants", "--package=zcopy"])
            .current_dir(&self.root);
        command
    }

    /// Has a command run in the copy, with this number of random cases, and without the debugging
    /// information that would have to be linked each time. It compiles incrementally, since a mutant
    /// changes one function, and does not optimise across codegen units, since it would then compile
    /// most of the library again. Tests may be skipped, whatever `ZCOPY_REQUIRE` says: those of the
    /// examples are, which nothing builds here.
    fn configure(&self, command: &mut Command, cases: u32) {
        command
            .current_dir(&self.root)
            .env_remove("ZCOPY_REQUIRE")
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_LTO", "off")
            .env("CARGO_PROFILE_TEST_DEBUG", "0")
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_CASES", cases.to_string());
    }
}

/// Names everything that outcomes depend on.
fn key(texts: &[Vec<u8>]) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    let digest = digest.finalize();
    format!("{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2])
}

/// Whether a file of the library contains nothing but tests.
fn is_test(name: &str) -> bool {
    let in_library = name.strip_prefix("crates/zcopy/");
    in_library.is_some_and(|path| {
        path.split('/')
            .any(|part| part.trim_end_matches(".rs") == "tests")
    })
}

/// The outcomes in a file of results that hold for the tests with this key. A mutant that timed out
/// is tested again, and one that survived other tests is too. One that other tests have caught is
/// not, because tests are added, and neither weakened nor taken away.
fn outcomes(text: &str, tests_key: &str) -> anyhow::Result<HashMap<String, Known>> {
    let mut outcomes = HashMap::new();
    for line in text.lines() {
        let (outcome, rest) = line.split_once('\t').context("a line without a tab")?;
        let (key, name) = rest.split_once('\t').context("a line with one tab")?;
        let outcome = Outcome::ALL
            .into_iter()
            .find(|known| known.to_string() == outcome);
        let outcome = outcome.context("an unknown outcome")?;
        let has_same_tests = key == tests_key;
        if outcome == Outcome::TimedOut || outcome == Outcome::Survived && !has_same_tests {
            continue;
        }
        outcomes.insert(
            name.to_owned(),
            Known {
                outcome,
                has_same_tests,
            },
        );
    }
    Ok(outcomes)
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
    fn the_modules_of_the_library_are_seen_without_their_macro() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zcopy/src/lib.rs");
        let text = expanded(&fs::read_to_string(root).unwrap()).unwrap();
        assert!(!text.contains("cfg_if! {") && !text.contains("compile_error"));
        assert!(text.contains("        mod transfer;\n") && text.contains("struct Readme"));
    }

    #[test]
    fn time_outs_and_survivors_of_other_tests_are_tested_again() {
        let text = "survived\tsame\ta.rs:1:2: f\nsurvived\tother\ta.rs:2:2: f\n\
                    timed out\tsame\ta.rs:3:4: g\ncaught by unit tests\tother\ta.rs:5:6: h\n";
        let known = |outcome, has_same_tests| Known {
            outcome,
            has_same_tests,
        };
        let expected = [
            ("a.rs:1:2: f".to_owned(), known(Outcome::Survived, true)),
            (
                "a.rs:5:6: h".to_owned(),
                known(Outcome::CaughtByUnitTests, false),
            ),
        ];
        assert_eq!(outcomes(text, "same").unwrap(), HashMap::from(expected));
        let text = format!("{text}caught by unit tests\tsame\ta.rs:3:4: g\n");
        assert_eq!(outcomes(&text, "same").unwrap().len(), 3);
        assert!(outcomes("nonsense\tsame\ta.rs:1:2: f\n", "same").is_err());
        assert!(outcomes("survived\tsame", "same").is_err());
    }

    #[test]
    fn files_of_tests_are_told_from_those_of_the_library() {
        for name in [
            "crates/zcopy/tests/it/main.rs",
            "crates/zcopy/src/engine/pair/tests/direct.rs",
            "crates/zcopy/src/plan/tests.rs",
        ] {
            assert!(is_test(name), "{name}");
        }
        for name in [
            "crates/zcopy/src/plan.rs",
            "crates/zcopy/src/sim/kernel.rs",
            "crates/zcopy-cli/tests/it/main.rs",
            "Cargo.lock",
        ] {
            assert!(!is_test(name), "{name}");
        }
    }

    #[test]
    fn the_name_of_the_results_depends_on_each_text_and_where_it_ends() {
        let key_of = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            key(&texts)
        };
        let keys = [["ab", "c"], ["a", "bc"], ["ab", "d"], ["c", "ab"]].map(|texts| key_of(&texts));
        for (index, one) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(one));
        }
    }
}
