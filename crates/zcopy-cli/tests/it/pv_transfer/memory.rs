//! What it takes of memory, however much it moves.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::skip::has_program;

/// What it may have at one time, in KiB.
const MOST: u64 = 16 << 10;

/// How much more it may have, in KiB, for having moved 1 GiB instead of 32 MiB.
const MORE: u64 = 2 << 10;

/// The most memory that it has at one time, in KiB, when it moves holes of this length with these
/// arguments.
fn peak_with(arguments: &[&str], len: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let holes = File::create(dir.path().join("holes")).unwrap();
    holes.set_len(len).unwrap();
    let script = "/usr/bin/env time -o peak -f %M \"$@\" 2> said | wc -c";
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_zc-pv")])
        .args(arguments)
        .arg("holes")
        .current_dir(dir.path())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let n = if arguments.contains(&"-X") { 0 } else { len };
    let found = String::from_utf8(output.stdout).unwrap();
    assert_eq!(found.trim(), n.to_string(), "{arguments:?}");
    let peak = std::fs::read_to_string(dir.path().join("peak")).unwrap();
    peak.trim().parse().unwrap()
}

#[test]
fn memory_does_not_grow_with_what_is_moved() {
    if !has_program("time") {
        return;
    }
    for arguments in [
        &["-q"][..],
        &["-f", "-i", "0.1", "-c", "-x", "process", "-v"],
        &["-q", "-C"],
        &["-q", "-X", "--hash", "blake3"],
        &["-f", "-X", "-A", "100", "--hash", "sha256"],
        &["-f", "-A", "99999999999"],
        &["-q", "-U", "-"],
    ] {
        let [of_little, of_much] = [32 << 20, 1 << 30].map(|len| peak_with(arguments, len));
        assert!(of_much < MOST, "{arguments:?}: {of_much} KiB");
        assert!(of_little > 1000, "{arguments:?}: {of_little} KiB");
        let is_as_little = of_much < of_little + MORE;
        assert!(is_as_little, "{arguments:?}: {of_little} and {of_much} KiB");
    }
}
