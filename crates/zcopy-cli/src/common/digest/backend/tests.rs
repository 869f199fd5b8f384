use super::Backend;

#[test]
fn every_way_has_a_name_of_its_own() {
    let names: Vec<_> = Backend::all().map(|backend| backend.to_string()).collect();
    let mut different = names.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert!(
        names.contains(&Backend::in_lanes().to_string()),
        "{names:?}"
    );
}

#[test]
fn instructions_are_best_where_the_processor_has_them_and_lanes_elsewhere() {
    let best = Backend::best().to_string();
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |name| flags.split_whitespace().any(|flag| flag == name);
    let expected = match (has("sha_ni"), has("sha2")) {
        (true, _) => "two interleaved".to_owned(),
        (false, true) => Backend::sequential().to_string(),
        (false, false) => Backend::in_lanes().to_string(),
    };
    assert_eq!(best, expected);
    let all: Vec<_> = Backend::all().map(|backend| backend.to_string()).collect();
    assert!(all.contains(&best), "{all:?}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn every_kind_of_register_has_its_lanes() {
    for backend in Backend::all() {
        let lanes = match backend.to_string().rsplit(' ').next().unwrap() {
            "one" => 1,
            "interleaved" => 2,
            "Sse2" | "Sse4_2" => 4,
            "Avx2" => 8,
            "Avx512" => 16,
            other => panic!("{other}"),
        };
        assert_eq!(backend.lanes(), lanes, "{backend}");
    }
}
