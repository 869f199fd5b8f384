//! `-K` and `-Y`: past the page cache, and onto the disk.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::Stdio;

use rustix::fs::OFlags;

use super::run;
use crate::child::{end_of, zc_pv};
use crate::files::{allocated, assert_same, contents, pattern};
use crate::mounts::Fs;
use crate::script::big;
use crate::skip::has_program;

/// What strace tells of a script, in which `pv` stands for it.
fn trace_of(calls: &str, script: &str) -> String {
    let outcome = run(&format!("strace -fo trace -e {calls} pv {script}"));
    assert_eq!(outcome.status, 0, "{script}: {}", outcome.stderr);
    String::from_utf8_lossy(&outcome.files["trace"]).into_owned()
}

#[test]
fn inputs_and_outputs_pass_the_cache_by() {
    if !has_program("strace") {
        return;
    }
    let direct = |options: &str| {
        let trace = trace_of("open,openat,fcntl", options);
        let is_set = |line: &&str| line.contains("O_DIRECT") && line.contains("F_SETFL");
        trace.lines().filter(is_set).count()
    };
    assert!(direct("-qK < big > out") >= 2);
    assert!(direct("-q --direct-io -o out < big") >= 2);
    assert_eq!(direct("-q < big > out"), 0);
    // A pipe would be cut into packets.
    let outcome = run("cat big | strace -fo trace -e fcntl pv -qK | dd bs=999 2> dd");
    outcome.succeeds_with(big());
    assert!(!String::from_utf8_lossy(&outcome.files["trace"]).contains("O_DIRECT"));
}

#[test]
fn odd_lengths_arrive_on_every_file_system() {
    for fs in Fs::ALL {
        let Some(dir) = fs.dir() else {
            continue;
        };
        for len in [0, 1, 511, 512, 4095, 4096, 4097, 70_001, (1 << 20) + 777] {
            for options in ["-qK", "-qKC", "-qKY", "-fKD9"] {
                let bytes = pattern(len);
                let mut input = tempfile::tempfile_in(&dir).unwrap();
                input.write_all(&bytes).unwrap();
                input.rewind().unwrap();
                let output = tempfile::tempfile_in(&dir).unwrap();
                let mut command = zc_pv();
                command
                    .args(options.split(' '))
                    .stdin(input.try_clone().unwrap())
                    .stdout(output.try_clone().unwrap());
                let child = command.spawn().unwrap();
                let status = end_of(child);
                let what = format!("{options}, {len} bytes on {fs:?}");
                assert!(status.success(), "{what}");
                assert_same(&contents(&output), &bytes, &what);
                // Whoever has it open too has it as it was.
                for file in [input.as_fd(), output.as_fd()] {
                    let flags = rustix::fs::fcntl_getfl(file).unwrap();
                    assert!(!flags.contains(OFlags::DIRECT), "{what}");
                }
            }
        }
    }
}

#[test]
fn what_comes_by_a_pipe_in_odd_pieces_arrives() {
    let outcome = run("{ cat f; cat big; cat g; } | pv -qK > out; pv -qK f big g -o other");
    outcome.succeeds_with("");
    let all = [&b"hi\n"[..], &big(), b"there\n"].concat();
    assert!(outcome.files["out"] == all);
    assert!(outcome.files["other"] == all);
}

#[test]
fn every_write_is_on_the_disk_before_the_next() {
    if !has_program("strace") {
        return;
    }
    for options in ["-qYB64K", "-q --sync -B 64K", "-qYC"] {
        let trace = trace_of("write,fdatasync,sync", &format!("{options} -o out big"));
        let calls = trace
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let calls: Vec<_> = calls.filter_map(|call| call.split('(').next()).collect();
        let n_writes = calls.iter().filter(|call| **call == "write").count();
        assert!(n_writes > 1, "{trace}");
        for pair in calls.windows(2) {
            assert_ne!(pair, ["write", "write"], "{trace}");
        }
        assert_eq!(calls.last().copied(), Some("+++"), "{trace}");
        assert_eq!(
            calls.iter().rfind(|call| call.ends_with('c')),
            Some(&"fdatasync")
        );
    }
    assert!(!trace_of("fdatasync,sync", "-q -o out big").contains("sync("));
}

/// A pipe has no disk.
#[test]
fn into_a_pipe_nothing_is_synchronised() {
    run("pv -qY big | cat").succeeds_with(big());
    run("pv -qY f big > /dev/null").succeeds_with("");
}

#[test]
fn zeros_become_holes() {
    let mut bytes = pattern(1 << 20);
    bytes[100_000..700_000].fill(0);
    bytes[1_000_000..].fill(0);
    for (options, has_holes) in [
        (&["-q", "-O"][..], true),
        (&["--sparse", "-fD9"], true),
        (&["-qOY"], true),
        (&["-q", "-C"], false),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let output = tempfile::tempfile().unwrap();
        let mut command = zc_pv();
        command
            .args(options)
            .stdin(reader)
            .stdout(output.try_clone().unwrap())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        drop(command);
        let mut writer = File::from(std::os::fd::OwnedFd::from(writer));
        writer.write_all(&bytes).unwrap();
        drop(writer);
        assert!(end_of(child).success());
        assert_same(&contents(&output), &bytes, &format!("{options:?}"));
        let taken = allocated(&output);
        assert_eq!(taken < 600_000, has_holes, "{options:?}: {taken}");
    }
}

/// Where there can be no holes the zeros are written.
#[test]
fn zeros_go_through_a_pipe_and_over_what_was_there() {
    run("head -c 100000 /dev/zero | pv -qO | cat").succeeds_with(vec![0; 100_000]);
    let outcome = run("head -c 100000 /dev/zero | pv -qO 1<> big");
    outcome.succeeds_with("");
    let expected = [&vec![0; 100_000][..], &big()[100_000..]].concat();
    assert!(outcome.files["big"] == expected);
    let outcome = run("head -c 100000 /dev/zero | pv -qO >> f");
    assert!(outcome.files["f"] == [&b"hi\n"[..], &vec![0; 100_000]].concat());
}
