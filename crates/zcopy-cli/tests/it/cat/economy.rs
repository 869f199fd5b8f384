//! What an operand costs: counted by `strace`.

use std::fs;
use std::process::{Command, Stdio};

use crate::skip::has_program;

/// Opening, closing, one call to learn what the file is, and the reads and the write: one less than
/// GNU cat makes. What the output is was learned once.
const CALLS: usize = 6;

#[test]
fn a_small_file_costs_six_calls() {
    if !has_program("strace") {
        return;
    }
    assert_eq!(calls(60) - calls(10), 50 * CALLS);
}

/// System calls made to copy so many files.
fn calls(files: usize) -> usize {
    let work = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..files).map(|n| format!("{n:03}")).collect();
    for name in &names {
        fs::write(work.path().join(name), "x").unwrap();
    }
    let trace = work.path().join("trace");
    let status = Command::new("strace")
        .arg("-o")
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_zc-cat"))
        .args(names)
        .current_dir(work.path())
        .stdin(Stdio::null())
        .stdout(fs::File::create(work.path().join("out")).unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(fs::read(work.path().join("out")).unwrap().len(), files);
    let trace = fs::read_to_string(trace).unwrap();
    let counts = |line: &&str| {
        // The allocator's calls come and go with the length of the list.
        let is_memory = ["brk(", "mmap(", "munmap(", "mremap("]
            .iter()
            .any(|call| line.starts_with(call));
        // The standard library asserts, in debug builds, that what it closes was open.
        !(is_memory || line.contains("F_GETFD"))
    };
    trace.lines().filter(counts).count()
}
