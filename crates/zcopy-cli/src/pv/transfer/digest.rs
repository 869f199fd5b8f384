//! The digest of all bytes of a transfer.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::common::cli::keyword::Keyword;
pub(crate) use crate::common::digest::{Algorithm, Stream};
use crate::common::digest::{Digest, line};

impl Keyword for Algorithm {
    const WORDS: &'static [(&'static str, Self)] =
        &[("sha256", Self::Sha256), ("blake3", Self::Blake3)];
}

/// Returns the line for `sha256sum -c` and `b3sum -c` about a file, or about standard input,
/// without the newline.
pub(crate) fn line(digest: &Digest, file: Option<&OsStr>) -> Vec<u8> {
    let Some(file) = file else {
        return format!("{digest}  -").into_bytes();
    };
    let mut line = Vec::new();
    line::write(digest, file.as_bytes(), &mut line);
    line.pop();
    line
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{Algorithm, Stream, line};

    #[test]
    fn a_line_names_the_digest_and_the_file_or_standard_input() {
        let mut stream = Stream::new(Algorithm::Sha256);
        stream.update(b"abc");
        let digest = stream.finish();
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let line = |file: Option<&str>| {
            String::from_utf8(line(&digest, file.map(OsStr::new))).unwrap_or_default()
        };
        assert_eq!(line(None), format!("{digits}  -"));
        assert_eq!(line(Some("a b")), format!("{digits}  a b"));
        assert_eq!(line(Some("a\nb")), format!("\\{digits}  a\\nb"));
        assert_eq!(line(Some("-")), format!("{digits}  ./-"));
    }
}
