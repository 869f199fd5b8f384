use super::*;
use crate::common::cli::quote;

/// A clock that returns these times in turn.
fn scripted(times: &[&str]) -> impl FnMut() -> ClockReading {
    let begin = Instant::now();
    let times: Vec<Timestamp> = times.iter().map(|time| time.parse().unwrap()).collect();
    let first = times[0];
    let mut times = times.into_iter();
    move || {
        let time = times.next().unwrap();
        let passed = time.duration_since(first).unsigned_abs();
        ClockReading {
            time,
            instant: begin + passed,
        }
    }
}

/// Returns the text in front of the next `n` lines, each of a reading of its own.
fn timestamps<C: FnMut() -> ClockReading>(
    mut timestamper: Timestamper<C>,
    n: usize,
) -> Vec<String> {
    let timestamp = |_| {
        let mut out = Vec::new();
        timestamper.read_clock();
        timestamper.push(&mut out);
        String::from_utf8(out).unwrap()
    };
    (0..n).map(timestamp).collect()
}

#[test]
fn formats_are_those_of_strftime() {
    for (format, shown) in [
        (DEFAULT_FORMAT, "2026-11-21T18:14:38.000271+0000 "),
        ("%s", "1795284878 "),
        ("%s.%3f", "1795284878.000 "),
        ("100%%", "100% "),
        ("um %H Uhr é水", "um 18 Uhr é水 "),
        ("[%b %e %T]", "[Nov 21 18:14:38] "),
        ("%n%t", "\n\t "),
        ("%j", "325 "),
        ("", " "),
    ] {
        let timestamper = Timestamper::new().time(format.as_ref(), Zone::Utc).unwrap();
        let timestamper = timestamper.clock(scripted(&["2026-11-21T18:14:38.000271Z"]));
        assert_eq!(timestamps(timestamper, 1), [shown], "{format}");
    }
}

#[test]
fn an_invalid_format_is_an_error_before_the_first_line() {
    use std::os::unix::ffi::OsStrExt as _;

    for format in ["%", "%!", "a%", "%5"] {
        let error = Timestamper::new()
            .time(format.as_ref(), Zone::Local)
            .unwrap_err();
        let quoted = quote::argument(format.as_ref());
        let message = format!("invalid time format: {quoted}");
        assert_eq!(error.to_string(), message);
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = Timestamper::new().time(OsStr::from_bytes(b"%H\xff"), Zone::Utc);
    assert!(error.is_err());
}

#[test]
fn every_accepted_format_formats_every_time() {
    let times = [
        "-009999-01-02T01:59:59Z",
        "1969-12-31T23:59:59.999999999Z",
        "2026-10-25T00:30:00Z",
        "9999-12-30T22:00:00Z",
    ];
    for letter in (b' '..=b'~').map(char::from) {
        for format in [
            format!("%{letter}"),
            format!("%-3{letter}"),
            format!("%:{letter}"),
            format!("%.{letter}"),
        ] {
            let Ok(timestamper) = Timestamper::new().time(format.as_ref(), Zone::Local) else {
                continue;
            };
            for zone in ["Europe/Berlin", "America/St_Johns", "UTC"] {
                let mut timestamper = timestamper.clone().clock(scripted(&times));
                timestamper.time.as_mut().unwrap().rules = TimeZone::get(zone).ok();
                // A debug assertion fails if one of them fails.
                timestamps(timestamper, times.len());
            }
        }
    }
}

#[test]
fn local_time_knows_daylight_saving() {
    let mut timestamper = Timestamper::new()
        .time("%F %T %z %Z".as_ref(), Zone::Local)
        .unwrap()
        .clock(scripted(&["2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z"]));
    timestamper.time.as_mut().unwrap().rules = Some(TimeZone::get("Europe/Berlin").unwrap());
    assert_eq!(
        timestamps(timestamper, 2),
        [
            "2026-10-25 02:59:59 +0200 CEST ",
            "2026-10-25 02:00:00 +0100 CET "
        ]
    );
}

#[test]
fn the_zone_is_looked_up_for_the_first_line_only() {
    for zone in [Zone::Local, Zone::Utc] {
        let mut timestamper = Timestamper::new().time("%T".as_ref(), zone).unwrap();
        timestamper.read_clock();
        assert!(timestamper.time.as_ref().unwrap().rules.is_none());
        timestamper.push(&mut Vec::new());
        let rules = timestamper.time.as_ref().unwrap().rules.clone();
        let expected = match zone {
            Zone::Local => TimeZone::system(),
            Zone::Utc => TimeZone::UTC,
        };
        assert_eq!(rules, Some(expected));
    }
}

#[test]
fn deltas_are_aligned() {
    let times = [
        "2026-11-21T00:00:00Z",
        "2026-11-21T00:00:00Z",
        "2026-11-21T00:00:00.000001900Z",
        "2026-11-21T00:00:12.345678900Z",
        "2026-11-22T00:00:12.345678900Z",
        "2026-12-22T00:00:12.345678900Z",
    ];
    let timestamper = Timestamper::new().delta(true).clock(scripted(&times));
    assert_eq!(
        timestamps(timestamper, times.len()),
        [
            "    0.000000 ",
            "    0.000000 ",
            "    0.000001 ",
            "   12.345677 ",
            "86400.000000 ",
            "2592000.000000 ",
        ]
    );
}

#[test]
fn lines_of_one_reading_share_its_time() {
    let mut timestamper = Timestamper::new()
        .time("%T".as_ref(), Zone::Utc)
        .unwrap()
        .delta(true)
        .clock(scripted(&["2026-11-21T01:00:00Z", "2026-11-21T01:00:02Z"]));
    let mut out = Vec::new();
    timestamper.read_clock();
    timestamper.push(&mut out);
    timestamper.read_clock();
    timestamper.push(&mut out);
    timestamper.push(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "01:00:00     0.000000 01:00:02     2.000000 01:00:02     0.000000 "
    );
}
