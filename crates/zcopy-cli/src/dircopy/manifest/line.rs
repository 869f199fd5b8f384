//! One line of a manifest: a digest, and the name of a file.

use super::checksum::{Checksum, ChecksumAlgorithm};
pub(crate) use crate::common::digest::line::escape;
pub use crate::common::digest::line::write;
use crate::common::digest::{Algorithm, Digest};

/// A line with a SHA-256 or BLAKE3 digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The digest that the file should have.
    pub digest: Digest,
    /// The path of the file: its bytes as they are, with nothing escaped.
    pub path: Vec<u8>,
    /// The algorithm, if the line has a tag. Both algorithms have 64 digits.
    pub algorithm: Option<Algorithm>,
}

/// A line with a checksum of any kind that can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumLine {
    /// The checksum that the file should have.
    pub checksum: Checksum,
    /// The path of the file: its bytes as they are, with nothing escaped.
    pub path: Vec<u8>,
    /// Whether the path was escaped in the line, so that each backslash in `path` is meant.
    pub is_escaped: bool,
    /// The algorithm, if the line has a tag.
    pub algorithm: Option<ChecksumAlgorithm>,
}

/// The error of a malformed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct ParseLineError(#[from] Fault);

/// The fault of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("it does not begin with the hexadecimal digits of a digest")]
    NoDigest,
    #[error(
        "no two characters, a space and a space or an asterisk, divide the digest from the name"
    )]
    NoDivision,
    #[error(
        "the parentheses around the name are not followed by an equals sign and the digits of a digest"
    )]
    NoTaggedDigest,
    #[error("it names no file")]
    NoName,
    #[error("a backslash stands before something else than a backslash, an n or an r")]
    BadEscape,
    #[error("there is a NUL in the name")]
    NulInName,
    #[error("it is too long")]
    TooLong,
}

impl ParseLineError {
    /// The error of a line that is too long to be parsed.
    pub(crate) fn too_long() -> Self {
        Self(Fault::TooLong)
    }
}

/// Parses a line that `sha256sum` or `b3sum` has written. The newline may be missing.
///
/// It accepts, as GNU `sha256sum` does: `DIGEST  NAME`, and `DIGEST *NAME` for a file read as
/// binary; `SHA256 (NAME) = DIGEST` and `BLAKE3 (NAME) = DIGEST`, as BSD's tools and `--tag` write,
/// and OpenSSL without its spaces; digits in upper case; a backslash in front of a line in which
/// the name is escaped; white space in front of it; a carriage return behind it.
///
/// It rejects two forms that `sha256sum` accepts: `DIGEST NAME` with one space, because a name that
/// begins with a space would be ambiguous; and a name with a NUL in it, which `sha256sum` cuts
/// there.
///
/// # Errors
///
/// The line has none of these forms.
pub fn parse(line: &[u8]) -> Result<Line, ParseLineError> {
    let line = parse_any(line)?;
    let algorithm = match line.algorithm {
        None => None,
        Some(ChecksumAlgorithm::Sha256) => Some(Algorithm::Sha256),
        Some(ChecksumAlgorithm::Blake3) => Some(Algorithm::Blake3),
        Some(_) => return Err(Fault::NoDigest.into()),
    };
    Ok(Line {
        digest: line.checksum.to_digest().ok_or(Fault::NoDigest)?,
        path: line.path,
        algorithm,
    })
}

/// Parses a line of any kind that [`parse`] understands, with a checksum of any algorithm.
///
/// A checksum without a tag has 32, 40, 64 or 128 digits. The tags are `MD5`, `SHA1`, `SHA256`,
/// `SHA512`, `BLAKE3` and `XXH128`; and `SHA2-256` and `SHA2-512`, which OpenSSL 3 writes.
///
/// # Errors
///
/// The line has no such form.
pub fn parse_any(line: &[u8]) -> Result<ChecksumLine, ParseLineError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = without_leading_blanks(line);
    let (line, is_escaped) = match line.strip_prefix(b"\\") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (algorithm, checksum, name) = if let Some((algorithm, rest)) = tag(line) {
        let (checksum, name) = split_tagged(rest, algorithm.n_digits())?;
        (Some(algorithm), checksum, name)
    } else {
        let (checksum, name) = split(line)?;
        (None, checksum, name)
    };
    let path = if is_escaped {
        unescape(name)?
    } else {
        name.to_vec()
    };
    match path[..] {
        [] => Err(Fault::NoName.into()),
        _ if memchr::memchr(0, &path).is_some() => Err(Fault::NulInName.into()),
        _ => Ok(ChecksumLine {
            checksum,
            path,
            is_escaped,
            algorithm,
        }),
    }
}

/// Parses a line that [`write`](write()) has written with a digest of this length.
pub(crate) fn parse_digest(line: &[u8], n_bytes: usize) -> Option<(Digest, Vec<u8>)> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (line, is_escaped) = match line.strip_prefix(b"\\") {
        Some(line) => (line, true),
        None => (line, false),
    };
    let (digits, name) = line.split_at_checked(2 * n_bytes)?;
    let (pairs, _) = digits.as_chunks::<2>();
    let value = |digit: u8| char::from(digit).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| {
        let byte = value(*high)? << 4 | value(*low)?;
        Some(byte as u8)
    });
    let digest = Digest::from_slice(&bytes.collect::<Option<Vec<_>>>()?)?;
    let name = name.strip_prefix(b"  ")?;
    let is_path = !name.is_empty() && memchr::memchr(0, name).is_none();
    let path = if is_escaped {
        unescape(name).ok()?
    } else {
        name.to_vec()
    };
    is_path.then_some((digest, path))
}

/// Splits `ALGORITHM (NAME) = DIGEST` behind the opening parenthesis.
fn tag(line: &[u8]) -> Option<(ChecksumAlgorithm, &[u8])> {
    let tag_end = line.iter().position(|byte| matches!(byte, b' ' | b'('))?;
    let (tag, rest) = line.split_at(tag_end);
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    Some((ChecksumAlgorithm::from_tag(tag)?, rest.strip_prefix(b"(")?))
}

/// Splits `NAME) = DIGEST` into both. The name may have parentheses of its own.
fn split_tagged(rest: &[u8], n_digits: usize) -> Result<(Checksum, &[u8]), Fault> {
    let end = memchr::memrchr(b')', rest).ok_or(Fault::NoTaggedDigest)?;
    let behind = without_leading_blanks(&rest[end + 1..]);
    let digits = behind.strip_prefix(b"=").ok_or(Fault::NoTaggedDigest)?;
    let digits = without_leading_blanks(digits);
    let checksum = Checksum::from_digits(digits).filter(|_| digits.len() == n_digits);
    Ok((checksum.ok_or(Fault::NoTaggedDigest)?, &rest[..end]))
}

/// Splits `DIGEST  NAME` or `DIGEST *NAME` into both.
fn split(line: &[u8]) -> Result<(Checksum, &[u8]), Fault> {
    let is_other = |byte: &u8| !byte.is_ascii_hexdigit();
    let n_digits = line.iter().position(is_other).unwrap_or(line.len());
    let (digits, rest) = line.split_at(n_digits);
    let has_algorithm = |n_digits| {
        let mut all = ChecksumAlgorithm::ALL.into_iter();
        all.any(|algorithm| algorithm.n_digits() == n_digits)
    };
    let checksum = Checksum::from_digits(digits).filter(|_| has_algorithm(n_digits));
    let checksum = checksum.ok_or(Fault::NoDigest)?;
    match rest {
        [b' ' | b'\t', b' ' | b'*', name @ ..] => Ok((checksum, name)),
        _ => Err(Fault::NoDivision),
    }
}

/// Replaces each backslash in a path by a slash.
pub(crate) fn convert_backslashes(path: &mut [u8]) {
    for byte in path {
        if *byte == b'\\' {
            *byte = b'/';
        }
    }
}

fn without_leading_blanks(line: &[u8]) -> &[u8] {
    let is_other = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = line.iter().position(is_other).unwrap_or(line.len());
    &line[start..]
}

pub(crate) fn unescape(escaped: &[u8]) -> Result<Vec<u8>, ParseLineError> {
    let mut name = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => return Err(Fault::BadEscape.into()),
            },
            byte => *byte,
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
