//! `-a`: at the end of files, and at full speed where there is no end.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::Stdio;

use zcopy::Strategy;

use crate::child::comes_to_hold;
use crate::child::{end_of, zc_tee};
use crate::refused::{first_allowed, is_refused};
use crate::script::{TEE, big};

#[test]
fn what_files_held_stays_before_what_is_appended() {
    for input in ["< f", "< big", "< empty"] {
        TEE.as_peers(&format!("tee -a g new empty {input}"));
        TEE.as_peers(&format!("cat {input} | tee -a g new empty | cat"));
    }
    let outcome = TEE.run("cat big | tee -a f g | cat");
    outcome.succeeds_with(big());
    assert!(outcome.files["f"] == [b"hi\n", &big()[..]].concat());
    assert!(outcome.files["g"] == [b"there\n", &big()[..]].concat());
}

#[test]
fn a_file_that_is_appended_to_twice_gets_everything_twice() {
    assert_eq!(TEE.as_peers("tee -a a a < f").files["a"], b"hi\nhi\n");
}

/// Were the file written to where it ended when it was opened, what came in between would be lost.
#[test]
fn what_others_append_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("a");
    let mut child = zc_tee();
    child.arg("-a").arg(&name);
    child.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    comes_to_hold(&name, b"one\n");
    let mut other = File::options().append(true).open(&name).unwrap();
    other.write_all(b"between\n").unwrap();
    stdin.write_all(b"two\n").unwrap();
    drop(stdin);
    assert!(end_of(child).success());
    assert_eq!(std::fs::read(name).unwrap(), b"one\nbetween\ntwo\n");
}

/// The strategies that `-v` names, of standard output and of each file.
fn routes(script: &str) -> Vec<String> {
    let outcome = TEE.run(script);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let lines = outcome.stderr.lines();
    let routes = lines.map(|line| line.rsplit(' ').next().unwrap().to_owned());
    routes.collect()
}

#[test]
fn devices_and_pipes_are_served_as_they_are_without_a() {
    for script in [
        "cat big | tee -v OPTION /dev/null | cat > a",
        "mkfifo p; cat p > a & cat big | tee -v OPTION p > b",
        "cat big | tee -v OPTION /dev/fd/1 /dev/null | cat > a",
    ] {
        let plain = routes(&script.replace("OPTION", ""));
        let is_written = |route: &String| route == "buffered";
        let is_refused = is_refused(Strategy::Tee);
        assert_eq!(plain.iter().any(is_written), is_refused, "{plain:?}");
        assert_eq!(routes(&script.replace("OPTION", "-a")), plain, "{script}");
    }
}

#[test]
fn a_file_that_is_appended_to_does_not_slow_the_others_down() {
    let shared = first_allowed(&[Strategy::Tee]).to_string();
    assert_eq!(
        routes("cat big | tee -v -a a | cat > b"),
        [&shared, "buffered"]
    );
}

#[test]
fn the_mode_of_standard_output_is_left_alone() {
    // It is shared with whoever opened it.
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().join("a");
    let log = File::options()
        .create(true)
        .append(true)
        .open(&name)
        .unwrap();
    let mut child = zc_tee();
    let stdout = log.try_clone().unwrap();
    child
        .args(["-a", "/dev/null"])
        .stdin(Stdio::null())
        .stdout(stdout);
    assert!(end_of(child.spawn().unwrap()).success());
    let flags = rustix::fs::fcntl_getfl(&log).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::APPEND));
    let mut text = String::new();
    File::open(name).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
}
