//! The instructions and allocations of short transfers, and of `std::io::copy`.
//!
//! Prints a table for `docs/benchmarks.md`. The instructions are those of this process, without the
//! kernel's, as callgrind counts them: the program starts itself under `valgrind`, moves the bytes
//! once in one run and twice in another, and takes the difference, so that what only a first
//! transfer pays (symbols, memory) does not count. Arguments choose pairs by a part of their name, and
//! `ZCOPY_BENCH_SIZES` [default: 4 KiB and 64 KiB] says how much they move. With `--test` there is
//! one pair.

#![allow(
    clippy::expect_used,
    reason = "a benchmark that cannot run says why and ends"
)]

mod pairs;

use std::process::Command;

use allocation_counter::measure;
use pairs::{Files, Mover, PAIRS, Pair, Peers, sizes_or};

const SIZES: &str = "4KiB,64KiB";

/// The pairs of the table, unless arguments choose others: one for each way that a plan takes.
const SHOWN: [&str; 7] = [
    "file_to_file_tmpfs",
    "file_to_pipe_read",
    "file_to_tcp",
    "pipe_to_file",
    "pipe_to_tcp",
    "tcp_to_tcp",
    "tcp_to_pipe",
];

/// The argument by which the program tells itself to move bytes and nothing else. The pair, the
/// mover and the number of times follow.
const MOVE: &str = "--move";

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, pair, mover, times] = &arguments[..]
        && flag == MOVE
    {
        return run_child(pair, mover, times.parse().expect("a number of times"));
    }
    let is_test = arguments.iter().any(|it| it == "--test");
    let wanted: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let is_wanted = |pair: &&Pair| match &wanted[..] {
        [] if is_test => pair.name == SHOWN[0],
        [] => SHOWN.contains(&pair.name),
        parts => parts.iter().any(|part| pair.name.contains(part.as_str())),
    };
    println!(
        "| pair | bytes | zcopy: instructions | allocations | `std::io::copy`: instructions |"
    );
    println!("|---|---|---:|---:|---:|");
    for pair in PAIRS.iter().filter(is_wanted) {
        for (size, bytes) in sizes_or(SIZES) {
            let files = files(bytes);
            if !pair.is_possible(&files) {
                continue;
            }
            let by_plan = instructions(pair, &size, Mover::Plan);
            assert!(!is_test || by_plan != "?", "valgrind is needed");
            let by_std = instructions(pair, &size, Mover::Std);
            let allocations = allocations(pair, &files, bytes);
            println!(
                "| {} | {size} | {by_plan} | {allocations} | {by_std} |",
                pair.name
            );
        }
    }
}

/// All bytes wait before the transfer begins, so that each run makes the same calls.
fn files(bytes: u64) -> Files {
    Files::new(bytes).with_peers(Peers::Apart)
}

/// Moves bytes of the one size that the environment names.
fn run_child(pair: &str, mover: &str, times: u32) {
    let pair = PAIRS.iter().find(|it| it.name == pair);
    let pair = pair.expect("a pair");
    let mover = pair.movers().find(|it| it.name() == mover);
    let mover = mover.expect("a mover");
    for (_, bytes) in sizes_or(SIZES) {
        let files = files(bytes);
        for _ in 0..times {
            pair.observe_by(&files, bytes, mover, |run| run());
        }
    }
}

/// Counts the instructions of a second transfer. Returns `?` if there is no valgrind.
fn instructions(pair: &Pair, size: &str, mover: Mover) -> String {
    let [once, twice] = [1, 2].map(|times| collected(pair, size, mover, times));
    match (once, twice) {
        (Some(once), Some(twice)) => {
            assert!(
                once < twice,
                "callgrind has not found the function: is it stripped?"
            );
            (twice - once).to_string()
        }
        _ => "?".to_owned(),
    }
}

fn collected(pair: &Pair, size: &str, mover: Mover, times: u32) -> Option<u64> {
    let itself = std::env::current_exe().expect("this program");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=instructions::pairs::move_bytes*")
        .arg(itself)
        .args([MOVE, pair.name, &mover.name(), &times.to_string()])
        .env("ZCOPY_BENCH_SIZES", size)
        .output()
        .ok()?;
    let log = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{log}");
    let (_, collected) = log.rsplit_once("Collected :")?;
    collected.split_whitespace().next()?.parse().ok()
}

/// Counts the allocations of a second transfer.
fn allocations(pair: &Pair, files: &Files, bytes: u64) -> u64 {
    let count = || pair.observe_by(files, bytes, Mover::Plan, |run| measure(run).count_total);
    count();
    count()
}
