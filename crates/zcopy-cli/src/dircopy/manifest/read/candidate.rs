//! A file that may be a manifest of a tree: its header, its lines and its end.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use jiff::Timestamp;

use super::contents::open_regular;
use super::damage::Damage;
use super::lines::{LONGEST, Lines};
use crate::common::cli::message;
use crate::common::digest::{Algorithm, Digest, Stream};
use crate::dircopy::file_ranges::{FileRange, FileRanges};
use crate::dircopy::manifest::header::{End, Header, Included, ParseHeaderError};
use crate::dircopy::manifest::name::Name;
use crate::dircopy::manifest::record::{self, Origin};

/// The longest last line of a manifest, in bytes.
const LONGEST_END: u64 = 256;

/// A file that may be a manifest.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) name: Name,
    /// The digest in the last line, or else that of the whole file. It tells the manifest from
    /// another one of the same name. `None` if the file cannot be read.
    digest: Option<Digest>,
    /// `None` if another program wrote the manifest.
    pub(crate) header: Result<Option<Header>, Damage>,
}

/// Whether the lines of a manifest are sorted by path, each path once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Sorted,
    Unsorted,
}

/// The parts of a manifest that has been opened.
struct Parts {
    contents: FileRanges,
    end: Option<End>,
    /// Whether the last line has its newline.
    is_ended: bool,
    size: u64,
}

impl Candidate {
    /// Reads the header and the digest. A file that is not found is damaged: nobody removes
    /// manifests, but the cache of a network file system may be stale.
    pub(crate) fn read(root: BorrowedFd<'_>, name: Name) -> Self {
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
        hash_named(root, self.name)
    }

    /// The manifest as a later one includes it. `None` if it cannot be read.
    pub(crate) fn included(&self) -> Option<Included> {
        let (name, digest) = (self.name, self.digest?);
        Some(Included { name, digest })
    }

    /// Whether another program wrote the manifest, or its header is damaged.
    pub(crate) fn is_foreign(&self) -> bool {
        !matches!(self.header, Ok(Some(_)))
    }

    /// The time in the header.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        Some(self.header.as_ref().ok()?.as_ref()?.time)
    }

    /// Sorts by age. Manifests with a time are newer than all without one, regardless of their
    /// names.
    pub(crate) fn age(&self) -> (Option<Timestamp>, Name) {
        (self.time(), self.name)
    }

    /// Opens the manifest. The contents are its comments and lines, without the last line.
    ///
    /// # Errors
    ///
    /// The manifest cannot be opened or read.
    pub(crate) fn contents(&self, root: BorrowedFd<'_>) -> io::Result<FileRanges> {
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
        // A run gives the lines their name before the comments. Without these when the header was
        // read, the lines are those of another program, and the run's journal counts.
        let had_info = !matches!(self.header, Ok(None));
        let info = match self.name.algorithm() {
            Algorithm::Blake3 if had_info => open_info(root, &name)?,
            Algorithm::Blake3 | Algorithm::Sha256 | Algorithm::Several(_) => None,
        };
        if let Some((info, info_size)) = info {
            let info = Arc::new(info);
            let last = last_line(&info, info_size)?;
            let end = End::parse(&last).filter(|_| last.ends_with(b"\n"));
            let info_end = end.map_or(info_size, |_| info_size - last.len() as u64);
            let ranges = vec![range(&info, info_end), range(&file, size)];
            return Ok(Parts {
                contents: FileRanges::new(ranges),
                end,
                is_ended,
                size,
            });
        }
        let end = End::parse(&last).filter(|_| is_ended);
        let lines_end = end.map_or(size, |_| size - last.len() as u64);
        Ok(Parts {
            contents: FileRanges::new(vec![range(&file, lines_end)]),
            end,
            is_ended,
            size,
        })
    }

    /// Reads all lines and verifies them.
    ///
    /// # Errors
    ///
    /// The damage of the manifest.
    pub(crate) fn verify(&self, root: BorrowedFd<'_>, origin: Origin) -> Result<Order, Damage> {
        let is_foreign = match &self.header {
            Ok(header) => header.is_none(),
            Err(Damage::Header(error)) => return Err((*error).into()),
            Err(Damage::NotRegular(what)) => return Err(Damage::NotRegular(*what)),
            Err(Damage::Unreadable(error)) => {
                let error = io::Error::new(error.kind(), message::worded(error));
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
        let mut hashed = HashingReader::new(parts.contents.reader());
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
                // The digest is wrong then, which says more.
                Err(_) if parts.end.is_some() => last = None,
                Err(error) => return Err(Damage::Malformed(n_lines, error)),
            }
        }
        drop(lines);
        if is_foreign && n_lines == 0 {
            return Err(Damage::Empty);
        }
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
    match open_regular(root, &*format!("{name}{}", crate::dircopy::manifest::INFO)) {
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
        Algorithm::Sha256 | Algorithm::Several(_) => None,
        Algorithm::Blake3 => match open_info(root, &file_name)? {
            Some((info, _)) => Some(info),
            None => return Ok(Ok(None)),
        },
    };
    // Only this program writes comments of BLAKE3 manifests.
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
    let header = parser.map(crate::dircopy::manifest::header::HeaderParser::finish);
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

/// The digest of a file in the root that has the name of a manifest.
///
/// # Errors
///
/// The file cannot be read, or is not regular.
pub(crate) fn hash_named(root: BorrowedFd<'_>, name: Name) -> io::Result<Digest> {
    let (file, _) = open_regular(root, &*name.to_string())?;
    let mut reader = HashingReader::new(file);
    io::copy(&mut reader, &mut io::sink())?;
    Ok(reader.stream.finish())
}

/// Hashes the bytes that are read through it.
struct HashingReader<R> {
    inner: R,
    stream: Stream,
}

impl<R> HashingReader<R> {
    fn new(inner: R) -> Self {
        let stream = Stream::new(Algorithm::Sha256);
        Self { inner, stream }
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.stream.update(&buffer[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::dircopy::manifest::kind::ManifestKind;

    #[test]
    fn comments_that_get_their_name_meanwhile_do_not_make_a_manifest_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let name: Name = "b3sum.2026-01-01.10.00.00.txt".parse().unwrap();
        let line = format!("{}  a\n", "0f".repeat(32));
        fs::write(path(&name.to_string()), &line).unwrap();
        let root = File::open(dir.path()).unwrap();
        let before = Candidate::read(root.as_fd(), name);

        let header = Header {
            time: "2026-01-01T10:00:00Z".parse().unwrap(),
            source: b"card".to_vec(),
            includes: Vec::new(),
            journals: Vec::new(),
            copied: Vec::new(),
            kind: ManifestKind::Sums,
        };
        let mut comments = Vec::new();
        header.write(&mut comments);
        let mut hash = Stream::new(Algorithm::Sha256);
        hash.update(&comments);
        hash.update(line.as_bytes());
        let end = End {
            n_lines: 1,
            digest: hash.finish(),
        };
        end.write(&mut comments);
        fs::write(path(&format!("{name}.info")), comments).unwrap();

        let after = Candidate::read(root.as_fd(), name);
        for (candidate, is_foreign) in [(before, true), (after, false)] {
            assert_eq!(candidate.is_foreign(), is_foreign);
            let origin = Origin {
                algorithm: Algorithm::Blake3,
                is_foreign,
                converts_paths: false,
            };
            let order = candidate.verify(root.as_fd(), origin);
            assert_eq!(order.unwrap(), Order::Sorted);
        }
    }
}
