use super::*;

pub(super) fn map(ranges: &[(u64, u64)]) -> DamageMap {
    let mut map = DamageMap::default();
    for &(offset, bytes) in ranges {
        map.push(BadRange { offset, bytes });
    }
    map
}

#[test]
fn ranges_that_touch_are_one() {
    let touching = map(&[(0, 4096), (4096, 4096), (10_000, 1), (10_000, 5)]);
    assert_eq!(touching, map(&[(0, 8192), (10_000, 5)]));
    assert_eq!(touching.lost_bytes(), 8197);
}

#[test]
fn a_union_has_what_either_has() {
    let union = map(&[(0, 10), (100, 10)]).union(&map(&[(5, 10), (50, 1), (90, 100)]));
    assert_eq!(union, map(&[(0, 15), (50, 1), (90, 100)]));
    assert_eq!(union.union(&DamageMap::default()), union);
}

#[test]
fn the_words_name_the_first_ranges() {
    assert_eq!(map(&[(7, 1)]).words(), "1 byte (1 at offset 7)");
    let many = map(&[(0, 512), (1024, 512), (4096, 512), (8192, 1), (9000, 1)]);
    assert_eq!(
        many.words(),
        "1538 bytes (512 at offset 0, 512 at offset 1024, 512 at offset 4096, and 2 ranges more)"
    );
}

#[test]
fn ranges_may_come_in_any_order() {
    let sorted = map(&[(0, 10), (50, 10), (100, 10)]);
    assert_eq!(map(&[(100, 10), (0, 10), (50, 10)]), sorted);
    assert_eq!(map(&[(100, 10), (0, 105)]), map(&[(0, 110)]));
}
