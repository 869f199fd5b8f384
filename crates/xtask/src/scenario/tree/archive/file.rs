//! The files of an archive: their contents, their records, and their state after a run.

use super::options::Options;

/// The contents at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Regular(Vec<u8>),
    /// A symbolic link to this path.
    Symlink(&'static str),
}

/// A list that an earlier run wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    /// A manifest of another program, which nothing includes.
    Foreign,
    /// A manifest that the newest one includes.
    Older,
    Newest,
}

/// The sign of a journal's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Adds,
    Replaces,
    Clears,
    Cancelled,
    Has,
    Removed,
}

/// The state of a path: its contents, and the contents that the archive records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) contents: Option<Contents>,
    pub(super) recorded: Option<Vec<u8>>,
}

/// The verdict of `--check` on a listed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Matches,
    Differs,
    /// The path has no regular file.
    Missing,
}

impl State {
    /// The true verdict. `None` if the archive has no record of the path.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        let recorded = self.recorded.as_ref()?;
        Some(match &self.contents {
            Some(Contents::Regular(bytes)) if bytes == recorded => Verdict::Matches,
            Some(Contents::Regular(_)) => Verdict::Differs,
            Some(Contents::Symlink(_)) | None => Verdict::Missing,
        })
    }
}

/// A path of the archive or of the source.
#[derive(Debug, Clone)]
pub(super) struct ArchivedFile {
    pub(super) path: &'static str,
    /// The lists that have a line for the path, and the contents that each line promises.
    pub(super) lines: Vec<(List, Vec<u8>)>,
    /// The entries of the journal, with the contents that they promise.
    pub(super) entries: Vec<(Sign, Vec<u8>)>,
    pub(super) before: State,
    /// The contents in the source.
    pub(super) original: Option<Contents>,
}

/// A path at which neither the archive nor the source has a file.
pub(super) fn file(path: &'static str) -> ArchivedFile {
    ArchivedFile {
        path,
        lines: Vec::new(),
        entries: Vec::new(),
        before: State::default(),
        original: None,
    }
}

impl ArchivedFile {
    /// Adds a line to a list, so that the archive records these contents.
    pub(super) fn recorded(mut self, list: List, bytes: &[u8]) -> Self {
        self.lines.push((list, bytes.to_vec()));
        self.before.recorded = Some(bytes.to_vec());
        self
    }

    /// Adds an entry to the journal, so that the archive records the contents `recorded`.
    pub(super) fn journaled(mut self, sign: Sign, bytes: &[u8], recorded: Option<&[u8]>) -> Self {
        self.entries.push((sign, bytes.to_vec()));
        self.before.recorded = recorded.map(<[u8]>::to_vec);
        self
    }

    /// Adds a file with these contents to the archive.
    pub(super) fn archived(mut self, bytes: &[u8]) -> Self {
        self.before.contents = Some(Contents::Regular(bytes.to_vec()));
        self
    }

    /// Adds a file with these contents to the source.
    pub(super) fn original(mut self, bytes: &[u8]) -> Self {
        self.original = Some(Contents::Regular(bytes.to_vec()));
        self
    }

    /// Adds a symbolic link to the source.
    pub(super) fn linked(mut self, target: &'static str) -> Self {
        self.original = Some(Contents::Symlink(target));
        self
    }

    /// The state after a run with these options and without faults.
    pub(super) fn after(&self, options: &Options<'_>) -> State {
        let before = &self.before;
        let is_accepted = options.accepts(self.path);
        let mut after = match (&self.original, &before.contents) {
            (None, _) => before.clone(),
            (Some(Contents::Symlink(_)), _) => State {
                contents: self.original.clone(),
                recorded: None,
            },
            (Some(Contents::Regular(new)), Some(Contents::Regular(old)))
                if is_accepted
                    || new.len() == old.len() && (new == old || !options.compares_originals()) =>
            {
                let hashed = options.hashes_skipped().then(|| old.clone());
                State {
                    recorded: before.recorded.clone().or(hashed),
                    ..before.clone()
                }
            }
            (Some(Contents::Regular(new)), _) => State {
                contents: self.original.clone(),
                recorded: options.hashes().then(|| new.clone()),
            },
        };
        match &after.contents {
            Some(Contents::Regular(bytes)) if is_accepted => after.recorded = Some(bytes.clone()),
            Some(Contents::Symlink(_)) | None if options.forgets_missing() => after.recorded = None,
            _ => {}
        }
        after
    }
}
