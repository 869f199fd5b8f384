//! Does what has to be done in the order of the tree: sets lines of the manifest, and links
//! additional names to the copies of their files.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

use anyhow::anyhow;

use super::copy::run_journal::RunJournal;
use super::copy::{Copier, CopyResult, EntryResult, journal_entry};
use super::counts::Counts;
use super::hash::transfers::is_interrupted;
use super::manifest::write::update::{Line, Update};
use super::reporter::Reporter;
use super::schedule::lookup::PriorRecord;
use super::settings::Settings;
use super::stat::Identity;
use super::walk::{Entry, OpenDirs, Root};

mod link;

/// Takes the results of entries in the order of the tree.
pub(crate) struct Finisher<'a> {
    settings: &'a Settings,
    reporter: &'a Reporter<'a>,
    counts: &'a Counts,
    root: &'a Root,
    /// None, if the run writes no manifest, or the manifest could not be written.
    manifest: Option<Update<'a>>,
    journal: &'a RunJournal<'a>,
    /// Lines of paths that the walk does not return, in the order of the paths.
    other_lines: VecDeque<(Vec<u8>, Line)>,
    /// The files of which more names come.
    firsts: HashMap<Identity, First>,
    /// Whether the file systems of the destination, by device, tell files apart.
    identities: HashMap<u64, Identities>,
    /// Whether no two files of a file system of the source, by device, have one inode number.
    unique_numbers: HashMap<u64, bool>,
}

/// Whether inode numbers and link counts of a file system tell one file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identities {
    /// A link was made, and had the inode number of its file.
    Reliable,
    /// A link was made, and seemed to be another file.
    Unreliable,
}

/// The name of a file that was copied first. Additional names are linked to its copy.
struct First {
    path: Vec<u8>,
    /// The number of additional names that have not come yet.
    n_more: u64,
    /// None, if the copy failed.
    copy: Option<CopyResult>,
    /// Whether the copy, which the run has left unread, has turned out to have the contents of the
    /// original.
    is_true: bool,
    /// Earlier copies of the same file, which have as many names as the file system allows.
    full: Vec<Identity>,
}

impl First {
    /// Makes the copy of another name the one to link to.
    fn replace(&mut self, entry: &Entry, copy: CopyResult) {
        self.path = entry.path().into_os_string().into_vec();
        self.copy = Some(copy);
        self.is_true = false;
    }
}

impl<'a> Finisher<'a> {
    pub(crate) fn new(
        settings: &'a Settings,
        reporter: &'a Reporter<'a>,
        counts: &'a Counts,
        root: &'a Root,
        manifest: Option<Update<'a>>,
        journal: &'a RunJournal<'a>,
    ) -> Self {
        Self {
            settings,
            reporter,
            counts,
            root,
            manifest,
            journal,
            other_lines: VecDeque::new(),
            firsts: HashMap::new(),
            identities: HashMap::new(),
            unique_numbers: HashMap::new(),
        }
    }

    /// Adds lines of paths that the walk does not return, in the order of the paths. Call it once,
    /// before any result is taken.
    pub(crate) fn add_lines(&mut self, lines: Vec<(Vec<u8>, Line)>) {
        self.other_lines = lines.into();
    }

    /// Takes the results of the next entries.
    pub(crate) fn take(
        &mut self,
        results: &mut dyn Iterator<Item = EntryResult>,
        copier: &mut Copier<'_>,
    ) {
        // The directory of the last link stays open, as the next link probably is in it too.
        let mut opened: Option<Arc<OpenDirs>> = None;
        for result in results {
            match result {
                EntryResult::Settled { path, line } => {
                    self.list(line, &path);
                }
                EntryResult::First {
                    path,
                    file,
                    n_more,
                    copy,
                } => {
                    let line = copy.unwrap_or_default().line;
                    // Additional names get the same line.
                    let line = self.list(line, &path);
                    let first = First {
                        path,
                        n_more,
                        copy: copy.map(|copy| CopyResult { line, ..copy }),
                        is_true: false,
                        full: Vec::new(),
                    };
                    self.firsts.insert(file, first);
                }
                EntryResult::Additional { entry, file, prior } => {
                    let path = entry.path();
                    if !entry.is_open() {
                        drop(opened.take());
                    }
                    match entry.resume() {
                        Ok(entry) => {
                            opened = Some(Arc::clone(entry.opened()));
                            self.add_name(entry, file, *prior, copier);
                        }
                        Err(error) => {
                            self.reporter.report_walk_error(&error);
                            self.list(Line::Keep, path.as_os_str().as_bytes());
                            self.skip_name(file);
                        }
                    }
                }
            }
        }
    }

    /// The manifest, unless it could not be written.
    pub(crate) fn into_manifest(mut self) -> Option<Update<'a>> {
        while let Some((path, line)) = self.other_lines.pop_front() {
            self.set(line, &path);
        }
        self.manifest
    }

    /// Sets the line of a path, and other lines before it. Returns the line for additional names of
    /// the file.
    fn list(&mut self, line: Line, path: &[u8]) -> Line {
        let is_due = |(other, _): &(Vec<u8>, Line)| **other <= *path;
        while self.other_lines.front().is_some_and(is_due) {
            let Some((other, line)) = self.other_lines.pop_front() else {
                break;
            };
            // The source may have got the path meanwhile.
            if other != path {
                self.set(line, &other);
            }
        }
        self.set(line, path)
    }

    /// Sets the line of a path.
    fn set(&mut self, line: Line, path: &[u8]) -> Line {
        let Some(manifest) = &mut self.manifest else {
            return line;
        };
        match manifest.set(path, line) {
            Ok(recorded) => match line {
                // An additional name may have a record of its own.
                Line::Keep | Line::Differs(_) => recorded.map_or(Line::Keep, Line::Set),
                line => line,
            },
            Err(error) => {
                report_manifest_error(self.reporter, error);
                self.manifest = None;
                line
            }
        }
    }

    /// Links an additional name to the copy of its file, or copies the name by itself.
    fn add_name(
        &mut self,
        entry: Entry,
        file: Identity,
        prior: PriorRecord,
        copier: &mut Copier<'_>,
    ) {
        let path = entry.path();
        let bytes = path.as_os_str().as_bytes();
        let added = match self.firsts.remove(&file) {
            // Results come in the order of the tree, so the first name has come.
            None => Err(anyhow!("its first name is not known")),
            Some(mut first) => {
                let added = self.link_or_copy(&mut first, &entry, prior, copier);
                first.n_more -= 1;
                if first.n_more > 0 {
                    self.firsts.insert(file, first);
                }
                added
            }
        };
        if let Ok(CopyResult { line, .. }) = added
            && prior.recorded.map(Line::Set) != Some(line)
        {
            let news = journal_entry(line).map(|entry| (bytes, entry));
            self.journal.add(news);
        }
        copier.flush_journal_queue();
        let result = match added {
            Ok(result) => Some(result),
            Err(error) if is_interrupted(&error) => None,
            Err(error) => {
                entry.directory().keep_partial(entry.name());
                self.reporter.report_error(&path, &error);
                Some(CopyResult::default())
            }
        };
        let line = self.list(result.unwrap_or_default().line, bytes);
        if let Some(result) = result {
            copier.report_file(&entry, &path, CopyResult { line, ..result });
        }
        if let Some(First {
            path,
            copy: Some(copy),
            ..
        }) = self.firsts.get_mut(&file)
            && path == bytes
        {
            // This name was copied, and later names are linked to it.
            copy.line = line;
        }
        if let Err(error) = entry.done() {
            self.reporter.report_walk_error(&error);
        }
    }

    /// Counts an additional name that cannot be opened.
    fn skip_name(&mut self, file: Identity) {
        if let Some(first) = self.firsts.get_mut(&file) {
            first.n_more -= 1;
            if first.n_more == 0 {
                self.firsts.remove(&file);
            }
        }
    }
}

/// Reports that the manifest cannot be written.
pub(crate) fn report_manifest_error(reporter: &Reporter<'_>, error: io::Error) {
    let error = anyhow!(error).context("cannot write the manifest");
    reporter.report_error("".as_ref(), &error);
}
