//! The generations of a tree.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::chain::{self, Link};
use super::files::Files;
use super::generation::Generation;
use super::ignore::Ignore;
use super::nested::NestedHistories;
use super::renames::{Renames, Reused};
use super::{CHAIN, DIRECTORY, TOOL};
use crate::common::digest::Algorithm;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::read::archive::DamagedFile;
use crate::dircopy::manifest::read::contents::open_regular;
use crate::dircopy::manifest::read::damage::Damage;

/// How much is read at once, in bytes.
const BLOCK: usize = 64 << 10;

/// The file of a generation.
#[derive(Clone, Debug)]
pub(crate) struct GenerationFile {
    pub(super) link: Link,
    /// The directory that it is in.
    pub(super) directory: Arc<OwnedFd>,
    is_in_source: bool,
}

impl GenerationFile {
    pub(super) fn open(&self) -> io::Result<File> {
        Ok(open_regular(self.directory.as_fd(), &*self.link.name)?.0)
    }

    /// The path of the file from the root of its tree.
    pub(crate) fn path(&self) -> String {
        format!("{DIRECTORY}/{}", self.link.name)
    }

    fn damaged(&self, damage: Damage) -> DamagedFile {
        DamagedFile {
            name: self.path(),
            damage,
            is_in_source: self.is_in_source,
        }
    }

    fn verify(&self) -> Result<(), Damage> {
        if sha512_of(self.open()?)? == self.link.checksum {
            Ok(())
        } else {
            Err(Damage::Other("it differs from its C4 in the chain"))
        }
    }
}

/// The history of a destination, and that of the source.
#[derive(Debug)]
pub(crate) struct History {
    /// The generations of the destination, the oldest first.
    pub(super) generations: Vec<GenerationFile>,
    /// How many of them the destination has. The others are those of the source.
    pub(super) n_own: usize,
    /// Further generations of the source, if its history is another one.
    compared: Vec<GenerationFile>,
    /// Whether there are such generations.
    pub(super) is_compared: bool,
    /// Whether the destination has generations that the source lacks.
    pub(super) has_more: bool,
    /// What the history leaves out. For a run these are not the patterns that earlier runs have added
    /// for missing entries: the run finds out whether they are still missing.
    pub(super) ignore: Ignore,
    /// For a run, the patterns of the newest generation.
    pub(super) earlier: Ignore,
    is_of_run: bool,
    /// The histories below the root.
    nested: NestedHistories,
    algorithm: Option<Algorithm>,
    /// Generations that are damaged, and lists that cannot be read.
    damaged: Vec<DamagedFile>,
}

impl History {
    /// Finds the history in the root of a destination, and that in the root of a source.
    ///
    /// If one of the two begins with all generations of the other one, the longer one counts. A
    /// directory of the destination without a list is no history if `is_unfinished`: a killed run
    /// may have left it.
    pub(crate) fn find(
        root: Option<&impl AsFd>,
        source: Option<&impl AsFd>,
        is_unfinished: bool,
    ) -> Self {
        let mut damaged = Vec::new();
        let mut generations_in = |root: BorrowedFd<'_>, is_unfinished, is_in_source| {
            generations_of(root, is_unfinished, is_in_source).unwrap_or_else(|damage| {
                damaged.push(DamagedFile {
                    name: format!("{DIRECTORY}/{CHAIN}"),
                    damage,
                    is_in_source,
                });
                Vec::new()
            })
        };
        let own = root.map(|root| generations_in(root.as_fd(), is_unfinished, false));
        let own = own.unwrap_or_default();
        let others = source.map(|source| generations_in(source.as_fd(), true, true));
        let others = others.unwrap_or_default();
        let n_own = own.len();
        let pairs = own.iter().zip(&others);
        let n_common = pairs
            .take_while(|(own, other)| own.link.checksum == other.link.checksum)
            .count();
        let (mut generations, mut compared) = (own, Vec::new());
        let further = others.into_iter().skip(n_common);
        if n_common == n_own {
            generations.extend(further);
        } else {
            compared = further.collect();
        }
        for file in generations.iter().chain(&compared) {
            if let Err(damage) = file.verify() {
                damaged.push(file.damaged(damage));
            }
        }
        Self {
            generations,
            n_own,
            is_compared: !compared.is_empty(),
            has_more: n_own > n_common,
            compared,
            ignore: Ignore::new(Vec::new()),
            earlier: Ignore::new(Vec::new()),
            is_of_run: source.is_some(),
            nested: NestedHistories::default(),
            algorithm: None,
            damaged,
        }
    }

    /// Whether a tree has a history.
    pub(crate) fn is_in(root: BorrowedFd<'_>) -> bool {
        let chain = format!("{DIRECTORY}/{CHAIN}");
        rustix::fs::statat(root, chain, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.generations.is_empty()
    }

    /// The algorithm of the digests in the newest generation.
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.algorithm
    }

    pub(super) fn ignore(&self) -> &Ignore {
        &self.ignore
    }

    /// The generations as the list of all generations names them, the oldest first.
    pub(super) fn links(&self) -> Vec<Link> {
        let links = self.generations.iter().map(|file| file.link.clone());
        links.collect()
    }

    /// Adds the histories below the root.
    pub(crate) fn set_nested(&mut self, nested: NestedHistories) {
        self.nested = nested;
    }

    /// Whether this history, and those below the root that a file is in, list the file, or should.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        !self.ignore.matches_file(path) && !self.nested.ignore_file(path)
    }

    /// The same generations, without their damage.
    pub(crate) fn without_damage(&self) -> Self {
        Self {
            generations: self.generations.clone(),
            n_own: self.n_own,
            compared: Vec::new(),
            is_compared: self.is_compared,
            has_more: self.has_more,
            ignore: self.ignore.clone(),
            earlier: self.earlier.clone(),
            is_of_run: self.is_of_run,
            nested: self.nested.clone(),
            algorithm: self.algorithm,
            damaged: Vec::new(),
        }
    }

    pub(crate) fn take_damaged(&mut self) -> Vec<DamagedFile> {
        std::mem::take(&mut self.damaged)
    }

    /// When the newest generation of the destination was written.
    pub(crate) fn modified(&self) -> Option<Timestamp> {
        let file = self.generations[..self.n_own].last()?.open().ok()?;
        Timestamp::try_from(file.metadata().ok()?.modified().ok()?).ok()
    }

    /// Reads all generations of the history, the oldest first, and then those of the source that
    /// are only compared. `add` gets the reader of each.
    ///
    /// # Errors
    ///
    /// The error of `add`.
    pub(crate) fn read(
        &mut self,
        mut add: impl FnMut(Part, &mut Files<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        for part in [Part::Own, Part::Compared] {
            let files = match part {
                Part::Own => self.generations.clone(),
                Part::Compared => self.compared.clone(),
            };
            let renames = self.survey(part, &files);
            let mut reused = Reused::default();
            for (index, file) in files.iter().enumerate() {
                let generation = match file.open() {
                    Ok(opened) => Generation::of(BufReader::with_capacity(BLOCK, opened)),
                    Err(error) => {
                        self.damaged.push(file.damaged(error.into()));
                        continue;
                    }
                };
                let mut files = Files {
                    generation,
                    index,
                    ignore: &self.ignore,
                    renames: &renames,
                    reused: &mut reused,
                    algorithm: None,
                    damage: None,
                };
                add(part, &mut files)?;
                if let Some(damage) = files.damage.take() {
                    self.damaged.push(file.damaged(damage));
                }
                if part == Part::Own {
                    self.algorithm = files.algorithm.or(self.algorithm);
                }
            }
        }
        Ok(())
    }

    /// Whether the history leaves a file out, once it has been [read](Self::read), or its patterns
    /// have.
    pub(crate) fn leaves_out(&self, path: &[u8]) -> bool {
        self.ignore.matches_listed(path)
    }

    /// Reads the patterns of the generations.
    pub(crate) fn read_patterns(&mut self) {
        let files = self.generations.clone();
        for file in &files {
            self.survey(Part::Own, std::slice::from_ref(file));
        }
    }

    /// Reads the renamed files and the patterns that generations tell of. Those that cannot be read
    /// are reported later.
    fn survey(&mut self, part: Part, files: &[GenerationFile]) -> Renames {
        let mut renames = Renames::default();
        for (index, file) in files.iter().enumerate() {
            let Ok(opened) = file.open() else {
                continue;
            };
            let mut generation = Generation::of(BufReader::with_capacity(BLOCK, opened));
            while let Ok(Some(listed)) = generation.next() {
                // The first one has no earlier names, and patterns come in front.
                if index == 0 {
                    break;
                }
                let previous = listed.previous_path;
                if let Some(previous) = previous.filter(|previous| *previous != listed.path) {
                    renames.add(index, previous.into_bytes(), listed.path.into_bytes());
                }
            }
            let is_added = self.is_of_run && generation.tool == TOOL;
            if part == Part::Own {
                self.earlier = Ignore::new(generation.patterns);
                if !is_added {
                    self.ignore = self.earlier.clone();
                }
            }
        }
        renames
    }

    /// Shows the paths of all files and directories that the generations list, by their present
    /// names. The paths of directories end in a slash. Generations that cannot be read are skipped.
    ///
    /// # Errors
    ///
    /// The error of `show`.
    pub(super) fn each_path(
        &self,
        mut show: impl FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let renames = self.without_damage().survey(Part::Own, &self.generations);
        for (index, file) in self.generations.iter().enumerate() {
            let Ok(opened) = file.open() else {
                continue;
            };
            let mut generation = Generation::of(BufReader::with_capacity(BLOCK, opened));
            while let Ok(Some(listed)) = generation.next() {
                if let Some(mut path) = renames.current(listed.path.into_bytes(), index) {
                    path.extend(listed.is_directory.then_some(b'/'));
                    show(path)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a generation belongs to the history of the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Own,
    /// It belongs to another history, that of the source.
    Compared,
}

/// The generations in the root of a tree, the oldest first.
fn generations_of(
    root: BorrowedFd<'_>,
    is_unfinished: bool,
    is_in_source: bool,
) -> Result<Vec<GenerationFile>, Damage> {
    let directory = match directory_in(root) {
        Ok(directory) => Arc::new(directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let chain = match open_regular(directory.as_fd(), CHAIN) {
        Ok((chain, _)) => chain,
        Err(error) if is_unfinished && error.kind() == io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Damage::from_error(error)),
    };
    let links = chain::read(BufReader::new(chain)).map_err(Damage::Unreadable)?;
    let file = |link| GenerationFile {
        link,
        directory: Arc::clone(&directory),
        is_in_source,
    };
    Ok(links.into_iter().map(file).collect())
}

/// Opens the directory of a history. A file of this name is no history.
pub(super) fn directory_in(root: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    match open_directory(root) {
        Err(Errno::NOTDIR | Errno::LOOP) => Err(io::ErrorKind::NotFound.into()),
        opened => Ok(opened?),
    }
}

/// Opens the directory that a history has or is to have.
pub(super) fn open_directory(root: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, DIRECTORY, flags, Mode::empty())
}

/// The SHA-512 of a file.
pub(super) fn sha512_of(file: File) -> io::Result<Checksum> {
    Checksum::of(file, ChecksumAlgorithm::Sha512)
}
