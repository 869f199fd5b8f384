use super::Way;

#[test]
fn every_way_has_a_name_of_its_own() {
    let names: Vec<_> = Way::all().map(|way| way.to_string()).collect();
    let mut different = names.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert!(names.contains(&Way::in_lanes().to_string()), "{names:?}");
}

#[test]
fn lanes_are_best_where_the_processor_has_no_instructions() {
    let best = Way::best().to_string();
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = flags
        .split_whitespace()
        .any(|flag| flag == "sha_ni" || flag == "sha2");
    let expected = if has {
        Way::one_by_one()
    } else {
        Way::in_lanes()
    };
    assert_eq!(best, expected.to_string());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_kind_of_register_has_its_lanes() {
    for way in Way::all() {
        let lanes = match way.to_string().rsplit(' ').next().unwrap() {
            "one" => 1,
            "Sse2" | "Sse4_2" => 4,
            "Avx2" => 8,
            "Avx512" => 16,
            other => panic!("{other}"),
        };
        assert_eq!(way.lanes(), lanes, "{way}");
    }
}
