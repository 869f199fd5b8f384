//! Standard input goes to every file and to standard output.

use std::process::Stdio;

use crate::child::{end_of, zc_tee};
use crate::script::{TEE, big};

#[test]
fn without_operands_it_copies_to_standard_output() {
    TEE.as_peers("tee < f").succeeds_with("hi\n");
    TEE.as_peers("tee < big | cat").succeeds_with(big());
    TEE.as_peers("tee < empty").succeeds_with("");
    TEE.as_peers("printf there | tee").succeeds_with("there");
}

#[test]
fn every_file_gets_everything() {
    for input in ["< f", "< big", "< empty", "< /proc/version"] {
        TEE.as_peers(&format!("tee a b {input}"));
        TEE.as_peers(&format!("cat {input} | tee a b c | cat"));
        TEE.as_peers(&format!("tee a b {input} > c"));
    }
    let outcome = TEE.run("cat big | tee a b > c");
    for name in ["a", "b", "c"] {
        assert!(outcome.files[name] == big(), "{name}");
    }
}

#[test]
fn there_may_be_many_files() {
    let outcome = TEE.as_peers("cat big | tee $(seq 1 40) | cksum");
    for n in 1..=40 {
        assert!(outcome.files[&n.to_string()] == big(), "{n}");
    }
}

#[test]
fn there_may_be_more_files_than_pipes_for_them() {
    // Enough for the files, and for a few private pipes.
    let outcome = TEE.as_peers("cat big | (ulimit -n 24; exec tee $(seq 1 13)) | cat");
    outcome.succeeds_with(big());
    for n in 1..=13 {
        assert!(outcome.files[&n.to_string()] == big(), "{n}");
    }
}

#[test]
fn files_that_do_not_fit_the_table_of_descriptors_are_errors() {
    let outcome = TEE.as_peers("cat f | (ulimit -n 6; exec tee a b c d e)");
    let error = "Too many open files\n";
    outcome.fails_after("hi\n", &format!("tee: d: {error}tee: e: {error}"));
}

#[test]
fn a_dash_is_a_files_name() {
    let outcome = TEE.as_peers("tee - < f");
    outcome.succeeds_with("hi\n");
    assert_eq!(outcome.files["-"], b"hi\n");
    TEE.as_peers("tee -- -a --help < f").succeeds_with("hi\n");
}

#[test]
fn files_are_written_anew() {
    let outcome = TEE.as_peers("tee big < f");
    assert_eq!(outcome.files["big"], b"hi\n");
}

#[test]
fn the_mode_of_a_new_file_is_the_umasks() {
    TEE.as_peers("umask 027; tee new < f > empty; stat -c %a new")
        .succeeds_with("640\n");
}

#[test]
fn a_file_may_be_named_twice() {
    assert_eq!(TEE.as_peers("tee a a < f").files["a"], b"hi\n");
    assert!(TEE.as_peers("cat big | tee a a").files["a"] == big());
}

#[test]
fn standard_output_may_be_named() {
    TEE.as_peers("tee /dev/stdout < f | cat")
        .succeeds_with("hi\nhi\n");
    TEE.as_peers("tee /dev/fd/1 < f | cat")
        .succeeds_with("hi\nhi\n");
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_and_the_others_go_on() {
    let outcome = TEE.as_peers("tee dir missing/a a '' < f");
    outcome.fails_after(
        "hi\n",
        "tee: dir: Is a directory\n\
         tee: missing/a: No such file or directory\n\
         tee: '': No such file or directory\n",
    );
    assert_eq!(outcome.files["a"], b"hi\n");
}

#[test]
fn a_fifo_is_written_to() {
    TEE.as_peers("mkfifo p; cat p > a & cat big | tee p b > c; wait");
}

#[test]
fn a_socket_is_written_to() {
    use std::io::Read as _;
    let (mut here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("input");
    std::fs::write(&input, big()).unwrap();
    let child = zc_tee()
        .arg(dir.path().join("a"))
        .stdin(std::fs::File::open(input).unwrap())
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(there)))
        .spawn()
        .unwrap();
    let mut bytes = Vec::new();
    here.read_to_end(&mut bytes).unwrap();
    assert!(end_of(child).success());
    assert!(bytes == big());
    assert!(std::fs::read(dir.path().join("a")).unwrap() == big());
}

/// Many files in /proc have a cursor that can be moved, and accept no write that names an offset.
#[test]
fn a_file_in_proc_that_takes_no_offsets_is_written() {
    let write = "sleep 60 & echo 70000 | tee /proc/$!/timerslack_ns; cat /proc/$!/timerslack_ns; \
                 echo x | tee /proc/version; echo $?; kill $!";
    TEE.as_peers(write);
    let outcome = TEE.run(write);
    assert_eq!(
        String::from_utf8_lossy(&outcome.stdout),
        "70000\n70000\nx\n1\n"
    );
}
