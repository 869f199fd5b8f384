//! The switches that say what is shown, one by one.

use super::{as_pv, leaves};

/// A bar of a rate, whatever that is.
const RATE: &str = "[??????B/s]";

#[test]
fn without_switches_bytes_timer_rate_bar_and_eta_are_shown() {
    let bar = "[========================>] 100%";
    leaves(
        "pv f > out.bin",
        &[&format!("2.00KiB 0:00:?? {RATE} {bar}")],
    );
    as_pv("pv f > out.bin");
    as_pv("pv -pterb f > out.bin");
}

#[test]
fn every_switch_shows_its_own_and_nothing_else() {
    let bar = format!("[{}>] 100%", "=".repeat(64));
    leaves("pv -p f > /dev/null", &[&bar]);
    leaves("pv -t f > /dev/null", &["0:00:??"]);
    leaves("pv -r f > /dev/null", &[RATE]);
    leaves("pv -a f > /dev/null", &["(??????B/s)"]);
    leaves("pv -b f > /dev/null", &["2.00KiB"]);
    leaves("pv -I f > /dev/null", &["FIN ??:??:??"]);
    leaves("pv -A 4 lines > /dev/null", &["000."]);
    for switch in ["p", "t", "r", "a", "b", "I"] {
        as_pv(&format!("pv -{switch} f > /dev/null"));
    }
}

#[test]
fn long_switches_are_the_short_ones() {
    leaves(
        "pv --progress --width 20 f > /dev/null",
        &["[============>] 100%"],
    );
    leaves("pv --timer f > /dev/null", &["0:00:??"]);
    leaves("pv --rate f > /dev/null", &[RATE]);
    leaves("pv --average-rate f > /dev/null", &["(??????B/s)"]);
    leaves("pv --bytes f > /dev/null", &["2.00KiB"]);
    leaves("pv --fineta f > /dev/null", &["FIN ??:??:??"]);
    leaves("pv --last-written 4 lines > /dev/null", &["000."]);
    leaves("pv --buffer-percent f > /dev/null", &["{????}"]);
    leaves("pv --quiet f > /dev/null", &[]);
    leaves("pv --bits f > /dev/null", &["16.0Kib"]);
    leaves("pv --si --bytes f > /dev/null", &["2.05kB"]);
    leaves(
        "pv --name foo --bytes f > /dev/null",
        &["      foo: 2.00KiB"],
    );
}

#[test]
fn the_buffer_is_the_pipe_that_the_bytes_wait_in() {
    let mut desk = super::Desk::with("pv -T -i 0.1 f > out");
    let mut sink = desk.sink();
    // 2048 bytes of 64 KiB or of 1 MiB.
    desk.wait_for(|seen| ["{  3%}", "{  0%}"].contains(&seen.row(0).as_str()));
    std::io::Read::read_exact(&mut sink, &mut [0; 2048]).unwrap();
    assert_eq!(desk.left(), ["{  0%}"]);
}

#[test]
fn quiet_shows_nothing() {
    leaves("pv -q f > /dev/null; echo over", &["over"]);
    leaves("pv -q -n f > /dev/null; echo over", &["over"]);
}

#[test]
fn bits_are_eight_to_a_byte() {
    leaves("pv -8 -b f > /dev/null", &["16.0Kib"]);
    leaves("pv -8 -r f > /dev/null", &["16.0Kib [??????b/s]"]);
    as_pv("pv -8 f > /dev/null");
    as_pv("pv -8r f > /dev/null; pv -8bt f > /dev/null");
}

#[test]
fn thousands_are_taken_and_shown_from_the_switch_on() {
    // 2048 of 4000 bytes, and of 4096.
    leaves(
        "pv -k -s 4K -pb -w 30 f > /dev/null",
        &["2.05kB [=======>        ]  51%"],
    );
    leaves(
        "pv -s 4K -k -pb -w 30 f > /dev/null",
        &["2.05kB [=======>        ]  50%"],
    );
    as_pv("pv -k -s 4K f > /dev/null; pv -s 4K -k f > /dev/null; pv -k8b f > /dev/null");
}

#[test]
fn a_name_stands_in_front_of_whatever_is_shown() {
    leaves("pv -N foo -b f > /dev/null", &["      foo: 2.00KiB"]);
    as_pv(
        "pv -N foo f > /dev/null; pv -N 'more than nine' -b f > /dev/null; pv -N '' -b f > /dev/null",
    );
}

#[test]
fn a_width_is_taken_for_the_terminal_s() {
    leaves("pv -w 40 f > /dev/null", &["2.00KiB 0:00:?? [??????B/s]"]);
    as_pv("pv -w 40 f > /dev/null; pv -w 60 f > /dev/null");
}

#[test]
fn bars_are_drawn_in_the_style_asked_for() {
    for (style, bar) in [
        ("plain", "[========>         ]  50%"),
        ("block", "[█████████         ]  50%"),
        ("granular", "[█████████         ]  50%"),
        ("shaded", "[█████████░░░░░░░░░]  50%"),
    ] {
        leaves(
            &format!("pv -u {style} -p -w 25 -s 4K f > /dev/null"),
            &[bar],
        );
        as_pv(&format!(
            "pv -u {style} -s 4K f > /dev/null; pv -u {style} -s 5k lines > /dev/null"
        ));
        as_pv(&format!("pv --bar-style {style} < f | cat > /dev/null"));
    }
}

#[test]
fn a_height_is_taken_for_the_terminal_s() {
    // Of four rows the fourth is the last, and all that is below is none of them.
    leaves(
        "seq 6; pv -cb -H 4 f > /dev/null",
        &["1", "2", "3", "2.00KiB", "5", "6"],
    );
    leaves(
        "seq 6; pv -cb f > /dev/null",
        &["1", "2", "3", "4", "5", "6", "2.00KiB"],
    );
}

#[test]
fn lines_are_counted_in_thousands() {
    leaves("pv -lb lines > /dev/null", &["1.00k"]);
    leaves("pv --line-mode -r lines > /dev/null", &["[?????/s]"]);
    leaves("printf 'a\\0b\\0c' | pv -0b > /dev/null", &["2.00"]);
    leaves("printf 'a\\0b\\0c' | pv --null -b > /dev/null", &["2.00"]);
    as_pv("pv -lb lines > /dev/null; pv -ln lines > /dev/null; pv -lnb lines > /dev/null");
    as_pv(
        "pv -lp -s 2000 lines > /dev/null; cat lines | pv -lpb > /dev/null; cat lines | pv -lp -s 4K > /dev/null",
    );
}
