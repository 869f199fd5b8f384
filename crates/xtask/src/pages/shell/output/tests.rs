use super::*;

#[test]
fn numbers_and_white_space_may_differ() {
    assert!(matches(
        &["12 files in 1.5 s, 812MiB/s"],
        &["3 files  in 0.001 s, 2.5KiB/s"]
    ));
    assert!(matches(&["812MiB/s"], &["12.5 B/s"]));
    assert!(matches(&[" 1\ta"], &["      2\ta"]));
}

#[test]
fn words_may_not_differ() {
    assert!(!matches(&["3 matching"], &["3 differing"]));
    assert!(!matches(&["3"], &["three"]));
}

#[test]
fn a_line_more_or_less_differs() {
    assert!(!matches(&["a"], &["a", "b"]));
    assert!(!matches(&["a", "b"], &["a"]));
    assert!(!matches(&[], &["a"]));
}

#[test]
fn an_ellipsis_stands_for_any_lines() {
    assert!(matches(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(matches(&["a", "…"], &["a"]));
    assert!(!matches(&["a", "…", "d"], &["a", "b"]));
}

#[test]
fn an_ellipsis_within_a_line_stands_for_any_characters() {
    assert!(matches(&["in …/a.txt"], &["in /tmp/x7/a.txt"]));
    assert!(!matches(&["in …/a.txt"], &["in /tmp/x7/b.txt"]));
    assert!(!matches(&["ab…bc"], &["abc"]));
}
