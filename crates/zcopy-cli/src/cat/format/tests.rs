use std::io::{Seek as _, Write as _};
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// The smallest output buffer of a filter.
const MIN_OUT: usize = 64 << 10;

/// Every combination of the options.
fn all_options() -> impl Iterator<Item = FormatOptions> {
    let numberings = [Numbering::None, Numbering::Every, Numbering::NonBlank];
    numberings.into_iter().flat_map(|numbering| {
        (0..16).map(move |bits| FormatOptions {
            numbering,
            squeeze_blank: bits & 1 != 0,
            show_ends: bits & 2 != 0,
            show_tabs: bits & 4 != 0,
            show_nonprinting: bits & 8 != 0,
        })
    })
}

/// Every kind of vectors that this machine has.
fn levels() -> Vec<Level> {
    let widest = Level::new();
    #[cfg(target_arch = "x86_64")]
    let levels = [
        widest.as_sse2().map(Level::Sse2),
        widest.as_sse4_2().map(Level::Sse4_2),
        widest.as_avx2().map(Level::Avx2),
        widest.as_avx512().map(Level::Avx512),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let levels = [Some(widest)];
    levels.into_iter().flatten().collect()
}

/// Formats byte by byte, as GNU's manual says.
fn naive(bytes: &[u8], options: FormatOptions) -> Vec<u8> {
    let mut out = Vec::new();
    let mut n_numbered = 0;
    let mut begins_line = true;
    let mut after_blank = false;
    for (at, &byte) in bytes.iter().enumerate() {
        let is_blank = begins_line && byte == b'\n';
        if is_blank && after_blank && options.squeeze_blank {
            continue;
        }
        let is_numbered = match options.numbering {
            Numbering::None => false,
            Numbering::Every => begins_line,
            Numbering::NonBlank => begins_line && !is_blank,
        };
        if is_numbered {
            n_numbered += 1;
            out.extend(format!("{n_numbered:6}\t").bytes());
        }
        match byte {
            b'\n' if options.show_ends => out.extend(b"$\n"),
            b'\t' if options.show_tabs => out.extend(b"^I"),
            b'\r' if options.show_ends && bytes.get(at + 1) == Some(&b'\n') => out.extend(b"^M"),
            b'\n' | b'\t' => out.push(byte),
            _ if options.show_nonprinting => {
                if byte >= 128 {
                    out.extend(b"M-");
                }
                match byte % 128 {
                    control @ 0..32 => out.extend([b'^', b'@' + control]),
                    127 => out.extend(b"^?"),
                    printing => out.push(printing),
                }
            }
            _ => out.push(byte),
        }
        (begins_line, after_blank) = (byte == b'\n', is_blank);
    }
    out
}

/// Formats parts that are read one after the other, as the driver of the library does.
fn formatted(parts: &[&[u8]], format: &mut Format) -> Vec<u8> {
    let mut out = Vec::new();
    let mut buffer = vec![b'#'; MIN_OUT];
    let mut shown = Vec::new();
    let open = parts.iter().map(|part| (*part, Remaining::More));
    for (part, rest) in open.chain([(&b""[..], Remaining::End)]) {
        shown.extend_from_slice(part);
        while !shown.is_empty() {
            let input = Input::new(&shown, rest);
            let answer = format.filter(input, &mut buffer);
            out.extend_from_slice(&buffer[..answer.produced]);
            shown.drain(..answer.consumed);
            if answer == Filtered::NEED_MORE {
                break;
            }
            assert!(answer.consumed > 0, "produced bytes from no input");
        }
        let may_wait = rest == Remaining::More && format.options.shows_crlf();
        assert!(
            shown.is_empty() || may_wait && shown == b"\r",
            "holds back {shown:?}"
        );
    }
    out
}

/// What [`Format::line`] makes of lines, each of which is also cut where `cuts` says.
fn line_by_line(bytes: &[u8], options: FormatOptions, cuts: &[Index]) -> Vec<u8> {
    let mut format = Format::new(options);
    let mut out = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let cut = cuts.first().map_or(0, |cut| cut.index(line.len()));
        let parts = match line.split_at(cut) {
            // These two have to come together.
            (before, b"\n") if before.ends_with(b"\r") => vec![line],
            ([], after) => vec![after],
            (before, after) => vec![before, after],
        };
        for part in parts {
            let (old, len) = (format.clone(), out.len());
            let prefix = format.line(part, &mut out);
            let is_number = |text: &[u8]| text.ends_with(b"\t") && text.len() >= 7;
            match prefix {
                None => assert_eq!((part, out.len()), (&b"\n"[..], len)),
                Some(0) => assert_eq!(old.number, format.number),
                Some(n) => assert!(is_number(&out[len..len + n])),
            }
        }
    }
    out
}

/// Bytes of the kinds that matter, and stretches that end around a block's end.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let stretch = prop_oneof![0..5_usize, 60..67_usize, 125..131_usize];
    let piece = prop_oneof![
        4 => (1..5_usize).prop_map(|n| b"\n".repeat(n)),
        2 => (1..4_usize).prop_map(|n| b"\r\n".repeat(n)),
        1 => Just(b"\r".to_vec()),
        1 => (1..4_usize).prop_map(|n| b"\t".repeat(n)),
        4 => stretch.prop_map(|n| b"x".repeat(n)),
        2 => vec(any::<u8>(), 0..100),
        1 => vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'\t'), Just(127), 0..32_u8, 128..=255_u8], 0..100),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// The parts between the places that `cuts` says.
fn cut<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

proptest! {
    #[test]
    fn blocks_are_formatted_like_single_bytes(bytes in text(), cuts in vec(any::<Index>(), 0..5)) {
        for options in all_options() {
            let expected = naive(&bytes, options);
            let produced = formatted(&cut(&bytes, &cuts), &mut Format::new(options));
            prop_assert_eq!(produced.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{:?}", options);
        }
    }

    #[test]
    fn all_vector_instructions_give_the_same(bytes in text(), cuts in vec(any::<Index>(), 0..3)) {
        for options in all_options() {
            let expected = naive(&bytes, options);
            for level in levels() {
                let produced = formatted(&cut(&bytes, &cuts), &mut Format::with_level(level, options));
                prop_assert_eq!(produced.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{:?}, {:?}", options, level);
            }
        }
    }

    #[test]
    fn lines_are_formatted_like_single_bytes(bytes in text(), cuts in vec(any::<Index>(), 0..2)) {
        for options in all_options() {
            let expected = naive(&bytes, options);
            let produced = line_by_line(&bytes, options, &cuts);
            prop_assert_eq!(produced.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{:?}", options);
        }
    }
}

proptest! {
    // Each case is long.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_smallest_buffer_is_enough_for_long_input(
        options in select(all_options().collect::<Vec<_>>()),
        seed in text(),
        n in MIN_OUT..4 * MIN_OUT,
        cuts in vec(any::<Index>(), 0..3),
    ) {
        let bytes: Vec<u8> = seed.iter().chain(b"\n").copied().cycle().take(n).collect();
        let produced = formatted(&cut(&bytes, &cuts), &mut Format::new(options));
        prop_assert!(produced == naive(&bytes, options));
    }
}

proptest! {
    // Each case starts 48 processes.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn gnu_cat_formats_like_single_bytes(bytes in text()) {
        for options in all_options() {
            let expected = naive(&bytes, options);
            let Some(produced) = by_gnu(&bytes, options) else {
                let may_skip = std::env::var_os("ZCOPY_REQUIRE").is_none();
                prop_assert!(may_skip, "ZCOPY_REQUIRE forbids skipping: cat is not GNU's");
                eprintln!("SKIPPED: cat is not GNU's");
                return Ok(());
            };
            prop_assert_eq!(produced.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{:?}", options);
        }
    }
}

/// What this machine's cat makes of bytes, if it is GNU's.
fn by_gnu(bytes: &[u8], options: FormatOptions) -> Option<Vec<u8>> {
    let version = Command::new("cat").arg("--version").output().unwrap();
    if !version.stdout.starts_with(b"cat (GNU coreutils)") {
        return None;
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    let mut switches = String::from("-u");
    switches.push_str(match options.numbering {
        Numbering::None => "",
        Numbering::Every => "n",
        Numbering::NonBlank => "b",
    });
    for (is_given, letter) in [
        (options.squeeze_blank, 's'),
        (options.show_ends, 'E'),
        (options.show_tabs, 'T'),
        (options.show_nonprinting, 'v'),
    ] {
        switches.extend(is_given.then_some(letter));
    }
    let cat = Command::new("cat").arg(switches).stdin(file).output();
    Some(cat.unwrap().stdout)
}

#[test]
fn blank_lines_with_all_options_fit_into_the_smallest_buffer() {
    let options = FormatOptions {
        numbering: Numbering::Every,
        show_ends: true,
        ..FormatOptions::default()
    };
    let bytes = b"\n".repeat(MIN_OUT);
    let mut format = Format::new(options);
    let mut line = u64::MAX - 300_000;
    format.number = LineNumber::after(line);
    // What is left at the end is more or less than a block needs.
    for more in (0..2000).step_by(50) {
        let mut buffer = vec![b'#'; MIN_OUT + more];
        let input = Input::new(&bytes, Remaining::More);
        let Filtered {
            consumed: taken,
            produced,
        } = format.filter(input, &mut buffer);
        let mut expected = Vec::new();
        for _ in 0..taken {
            line += 1;
            expected.extend(format!("{line}\t$\n").bytes());
        }
        assert!(buffer[..produced] == expected);
        assert!(
            buffer.len() - produced < 4096,
            "leaves most of the buffer unused"
        );
    }
}

#[test]
fn numbers_overflow_their_columns() {
    for before in [
        8,
        98,
        999_998,
        99_999_998,
        999_999_999_999_998,
        1_999_999_999_999_998,
        u64::MAX - 3,
    ] {
        let mut number = LineNumber::after(before);
        for line in before + 1..=before + 3 {
            number.advance();
            let mut buffer = [0; 64];
            let mut out = OutBuffer::new(&mut buffer);
            out.push_number(&number);
            let len = out.len();
            assert_eq!(len, number.width());
            assert_eq!(
                buffer[..len].escape_ascii().to_string(),
                format!("{line:6}\\t")
            );
            assert_eq!(number, LineNumber::after(line));
        }
    }
}

#[test]
fn there_are_vectors_of_more_than_one_kind() {
    if cfg!(target_arch = "x86_64") {
        assert!(levels().len() > 1);
    }
}

#[test]
fn numbers_continue_beyond_seven_digits() {
    let options = FormatOptions {
        numbering: Numbering::Every,
        ..FormatOptions::default()
    };
    let bytes = b"x\n".repeat(1_000_010);
    let produced = formatted(&[&bytes], &mut Format::new(options));
    assert!(produced == naive(&bytes, options));
}

#[test]
fn a_carriage_return_waits_for_the_next_file() {
    let ends = FormatOptions {
        show_ends: true,
        ..FormatOptions::default()
    };
    let produced = |parts: &[&[u8]]| formatted(parts, &mut Format::new(ends));
    assert_eq!(produced(&[b"a\r", b"\nb"]), b"a^M$\nb");
    assert_eq!(produced(&[b"a\r", b"b"]), b"a\rb");
    assert_eq!(produced(&[b"a\r"]), b"a\r");
}

#[test]
fn no_input_gives_no_output() {
    for options in all_options() {
        let mut format = Format::new(options);
        let mut out = Vec::new();
        assert_eq!(format.line(b"", &mut out), Some(0));
        assert_eq!(formatted(&[b"", b""], &mut format), b"");
        assert_eq!(out, b"");
    }
}

#[test]
fn options_change_nothing_if_none_is_set() {
    for options in all_options() {
        let every_byte: Vec<u8> = (0..=255).chain(*b"\n\n\n\r\n").collect();
        let changes = naive(&every_byte, options) != every_byte;
        assert_eq!(options.changes_nothing(), !changes, "{options:?}");
    }
}
