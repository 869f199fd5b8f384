use std::fs;

use super::*;
use crate::scenario::tree::archive::LastRun;
use crate::strace;

const EIO: Errno = Errno {
    name: "EIO",
    number: 5,
};
const EINTR: Errno = Errno {
    name: "EINTR",
    number: 4,
};
const INPUT: &[u8] = b"0123456789";

/// A copy of a file on standard input to a pipe.
fn copy(program: &'static str) -> Scenario {
    let stdin = Stdin::File {
        bytes: INPUT.to_vec(),
        cursor: 0,
    };
    Scenario::new(Program::Tool(program), &[])
        .stdin(stdin)
        .stdout(Stdout::Pipe, INPUT)
}

/// A run that ended with this status and message. Its output took as many bytes of the input.
fn run(code: i32, stderr: &str, n_arrived: usize) -> Observed {
    Observed::example(code, stderr, &INPUT[..n_arrived])
}

/// Judges a run in which a call was made to fail.
fn judged(scenario: &Scenario, observed: &Observed, call: &str, errno: Errno) -> Vec<String> {
    let log = format!("1 {call} = -1 {} (an error) (INJECTED)\n", errno.name);
    fs::write(observed.log(), &log).unwrap();
    judge(scenario, observed, &strace::parse(&log), Some(errno))
}

/// A call on standard output. [`Observed::example`] knows its name.
const WRITE: &str = r#"write(1<pipe:[1]>, ""..., 10)"#;
const READ: &str = r#"read(0</stdin>, ""..., 10)"#;

#[test]
fn an_honest_error_and_a_success_are_right() {
    let told = run(1, "zc-cat: write error: Input/output error\n", 4).with_cursor(4);
    assert_eq!(judged(&copy("zc-cat"), &told, WRITE, EIO), [""; 0]);
    let told = run(1, "zc-cat: -: Input/output error\n", 4);
    assert_eq!(judged(&copy("zc-cat"), &told, READ, EIO), [""; 0]);
    let whole = run(0, "", 10);
    assert_eq!(judged(&copy("zc-cat"), &whole, READ, EIO), [""; 0]);
}

#[test]
fn a_message_names_the_error_and_the_side() {
    let read = "zc-cat: -: Input/output error\n";
    let wrong = judged(&copy("zc-cat"), &run(1, read, 4).with_cursor(4), WRITE, EIO);
    assert!(wrong[0].starts_with("no message blames the output"));
    let other = "zc-cat: write error: Bad address\n";
    let wrong = judged(
        &copy("zc-cat"),
        &run(1, other, 4).with_cursor(4),
        WRITE,
        EIO,
    );
    assert!(wrong[0].starts_with("no message says 'Input/output error'"));
    let wrong = judged(&copy("zc-cat"), &run(1, "", 4), READ, EIO);
    assert_eq!(wrong, ["it failed without a message"]);
}

#[test]
fn an_interrupted_call_is_made_again() {
    let told = "zc-cat: -: Interrupted system call\n";
    let wrong = judged(&copy("zc-cat"), &run(1, told, 4), READ, EINTR);
    assert_eq!(wrong, ["a signal's interruption ended it"]);
    // Only calls that move bytes have to be.
    let open = r#"newfstatat(0</stdin>, "", AT_EMPTY_PATH)"#;
    assert_eq!(
        judged(&copy("zc-cat"), &run(1, told, 4), open, EINTR),
        [""; 0]
    );
}

#[test]
fn what_an_output_did_not_take_stays_in_the_input() {
    let told = || run(1, "zc-cat: write error: Input/output error\n", 4);
    let wrong = judged(&copy("zc-cat"), &told().with_cursor(10), WRITE, EIO);
    assert_eq!(wrong, ["4 bytes arrived, and the cursor is at 10"]);
    let wrong = judged(&copy("zc-cat"), &told().with_cursor(3), WRITE, EIO);
    assert_eq!(wrong, ["4 bytes arrived, and the cursor is at 3"]);
    // The rule does not hold for an input that has failed.
    let told = run(1, "zc-cat: -: Input/output error\n", 4).with_cursor(10);
    assert_eq!(judged(&copy("zc-cat"), &told, READ, EIO), [""; 0]);
}

#[test]
fn a_failed_transfer_sets_its_bit_in_the_status_of_zc_pv() {
    let told = "zc-pv: (stdin): read failed: Input/output error\n";
    let wrong = judged(&copy("zc-pv"), &run(1, told, 4), READ, EIO);
    assert_eq!(wrong, ["the transfer failed, and the status is 1"]);
    for code in [0, 16, 24] {
        let run = run(code, told, if code == 0 { 10 } else { 4 });
        assert_eq!(judged(&copy("zc-pv"), &run, READ, EIO), [""; 0], "{code}");
    }
}

#[test]
fn bytes_that_a_sync_has_lost_end_in_a_failure() {
    for call in ["fsync", "fdatasync", "syncfs", "sync_file_range"] {
        let wrong = judged(
            &copy("zc-cat"),
            &run(0, "", 10),
            &format!("{call}(5</a>)"),
            EIO,
        );
        assert_eq!(
            wrong,
            [format!("{call} said EIO, and the status is a success")]
        );
    }
    // The log beside a partial copy is no output.
    let log = "fdatasync(5</copy/.zc-dircopy-logfile0>)";
    assert_eq!(
        judged(&copy("zc-dircopy"), &run(0, "", 10), log, EIO),
        [""; 0]
    );
    let close = "close(1<pipe:[1]>)";
    let wrong = judged(&copy("zc-cat"), &run(0, "", 10), close, EIO);
    assert_eq!(wrong, ["close said EIO, and the status is a success"]);
    // A duplicate of a pipe loses no bytes, but that of a file may.
    let duplicate = "close(3<pipe:[1]>)";
    assert_eq!(
        judged(&copy("zc-pv"), &run(0, "", 10), duplicate, EIO),
        [""; 0]
    );
    // Closing an input loses no bytes.
    assert_eq!(
        judged(&copy("zc-cat"), &run(0, "", 10), "close(0</stdin>)", EIO),
        [""; 0]
    );
}

#[test]
fn a_file_system_without_nameless_files_is_no_failure() {
    let scenario = Scenario::new(Program::Tool("zc-dircopy"), &[]);
    let refused = Errno {
        name: "EOPNOTSUPP",
        number: 95,
    };
    let open = r#"openat(4</dir/copy>, ".", O_RDWR|O_TMPFILE, 0600)"#;
    let told = Observed::example(
        1,
        "zc-dircopy: a: cannot make its copy: Operation not supported\n",
        b"",
    );
    let wrong = judged(&scenario, &told, open, refused);
    assert_eq!(wrong, ["it does not go on without openat"]);
    assert_eq!(
        judged(&scenario, &Observed::example(0, "", b""), open, refused),
        [""; 0]
    );
}

#[test]
fn zc_dircopy_tells_a_file_from_its_copy() {
    let scenario = Scenario::new(Program::Tool("zc-dircopy"), &[]);
    let (read, write) = ("cannot read", "cannot write its copy");
    for (call, of, other) in [
        ("read(5<DIR/source/a>)", read, write),
        ("write(5<DIR/copy/#7>)", write, read),
    ] {
        for (what, n_wrong) in [(of, 0), (other, 1)] {
            let told = format!("zc-dircopy: a: {what}: Input/output error\n");
            let run = Observed::example(1, &told, b"");
            let call = call.replace("DIR", run.dir().to_str().unwrap());
            let wrong = judged(&scenario, &run, &call, EIO);
            assert_eq!(wrong.len(), n_wrong, "{call} {told} {wrong:?}");
        }
    }
}

#[test]
fn a_failing_call_on_neither_side_leaves_the_side_open() {
    let scenario = Scenario::new(Program::Tool("zc-dircopy"), &["source", "copy"]);
    let told = "zc-dircopy: b/same: cannot read: Input/output error\n";
    let observed = run(1, told, 0);
    let on_copy = format!("fstat(14<{}>)", observed.dir().join("copy/b").display());
    let wrong = judged(&scenario, &observed, &on_copy, EIO);
    assert_eq!(wrong, ["no message blames the output ()"]);
    let both = format!("fstat(5</dev/null>) = -1 EIO (an error) (INJECTED)\n1 {on_copy}");
    assert_eq!(judged(&scenario, &observed, &both, EIO), [""; 0]);
}

/// The kernel does not tell which end of a splice fails, and only the end that is a file can.
#[test]
fn a_failing_splice_out_of_a_spool_file_leaves_the_side_open() {
    let scenario = Scenario::new(Program::Tool("zc-pv"), &["-q", "-U", "spool"]);
    let scenario = scenario.stdout(Stdout::Pipe, INPUT);
    let observed = run(16, "zc-pv: spool: Input/output error\n", 0);
    let spool = observed.dir().join("spool");
    let call = format!("splice(7<{}>, [0], 1<pipe:[1]>)", spool.display());
    assert_eq!(judged(&scenario, &observed, &call, EIO), [""; 0]);
}

#[test]
fn a_run_into_a_damaged_archive_fails_for_another_reason_than_the_lock() {
    let copy = Scenario::new(Program::Tool("zc-dircopy"), &["source", "copy"]);
    let told = "zc-dircopy: spoiled: its copy differs from the digest that it was recorded with\n";
    let lock = "flock(4</lock>, LOCK_EX)";
    assert!(!judged(&copy, &run(1, told, 0), lock, EIO).is_empty());
    let archive = copy.archive(LastRun::Finished);
    assert_eq!(judged(&archive, &run(1, told, 0), lock, EIO), [""; 0]);
}
