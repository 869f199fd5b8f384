//! The log of a partial file: writes and reads it.

use std::ffi::{CStr, CString, OsStr};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{OFlags, SeekFrom, Stat};

use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::common::digest::{Algorithm, AlgorithmSet, Digest, Stream};
use crate::dircopy::mtime::Time;
use crate::dircopy::stat::{identity, size};
use crate::dircopy::write::atomic_file::{Durability, Keep, PRIVATE, lock, temp_name};

/// The first line of a log.
const MAGIC: &[u8] = b"# zc-dircopy partial, version 1\n";

/// The entry that tells that the copy is about to get its name.
const NAMING: &str = " n\n";

/// How many hexadecimal digits of the check are written.
const CHECK_DIGITS: usize = 16;

/// The most bytes that are read of a log: 64 MiB, which hold the checkpoints of 30 TiB.
const MAX_LOG: u64 = 64 << 20;

/// The version of an original: its number, its size, and when its contents and attributes changed.
///
/// The device is left out. It gets another number when a disk is plugged in again, and the number
/// of a file and a time of change in nanoseconds tell more than it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceVersion {
    number: u64,
    size: u64,
    modified: Time,
    changed: Time,
}

impl SourceVersion {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            number: identity(stat).1,
            size: size(stat),
            modified: Time::modified(stat),
            changed: Time::changed(stat),
        }
    }
}

/// The digest of the first bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The number of bytes.
    pub(crate) offset: u64,
    pub(crate) algorithm: Algorithm,
    pub(crate) digest: Digest,
}

/// The log of a partial file. It is removed on drop, if the partial file is.
#[derive(Debug)]
pub(crate) struct PartialLog {
    directory: Arc<OwnedFd>,
    name: CString,
    file: File,
    /// The digest of all lines so far.
    chain: Digest,
    keep: Arc<Keep>,
    durability: Durability,
    /// Whether a write has failed. The log may end with a part of a line.
    is_broken: bool,
    /// The length and the digest of the log before the copy was about to get its name.
    unnamed: Option<(u64, Digest)>,
}

impl PartialLog {
    /// The log of an earlier run, which has been [read](read_log).
    pub(super) fn from_left(
        directory: &Arc<OwnedFd>,
        name: CString,
        file: File,
        read: Read,
        keep: &Arc<Keep>,
        durability: Durability,
    ) -> io::Result<Self> {
        // A part of a line may follow.
        file.set_len(read.n_bytes)?;
        Ok(Self {
            directory: Arc::clone(directory),
            name,
            file,
            chain: read.chain,
            keep: Arc::clone(keep),
            durability,
            is_broken: false,
            unnamed: None,
        })
    }

    pub(super) fn create(
        directory: &Arc<OwnedFd>,
        head: &Head,
        keep: &Arc<Keep>,
        durability: Durability,
    ) -> io::Result<Self> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::APPEND
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let make = |name: &CStr| rustix::fs::openat(directory, name, flags, PRIVATE);
        let (file, name) = temp_name::make(make)?;
        // Another run may have removed it in between. Then this copy cannot be gone on with.
        lock(&file);
        let mut log = Self {
            directory: Arc::clone(directory),
            name,
            file: file.into(),
            chain: sha256_of(&[MAGIC]),
            keep: Arc::clone(keep),
            durability,
            is_broken: false,
            unnamed: None,
        };
        let line = log.next_line(&head.line());
        log.file.write_all(&[MAGIC, &line].concat())?;
        if durability == Durability::Synced {
            rustix::fs::fdatasync(&log.file)?;
            rustix::fs::fsync(directory)?;
        }
        Ok(log)
    }

    /// Adds a checkpoint of `partial`. With [`Durability::Synced`] its bytes are on the disk before
    /// it is. If the log cannot be written, nothing more is added, and a later run copies more bytes
    /// again.
    ///
    /// # Errors
    ///
    /// Those of `fdatasync(2)` of the partial file. The kernel reports them once: the file must not
    /// get its name.
    pub(crate) fn add(
        &mut self,
        partial: BorrowedFd<'_>,
        checkpoint: Checkpoint,
    ) -> io::Result<()> {
        if self.is_broken {
            return Ok(());
        }
        if self.durability == Durability::Synced {
            let synced = rustix::fs::fdatasync(partial);
            self.is_broken = synced.is_err();
            synced?;
        }
        self.is_broken = self.write(checkpoint).is_err();
        Ok(())
    }

    /// Cuts the log before the first checkpoint at an offset that none of these, which are sorted,
    /// has. Returns the last one that stays.
    ///
    /// # Errors
    ///
    /// Those of `read(2)` and `ftruncate(2)`; the log has been changed.
    pub(super) fn cut(&mut self, proven: &[Checkpoint]) -> io::Result<Option<Checkpoint>> {
        let is_proven = |checkpoint: &Checkpoint| {
            let found = proven.binary_search_by_key(&checkpoint.offset, |it| it.offset);
            found.is_ok()
        };
        let Some((_, checkpoints, read)) = read_log_while(&self.file, is_proven)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        self.file.set_len(read.n_bytes)?;
        self.chain = read.chain;
        Ok(checkpoints.last().copied())
    }

    fn write(&mut self, checkpoint: Checkpoint) -> io::Result<()> {
        let line = self.next_line(&checkpoint.line());
        self.file.write_all(&line)?;
        if self.durability == Durability::Synced {
            rustix::fs::fdatasync(&self.file)?;
        }
        Ok(())
    }

    /// Tells that the copy is about to get its name. No run goes on with a file of which the log
    /// tells that: on a file system that cannot rename without replacing, a run that is killed may
    /// leave it with both names.
    pub(crate) fn begin_naming(&mut self) {
        let Ok(metadata) = self.file.metadata() else {
            return;
        };
        self.unnamed = Some((metadata.len(), self.chain));
        let line = self.next_line(NAMING);
        self.is_broken |= self.file.write_all(&line).is_err();
    }

    /// Takes back what [`begin_naming`](Self::begin_naming) has told: the copy has not got its name.
    pub(crate) fn cancel_naming(&mut self) {
        if let Some((len, chain)) = self.unnamed.take() {
            self.chain = chain;
            self.is_broken |= self.file.set_len(len).is_err();
        }
    }

    /// Leaves both files when they are dropped, unless the copy has its name by then.
    pub(crate) fn keep(&self) {
        self.keep.set();
    }

    /// Puts the check before a line.
    fn next_line(&mut self, line: &str) -> Vec<u8> {
        self.chain = sha256_of(&[self.chain.as_bytes(), line.as_bytes()]);
        let check = self.chain.to_string();
        [&check.as_bytes()[..CHECK_DIGITS], line.as_bytes()].concat()
    }
}

impl Drop for PartialLog {
    fn drop(&mut self) {
        if !self.keep.is_set() {
            temp_name::remove(self.directory.as_fd(), &self.name);
        }
    }
}

/// The first entry of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The name of the partial file.
    pub(super) partial: CString,
    /// The name of the original.
    pub(super) name: Vec<u8>,
    pub(super) version: SourceVersion,
}

impl Head {
    pub(super) fn line(&self) -> String {
        let SourceVersion {
            number,
            size,
            modified,
            changed,
        } = self.version;
        let mut line = format!(
            " f {} {size} {number} {}.{:09} {}.{:09} ",
            self.partial.to_string_lossy(),
            modified.seconds,
            modified.nanoseconds,
            changed.seconds,
            changed.nanoseconds
        );
        for byte in &self.name {
            // Writing to a string cannot fail.
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        line
    }

    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(" f ")?.strip_suffix('\n')?.split(' ');
        let partial = words.next()?;
        let mut number = || words.next()?.parse().ok();
        let (size, number) = (number()?, number()?);
        let mut time = || {
            let (seconds, nanoseconds) = words.next()?.split_once('.')?;
            Some(Time {
                seconds: seconds.parse().ok()?,
                nanoseconds: nanoseconds.parse().ok()?,
            })
        };
        let (modified, changed) = (time()?, time()?);
        let name = bytes_of(words.next()?)?;
        // A name leads to no other directory.
        let is_name =
            Path::new(OsStr::from_bytes(&name)).file_name().is_some() && !name.contains(&b'/');
        (is_name && temp_name::is_temp_name(partial.as_bytes())).then_some(Self {
            partial: CString::new(partial).ok()?,
            name,
            version: SourceVersion {
                number,
                size,
                modified,
                changed,
            },
        })
    }
}

impl Checkpoint {
    fn line(&self) -> String {
        let names = AlgorithmSet::from(self.algorithm).iter();
        let names: Vec<_> = names.map(ChecksumAlgorithm::name).collect();
        format!(" c {} {} {}\n", self.offset, names.join("+"), self.digest)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(" c ")?.strip_suffix('\n')?.split(' ');
        let offset = words.next()?.parse().ok()?;
        let mut set = AlgorithmSet::default();
        for name in words.next()?.split('+') {
            let mut all = ChecksumAlgorithm::ALL.into_iter();
            set = set.with(all.find(|algorithm| algorithm.name() == name)?)?;
        }
        let digest = bytes_of(words.next()?)?;
        (digest.len() == set.n_bytes()).then_some(Self {
            offset,
            algorithm: set.into(),
            digest: Digest::from_slice(&digest)?,
        })
    }
}

/// The bytes that hexadecimal digits stand for.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| Some(Checksum::from_digits(pair)?.as_bytes()[0]);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.filter(|bytes| rest.is_empty() && !bytes.is_empty())
}

/// How far a log was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    chain: Digest,
    n_bytes: u64,
}

/// Reads a log. `None` if it is none, if its first entry is damaged, or if the file may have its
/// name already.
pub(super) fn read_log(log: &File) -> io::Result<Option<(Head, Vec<Checkpoint>, Read)>> {
    read_log_while(log, |_| true)
}

/// The same, up to the first checkpoint that is not `wanted`.
fn read_log_while(
    log: &File,
    wanted: impl Fn(&Checkpoint) -> bool,
) -> io::Result<Option<(Head, Vec<Checkpoint>, Read)>> {
    rustix::fs::seek(log, SeekFrom::Start(0))?;
    let mut text = Vec::new();
    log.take(MAX_LOG).read_to_end(&mut text)?;
    let Some((head, mut read)) = parse(&text) else {
        return Ok(None);
    };
    let mut checkpoints = Vec::new();
    let behind_head = usize::try_from(read.n_bytes).unwrap_or(text.len());
    for line in text[behind_head..].split_inclusive(|byte| *byte == b'\n') {
        let Some((entry, chain)) = checked(line, read.chain) else {
            break;
        };
        if entry == NAMING {
            return Ok(None);
        }
        let Some(checkpoint) = Checkpoint::parse(entry).filter(&wanted) else {
            break;
        };
        checkpoints.push(checkpoint);
        read = Read {
            chain,
            n_bytes: read.n_bytes + line.len() as u64,
        };
    }
    Ok(Some((head, checkpoints, read)))
}

/// Parses the begin of a log, up to the first checkpoint.
pub(super) fn parse(text: &[u8]) -> Option<(Head, Read)> {
    let line = text.strip_prefix(MAGIC)?;
    let line = line.split_inclusive(|byte| *byte == b'\n').next()?;
    let (entry, chain) = checked(line, sha256_of(&[MAGIC]))?;
    let n_bytes = (MAGIC.len() + line.len()) as u64;
    Some((Head::parse(entry)?, Read { chain, n_bytes }))
}

/// The entry of a line whose check is right, and the digest of all lines up to it.
fn checked(line: &[u8], chain: Digest) -> Option<(&str, Digest)> {
    let (check, entry) = line.split_at_checked(CHECK_DIGITS)?;
    let chain = sha256_of(&[chain.as_bytes(), entry]);
    let is_right = chain.to_string().as_bytes().starts_with(check) && entry.ends_with(b"\n");
    is_right.then_some((str::from_utf8(entry).ok()?, chain))
}

fn sha256_of(parts: &[&[u8]]) -> Digest {
    let mut stream = Stream::new(Algorithm::Sha256);
    for part in parts {
        stream.update(part);
    }
    stream.finish()
}
