//! Writes a generation.
//!
//! A run lists the files that it has read. The digests of directories have those of all files: of a
//! file that the run has not read, they have the recorded one. A file without a record is read and
//! listed as an original.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::chain::{self, Link};
use super::directories::{DirectoryDigest, Entries};
use super::format::{FORMATS, text_of};
use super::history::{GenerationFile, History, directory_in, sha512_of};
use super::xml::{can_have, escape};
use super::{CHAIN, DIRECTORY};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::digest::AlgorithmSet;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm, Hasher};
use crate::common::sys;
use crate::dircopy::damage_map::{DamageMap, EmptyFile};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::interrupt::Interrupt;
use crate::dircopy::manifest::hash_file::hash_file;
use crate::dircopy::manifest::inventory::{Inventory, Kinds};
use crate::dircopy::manifest::journal::entry::JournalEntry;
use crate::dircopy::manifest::journal::is_journal;
use crate::dircopy::manifest::open_beneath;
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::manifest::read::merge::{Records, Sorted};
use crate::dircopy::manifest::read::spool::{PieceReader, Sorter, Spool};
use crate::dircopy::manifest::record::{Announced, Record};
use crate::dircopy::manifest::write::buffered_file::{BufferedFile, remove_leftovers};
use crate::dircopy::stat::size;
use crate::dircopy::walk::listing;
use crate::dircopy::write::atomic_file::{Durability, Replace, temp_name};
use crate::dircopy::write::temporary_file::temporary_file;

/// The error of a file that is read for a generation.
const DIFFERS: &str = "it differs from the digest that it was recorded with";

/// The error of a generation that the list of all generations lacks.
const ORPHAN: &str = "ascmhl_chain.xml lacks this generation, which stays and does not count";

/// How a run knows the digest of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// It has read the file.
    Read,
    /// It has read the file, which differs from its record.
    Differs,
    /// An earlier run has recorded it.
    Carried,
}

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
    list: Option<List>,
}

/// The elements of a generation.
#[derive(Debug)]
struct List {
    elements: File,
    has_elements: bool,
    /// The digests of the root. `None` if a file could not be read.
    root: Option<Vec<(ChecksumAlgorithm, DirectoryDigest)>>,
}

impl GenerationWriter {
    /// Begins a generation of the history in `root`. `recorded` are the records of the history, and
    /// `name` is the name of the tree.
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
            list: None,
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
    /// cannot be read, each with its error. After a signal nothing more is read, and the generation
    /// is not to be finished.
    ///
    /// # Errors
    ///
    /// A directory cannot be read; a temporary file cannot be written.
    pub(crate) fn list(
        &mut self,
        most_open: usize,
        interrupt: Option<&Interrupt>,
    ) -> io::Result<Vec<(Vec<u8>, anyhow::Error)>> {
        let found = std::mem::replace(&mut self.found, Sorter::new(Spool::new()?));
        let (spool, pieces) = found.finish()?;
        let spool = spool.finish()?;
        let pieces = pieces.into_iter();
        let pieces = pieces.map(|piece| Sorted::Piece(PieceReader::new(&spool, piece)));
        let ignore = self.history.ignore.clone();
        let is_listed = |path: &[u8], is_directory: bool| {
            let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let is_hidden = temp_name::is_temp_name(name) || is_journal(path);
            !is_hidden && !ignore.matches(path, is_directory)
        };
        let root = self.root.as_fd();
        let inventory = Inventory::of(root, most_open, Kinds::FilesAndDirectories, is_listed)?;
        let mut listing = Listing {
            root,
            null: File::options().write(true).open("/dev/null")?,
            algorithms: self.algorithms,
            found: Records::merge(pieces.collect())?,
            recorded: &mut self.recorded,
            interrupt,
            is_compared: self.history.is_compared,
            levels: Vec::new(),
            elements: BufWriter::new(temporary_file()?),
            has_elements: false,
            date: date(Timestamp::now()),
            failures: Vec::new(),
        };
        listing.enter(Vec::new());
        let mut tree = inventory.paths()?;
        while let Some(Record { path, .. }) = tree.next()? {
            listing.leave_until(&path)?;
            match path.strip_suffix(b"/") {
                Some(directory) => listing.enter(directory.to_vec()),
                None => listing.add_file(path)?,
            }
        }
        while listing.levels.len() > 1 {
            listing.leave()?;
        }
        let top = listing.levels.pop();
        let mut elements = listing.elements.into_inner().map_err(io::Error::from)?;
        elements.rewind()?;
        self.list = Some(List {
            elements,
            has_elements: listing.has_elements,
            root: top.and_then(Level::finish),
        });
        let mut failures = listing.failures;
        for orphan in self.orphans()?.kept {
            let path = format!("{DIRECTORY}/{}", orphan.to_string_lossy());
            failures.push((path.into_bytes(), anyhow!(ORPHAN)));
        }
        Ok(failures)
    }

    /// The generations of the destination that the list of all generations lacks.
    fn orphans(&self) -> io::Result<Orphans> {
        match directory_in(self.root.as_fd()) {
            Ok(directory) => Orphans::of(directory.as_fd(), &self.history.generations),
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
        let mut list = self.list.take().ok_or_else(unlisted)?;
        match rustix::fs::mkdirat(&self.root, DIRECTORY, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let directory = Arc::new(directory_in(self.root.as_fd())?);
        let orphans = Orphans::of(directory.as_fd(), &self.history.generations)?;
        for name in &orphans.own {
            rustix::fs::unlinkat(&directory, &**name, AtFlags::empty())?;
        }
        remove_leftovers(directory.as_fd())?;
        for generation in &self.history.generations[self.history.n_own..] {
            let copied = self.copy(generation, &directory);
            copied.map_err(|error| naming(&generation.link.name, &error))?;
        }
        let generations = self.history.generations.iter();
        let mut links: Vec<_> = generations.map(|file| file.link.clone()).collect();
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
        put(&self.head(&list))?;
        let mut block = [0; 8 << 10];
        loop {
            let n = list.elements.read(&mut block)?;
            if n == 0 {
                break;
            }
            put(&block[..n])?;
        }
        if list.has_elements {
            put(b"  </hashes>\n")?;
        }
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
    fn head(&self, list: &List) -> Vec<u8> {
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
            "</hostname>\n    <tool version=\"{}\">zc-dircopy</tool>\n  </creatorinfo>\n  \
             <processinfo>\n    <process>transfer</process>\n",
            env!("CARGO_PKG_VERSION")
        );
        if let Some(root) = &list.root {
            xml.extend_from_slice(b"    <roothash>\n");
            write_digests(root, &date, &mut xml);
            xml.extend_from_slice(b"    </roothash>\n");
        }
        xml.extend_from_slice(b"    <ignore>\n");
        for pattern in self.history.ignore.patterns() {
            xml.extend_from_slice(b"      <pattern>");
            escape(pattern, &mut xml);
            xml.extend_from_slice(b"</pattern>\n");
        }
        xml.extend_from_slice(b"    </ignore>\n  </processinfo>\n");
        if list.has_elements {
            xml.extend_from_slice(b"  <hashes>\n");
        }
        xml
    }
}

/// A tree that is being listed.
struct Listing<'a> {
    root: BorrowedFd<'a>,
    null: File,
    algorithms: AlgorithmSet,
    found: Records,
    recorded: &'a mut Records,
    /// Whether the source has another history, which is only compared with.
    is_compared: bool,
    interrupt: Option<&'a Interrupt>,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    elements: BufWriter<File>,
    has_elements: bool,
    date: String,
    failures: Vec<(Vec<u8>, anyhow::Error)>,
}

/// The digests of the bytes of a file.
#[derive(Clone, Copy)]
struct Contents {
    file: FileDigest,
    /// The digest that the record is compared with, if `file` has no function of the record.
    evidence: Option<FileDigest>,
}

impl Contents {
    /// Compares the checksums of the functions that both have. `None` if there are none.
    fn agreement(self, recorded: FileDigest) -> Option<bool> {
        self.evidence.unwrap_or(self.file).agreement(recorded)
    }

    fn checksum(self, algorithm: ChecksumAlgorithm) -> Option<Checksum> {
        let own = self.file.checksum(algorithm);
        own.or_else(|| self.evidence?.checksum(algorithm))
    }
}

/// A directory.
struct Level {
    path: Vec<u8>,
    entries: Vec<Entries>,
    /// Whether the digests of all files are known.
    is_known: bool,
}

impl Level {
    fn finish(self) -> Option<Vec<(ChecksumAlgorithm, DirectoryDigest)>> {
        let digests = self.entries.into_iter();
        let digests = digests.map(|entries| (entries.algorithm(), entries.finish()));
        self.is_known.then(|| digests.collect())
    }
}

impl Listing<'_> {
    fn enter(&mut self, path: Vec<u8>) {
        let in_order = FORMATS.into_iter().map(|(_, algorithm)| algorithm);
        let algorithms = in_order.filter(|algorithm| self.algorithms.contains(*algorithm));
        self.levels.push(Level {
            path,
            entries: algorithms.map(Entries::new).collect(),
            is_known: true,
        });
    }

    /// Leaves the directories that this path is not in.
    fn leave_until(&mut self, path: &[u8]) -> io::Result<()> {
        while self.levels.len() > 1
            && let Some(level) = self.levels.last()
        {
            let below = path.strip_prefix(&*level.path);
            if below.is_some_and(|below| below.starts_with(b"/")) {
                break;
            }
            self.leave()?;
        }
        Ok(())
    }

    fn leave(&mut self) -> io::Result<()> {
        let Some(level) = self.levels.pop() else {
            return Ok(());
        };
        let path = level.path.clone();
        let digests = level.finish();
        let Some(above) = self.levels.last_mut() else {
            return Ok(());
        };
        let Some(digests) = digests else {
            above.is_known = false;
            return Ok(());
        };
        for (entries, (_, digest)) in above.entries.iter_mut().zip(&digests) {
            entries.add_directory(base_name(&path), *digest);
        }
        let stat = open_beneath::stat(self.root, &path)?;
        let mut xml = b"    <directoryhash>\n".to_vec();
        write_path(&path, &stat, None, &mut xml);
        write_digests(&digests, &self.date, &mut xml);
        xml.extend_from_slice(b"    </directoryhash>\n");
        self.put(&xml)
    }

    fn put(&mut self, element: &[u8]) -> io::Result<()> {
        self.has_elements = true;
        self.elements.write_all(element)
    }

    /// Why a file of the tree has no element, if it has none.
    fn refusal(&self, path: &[u8]) -> Option<anyhow::Error> {
        if !str::from_utf8(path).is_ok_and(can_have) {
            return Some(anyhow!("XML cannot have its name"));
        }
        let (directory, name) = open_beneath::parent(self.root, path).ok()?;
        let map = DamageMap::of_file(directory.as_fd(), &name, EmptyFile::Other);
        let is_damaged = map.ok().flatten().is_some_and(|map| !map.is_empty());
        is_damaged.then(|| anyhow!("it is damaged, and not listed"))
    }

    fn add_file(&mut self, path: Vec<u8>) -> io::Result<()> {
        if self.interrupt.is_some_and(Interrupt::is_requested) {
            return Ok(());
        }
        let recorded = self.recorded.find(&path)?.and_then(|record| record.file);
        let found = self.found.find(&path)?;
        let (file, knowledge) = match found {
            Some(Record {
                announced: Some(Announced::Adds(file)),
                ..
            }) => (Some(file), Knowledge::Carried),
            Some(Record {
                announced: Some(Announced::Replaces(file)),
                ..
            }) => (Some(file), Knowledge::Differs),
            Some(Record { file, .. }) => (file, Knowledge::Read),
            None => (None, Knowledge::Read),
        };
        // The history of the source, if it is another one, may be all that knows the file.
        let is_hearsay = self.is_compared && knowledge == Knowledge::Carried && recorded.is_none();
        let is_complete = file.is_some_and(|file| {
            let own = AlgorithmSet::from(file.algorithm);
            let is_comparable = recorded.is_none_or(|recorded| file.agreement(recorded).is_some());
            own.includes(self.algorithms) && is_comparable && !is_hearsay
        });
        let known = recorded.or(file);
        let is_reported = knowledge == Knowledge::Differs;
        let mut evidence = None;
        let (file, knowledge) = match file.filter(|_| is_complete) {
            Some(file) => (file, knowledge),
            None => match self.read_or_refuse(&path, known) {
                Ok(read) => {
                    evidence = read.evidence;
                    let differs = known.is_some_and(|known| read.agreement(known) != Some(true));
                    let mut knowledge = Knowledge::Read;
                    if differs {
                        if !is_reported {
                            let error = anyhow!(DIFFERS);
                            self.failures.push((path.clone(), error));
                        }
                        knowledge = Knowledge::Differs;
                    }
                    (read.file, knowledge)
                }
                // The run writes no generation.
                Err(_) if self.interrupt.is_some_and(Interrupt::is_requested) => return Ok(()),
                Err(error) => {
                    self.failures.push((path, error));
                    if let Some(level) = self.levels.last_mut() {
                        level.is_known = false;
                    }
                    return Ok(());
                }
            },
        };
        if let Some(level) = self.levels.last_mut() {
            for entries in &mut level.entries {
                if let Some(checksum) = file.checksum(entries.algorithm()) {
                    entries.add_file(base_name(&path), checksum);
                }
            }
        }
        match (knowledge, recorded) {
            // The history has the file already.
            (Knowledge::Carried, Some(_)) => Ok(()),
            // Only the journal of a killed run has its digest. In a generation the file would be an
            // original as it is now.
            (Knowledge::Differs, None) => Err(io::Error::other(format!(
                "{} differs from what a killed run copied: repair it by --overwrite-policy=update, \
                 or remove it",
                quoted(OsStr::from_bytes(&path))
            ))),
            // A killed run recorded the file in its journal alone.
            (Knowledge::Carried, None) | (Knowledge::Read, _) | (Knowledge::Differs, Some(_)) => {
                self.put_file(&path, Contents { file, evidence }, recorded)
            }
        }
    }

    fn read_or_refuse(
        &self,
        path: &[u8],
        recorded: Option<FileDigest>,
    ) -> anyhow::Result<Contents> {
        match self.refusal(path).filter(|_| recorded.is_none()) {
            Some(error) => Err(error),
            None => self.read(path, recorded),
        }
    }

    /// Reads a file that lacks digests. One of the functions that it is recorded with is among
    /// them. The file is read a second time if a digest has no room for it.
    fn read(&self, path: &[u8], recorded: Option<FileDigest>) -> anyhow::Result<Contents> {
        let hash = |algorithm| {
            hash_file(self.root, path, algorithm, &self.null, self.interrupt)
                .map_err(|error| anyhow!(error).context("cannot read its copy"))
        };
        let set = recorded.map_or(self.algorithms, |file| {
            file.algorithms_with(self.algorithms)
        });
        let file = hash(set.into())?;
        let unlike = recorded.filter(|recorded| file.agreement(*recorded).is_none());
        let evidence = unlike
            .map(|recorded| hash(recorded.algorithm))
            .transpose()?;
        Ok(Contents { file, evidence })
    }

    fn put_file(
        &mut self,
        path: &[u8],
        contents: Contents,
        recorded: Option<FileDigest>,
    ) -> io::Result<()> {
        let stat = open_beneath::stat(self.root, path)?;
        let mut xml = b"    <hash>\n".to_vec();
        write_path(path, &stat, Some(size(&stat)), &mut xml);
        let has_failed =
            recorded.is_some_and(|recorded| contents.agreement(recorded) != Some(true));
        for (name, algorithm) in FORMATS {
            let Some(checksum) = contents.checksum(algorithm) else {
                continue;
            };
            let known = recorded.map(|recorded| recorded.checksum(algorithm));
            let action = match known {
                None => "original",
                Some(Some(known)) if known != checksum => "failed",
                // Nothing vouches for a new digest of a file that has failed.
                Some(None) if has_failed => continue,
                Some(_) => "verified",
            };
            write_checksum(
                name,
                algorithm,
                &checksum,
                Some(action),
                &self.date,
                &mut xml,
            );
        }
        xml.extend_from_slice(b"    </hash>\n");
        self.put(&xml)
    }
}

fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A time as XML has it.
fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

fn write_path(path: &[u8], stat: &Stat, size: Option<u64>, xml: &mut Vec<u8>) {
    xml.extend_from_slice(b"      <path");
    // Writing to a vector cannot fail.
    if let Some(size) = size {
        let _ = write!(xml, " size=\"{size}\"");
    }
    if let Ok(modified) = Timestamp::from_second(stat.st_mtime) {
        let _ = write!(xml, " lastmodificationdate=\"{}\"", date(modified));
    }
    xml.push(b'>');
    // Only paths that XML can have are copied.
    escape(&OsStr::from_bytes(path).to_string_lossy(), xml);
    xml.extend_from_slice(b"</path>\n");
}

fn write_digests(digests: &[(ChecksumAlgorithm, DirectoryDigest)], date: &str, xml: &mut Vec<u8>) {
    for (element, content) in [("content", true), ("structure", false)] {
        let _ = writeln!(xml, "      <{element}>");
        for (algorithm, digest) in digests {
            let mut formats = FORMATS.into_iter();
            let format = formats.find(|(_, known)| known == algorithm);
            let checksum = if content {
                digest.content
            } else {
                digest.structure
            };
            if let Some((name, algorithm)) = format {
                xml.extend_from_slice(b"  ");
                write_checksum(name, algorithm, &checksum, None, date, xml);
            }
        }
        let _ = writeln!(xml, "      </{element}>");
    }
}

fn write_checksum(
    name: &str,
    algorithm: ChecksumAlgorithm,
    checksum: &Checksum,
    action: Option<&str>,
    date: &str,
    xml: &mut Vec<u8>,
) {
    let text = text_of(algorithm, checksum);
    let _ = write!(xml, "      <{name}");
    if let Some(action) = action {
        let _ = write!(xml, " action=\"{action}\"");
    }
    let _ = writeln!(xml, " hashdate=\"{date}\">{text}</{name}>");
}

/// Generations that the list of all generations lacks.
#[derive(Debug, Default)]
struct Orphans {
    /// A killed run has announced them under a temporary name, and left them.
    own: Vec<CString>,
    /// Another program may need them.
    kept: Vec<CString>,
}

impl Orphans {
    fn of(directory: BorrowedFd<'_>, listed: &[GenerationFile]) -> io::Result<Self> {
        let names = names_in(directory)?;
        let mut announced = Vec::new();
        for name in names
            .iter()
            .filter(|name| temp_name::is_temp_name(name.to_bytes()))
        {
            // A run that was killed before it had written the announcement made no generation.
            if let Ok((file, _)) = open_regular(directory, &**name)
                && let Ok(links) = chain::read(BufReader::new(file))
            {
                announced.extend(links);
            }
        }
        let mut orphans = Self::default();
        for name in names {
            let has_name = |link: &Link| link.name.as_bytes() == name.to_bytes();
            if !name.to_bytes().ends_with(b".mhl") || listed.iter().any(|file| has_name(&file.link))
            {
                continue;
            }
            let is_own = announced.iter().filter(|link| has_name(link)).any(|link| {
                let file = open_regular(directory, &*name);
                let found = file.and_then(|(file, _)| sha512_of(file));
                found.is_ok_and(|found| found == link.checksum)
            });
            if is_own {
                orphans.own.push(name);
            } else {
                orphans.kept.push(name);
            }
        }
        Ok(orphans)
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

/// The names in a directory.
fn names_in(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(opened.as_fd(), |name, _| names.push(name.to_owned()))?;
    Ok(names)
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
