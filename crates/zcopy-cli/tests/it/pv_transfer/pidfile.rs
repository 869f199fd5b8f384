//! `-P`: the file that holds the process's number while it runs.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use super::{as_pv, ends, run, run_pv};
use crate::child::{end_of, zc_pv};

#[test]
fn the_file_holds_the_number_while_it_runs_and_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    // What is there is replaced.
    for before in [None, Some("1234567\nmore\n")] {
        if let Some(before) = before {
            std::fs::write(&path, before).unwrap();
        }
        let mut command = zc_pv();
        command
            .arg("-qP")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        crate::child::comes_to_hold(&path, format!("{}\n", child.id()).as_bytes());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
        assert!(end_of(child).success());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn it_goes_also_after_an_error() {
    for (script, status) in [
        ("pv -q -P p missing", 2),
        ("pv -q --pidfile p f > /dev/full", 16),
        ("pv -q -P p f >> f", 4),
        ("pv -q -P p -o dir f", 2),
        ("pv -q -P p -o f f", 4),
        ("pv -q -P p -s @missing f", 64),
    ] {
        let outcome = run(&format!("{script}; r=$?; ls > list; exit $r"));
        assert_eq!(outcome.status, status, "{script}: {}", outcome.stderr);
        let list = String::from_utf8_lossy(&outcome.files["list"]).into_owned();
        assert_eq!(list, "big\ndir\nempty\nf\ng\nlist\n", "{script}");
    }
    // The reader of a pipe has gone.
    let outcome = run("mkfifo q; { : < q & }; exec 3> q; wait; pv -q -P p f >&3; test -e p");
    assert_eq!(outcome.status, 1);
}

#[test]
fn what_somebody_else_has_put_there_stays() {
    as_pv("pv -q -P p f; test -e p || echo gone").succeeds_with("hi\ngone\n");
    let outcome =
        run("mkfifo q; { until test -s p; do :; done; echo other > p; cat f > q; } & pv -q -P p q");
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["p"], b"other\n");
    // Another process has taken the name over, and runs on.
    let script = "mkfifo q; \
        { until test -s p; do :; done; echo 1 > other; mv other p; cat f > q; } & pv -q -P p q";
    let outcome = run(script);
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["p"], b"1\n");
    if let Some(theirs) = run_pv(script) {
        assert!(!theirs.files.contains_key("p"), "pv removes it");
    }
    let page = crate::generated::generated(env!("CARGO_BIN_EXE_zc-pv"), "man");
    let page = page.replace('\n', " ");
    assert!(page.contains("remove FILE at the end if it still holds that"));
}

#[test]
fn a_file_that_cannot_be_written_is_the_end() {
    ends(&as_pv("pv -q -P dir f"), 1, "pv: dir: Is a directory\n", "");
    let error = "pv: missing/p: No such file or directory\n";
    ends(&run("pv -q -P missing/p f"), 1, error, "");
    let error = "pv: '': No such file or directory\n";
    ends(&run("pv -q -P '' f"), 1, error, "");
    assert_eq!(run("pv -q -P dir f -o g").files["g"], b"there\n");
}
