//! The same pairs, measured in turns: what counts is the ratio between two ways in one run.
//!
//! Prints a table: for each pair and size the median throughput of every mover with its spread, and
//! the plan's throughput as a ratio to the best single strategy, to `buffered` and to
//! `std::io::copy`. `ZCOPY_BENCH_SIZES` and `ZCOPY_BENCH_TURNS` (default 9) say how much; arguments
//! choose pairs by a part of their name.

#![allow(
    clippy::cast_precision_loss,
    reason = "throughput is shown with three digits"
)]

mod pairs;

use std::time::Duration;

use pairs::{Files, Mover, PAIRS, Pair, sizes};
use zcopy::Strategy;

fn main() {
    let is_test = std::env::args().any(|argument| argument == "--test");
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let turns = std::env::var("ZCOPY_BENCH_TURNS")
        .ok()
        .and_then(|turns| turns.parse().ok());
    let turns = if is_test { 1 } else { turns.unwrap_or(9) };
    for (size, bytes) in sizes() {
        let files = Files::new(bytes);
        let is_wanted = |pair: &&Pair| {
            wanted.is_empty() || wanted.iter().any(|part| pair.name.contains(part.as_str()))
        };
        for pair in PAIRS.iter().filter(is_wanted) {
            if !pair.is_possible(&files) {
                continue;
            }
            report(pair, &size, bytes, &measure(pair, &files, bytes, turns));
        }
    }
}

/// The sorted times of each mover, taken in turns.
fn measure(pair: &Pair, files: &Files, bytes: u64, turns: u32) -> Vec<(Mover, Vec<Duration>)> {
    let mut times: Vec<_> = pair.movers().map(|mover| (mover, Vec::new())).collect();
    // Short transfers are repeated within a turn, so that one turn lasts about as long as 64 MiB
    // take.
    let repeats = (64 << 20) / bytes.clamp(1 << 20, 64 << 20);
    let movers = times.len();
    for turn in 0..=turns {
        // Nobody comes first every time: what one leaves dirty, the next one waits for.
        for index in (0..movers).map(|index| (index + turn as usize) % movers) {
            let (mover, times) = &mut times[index];
            for _ in 0..repeats {
                let time = pair.time(files, bytes, *mover);
                // The first turn warms up.
                if turn > 0 || turns == 1 {
                    times.push(time);
                }
            }
        }
    }
    for (_, times) in &mut times {
        times.sort_unstable();
    }
    times
}

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn report(pair: &Pair, size: &str, bytes: u64, times: &[(Mover, Vec<Duration>)]) {
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    let median = |mover: Mover| {
        let (_, times) = times.iter().find(|(m, _)| *m == mover)?;
        Some(rate(times[times.len() / 2]))
    };
    println!("{}/{size}", pair.name);
    for (mover, times) in times {
        let (low, high) = (times[times.len() * 9 / 10], times[times.len() / 10]);
        let middle = rate(times[times.len() / 2]);
        println!(
            "  {:<16} {middle:8.2} GB/s  [{:.2}, {:.2}]",
            mover.name(),
            rate(low),
            rate(high)
        );
    }
    let best = pair
        .strategies
        .iter()
        .filter_map(|s| median(Mover::Forced(*s)))
        .fold(0.0, f64::max);
    let plan = median(Mover::Plan).unwrap_or_default();
    let to = |other: Option<f64>| plan / other.unwrap_or(f64::NAN);
    println!(
        "  plan: {:.2} x best, {:.2} x buffered, {:.2} x std::io::copy",
        to(Some(best)),
        to(median(Mover::Forced(Strategy::Buffered))),
        to(median(Mover::Std)),
    );
}
