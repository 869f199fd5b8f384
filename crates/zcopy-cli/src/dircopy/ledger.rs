//! What is done in the order of the tree: lines of the manifest, and further names of files that have been copied.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

use anyhow::anyhow;

use super::containment::Identity;
use super::copier::{Copier, Done, Settled, news};
use super::copy::Context;
use super::counts::Counts;
use super::face::Face;
use super::journaling::Journaling;
use super::lookup::Known;
use super::manifest::update::{Line, Update};
use super::reading::is_interrupted;
use super::settings::Settings;
use super::tree::{Entry, Opened, Root};

mod link;

/// Takes what has become of entries, in the order of their paths.
pub(super) struct Ledger<'a> {
    settings: &'a Settings,
    face: &'a Face<'a>,
    counts: &'a Counts,
    root: &'a Root,
    /// None, if none is wanted, or it could not be written.
    manifest: Option<Update<'a>>,
    journaling: &'a Journaling<'a>,
    /// The files of which more names may come.
    firsts: HashMap<Identity, First>,
    /// What is known of file systems of the destination, by their devices.
    identities: HashMap<u64, Identities>,
}

/// Whether names of one file can be told from names of different ones, by inode numbers and link counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identities {
    /// A link has been made, and it was the file.
    Reliable,
    /// A link has been made, and it did not seem to be the file.
    Unreliable,
}

/// The name under which a file was met first, or first copied.
struct First {
    path: Vec<u8>,
    /// How many more names there will be.
    n_more: u64,
    /// What has become of it, unless it failed.
    settled: Option<Settled>,
    /// Earlier copies of the same file, which have as many names as they can.
    full: Vec<Identity>,
}

impl First {
    /// Has further names be linked to this copy.
    fn replace(&mut self, entry: &Entry, settled: Settled) {
        self.path = entry.path().into_os_string().into_vec();
        self.settled = Some(settled);
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        context: Context<'a>,
        root: &'a Root,
        manifest: Option<Update<'a>>,
        journaling: &'a Journaling<'a>,
    ) -> Self {
        Self {
            settings,
            face: context.face,
            counts: context.counts,
            root,
            manifest,
            journaling,
            firsts: HashMap::new(),
            identities: HashMap::new(),
        }
    }

    /// Takes what has become of the next entries.
    pub(super) fn take(&mut self, all: &mut dyn Iterator<Item = Done>, copier: &mut Copier<'_>) {
        // The directory of the last link, which probably is that of the next.
        let mut opened: Option<Arc<Opened>> = None;
        for done in all {
            match done {
                Done::Settled { path, line } => {
                    self.list(line, &path);
                }
                Done::First {
                    path,
                    file,
                    n_more,
                    settled,
                } => {
                    let line = settled.unwrap_or_default().line;
                    // Further names get the same line.
                    let line = self.list(line, &path);
                    let first = First {
                        path,
                        n_more,
                        settled: settled.map(|settled| Settled { line, ..settled }),
                        full: Vec::new(),
                    };
                    self.firsts.insert(file, first);
                }
                Done::Further { entry, file, known } => {
                    let path = entry.path();
                    if !entry.is_open() {
                        drop(opened.take());
                    }
                    match entry.resume() {
                        Ok(entry) => {
                            opened = Some(Arc::clone(entry.opened()));
                            self.link(entry, file, known, copier);
                        }
                        Err(trouble) => {
                            self.face.complain_of(&trouble);
                            self.list(Line::Keep, path.as_os_str().as_bytes());
                            self.forget_name(file);
                        }
                    }
                }
            }
        }
    }

    /// Returns the manifest, if it could be written so far.
    pub(super) fn into_manifest(self) -> Option<Update<'a>> {
        self.manifest
    }

    /// Sets the line of a path. Returns the line that another name of the same file gets.
    fn list(&mut self, line: Line, path: &[u8]) -> Line {
        let Some(manifest) = &mut self.manifest else {
            return line;
        };
        match manifest.set(path, line) {
            Ok(recorded) => match line {
                // Another name may be recorded by itself.
                Line::Keep => recorded.map_or(Line::Keep, Line::Set),
                line => line,
            },
            Err(error) => {
                complain_of_manifest(self.face, error);
                self.manifest = None;
                line
            }
        }
    }

    /// Makes a link to the copy of the same file. If there is none, or it cannot have another name, this becomes a copy.
    fn link(&mut self, entry: Entry, file: Identity, known: Known, copier: &mut Copier<'_>) {
        let path = entry.path();
        let bytes = path.as_os_str().as_bytes();
        let outcome = match self.firsts.remove(&file) {
            // The first name's turn comes first, so that there is one.
            None => Err(anyhow!("its first name is not known")),
            Some(mut first) => {
                let outcome = self.link_or_copy(&mut first, &entry, known, copier);
                first.n_more -= 1;
                if first.n_more > 0 {
                    self.firsts.insert(file, first);
                }
                outcome
            }
        };
        if let Ok(line) = outcome
            && known.recorded.map(Line::Set) != Some(line)
        {
            let news = news(bytes, line);
            self.journaling
                .add(news.iter().map(|(path, entry)| (&path[..], *entry)));
        }
        copier.flush_news();
        let line = outcome.unwrap_or_else(|error| {
            if !is_interrupted(&error) {
                self.face.complain(&path, &error);
            }
            Line::Keep
        });
        let line = self.list(line, bytes);
        if let Some(First {
            path,
            settled: Some(settled),
            ..
        }) = self.firsts.get_mut(&file)
            && path == bytes
        {
            settled.line = line;
        }
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
    }

    /// Waits for one name less of a file.
    fn forget_name(&mut self, file: Identity) {
        if let Some(first) = self.firsts.get_mut(&file) {
            first.n_more -= 1;
            if first.n_more == 0 {
                self.firsts.remove(&file);
            }
        }
    }
}

/// Reports that there will be no manifest.
pub(super) fn complain_of_manifest(face: &Face<'_>, error: io::Error) {
    let error = anyhow!(error).context("cannot write the manifest");
    face.complain("".as_ref(), &error);
}
