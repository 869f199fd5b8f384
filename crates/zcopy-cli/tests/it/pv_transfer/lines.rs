//! `-l` and `-0`: where it stops, how fast it goes and how much there is, in lines.

use super::{as_pv, ends, run};
use crate::script::big;

/// So many lines of it.
fn lines(n: usize) -> Vec<u8> {
    big()
        .split_inclusive(|byte| *byte == b'\n')
        .take(n)
        .flatten()
        .copied()
        .collect()
}

#[test]
fn as_many_lines_are_moved_as_the_size_says() {
    as_pv("pv -q -l -S -s 2 f g f").succeeds_with("hi\nthere\n");
    for n in [1, 7, 5000, 99_999] {
        as_pv(&format!("pv -q --line-mode -S -s {n} big")).succeeds_with(lines(n));
        as_pv(&format!("cat big | pv -q -l -S -s {n}")).succeeds_with(lines(n));
        for options in [
            "-C",
            "-U -",
            "-L 1G",
            "-E",
            "-O",
            "-B 5000",
            "--hash sha256 2>&-",
        ] {
            run(&format!("pv -q -l -S -s {n} {options} big")).succeeds_with(lines(n));
        }
    }
}

#[test]
fn as_many_records_that_end_in_nul_are_moved_as_the_size_says() {
    let script = |options| format!("tr '\\n' '\\0' < big | pv -q {options} -S -s 300");
    let mut expected = lines(300);
    expected
        .iter_mut()
        .filter(|byte| **byte == b'\n')
        .for_each(|byte| *byte = 0);
    for options in ["-0", "--null", "-0l", "-l0"] {
        as_pv(&script(options)).succeeds_with(&expected);
    }
}

/// pv has read further.
#[test]
fn the_source_is_left_right_behind_the_last_line() {
    let outcome = run("{ pv -q -l -S -s 7 > out; head -n 1; } < big");
    outcome.succeeds_with("8\n");
    assert_eq!(outcome.files["out"], lines(7));
}

#[test]
fn lines_are_counted_over_all_inputs() {
    let told = "pv: missing: No such file or directory\n2\n";
    ends(&as_pv("pv -n -b -l f missing g"), 2, told, "hi\nthere\n");
    ends(&as_pv("pv -n -b -l big > /dev/null"), 0, "100000\n", "");
    ends(
        &as_pv("printf 'a\\0b\\0c' | pv -n -b -0"),
        0,
        "2\n",
        "a\0b\0c",
    );
}

#[test]
fn the_rate_is_in_lines() {
    super::rate::takes_a_second_from(&["-qlL", "100", "-Ss", "100"], "yes");
}
