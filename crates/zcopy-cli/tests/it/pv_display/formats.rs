//! `-F`: every sequence, and what is none.

use super::{Desk, as_pv, leaves};

#[test]
fn letters_and_words_show_the_same() {
    for (letter, word, shown) in [
        ("%t", "%{timer}", "0:00:??"),
        ("%r", "%{rate}", "[??????B/s]"),
        ("%a", "%{average-rate}", "(??????B/s)"),
        ("%b", "%{bytes}", "2.00KiB"),
        ("%b", "%{transferred}", "2.00KiB"),
        ("%I", "%{fineta}", "FIN ??:??:??"),
        ("%T", "%{buffer-percent}", "{????}"),
        ("%4A", "%4{last-written}", "xxxx"),
        ("%20p", "%20{progress}", "[============>] 100%"),
        ("%N", "%{name}", "      foo:"),
    ] {
        for sequence in [letter, word] {
            let script = format!("pv -N foo -F '{sequence}|' f > /dev/null");
            leaves(&script, &[&format!("{shown}|")]);
        }
    }
}

#[test]
fn the_last_lines_are_as_those_of_pv() {
    for format in [
        "%t %r %a %b %I %N|",
        "%{timer} %{rate} %{average-rate} %{bytes} %{transferred} %{fineta} %{name}|",
        "%p",
        "%20p|%{progress}",
        "%20{progress}|",
        "%{progress-bar-only}|",
        "%10{progress-bar-only}|%{progress-amount-only}|",
        "%{bar-plain}|%10{bar-plain}|",
        "%{bar-block}|",
        "%10{bar-granular}|",
        "%10{bar-shaded}|",
        "%{ratio}|",
        "100%% %z %{nothing} %",
        "%e|",
        "text alone",
        "",
        "%{sgr:red,bold}red%{sgr:reset} %b",
    ] {
        as_pv(&format!(
            "pv -N foo -F '{format}' f > /dev/null; pv -F '{format}' -s 5K f > /dev/null"
        ));
    }
    // Of unknown size.
    as_pv(
        "cat f | pv -F '%p' > /dev/null; cat f | pv -F '%{progress-amount-only}|%10{bar-shaded}|%e%I|' > /dev/null",
    );
}

#[test]
fn bars_have_the_style_and_the_width_that_the_sequence_says() {
    for (sequence, bar) in [
        ("%10{bar-plain}", "====>     "),
        ("%10{bar-block}", "█████     "),
        ("%10{bar-granular}", "█████     "),
        ("%10{bar-shaded}", "█████░░░░░"),
        ("%10{progress-bar-only}", "====>     "),
        ("%{progress-amount-only}", " 50%"),
    ] {
        leaves(
            &format!("pv -s 4K -F '{sequence}|' f > /dev/null"),
            &[&format!("{bar}|")],
        );
    }
    leaves(
        "pv -s 4K -w 12 -F '%{progress-bar-only}|' f > /dev/null",
        &["====>      |"],
    );
    leaves(
        "pv -s 4K -u shaded -F '%10{progress-bar-only}|' f > /dev/null",
        &["█████░░░░░|"],
    );
}

#[test]
fn the_time_left_is_shown_while_there_is_some() {
    let mut desk = Desk::with("pv -s 4K -i 0.1 -F '%e|%{eta}' < in > /dev/null");
    let source = super::fed(&desk, 1024);
    desk.wait_for_row("ETA 0:00:??|ETA 0:00:??");
    drop(source);
    assert!(desk.left()[0].starts_with("           |"));
}

#[test]
fn the_last_line_and_the_last_bytes_are_those_that_passed() {
    leaves("pv -F '[%6L]' lines > /dev/null", &["[1000  ]"]);
    leaves(
        "pv -w 20 -F '%{previous-line}|' lines > /dev/null",
        &["1000               |"],
    );
    leaves(
        "printf 'one\\ntwo\\nthree' | pv -F '%3L|%8A|' > /dev/null",
        &["two|wo.three|"],
    );
}

#[test]
fn a_sequence_colours_what_follows_it_up_to_the_next() {
    let mut desk = Desk::with("pv -F '%{sgr:red,bold}%b%{sgr:reset} %{sgr:44}x' f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB x"]);
    let cells = [0, 8].map(|column| desk.seen().cell(0, column));
    let [first, last] = cells;
    assert_eq!(
        (first.fgcolor(), first.bold()),
        (vt100::Color::Idx(1), true)
    );
    assert_eq!((last.bgcolor(), last.bold()), (vt100::Color::Idx(4), false));
}

#[test]
fn without_colours_none_are_sent() {
    let mut desk = Desk::with("TERM=dumb pv -F '%{sgr:red}%b' f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB"]);
    assert!(!desk.seen().raw.contains(&b'\x1b'));
}

#[test]
fn without_utf_8_bars_are_plain() {
    leaves(
        "LC_ALL=C pv -u block -p -w 25 -s 4K f > /dev/null",
        &["[========>         ]  50%"],
    );
}

#[test]
fn the_tab_is_told_by_the_sequence_too() {
    let mut desk = Desk::with("pv -s 4K -F '%b%{progress-conemu}' f > /dev/null");
    assert_eq!(desk.left(), ["2.00KiB"]);
    assert_eq!(desk.seen().progress(), ["1;50", "0;0"]);
}
