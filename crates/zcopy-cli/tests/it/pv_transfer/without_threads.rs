//! A user who may have no more threads.

use super::run;
use crate::script::{Outcome, big};

const NO_DISPLAY: &str = "pv: cannot start the display: Resource temporarily unavailable\n";

/// Runs `pv ARGUMENTS` as a user who has a single process.
fn run_alone(arguments: &str) -> Outcome {
    run(&format!(
        "chmod 777 .; cp \"$(readlink -f \"$(command -v pv)\")\" pv; seq 100000 > in; chmod 666 in
        setpriv --reuid=65533 --regid=65533 --clear-groups prlimit --nproc=1 ./pv {arguments}
        status=$?; rm pv; exit $status"
    ))
}

#[test]
fn it_moves_the_bytes_and_shows_nothing() {
    // A program that reads the numbers of `-n` learns that there are none.
    for (arguments, status, said) in [
        ("-q", 0, ""),
        ("-L 100M", 0, NO_DISPLAY),
        ("-n", 8, NO_DISPLAY),
    ] {
        let outcome = run_alone(&format!("{arguments} -o out in"));
        assert_eq!(
            (outcome.status, &*outcome.stderr),
            (status, said),
            "{arguments}"
        );
        assert_eq!(outcome.files["out"], big(), "{arguments}");
    }
}

#[test]
fn it_refuses_to_promise_objects() {
    let outcome = run_alone("--json=objects in");
    assert_eq!(outcome.status, 8, "{outcome:?}");
    assert_eq!(outcome.stderr, NO_DISPLAY);
    assert_eq!(outcome.stdout, b"");
}
