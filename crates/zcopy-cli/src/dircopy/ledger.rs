//! What is done in the order of the tree: lines of the sum file, and further names of files that have been copied.

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
use super::copier::{Done, Placed};
use super::counts::Counts;
use super::face::Face;
use super::place::{Replace, place_link};
use super::settings::Settings;
use super::sum_file::SumFile;
use super::tree::{Entry, Root};
use crate::digest::Digest;

/// Takes what has become of entries, in the order of their paths.
pub(super) struct Ledger<'a> {
    settings: &'a Settings,
    face: &'a Face<'a>,
    counts: &'a Counts,
    root: &'a Root,
    /// None, if none is wanted, or it could not be written.
    sums: Option<SumFile>,
    /// The files of which more names may come, and how many.
    firsts: HashMap<Identity, (First, u64)>,
}

/// The name under which a file was met first.
struct First {
    path: Vec<u8>,
    digest: Option<Digest>,
    /// Which file its copy is, if there is one, and it is a regular one.
    copy: Option<Placed>,
}

impl First {
    /// Which file bears a name: it is to be the copy.
    fn find(&self, named: Named<'_>, kind: FileType) -> anyhow::Result<Identity> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statat(named.directory, named.name, flags).map_err(io::Error::from);
        let found = found.context("cannot stat its first name")?;
        let file = self.copy.and_then(|copy| copy.file);
        let is_other = file.is_some_and(|file| file != identity(&found));
        if is_other || FileType::from_raw_mode(found.st_mode) != kind {
            bail!("what bears its first name there is not its copy");
        }
        Ok(identity(&found))
    }
}

impl<'a> Ledger<'a> {
    pub(super) fn new(
        (settings, face, counts): (&'a Settings, &'a Face<'a>, &'a Counts),
        root: &'a Root,
        sums: Option<SumFile>,
    ) -> Self {
        Self {
            settings,
            face,
            counts,
            root,
            sums,
            firsts: HashMap::new(),
        }
    }

    /// Takes what has become of the next entries.
    pub(super) fn take(&mut self, all: &mut dyn Iterator<Item = Done>) {
        for done in all {
            match done {
                Done::Settled { path, digest } => self.list(digest, &path),
                Done::First {
                    path,
                    digest,
                    file,
                    n_more,
                    copy,
                } => {
                    self.list(digest, &path);
                    let first = First { path, digest, copy };
                    self.firsts.insert(file, (first, n_more));
                }
                Done::Further { entry, file } => self.link(entry, file),
            }
        }
    }

    /// Gives the sum file, if it could be written so far.
    pub(super) fn into_sums(self) -> Option<SumFile> {
        self.sums
    }

    fn list(&mut self, digest: Option<Digest>, path: &[u8]) {
        if let (Some(sums), Some(digest)) = (&mut self.sums, digest)
            && let Err(error) = sums.add(&digest, path)
        {
            let error = anyhow!(error).context("cannot write the file of digests");
            self.face.complain(Path::new(""), &error);
            self.sums = None;
        }
    }

    /// Makes a link to the copy of the same file.
    fn link(&mut self, entry: Entry, file: Identity) {
        let path = entry.path();
        let first = self.firsts.remove(&file);
        let outcome = match &first {
            Some((first, _)) if first.copy.is_some() => self.link_to(first, &entry),
            Some((first, _)) => {
                let first = Path::new(OsStr::from_bytes(&first.path)).display();
                Err(anyhow!("its first name, {first}, failed"))
            }
            // The first name's turn comes first, so that there is one.
            None => Err(anyhow!("its first name is not known")),
        };
        match outcome {
            Ok(digest) => self.list(digest, path.as_os_str().as_bytes()),
            Err(error) => self.face.complain(&path, &error),
        }
        if let Some((first, n_more)) = first
            && n_more > 1
        {
            self.firsts.insert(file, (first, n_more - 1));
        }
        if let Err(trouble) = entry.done() {
            self.face.complain_of(&trouble);
        }
    }

    fn link_to(&self, first: &First, entry: &Entry) -> anyhow::Result<Option<Digest>> {
        let existing = entry.existing().context("cannot stat its copy")?;
        let (directory, name) = self
            .open_first(first)
            .context("cannot find its first name")?;
        let named = Named {
            directory: directory.as_fd(),
            name: &name,
        };
        let found = first.find(named, entry.kind())?;
        if existing.is_some_and(|existing| identity(&existing) == found) {
            self.count_left(entry);
            return Ok(first.digest);
        }
        let replace = Replace::what_is_there(existing.is_some());
        let (destination, durability) = (entry.destination(), self.settings.durability);
        let linked = place_link(named, destination, replace, durability);
        // Another run may have been here.
        let is_met = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        if !linked.as_ref().is_err_and(is_met) {
            linked.context("cannot link it to its first name")?;
        }
        // The name may have come to lead to something else in between.
        first.find(entry.destination(), entry.kind())?;
        if entry.kind() == FileType::RegularFile {
            self.counts.files.add(1);
            self.counts.linked.add(1);
        } else {
            self.counts.others.add(1);
        }
        Ok(first.digest)
    }

    fn count_left(&self, entry: &Entry) {
        if entry.kind() == FileType::RegularFile {
            self.counts.files.add(1);
            self.counts.skipped.add(1);
        } else {
            self.counts.others.add(1);
        }
    }

    /// The directory that holds the first name, and the name.
    fn open_first(&self, first: &First) -> io::Result<(OwnedFd, CString)> {
        let path = Path::new(OsStr::from_bytes(&first.path));
        let parent = path.parent().unwrap_or(Path::new(""));
        let directory = self.root.open_destination(parent)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok((directory, CString::new(name.into_vec())?))
    }
}
