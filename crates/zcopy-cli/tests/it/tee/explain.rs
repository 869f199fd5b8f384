//! `--explain`, `-v`, and what they tell of `--stable`.

use zcopy::Strategy;

use crate::refused::is_refused;
use crate::script::{TEE, big};

#[test]
fn v_tells_what_each_output_got_and_how() {
    let n = big().len();
    let outcome = TEE.run("tee -v a /dev/null < big | cat > b");
    let ways = if is_refused(Strategy::Tee) {
        [Strategy::Buffered; 3]
    } else {
        [Strategy::Tee, Strategy::SplicePipe, Strategy::Splice]
    };
    let expected = format!(
        "tee: 'standard output': {n} bytes by {}\n\
         tee: a: {n} bytes by {}\n\
         tee: /dev/null: {n} bytes by {}\n",
        ways[0], ways[1], ways[2]
    );
    assert_eq!((outcome.stderr, outcome.status), (expected, 0));
}

#[test]
fn v_tells_of_one_output_and_of_none_too() {
    TEE.run("tee -v < f")
        .succeeded_saying("tee: 'standard output': 3 bytes by buffered\n", "hi\n");
    let outcome = TEE.run("tee -v a < f >&-");
    let expected = "tee: 'standard output': Bad file descriptor\ntee: a: 3 bytes by buffered\n";
    assert_eq!((outcome.stderr.as_str(), outcome.status), (expected, 1));
}

#[test]
fn v_tells_what_ended_an_output() {
    let outcome = TEE.run("tee -v /dev/full < f");
    let expected = "tee: /dev/full: No space left on device\n\
                    tee: 'standard output': 3 bytes by buffered\n\
                    tee: /dev/full: 0 bytes by buffered, ended by: No space left on device\n";
    assert_eq!((outcome.stderr.as_str(), outcome.status), (expected, 1));
}

#[test]
fn plan_and_report_go_to_standard_error() {
    let way = |way| {
        if is_refused(Strategy::Tee) {
            Strategy::Buffered
        } else {
            way
        }
    };
    let outcome = TEE.run("cat big | tee --explain a | cat > b");
    assert_eq!(outcome.status, 0);
    let said: Vec<usize> = [
        "tee: pipe -> 2 sinks".to_owned(),
        "\n  chosen    tee ".to_owned(),
        "\nsink 1, pipe: ".to_owned(),
        "\nsink 2, regular file: ".to_owned(),
        format!("tee: {} bytes by {}", big().len(), way(Strategy::Tee)),
        format!(
            "\nsink 2: {} bytes by {}",
            big().len(),
            way(Strategy::Splice)
        ),
    ]
    .iter()
    .map(|line| {
        outcome
            .stderr
            .find(line)
            .unwrap_or_else(|| panic!("{line}: {}", outcome.stderr))
    })
    .collect();
    assert!(said.is_sorted(), "{}", outcome.stderr);
}

#[test]
fn one_output_and_nothing_special_is_a_transfer_like_any_other() {
    let outcome = TEE.run("tee --explain < big | cat > a");
    assert!(
        outcome.stderr.contains("chosen    splice "),
        "{}",
        outcome.stderr
    );
    assert!(outcome.files["a"] == big());
}

#[test]
fn stable_copies_what_could_still_change() {
    let shares = |option: &str| {
        let outcome = TEE.run(&format!("tee --explain {option} a < big | cat > b"));
        assert!(outcome.files["a"] == big() && outcome.files["b"] == big());
        outcome.stderr.contains("pages: shared")
    };
    assert!(shares(""));
    assert!(!shares("--stable"));
}

/// A pipe may hold pages of a file that somebody spliced into it.
#[test]
fn stable_copies_what_a_pipe_holds() {
    let shares = |option: &str| {
        let outcome = TEE.run(&format!("cat big | tee --explain {option} a | cat > b"));
        assert!(outcome.files["a"] == big() && outcome.files["b"] == big());
        outcome
            .stderr
            .contains("pages: shared with the source pipe or socket")
    };
    assert!(shares(""));
    assert!(!shares("--stable"));
}
