//! Lines that pv 1.12 printed, of which ours are to be the beginning that fits the terminal.
//!
//! `lines.txt` was recorded from pv under a clock and a source that were made up: a second after
//! its start at 2027-01-15 08:00:00 UTC all bytes came at once. Of its columns, which tabs part,
//! the first eight are what pv was asked for, the ninth is what it showed, with `\e` for an escape,
//! and the last is a full stop, so that no editor takes blanks off:
//!
//! 1. `F` for a format, `d` for the letters of switches, `n` for numbers;
//! 2. the width;
//! 3. the format, or the letters;
//! 4. the bytes moved, and 5. the total, or `-`;
//! 6. the style of bars;
//! 7. `g`, `k` and `8` as the options are named, `c` without UTF-8, `o` half a second later, when
//!    it was over, and a full stop;
//! 8. the name, or `-`.

use std::time::Duration;

use jiff::civil::date;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use zcopy_cli::common::progress::throughput::Throughput;
use zcopy_cli::common::progress::units::Unit;
use zcopy_cli::common::terminal::ansi;
use zcopy_cli::pv::display::bar::BarStyle;
use zcopy_cli::pv::display::format::{Format, Layout, Segment, Switches};
use zcopy_cli::pv::display::reading::{BufferUse, Reading};
use zcopy_cli::pv::display::render::{RenderOptions, render};

#[test]
fn lines_are_those_that_pv_printed() {
    let recorded = include_str!("pv_words/lines.txt");
    let mut n_lines = 0;
    for row in recorded.lines() {
        let fields: Vec<&str> = row.split('\t').collect();
        let [
            kind,
            width,
            format,
            moved,
            total,
            style,
            flags,
            name,
            shown,
            _,
        ] = fields[..]
        else {
            panic!("{row:?} has {} columns", fields.len());
        };
        let width = width.parse().unwrap();
        let options = RenderOptions {
            width,
            unit: if flags.contains('8') {
                Unit::Bits
            } else {
                Unit::Bytes
            },
            si: flags.contains('k'),
            style: style_named(style),
            gauge: flags.contains('g'),
            name: (name != "-").then(|| name.to_owned()),
            utf8: !flags.contains('c'),
            colour: true,
        };
        let format = match kind {
            "F" => Format::parse(format),
            "n" => Format::parse(format).in_numbers(),
            _ => Format::from_switches(&switches(format, name != "-")),
        };
        let (moved, total) = (moved.parse().unwrap(), total.parse().ok());
        let reading = a_second_after(moved, total, flags.contains('o'));
        let mut ours = String::new();
        render(&format, &reading, &options, &mut ours);
        let shown = shown.replace("\\e", "\x1b");
        let theirs = if kind == "n" {
            // pv covers what is left of a longer line before, even where there is no terminal.
            shown.trim_end().to_owned()
        } else {
            ansi::cut(&shown, width)
        };
        assert_eq!(ours, theirs, "{row}");
        n_lines += 1;
    }
    assert!(n_lines > 300, "only {n_lines} lines were compared");
}

/// What is read when all bytes have come at once, or half a second later, when it is over.
fn a_second_after(moved: u64, total: Option<u64>, is_over: bool) -> Reading {
    let mut throughput = Throughput::over(Duration::from_secs(30));
    throughput.sample(Duration::from_secs(1), moved);
    if is_over {
        throughput.finish(Duration::from_millis(1500), moved);
    }
    let now = date(2027, 1, 15).at(8, 0, 1, 0);
    Reading {
        elapsed: throughput.elapsed(),
        moved,
        rate: throughput.rate(),
        average: throughput.average(),
        fastest: throughput.fastest(),
        remaining: throughput.remaining(total),
        tick: throughput.tick(),
        is_over,
        ..Reading::before(now.to_zoned(TimeZone::UTC).unwrap(), total)
    }
}

fn switches(letters: &str, name: bool) -> Switches {
    let has = |letter: char| letters.contains(letter);
    Switches {
        progress: has('p'),
        timer: has('t'),
        eta: has('e'),
        finish: has('I'),
        rate: has('r'),
        average: has('a'),
        bytes: has('b'),
        buffer: has('T'),
        tab: has('9'),
        tail: None,
        name,
        ratio: false,
    }
}

fn style_named(name: &str) -> BarStyle {
    let mut styles = BarStyle::WORDS.iter();
    styles.find(|(word, _)| *word == name).unwrap().1
}

/// Text that displays are prone to stumble over, and text of any kind.
fn any_text() -> impl Strategy<Value = String> {
    let odd = [
        "%",
        "%p",
        "%20p",
        "%L",
        "%9L",
        "%99999999999999999999A",
        "%{bar-granular}",
        "%{progress-conemu}",
        "%{sgr:red}",
        "%{sgr:0}",
        "%b",
        "%e",
        "%I",
        "%N",
        "%t",
        "%r",
        "%a",
        "%T",
        "%{ratio}",
        "%7A",
        "日本",
        "e\u{301}",
        "❤\u{fe0f}",
        "\u{1f468}\u{200d}\u{1f469}",
        "\x1b[31m",
        "\x1b[2J",
        "\x1b",
        "\t",
        "\n",
        "\u{85}",
        "\u{2028}",
    ];
    let odd = proptest::sample::select(odd.to_vec()).prop_map(str::to_owned);
    let part = prop_oneof![3 => odd, 1 => ".{0,8}"];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn any_rate() -> impl Strategy<Value = f64> {
    prop_oneof![proptest::num::f64::ANY, 0.0..1e12]
}

fn any_amount() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..5000_u64]
}

prop_compose! {
    fn any_reading()(
        elapsed in any::<(u64, u32)>(),
        moved in any_amount(),
        total in proptest::option::of(any_amount()),
        rates in (any_rate(), any_rate(), any_rate()),
        remaining in proptest::option::of(any::<u64>()),
        data in (any::<Vec<u8>>(), any_text()),
        tick in any::<u64>(),
        ratio in proptest::option::of(any_rate()),
        is_over in any::<bool>(),
        percent in any::<u8>(),
    ) -> Reading {
        let now = date(2027, 1, 15).at(8, 0, 1, 0).to_zoned(TimeZone::UTC).unwrap();
        Reading {
            elapsed: Duration::new(elapsed.0, elapsed.1 % 1_000_000_000),
            moved,
            rate: rates.0,
            average: rates.1,
            fastest: rates.2,
            remaining: remaining.map(Duration::from_secs),
            buffer: BufferUse::Percent(percent),
            tail: data.0,
            line: data.1.into_bytes(),
            tick,
            ratio,
            is_over,
            ..Reading::before(now, total)
        }
    }
}

prop_compose! {
    fn any_options()(
        width in 0..300_usize,
        unit in proptest::sample::select(vec![Unit::Bytes, Unit::Bits, Unit::Lines]),
        style in proptest::sample::select(BarStyle::WORDS.to_vec()),
        bools in any::<(bool, bool, bool, bool)>(),
        name in proptest::option::of(any_text()),
    ) -> RenderOptions {
        RenderOptions {
            width,
            unit,
            si: bools.0,
            style: style.1,
            gauge: bools.1,
            name,
            utf8: bools.2,
            colour: bools.3,
        }
    }
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        text in any_text(),
        layout in proptest::sample::select(vec![Layout::Written, Layout::Joined]),
        reading in any_reading(),
        options in any_options(),
    ) {
        let format = Format { layout, ..Format::parse(&text) };
        let mut line = String::new();
        render(&format, &reading, &options, &mut line);
        prop_assert!(columns(&line) <= options.width, "{line:?}");
        // Nothing but colours and the tab's commands is obeyed by the terminal.
        prop_assert!(!line.contains(['\n', '\r', '\t', '\u{85}', '\u{2028}']), "{line:?}");
    }

    #[test]
    fn numbers_are_printed_whatever_they_are(text in any_text(), reading in any_reading(), options in any_options()) {
        let format = Format::parse(&text).in_numbers();
        let mut line = String::new();
        render(&format, &reading, &options, &mut line);
        let literal: usize = format.segments.iter().map(|segment| match segment {
            Segment::Literal(text) => text.len(),
            _ => 0,
        }).sum();
        prop_assert!(line.len() >= literal);
    }

    #[test]
    fn a_history_of_anything_yields_numbers(
        window in 0..1_000_000_u64,
        samples in proptest::collection::vec((any::<u64>(), any::<u64>(), 0..8_u8), 0..40),
        total in proptest::option::of(any::<u64>()),
    ) {
        let mut throughput = Throughput::over(Duration::from_secs(window));
        for (at, moved, what) in samples {
            match what {
                0 => throughput.reset(Duration::from_nanos(at), moved),
                1 => throughput.finish(Duration::from_nanos(at), moved),
                _ => throughput.sample(Duration::from_nanos(at), moved),
            }
            prop_assert!(throughput.rate().is_finite() && throughput.rate() >= 0.0);
            prop_assert!(throughput.average().is_finite() && throughput.average() >= 0.0);
            prop_assert!(throughput.fastest() >= 0.0);
            let _ = throughput.remaining(total);
            prop_assert!(!throughput.statistics().to_string().contains("NaN"));
        }
    }
}

/// The columns of a line, counted otherwise than by what cuts it: without its sequences, as a
/// whole.
fn columns(line: &str) -> usize {
    let mut plain = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.next() == Some('[') => {
                let _ = chars.find(char::is_ascii_alphabetic);
            }
            '\x1b' => {
                let _ = chars.find(|c| matches!(c, '\\' | '\x07'));
            }
            _ => plain.push(c),
        }
    }
    unicode_width::UnicodeWidthStr::width(plain.as_str())
}
