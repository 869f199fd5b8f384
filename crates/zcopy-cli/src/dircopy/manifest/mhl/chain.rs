//! The list of all generations of a history.

use std::io::{self, BufRead, Write as _};

use super::c4;
use super::xml::{Tag, Tags, escape};
use crate::common::digest::checksum::Checksum;

/// The name of the root element.
const ROOT: &str = "ascmhldirectory";

/// A generation, as the list names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) number: u32,
    /// The name of its file.
    pub(super) name: String,
    /// The SHA-512 of the file.
    pub(super) checksum: Checksum,
}

/// Reads a list.
///
/// # Errors
///
/// It cannot be read, or is malformed.
pub(super) fn read(source: impl BufRead) -> io::Result<Vec<Link>> {
    let mut tags = Tags::of(source);
    let mut links = Vec::new();
    let mut is_list = false;
    let (mut number, mut name, mut checksum) = (None, None, None);
    while let Some(tag) = tags.next()? {
        match tag {
            Tag::Start {
                name: tag,
                number: sequence,
                ..
            } => {
                is_list |= tag == ROOT;
                if tag == "hashlist" {
                    number = sequence.and_then(|number| number.parse().ok());
                    (name, checksum) = (None, None);
                }
            }
            Tag::End { name: tag, text } => match &*tag {
                "path" => name = Some(text),
                "c4" => checksum = c4::decode(text.trim()),
                "hashlist" => {
                    let link = || {
                        let name = name.take().filter(|name| !name.contains('/'))?;
                        Some(Link {
                            number: number?,
                            name,
                            checksum: checksum.take()?,
                        })
                    };
                    let mut link = link;
                    let malformed = || io::Error::other("it has a generation without a C4");
                    links.push(link().ok_or_else(malformed)?);
                }
                _ => {}
            },
        }
    }
    if !is_list {
        return Err(io::Error::other("it is no list of generations"));
    }
    links.sort_by_key(|link| link.number);
    Ok(links)
}

/// The contents of a list.
pub(super) fn write(links: &[Link]) -> Vec<u8> {
    let mut xml = Vec::new();
    xml.extend_from_slice(
        b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
          <ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\">\n",
    );
    for link in links {
        // Writing to a vector cannot fail.
        let _ = write!(
            xml,
            "  <hashlist sequencenr=\"{}\">\n    <path>",
            link.number
        );
        escape(&link.name, &mut xml);
        let c4 = c4::encode(&link.checksum);
        let _ = write!(xml, "</path>\n    <c4>{c4}</c4>\n  </hashlist>\n");
    }
    xml.extend_from_slice(b"</ascmhldirectory>\n");
    xml
}

#[cfg(test)]
mod tests {
    use zcopy_fuzz::holds_for_bytes;

    use super::*;
    use crate::common::digest::checksum::{ChecksumAlgorithm, Hasher};
    use crate::dircopy::manifest::mhl::xml::can_have;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let link = |number| Link {
            number,
            name: format!("{number:04}_A & B_2020-01-16_091500Z.mhl"),
            checksum: Hasher::new(ChecksumAlgorithm::Sha512).finish(),
        };
        let links = [link(1), link(2)];
        assert_eq!(read(&write(&links)[..]).unwrap(), links);
        assert!(read(&b"<ascmhldirectory><hashlist/></ascmhldirectory>"[..]).is_err());
        assert!(read(&b"<ascmhldirectory></ascmhldirectory>"[..]).is_ok());
        // A crash of the computer may leave a file without contents.
        assert!(read(&b""[..]).is_err());
    }

    #[test]
    fn any_list_that_is_read_is_read_alike_when_it_is_written_again() {
        let link = |number| Link {
            number,
            name: format!("{number:04}_A & B\r.mhl"),
            checksum: Hasher::new(ChecksumAlgorithm::Sha512).finish(),
        };
        let seed = write(&[link(2), link(1)]);
        holds_for_bytes(&[&seed], |bytes| {
            let Ok(links) = read(bytes) else {
                return;
            };
            assert!(links.is_sorted_by_key(|link| link.number));
            assert!(links.iter().all(|link| !link.name.contains('/')));
            if links.iter().all(|link| can_have(&link.name)) {
                assert_eq!(read(&write(&links)[..]).unwrap(), links);
            }
        });
    }
}
