//! The manifests of a tree: which files they are, which of them count, and whether they are whole.
//!
//! Every run of `zc-dircopy` leaves a manifest that holds the lines of all earlier ones. A tree may
//! also hold manifests that others wrote, and manifests that are files like others, because they
//! came from a source that is an archive itself.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::contents::{Contents, FileRange, NotRegular, open_regular};
use super::journal::{Left, is_journal};
use super::journal_entry::JournalEntry;
use super::line::ParseLineError;
use super::lines::{LONGEST, Lines};
use super::merge::{Records, Sorted};
use super::metadata::{Copied, End, Header, Included, ParseHeaderError};
use super::name::Name;
use super::record::{self, Announced, FileDigest, LineReader, Listed, Origin};
use super::spool::{Piece, PieceReader, Spool};
use crate::digest::{Algorithm, Digest, Stream};
use crate::dircopy::listing;
use crate::exit;

/// The longest last line of a manifest, in bytes.
const LONGEST_END: u64 = 256;

/// The manifests of a tree.
#[derive(Debug)]
pub(crate) struct Archive {
    /// The names of the manifests of this tree, the newest first.
    names: Vec<Name>,
    /// The same manifests, as a new one includes them.
    own: Vec<Included>,
    /// Files that have the name of a manifest and came from a source.
    copied: Vec<Copied>,
    newest: Option<Timestamp>,
    converts_paths: bool,
    damaged: Vec<(String, Damage)>,
    /// The manifests that no other one includes, the newest first.
    inputs: Vec<Input>,
    spool: Option<Arc<File>>,
    /// Journals of runs that were killed.
    journals: Vec<Left>,
    /// Journals whose entries stand in a manifest, or that have none.
    stale: Vec<Left>,
}

/// Where the records of a manifest are read.
#[derive(Debug)]
enum Input {
    Lines(Contents, Origin),
    Piece(Piece),
}

/// Why a manifest cannot be believed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{}", exit::worded(.0))]
    Unreadable(io::Error),
    #[error("{0}")]
    NotRegular(NotRegular),
    #[error(transparent)]
    Header(#[from] ParseHeaderError),
    #[error("it is empty")]
    Empty,
    #[error("its end is missing")]
    Cut,
    #[error("its lines do not have the digest that its end tells")]
    Altered,
    #[error("line {0}: {1}")]
    Malformed(u64, ParseLineError),
}

impl Damage {
    fn from_error(error: io::Error) -> Self {
        let what = error.get_ref().and_then(|inner| inner.downcast_ref());
        match what {
            Some(what) => Self::NotRegular(*what),
            None => Self::Unreadable(error),
        }
    }
}

/// Which manifests are read to their end and verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Those that no other one includes.
    Needed,
    /// All of them.
    All,
}

impl Archive {
    /// Finds the manifests in the root of a tree and verifies them. `converts_paths` tells whether
    /// backslashes in the lists of other programs separate names.
    ///
    /// Manifests that are [damaged](Self::damaged) still take part, as far as their lines can be
    /// read.
    ///
    /// # Errors
    ///
    /// The root cannot be read; a temporary file cannot be written.
    pub(crate) fn open(
        root: BorrowedFd<'_>,
        verify: Verify,
        converts_paths: bool,
    ) -> io::Result<Self> {
        let (mut journals, mut stale) = (Vec::new(), Vec::new());
        let mut damaged = Vec::new();
        for name in journals_in(root)? {
            let left = Left::new(name);
            match left.entries(root) {
                // It is opened again when its turn comes: there may be more of them than descriptors.
                Ok(Some((header, _))) => journals.push((left, header)),
                // Nothing was done before the run was killed.
                Ok(None) => stale.push(left),
                // A run that ends while this one verifies removes its journal.
                Err(Damage::Unreadable(error))
                    if verify == Verify::All && error.kind() == io::ErrorKind::NotFound => {}
                Err(damage) => damaged.push((left.to_string(), damage)),
            }
        }
        // A run that ends meanwhile removes its journal when its manifest has a name.
        let mut candidates = Vec::new();
        for name in names_in(root)? {
            candidates.push(Candidate::read(root, name));
        }
        let in_journals = journals.iter().flat_map(|(_, header)| &header.copied);
        let (copied, mut disowned) = separate_copied(root, &mut candidates, in_journals);
        candidates.sort_by_key(|candidate| Reverse(candidate.age()));
        disowned.sort_by_key(|candidate| Reverse(candidate.age()));
        let mut archive = Self {
            names: candidates.iter().map(|candidate| candidate.name).collect(),
            own: candidates.iter().filter_map(Candidate::included).collect(),
            copied,
            converts_paths,
            newest: journals
                .iter()
                .map(|(_, header)| Some(header.time))
                .chain([candidates.first().and_then(Candidate::time)])
                .max()
                .flatten(),
            damaged,
            inputs: Vec::new(),
            spool: None,
            journals: Vec::new(),
            stale: Vec::new(),
        };
        let mut included = HashSet::new();
        let mut spool = None;
        for candidate in &candidates {
            if let Ok(Some(header)) = &candidate.header {
                let is_included = |left: &Left| header.journals.iter().any(|name| left.has(name));
                let included = journals.extract_if(.., |(left, _)| is_included(left));
                stale.extend(included.map(|(left, _)| left));
            }
        }
        journals.sort_by_key(|(_, header)| Reverse(header.time));
        let mut journals = journals.into_iter().peekable();
        for candidate in candidates {
            // The newest comes first.
            while let Some((left, _)) =
                journals.next_if(|(_, header)| Some(header.time) > candidate.time())
            {
                archive.add_journal(root, left, &mut spool)?;
            }
            let is_included = candidate
                .included()
                .is_some_and(|own| included.contains(&own));
            if let Ok(Some(header)) = &candidate.header {
                included.extend(header.includes.iter().copied());
            }
            if !is_included {
                archive.add(root, &candidate, &mut spool)?;
            } else if verify == Verify::All {
                let name = candidate.name;
                let damage = candidate.survey(root, archive.origin_of(&candidate)).err();
                let name = name.to_string();
                archive.damaged.extend(damage.map(|damage| (name, damage)));
            }
        }
        for (left, _) in journals {
            archive.add_journal(root, left, &mut spool)?;
        }
        for candidate in disowned {
            archive.add_disowned(root, &candidate, &mut spool)?;
        }
        archive.spool = spool.map(Spool::finish).transpose()?;
        archive.stale = stale;
        Ok(archive)
    }

    /// Adds the entries of a journal.
    fn add_journal(
        &mut self,
        root: BorrowedFd<'_>,
        left: Left,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let mut entries = match left.entries(root) {
            Ok(Some((_, entries))) => entries,
            // It could be read a moment ago.
            other => {
                let damage = other.err().unwrap_or(Damage::Cut);
                self.damaged.push((left.to_string(), damage));
                return Ok(());
            }
        };
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::new()?),
        };
        let pieces = spool.sort(|| entries.next())?;
        let pieces = pieces.into_iter().rev().map(Input::Piece);
        self.inputs.extend(pieces);
        if entries.is_damaged() {
            self.damaged.push((left.to_string(), Damage::Altered));
        }
        self.journals.push(left);
        Ok(())
    }

    /// Verifies a manifest and adds its records.
    fn add(
        &mut self,
        root: BorrowedFd<'_>,
        candidate: &Candidate,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let name = candidate.name;
        let surveyed = candidate.survey(root, self.origin_of(candidate));
        let is_direct = self.inputs.is_empty() && matches!(surveyed, Ok(Order::Sorted));
        if let Err(damage) = surveyed {
            self.damaged.push((name.to_string(), damage));
        }
        let Some(contents) = self.contents_of(candidate, root) else {
            return Ok(());
        };
        let origin = self.origin_of(candidate);
        if is_direct {
            self.inputs.push(Input::Lines(contents, origin));
            return Ok(());
        }
        self.add_lines(&contents, origin, JournalEntry::Has, spool)
    }

    /// Adds the lines of a manifest that came from a source. They count for files that exist and of
    /// which nothing else is known: the manifest may speak of a part of this tree that its own
    /// manifests do not know, if this tree was put together by hand.
    fn add_disowned(
        &mut self,
        root: BorrowedFd<'_>,
        candidate: &Candidate,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        if matches!(candidate.header, Err(Damage::NotRegular(_))) {
            // The source has a symbolic link or a special file of this name, and so has the copy.
            return Ok(());
        }
        let Some(contents) = self.contents_of(candidate, root) else {
            return Ok(());
        };
        let if_it_exists = |file| JournalEntry::Announced(Announced::Adds(file));
        let origin = self.origin_of(candidate);
        self.add_lines(&contents, origin, if_it_exists, spool)
    }

    /// Opens a manifest, which is damaged if that fails.
    fn contents_of(&mut self, candidate: &Candidate, root: BorrowedFd<'_>) -> Option<Contents> {
        let name = candidate.name.to_string();
        match candidate.contents(root) {
            Ok(contents) => Some(contents),
            Err(error) => {
                if self.damaged.iter().all(|(damaged, _)| *damaged != name) {
                    self.damaged.push((name, Damage::Unreadable(error)));
                }
                None
            }
        }
    }

    /// Sorts lines on disk.
    fn add_lines(
        &mut self,
        contents: &Contents,
        origin: Origin,
        entry: impl Fn(FileDigest) -> JournalEntry,
        spool: &mut Option<Spool>,
    ) -> io::Result<()> {
        let spool = match spool {
            Some(spool) => spool,
            None => spool.insert(Spool::new()?),
        };
        let mut lines = Lines::of(contents.reader());
        let next = || {
            let listed = parse_next(&mut lines, origin)?;
            Ok(listed.map(|listed| (listed.path, entry(listed.file))))
        };
        let pieces = spool.sort(next)?;
        // The last line for a path counts.
        let pieces = pieces.into_iter().rev().map(Input::Piece);
        self.inputs.extend(pieces);
        Ok(())
    }

    fn origin_of(&self, candidate: &Candidate) -> Origin {
        Origin {
            algorithm: candidate.name.algorithm(),
            is_foreign: candidate.is_foreign(),
            converts_paths: self.converts_paths,
        }
    }

    /// The manifests that cannot be believed.
    pub(crate) fn damaged(&self) -> &[(String, Damage)] {
        &self.damaged
    }

    /// Whether the tree has no manifest, and no journal.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.journals.is_empty()
    }

    /// Whether runs were killed that have left journals.
    pub(crate) fn has_journals(&self) -> bool {
        !self.journals.is_empty()
    }

    /// Removes the journals whose entries stand in a manifest. `is_finished` tells that a new
    /// manifest has all of them.
    pub(crate) fn remove_journals(&mut self, root: BorrowedFd<'_>, is_finished: bool) {
        if is_finished {
            self.stale.append(&mut self.journals);
        }
        for left in self.stale.drain(..) {
            left.remove(root);
        }
    }

    /// Whether a file in the root is a manifest of this tree, or the comments of one.
    pub(crate) fn owns(&self, name: &[u8]) -> bool {
        let Ok(name) = str::from_utf8(name) else {
            return false;
        };
        let (manifest, is_info) = match name.strip_suffix(super::INFO) {
            Some(manifest) => (manifest, true),
            None => (name, false),
        };
        manifest.parse::<Name>().is_ok_and(|manifest| {
            let may_have_info = manifest.algorithm() == Algorithm::Blake3;
            self.names.contains(&manifest) && (may_have_info || !is_info)
        })
    }

    /// The names of all files in the root that are manifests of this tree, or may be the comments of
    /// one.
    pub(crate) fn file_names(&self) -> impl Iterator<Item = String> {
        let with_info = |name: &Name| [name.to_string(), format!("{name}{}", super::INFO)];
        self.names.iter().flat_map(with_info)
    }

    /// Whether a manifest tells that this file came from a source.
    pub(crate) fn knows_copied(&self, copied: &Copied) -> bool {
        self.copied.contains(copied)
    }

    /// The algorithm of the newest manifest.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        Some(self.names.first()?.algorithm())
    }

    /// The newest record of every path that any manifest knows.
    ///
    /// # Errors
    ///
    /// A manifest cannot be read.
    pub(crate) fn records(&self) -> io::Result<Records> {
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            match (input, &self.spool) {
                (Input::Lines(contents, origin), _) => {
                    let lines = LineReader::new(contents.reader(), *origin);
                    inputs.push(Sorted::Lines(lines));
                }
                (Input::Piece(piece), Some(spool)) => {
                    inputs.push(Sorted::Piece(PieceReader::new(spool, piece.clone())));
                }
                // Pieces stand in the spool.
                (Input::Piece(_), None) => {}
            }
        }
        Records::merge(inputs)
    }

    /// The header of a new manifest, which holds the lines of all that there are.
    ///
    /// `copied` are the files in the root of the source that have the name of a manifest.
    pub(crate) fn next_header(&self, source: Vec<u8>, mut copied: Vec<Copied>) -> Header {
        let mut time = Timestamp::now();
        if let Some(newest) = self.newest
            && time <= newest
        {
            // The clock was set back.
            let later = newest.checked_add(SignedDuration::from_nanos(2));
            time = later.unwrap_or(newest);
        }
        for known in &self.copied {
            if copied.iter().all(|copied| copied.name != known.name) {
                copied.push(*known);
            }
        }
        Header {
            time,
            source,
            includes: self.own.clone(),
            journals: self
                .journals
                .iter()
                .map(|left| left.name().to_vec())
                .collect(),
            copied,
        }
    }
}

/// The next line that is well-formed.
fn parse_next<R: Read>(lines: &mut Lines<R>, origin: Origin) -> io::Result<Option<Listed>> {
    loop {
        let Some(line) = lines.next()? else {
            return Ok(None);
        };
        let parsed = line.and_then(|line| record::parse(&line, origin));
        if let Ok(listed) = parsed {
            return Ok(Some(listed));
        }
    }
}

/// The files in the root of a source that have the name of a manifest, and their digests.
///
/// # Errors
///
/// The directory or one of the files cannot be read.
pub(crate) fn manifests_in_source(root: BorrowedFd<'_>) -> io::Result<Vec<Copied>> {
    let mut copied = Vec::new();
    for name in names_in(root)? {
        let digest = match digest_of(root, name) {
            Ok(digest) => digest,
            // A file of this name that cannot be read, or is not regular, is no manifest either.
            Err(_) => Stream::new(Algorithm::Sha256).finish(),
        };
        copied.push(Copied { name, digest });
    }
    Ok(copied)
}

/// The names of manifests that anything but a directory has.
fn names_in(root: BorrowedFd<'_>) -> io::Result<Vec<Name>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(rustix::fd::AsFd::as_fd(&directory), |name, kind| {
        if let Some(name) = parse_name(name)
            && kind != FileType::Directory
        {
            names.push(name);
        }
    })?;
    names.retain(|name| {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(root, name.to_string(), flags);
        !stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    });
    Ok(names)
}

/// The names of journals.
fn journals_in(root: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(root, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    listing::each(rustix::fd::AsFd::as_fd(&directory), |name, kind| {
        if is_journal(name.to_bytes()) && kind != FileType::Directory {
            names.push(name.to_owned());
        }
    })?;
    Ok(names)
}

fn parse_name(name: &CStr) -> Option<Name> {
    name.to_str().ok()?.parse().ok()
}

fn digest_of(root: BorrowedFd<'_>, name: Name) -> io::Result<Digest> {
    let (file, _) = open_regular(root, &*name.to_string())?;
    let mut hashed = Hashed {
        inner: file,
        stream: Stream::new(Algorithm::Sha256),
    };
    io::copy(&mut hashed, &mut io::sink())?;
    Ok(hashed.stream.finish())
}

/// Takes those candidates away that are files like others, and returns them.
///
/// A manifest names such files with their digests, which no file can foresee of a later manifest. So
/// a file that names a manifest of this tree is believed only if nobody names that file.
fn separate_copied<'a>(
    root: BorrowedFd<'_>,
    candidates: &mut Vec<Candidate>,
    in_journals: impl Iterator<Item = &'a Copied>,
) -> (Vec<Copied>, Vec<Candidate>) {
    let mut named: Vec<(Option<Name>, Copied)> = Vec::new();
    named.extend(in_journals.map(|copied| (None, *copied)));
    for candidate in &*candidates {
        if let Ok(Some(header)) = &candidate.header {
            let others = header.copied.iter();
            let others = others.filter(|copied| copied.name != candidate.name);
            named.extend(others.map(|copied| (Some(candidate.name), *copied)));
        }
    }
    let mut found: Vec<Copied> = Vec::new();
    for (_, copied) in &named {
        let is_known = found.iter().any(|found| found.name == copied.name);
        if !is_known && digest_of(root, copied.name).is_ok_and(|digest| digest == copied.digest) {
            found.push(*copied);
        }
    }
    let certain: HashSet<Name> = found.iter().map(|found| found.name).collect();
    for (by, copied) in named {
        let is_present = candidates.iter().any(|found| found.name == copied.name);
        let is_known = found.iter().any(|found| found.name == copied.name);
        // The file has changed since.
        if is_present && !is_known && by.is_none_or(|by| !certain.contains(&by)) {
            found.push(copied);
        }
    }
    let is_found = |candidate: &mut Candidate| {
        let name = candidate.name;
        found.iter().any(|found| found.name == name)
    };
    let disowned = candidates.extract_if(.., is_found).collect();
    (found, disowned)
}

/// A file that may be a manifest.
#[derive(Debug)]
struct Candidate {
    name: Name,
    /// What tells the manifest from another one of the same name: the digest of its lines that the
    /// end tells, or else of the whole file. `None` if it cannot be read.
    digest: Option<Digest>,
    /// `None`, if another program wrote it.
    header: Result<Option<Header>, Damage>,
}

/// Whether the lines of a manifest are sorted by path, each path once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sorted,
    Unsorted,
}

/// The parts of a manifest that has been opened.
struct Parts {
    contents: Contents,
    end: Option<End>,
    /// Whether the last line has its newline.
    is_ended: bool,
    size: u64,
}

impl Candidate {
    /// Reads the header. Nobody removes manifests, so that one which is not found is damaged: the
    /// cache of a network file system may be stale.
    fn read(root: BorrowedFd<'_>, name: Name) -> Self {
        let header = match read_header(root, name) {
            Ok(header) => header,
            Err(error) => Err(Damage::from_error(error)),
        };
        let mut candidate = Self {
            name,
            digest: None,
            header,
        };
        match candidate.find_digest(root) {
            Ok(digest) => candidate.digest = Some(digest),
            Err(error) if candidate.header.is_ok() => {
                candidate.header = Err(Damage::Unreadable(error));
            }
            Err(_) => {}
        }
        candidate
    }

    fn find_digest(&self, root: BorrowedFd<'_>) -> io::Result<Digest> {
        if let Ok(Some(_)) = &self.header
            && let Some(end) = self.parts(root)?.end
        {
            return Ok(end.digest);
        }
        digest_of(root, self.name)
    }

    fn included(&self) -> Option<Included> {
        let (name, digest) = (self.name, self.digest?);
        Some(Included { name, digest })
    }

    fn is_foreign(&self) -> bool {
        !matches!(self.header, Ok(Some(_)))
    }

    fn time(&self) -> Option<Timestamp> {
        Some(self.header.as_ref().ok()?.as_ref()?.time)
    }

    /// Manifests with a time are newer than those without, whatever their names tell.
    fn age(&self) -> (Option<Timestamp>, Name) {
        (self.time(), self.name)
    }

    fn contents(&self, root: BorrowedFd<'_>) -> io::Result<Contents> {
        Ok(self.parts(root)?.contents)
    }

    fn parts(&self, root: BorrowedFd<'_>) -> io::Result<Parts> {
        let name = self.name.to_string();
        let (file, size) = open_regular(root, &*name)?;
        let file = Arc::new(file);
        let range = |file: &Arc<File>, end| FileRange {
            file: Arc::clone(file),
            start: 0,
            end,
        };
        let last = last_line(&file, size)?;
        let is_ended = last.ends_with(b"\n");
        let info = match self.name.algorithm() {
            Algorithm::Sha256 => None,
            Algorithm::Blake3 => open_info(root, &name)?,
        };
        if let Some((info, info_size)) = info {
            let info = Arc::new(info);
            let last = last_line(&info, info_size)?;
            let end = End::parse(&last).filter(|_| last.ends_with(b"\n"));
            let info_end = end.map_or(info_size, |_| info_size - last.len() as u64);
            let ranges = vec![range(&info, info_end), range(&file, size)];
            return Ok(Parts {
                contents: Contents::new(ranges),
                end,
                is_ended,
                size,
            });
        }
        let end = End::parse(&last).filter(|_| is_ended);
        let lines_end = end.map_or(size, |_| size - last.len() as u64);
        Ok(Parts {
            contents: Contents::new(vec![range(&file, lines_end)]),
            end,
            is_ended,
            size,
        })
    }

    /// Reads all lines and verifies them.
    fn survey(&self, root: BorrowedFd<'_>, origin: Origin) -> Result<Order, Damage> {
        let is_foreign = match &self.header {
            Ok(header) => header.is_none(),
            Err(Damage::Header(error)) => return Err((*error).into()),
            Err(Damage::NotRegular(what)) => return Err(Damage::NotRegular(*what)),
            Err(Damage::Unreadable(error)) => {
                let error = io::Error::new(error.kind(), exit::worded(error));
                return Err(Damage::Unreadable(error));
            }
            Err(_) => return Err(Damage::Cut),
        };
        let parts = self.parts(root).map_err(Damage::Unreadable)?;
        let is_blake3 = self.name.algorithm() == Algorithm::Blake3;
        if parts.size == 0 && (is_foreign || !is_blake3) {
            return Err(Damage::Empty);
        }
        if parts.size > 0 && !parts.is_ended || is_foreign == parts.end.is_some() {
            return Err(Damage::Cut);
        }
        let mut hashed = Hashed {
            inner: parts.contents.reader(),
            stream: Stream::new(Algorithm::Sha256),
        };
        let mut lines = Lines::of(&mut hashed);
        let mut order = Order::Sorted;
        let (mut last, mut n_lines) = (None::<Vec<u8>>, 0);
        while let Some(line) = lines.next().map_err(Damage::Unreadable)? {
            n_lines += 1;
            let parsed = line.and_then(|line| record::parse(&line, origin));
            match parsed {
                Ok(record) => {
                    if last.is_some_and(|last| last >= record.path) {
                        order = Order::Unsorted;
                    }
                    last = Some(record.path);
                }
                // The digest tells it better.
                Err(_) if parts.end.is_some() => last = None,
                Err(error) => return Err(Damage::Malformed(n_lines, error)),
            }
        }
        drop(lines);
        let found = End {
            n_lines,
            digest: hashed.stream.finish(),
        };
        if parts.end.is_some_and(|end| end != found) {
            return Err(Damage::Altered);
        }
        Ok(order)
    }
}

/// The comments of a BLAKE3 manifest and their size, if there are any.
fn open_info(root: BorrowedFd<'_>, name: &str) -> io::Result<Option<(File, u64)>> {
    match open_regular(root, &*format!("{name}{}", super::INFO)) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The header of a manifest, or `None` if another program wrote the manifest.
fn read_header(root: BorrowedFd<'_>, name: Name) -> io::Result<Result<Option<Header>, Damage>> {
    let file_name = name.to_string();
    let (file, _) = open_regular(root, &*file_name)?;
    let info = match name.algorithm() {
        Algorithm::Sha256 => None,
        Algorithm::Blake3 => match open_info(root, &file_name)? {
            Some((info, _)) => Some(info),
            None => return Ok(Ok(None)),
        },
    };
    // The file with the comments of a BLAKE3 manifest is this program's.
    let needs_header = info.is_some();
    let file = info.unwrap_or(file);
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    let mut parser = None;
    loop {
        line.clear();
        lines.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        let is_comment = line.starts_with(b"#") && End::parse(&line).is_none();
        let parsed = match (&mut parser, is_comment) {
            (None, _) => match Header::begin(&line) {
                Ok(None) if needs_header => Err(ParseHeaderError::Damaged),
                Ok(None) => return Ok(Ok(None)),
                Ok(begun) => {
                    parser = begun;
                    Ok(())
                }
                Err(error) => Err(error),
            },
            (Some(parser), true) => parser.push(&line),
            (Some(_), false) => break,
        };
        if let Err(error) = parsed {
            return Ok(Err(error.into()));
        }
    }
    let header = parser.map(super::metadata::HeaderParser::finish);
    Ok(header.transpose().map_err(Damage::from))
}

/// The last line of a file, if it is short.
fn last_line(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut file = file;
    let length = size.min(LONGEST_END);
    file.seek(SeekFrom::Start(size - length))?;
    let mut tail = Vec::new();
    file.take(length).read_to_end(&mut tail)?;
    let before_newline = tail.len().saturating_sub(1);
    let begin = memchr::memrchr(b'\n', &tail[..before_newline]);
    Ok(tail.split_off(begin.map_or(0, |newline| newline + 1)))
}

/// Hashes what is read.
struct Hashed<R> {
    inner: R,
    stream: Stream,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.stream.update(&buffer[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
