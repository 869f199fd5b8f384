//! What is done in the order of the tree: lines of the manifest, and further names of files that have been copied.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{AtFlags, FileType};

use super::attributes::Named;
use super::containment::{Identity, identity};
use super::copier::{Copier, Done, MANIFEST_IN_THE_WAY, Proof, Settled, news};
use super::counts::{Count, Counts};
use super::face::Face;
use super::journaling::Journaling;
use super::lookup::Known;
use super::manifest::journal_entry::JournalEntry;
use super::manifest::record::Announced;
use super::manifest::update::{Line, Update};
use super::place::{Replace, place_link};
use super::reading::is_interrupted;
use super::settings::Settings;
use super::tree::{Entry, Root};

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
}

/// The name under which a file was met first, or first copied.
struct First {
    path: Vec<u8>,
    /// How many more names there will be.
    n_more: u64,
    /// What has become of it, unless it failed.
    settled: Option<Settled>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        (settings, face, counts): (&'a Settings, &'a Face<'a>, &'a Counts),
        root: &'a Root,
        manifest: Option<Update<'a>>,
        journaling: &'a Journaling<'a>,
    ) -> Self {
        Self {
            settings,
            face,
            counts,
            root,
            manifest,
            journaling,
            firsts: HashMap::new(),
        }
    }

    /// Takes what has become of the next entries.
    pub(super) fn take(&mut self, all: &mut dyn Iterator<Item = Done>, copier: &mut Copier<'_>) {
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
                    };
                    self.firsts.insert(file, first);
                }
                Done::Further { entry, file, known } => self.link(entry, file, known, copier),
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

    /// Makes a link to the copy of the same file. If there is none, this becomes it.
    fn link(&mut self, entry: Entry, file: Identity, known: Known, copier: &mut Copier<'_>) {
        let path = entry.path();
        let bytes = path.as_os_str().as_bytes();
        let first = self.firsts.get_mut(&file);
        let outcome = match first {
            // The first name's turn comes first, so that there is one.
            None => Err(anyhow!("its first name is not known")),
            Some(first) => match first.settled.filter(|settled| settled.is_copy) {
                Some(settled) => {
                    let first = Path::new(OsStr::from_bytes(&first.path)).to_owned();
                    self.link_to(&first, settled, (&entry, known), copier)
                }
                None => copier.work_alone(&entry, known).map(|settled| {
                    (first.path, first.settled) = (bytes.to_vec(), Some(settled));
                    settled.line
                }),
            },
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
        if let Some(first) = self.firsts.get_mut(&file) {
            first.n_more -= 1;
            if first.n_more == 0 {
                self.firsts.remove(&file);
            }
        }
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
    }

    fn link_to(
        &self,
        path: &Path,
        Settled {
            line, copy, proof, ..
        }: Settled,
        (entry, known): (&Entry, Known),
        copier: &mut Copier<'_>,
    ) -> anyhow::Result<Line> {
        if known.is_manifest {
            bail!(MANIFEST_IN_THE_WAY);
        }
        let existing = entry.existing().context("cannot stat its copy")?;
        if existing.is_some()
            && let Some(refused) = copier.refuse_other_name(entry, known)?
        {
            return Ok(refused.line);
        }
        let opened = self.open_parent(path);
        let (directory, name) = opened.context("cannot find its first name")?;
        let named = Named {
            directory: directory.as_fd(),
            name: &name,
        };
        let found =
            find_copy(named, copy, entry.kind()).context("cannot link it to its first name")?;
        if existing.is_some_and(|existing| identity(&existing) == found) {
            if let Line::Set(found) = line {
                copier.compare_link_with_record(entry, found, known)?;
            }
            self.count(entry, &self.counts.skipped);
            return Ok(line);
        }
        let expected = known.expected();
        let has_record = matches!(line, Line::Set(file) if expected.contains(&file));
        let is_proven = match proof {
            Proof::None => false,
            Proof::Written => true,
            Proof::Read => has_record,
        };
        if existing.is_some() && !expected.is_empty() && !is_proven {
            // The first name was left, and what it holds is not what this one was recorded with.
            return copier.work_alone(entry, known).map(|settled| settled.line);
        }
        let replace = Replace::what_is_there(existing.is_some());
        if replace == Replace::Yes {
            let announced = JournalEntry::Announced(match line {
                Line::Set(file) => Announced::Replaces(file),
                Line::Keep | Line::Remove => Announced::Clears,
            });
            let path = entry.path();
            self.journaling
                .add([(path.as_os_str().as_bytes(), announced)]);
        }
        let (destination, durability) = (entry.destination(), self.settings.durability);
        let linked = place_link(named, destination, replace, durability);
        // Another run may have been here.
        let is_met = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        if linked.as_ref().is_err_and(is_met) {
            copier.ensure_own_name(entry, Known::default())?;
        } else {
            linked.context("cannot link it to its first name")?;
        }
        // The name may have come to lead to something else in between.
        find_copy(entry.destination(), copy, entry.kind()).context("cannot link it")?;
        self.count(entry, &self.counts.linked);
        // Its own record speaks of what was there before.
        Ok(match line {
            Line::Keep => Line::Remove,
            line => line,
        })
    }

    /// Counts an entry, and if it is a regular file, what has become of it.
    fn count(&self, entry: &Entry, files: &Count) {
        if entry.kind() == FileType::RegularFile {
            self.counts.files.add(1);
            files.add(1);
        } else {
            self.counts.others.add(1);
        }
    }

    /// The directory of the destination that holds what has this path, and its name there.
    fn open_parent(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = self.root.open_destination(parent)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok((directory, CString::new(name.into_vec())?))
    }
}

/// Reports that there will be no manifest.
pub(super) fn complain_of_manifest(face: &Face<'_>, error: io::Error) {
    let error = anyhow!(error).context("cannot write the manifest");
    face.complain("".as_ref(), &error);
}

/// Which file bears a name: it is to be the copy, of which this is known.
fn find_copy(named: Named<'_>, copy: Option<Identity>, kind: FileType) -> anyhow::Result<Identity> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statat(named.directory, named.name, flags).map_err(io::Error::from);
    let found = found.context("cannot stat the copy")?;
    let is_other = copy.is_some_and(|copy| copy != identity(&found));
    if is_other || FileType::from_raw_mode(found.st_mode) != kind {
        bail!("what bears the name is not the copy");
    }
    Ok(identity(&found))
}
