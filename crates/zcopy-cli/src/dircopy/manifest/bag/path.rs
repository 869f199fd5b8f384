//! The paths in the lines of a bag's manifests.
//!
//! A line feed, a carriage return and a percent sign are percent-encoded, and nothing else is (RFC
//! 8493, section 2.1.3). Some programs encode no percent signs: `bagit.py` 1.9 is one of them.

/// Appends the path as a manifest has it.
pub(super) fn encode(path: &[u8], line: &mut Vec<u8>) {
    for byte in path {
        match byte {
            b'\n' => line.extend_from_slice(b"%0A"),
            b'\r' => line.extend_from_slice(b"%0D"),
            b'%' => line.extend_from_slice(b"%25"),
            byte => line.push(*byte),
        }
    }
}

/// The path that a manifest has. Other sequences than the three stay as they are.
pub(super) fn decode(encoded: &[u8], percent: PercentSign) -> Vec<u8> {
    let mut path = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let Some((first, behind)) = rest.split_first() {
        let decoded = match rest {
            [b'%', b'0', b'A' | b'a', ..] => Some(b'\n'),
            [b'%', b'0', b'D' | b'd', ..] => Some(b'\r'),
            [b'%', b'2', b'5', ..] if percent == PercentSign::Encoded => Some(b'%'),
            _ => None,
        };
        path.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() {
            &rest[3..]
        } else {
            behind
        };
    }
    path
}

/// Whether the percent signs of paths are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PercentSign {
    Encoded,
    Plain,
}

#[cfg(test)]
mod tests {
    use zcopy_fuzz::holds_for_bytes;

    use super::*;

    #[test]
    fn line_feeds_carriage_returns_and_percent_signs_are_encoded_and_nothing_else() {
        let path = "data/a\nb\rc%d%0A é\\\t".as_bytes();
        let mut line = Vec::new();
        encode(path, &mut line);
        assert_eq!(line, "data/a%0Ab%0Dc%25d%250A é\\\t".as_bytes());
        assert_eq!(decode(&line, PercentSign::Encoded), path);
    }

    #[test]
    fn percent_signs_that_nobody_encoded_stay() {
        let plain = |path: &[u8]| decode(path, PercentSign::Plain);
        assert_eq!(plain(b"data/100%25%0a"), b"data/100%25\n");
        assert_eq!(decode(b"100%.txt", PercentSign::Encoded), b"100%.txt");
        assert_eq!(decode(b"%", PercentSign::Encoded), b"%");
    }

    #[test]
    fn any_path_is_one_line_and_is_read_as_it_was_written() {
        holds_for_bytes(&[b"data/a\nb\rc%d%0A", b"%25%0d"], |path| {
            let mut line = Vec::new();
            encode(path, &mut line);
            assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            assert_eq!(decode(&line, PercentSign::Encoded), path);
            if !path.windows(2).any(|pair| pair == b"%0") {
                assert_eq!(decode(path, PercentSign::Plain), path);
            }
        });
    }
}
