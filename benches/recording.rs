//! Writes what a benchmark has measured into a record: `raw.json` and `machine.json` in a directory.
//!
//! `ratios`, `scale` and `tools` write into the same record, one after the other: each replaces its
//! own figures. A run that measures a part of them replaces that part. A record is of one machine.

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use format::{Machine, Raw};
use machine::Account;
pub(crate) use machine::output;

#[allow(
    dead_code,
    clippy::cast_precision_loss,
    reason = "one benchmark alone compares pairs, and figures are shown with three digits"
)]
pub(crate) mod format;
mod machine;
pub(crate) mod statistics;

/// A record that a benchmark writes when it has ended.
pub(crate) struct Recording {
    benchmark: &'static str,
    /// `None`: nothing is kept.
    dir: Option<PathBuf>,
    note: Option<String>,
    account: Account,
    patience: Duration,
    started: String,
    pub(crate) programs: BTreeMap<String, String>,
    pub(crate) missing: Vec<String>,
    pub(crate) file_systems: BTreeMap<String, String>,
}

impl Recording {
    /// Begins with the run. Takes its options out of the arguments: `--record DIR`, relative to the
    /// root of the workspace, `--note TEXT` and `--wait SECONDS`.
    ///
    /// # Panics
    ///
    /// If the record is of another machine.
    pub(crate) fn begin(benchmark: &'static str, arguments: &mut Vec<String>) -> Self {
        let dir = take_option(arguments, "--record");
        let seconds = take_option(arguments, "--wait").map(|seconds| seconds.parse());
        let seconds = seconds.unwrap_or(Ok(0)).expect("--wait has seconds");
        let dir = dir.as_deref().map(from_root);
        if let Some(dir) = &dir {
            let recorded: Machine = read(&dir.join("machine.json"));
            let mut this = Machine::default();
            machine::describe(&mut this);
            let named = |it: &Machine| (it.kernel.clone(), it.processor.clone(), it.n_processors);
            let is_this = named(&recorded) == named(&this);
            assert!(
                recorded.kernel.is_empty() || is_this,
                "{} is a record of {}, {}: name another directory",
                dir.display(),
                recorded.kernel,
                recorded.processor
            );
        }
        Self {
            benchmark,
            dir,
            note: take_option(arguments, "--note"),
            account: Account::new(),
            patience: Duration::from_secs(seconds),
            started: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            programs: BTreeMap::new(),
            missing: Vec::new(),
            file_systems: BTreeMap::new(),
        }
    }

    /// Waits until other work has ended, as far as `--wait` permits.
    pub(crate) fn wait(&mut self) {
        self.account.wait(&mut self.patience);
    }

    /// Writes the figures into their list in the record, and what the machine is. The figures of a
    /// run of everything (`is_all`) replace the list. Those of a part replace the same ones, and a
    /// note says so at the run that has measured the rest.
    pub(crate) fn end<T>(
        self,
        is_all: bool,
        measured: Vec<T>,
        list: impl FnOnce(&mut Raw) -> &mut Vec<T>,
        is_same: impl Fn(&T, &T) -> bool,
    ) {
        let Some(dir) = self.dir else {
            return;
        };
        fs::create_dir_all(&dir).expect("the directory of the record can be made");
        let raw_path = dir.join("raw.json");
        let mut raw: Raw = read(&raw_path);
        let recorded = list(&mut raw);
        recorded.retain(|old| !is_all && !measured.iter().any(|new| is_same(old, new)));
        recorded.extend(measured);
        fs::write(&raw_path, lines(&raw)).expect("the figures can be written");

        let machine_path = dir.join("machine.json");
        let mut machine: Machine = read(&machine_path);
        let mut run = self.account.run();
        run.started = self.started;
        run.note = self.note;
        run.programs = self.programs;
        run.missing = self.missing;
        machine::describe(&mut machine);
        machine.file_systems.extend(self.file_systems);
        match machine.runs.get_mut(self.benchmark) {
            Some(rest) if !is_all => {
                let again = format!("a part again: {}, commit {}", run.started, run.commit);
                let notes = rest.note.take().into_iter().chain([again]).chain(run.note);
                rest.note = Some(notes.collect::<Vec<_>>().join("; "));
                rest.programs.extend(run.programs);
            }
            _ => {
                machine.runs.insert(self.benchmark.to_owned(), run);
            }
        }
        let text = serde_json::to_string_pretty(&machine).expect("the machine has a JSON form");
        fs::write(&machine_path, text + "\n").expect("the machine can be written");
    }
}

/// Cargo runs a benchmark in the directory of its package, wherever the user is.
pub(crate) fn from_root(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the workspace is there");
    root.join(path)
}

/// The value of an option in these arguments: `--name VALUE` or `--name=VALUE`, which are removed.
pub(crate) fn take_option(arguments: &mut Vec<String>, name: &str) -> Option<String> {
    let at = arguments.iter().position(|argument| {
        argument
            .strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    })?;
    let argument = arguments.remove(at);
    if let Some((_, value)) = argument.split_once('=') {
        return Some(value.to_owned());
    }
    assert!(at < arguments.len(), "{name} needs a value");
    Some(arguments.remove(at))
}

/// Reads the value in a JSON file. Returns an empty value if the file does not exist.
fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let Ok(text) = fs::read_to_string(path) else {
        return T::default();
    };
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// JSON with a line for each pair, job and curve.
fn lines(raw: &Raw) -> String {
    fn list<T: Serialize>(items: &[T]) -> String {
        let items = items.iter().map(serde_json::to_string);
        let items: Result<Vec<_>, _> = items.collect();
        items.expect("figures have a JSON form").join(",\n")
    }
    let Raw {
        pairs,
        pairs_apart,
        jobs,
        curves,
    } = raw;
    format!(
        "{{\"pairs\":[\n{}\n],\"pairs_apart\":[\n{}\n],\"jobs\":[\n{}\n],\"curves\":[\n{}\n]}}\n",
        list(pairs),
        list(pairs_apart),
        list(jobs),
        list(curves)
    )
}
