//! The comment lines of a manifest, which `sha256sum -c` skips.
//!
//! A manifest of this tool reads:
//!
//! ```text
//! # zc-dircopy manifest, version 1
//! # time: 2026-11-23T07:11:18.123456789Z
//! # source: /media/card2
//! # includes: e3b0… shasum.2026-11-22.10.00.00.txt
//! # copied: e3b0… shasum.2025-01-01.00.00.00.txt
//! e3b0…  a/first.mov
//! e3b0…  a/second.mov
//! # end: 2 lines, sha256 e3b0…
//! ```
//!
//! `b3sum -c` skips no comments. A manifest of BLAKE3 digests therefore holds lines alone, and the
//! comments are in a file beside it, which has the same name with the suffix `.info`.

use std::io::Write as _;

use jiff::{SignedDuration, Timestamp};

use super::kind::ManifestKind;
use super::line;
use super::name::Name;
use crate::common::digest::Digest;

/// The comments in front of the lines of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// When the run began. A later manifest of the same tree always has a later time, even if the
    /// clock was set back.
    pub(crate) time: Timestamp,
    /// The directory that was copied, as the command line named it.
    pub(crate) source: Vec<u8>,
    /// The earlier manifests whose lines this one has. They need not be read again.
    pub(crate) includes: Vec<Included>,
    /// The names of journals whose entries this manifest holds.
    pub(crate) journals: Vec<Vec<u8>>,
    /// Files in the root that have the name of a manifest and came from a source.
    pub(crate) copied: Vec<Copied>,
    /// The kind of manifest that the run writes.
    pub(crate) kind: ManifestKind,
}

/// An earlier manifest. The digest tells it from another file that has taken its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Included {
    pub(crate) name: Name,
    /// The digest in its last line, or else that of the whole file.
    pub(crate) digest: Digest,
}

/// A file that came from a source and has the name of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) name: Name,
    /// The SHA-256 of its contents.
    pub(crate) digest: Digest,
}

/// The last line of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The number of lines with a digest.
    pub(crate) n_lines: u64,
    /// The SHA-256 of all bytes before the last line.
    pub(crate) digest: Digest,
}

/// The error of comments that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseHeaderError {
    #[error("a later version of this program wrote it")]
    LaterVersion,
    #[error("its header is damaged")]
    Damaged,
}

const MAGIC: &[u8] = b"# zc-dircopy manifest, version ";
const VERSION: &[u8] = b"1";
const TIME: &[u8] = b"# time: ";
const SOURCE: &[u8] = b"# source: ";
const INCLUDES: &[u8] = b"# includes: ";
const JOURNAL: &[u8] = b"# journal: ";
const COPIED: &[u8] = b"# copied: ";
const KIND: &[u8] = b"# manifest: ";
const END: &[u8] = b"# end: ";

impl Header {
    /// Appends the lines of the header.
    pub(crate) fn write(&self, lines: &mut Vec<u8>) {
        for part in [MAGIC, VERSION, b"\n"] {
            lines.extend_from_slice(part);
        }
        self.write_comments(lines);
    }

    /// Appends all lines but the first.
    pub(crate) fn write_comments(&self, lines: &mut Vec<u8>) {
        lines.extend_from_slice(SOURCE);
        line::escape(&self.source, lines);
        // Writing to a vector cannot fail.
        let _ = write!(lines, "\n# time: {}\n", self.time);
        for Included { name, digest } in &self.includes {
            let _ = writeln!(lines, "# includes: {digest} {name}");
        }
        for name in &self.journals {
            lines.extend_from_slice(JOURNAL);
            line::escape(name, lines);
            lines.push(b'\n');
        }
        for Copied { name, digest } in &self.copied {
            let _ = writeln!(lines, "# copied: {digest} {name}");
        }
        if self.kind != ManifestKind::Sums {
            let _ = writeln!(lines, "# manifest: {}", self.kind.word());
        }
    }

    /// The header of the manifest beside this one, whose digests are of the other algorithm. It is
    /// older, and replaces no other manifest, so that it can have its name before this one.
    pub(crate) fn of_other_algorithm(&self) -> Self {
        let earlier = self.time.checked_sub(SignedDuration::from_nanos(1));
        Self {
            time: earlier.unwrap_or(self.time),
            includes: Vec::new(),
            journals: Vec::new(),
            ..self.clone()
        }
    }

    /// Begins to parse a header at its first line. Returns `None` if the line begins no header.
    ///
    /// # Errors
    ///
    /// The header is one of a later version.
    pub(crate) fn begin(first: &[u8]) -> Result<Option<HeaderParser>, ParseHeaderError> {
        match without_newline(first).strip_prefix(MAGIC) {
            None => Ok(None),
            Some(VERSION) => Ok(Some(HeaderParser::default())),
            Some(_) => Err(ParseHeaderError::LaterVersion),
        }
    }
}

/// A header that is read line by line.
#[derive(Debug, Default)]
pub(crate) struct HeaderParser {
    time: Option<Timestamp>,
    source: Vec<u8>,
    includes: Vec<Included>,
    journals: Vec<Vec<u8>>,
    copied: Vec<Copied>,
    kind: ManifestKind,
}

impl HeaderParser {
    /// Takes the next line that begins with `#`. Other comments are skipped.
    ///
    /// # Errors
    ///
    /// The line is damaged.
    pub(crate) fn push(&mut self, line: &[u8]) -> Result<(), ParseHeaderError> {
        let line = without_newline(line);
        if let Some(time) = line.strip_prefix(TIME) {
            self.time = Some(parse(time)?);
        } else if let Some(source) = line.strip_prefix(SOURCE) {
            let source = line::unescape(source);
            self.source = source.map_err(|_| ParseHeaderError::Damaged)?;
        } else if let Some(included) = line.strip_prefix(INCLUDES) {
            let (digest, name) = two_words(included)?;
            let (digest, name) = (parse(digest)?, parse(name)?);
            self.includes.push(Included { name, digest });
        } else if let Some(name) = line.strip_prefix(JOURNAL) {
            let name = line::unescape(name);
            self.journals
                .push(name.map_err(|_| ParseHeaderError::Damaged)?);
        } else if let Some(copied) = line.strip_prefix(COPIED) {
            let (digest, name) = two_words(copied)?;
            let (digest, name) = (parse(digest)?, parse(name)?);
            self.copied.push(Copied { name, digest });
        } else if let Some(kind) = line.strip_prefix(KIND) {
            let kind = ManifestKind::from_word(kind);
            self.kind = kind.ok_or(ParseHeaderError::LaterVersion)?;
        }
        Ok(())
    }

    /// Returns the header.
    ///
    /// # Errors
    ///
    /// It has no time.
    pub(crate) fn finish(self) -> Result<Header, ParseHeaderError> {
        Ok(Header {
            time: self.time.ok_or(ParseHeaderError::Damaged)?,
            source: self.source,
            includes: self.includes,
            journals: self.journals,
            copied: self.copied,
            kind: self.kind,
        })
    }
}

impl End {
    /// Appends the line.
    pub(crate) fn write(&self, lines: &mut Vec<u8>) {
        let Self { n_lines, digest } = self;
        // Writing to a vector cannot fail.
        let _ = writeln!(lines, "# end: {n_lines} lines, sha256 {digest}");
    }

    /// Parses the line. Returns `None` for any other line.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(without_newline(line).strip_prefix(END)?).ok()?;
        let (n_lines, digest) = line.split_once(" lines, sha256 ")?;
        Some(Self {
            n_lines: n_lines.parse().ok()?,
            digest: digest.parse().ok()?,
        })
    }
}

fn without_newline(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

fn parse<T: std::str::FromStr>(word: &[u8]) -> Result<T, ParseHeaderError> {
    let word = str::from_utf8(word).map_err(|_| ParseHeaderError::Damaged)?;
    word.parse().map_err(|_| ParseHeaderError::Damaged)
}

fn two_words(line: &[u8]) -> Result<(&[u8], &[u8]), ParseHeaderError> {
    let at = memchr::memchr(b' ', line).ok_or(ParseHeaderError::Damaged)?;
    Ok((&line[..at], &line[at + 1..]))
}

#[cfg(test)]
mod tests;
