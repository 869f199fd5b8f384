//! The sequence of reads, probes and skips at bad blocks.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::num::NonZeroU64;

use super::Pieces::{Divisible, Whole};
use super::{BadBlocks, IN_A_ROW, Next, Probed};
use crate::buffer::DEFAULT_CAPACITY;
use crate::options::SkipErrors;
use crate::sys::Errno;

const GRANULARITY: u64 = 4096;
const END: u64 = 1 << 30;

fn adaptive() -> BadBlocks<'static> {
    let mut bad = BadBlocks::new(SkipErrors::Adaptive, None, Divisible);
    assert_eq!(bad.granularity_or(|| GRANULARITY), GRANULARITY);
    bad
}

/// Reports a failed read of a piece, delivers the zeros for it, and returns their number.
fn skip_piece(bad: &mut BadBlocks<'_>, position: u64, end: u64) -> u64 {
    bad.could_not_read(position, GRANULARITY, end, Errno::IO);
    match bad.next() {
        Next::Zeros(zeros) => {
            bad.filled(zeros);
            zeros
        }
        _ => 0,
    }
}

#[test]
fn reads_behind_a_bad_block_double_in_length_until_they_fill_the_buffer() {
    let mut bad = adaptive();
    assert_eq!(bad.next(), Next::Read(u64::MAX));
    assert_eq!(
        skip_piece(&mut bad, 0, END),
        0,
        "the piece is read alone first"
    );
    assert_eq!(skip_piece(&mut bad, 0, END), GRANULARITY);
    let mut bound = GRANULARITY;
    while bound < DEFAULT_CAPACITY as u64 {
        assert_eq!(bad.next(), Next::Read(bound));
        bad.could_read();
        bound *= 2;
    }
    assert_eq!(bad.next(), Next::Read(u64::MAX));
}

/// Fails as many pieces in a row as are skipped one by one, and one more. Returns the position of
/// the last one.
fn fail_in_a_row(bad: &mut BadBlocks<'_>, end: u64) -> u64 {
    skip_piece(bad, 0, end);
    for nth in 0..u64::from(IN_A_ROW) {
        assert_eq!(skip_piece(bad, nth * GRANULARITY, end), GRANULARITY);
    }
    let from = u64::from(IN_A_ROW) * GRANULARITY;
    assert_eq!(skip_piece(bad, from, end), 0);
    from
}

#[test]
fn the_end_of_a_long_bad_block_is_looked_for_at_distances_that_double_and_then_in_the_middle() {
    let mut bad = adaptive();
    let mut from = fail_in_a_row(&mut bad, END);
    let mut distance = 2 * GRANULARITY;
    for _ in 0..5 {
        let far = from + distance;
        assert_eq!(bad.next(), Next::Probe(far));
        bad.probed(far, Probed::Bad);
        assert_eq!(bad.next(), Next::Zeros(distance));
        bad.filled(distance);
        (from, distance) = (far, 2 * distance);
    }
    let mut good = from + distance;
    assert_eq!(bad.next(), Next::Probe(good));
    bad.probed(good, Probed::Good);
    // Everything from the second piece on is readable.
    while good > from + GRANULARITY {
        let middle = from + (good - from) / 2;
        assert_eq!(bad.next(), Next::Probe(middle));
        bad.probed(middle, Probed::Good);
        good = middle;
    }
    assert_eq!(bad.next(), Next::Zeros(GRANULARITY));
    bad.filled(GRANULARITY);
    assert_eq!(bad.next(), Next::Read(GRANULARITY));
}

#[test]
fn a_bad_block_that_reaches_the_end_is_looked_for_no_further() {
    let n_skipped = u64::from(IN_A_ROW) * GRANULARITY;
    for (rest, expected) in [
        (1, Next::Zeros(1)),
        (GRANULARITY, Next::Zeros(GRANULARITY)),
        (GRANULARITY + 1, Next::Probe(n_skipped + GRANULARITY)),
        (2 * GRANULARITY, Next::Probe(n_skipped + GRANULARITY)),
        (
            2 * GRANULARITY + 1,
            Next::Probe(n_skipped + 2 * GRANULARITY),
        ),
    ] {
        let end = n_skipped + rest;
        let mut bad = adaptive();
        skip_piece(&mut bad, 0, end);
        for nth in 0..u64::from(IN_A_ROW) {
            skip_piece(&mut bad, nth * GRANULARITY, end);
        }
        bad.could_not_read(n_skipped, GRANULARITY, end, Errno::IO);
        assert_eq!(bad.next(), expected, "{rest} bytes are left");
    }
}

#[test]
fn a_piece_that_fails_is_skipped_up_to_the_next_multiple_of_the_block() {
    const MIB: u64 = 1 << 20;
    let block = |bytes| SkipErrors::Block(NonZeroU64::new(bytes).unwrap());
    for (policy, pieces, position, expected) in [
        (block(GRANULARITY), Divisible, 10 * GRANULARITY, GRANULARITY),
        (
            block(3 * GRANULARITY),
            Divisible,
            10 * GRANULARITY,
            2 * GRANULARITY,
        ),
        (
            block(MIB),
            Divisible,
            10 * GRANULARITY,
            MIB - 10 * GRANULARITY,
        ),
        (
            block(1000),
            Divisible,
            3 * GRANULARITY,
            13_000 - 3 * GRANULARITY,
        ),
        (block(1000), Whole, 3 * GRANULARITY, GRANULARITY),
        (
            block(GRANULARITY + 1),
            Whole,
            10 * GRANULARITY,
            2 * GRANULARITY,
        ),
        (block(GRANULARITY + 1), Whole, 11 * GRANULARITY, GRANULARITY),
    ] {
        let mut bad = BadBlocks::new(policy, None, pieces);
        bad.granularity_or(|| GRANULARITY);
        assert_eq!(skip_piece(&mut bad, position, END), 0);
        let skipped = skip_piece(&mut bad, position, END);
        assert_eq!(skipped, expected, "{policy:?} at {position}");
    }
}

#[test]
fn a_bad_block_that_another_reader_has_passed_is_forgotten() {
    let mut bad = adaptive();
    skip_piece(&mut bad, 0, END);
    bad.could_not_read(0, GRANULARITY, END, Errno::IO);
    assert_eq!(bad.next(), Next::Zeros(GRANULARITY));
    bad.forget();
    assert_eq!(bad.next(), Next::Read(u64::MAX));
    bad.delivered = 10 * GRANULARITY;
    assert_eq!(bad.bytes(), 0, "none of it was skipped");
}
