//! Every mode of `--output-error`, with the first, a middle and the last output failing.

use std::io::Write as _;
use std::process::Stdio;

use crate::child::{end_of, read_exactly, zc_tee};
use crate::script::{TEE, big, gnus, run_tool};

const MODES: [&str; 5] = [
    "",
    "--output-error=warn",
    "--output-error=warn-nopipe",
    "--output-error=exit",
    "--output-error=exit-nopipe",
];

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comes {
    /// Nothing is said, and the others go on.
    Silence,
    /// It is said, and the others go on.
    Warning,
    /// It is said, and that is the end.
    Exit,
    /// `SIGPIPE`.
    Death,
}

fn of_a_full_disk(mode: &str) -> Comes {
    if mode.contains("exit") {
        Comes::Exit
    } else {
        Comes::Warning
    }
}

fn of_a_broken_pipe(mode: &str) -> Comes {
    match mode {
        "" => Comes::Death,
        "--output-error=warn" => Comes::Warning,
        "--output-error=exit" => Comes::Exit,
        _ => Comes::Silence,
    }
}

/// Runs the script with our tool and with every GNU's, and sees that what comes is what is
/// expected.
#[track_caller]
fn comes(script: &str, expected: Comes, message: &str, others: &[&str]) {
    let mut outcomes = vec![TEE.run(script)];
    let gnus = gnus("tee");
    outcomes.extend(gnus.iter().map(|gnu| run_tool(("tee", gnu), script, &[])));
    let (status, said) = match expected {
        Comes::Silence => (0, ""),
        Comes::Warning | Comes::Exit => (1, message),
        Comes::Death => (128 + rustix::process::Signal::PIPE.as_raw(), ""),
    };
    for outcome in &outcomes {
        assert_eq!(
            (outcome.status, outcome.stderr.as_str()),
            (status, said),
            "{script}"
        );
        for name in others {
            let bytes = &outcome.files[*name];
            let update = matches!(expected, Comes::Silence | Comes::Warning);
            // How far the others got is the business of whoever ended it.
            let is_right = if update {
                *bytes == big()
            } else {
                big().starts_with(bytes)
            };
            assert!(is_right, "{script}: {name} has {} bytes", bytes.len());
        }
    }
}

#[test]
fn a_full_disk_is_told_and_ends_it_in_the_modes_that_exit() {
    let message = |name: &str| format!("tee: {name}: No space left on device\n");
    for mode in MODES {
        for input in ["cat big |", "< big"] {
            let script = |rest: &str| format!("{input} tee {mode} {rest}");
            let expected = of_a_full_disk(mode);
            comes(
                &script("a b > /dev/full"),
                expected,
                &message("'standard output'"),
                &["a", "b"],
            );
            comes(
                &script("a /dev/full b > c"),
                expected,
                &message("/dev/full"),
                &["a", "b", "c"],
            );
            comes(
                &script("a b /dev/full > c"),
                expected,
                &message("/dev/full"),
                &["a", "b", "c"],
            );
            comes(
                &script("> /dev/full"),
                expected,
                &message("'standard output'"),
                &[],
            );
        }
    }
}

#[test]
fn a_pipe_whose_reader_has_gone_comes_to_what_the_mode_says() {
    // The reader has come and gone before there is anything to write.
    let broken = "mkfifo p q; { : < p; echo > q; } & { read go < q; cat big; } |";
    let message = |name: &str| format!("tee: {name}: Broken pipe\n");
    for mode in MODES {
        let script = |rest: &str| format!("{broken} tee {mode} {rest}");
        let expected = of_a_broken_pipe(mode);
        comes(
            &script("a b > p"),
            expected,
            &message("'standard output'"),
            &["a", "b"],
        );
        comes(
            &script("a p b > c"),
            expected,
            &message("p"),
            &["a", "b", "c"],
        );
        comes(
            &script("a b p > c"),
            expected,
            &message("p"),
            &["a", "b", "c"],
        );
        comes(&script("> p"), expected, &message("'standard output'"), &[]);
    }
}

/// The file gets what is allowed. GNU tee would be killed by `SIGXFSZ`, were it not ignored.
#[test]
fn a_file_that_may_not_grow_gets_what_is_allowed_in_every_mode() {
    let limit = 8192;
    for mode in MODES {
        for options in [mode.to_owned(), format!("-a {mode}")] {
            for (outputs, message) in [
                (
                    "/dev/null /dev/null > c",
                    "tee: 'standard output': File too large\n",
                ),
                ("/dev/null c /dev/null | cat", "tee: c: File too large\n"),
                ("/dev/null /dev/null c | cat", "tee: c: File too large\n"),
            ] {
                let outputs = outputs.replace("| cat", "> /dev/null");
                let script =
                    format!("trap '' XFSZ; ulimit -f 16; cat big | tee {options} {outputs}");
                let outcome = TEE.as_peers(&script);
                outcome.fails_with(message);
                let kept = &outcome.files["c"];
                assert!(kept.len() == limit && big().starts_with(kept), "{script}");
            }
        }
    }
}

#[test]
fn a_file_that_may_not_grow_is_an_error_though_the_signal_is_not_ignored() {
    let outcome = TEE.run("ulimit -f 16; cat big | tee a | cksum");
    assert_eq!(outcome.stderr, "tee: a: File too large\n");
    assert_eq!(outcome.stdout, TEE.run("cksum < big").stdout);
}

#[test]
fn a_file_that_cannot_be_opened_ends_the_modes_that_exit() {
    for mode in MODES {
        let outcome = TEE.as_peers(&format!("tee {mode} a no/b c < f"));
        let exits = mode.contains("exit");
        outcome.fails_after(
            if exits { "" } else { "hi\n" },
            "tee: no/b: No such file or directory\n",
        );
        assert_eq!(outcome.files["a"].is_empty(), exits);
        assert_eq!(outcome.files.contains_key("c"), !exits);
    }
}

#[test]
fn a_broken_pipe_is_silent_by_default_where_the_parent_ignores_sigpipe() {
    let script =
        "trap '' PIPE; mkfifo p q; { : < p; echo > q; } & { read go < q; cat f; } | tee a > p";
    let outcome = TEE.as_peers(script);
    outcome.succeeds_with("");
    assert_eq!(outcome.files["a"], b"hi\n");
}

#[test]
fn several_failures_are_all_told() {
    let outcome = TEE.as_peers("tee /dev/full a no/b < f > /dev/full");
    outcome.fails_with(
        "tee: no/b: No such file or directory\n\
         tee: 'standard output': No space left on device\n\
         tee: /dev/full: No space left on device\n",
    );
    assert_eq!(outcome.files["a"], b"hi\n");
}

#[test]
fn without_any_output_left_the_rest_is_not_read() {
    let errors = "tee: 'standard output': No space left on device\n\
                  tee: /dev/full: No space left on device\n";
    TEE.as_peers("yes | tee /dev/full > /dev/full")
        .fails_with(errors);
    // GNU's cannot give back what it has read.
    let outcome = TEE.run("{ tee /dev/full > /dev/full; cat; } < g");
    outcome.succeeded_saying(errors, "there\n");
}

#[test]
fn a_failure_is_told_when_it_happens() {
    let mut child = zc_tee();
    child
        .arg("/dev/full")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = child.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hi\n").unwrap();
    let message = b"zc-tee: /dev/full: No space left on device\n";
    let stderr = child.stderr.take().unwrap();
    assert_eq!(read_exactly(stderr, message.len()), message);
    // Only now the input ends.
    drop(stdin);
    assert_eq!(end_of(child).code(), Some(1));
}

#[test]
fn closed_output_is_told_when_there_is_something_to_write() {
    let dir = tempfile::tempdir().unwrap();
    let script = "exec \"$0\" \"$1\" >&-";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_zc-tee")])
        .arg(dir.path().join("a"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hi\n").unwrap();
    let message = b"zc-tee: 'standard output': Bad file descriptor\n";
    let stderr = child.stderr.take().unwrap();
    assert_eq!(read_exactly(stderr, message.len()), message);
    drop(stdin);
    assert_eq!(end_of(child).code(), Some(1));
}

#[test]
fn the_modes_that_exit_do_not_wait_for_more_input() {
    for mode in ["exit", "exit-nopipe"] {
        let mut child = zc_tee();
        child.arg(format!("--output-error={mode}")).arg("/dev/full");
        child
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"hi\n").unwrap();
        assert_eq!(end_of(child).code(), Some(1), "{mode}");
        drop(stdin);
    }
}
