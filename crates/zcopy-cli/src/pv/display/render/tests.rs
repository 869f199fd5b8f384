use std::time::Duration;

use jiff::Zoned;
use jiff::civil::date;
use jiff::tz::TimeZone;
use zcopy_fuzz::holds_for_bytes;

use super::*;
use crate::pv::display::format::Switches;
use crate::pv::display::reading::BufferUse;

fn options(width: usize) -> RenderOptions {
    RenderOptions {
        width,
        unit: Unit::Bytes,
        si: false,
        style: BarStyle::Plain,
        gauge: false,
        name: None,
        utf8: true,
        colour: true,
    }
}

fn now() -> Zoned {
    date(2027, 1, 15)
        .at(8, 0, 1, 0)
        .to_zoned(TimeZone::UTC)
        .unwrap()
}

/// A second after it began, when `moved` have been moved at an even rate.
fn reading(moved: u32, total: Option<u64>) -> Reading {
    let rate = f64::from(moved);
    let left = total.map(|total| total.saturating_sub(moved.into()));
    Reading {
        elapsed: Duration::from_secs(1),
        moved: moved.into(),
        rate,
        average: rate,
        fastest: rate,
        remaining: left.map(|left| Duration::from_secs(left / u64::from(moved.max(1)))),
        tick: 1,
        ..Reading::before(now(), total)
    }
}

fn line(format: &Format, reading: &Reading, options: &RenderOptions) -> String {
    let mut line = String::new();
    render(format, reading, options, &mut line);
    line
}

fn written(format: &str, width: usize) -> String {
    line(
        &Format::parse(format),
        &reading(300, Some(1000)),
        &options(width),
    )
}

fn unknown(format: &str, width: usize) -> String {
    line(&Format::parse(format), &reading(300, None), &options(width))
}

#[test]
fn the_default_line_is_as_pv_shows_it() {
    let format = Format::from_switches(&Switches::by_default());
    let mut reading = reading(1000, Some(200_000));
    assert_eq!(
        line(&format, &reading, &options(80)),
        "1000  B 0:00:01 [1000  B/s] [>                                ]   0% ETA 0:03:19"
    );
    reading.total = None;
    assert_eq!(
        line(&format, &reading, &options(80)),
        "1000  B 0:00:01 [1000  B/s] [<=>                                               ]"
    );
    reading.total = Some(0);
    assert_eq!(ansi::width(&line(&format, &reading, &options(80))), 80);
}

#[test]
fn the_last_line_has_blanks_for_the_time_left() {
    let format = Format::from_switches(&Switches::by_default());
    let over = Reading {
        is_over: true,
        remaining: Some(Duration::ZERO),
        ..reading(1000, Some(1000))
    };
    assert_eq!(
        line(&format, &over, &options(60)),
        "1000  B 0:00:01 [1000  B/s] [============>] 100%            "
    );
}

#[test]
fn what_is_over_finished_now() {
    let over = Reading {
        is_over: true,
        ..reading(1, Some(86_400))
    };
    let shown = line(&Format::parse("%I"), &over, &options(60));
    assert_eq!(shown, "FIN 08:00:01", "not when it would have");
}

#[test]
fn all_switches_make_the_line_that_pv_shows() {
    let all = Switches {
        finish: true,
        average: true,
        name: true,
        ..Switches::by_default()
    };
    let mut options = options(150);
    options.name = Some("nm".to_owned());
    assert_eq!(
        line(
            &Format::from_switches(&all),
            &reading(100, Some(1000)),
            &options
        ),
        format!(
            "       nm:  100  B 0:00:01 [ 100  B/s] ( 100  B/s) [=====>{}]  10% ETA 0:00:09 FIN 08:00:10",
            " ".repeat(61)
        )
    );
}

#[test]
fn single_switches_fill_no_more_than_they_need() {
    let shown = |letter: char| Switches {
        progress: letter == 'p',
        eta: letter == 'e',
        finish: letter == 'I',
        buffer: letter == 'T',
        tail: (letter == 'A').then_some(5),
        ..Switches::default()
    };
    for (letter, known, without) in [
        (
            'p',
            "[=>                     ]  10%",
            "[<=>                         ]",
        ),
        ('e', "ETA 0:00:09", ""),
        ('I', "FIN 08:00:10", ""),
        ('T', "{----}", "{----}"),
        ('A', ".....", "....."),
    ] {
        let format = Format::from_switches(&shown(letter));
        assert_eq!(
            line(&format, &reading(100, Some(1000)), &options(30)),
            known
        );
        assert_eq!(line(&format, &reading(100, None), &options(30)), without);
    }
}

#[test]
fn bars_share_what_the_rest_leaves() {
    for (format, width, shown) in [
        ("a%p|%p|%{bar-plain}b", 30, "a[>]  30%|[>]  30%|=>      b"),
        (
            "a%p|%p|%{bar-plain}b",
            31,
            "a[> ]  30%|[> ]  30%|=>       b",
        ),
        (
            "a%10p|%p|%L|b",
            40,
            "a[>  ]  30%|[>    ]  30%|            |b",
        ),
        ("%L|", 10, "         |"),
        ("%7p|", 10, "[]  30%|"),
        ("%6p|", 10, "|"),
        ("%8p|", 10, "[>]  30%|"),
        ("%p", 6, ""),
        ("%p", 7, "[]  30%"),
    ] {
        assert_eq!(written(format, width), shown, "{format}");
    }
    for (format, width, shown) in [
        ("%p", 5, ""),
        ("%p", 6, "[<=> ]"),
        ("%{progress-bar-only}", 4, ""),
        ("%{progress-bar-only}", 5, "<=>  "),
        ("%4{progress-bar-only}|", 8, "|"),
        ("%6p|", 8, "[<=> ]|"),
    ] {
        assert_eq!(unknown(format, width), shown, "{format}");
    }
}

#[test]
fn more_than_the_total_is_more_than_100_percent() {
    let more = reading(150, Some(100));
    let of = |format: &str| line(&Format::parse(format), &more, &options(20));
    assert_eq!(of("%p"), "[=============] 150%");
    assert_eq!(of("%{progress-amount-only}"), "150%");
    assert_eq!(of("%{progress-conemu}"), "\x1b]9;4;1;150\x1b\\");
    assert_eq!(of("%b"), " 150  B");
    let most = reading(1_000_001, Some(1));
    let of = |width| line(&Format::parse("%p"), &most, &options(width));
    assert_eq!(of(20), "[==========] 100000%");
    assert_eq!((of(10).as_str(), of(9).as_str()), ("[] 100000%", ""));
}

#[test]
fn a_gauge_shows_the_share_of_the_highest_rate() {
    let mut options = options(40);
    options.gauge = true;
    let format = Format::parse("%p");
    let mut reading = reading(100, None);
    assert_eq!(
        line(&format, &reading, &options),
        "[===========================>]/ 100  B/s"
    );
    (reading.rate, reading.fastest) = (50.0, 200.0);
    assert_eq!(
        line(&format, &reading, &options),
        "[======>                     ]/ 200  B/s"
    );
    let amount = Format::parse("%{progress-amount-only}|%{progress-bar-only}");
    assert_eq!(
        line(&amount, &reading, &options),
        " 200  B/s|======>                       "
    );
    (reading.rate, reading.fastest) = (0.0, 0.0);
    assert_eq!(
        line(&format, &reading, &options),
        "[>                           ]/0.00  B/s"
    );
    reading.total = Some(1000);
    reading.moved = 100;
    assert_eq!(
        line(&format, &reading, &options),
        "[==>                              ]  10%"
    );
}

#[test]
fn styles_need_utf8() {
    let mut options = options(20);
    options.style = BarStyle::Granular;
    let format = Format::from_switches(&Switches {
        progress: true,
        ..Switches::default()
    });
    let reading = reading(30, Some(100));
    assert_eq!(line(&format, &reading, &options), "[███▉         ]  30%");
    let both = Format::parse("%{bar-shaded} %p");
    assert_eq!(line(&both, &reading, &options), "██▓░░░░░░ [▌ ]  30%");
    options.utf8 = false;
    assert_eq!(line(&format, &reading, &options), "[==>          ]  30%");
}

#[test]
fn names_are_padded_to_nine_columns() {
    for (name, shown) in [
        ("abc", "      abc:|"),
        ("abcdefghijkl", "abcdefghijkl:|"),
        ("", "         :|"),
        ("日本", "     日本:|"),
        ("a\tb\x1b[1mc\n", "a b [1mc :|"),
    ] {
        let mut options = options(40);
        options.name = Some(name.to_owned());
        let format = Format::parse("%N|");
        assert_eq!(line(&format, &reading(1, None), &options), shown);
    }
    assert_eq!(written("%N|", 40), "|");
}

#[test]
fn numbers_are_as_pv_prints_them() {
    let shown = |letters: &str| Switches {
        timer: letters.contains('t'),
        bytes: letters.contains('b'),
        rate: letters.contains('r'),
        ..Switches::default()
    };
    let mut reading = reading(300, Some(700));
    reading.elapsed = Duration::from_secs(2);
    reading.rate = 200.0;
    reading.tick = 2;
    for (letters, known, without) in [
        ("", "43", "4"),
        ("t", "2.0000 43", "2.0000 4"),
        ("b", "300", "300"),
        ("r", "200.0000", "200.0000"),
        ("tbr", "2.0000 300 200.0000", "2.0000 300 200.0000"),
    ] {
        let format = Format::numeric(&shown(letters));
        assert_eq!(line(&format, &reading, &options(1)), known);
        let reading = Reading {
            total: None,
            ..reading.clone()
        };
        assert_eq!(line(&format, &reading, &options(1)), without);
    }
    let bits = RenderOptions {
        unit: Unit::Bits,
        ..options(1)
    };
    assert_eq!(
        line(&Format::numeric(&shown("br")), &reading, &bits),
        "2400 1600.0000"
    );
}

#[test]
fn a_numeric_format_keeps_what_is_written() {
    let json = "{\"elapsed\":%t,\t\"bytes\":%b,\"rate\":%r,\"avg\":%a,\"percentage\":%{progress-amount-only}}";
    let format = Format::parse(json).in_numbers();
    assert_eq!(
        line(&format, &reading(100, Some(700)), &options(5)),
        "{\"elapsed\":1.0000,\t\"bytes\":100,\"rate\":100.0000,\"avg\":100.0000,\"percentage\":14}"
    );
    let mixed = Format::parse("%e %I %p %N %T x%%").in_numbers();
    assert_eq!(
        line(&mixed, &reading(100, Some(700)), &options(46)),
        "ETA 0:00:06 FIN 08:00:07 [>  ]  14%  {----} x%"
    );
}

#[test]
fn half_a_percent_is_rounded_in_numbers_and_cut_off_in_bars() {
    let format = Format::numeric(&Switches::default());
    for (moved, number, bar) in [
        (5, "0", "  0%"),
        (15, "2", "  1%"),
        (994, "99", " 99%"),
        (999, "100", " 99%"),
    ] {
        let reading = reading(moved, Some(1000));
        assert_eq!(line(&format, &reading, &options(80)), number);
        assert_eq!(
            line(
                &Format::parse("%{progress-amount-only}"),
                &reading,
                &options(80)
            ),
            bar
        );
    }
}

#[test]
fn colours_end_with_the_line_unless_they_have_ended() {
    for (format, shown) in [
        ("%{sgr:red,bold}x%{sgr:reset}", "\x1b[31;1mx\x1b[0m"),
        ("%{sgr:red}x", "\x1b[31mx\x1b[m"),
        ("%{sgr:none,bold}x", "\x1b[0;1mx\x1b[m"),
        ("%{sgr:bold,none}x", "\x1b[1;0mx"),
        ("%{sgr:no-bold}x", "\x1b[22mx\x1b[m"),
        ("%{sgr:foo}x", "x"),
        ("%{sgr:red}xyz", "\x1b[31mxy\x1b[m"),
    ] {
        assert_eq!(written(format, 2), shown);
        let mut plain = options(2);
        plain.colour = false;
        let shown = line(&Format::parse(format), &reading(1, None), &plain);
        assert!(!shown.contains('\x1b'), "{format}");
    }
}

#[test]
fn the_tab_is_told_how_far_it_is_in_no_columns() {
    let mut shown = Switches {
        tab: true,
        ..Switches::by_default()
    };
    assert_eq!(
        line(
            &Format::from_switches(&shown),
            &reading(100, None),
            &options(40)
        ),
        " 100  B 0:00:01 [ 100  B/s] [<=>       ]\x1b]9;4;3;2\x1b\\"
    );
    shown = Switches {
        tab: true,
        bytes: true,
        ..Switches::default()
    };
    assert_eq!(
        line(
            &Format::from_switches(&shown),
            &reading(350, Some(400)),
            &options(40)
        ),
        " 350  B\x1b]9;4;1;88\x1b\\"
    );
    assert_eq!(
        unknown("%{progress-conemu}%b", 40),
        "\x1b]9;4;3;2\x1b\\ 300  B"
    );
}

#[test]
fn ratios_have_four_digits() {
    for (given, shown) in [
        (None, "-:-"),
        (Some(1.0), "1:1"),
        (Some(0.5), "1:2"),
        (Some(2.782), "2.782:1"),
        (Some(1.052), "1.052:1"),
        (Some(206.3), "206.3:1"),
        (Some(9.9999), "10:1"),
        (Some(12_345.0), "12345:1"),
        (Some(0.0), "-:-"),
        (Some(f64::INFINITY), "-:-"),
        (Some(f64::NAN), "-:-"),
    ] {
        assert_eq!(ratio(given), shown);
    }
}

#[test]
fn data_is_shown_without_what_could_move_the_cursor() {
    let mut reading = reading(1, None);
    reading.tail = b"two\nlines".to_vec();
    reading.line = "ab\tc\x1b[1m é日".as_bytes().to_vec();
    reading.buffer = BufferUse::Percent(42);
    let format = Format::parse("%T|%7A|%L|");
    assert_eq!(
        line(&format, &reading, &options(30)),
        "{ 42%}|o.lines|ab c [1m é日  |"
    );
    let mut ascii = options(30);
    ascii.utf8 = false;
    assert_eq!(
        line(&format, &reading, &ascii),
        "{ 42%}|o.lines|ab c [1m      |"
    );
}

#[test]
fn the_default_line_is_as_wide_as_the_terminal_and_never_wider() {
    let format = Format::from_switches(&Switches::by_default());
    for width in 1..=200 {
        for total in [None, Some(1000)] {
            let shown = line(&format, &reading(300, total), &options(width));
            let room = if total.is_some() { 47 } else { 34 };
            let is_full = width < 29 || width >= room;
            assert!(ansi::width(&shown) <= width, "{width}: {shown:?}");
            assert!(
                ansi::width(&shown) == width || !is_full,
                "{width}: {shown:?}"
            );
        }
    }
}

/// A line of any format, of any data, and in any width.
#[test]
fn a_line_of_any_format_is_no_wider_than_the_terminal_and_obeys_no_data() {
    let seeds: [&[u8]; 4] = [
        b"P%N %b %T %t %r %a %20p %{progress-bar-only} %e %I\0data",
        b"(%{sgr:red,bold}%9{bar-shaded}%{sgr:reset} %5A %40L\0a\x1b[2Jb",
        b"~%{progress-conemu}%{ratio}%%%{bar-granular}\0",
        "x\u{65e5}\u{672c}%{bar-block}\u{301}%L\0\u{65e5}\u{301}".as_bytes(),
    ];
    holds_for_bytes(&seeds, |bytes| {
        let Some((switches, bytes)) = bytes.split_first() else {
            return;
        };
        let is_set = |bit: u8| switches & 1 << bit != 0;
        let mut parts = bytes.splitn(2, |byte| *byte == 0);
        let format = String::from_utf8_lossy(parts.next().unwrap_or_default());
        let format = Format::parse(&format);
        let data = parts.next().unwrap_or_default().to_vec();
        let mut reading = reading(300, is_set(0).then_some(1000));
        (reading.tail, reading.line) = (data.clone(), data.clone());
        reading.is_over = is_set(1);
        for width in [0, 1, 7, 80] {
            let options = RenderOptions {
                gauge: is_set(2),
                utf8: is_set(3),
                colour: is_set(4),
                si: is_set(5),
                name: is_set(6).then(|| String::from_utf8_lossy(&data).into_owned()),
                ..options(width)
            };
            let line = line(&format, &reading, &options);
            assert!(ansi::width(&line) <= width, "{width}: {line:?}");
            assert!(!line.contains(['\n', '\r', '\t']), "{line:?}");
        }
        let _ = line(&format.in_numbers(), &reading, &options(80));
    });
}
