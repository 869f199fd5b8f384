//! `-c` leaves no pages behind, however long the input.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::child::zc_tee;
use crate::skip::{has_program, skip};

/// A quarter of it would show.
const LENGTH: u64 = 256 << 20;
/// For each file two windows of 8 MiB, and what the disk has not written yet.
const BOUND: u64 = 64 << 20;

/// Bytes of the file in the page cache.
fn resident(path: &Path) -> u64 {
    let fincore = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .arg(path)
        .output();
    let said = String::from_utf8(fincore.unwrap().stdout).unwrap();
    said.trim().parse().unwrap_or(0)
}

/// A directory whose files have pages that can go: not on tmpfs, where they are the files.
fn on_disk() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let magic = rustix::fs::statfs(dir.path()).unwrap().f_type;
    if magic == 0x0102_1994 {
        skip("the target directory is on tmpfs");
        return None;
    }
    Some(dir)
}

/// The most that each file had in the page cache while it ran, and what it has left there.
fn pages(options: &[&str], input: &Path, outputs: &[PathBuf]) -> (u64, u64) {
    let mut child = zc_tee()
        .args(options)
        .args(outputs)
        .stdin(File::open(input).unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let files = || outputs.iter().map(PathBuf::as_path).chain([input]);
    let mut peak = 0;
    loop {
        let most = files().map(resident).max().unwrap_or(0);
        peak = peak.max(most);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    for output in outputs {
        let len = std::fs::metadata(output).unwrap().len();
        assert!(len == LENGTH, "{len} bytes");
    }
    (peak, files().map(resident).sum())
}

#[test]
fn the_page_cache_stays_flat() {
    let (true, Some(dir)) = (has_program("fincore"), on_disk()) else {
        return;
    };
    let input = dir.path().join("input");
    File::create(&input).unwrap().set_len(LENGTH).unwrap();
    for options in [&["-c"][..], &["-ca"], &["--cache=drop", "-p"]] {
        let outputs = ["a", "b"].map(|name| dir.path().join(name));
        let (peak, left) = pages(options, &input, &outputs);
        assert!(peak < BOUND, "{options:?}: {peak} bytes at the most");
        assert_eq!(left, 0, "{options:?}");
        for output in outputs {
            std::fs::remove_file(output).unwrap();
        }
    }
}

#[test]
fn without_c_pages_stay() {
    let (true, Some(dir)) = (has_program("fincore"), on_disk()) else {
        return;
    };
    let input = dir.path().join("input");
    File::create(&input).unwrap().set_len(LENGTH).unwrap();
    let (_, left) = pages(&["--cache=keep"], &input, &[dir.path().join("a")]);
    assert!(left > BOUND, "{left} bytes");
}
