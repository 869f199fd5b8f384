//! The elements of a generation.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use jiff::Timestamp;
use rustix::fs::Stat;

use super::below::Reference;
use crate::common::digest::checksum::{Checksum, ChecksumAlgorithm};
use crate::dircopy::manifest::mhl::c4;
use crate::dircopy::manifest::mhl::directories::DirectoryDigest;
use crate::dircopy::manifest::mhl::format::{FORMATS, text_of};
use crate::dircopy::manifest::mhl::xml::escape;

/// A time as XML has it.
pub(super) fn date(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}

pub(super) fn write_path(path: &[u8], stat: &Stat, size: Option<u64>, xml: &mut Vec<u8>) {
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

/// The element that names generations of histories below the root. Empty without any.
pub(super) fn references(references: &[Reference]) -> Vec<u8> {
    let mut xml = Vec::new();
    if references.is_empty() {
        return xml;
    }
    xml.extend_from_slice(b"  <references>\n");
    for Reference { path, checksum } in references {
        xml.extend_from_slice(b"    <hashlistreference>\n      <path>");
        escape(path, &mut xml);
        let c4 = c4::encode(checksum);
        // Writing to a vector cannot fail.
        let _ = writeln!(
            xml,
            "</path>\n      <c4>{c4}</c4>\n    </hashlistreference>"
        );
    }
    xml.extend_from_slice(b"  </references>\n");
    xml
}

pub(super) fn write_digests(
    digests: &[(ChecksumAlgorithm, DirectoryDigest)],
    date: &str,
    xml: &mut Vec<u8>,
) {
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

pub(super) fn write_checksum(
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
