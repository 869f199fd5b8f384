//! What is read, probed and skipped next.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::num::NonZeroU64;

use super::Pieces::{Divisible, Whole};
use super::{BadPlaces, IN_A_ROW, Next, Probed};
use crate::buffer::FULL;
use crate::options::SkipErrors;
use crate::sys::Errno;

const GRAIN: u64 = 4096;
const END: u64 = 1 << 30;

fn adaptive() -> BadPlaces<'static> {
    let mut bad = BadPlaces::new(SkipErrors::Adaptive, None, Divisible);
    assert_eq!(bad.grain_or(|| GRAIN), GRAIN);
    bad
}

/// The read of a piece fails, and what is skipped for it is delivered. Returns the zeros.
fn skip_piece(bad: &mut BadPlaces<'_>, position: u64, end: u64) -> u64 {
    bad.could_not_read(position, GRAIN, end, Errno::IO);
    match bad.next() {
        Next::Zeros(zeros) => {
            bad.filled(zeros);
            zeros
        }
        _ => 0,
    }
}

#[test]
fn reads_behind_a_bad_place_double_in_length_until_they_fill_the_buffer() {
    let mut bad = adaptive();
    assert_eq!(bad.next(), Next::Read(u64::MAX));
    assert_eq!(
        skip_piece(&mut bad, 0, END),
        0,
        "the piece is read alone first"
    );
    assert_eq!(skip_piece(&mut bad, 0, END), GRAIN);
    let mut bound = GRAIN;
    while bound < FULL as u64 {
        assert_eq!(bad.next(), Next::Read(bound));
        bad.could_read();
        bound *= 2;
    }
    assert_eq!(bad.next(), Next::Read(u64::MAX));
}

/// Fails as many pieces in a row as are skipped one by one, and one more. Returns where that is.
fn fail_in_a_row(bad: &mut BadPlaces<'_>, end: u64) -> u64 {
    skip_piece(bad, 0, end);
    for nth in 0..u64::from(IN_A_ROW) {
        assert_eq!(skip_piece(bad, nth * GRAIN, end), GRAIN);
    }
    let from = u64::from(IN_A_ROW) * GRAIN;
    assert_eq!(skip_piece(bad, from, end), 0);
    from
}

#[test]
fn the_end_of_a_long_bad_place_is_looked_for_at_distances_that_double_and_then_in_the_middle() {
    let mut bad = adaptive();
    let mut from = fail_in_a_row(&mut bad, END);
    let mut distance = 2 * GRAIN;
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
    // All from the second piece on is good.
    while good > from + GRAIN {
        let middle = from + (good - from) / 2;
        assert_eq!(bad.next(), Next::Probe(middle));
        bad.probed(middle, Probed::Good);
        good = middle;
    }
    assert_eq!(bad.next(), Next::Zeros(GRAIN));
    bad.filled(GRAIN);
    assert_eq!(bad.next(), Next::Read(GRAIN));
}

#[test]
fn a_bad_place_that_reaches_the_end_is_looked_for_no_further() {
    let n_skipped = u64::from(IN_A_ROW) * GRAIN;
    for (rest, expected) in [
        (1, Next::Zeros(1)),
        (GRAIN, Next::Zeros(GRAIN)),
        (GRAIN + 1, Next::Probe(n_skipped + GRAIN)),
        (2 * GRAIN, Next::Probe(n_skipped + GRAIN)),
        (2 * GRAIN + 1, Next::Probe(n_skipped + 2 * GRAIN)),
    ] {
        let end = n_skipped + rest;
        let mut bad = adaptive();
        skip_piece(&mut bad, 0, end);
        for nth in 0..u64::from(IN_A_ROW) {
            skip_piece(&mut bad, nth * GRAIN, end);
        }
        bad.could_not_read(n_skipped, GRAIN, end, Errno::IO);
        assert_eq!(bad.next(), expected, "{rest} bytes are left");
    }
}

#[test]
fn a_piece_that_fails_is_skipped_up_to_the_next_multiple_of_the_block() {
    const MIB: u64 = 1 << 20;
    let block = |bytes| SkipErrors::Block(NonZeroU64::new(bytes).unwrap());
    for (policy, pieces, position, expected) in [
        (block(GRAIN), Divisible, 10 * GRAIN, GRAIN),
        (block(3 * GRAIN), Divisible, 10 * GRAIN, 2 * GRAIN),
        (block(MIB), Divisible, 10 * GRAIN, MIB - 10 * GRAIN),
        (block(1000), Divisible, 3 * GRAIN, 13_000 - 3 * GRAIN),
        (block(1000), Whole, 3 * GRAIN, GRAIN),
        (block(GRAIN + 1), Whole, 10 * GRAIN, 2 * GRAIN),
        (block(GRAIN + 1), Whole, 11 * GRAIN, GRAIN),
    ] {
        let mut bad = BadPlaces::new(policy, None, pieces);
        bad.grain_or(|| GRAIN);
        assert_eq!(skip_piece(&mut bad, position, END), 0);
        let skipped = skip_piece(&mut bad, position, END);
        assert_eq!(skipped, expected, "{policy:?} at {position}");
    }
}

#[test]
fn a_bad_place_that_another_reader_has_passed_is_forgotten() {
    let mut bad = adaptive();
    skip_piece(&mut bad, 0, END);
    bad.could_not_read(0, GRAIN, END, Errno::IO);
    assert_eq!(bad.next(), Next::Zeros(GRAIN));
    bad.forget();
    assert_eq!(bad.next(), Next::Read(u64::MAX));
    bad.delivered = 10 * GRAIN;
    assert_eq!(bad.bytes(), 0, "none of it was skipped");
}
