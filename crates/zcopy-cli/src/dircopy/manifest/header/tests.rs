use zcopy_fuzz::holds_for_bytes;

use super::*;
use crate::common::digest::{Algorithm, digests};

fn header() -> Header {
    let name: Name = "shasum.2026-11-22.10.00.00.txt".parse().unwrap();
    let digest = digests(Algorithm::Sha256, &[b"abc"])[0];
    Header {
        time: "2026-11-23T07:11:18.123456789Z".parse().unwrap(),
        source: b"/media/card\n2\\\xFF".to_vec(),
        includes: vec![Included { name, digest }],
        journals: vec![b".zc-dircopy-journal-abc".to_vec()],
        copied: vec![Copied {
            name: name.next(),
            digest,
        }],
        kind: ManifestKind::Bag,
    }
}

fn parsed(lines: &[u8]) -> Result<Option<Header>, ParseHeaderError> {
    let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
    let Some(mut parser) = Header::begin(lines.next().unwrap_or_default())? else {
        return Ok(None);
    };
    for line in lines {
        parser.push(line)?;
    }
    parser.finish().map(Some)
}

#[test]
fn a_header_reads_as_it_was_written_and_each_line_is_a_comment() {
    let mut lines = Vec::new();
    header().write(&mut lines);
    assert_eq!(parsed(&lines), Ok(Some(header())));
    for line in lines.split(|byte| *byte == b'\n') {
        assert!(line.is_empty() || line.starts_with(b"# "));
    }
}

#[test]
fn comments_that_nobody_knows_are_skipped() {
    let mut lines = Vec::new();
    header().write(&mut lines);
    lines.extend_from_slice(b"# camera: A\n#\n");
    assert_eq!(parsed(&lines), Ok(Some(header())));
}

#[test]
fn other_comments_begin_no_header() {
    assert_eq!(parsed(b"# made by hand\n"), Ok(None));
    assert_eq!(parsed(b""), Ok(None));
}

#[test]
fn a_damaged_header_is_an_error() {
    let first = "# zc-dircopy manifest, version 1\n";
    let time = "# time: 2026-11-23T07:11:18Z\n";
    for damaged in [
        first.to_owned(),
        format!("{first}# time: yesterday\n"),
        format!("{first}{time}# source: a\\b\n"),
        format!("{first}{time}# includes: 12\n"),
        format!("{first}{time}# includes: x shasum.2026-11-22.10.00.00.txt\n"),
        format!("{first}{time}# includes: 12 elsewhere.txt\n"),
        format!("{first}{time}# copied: abc shasum.2026-11-22.10.00.00.txt\n"),
    ] {
        let parsed = parsed(damaged.as_bytes());
        assert_eq!(parsed, Err(ParseHeaderError::Damaged), "{damaged}");
    }
    let later = parsed(b"# zc-dircopy manifest, version 2\n");
    assert_eq!(later, Err(ParseHeaderError::LaterVersion));
}

#[test]
fn an_end_reads_as_it_was_written() {
    let end = End {
        n_lines: 7,
        digest: digests(Algorithm::Sha256, &[b""])[0],
    };
    let mut line = Vec::new();
    end.write(&mut line);
    assert_eq!(End::parse(&line), Some(end));
    assert_eq!(End::parse(&line[..line.len() - 2]), None);
    assert_eq!(End::parse(b"# end: 7 lines, sha256 \n"), None);
    assert_eq!(End::parse(b"# the end\n"), None);
}

#[test]
fn any_header_that_is_understood_is_understood_alike_when_it_is_written_again() {
    let mut seed = Vec::new();
    header().write(&mut seed);
    let mut end = Vec::new();
    let digest = header().copied[0].digest;
    End { n_lines: 7, digest }.write(&mut end);
    holds_for_bytes(&[&seed, &end], |bytes| {
        if let Ok(Some(header)) = parsed(bytes) {
            let mut again = Vec::new();
            header.write(&mut again);
            assert_eq!(parsed(&again), Ok(Some(header)));
        }
        if let Some(end) = End::parse(bytes) {
            let mut again = Vec::new();
            end.write(&mut again);
            assert_eq!(End::parse(&again), Some(end));
        }
    });
}
