//! Writes a generation.
//!
//! A run lists the files that it has read. The digests of directories have those of all files: of a
//! file that the run has not read, they have the recorded one. A file without a record is read and
//! listed as an original.
//!
//! - `listing`: lists the tree; `elements`: the text of its elements.
//! - `below`: the histories below the root, which the generation refers to.
//! - `missing`: entries that earlier generations list, and that are gone or excluded.
//! - `orphans`: what a killed run or another program has left.

use std::ffi::{CStr, CString, OsStr};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::chain::{self, Link};
use super::files::is_hidden;
use super::history::{GenerationFile, History, directory_in, open_directory};
use super::knowledge::Knowledge;
use super::xml::{can_have, escape};
use super::{CHAIN, DIRECTORY, TOOL};
use crate::common::cli::message;
use crate::common::digest::AlgorithmSet;
use crate::common::digest::checksum::{ChecksumAlgorithm, Hasher};
use crate::common::sys;
use crate::dircopy::hash::FileDigest;
use crate::dircopy::manifest::buffered_file::{BufferedFile, remove_leftovers};
use crate::dircopy::manifest::hash_file::ReadOptions;
use crate::dircopy::manifest::inventory::{Inventory, Kinds};
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{PieceReader, Sorter, Spool};
use crate::dircopy::manifest::record::Announced;
use crate::dircopy::write::atomic_file::{Durability, Replace, temp_name};
use below::{Below, Reference};
use elements::{date, references, write_digests};
use listing::{FileError, Tree, TreeElements};
use missing::Missing;

pub(crate) use missing::MissingOptions;

use orphans::Orphans;

mod below;
mod elements;
mod listing;
mod missing;
mod orphans;

/// The error of a generation that the list of all generations lacks.
const ORPHAN: &str = "ascmhl_chain.xml lacks this generation, which stays and does not count";

/// The error of a tree that `ascmhl` cannot verify: its patterns match no path with a line feed.
const LINE_FEED: &str =
    "ascmhl takes its own files for new ones, as the path of the tree has a line feed";

/// A generation that is being written. If this is dropped, nothing remains of it.
#[derive(Debug)]
pub(crate) struct GenerationWriter {
    root: Arc<OwnedFd>,
    algorithms: AlgorithmSet,
    history: History,
    /// The records of the history.
    recorded: Records,
    /// The files of the run.
    found: Sorter<Spool>,
    n_files: u64,
    /// The name of the tree.
    name: String,
    mode: Mode,
    /// The files and directories of the tree, once they are listed.
    elements: Option<TreeElements>,
    /// The newest generations of histories below the root.
    references: Vec<Reference>,
    /// Patterns of entries that are excluded, and that earlier generations list.
    added_patterns: Vec<String>,
    /// Whether the path of the tree has a line feed.
    has_line_feed: bool,
}

impl GenerationWriter {
    /// Begins a generation of the history in `root`. `recorded` are the records of the history, and
    /// `name` is the path of the tree.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be made.
    pub(crate) fn begin(
        root: &Arc<OwnedFd>,
        algorithms: AlgorithmSet,
        history: History,
        recorded: Records,
        name: &Path,
        mode: Mode,
    ) -> io::Result<Self> {
        let has_line_feed = name.as_os_str().as_bytes().contains(&b'\n');
        let name = name.file_name().unwrap_or(OsStr::new("root"));
        Ok(Self {
            root: Arc::clone(root),
            algorithms,
            history,
            recorded,
            found: Sorter::new(Spool::new()?),
            n_files: 0,
            name: name_in_file_names(name),
            mode,
            elements: None,
            references: Vec::new(),
            added_patterns: Vec::new(),
            has_line_feed,
        })
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// A temporary file cannot be written.
    pub(crate) fn add(
        &mut self,
        path: &[u8],
        file: FileDigest,
        knowledge: Knowledge,
    ) -> io::Result<()> {
        self.n_files += 1;
        let entry = match knowledge {
            Knowledge::Read => JournalEntry::Has(file),
            Knowledge::Differs => JournalEntry::Announced(Announced::Replaces(file)),
            Knowledge::Carried => JournalEntry::Announced(Announced::Adds(file)),
        };
        self.found.add(path.to_vec(), entry)
    }

    /// Whether it has any files.
    pub(crate) fn has_lines(&self) -> bool {
        self.n_files > 0
    }

    /// Walks the tree, and makes the elements of its files and directories. Returns the files that
    /// cannot be read, and entries that other programs call missing, each with its error. After a
    /// signal nothing more is read, and the generation is not to be finished.
    ///
    /// # Errors
    ///
    /// A directory cannot be read; a temporary file cannot be written.
    pub(crate) fn list(
        &mut self,
        most_open: usize,
        missing: MissingOptions<'_>,
        reading: ReadOptions<'_>,
    ) -> io::Result<Vec<FileError>> {
        let found = std::mem::replace(&mut self.found, Sorter::new(Spool::new()?));
        let (spool, pieces) = found.finish()?;
        let spool = spool.finish()?;
        let of_run = || {
            let pieces = pieces.iter().cloned();
            let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(&spool, piece)));
            Records::merge(pieces.collect())
        };
        let below = Below::read(self.root.as_fd())?;
        let ignore = self.history.ignore.clone();
        let is_listed = |path: &[u8], is_directory: bool| {
            let is_ignored =
                ignore.matches(path, is_directory) || below.histories.ignore(path, is_directory);
            !is_hidden(path) && !is_ignored
        };
        let root = self.root.as_fd();
        let inventory = Inventory::of(root, most_open, Kinds::FilesAndDirectories, is_listed)?;
        let mut written = of_run()?;
        let next = || Ok(written.next()?.map(|record| record.path));
        let inventory = inventory.respelled(root, root, next)?;
        let tree = Tree {
            root,
            algorithms: self.algorithms,
            found: of_run()?,
            recorded: &mut self.recorded,
            nested: &below.histories,
            nested_records: below.records()?,
            reading,
            is_compared: self.history.is_compared,
        };
        let (elements, mut failures) = tree.list(&inventory)?;
        self.elements = Some(elements);
        failures.extend(below.failures(root)?);
        self.references = below.references(&ignore, &mut failures);
        let missing = Missing::find(root, &self.history, &below, &inventory, missing)?;
        failures.extend(missing.failures);
        self.added_patterns = missing.patterns;
        if self.has_line_feed {
            failures.push((DIRECTORY.into(), anyhow!(LINE_FEED)));
        }
        for orphan in self.orphans()?.kept {
            let path = format!("{DIRECTORY}/{}", orphan.to_string_lossy());
            failures.push((path.into_bytes(), anyhow!(ORPHAN)));
        }
        Ok(failures)
    }

    /// The generations of the destination that the list of all generations lacks.
    fn orphans(&self) -> io::Result<Orphans> {
        match directory_in(self.root.as_fd()) {
            Ok(directory) => Orphans::of(directory.as_fd(), &self.history.links()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Orphans::default()),
            Err(error) => Err(error),
        }
    }

    /// Gives the generation its name, and adds it to the list of all generations. Returns the path
    /// of the generation.
    ///
    /// # Errors
    ///
    /// A file cannot be read or written.
    pub(crate) fn finish(mut self) -> io::Result<Vec<String>> {
        let unlisted = || io::Error::other("the tree was not listed");
        let mut elements = self.elements.take().ok_or_else(unlisted)?;
        match rustix::fs::mkdirat(&self.root, DIRECTORY, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let directory = open_directory(self.root.as_fd())
            .map_err(|errno| message::naming(DIRECTORY.as_ref(), &errno.into()));
        let directory = Arc::new(directory?);
        let orphans = Orphans::of(directory.as_fd(), &self.history.links())?;
        for name in &orphans.own {
            rustix::fs::unlinkat(&directory, &**name, AtFlags::empty())?;
        }
        remove_leftovers(directory.as_fd())?;
        for generation in &self.history.generations[self.history.n_own..] {
            let copied = self.copy(generation, &directory);
            copied.map_err(|error| naming(&generation.link.name, &error))?;
        }
        let mut links = self.history.links();
        let number = links.last().map_or(1, |last| last.number.saturating_add(1));
        let mut time = Timestamp::now();
        let mut name = file_name(number, &self.name, time);
        // Another program's generation keeps its name.
        while orphans
            .kept
            .iter()
            .any(|kept| *kept.as_bytes() == *name.as_bytes())
        {
            time = time
                .checked_add(SignedDuration::from_secs(1))
                .map_err(io::Error::other)?;
            name = file_name(number, &self.name, time);
        }
        let mut file = BufferedFile::begin(&directory, self.mode)?;
        let mut hasher = Hasher::new(ChecksumAlgorithm::Sha512);
        let mut put = |bytes: &[u8]| {
            hasher.update(bytes);
            file.buffer.extend_from_slice(bytes);
            file.flush_block()
        };
        put(&self.head(&elements))?;
        let mut block = [0; 8 << 10];
        loop {
            match elements.xml.read(&mut block) {
                Ok(0) => break,
                Ok(n) => put(&block[..n])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if !elements.is_empty {
            put(b"  </hashes>\n")?;
        }
        put(&references(&self.references))?;
        put(b"</hashlist>\n")?;
        let link = Link {
            number,
            name: name.clone(),
            checksum: hasher.finish(),
        };
        let mut announcement = BufferedFile::begin(&directory, self.mode)?;
        announcement.buffer = chain::write(std::slice::from_ref(&link));
        let announced = temp_name::random(temp_name::PREFIX);
        commit_as(announcement, &announced)?;
        commit(file, &name)?;
        links.push(link);
        let mut file = BufferedFile::begin(&directory, self.mode)?;
        file.buffer = chain::write(&links);
        commit(file, CHAIN)?;
        temp_name::remove(directory.as_fd(), &announced);
        Ok(vec![format!("{DIRECTORY}/{name}")])
    }

    /// Copies a generation of the source.
    fn copy(&self, generation: &GenerationFile, directory: &Arc<OwnedFd>) -> io::Result<()> {
        let mut file = BufferedFile::begin(directory, self.mode)?;
        generation.open()?.read_to_end(&mut file.buffer)?;
        let mut hasher = Hasher::new(ChecksumAlgorithm::Sha512);
        hasher.update(&file.buffer);
        if hasher.finish() != generation.link.checksum {
            return Err(io::Error::other("a generation of the source has changed"));
        }
        commit_as(file, &CString::new(&*generation.link.name)?)
    }

    /// Everything before the elements.
    fn head(&self, elements: &TreeElements) -> Vec<u8> {
        let date = date(Timestamp::now());
        let mut xml = Vec::new();
        let mut host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        host.truncate(host.trim_end().len());
        // Writing to a vector cannot fail.
        let _ = write!(
            xml,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">\n  \
             <creatorinfo>\n    <creationdate>{date}</creationdate>\n    <hostname>"
        );
        escape(&host, &mut xml);
        let _ = write!(
            xml,
            "</hostname>\n    <tool version=\"{}\">{TOOL}</tool>\n  </creatorinfo>\n  \
             <processinfo>\n    <process>transfer</process>\n",
            env!("CARGO_PKG_VERSION")
        );
        if let Some(root) = &elements.root {
            xml.extend_from_slice(b"    <roothash>\n");
            write_digests(root, &date, &mut xml);
            xml.extend_from_slice(b"    </roothash>\n");
        }
        xml.extend_from_slice(b"    <ignore>\n");
        let patterns = self.history.ignore.patterns().iter();
        for pattern in patterns.chain(&self.added_patterns) {
            xml.extend_from_slice(b"      <pattern>");
            escape(pattern, &mut xml);
            xml.extend_from_slice(b"</pattern>\n");
        }
        xml.extend_from_slice(b"    </ignore>\n  </processinfo>\n");
        if !elements.is_empty {
            xml.extend_from_slice(b"  <hashes>\n");
        }
        xml
    }
}

/// The name of a tree, as the names of its generations have it. File systems that encrypt names
/// have room for 143 bytes.
fn name_in_file_names(name: &OsStr) -> String {
    const MAX_BYTES: usize = 100;
    let mut short = String::new();
    for letter in name.to_string_lossy().chars() {
        let is_text = !letter.is_control() && can_have(letter.encode_utf8(&mut [0; 4]));
        let letter = if is_text { letter } else { '_' };
        if short.len() + letter.len_utf8() > MAX_BYTES {
            break;
        }
        short.push(letter);
    }
    short
}

/// The name of a generation.
fn file_name(number: u32, tree: &str, time: Timestamp) -> String {
    let time = time.strftime("%Y-%m-%d_%H%M%SZ");
    format!("{number:04}_{tree}_{time}.mhl")
}

fn commit(file: BufferedFile, name: &str) -> io::Result<()> {
    commit_as(file, &CString::new(name)?).map_err(|error| naming(name, &error))
}

/// An error that names a file of the history.
fn naming(name: &str, error: &io::Error) -> io::Error {
    message::naming(format!("{DIRECTORY}/{name}").as_ref(), error)
}

fn commit_as(mut file: BufferedFile, name: &CStr) -> io::Result<()> {
    file.flush()?;
    file.new_file.settle()?;
    let file = file
        .new_file
        .commit(name, Replace::Yes, Durability::Synced)?;
    sys::close_file(file.into())
}
