//! Lines that `sha256sum -c` and `b3sum -c` check: a digest, and the name of a file.

use std::io::Write as _;

use super::Digest;

/// Appends the line that says that the file has this digest, newline included, for `sha256sum -c`
/// and `b3sum -c`.
///
/// The name is escaped as GNU `sha256sum` does it since 9.0: where it has a backslash, a newline or
/// a carriage return, these become `\\`, `\n` and `\r`, and a backslash stands before the digest.
/// All other bytes stay as they are. `b3sum` accepts only names in UTF-8, and earlier versions of
/// it accept no carriage return.
///
/// A file of the name `-` becomes `./-`: by the shorter name either tool would read standard input.
pub fn write(digest: &Digest, path: &[u8], lines: &mut Vec<u8>) {
    let path = if path == b"-" { b"./-" } else { path };
    let is_escaped = memchr::memchr3(b'\\', b'\n', b'\r', path).is_some();
    if is_escaped {
        lines.push(b'\\');
    }
    // Writing to a vector cannot fail.
    let _ = write!(lines, "{digest}  ");
    if is_escaped {
        escape(path, lines);
    } else {
        lines.extend_from_slice(path);
    }
    lines.push(b'\n');
}

/// Appends the name with each backslash, newline and carriage return escaped.
pub(crate) fn escape(name: &[u8], escaped: &mut Vec<u8>) {
    for byte in name {
        match byte {
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'\r' => escaped.extend_from_slice(b"\\r"),
            _ => escaped.push(*byte),
        }
    }
}
