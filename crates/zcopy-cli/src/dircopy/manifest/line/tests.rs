use proptest::collection::vec;
use proptest::prelude::*;
use zcopy_fuzz::holds_for_bytes;

use super::*;
use crate::common::digest::Stream;

const DIGITS: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn empty() -> Digest {
    Stream::new(Algorithm::Sha256).finish()
}

/// The line with `D` standing for a digest.
fn parsed(line: &[u8]) -> Result<Line, ParseLineError> {
    let line: Vec<Vec<u8>> = line
        .split(|byte| *byte == b'D')
        .map(<[u8]>::to_vec)
        .collect();
    parse(&line.join(DIGITS.as_bytes()))
}

#[test]
fn all_that_the_tools_write_is_understood() {
    let sha = Some(Algorithm::Sha256);
    let blake = Some(Algorithm::Blake3);
    let table: &[(&[u8], &[u8], Option<Algorithm>)] = &[
        (b"D  name", b"name", None),
        (b"D  name\n", b"name", None),
        (b"D  name\r\n", b"name", None),
        (b"D *name", b"name", None),
        (b" \tD  name", b"name", None),
        (b"D\t name", b"name", None),
        (b"D   name", b" name", None),
        (b"D  *name", b"*name", None),
        (b"D  name ", b"name ", None),
        (b"D  a\\nb", b"a\\nb", None),
        (b"\\D  a\\nb\\\\c\\rd", b"a\nb\\c\rd", None),
        (b"\\D *a\\\\", b"a\\", None),
        (b" \\D  plain", b"plain", None),
        (b"D  \xff\x01", b"\xff\x01", None),
        (b"D  name\r\r\n", b"name\r", None),
        (b"SHA256 (name) = D", b"name", sha),
        (b"SHA256 (name) = D\r\n", b"name", sha),
        (b"SHA256(name)= D", b"name", sha),
        (b"SHA256 (name)=D", b"name", sha),
        (b"SHA256 (a) = (b) = D", b"a) = (b", sha),
        (b"\\SHA256 (a\\\\) = D", b"a\\", sha),
        (b"BLAKE3 (name) = D", b"name", blake),
        (b"\\BLAKE3 (a\\nb) = D", b"a\nb", blake),
    ];
    for (line, path, algorithm) in table {
        let shown = line.escape_ascii();
        let parsed = parsed(line).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(parsed.path, *path, "{shown}");
        assert_eq!(parsed.algorithm, *algorithm, "{shown}");
        assert_eq!(parsed.digest, empty(), "{shown}");
    }
}

#[test]
fn digits_in_upper_case_are_the_same_digest() {
    let line = format!("{}  name", DIGITS.to_uppercase());
    assert_eq!(parse(line.as_bytes()).unwrap().digest, empty());
    let line = format!("SHA256 (name) = {}", DIGITS.to_uppercase());
    assert_eq!(parse(line.as_bytes()).unwrap().digest, empty());
}

#[test]
fn what_is_no_line_is_refused_with_the_reason() {
    for (line, fault) in [
        (&b""[..], Fault::NoDigest),
        (b"\n", Fault::NoDigest),
        (b"\\", Fault::NoDigest),
        (b"name", Fault::NoDigest),
        (b"0D  name", Fault::NoDigest),
        (b"d41d8cd98f00b204e9800998ecf8427e  name", Fault::NoDigest),
        (
            b"XXH128 (name) = d41d8cd98f00b204e9800998ecf8427e",
            Fault::NoDigest,
        ),
        (b"XXH128 (name) = D", Fault::NoTaggedDigest),
        (b"gD  name", Fault::NoDigest),
        (b"\\\\D  name", Fault::NoDigest),
        (b"SHA512 (name) = D", Fault::NoTaggedDigest),
        (b"SHA384 (name) = D", Fault::NoDigest),
        (b"SHA256", Fault::NoDigest),
        (b"SHA256  (name) = D", Fault::NoDigest),
        (b"D", Fault::NoDivision),
        (b"D ", Fault::NoDivision),
        (b"D name", Fault::NoDivision),
        (b"DD  name", Fault::NoDigest),
        (b"D  ", Fault::NoName),
        (b"D *\r\n", Fault::NoName),
        (b"SHA256 () = D", Fault::NoName),
        (b"SHA256 (name = D", Fault::NoTaggedDigest),
        (b"SHA256 (name) D", Fault::NoTaggedDigest),
        (b"SHA256 (name) = D ", Fault::NoTaggedDigest),
        (b"SHA256 (name) = 0D", Fault::NoTaggedDigest),
        (b"SHA256 (name) =", Fault::NoTaggedDigest),
        (b"SHA256 (", Fault::NoTaggedDigest),
        (b"\\D  a\\tb", Fault::BadEscape),
        (b"\\D  a\\", Fault::BadEscape),
        (b"\\SHA256 (a\\) = D", Fault::BadEscape),
        (b"D  a\0b", Fault::NulInName),
    ] {
        let shown = line.escape_ascii();
        assert_eq!(parsed(line), Err(ParseLineError(fault)), "{shown}");
    }
}

#[test]
fn a_file_called_as_standard_input_is_named_by_its_place() {
    let mut line = Vec::new();
    write(&empty(), b"-", &mut line);
    assert_eq!(line, format!("{DIGITS}  ./-\n").as_bytes());
}

#[test]
fn a_line_may_hold_a_checksum_of_any_algorithm() {
    for algorithm in ChecksumAlgorithm::ALL {
        let digits = "0Ab".repeat(43)[..algorithm.n_digits()].to_owned();
        let expected = ChecksumLine {
            checksum: Checksum::from_digits(digits.as_bytes()).unwrap(),
            path: b"a\\b".to_vec(),
            is_escaped: false,
            algorithm: None,
        };
        let line = format!("{digits}  a\\b\n");
        assert_eq!(parse_any(line.as_bytes()), Ok(expected.clone()));
        let line = format!("\\{digits} *a\\\\b\n");
        let is_escaped = true;
        let escaped = ChecksumLine {
            is_escaped,
            ..expected.clone()
        };
        assert_eq!(parse_any(line.as_bytes()), Ok(escaped));
        let tag = algorithm.name().to_uppercase();
        let tagged = ChecksumLine {
            algorithm: Some(algorithm),
            ..expected
        };
        for line in [
            format!("{tag} (a\\b) = {digits}\n"),
            format!("{tag}(a\\b)= {digits}"),
        ] {
            assert_eq!(parse_any(line.as_bytes()), Ok(tagged.clone()), "{line}");
        }
        // A tag with the digits of another algorithm makes no line.
        let line = format!("{tag} (a) = {digits}00");
        assert_eq!(
            parse_any(line.as_bytes()),
            Err(ParseLineError(Fault::NoTaggedDigest))
        );
    }
}

#[test]
fn openssl_3_has_names_of_its_own_for_sha_2() {
    let line = format!("SHA2-256(name)= {DIGITS}");
    let line = parse_any(line.as_bytes()).unwrap();
    assert_eq!(line.algorithm, Some(ChecksumAlgorithm::Sha256));
}

proptest! {
    #[test]
    fn every_name_that_is_written_is_understood_again(name in vec(1_u8.., 1..60)) {
        prop_assume!(name != b"-");
        let mut line = Vec::new();
        write(&empty(), &name, &mut line);
        prop_assert_eq!(memchr::memchr_iter(b'\n', &line).collect::<Vec<_>>(), [line.len() - 1]);
        let parsed = parse(&line).unwrap();
        prop_assert_eq!(parsed, Line { digest: empty(), path: name, algorithm: None });
    }

    #[test]
    fn nothing_that_is_read_makes_it_panic(prefix in "(\\\\)?(SHA256 ?\\(|BLAKE3 ?\\(|D|D |D  |D \\*)?", rest in vec(any::<u8>(), 0..40), tail in "(\\) ?= ?D)?") {
        let line = [prefix.as_bytes(), &rest, tail.as_bytes()].concat();
        if let Ok(line) = parsed(&line) {
            prop_assert!(!line.path.is_empty() && !line.path.contains(&0));
        }
    }
}

#[test]
fn any_line_that_is_understood_is_understood_alike_when_it_is_written_again() {
    let digits = DIGITS;
    let seeds = [
        format!("{digits}  name\n"),
        format!("\\{digits} *a\\nb\\\\\r\n"),
        format!("SHA256 (a) = (b) = {digits}"),
        format!("\\BLAKE3(a\\rb)= {digits}\r\n"),
        "d41d8cd98f00b204e9800998ecf8427e  md5".to_owned(),
        "XXH128 (name) = d41d8cd98f00b204e9800998ecf8427e".to_owned(),
    ];
    let seeds = seeds.each_ref().map(String::as_bytes);
    holds_for_bytes(&seeds, |bytes| {
        if let Ok(line) = parse_any(bytes) {
            assert!(!line.path.is_empty() && !line.path.contains(&0));
        }
        let Ok(line) = parse(bytes) else {
            return;
        };
        let mut again = Vec::new();
        write(&line.digest, &line.path, &mut again);
        let written = parse(&again).unwrap();
        let path = if line.path == b"-" {
            b"./-"
        } else {
            &line.path[..]
        };
        assert_eq!((written.digest, &written.path[..]), (line.digest, path));
        let n_bytes = DIGITS.len() / 2;
        let read = parse_digest(&again, n_bytes).unwrap();
        assert_eq!((read.0, &read.1[..]), (line.digest, path));
    });
}
