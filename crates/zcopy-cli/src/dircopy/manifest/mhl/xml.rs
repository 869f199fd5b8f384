//! Reads XML as elements with their text.

use std::io::{self, BufRead};

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};

/// An element begins or ends. Names have no prefix of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Start {
        name: String,
        /// `action` of a digest, and `sequencenr` of a generation.
        action: Option<String>,
        number: Option<String>,
    },
    /// `text` is that behind the last tag.
    End { name: String, text: String },
}

/// The tags of a document.
pub(super) struct Tags<R> {
    reader: Reader<R>,
    buffer: Vec<u8>,
    text: String,
    depth: usize,
}

/// The most nested elements: a generation has five.
const MAX_DEPTH: usize = 100;

impl<R: BufRead> Tags<R> {
    pub(super) fn of(source: R) -> Self {
        let mut reader = Reader::from_reader(source);
        reader.config_mut().expand_empty_elements = true;
        Self {
            reader,
            buffer: Vec::new(),
            text: String::new(),
            depth: 0,
        }
    }

    /// The next tag. `None` at the end of the document.
    ///
    /// # Errors
    ///
    /// The document cannot be read, or is malformed, or cut.
    pub(super) fn next(&mut self) -> io::Result<Option<Tag>> {
        loop {
            self.buffer.clear();
            let event = self.reader.read_event_into(&mut self.buffer);
            match event.map_err(invalid)? {
                Event::Start(start) => {
                    self.text.clear();
                    self.depth += 1;
                    if self.depth > MAX_DEPTH {
                        return Err(invalid("too many nested elements"));
                    }
                    return Ok(Some(Tag::Start {
                        name: name_of(start.local_name().as_ref()),
                        action: attribute(&start, "action")?,
                        number: attribute(&start, "sequencenr")?,
                    }));
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(Some(Tag::End {
                        name: name_of(end.local_name().as_ref()),
                        text: std::mem::take(&mut self.text),
                    }));
                }
                Event::Text(text) => self.text.push_str(&text.xml10_content().map_err(invalid)?),
                Event::CData(text) => self.text.push_str(&text.xml10_content().map_err(invalid)?),
                Event::GeneralRef(reference) => {
                    let name = reference.decode().map_err(invalid)?;
                    let char = reference.resolve_char_ref().map_err(invalid)?;
                    let text = char.map(String::from);
                    let text = text.or_else(|| resolve_predefined_entity(&name).map(str::to_owned));
                    self.text
                        .push_str(&text.ok_or_else(|| invalid("unknown entity"))?);
                }
                Event::Eof if self.depth > 0 => return Err(invalid("its end is missing")),
                Event::Eof => return Ok(None),
                _ => {}
            }
        }
    }
}

fn name_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn attribute(start: &BytesStart<'_>, name: &str) -> io::Result<Option<String>> {
    let attribute = start.try_get_attribute(name).map_err(invalid)?;
    // No value that is looked for has entities.
    Ok(attribute.map(|attribute| String::from_utf8_lossy(&attribute.value).into_owned()))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Whether XML can have a text: control characters but tabs, line feeds and carriage returns have no
/// form in it.
pub(crate) fn can_have(text: &str) -> bool {
    let is_allowed = |char: char| match char {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        char => char >= ' ',
    };
    text.chars().all(is_allowed)
}

/// Appends text with its special characters escaped. A carriage return would be read as a line feed.
pub(super) fn escape(text: &str, xml: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'&' => xml.extend_from_slice(b"&amp;"),
            b'<' => xml.extend_from_slice(b"&lt;"),
            b'>' => xml.extend_from_slice(b"&gt;"),
            b'"' => xml.extend_from_slice(b"&quot;"),
            b'\r' => xml.extend_from_slice(b"&#13;"),
            byte => xml.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(xml: &str) -> io::Result<Vec<(String, String)>> {
        let mut tags = Tags::of(xml.as_bytes());
        let mut texts = Vec::new();
        while let Some(tag) = tags.next()? {
            if let Tag::End { name, text } = tag {
                texts.push((name, text));
            }
        }
        Ok(texts)
    }

    #[test]
    fn text_is_read_as_it_was_escaped() {
        let text = " a&b<c>\"d'\r\n\u{e9} ";
        let mut xml = b"<m:path xmlns:m='urn:x' size='1'>".to_vec();
        escape(text, &mut xml);
        xml.extend_from_slice(b"</m:path>");
        let found = texts(str::from_utf8(&xml).unwrap()).unwrap();
        assert_eq!(found, [("path".to_owned(), text.to_owned())]);
    }

    #[test]
    fn a_document_that_was_cut_is_an_error() {
        for xml in ["<a><b>x</b>", "<a>", "<a>&nothing;</a>", "<a></b>"] {
            assert!(texts(xml).is_err(), "{xml}");
        }
        assert_eq!(texts("<a/>").unwrap().len(), 1);
    }

    #[test]
    fn xml_has_no_control_characters() {
        assert!(can_have("a\tb\n\r\u{e9}"));
        assert!(!can_have("\u{1}"));
        assert!(!can_have("\u{1f}"));
    }
}
