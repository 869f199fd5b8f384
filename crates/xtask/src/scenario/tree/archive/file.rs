//! The files of the archive, what is recorded of them, and what a run makes of both.

use super::options::Options;

/// What has a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Regular(Vec<u8>),
    /// A symbolic link to this path.
    Symlink(&'static str),
}

/// The list that an earlier run wrote a record to.
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

/// What has a path, and the contents that are recorded of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) contents: Option<Contents>,
    pub(super) recorded: Option<Vec<u8>>,
}

/// What `--check` says of a file that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Matches,
    Differs,
    /// There is no regular file.
    Missing,
}

impl State {
    /// The verdict that is true. `None` if the file is not listed.
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
    /// The lines of earlier lists: the contents that each promises.
    pub(super) lines: Vec<(List, Vec<u8>)>,
    /// The entries of the journal, with the contents that they promise.
    pub(super) entries: Vec<(Sign, Vec<u8>)>,
    pub(super) before: State,
    /// What the source has.
    pub(super) original: Option<Contents>,
}

/// A path that neither the archive nor the source has.
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
    /// The archive records these contents.
    pub(super) fn recorded(mut self, list: List, bytes: &[u8]) -> Self {
        self.lines.push((list, bytes.to_vec()));
        self.before.recorded = Some(bytes.to_vec());
        self
    }

    /// The journal has this entry, after which the file is to have the contents `recorded`.
    pub(super) fn journaled(mut self, sign: Sign, bytes: &[u8], recorded: Option<&[u8]>) -> Self {
        self.entries.push((sign, bytes.to_vec()));
        self.before.recorded = recorded.map(<[u8]>::to_vec);
        self
    }

    /// The archive has a file with these contents.
    pub(super) fn archived(mut self, bytes: &[u8]) -> Self {
        self.before.contents = Some(Contents::Regular(bytes.to_vec()));
        self
    }

    /// The source has a file with these contents.
    pub(super) fn original(mut self, bytes: &[u8]) -> Self {
        self.original = Some(Contents::Regular(bytes.to_vec()));
        self
    }

    /// The source has a symbolic link.
    pub(super) fn linked(mut self, target: &'static str) -> Self {
        self.original = Some(Contents::Symlink(target));
        self
    }

    /// What a run with these options makes of it, if nothing goes wrong.
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
