//! Random transfers from sources with random bad blocks.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};

use proptest::prelude::*;
use proptest::strategy::Strategy as _;

use super::super::properties::check_as;
use super::super::records::n_of;

use super::block;
use crate::bad_blocks::IN_A_ROW;
use crate::options::RecordOptions;
use crate::options::{Reflink, SkipErrors};
use crate::report::{BadRange, Ended};
use crate::sim::SimKernel;
use crate::sim::arbitrary::scenarios;
use crate::sim::objects::Object;
use crate::sim::run::{Callbacks, has_not_begun, transfer_with};
use crate::sim::scenario::{Kind, Scenario};
use crate::strategy::Strategy;
use crate::sys::Errno;
use zcopy_fuzz::holds_for_all;

/// Enough cases for every policy with every pair; `PROPTEST_CASES` sets another number.
const CASES: u32 = 800;

/// A random transfer from a source with bad blocks.
#[derive(Clone, Debug)]
struct Case {
    scenario: Scenario,
    /// The logical block size of the source, in bytes.
    granularity: u64,
    fails_whole: bool,
    /// The bad ranges, in blocks of `granularity`, merged and in ascending order.
    bad: Vec<Range<u64>>,
}

fn cases() -> impl prop::strategy::Strategy<Value = Case> {
    let short = prop::collection::vec((0..150_u64, 1..=u64::from(IN_A_ROW)), 0..6);
    let mixed = prop::collection::vec((0..300_u64, 1..100_u64), 2..6);
    let long = (0..300_u64, 1..1200_u64).prop_map(|range| vec![range]);
    let bad = prop_oneof![3 => short, 1 => long, 1 => mixed];
    let policies = prop_oneof![
        3 => Just(SkipErrors::Adaptive),
        1 => (1..100_000_u64).prop_map(block),
        1 => prop::sample::select(vec![512, 4096, 65536, 1 << 20]).prop_map(block),
    ];
    let grains = prop::sample::select(vec![512, 1024, 4096]);
    let ways = (
        grains,
        prop::bool::weighted(0.2),
        any::<bool>(),
        any::<bool>(),
    );
    // The limit of records, in thousandths of all delimiters, and their rate.
    let delimiter = prop::sample::select(vec![0, 7]);
    let rate = prop::option::weighted(0.3, 1..10_u64);
    let records = prop_oneof![
        2 => Just(None),
        1 => (delimiter, 0..1100_u64, rate).prop_map(Some),
    ];
    (scenarios(), bad, policies, ways, records).prop_map(
        |(mut scenario, bad, policy, ways, records)| {
            let (granularity, is_direct, fails_whole, is_block) = ways;
            if !scenario.source.is_file() {
                scenario.source.kind = if is_block { Kind::Block } else { Kind::File };
                scenario.source.is_nonblocking = false;
            }
            scenario.source.claimed_size = None;
            scenario.faults.source = None;
            scenario.interferences.clear();
            scenario.options.skip_errors = policy;
            if scenario.options.strategy != Some(Strategy::Buffered) {
                scenario.options.strategy = None;
            }
            // A requested clone does not read.
            if scenario.options.reflink == Reflink::Always {
                scenario.options.reflink = Reflink::Auto;
            }
            scenario.source.is_direct |= is_direct;
            if scenario.source.is_direct {
                scenario.source.start -= scenario.source.start % 4096;
            }
            if let Some((delimiter, part, rate)) = records {
                let bytes = scenario.source.bytes();
                let n = n_of(&bytes, delimiter) as u64;
                scenario.options.records = RecordOptions {
                    delimiter: Some(delimiter),
                    limit: Some(n * part / 1000),
                    rate: rate.and_then(|times| NonZeroU64::new(times * n.max(bytes.len() as u64))),
                };
            }
            let granularity = match scenario.source.kind {
                _ if scenario.sink.is_direct => 4096,
                _ if scenario.source.is_direct => granularity,
                Kind::Block => granularity,
                _ if [0xef53, 0x9123_683e].contains(&scenario.source.magic) => 4096,
                _ => 512,
            };
            let bad = merged(bad.into_iter().map(|(first, n)| first..first + n));
            let holes = scenario
                .source
                .holes()
                .map(|hole| hole.start / granularity..hole.end / granularity);
            let bad = without(bad, merged(holes));
            Case {
                scenario,
                granularity,
                fails_whole,
                bad,
            }
        },
    )
}

fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Removes the holes from `ranges`, because no byte of a hole is read.
fn without(mut ranges: Vec<Range<u64>>, holes: Vec<Range<u64>>) -> Vec<Range<u64>> {
    for hole in holes {
        ranges = ranges
            .into_iter()
            .flat_map(|range| {
                let before = range.start..range.end.min(hole.start);
                let after = range.start.max(hole.end)..range.end;
                [before, after]
            })
            .filter(|range| !range.is_empty())
            .collect();
    }
    ranges
}

impl Case {
    /// Returns the bad ranges, in bytes.
    fn bad_bytes(&self) -> impl Iterator<Item = Range<usize>> {
        let (granularity, len) = (self.granularity, self.scenario.source.len);
        let bytes = move |n: u64| ((n * granularity) as usize).min(len);
        self.bad
            .iter()
            .map(move |range| bytes(range.start)..bytes(range.end))
    }

    /// Returns the end of the block that a block policy skips for this bad byte.
    fn skips_to(&self, bad: usize) -> Option<usize> {
        let SkipErrors::Block(n) = self.scenario.options.skip_errors else {
            return None;
        };
        let n = n.get() as usize;
        let n = if self.scenario.source.is_direct || self.scenario.sink.is_direct {
            n.next_multiple_of(self.granularity as usize)
        } else {
            n
        };
        Some((bad / n + 1) * n)
    }

    /// Returns the bytes that the transfer must deliver, with zeros for what the policy skips.
    fn read_as(&self) -> Vec<u8> {
        let mut bytes = self.scenario.source.bytes();
        let mut at = self.scenario.source.start as usize;
        for bad in self.bad_bytes() {
            at = at.max(bad.start);
            while at < bad.end {
                let to = self.skips_to(at).unwrap_or(bad.end).min(bytes.len());
                bytes[at..to].fill(0);
                at = to;
            }
        }
        bytes
    }

    /// Returns whether good pieces between bad ones may be lost, because too many pieces in a row
    /// were bad.
    fn may_lose(&self) -> bool {
        let is_long = |range: &Range<u64>| range.end - range.start > u64::from(IN_A_ROW);
        let is_adaptive = self.scenario.options.skip_errors == SkipErrors::Adaptive;
        is_adaptive && self.bad.len() > 1 && self.bad.iter().any(is_long)
    }

    /// Runs the transfer without stopping it, and returns the ranges that it reports as skipped.
    fn skipped(&self) -> Vec<BadRange> {
        let (kernel, source, sink) = self.scenario.kernel();
        self.tamper(&kernel, &source);
        let mut skipped = Vec::new();
        let callbacks = Callbacks::skipping(|stretch: &BadRange| skipped.push(*stretch));
        let options = self.scenario.options();
        if let Err(error) = transfer_with(&kernel, (&source, &sink), options, callbacks) {
            assert!(!has_not_begun(&error), "{error:#}");
        }
        skipped
    }

    /// Returns the bytes with zeros in the skipped ranges. Each range must begin in a bad block,
    /// and end in or before one.
    fn read_without(&self, skipped: &[BadRange]) -> Result<Vec<u8>, TestCaseError> {
        let start = self.scenario.source.start;
        let (mut bytes, len) = (
            self.scenario.source.bytes(),
            self.scenario.source.len as u64,
        );
        let end = self
            .scenario
            .options
            .limit
            .map_or(len, |limit| len.min(start + limit));
        let is_bad = |at: u64| self.bad_bytes().any(|bad| bad.contains(&(at as usize)));
        for stretch in skipped {
            let range = start + stretch.offset..start + stretch.offset + stretch.bytes;
            prop_assert!(is_bad(range.start), "{stretch:?} begins where it is good");
            let ends_bad = is_bad(range.end - 1) || is_bad(range.end) || range.end == end;
            prop_assert!(ends_bad, "{stretch:?} goes on where it is good");
            bytes[range.start as usize..range.end as usize].fill(0);
        }
        Ok(bytes)
    }

    fn tamper(&self, kernel: &SimKernel, source: &OwnedFd) {
        let mut state = kernel.state.borrow_mut();
        state.max_calls = 1_000_000;
        let object = state.descriptor(source.as_raw_fd()).object;
        if let Object::File(file) = &mut state.objects[object] {
            let places = self.bad_bytes().filter(|place| !place.is_empty());
            file.bad_blocks = places
                .map(|place| (place.start as u64..place.end as u64, Errno::IO))
                .collect();
            file.granularity = self.granularity;
            file.fails_whole = self.fails_whole;
        }
    }
}

#[test]
fn readable_bytes_are_delivered_and_the_rest_are_zeros() {
    holds_for_all(cases(), CASES, check);
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let read_as = if case.may_lose() {
        case.read_without(&case.skipped())?
    } else {
        case.read_as()
    };
    let tamper = |kernel: &SimKernel, source: &OwnedFd| case.tamper(kernel, source);
    let Some((report, skipped)) = check_as(&case.scenario, &read_as, tamper)? else {
        return Ok(());
    };
    let bytes = case.scenario.source.bytes();
    let start = (case.scenario.source.start as usize).min(bytes.len());
    let (bytes, read_as) = (&bytes[start..], &read_as[start..]);
    let n = report.bytes() as usize;
    let (mut reported, mut delivered) = (vec![false; bytes.len()], 0);
    for stretch in &skipped {
        let range = stretch.offset as usize..(stretch.offset + stretch.bytes) as usize;
        let is_within_limit = case
            .scenario
            .options
            .limit
            .is_none_or(|limit| range.end as u64 <= limit);
        prop_assert!(is_within_limit, "{stretch:?} goes beyond the limit");
        prop_assert!(!range.is_empty() && range.end <= bytes.len(), "{stretch:?}");
        delivered += range.end.min(n).saturating_sub(range.start);
        for reported in &mut reported[range] {
            prop_assert!(!*reported, "reported twice");
            *reported = true;
        }
    }
    let has_sink_failed = report.ended() == Ended::Failed;
    prop_assert!(report.skipped_bytes() == delivered as u64 || has_sink_failed);
    let lost = (0..n).filter(|at| bytes[*at] != read_as[*at]);
    prop_assert!(
        lost.into_iter().all(|at| reported[at]),
        "lost, and not reported"
    );
    Ok(())
}
