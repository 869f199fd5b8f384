//! The integration tests of the library and of the tools, to be run in other surroundings.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::programs::built_by;
pub(crate) use outcome::Outcome;

mod outcome;

/// The chosen values, or all if none is chosen.
pub(crate) fn all_or<T: clap::ValueEnum>(chosen: &[T]) -> &[T] {
    if chosen.is_empty() {
        T::value_variants()
    } else {
        chosen
    }
}

/// Which tests are run.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Run the tests of these packages [default: both]
    #[arg(long = "package", value_name = "NAME", value_parser = PACKAGES)]
    packages: Vec<String>,
    /// Arguments for the test programs, such as names of tests [default: all tests]
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<String>,
}

const PACKAGES: [&str; 2] = ["zcopy", "zcopy-cli"];

/// The integration tests of a package.
#[derive(Debug)]
pub(crate) struct Tests {
    pub(crate) package: String,
    pub(crate) program: PathBuf,
    /// The directory of the package, where cargo runs its tests.
    pub(crate) dir: PathBuf,
    names: Vec<String>,
}

impl Selection {
    /// Returns the heading of a record of these tests, which tells if they are not all.
    pub(crate) fn heading(&self, all: &str) -> String {
        let mut heading = all.to_owned();
        if !self.packages.is_empty() {
            heading = format!("{heading}, {}", self.packages.join(" and "));
        }
        if !self.arguments.is_empty() {
            heading = format!("{heading}, tests `{}`", self.arguments.join(" "));
        }
        heading
    }

    /// Builds the tests.
    ///
    /// # Errors
    ///
    /// They do not build, or none is selected.
    pub(crate) fn build(&self) -> anyhow::Result<Vec<Tests>> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--no-run", "--locked", "--test", "it"]);
        let both = PACKAGES.map(str::to_owned);
        let packages = if self.packages.is_empty() {
            &both[..]
        } else {
            &self.packages
        };
        for package in packages {
            cargo.args(["--package", package]);
        }
        // Tests of the library run the examples.
        let mut examples = Command::new("cargo");
        examples.args(["build", "--locked", "--examples", "--package", "zcopy"]);
        built_by(&mut examples)?;
        let mut tests = Vec::new();
        for message in built_by(&mut cargo)? {
            let manifest = message["manifest_path"].as_str().map(PathBuf::from);
            if message["target"]["name"] == "it"
                && let Some(program) = message["executable"].as_str()
                && let Some(dir) = manifest.as_deref().and_then(std::path::Path::parent)
                && let Some(package) = dir.file_name()
            {
                tests.push(Tests {
                    package: package.to_string_lossy().into_owned(),
                    program: program.into(),
                    dir: dir.to_owned(),
                    names: self.names(program)?,
                });
            }
        }
        ensure!(
            tests.len() == packages.len(),
            "cargo has not built all tests"
        );
        tests.retain(|tests| !tests.names.is_empty());
        ensure!(!tests.is_empty(), "no test is selected");
        Ok(tests)
    }

    /// The names of the selected tests of a program.
    fn names(&self, program: &str) -> anyhow::Result<Vec<String>> {
        let listed = Command::new(program)
            .args(&self.arguments)
            .arg("--list")
            .output()
            .context("the list of the tests")?;
        ensure!(listed.status.success(), "--list: {}", listed.status);
        let lines = String::from_utf8(listed.stdout)?;
        let names = lines.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }
}

/// The outcomes of the tests on several kernels or file systems.
#[derive(Debug)]
pub(crate) struct Results {
    table: String,
    details: String,
    all_right: bool,
}

impl Results {
    /// No results yet. `surroundings` is the heading of the first column.
    pub(crate) fn new(surroundings: &str) -> Self {
        let table = format!(
            "| {surroundings} | tests of | passed | with skips | failed | not ended | ignored | seconds |\n\
             |---|---|---:|---:|---:|---:|---:|---:|\n"
        );
        Self {
            table,
            details: String::new(),
            all_right: true,
        }
    }

    /// Adds a row, and prints it.
    pub(crate) fn add(&mut self, surroundings: &str, tests: &Tests, outcome: &Outcome) {
        let row = format!(
            "| {surroundings} | `{}` | {}",
            tests.package,
            outcome.cells()
        );
        println!("{row}");
        self.table = format!("{}{row}\n", self.table);
        self.details += &outcome.details(surroundings);
        self.all_right &= outcome.is_right();
    }

    /// Prints the names of tests that failed and the reasons of skips. Returns all that is known,
    /// for people, and whether all tests passed.
    pub(crate) fn finish(self) -> (String, bool) {
        print!("{}", self.details);
        (format!("{}\n{}", self.table, self.details), self.all_right)
    }
}
