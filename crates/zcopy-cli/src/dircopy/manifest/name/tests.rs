use jiff::civil::date;
use proptest::prelude::*;
use zcopy_fuzz::holds_for_bytes;

use super::*;

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

#[test]
fn names_tell_the_time_the_place_and_the_algorithm() {
    let time = date(2026, 1, 2).at(3, 4, 5, 0);
    for (shown, nth, algorithm) in [
        ("shasum.2026-01-02.03.04.05.txt", 1, Algorithm::Sha256),
        ("b3sum.2026-01-02.03.04.05.txt", 1, Algorithm::Blake3),
        ("shasum.2026-01-02.03.04.05b.txt", 2, Algorithm::Sha256),
        ("b3sum.2026-01-02.03.04.05z.txt", 26, Algorithm::Blake3),
        ("shasum.2026-01-02.03.04.05zb.txt", 27, Algorithm::Sha256),
        ("shasum.2026-01-02.03.04.05zz.txt", 51, Algorithm::Sha256),
        ("shasum.2026-01-02.03.04.05zzb.txt", 52, Algorithm::Sha256),
    ] {
        let expected = Name {
            time,
            nth: NonZeroU32::new(nth).unwrap(),
            algorithm,
        };
        assert_eq!(expected.to_string(), shown);
        assert_eq!(name(shown), expected, "{shown}");
    }
}

#[test]
fn a_part_of_a_second_does_not_show() {
    let time = date(2026, 1, 2).at(3, 4, 5, 999_999_999);
    let name = Name::at(time, Algorithm::Sha256);
    assert_eq!(name, name.to_string().parse().unwrap());
}

#[test]
fn what_is_not_called_so_is_no_sum_file() {
    for other in [
        "",
        "shasum",
        "shasum.txt",
        "shasum..txt",
        "md5sum.2026-01-02.03.04.05.txt",
        "Shasum.2026-01-02.03.04.05.txt",
        "shasum.2026-01-02.03.04.05",
        "shasum.2026-01-02.03.04.05.txt.gz",
        ".shasum.2026-01-02.03.04.05.txt.part",
        "shasum.2026-01-02.03.04.05a.txt",
        "shasum.2026-01-02.03.04.05bb.txt",
        "shasum.2026-01-02.03.04.05.2.txt",
        "shasum.2026-1-2.3.4.5.txt",
        "shasum.2026-13-02.03.04.05.txt",
        "shasum.2026-02-30.03.04.05.txt",
        "shasum.2026-01-02.24.04.05.txt",
        "shasum.2026-01-02.03.04.60.txt",
        "shasum.+2026-01-02.03.04.05.txt",
        "shasum. 2026-01-02.03.04.05.txt",
        "shasum.2026-01-02.03.04.05\n.txt",
        "shasum.2026-01-02.03.04.05é.txt",
    ] {
        assert!(other.parse::<Name>().is_err(), "{other:?}");
    }
}

#[test]
fn the_newest_comes_first_and_later_ones_of_a_second_before_earlier_ones() {
    let directory = tempfile::tempdir().unwrap();
    let newest_first = [
        "shasum.2026-11-21.18.14.39.txt",
        "shasum.2026-11-21.18.14.38zb.txt",
        "shasum.2026-11-21.18.14.38z.txt",
        "shasum.2026-11-21.18.14.38b.txt",
        "shasum.2026-11-21.18.14.38.txt",
        "b3sum.2026-11-21.18.14.38.txt",
        "shasum.2025-12-31.23.59.59.txt",
    ];
    for name in newest_first.iter().chain(&["notes.txt", "shasum.txt"]) {
        fs::write(directory.path().join(name), "").unwrap();
    }
    let found = all_in(directory.path()).unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, newest_first);
}

#[test]
fn a_directory_that_is_none_is_an_error() {
    let error = all_in("/dev/null".as_ref()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
}

proptest! {
    #[test]
    fn names_sort_by_their_bytes_as_by_their_times(
        seconds in prop::array::uniform2(0..3_i32),
        nths in prop::array::uniform2(1..120_u32),
    ) {
        let [one, other] = [0, 1].map(|i| Name {
            time: date(2026, 12, 31).at(23, 59, 57 + seconds[i] as i8, 0),
            nth: NonZeroU32::new(nths[i]).unwrap(),
            algorithm: Algorithm::Sha256,
        });
        prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
        prop_assert_eq!(name(&one.to_string()), one);
        prop_assert!(one.to_string() < one.next().to_string());
    }
}

#[test]
fn any_text_that_is_a_name_is_written_the_same_and_has_a_later_one() {
    let seeds: [&[u8]; 3] = [
        b"shasum.2026-11-21.18.14.38.txt",
        b"b3sum.2026-11-21.18.14.38zb.txt",
        b"shasum.-009999-01-02.00.00.00.txt",
    ];
    holds_for_bytes(&seeds, |bytes| {
        let Ok(name) = String::from_utf8_lossy(bytes).parse::<Name>() else {
            return;
        };
        assert_eq!(name.to_string().as_bytes(), bytes);
        let next = name.next();
        assert_eq!(next.to_string().parse(), Ok(next));
        assert!(next > name && next.to_string() > name.to_string());
    });
}
