//! `-S` and `-s`: where it stops, to the byte.

use super::{as_pv, run};
use crate::script::big;

#[test]
fn as_many_bytes_are_moved_as_the_size_says() {
    for size in [0, 1, 2, 3, 4, 8, 9, 10] {
        let all = b"hi\nthere\n";
        // A size of nothing is no size.
        let expected = if size == 0 { 9 } else { size.min(9) };
        as_pv(&format!("pv -q -S -s {size} f g")).succeeds_with(&all[..expected]);
    }
    for options in [
        "", "-C", "-B 1000", "-L 1G", "-U -", "-O", "-E", "-fD9", "--stable",
    ] {
        for size in [1, 4095, 65_537, 588_894] {
            let script = format!("pv -q {options} -S -s {size} big");
            run(&script).succeeds_with(&big()[..size]);
            let script = format!("cat big | pv -q {options} -S -s {size} | cat");
            run(&script).succeeds_with(&big()[..size]);
        }
    }
}

#[test]
fn the_size_is_that_of_all_inputs_together() {
    as_pv("cat g | pv -q -S -s 10 f - f").succeeds_with("hi\nthere\nh");
    as_pv("cat big | pv -q -S -s 5 f - g").succeeds_with("hi\n1\n");
    let outcome = as_pv("pv -q -S -s 3 f missing g");
    assert_eq!(outcome.status, 2);
    assert_eq!(outcome.stderr, "pv: missing: No such file or directory\n");
    outcome.printed("hi\n");
}

#[test]
fn the_source_is_left_right_behind_what_was_moved() {
    for options in ["", "-C", "-L 1G", "-B 7", "-fD9", "-E"] {
        for size in [10, 5000, 70_000] {
            let script = format!("{{ pv -q {options} -S -s {size} > out; cat; }}");
            let file = run(&format!("{script} < big"));
            assert!(file.files["out"] == big()[..size], "{options}");
            file.succeeds_with(&big()[size..]);
            let pipe = run(&format!("cat big | {script}"));
            assert!(pipe.files["out"] == big()[..size], "{options}");
            pipe.succeeds_with(&big()[size..]);
        }
    }
}

#[test]
fn suffixes_are_binary_unless_the_option_before_says_otherwise() {
    as_pv("pv -q -S -s 1.5K big").succeeds_with(&big()[..1536]);
    as_pv("pv -q -k -S -s 1.5k big").succeeds_with(&big()[..1500]);
    as_pv("pv -q -S -s 1K -k big").succeeds_with(&big()[..1024]);
    as_pv("pv -q -S -s 0.1M big").succeeds_with(&big()[..104_857]);
}

#[test]
fn a_size_may_be_that_of_a_file_or_a_directory() {
    as_pv("pv -q -S -s @g big").succeeds_with(&big()[..6]);
    as_pv("cp f g dir; mkdir dir/d; cp f dir/d; pv -q -S -s @dir big").succeeds_with(&big()[..12]);
    // Of nothing nothing is known.
    as_pv("pv -q -S -s @empty f").succeeds_with("hi\n");
    as_pv("pv -q -S -s @/dev/null f").succeeds_with("hi\n");
}

#[test]
fn without_a_size_it_stops_at_the_end() {
    as_pv("pv -q -S f g").succeeds_with("hi\nthere\n");
    // pv waits for ever.
    run("cat big | pv -q -S").succeeds_with(big());
    as_pv("pv -q -s 2 f").succeeds_with("hi\n");
    as_pv("pv -q -S -s 1G f").succeeds_with("hi\n");
}
