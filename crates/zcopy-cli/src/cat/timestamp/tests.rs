use super::*;

/// A clock that shows one time after the other.
fn scripted(times: &[&str]) -> impl FnMut() -> Moment {
    let begin = Instant::now();
    let times: Vec<Timestamp> = times.iter().map(|time| time.parse().unwrap()).collect();
    let first = times[0];
    let mut times = times.into_iter();
    move || {
        let time = times.next().unwrap();
        let passed = time.duration_since(first).unsigned_abs();
        Moment {
            time,
            instant: begin + passed,
        }
    }
}

/// One line for each time.
fn stamps<C: FnMut() -> Moment>(mut stamp: Stamp<C>, n: usize) -> Vec<String> {
    let stamp = |_| {
        let mut out = Vec::new();
        stamp.look();
        stamp.put(&mut out);
        String::from_utf8(out).unwrap()
    };
    (0..n).map(stamp).collect()
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
        let stamp = Stamp::new().time(format.as_ref(), Zone::Utc).unwrap();
        let stamp = stamp.clock(scripted(&["2026-11-21T18:14:38.000271Z"]));
        assert_eq!(stamps(stamp, 1), [shown], "{format}");
    }
}

#[test]
fn a_bad_format_is_told_before_any_time_is() {
    use std::os::unix::ffi::OsStrExt as _;

    for format in ["%", "%!", "a%", "%5"] {
        let error = Stamp::new().time(format.as_ref(), Zone::Local).unwrap_err();
        let quoted = quote::argument(format.as_ref());
        let message = format!("invalid time format: {quoted}");
        assert_eq!(error.to_string(), message);
        assert!(std::error::Error::source(&error).is_some());
    }
    let error = Stamp::new().time(OsStr::from_bytes(b"%H\xff"), Zone::Utc);
    assert!(error.is_err());
}

#[test]
fn whatever_is_accepted_is_formatted_at_every_time() {
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
            let Ok(stamp) = Stamp::new().time(format.as_ref(), Zone::Local) else {
                continue;
            };
            for zone in ["Europe/Berlin", "America/St_Johns", "UTC"] {
                let mut stamp = stamp.clone().clock(scripted(&times));
                stamp.time.as_mut().unwrap().rules = TimeZone::get(zone).ok();
                // A debug assertion says if one of them fails.
                stamps(stamp, times.len());
            }
        }
    }
}

#[test]
fn local_time_knows_daylight_saving() {
    let mut stamp = Stamp::new()
        .time("%F %T %z %Z".as_ref(), Zone::Local)
        .unwrap()
        .clock(scripted(&["2026-10-25T00:59:59Z", "2026-10-25T01:00:00Z"]));
    stamp.time.as_mut().unwrap().rules = Some(TimeZone::get("Europe/Berlin").unwrap());
    assert_eq!(
        stamps(stamp, 2),
        [
            "2026-10-25 02:59:59 +0200 CEST ",
            "2026-10-25 02:00:00 +0100 CET "
        ]
    );
}

#[test]
fn the_zone_is_looked_up_for_the_first_line_only() {
    for zone in [Zone::Local, Zone::Utc] {
        let mut stamp = Stamp::new().time("%T".as_ref(), zone).unwrap();
        stamp.look();
        assert!(stamp.time.as_ref().unwrap().rules.is_none());
        stamp.put(&mut Vec::new());
        let rules = stamp.time.as_ref().unwrap().rules.clone();
        let expected = match zone {
            Zone::Local => TimeZone::system(),
            Zone::Utc => TimeZone::UTC,
        };
        assert_eq!(rules, Some(expected));
    }
}

#[test]
fn deltas_stand_in_a_column() {
    let times = [
        "2026-11-21T00:00:00Z",
        "2026-11-21T00:00:00Z",
        "2026-11-21T00:00:00.000001900Z",
        "2026-11-21T00:00:12.345678900Z",
        "2026-11-22T00:00:12.345678900Z",
        "2026-12-22T00:00:12.345678900Z",
    ];
    let stamp = Stamp::new().delta(true).clock(scripted(&times));
    assert_eq!(
        stamps(stamp, times.len()),
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
    let mut stamp = Stamp::new()
        .time("%T".as_ref(), Zone::Utc)
        .unwrap()
        .delta(true)
        .clock(scripted(&["2026-11-21T01:00:00Z", "2026-11-21T01:00:02Z"]));
    let mut out = Vec::new();
    stamp.look();
    stamp.put(&mut out);
    stamp.look();
    stamp.put(&mut out);
    stamp.put(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "01:00:00     0.000000 01:00:02     2.000000 01:00:02     0.000000 "
    );
}
