//! `-U`: everything comes first, and then everything goes on.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::process::Stdio;

use super::{as_pv, ends, run};
use crate::child::{end_of, read_exactly, zc_pv};
use crate::script::big;

#[test]
fn the_named_file_remains_and_holds_everything() {
    let outcome = as_pv("pv -q -U s f big g");
    let all = [&b"hi\n"[..], &big(), b"there\n"].concat();
    outcome.succeeds_with(&all);
    assert!(outcome.files["s"] == all);
    // What was there is replaced.
    let outcome = as_pv("cat f | pv -q --store-and-forward=big");
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["big"], b"hi\n");
}

#[test]
fn of_a_nameless_one_nothing_remains() {
    let outcome = as_pv("mkdir t; TMPDIR=$PWD/t pv -q -U - f big; ls -A t");
    outcome.succeeds_with([&b"hi\n"[..], &big()].concat());
    let outcome = run("mkdir t; TMPDIR=$PWD/t pv -q -U - f > /dev/full; ls -A t");
    assert_eq!(outcome.stdout, b"");
    // Not even while it runs.
    let script = "mkdir t; mkfifo p; cat p > out & \
                  { TMPDIR=$PWD/t pv -q -U - > p; } & exec 3> p; wait $!; ls -A t";
    run(&format!("cat big | {{ {script}; }}")).succeeds_with("");
}

#[test]
fn nothing_goes_on_before_everything_has_come() {
    for options in [&["-qU-"][..], &["-qCU-"], &["-f", "-D9", "-U-"]] {
        let mut command = zc_pv();
        command
            .args(options)
            .stderr(Stdio::null())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        // More than every pipe on the way could hold if it went on.
        for _ in 0..16 {
            stdin.write_all(&big()).unwrap();
        }
        assert_eq!(rustix::io::ioctl_fionread(&stdout).unwrap(), 0);
        drop(stdin);
        let all = read_exactly(stdout, 16 * big().len());
        assert!(all.chunks(big().len()).all(|piece| piece == big()));
        assert!(end_of(child).success());
    }
}

#[test]
fn it_is_at_the_end_of_a_file_that_it_appends_to_what_was_in_it() {
    // As sponge would; without it the file would grow for ever.
    let outcome = as_pv("pv -q -U - f >> f");
    outcome.succeeds_with("");
    assert_eq!(outcome.files["f"], b"hi\nhi\n");
}

#[test]
fn a_spool_that_cannot_be_made_is_the_end() {
    ends(&as_pv("pv -q -U dir f"), 2, "pv: dir: Is a directory\n", "");
    let error = "pv: missing/s: No such file or directory\n";
    ends(&as_pv("pv -q -U missing/s f"), 2, error, "");
    let error = "pv: (spool): No such file or directory\n";
    ends(&run("TMPDIR=/missing pv -q -U - f"), 2, error, "");
}

#[test]
fn a_full_spool_is_a_write_error_and_nothing_goes_on() {
    let error = "pv: /dev/full: write error: No space left on device\n";
    ends(&as_pv("pv -q -U /dev/full f"), 16, error, "");
    let Some(disk) = crate::mounts::mount_tmpfs(1) else {
        return;
    };
    let mut command = zc_pv();
    command.args(["-q", "-Ss", "3M", "/dev/zero", "-U"]);
    let held = fs::File::open(disk.dir()).unwrap();
    let spool = format!("/proc/{}/fd/{}/s", std::process::id(), held.as_raw_fd());
    let output = command.arg(&spool).output().unwrap();
    let said = format!("zc-pv: {spool}: write error: No space left on device\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), said);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(16), 0));
}

/// pv forwards nothing then.
#[test]
fn what_could_be_read_goes_on() {
    let error = "pv: missing: No such file or directory\n";
    ends(&run("pv -q -U s f missing g"), 2, error, "hi\nthere\n");
}

#[test]
fn a_reader_that_has_gone_leaves_the_spool() {
    let outcome = run("mkfifo p; { : < p & }; exec 3> p; wait; pv -q -U s big >&3");
    ends(&outcome, 141, "", "");
    assert!(outcome.files["s"] == big());
}
