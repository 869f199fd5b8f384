//! A user who may have no more threads.

use super::run;
use crate::script::{Outcome, big};
use crate::skip::has_program;

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

/// `-q` needs no display.
#[test]
fn few_descriptors_do_not_keep_a_quiet_transfer_from_a_display() {
    for n in 3..=20 {
        let outcome = run(&format!(
            "seq 100000 > in; ulimit -n {n}; exec pv -q in > out"
        ));
        assert!(!outcome.stderr.contains("display"), "{n}: {outcome:?}");
        let is_whole = outcome.files.get("out") == Some(&big());
        assert_eq!(outcome.status == 0, is_whole, "{n}: {outcome:?}");
        assert!(is_whole || n < 20, "{n}: {outcome:?}");
    }
}

/// Refuses the nth thread that the main thread of `pv ARGUMENTS < in` asks for by `clone3(2)`, as
/// glibc does.
fn run_without_thread(nth: u32, arguments: &str) -> Outcome {
    run(&format!(
        "seq 100000 > in
        strace -f -o trace -e trace=clone3 -e inject=clone3:error=EAGAIN:when={nth} pv {arguments} < in"
    ))
}

#[test]
fn a_monitored_command_ends_with_a_side_that_has_no_thread() {
    if !has_program("strace") {
        return;
    }
    // Two threads of the display come first.
    for nth in 1..=2 {
        let outcome = run_without_thread(nth, "-M both -- cat");
        assert_eq!(outcome.status, 0, "{nth}");
        assert_eq!(outcome.stderr, NO_DISPLAY, "{nth}");
        assert_eq!(outcome.stdout, big(), "{nth}");
    }
    let outcome = run_without_thread(3, "-M both -- cat");
    assert_eq!(outcome.status, 8, "{outcome:?}");
    let said = "pv: cannot start a thread: Resource temporarily unavailable\n";
    assert!(outcome.stderr.ends_with(said), "{outcome:?}");
}

#[test]
fn a_monitored_command_reads_all_though_no_thread_watches_it() {
    if !has_program("strace") {
        return;
    }
    let outcome = run_without_thread(3, "-M in -- cat");
    let trace = String::from_utf8_lossy(&outcome.files["trace"]);
    assert!(trace.contains("(INJECTED)"), "{trace}");
    assert!(!outcome.stderr.contains(NO_DISPLAY), "{outcome:?}");
    assert_eq!(outcome.status, 0, "{outcome:?}");
    assert_eq!(outcome.stdout, big());
}
