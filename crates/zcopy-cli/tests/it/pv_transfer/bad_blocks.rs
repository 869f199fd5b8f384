//! `-E`, `-EE` and `-Z`: inputs of which some blocks cannot be read.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::Stdio;

use crate::bad_disk::{BLOCK, damaged, words, zeroed};
use crate::child::{end_of, zc_pv};
use crate::files::assert_same;

const LEN: usize = (1 << 20) + 777;

/// How it ends, what it has said, and what has arrived, when the input stands for standard input.
fn moved(arguments: &[&str], input: &File) -> (Option<i32>, String, Vec<u8>) {
    let mut input = input.try_clone().unwrap();
    input.rewind().unwrap();
    let mut output = tempfile::tempfile().unwrap();
    let mut command = zc_pv();
    command
        .args(arguments)
        .stdin(input)
        .stdout(output.try_clone().unwrap())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let said = std::thread::spawn(|| std::io::read_to_string(stderr).unwrap());
    let status = end_of(child).code();
    let mut found = Vec::new();
    output.rewind().unwrap();
    output.read_to_end(&mut found).unwrap();
    (status, said.join().unwrap(), found)
}

const WARNING: &str = "zc-pv: (stdin): warning: read errors detected: Input/output error\n";

#[test]
fn without_it_a_bad_block_is_the_end_of_the_input() {
    let bytes = words(LEN);
    let Some(input) = damaged(&bytes, &[100]) else {
        return;
    };
    for arguments in [&["-q"][..], &["-qC"], &["-fD9"]] {
        let (status, said, found) = moved(arguments, &input);
        assert_eq!(said, "zc-pv: (stdin): Input/output error\n");
        assert_eq!(status, Some(16));
        assert_same(&found, &bytes[..100 * BLOCK], "what came before it");
    }
}

#[test]
fn zeros_take_its_place_and_nothing_behind_it_is_lost() {
    let bytes = words(LEN);
    let bad = [0, 99, 100, 200];
    let Some(input) = damaged(&bytes, &bad) else {
        return;
    };
    let expected = zeroed(&bytes, &bad);
    for arguments in [
        &["-qE"][..],
        &["-qEC"],
        &["-qEB", "10000"],
        &["-fD9", "--skip-errors"],
        &["-qEO"],
        &["-qEU-"],
        &["-qEL1G"],
        &["-qEK"],
    ] {
        let (status, said, found) = moved(arguments, &input);
        assert_same(&found, &expected, &format!("{arguments:?}"));
        assert_eq!(status, Some(16), "{arguments:?}");
        let lines: Vec<_> = said.split_inclusive('\n').collect();
        assert_eq!(lines[0], WARNING, "{arguments:?}");
        let mut skipped = Vec::new();
        for line in &lines[1..] {
            let rest = line
                .strip_prefix("zc-pv: (stdin): skipped past read error: ")
                .expect(line);
            let words: Vec<_> = rest.split(' ').collect();
            let [from, to]: [usize; 2] = [0, 2].map(|n| words[n].parse().unwrap());
            assert_eq!(
                words[1..],
                ["-", words[2], &format!("({}", to - from), "B)\n"]
            );
            skipped.extend(from..to);
        }
        let places = bad
            .iter()
            .flat_map(|block| block * BLOCK..(block + 1) * BLOCK);
        assert_eq!(skipped, places.collect::<Vec<_>>(), "{arguments:?}");
    }
}

#[test]
fn twice_it_is_told_once_a_file() {
    let bytes = words(LEN);
    let bad = [3, 50, 100];
    let Some(input) = damaged(&bytes, &bad) else {
        return;
    };
    for arguments in [
        &["-qEE"][..],
        &["-q", "--skip-errors", "--skip-errors", "-C"],
    ] {
        let (status, said, found) = moved(arguments, &input);
        assert_same(&found, &zeroed(&bytes, &bad), "");
        assert_eq!(
            (status, said.as_str()),
            (Some(16), WARNING),
            "{arguments:?}"
        );
    }
}

#[test]
fn whole_blocks_are_skipped_if_asked() {
    let bytes = words(LEN);
    let Some(input) = damaged(&bytes, &[21]) else {
        return;
    };
    for (arguments, from, to) in [
        (&["-qE", "-Z", "64K"][..], 21, 32),
        (&["-qE", "--error-skip-block=8192"], 21, 22),
        (&["-qEZ0.125M"], 21, 32),
    ] {
        let (status, said, found) = moved(arguments, &input);
        let bad: Vec<_> = (from..to).collect();
        assert_same(&found, &zeroed(&bytes, &bad), &format!("{arguments:?}"));
        let (from, to) = (from * BLOCK, to * BLOCK);
        let skipped = format!(
            "zc-pv: (stdin): skipped past read error: {from} - {to} ({} B)\n",
            to - from
        );
        assert_eq!(said, format!("{WARNING}{skipped}"), "{arguments:?}");
        assert_eq!(status, Some(16));
    }
}

#[test]
fn the_other_inputs_have_their_turn() {
    let bytes = words(LEN);
    let Some(input) = damaged(&bytes, &[100]) else {
        return;
    };
    let (status, said, found) = moved(&["-q", "-", "/proc/version", "missing"], &input);
    let version = std::fs::read("/proc/version").unwrap();
    let expected = [&bytes[..100 * BLOCK], &version].concat();
    assert_same(&found, &expected, "");
    let errors = "zc-pv: (stdin): Input/output error\nzc-pv: missing: No such file or directory\n";
    assert_eq!((status, said.as_str()), (Some(18), errors));
}
