//! Judges an archive after a run: its files, the verdicts of `--check`, the new manifest without
//! the help of the program, and the archive after one more run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::file::{ArchivedFile, Contents, State, Verdict};
use super::options::Options;
use super::verified::verify;
use super::{HARD_LINKS, LastRun, files, lists};
use crate::scenario::tree::node::{Kind, Tree, read_tree};
use crate::scenario::tree::{COPY, SOURCE, manifest};
use crate::scenario::{Failure, Observed, Scenario};
use outcome::Outcome;

mod outcome;

/// The prefix of the names of temporary files and of the journal.
const TEMPORARY_PREFIX: &str = ".zc-dircopy-";

/// Checks an archive after a copy to it.
pub(crate) fn check_archive(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, LastRun::Finished)
}

/// Checks an archive with a journal after a copy to it.
pub(crate) fn check_interrupted_archive(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    check(scenario, observed, LastRun::Killed)
}

fn check(scenario: &Scenario, observed: &Observed, last_run: LastRun) -> Vec<String> {
    let run = ArchiveRun::new(scenario, observed, files(last_run));
    run.mistakes()
        .unwrap_or_else(|error| vec![format!("the archive cannot be checked: {error:#}")])
}

/// A run into an archive.
#[derive(Debug)]
struct ArchiveRun<'a> {
    scenario: &'a Scenario,
    observed: &'a Observed,
    files: Vec<ArchivedFile>,
    outcome: Outcome,
}

impl<'a> ArchiveRun<'a> {
    fn new(scenario: &'a Scenario, observed: &'a Observed, files: Vec<ArchivedFile>) -> Self {
        Self {
            scenario,
            observed,
            files,
            outcome: Outcome::new(scenario, observed),
        }
    }

    fn after(&self, file: &ArchivedFile) -> State {
        file.after(&Options(&self.scenario.args))
    }

    /// Whether the program may rightly record something else of a file, as a call failed as if the
    /// file did not exist.
    fn is_denied(&self, file: &ArchivedFile) -> bool {
        let options = Options(&self.scenario.args);
        let looks = options.forgets_missing() || !file.entries.is_empty();
        looks && self.observed.is_denied(&Path::new(COPY).join(file.path))
    }

    /// Lists what is wrong. This runs the program again.
    fn mistakes(&self) -> anyhow::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let status = self.observed.status;
        if matches!(self.outcome, Outcome::Failed { .. })
            && status.is_some_and(|status| status.success())
        {
            wrong.push("a file differs from its record, and the status is 0".to_owned());
        }
        let tree = read_tree(&self.observed.dir().join(COPY))?;
        let verdicts = verify(self.observed)?;
        wrong.extend(self.mistakes_of_files(&tree, &verdicts));
        wrong.extend(self.mistakes_of_manifests(&tree));
        wrong.extend(self.leftovers(&tree));
        wrong.extend(self.mistakes_of_source()?);
        let next = self.mistakes_of_next_run(&verdicts)?;
        let next = next.into_iter();
        wrong.extend(next.map(|text| format!("after one more run, {text}")));
        Ok(wrong)
    }

    fn mistakes_of_files(&self, tree: &Tree, verdicts: &BTreeMap<String, Verdict>) -> Vec<String> {
        let mut wrong = Vec::new();
        for file in &self.files {
            let path = file.path;
            let found = contents(tree, path);
            let mut state = judge_contents(file, &self.after(file), found.as_ref(), &self.outcome);
            if state.is_empty() && !self.is_denied(file) {
                let verdict = verdicts.get(path).copied();
                state = judge_verdict(
                    file,
                    &self.after(file),
                    found.as_ref(),
                    verdict,
                    &self.outcome,
                );
            }
            wrong.extend(state.into_iter().map(|text| format!("{path} {text}")));
        }
        for path in verdicts.keys() {
            if self.files.iter().all(|file| file.path != path) {
                wrong.push(format!("--check lists {path}, which never existed"));
            }
        }
        // Without hard links, each name is a copy of its own.
        let links = HARD_LINKS.map(|path| tree.get(Path::new(path)).map(|(_, inode)| *inode));
        let may_copy_links = self.observed.is_refused_hard_links();
        if matches!(self.outcome, Outcome::Succeeded)
            && !may_copy_links
            && links.iter().any(|link| *link != links[0])
        {
            wrong.push("the names of one original are not linked".to_owned());
        }
        wrong
    }

    /// Finds files that the run should have removed.
    fn leftovers(&self, tree: &Tree) -> Vec<String> {
        let strangers = tree.iter().filter(|(path, (node, _))| {
            let mut files = self.files.iter();
            let is_known = files.any(|file| Path::new(file.path) == *path);
            let is_directory = node.kind == Kind::Directory;
            !is_known && !is_directory && !manifest::is_manifest(path)
        });
        let mut injected = self.observed.injected().into_iter();
        let cannot_remove = injected.any(|call| call.name == "unlinkat");
        let strangers = strangers.filter(|(path, _)| match &self.outcome {
            Outcome::Succeeded => !is_temporary(path) || !cannot_remove,
            Outcome::Failed {
                may_leave_files, ..
            } => !(manifest::is_journal(path) || is_temporary(path) && *may_leave_files),
            Outcome::Killed => !is_temporary(path),
        });
        strangers
            .map(|(path, _)| format!("{} was left behind", path.display()))
            .collect()
    }

    /// Judges the manifests of the run, without the help of the program.
    fn mistakes_of_manifests(&self, tree: &Tree) -> Vec<String> {
        let (mut promised, mut must_list) = (BTreeMap::new(), BTreeSet::new());
        let mut earlier = tree.keys().filter(|path| lists::is_earlier(path));
        let misses_list = earlier.any(|path| self.observed.is_denied(&Path::new(COPY).join(path)));
        for file in &self.files {
            let (before, after) = (&file.before, self.after(file));
            let found = contents(tree, file.path);
            let is_old = found == before.contents;
            let mut possible = Vec::new();
            if found == after.contents {
                possible.extend(after.recorded.clone());
            }
            if is_old && !matches!(self.outcome, Outcome::Succeeded) || self.is_denied(file) {
                possible.extend(before.recorded.clone());
                possible.extend(file.lines.iter().map(|(_, bytes)| bytes.clone()));
            }
            if possible.is_empty() {
                continue;
            }
            let path = PathBuf::from(file.path);
            let may_lack = !is_old && self.outcome.explains(&path) || self.is_denied(file);
            if !may_lack && !misses_list && after.recorded.is_some() {
                must_list.insert(path.clone());
            }
            promised.insert(path, possible);
        }
        let manifests = tree
            .iter()
            .filter(|(path, _)| manifest::is_manifest(path) && !lists::is_earlier(path));
        let judged = manifests.flat_map(|(path, (node, _))| {
            let text = String::from_utf8_lossy(&node.bytes);
            let wrong = manifest::judge(&text, &promised, &must_list);
            let wrong = wrong.into_iter();
            wrong.map(move |text| format!("{}: {text}", path.display()))
        });
        judged.collect()
    }

    /// Finds changes of the source.
    fn mistakes_of_source(&self) -> anyhow::Result<Vec<String>> {
        let tree = read_tree(&self.observed.dir().join(SOURCE))?;
        let mut changed = self.files.iter().collect::<Vec<_>>();
        changed.retain(|file| contents(&tree, file.path) != file.original);
        let changed = changed.into_iter();
        Ok(changed
            .map(|file| format!("{} of the source has changed", file.path))
            .collect())
    }

    /// Runs the program once more without faults, which repairs everything. `verdicts` are the
    /// verdicts before that run.
    fn mistakes_of_next_run(
        &self,
        verdicts: &BTreeMap<String, Verdict>,
    ) -> anyhow::Result<Vec<String>> {
        let output = self.observed.run_again(&self.scenario.args)?;
        let mut wrong = Vec::new();
        let (code, stderr) = match &self.scenario.usual_failure {
            None => (0, ""),
            Some(Failure { stderr, .. }) => (1, *stderr),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        let is_misled = self.files.iter().any(|file| self.is_denied(file));
        if !is_misled && (output.status.code() != Some(code) || said != stderr) {
            wrong.push(format!(
                "the run ends with {} and prints {said}",
                output.status
            ));
        }
        let tree = read_tree(&self.observed.dir().join(COPY))?;
        let later = verify(self.observed)?;
        for file in &self.files {
            let (path, after) = (file.path, self.after(file));
            if contents(&tree, path) != after.contents {
                wrong.push(format!("{path} does not have the new contents"));
            }
            // The first run may have copied a file without a record, and told so. The next run
            // records that file only if it reads what it skips.
            let (verdict, expected) = (later.get(path).copied(), after.verdict());
            let is_unread = !Options(&self.scenario.args).hashes_skipped();
            let is_unlisted = is_unread && verdict.is_none() && !verdicts.contains_key(path);
            if verdict != expected && !is_unlisted && !self.is_denied(file) {
                wrong.push(format!(
                    "{path} is {verdict:?} for --check, instead of {expected:?}"
                ));
            }
        }
        let hidden = tree.keys().filter(|path| is_temporary(path));
        wrong.extend(hidden.map(|path| format!("{} is still there", path.display())));
        Ok(wrong)
    }
}

/// Whether a path names a temporary file or a journal.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(TEMPORARY_PREFIX))
}

/// Judges the contents of a file: they are the old ones or the new ones.
fn judge_contents(
    file: &ArchivedFile,
    after: &State,
    found: Option<&Contents>,
    outcome: &Outcome,
) -> Vec<String> {
    let (is_old, is_new) = (
        found == file.before.contents.as_ref(),
        found == after.contents.as_ref(),
    );
    let text = match found {
        _ if is_new => return Vec::new(),
        _ if is_old && outcome.explains(Path::new(file.path)) => return Vec::new(),
        _ if is_old => "was not copied, and nothing explains it",
        Some(_) => "has neither the old contents nor the new ones",
        None => "has vanished",
    };
    vec![text.to_owned()]
}

/// Judges the verdict of `--check` on a file with its old or new contents.
fn judge_verdict(
    file: &ArchivedFile,
    after: &State,
    found: Option<&Contents>,
    verdict: Option<Verdict>,
    outcome: &Outcome,
) -> Vec<String> {
    let (before, path) = (&file.before, Path::new(file.path));
    let (is_old, is_new) = (
        found == before.contents.as_ref(),
        found == after.contents.as_ref(),
    );
    let verdict_of = |recorded: &Option<Vec<u8>>| {
        let (contents, recorded) = (found.cloned(), recorded.clone());
        State { contents, recorded }.verdict()
    };
    let (old, new) = (verdict_of(&before.recorded), verdict_of(&after.recorded));
    let is_right = match outcome {
        Outcome::Succeeded => verdict == new,
        Outcome::Failed { .. } | Outcome::Killed => {
            // The journal has every file of a killed run. A failed run may have no record of a
            // file, and then a message tells so.
            let has_message = outcome.explains(path) && !matches!(outcome, Outcome::Killed);
            let is_lost = !is_old && verdict.is_none() && has_message;
            is_old && verdict == old || is_new && (verdict == new || is_lost)
        }
    };
    let is_explained = outcome.explains(path) || is_old && outcome.explains_old_record(path);
    let text = if !is_right {
        format!("is {verdict:?} for --check, instead of {old:?} or {new:?}")
    } else if is_new && verdict != new && !is_explained {
        format!("is still {verdict:?} for --check, and nothing explains it")
    } else {
        return Vec::new();
    };
    vec![text]
}

/// The contents at a path of a tree.
fn contents(tree: &Tree, path: &str) -> Option<Contents> {
    let (node, _) = tree.get(Path::new(path))?;
    match node.kind {
        Kind::File => Some(Contents::Regular(node.bytes.clone())),
        // The tree has one symbolic link.
        _ => Some(Contents::Symlink("same"))
            .filter(|_| node.kind == Kind::Symlink && node.bytes == b"same"),
    }
}

#[cfg(test)]
mod tests;
