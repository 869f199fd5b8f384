use zcopy_fuzz::holds_for_bytes;

use super::*;

/// What pv 1.12 prints for an amount of bytes: plain, with `-k`, with `-8`, and with both.
const BYTES: &[(u64, [&str; 4])] = &[
    (0, ["0.00  B", "0.00 B", "0.00  b", "0.00 b"]),
    (1, ["1.00  B", "1.00 B", "8.00  b", "8.00 b"]),
    (9, ["9.00  B", "9.00 B", "72.0  b", "72.0 b"]),
    (10, ["10.0  B", "10.0 B", "80.0  b", "80.0 b"]),
    (99, ["99.0  B", "99.0 B", " 792  b", " 792 b"]),
    (100, [" 100  B", " 100 B", " 800  b", " 800 b"]),
    (999, [" 999  B", " 999 B", "7.80Kib", "7.99kb"]),
    (1000, ["1000  B", "1.00kB", "7.81Kib", "8.00kb"]),
    (1023, ["1023  B", "1.02kB", "7.99Kib", "8.18kb"]),
    (1024, ["1.00KiB", "1.02kB", "8.00Kib", "8.19kb"]),
    (1029, ["1.00KiB", "1.03kB", "8.04Kib", "8.23kb"]),
    (1030, ["1.01KiB", "1.03kB", "8.05Kib", "8.24kb"]),
    (10_234, ["9.99KiB", "10.2kB", "80.0Kib", "81.9kb"]),
    (10_235, ["10.0KiB", "10.2kB", "80.0Kib", "81.9kb"]),
    (102_200, ["99.8KiB", " 102kB", " 798Kib", " 817kb"]),
    (102_399, ["  99KiB", " 102kB", " 799Kib", " 819kb"]),
    (102_400, [" 100KiB", " 102kB", " 800Kib", " 819kb"]),
    (999_423, [" 975KiB", " 999kB", "7.62Mib", "8.00Mb"]),
    (1_000_000, [" 976KiB", "1.00MB", "7.63Mib", "8.00Mb"]),
    (1_023_590, [" 999KiB", "1.02MB", "7.81Mib", "8.19Mb"]),
    (1_048_575, ["1023KiB", "1.05MB", "8.00Mib", "8.39Mb"]),
    (1_048_576, ["1.00MiB", "1.05MB", "8.00Mib", "8.39Mb"]),
    (1_073_741_823, ["1023MiB", "1.07GB", "8.00Gib", "8.59Gb"]),
    (1_073_741_824, ["1.00GiB", "1.07GB", "8.00Gib", "8.59Gb"]),
    (
        1_099_511_627_775,
        ["1023GiB", "1.10TB", "8.00Tib", "8.80Tb"],
    ),
    (
        1_099_511_627_776,
        ["1.00TiB", "1.10TB", "8.00Tib", "8.80Tb"],
    ),
    (1 << 50, ["1.00PiB", "1.13PB", "8.00Pib", "9.01Pb"]),
    (1 << 60, ["1.00EiB", "1.15EB", "8.00Eib", "9.22Eb"]),
    (1 << 62, ["4.00EiB", "4.61EB", "32.0Eib", "36.9Eb"]),
];

#[test]
fn amounts_are_as_pv_shows_them() {
    for (count, shown) in BYTES {
        let ours = [
            amount(*count, Unit::Bytes, false),
            amount(*count, Unit::Bytes, true),
            amount(*count, Unit::Bits, false),
            amount(*count, Unit::Bits, true),
        ];
        assert_eq!(ours, *shown, "{count}");
    }
}

#[test]
fn lines_are_counted_in_thousands_whatever_the_units_of_bytes() {
    for (count, shown) in [
        (0, "0.00 "),
        (9, "9.00 "),
        (10, "10.0 "),
        (100, " 100 "),
        (999, " 999 "),
        (1000, "1.00k"),
        (1024, "1.02k"),
        (9994, "9.99k"),
        (9995, "9.99k"),
        (9999, "10.0k"),
        (99_900, "99.9k"),
        (99_949, "  99k"),
        (99_999, "  99k"),
        (100_000, " 100k"),
        (999_999, " 999k"),
        (1_005_000, "1.00M"),
        (12_345_678, "12.3M"),
        (999_999_999, " 999M"),
        (1_000_000_000, "1.00G"),
    ] {
        assert_eq!(amount(count, Unit::Lines, false), shown);
        assert_eq!(amount(count, Unit::Lines, true), shown);
    }
}

#[test]
fn rates_below_one_have_prefixes_too() {
    for (per_second, shown) in [
        (0.0, ["0.00  B/s", "0.00 B/s", "0.00  b/s"]),
        (1.0 / 3.0, [" 341miB/s", " 333mB/s", "2.67  b/s"]),
        (0.01, ["10.2miB/s", "10.0mB/s", "81.9mib/s"]),
        (1.0 / 599.0, ["1.71miB/s", "1.67mB/s", "13.7mib/s"]),
        (0.99, ["1013miB/s", " 990mB/s", "7.92  b/s"]),
        (99.9, ["99.9  B/s", "99.9 B/s", " 799  b/s"]),
        (99.91, ["  99  B/s", "  99 B/s", " 799  b/s"]),
        (1000.4, ["1000  B/s", "1.00kB/s", "7.82Kib/s"]),
    ] {
        assert_eq!(rate(per_second, Unit::Bytes, false), shown[0]);
        assert_eq!(rate(per_second, Unit::Bytes, true), shown[1]);
        assert_eq!(rate(per_second, Unit::Bits, false), shown[2]);
    }
    assert_eq!(rate(0.923_4, Unit::Lines, false), " 923m/s");
    assert_eq!(rate(1.0 / 120_959.0, Unit::Bytes, false), "8.67uiB/s");
    assert_eq!(rate(1.0 / 1_209_600.0, Unit::Bytes, false), " 887niB/s");
}

#[test]
fn no_rate_is_wider_than_another() {
    let odd = [f64::NAN, f64::INFINITY, -1.0, f64::MIN_POSITIVE, f64::MAX];
    let magnitudes = (-400..400).map(|power| 1.17_f64.powi(power * 5));
    for per_second in odd.into_iter().chain(magnitudes) {
        assert_eq!(
            rate(per_second, Unit::Bytes, false).len(),
            9,
            "{per_second}"
        );
        assert_eq!(rate(per_second, Unit::Bits, true).len(), 8, "{per_second}");
        assert_eq!(
            rate(per_second, Unit::Lines, false).len(),
            7,
            "{per_second}"
        );
    }
}

#[test]
fn bare_numbers_are_whole_amounts_and_rates_with_four_decimals() {
    assert_eq!(bare_amount(350, Unit::Bytes), "350");
    assert_eq!(bare_amount(350, Unit::Bits), "2800");
    assert_eq!(bare_amount(u64::MAX, Unit::Bits), "147573952589676412920");
    assert_eq!(bare_rate(77.777_77, Unit::Bytes), "77.7778");
    assert_eq!(bare_rate(100.0, Unit::Bits), "800.0000");
    assert_eq!(bare_rate(f64::NAN, Unit::Bytes), "0.0000");
}

#[test]
fn sizes_that_pv_takes_are_taken_for_the_same() {
    for (text, binary, decimal) in [
        ("1", 1, 1),
        ("00012", 12, 12),
        (" 1K", 1024, 1000),
        ("1 K", 1024, 1000),
        ("1k", 1024, 1000),
        ("1m", 1_048_576, 1_000_000),
        ("1G", 1_073_741_824, 1_000_000_000),
        ("1T", 1_099_511_627_776, 1_000_000_000_000),
        ("1.5K", 1536, 1500),
        ("1,5K", 1536, 1500),
        ("1.25k", 1280, 1250),
        ("1.0001K", 1024, 1000),
        ("1.99999K", 2047, 1999),
        ("1.1M", 1_153_433, 1_100_000),
        ("0.001M", 1048, 1000),
        ("5.K", 5120, 5000),
        ("2P", 1 << 51, 2_000_000_000_000_000),
        ("1e", 1 << 60, 1_000_000_000_000_000_000),
        ("10KiB", 10_240, 10_240),
        ("10kib", 10_240, 10_240),
        ("10Ki", 10_240, 10_240),
        ("1.5mi", 1_572_864, 1_572_864),
        ("10KB", 10_000, 10_000),
        ("1.5MiB", 1_572_864, 1_572_864),
        ("1.5 MB", 1_500_000, 1_500_000),
        ("3B", 3, 3),
        ("16E", u64::MAX, 16_000_000_000_000_000_000),
        ("2.7", 2, 2),
        ("0", 0, 0),
        ("18446744073709551615", u64::MAX, u64::MAX),
        ("99999999999999999999", u64::MAX, u64::MAX),
        ("20000000T", u64::MAX, u64::MAX),
        (
            "1.99999999999999999999999999999999999999999T",
            2_199_023_255_551,
            1_999_999_999_999,
        ),
    ] {
        assert_eq!(parse_size(text, false), Ok(binary), "{text}");
        assert_eq!(parse_size(text, true), Ok(decimal), "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused() {
    for text in [
        "", " ", "K", ".", ".5K", "1.5.5K", "1i", "1Kib5", "1KiBs", "1K ", "1KiB ", "1BB", "1iB",
        "1 ", "+5", "-5", "0x10", "1e3", "12K3", "5KK", "1.5X", "1.K5", "\u{0663}", "1\u{b5}",
    ] {
        assert_eq!(parse_size(text, false), Err(ParseSizeError), "{text:?}");
        assert_eq!(parse_rate(text, true), Err(ParseSizeError), "{text:?}");
    }
}

#[test]
fn a_rate_is_never_rounded_to_no_limit() {
    for (text, thousandths) in [
        ("0.1", 100),
        ("0.00001", 1),
        ("0.0K", 0),
        ("1.5", 1500),
        ("1.5k", 1_536_000),
        ("0.00000000000000000001E", 11),
        // Decimals behind the 19th were dropped.
        (
            "0.01199566123456789012345678901E",
            13_830_055_799_312_039_416,
        ),
        ("16E", u64::MAX),
    ] {
        assert_eq!(parse_rate(text, false), Ok(thousandths), "{text}");
    }
}

#[test]
fn any_text_is_a_size_and_the_same_rate_or_neither() {
    let seeds: [&[u8]; 7] = [
        b"1.5KiB",
        b"18446744073709551615",
        b"0.0119956612345678901234567890E",
        b"16E",
        b" 7 gb",
        b"0.0000001",
        b"1,25TiB",
    ];
    holds_for_bytes(&seeds, |bytes| {
        let text = &*String::from_utf8_lossy(bytes);
        let size = parse_size(text, false);
        assert_eq!(parse_size(&format!(" \t{text}"), false), size);
        assert_eq!(parse_size(&text.to_ascii_lowercase(), false), size);
        let (Ok(size), Ok(smaller)) = (size, parse_size(text, true)) else {
            assert_eq!(parse_size(text, true), size);
            assert_eq!(parse_rate(text, false), Err(ParseSizeError));
            return;
        };
        assert!(smaller <= size, "{text}");
        let rate = parse_rate(text, false).unwrap();
        assert!(
            rate == u64::MAX || rate / 1000 == size,
            "{text}: {rate}, {size}"
        );
        let is_nothing = !text.contains(|c| matches!(c, '1'..='9'));
        assert_eq!(rate == 0, is_nothing, "{text}");
    });
}
