//! By which way the bytes go: `-C`, `-B`, `-J`, `--stable`, and what `--explain` and `--per-file`
//! tell.

use std::fs::File;
use std::os::fd::OwnedFd;

use super::{Outcome, as_pv, run};
use crate::child::{end_of, read_exactly, zc_pv};
use crate::script::big;
use crate::skip::has_program;

/// The strategies that were chosen, in order.
fn chosen(script: &str) -> Vec<String> {
    let outcome = run(script);
    assert_eq!(outcome.status, 0, "{script}: {}", outcome.stderr);
    let lines = outcome.stderr.lines();
    lines
        .filter_map(|line| line.trim_start().strip_prefix("chosen "))
        .filter_map(|rest| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_file_goes_to_a_pipe_without_passing_user_space() {
    assert_eq!(chosen("pv -q --explain big | wc -c"), ["splice"]);
    assert_eq!(chosen("pv -fD9 --explain big | wc -c"), ["splice"]);
    assert_eq!(chosen("pv -qX --explain big"), ["sendfile"]);
}

#[test]
fn what_needs_the_bytes_reads_and_writes() {
    for options in [
        "-C",
        "--no-splice",
        "-B 64K",
        "-A 4",
        "-T",
        "-F %8A",
        "-F %L",
        "--stable",
        "--hash sha256",
    ] {
        let script = format!("pv -qD9 {options} --explain big | wc -c");
        if options == "-T" {
            // How full the output's pipe is can be told without.
            continue;
        }
        assert_eq!(chosen(&script), ["buffered"], "{options}");
    }
    assert_eq!(chosen("pv -qO --explain big > out"), ["buffered"]);
}

#[test]
fn each_input_is_explained_before_and_after() {
    let outcome = run("pv -q --explain f g");
    outcome.printed("hi\nthere\n");
    assert_eq!(outcome.status, 0);
    let said: Vec<usize> = [
        "pv: f: regular file",
        "pv: f: 3 bytes by buffered",
        "pv: g: regular file",
        "pv: g: 6 bytes by buffered",
    ]
    .iter()
    .map(|line| outcome.stderr.find(line).expect(line))
    .collect();
    assert!(said.is_sorted(), "{}", outcome.stderr);
    let outcome = run("pv -q --explain f > /dev/full");
    assert_eq!(outcome.status, 16);
    let (report, error) = ("pv: f: 0 bytes by", "pv: (stdout): write error: No space");
    assert!(outcome.stderr.find(report).unwrap() < outcome.stderr.find(error).unwrap());
}

#[test]
fn with_stable_no_page_is_shared() {
    let shares = |outcome: &Outcome| outcome.stderr.contains("pages: shared");
    assert!(shares(&run("pv -q --explain big | wc -c")));
    assert!(!shares(&run("pv -q --explain --stable big | wc -c")));
    // A pipe may hold pages of a file that somebody spliced into it.
    assert!(shares(&run("cat big | pv -q --explain | wc -c")));
    assert!(!shares(&run("cat big | pv -q --explain --stable | wc -c")));
}

#[test]
fn the_buffer_is_as_large_as_was_asked() {
    if !has_program("strace") {
        return;
    }
    for (options, size) in [
        // No smaller than a page.
        ("-B 100", 4096),
        ("-B 0.0625M", 65_536),
        ("-B 12K", 12_288),
        ("--buffer-size=64K", 65_536),
        ("-B 200K", 204_800),
    ] {
        let script =
            format!("strace -fo trace -e write -P \"$PWD/out\" pv -q {options} big -o out");
        let outcome = run(&script);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        assert!(outcome.files["out"] == big(), "{options}");
        let trace = String::from_utf8_lossy(&outcome.files["trace"]).into_owned();
        let lens = trace.lines().filter(|line| line.contains("write("));
        let lens: Vec<usize> = lens
            .filter_map(|line| line.rsplit(" = ").next()?.parse().ok())
            .collect();
        let n_full = lens.iter().filter(|len| **len == size).count();
        assert!(n_full >= big().len() / size, "{options}: {lens:?}");
        assert!(lens.len() - n_full <= 1, "{options}: {lens:?}");
    }
    as_pv("pv -q -B 0 big").succeeds_with(big());
    as_pv("pv -q -B 1 f g").succeeds_with("hi\nthere\n");
}

#[test]
fn the_output_pipe_is_enlarged_as_far_as_was_asked() {
    for (option, expected) in [
        ("-J262144", 256 << 10),
        ("-J0.125M", 128 << 10),
        ("--pipe-buffer-size=512K", 512 << 10),
        // It is never made smaller; by pv it is.
        ("-J4K", 64 << 10),
        // What cannot be done is not told.
        ("-J100G", 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let kept = File::from(OwnedFd::from(reader.try_clone().unwrap()));
        let mut command = zc_pv();
        command
            .args(["-q", option, "-Ss", "3M", "/dev/zero"])
            .stdout(writer);
        let child = command.spawn().unwrap();
        drop(command);
        assert!(read_exactly(reader, 3 << 20).iter().all(|byte| *byte == 0));
        assert!(end_of(child).success(), "{option}");
        let size = rustix::pipe::fcntl_getpipe_size(&kept).unwrap();
        assert!(expected == 0 || size == expected, "{option}: {size}");
    }
}

#[test]
fn each_file_leaves_a_line_if_asked() {
    let outcome = run("pv -fD9 --per-file big f missing");
    assert_eq!(outcome.status, 2);
    let lines: Vec<_> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with(" 575KiB 0:00:00 ["), "{lines:?}");
    assert!(lines[0].ends_with("] big"), "{lines:?}");
    assert!(lines[1].starts_with("3.00  B 0:00:00 ["), "{lines:?}");
    assert!(lines[1].ends_with("] f"), "{lines:?}");
    assert_eq!(lines[2], "pv: missing: No such file or directory");
    assert_eq!(run("pv -fD9 big f").stderr, "");
}
