use super::*;

fn only(format: &str) -> Segment {
    let segments = Format::parse(format).segments;
    assert_eq!(segments.len(), 1, "{format}: {segments:?}");
    segments[0].clone()
}

#[test]
fn letters_and_words_mean_the_same() {
    for (letter, words, segment) in [
        ("%p", &["%{progress}", "%0p"][..], Segment::Progress(None)),
        (
            "%20p",
            &["%20{progress}", "%020p"],
            Segment::Progress(Some(20)),
        ),
        ("%t", &["%{timer}", "%3t"], Segment::Timer),
        ("%e", &["%{eta}"], Segment::Eta),
        ("%I", &["%{fineta}"], Segment::Finish),
        ("%r", &["%{rate}"], Segment::Rate),
        ("%a", &["%{average-rate}"], Segment::AverageRate),
        (
            "%b",
            &["%{bytes}", "%{transferred}", "%05b", "%5{bytes}"],
            Segment::Bytes,
        ),
        ("%T", &["%{buffer-percent}"], Segment::Buffer),
        ("%16A", &["%16{last-written}"], Segment::Tail(16)),
        ("%A", &["%{last-written}", "%0A"], Segment::Tail(0)),
        ("%40L", &["%40{previous-line}"], Segment::Line(Some(40))),
        ("%L", &["%{previous-line}", "%0L"], Segment::Line(None)),
        ("%N", &["%{name}", "%12N"], Segment::Name),
    ] {
        assert_eq!(only(letter), segment, "{letter}");
        for word in words {
            assert_eq!(only(word), segment, "{word}");
        }
    }
}

#[test]
fn words_without_a_letter_are_known() {
    for (word, segment) in [
        ("%{progress-bar-only}", Segment::Bar(None, None)),
        ("%9{progress-bar-only}", Segment::Bar(None, Some(9))),
        ("%{progress-amount-only}", Segment::Amount),
        ("%{progress-conemu}", Segment::Tab),
        ("%{ratio}", Segment::Ratio),
        ("%{bar-plain}", Segment::Bar(Some(BarStyle::Plain), None)),
        ("%{bar-block}", Segment::Bar(Some(BarStyle::Block), None)),
        (
            "%5{bar-granular}",
            Segment::Bar(Some(BarStyle::Granular), Some(5)),
        ),
        ("%{bar-shaded}", Segment::Bar(Some(BarStyle::Shaded), None)),
    ] {
        assert_eq!(only(word), segment, "{word}");
    }
}

#[test]
fn what_is_no_sequence_stands_for_itself() {
    for text in [
        "%z",
        "%",
        "a%",
        "%5",
        "%5z",
        "%5%",
        "%{}",
        "%{foo}",
        "%{foo",
        "%{progress",
        "%{Progress}",
        "%5 {progress}",
        "%{bar}",
        "%{bar-}",
        "%{bar-foo}",
        "%{bar-plain",
        "%{bar:plain}",
        "%{sgr}",
        "%{sgr-red}",
        "%B",
        "%E",
        "%é",
        "%5é",
        "%\u{1}",
        "a\nb",
        "%--5b",
        "%5.3b",
        "%{p}",
    ] {
        assert_eq!(only(text), Segment::Literal(text.to_owned()));
    }
    assert_eq!(Format::parse("").segments, []);
    assert_eq!(only("%%"), Segment::Literal("%".to_owned()));
    assert_eq!(only("%%b"), Segment::Literal("%b".to_owned()));
    assert_eq!(
        Format::parse("%tt").segments,
        [Segment::Timer, Segment::Literal("t".to_owned())]
    );
}

#[test]
fn numbers_too_large_for_a_width_are_as_large_as_can_be() {
    assert_eq!(
        only("%99999999999999999999999p"),
        Segment::Progress(Some(usize::MAX))
    );
}

#[test]
fn colours_have_the_codes_that_pv_gives_them() {
    for (words, codes) in [
        ("red,bold", "31;1"),
        ("reset", "0"),
        ("none,bold", "0;1"),
        ("31,foo,1", "31;1"),
        ("1;2", "1;2"),
        ("red,,bold", "31;1"),
        ("foo", ""),
        ("", ""),
        ("RED", ""),
        (" red", ""),
        ("default", ""),
        ("999", ""),
        ("-1", ""),
        (
            "black,brown,yellow,blue,magenta,cyan,white",
            "30;33;33;34;35;36;37",
        ),
        (
            "fg-green,fg-default,bg-black,bg-yellow,bg-white,bg-default",
            "32;39;40;43;47;49",
        ),
        (
            "dim,italic,underscore,underline,blink,reverse",
            "2;3;4;4;5;7",
        ),
        (
            "no-bold,no-dim,no-italic,no-underscore,no-underline,no-blink,no-reverse",
            "22;22;23;24;24;25;27",
        ),
        ("38,5,200", "38;5;200"),
    ] {
        assert_eq!(
            only(&format!("%{{sgr:{words}}}")),
            Segment::Colour(codes.to_owned()),
            "{words}"
        );
    }
}

#[test]
fn switches_are_shown_in_pvs_order_whatever_theirs() {
    let all = Switches {
        progress: true,
        timer: true,
        eta: true,
        finish: true,
        rate: true,
        average: true,
        bytes: true,
        buffer: true,
        tail: Some(5),
        tab: true,
        name: true,
        ratio: true,
    };
    let written = Format::parse("%N%b%T%t%r%a%p%e%I%5A%{progress-conemu}%{ratio}");
    assert_eq!(Format::from_switches(&all).segments, written.segments);
    assert!(!all.is_nothing());
}

#[test]
fn a_name_alone_leaves_the_default_as_it_is() {
    let shown = Switches {
        name: true,
        tab: true,
        ..Switches::default()
    };
    assert!(shown.is_nothing());
    assert!(
        !Switches {
            tail: Some(1),
            ..Switches::default()
        }
        .is_nothing()
    );
}

#[test]
fn numbers_give_way_to_one_another_as_in_pv() {
    let of = |letters: &str| {
        Format::numeric(&Switches {
            timer: letters.contains('t'),
            bytes: letters.contains('b'),
            rate: letters.contains('r'),
            progress: letters.contains('p'),
            eta: letters.contains('e'),
            ..Switches::default()
        })
    };
    for (letters, format) in [
        ("", "%{progress-amount-only}"),
        ("t", "%t %{progress-amount-only}"),
        ("b", "%b"),
        ("r", "%r"),
        ("tbr", "%t %b %r"),
        ("pe", "%{progress-amount-only}"),
        ("pb", "%b"),
    ] {
        assert_eq!(of(letters), Format::parse(format).in_numbers(), "{letters}");
    }
}

#[test]
fn only_what_shows_data_needs_it() {
    assert!(Format::parse("%5A").needs_bytes());
    assert!(Format::parse("%L").needs_bytes());
    assert!(!Format::parse("%A %T %b").needs_bytes());
    assert_eq!(Format::parse("%5A %9A").tail_bytes(), 9);
    assert!(Format::parse("%{progress-conemu}").shows_tab());
}
