//! Checks which bytes of a source have arrived if several readers shared it: each byte must arrive
//! exactly once.

use std::ops::Range;

/// The difference between two numbers that are hashed one after the other, and its inverse modulo
/// 2⁶⁴.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = 0xf1de_83e1_9937_733d;
/// This many bytes contain a whole word at any offset.
const WINDOW: usize = 15;
/// At most this many bytes at two offsets of the pattern are equal by accident.
const ACCIDENT: usize = 6;

/// Words of eight bytes, each of which is the hash of its index by splitmix64.
///
/// The hash is a bijection: no two words are the same, and each word determines its offset. In
/// [`files::pattern`](crate::files::pattern) the first byte of each page is the same; here it is
/// not.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    for n in 1..=len.div_ceil(8) as u64 {
        bytes.extend_from_slice(&mix(n.wrapping_mul(STEP)).to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The finalizer of splitmix64.
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// The inverse of [`mix`].
fn unmix(mut word: u64) -> u64 {
    word = (word ^ word >> 31 ^ word >> 62).wrapping_mul(0x3196_42b2_d24d_8ec3);
    word = (word ^ word >> 27 ^ word >> 54).wrapping_mul(0x96de_1b17_3f11_9089);
    word ^ word >> 30 ^ word >> 60
}

/// The bytes of a source that have arrived.
#[derive(Debug)]
pub(crate) struct Covered {
    source: Vec<u8>,
    runs: Vec<Run>,
    /// The junctions of all streams, and [`FIXED`].
    junctions: Vec<Shifts>,
    invented: usize,
}

/// Bytes of the source that one reader got without a gap.
#[derive(Clone, Debug)]
struct Run {
    bytes: Range<usize>,
    /// The junctions at which this run begins and ends.
    begins_at: usize,
    ends_at: usize,
}

/// The place where two runs meet in the stream of one reader.
///
/// If the bytes behind the first run equal the first bytes of the second run, they may belong to
/// either of the two: the end of the first and the start of the second may both be this many bytes
/// later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shifts {
    least: usize,
    most: usize,
}

/// The index of the junction at the ends of each stream, which cannot be shifted.
const FIXED: usize = 0;

impl Covered {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            source: pattern(len),
            runs: Vec::new(),
            junctions: vec![Shifts { least: 0, most: 0 }],
            invented: 0,
        }
    }

    /// Adds the bytes that one reader got: runs of the source, one after the other.
    pub(crate) fn add(&mut self, mut received: &[u8]) {
        let (mut begins_at, mut n_equal) = (FIXED, 0);
        while !received.is_empty() {
            let Some((bytes, n_equal_behind)) = self.first_run(received) else {
                self.invented += 1;
                received = &received[1..];
                (begins_at, n_equal) = (FIXED, 0);
                continue;
            };
            if begins_at != FIXED {
                self.junctions[begins_at].most = n_equal.min(bytes.len());
            }
            received = &received[bytes.len()..];
            let ends_at = if received.is_empty() {
                FIXED
            } else {
                self.junctions.push(Shifts { least: 0, most: 0 });
                self.junctions.len() - 1
            };
            self.runs.push(Run {
                bytes,
                begins_at,
                ends_at,
            });
            (begins_at, n_equal) = (ends_at, n_equal_behind);
        }
    }

    /// The first run of the source in these bytes, and the number of bytes behind it that continue
    /// it and are the first bytes of the next run too.
    fn first_run(&self, received: &[u8]) -> Option<(Range<usize>, usize)> {
        let from = self.offset_of(received)?;
        let longest = n_equal(received, &self.source[from..]);
        // The next run may begin with bytes that would continue this one by accident. It begins
        // where it is recognized first.
        let next = (longest.saturating_sub(ACCIDENT).max(1)..longest).find(|&at| {
            received.len() > longest
                && self
                    .offset_of(&received[at..])
                    .is_some_and(|to| to != from + at)
        });
        let len = next.unwrap_or(longest);
        Some((from..from + len, longest - len))
    }

    /// The offset of these bytes in the source.
    fn offset_of(&self, received: &[u8]) -> Option<usize> {
        if received.len() < WINDOW {
            let mut windows = self.source.windows(received.len());
            return windows.position(|window| window == received);
        }
        (0..8).find_map(|at| {
            let word = u64::from_ne_bytes(received[at..at + 8].try_into().ok()?);
            let n = unmix(word).wrapping_mul(INVERSE).wrapping_sub(1);
            let n = usize::try_from(n).ok()?;
            let offset = n.checked_mul(8)?.checked_sub(at)?;
            let there = self.source.get(offset..offset + WINDOW)?;
            (there == &received[..WINDOW]).then_some(offset)
        })
    }

    /// The runs in the order of the source. Junctions are shifted so that each run begins where the
    /// run before it ends, if that is possible.
    fn shifted_runs(&self) -> Vec<Range<usize>> {
        let len = self.source.len();
        let edge = |at: usize| Run {
            bytes: at..at,
            begins_at: FIXED,
            ends_at: FIXED,
        };
        let mut runs = [&[edge(0)], &self.runs[..], &[edge(len)]].concat();
        runs.sort_by_key(|run| (run.bytes.start, run.bytes.end));
        // Two neighbours meet if `end + shift of one junction == start + shift of the other`. Each
        // pair narrows the ranges of both shifts, until nothing changes any more. Then the least
        // shifts fulfil every equation that can be fulfilled.
        let mut junctions = self.junctions.clone();
        loop {
            let before = junctions.clone();
            for pair in runs.windows(2) {
                let (end, start) = (pair[0].bytes.end, pair[1].bytes.start);
                let (one, other) = (junctions[pair[0].ends_at], junctions[pair[1].begins_at]);
                let least = (end + one.least).max(start + other.least);
                let most = (end + one.most).min(start + other.most);
                if least <= most {
                    let shifts = |from: usize| Shifts {
                        least: least - from,
                        most: most - from,
                    };
                    junctions[pair[0].ends_at] = shifts(end);
                    junctions[pair[1].begins_at] = shifts(start);
                }
            }
            if junctions == before {
                break;
            }
        }
        let shifted_runs = runs.iter().map(|run| {
            let (begin, end) = (junctions[run.begins_at], junctions[run.ends_at]);
            run.bytes.start + begin.least..run.bytes.end + end.least
        });
        shifted_runs.collect()
    }

    /// Checks that each byte has arrived once. The error says what is wrong.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let (mut lost, mut doubled) = (Vec::new(), Vec::new());
        let mut runs = self.shifted_runs();
        runs.sort_unstable_by_key(|run| run.start);
        let mut end = 0;
        for run in runs {
            if run.start > end {
                lost.push(end..run.start);
            } else if run.start < end.min(run.end) {
                doubled.push(run.start..end.min(run.end));
            }
            end = end.max(run.end);
        }
        if lost.is_empty() && doubled.is_empty() && self.invented == 0 {
            return Ok(());
        }
        let of = self.source.len();
        Err(format!(
            "of {of} bytes {} are lost from {:?} on, {} doubled from {:?} on, {} invented",
            lost.iter().map(Range::len).sum::<usize>(),
            lost.first().map(|range| range.start),
            doubled.iter().map(Range::len).sum::<usize>(),
            doubled.first().map(|range| range.start),
            self.invented
        ))
    }
}

/// The number of equal bytes at the beginning.
fn n_equal(a: &[u8], b: &[u8]) -> usize {
    // Compare whole blocks, because a debug build is slow for each byte.
    let blocks = a.chunks_exact(4096).zip(b.chunks_exact(4096));
    let same = blocks.take_while(|(a, b)| a == b).count() * 4096;
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

#[test]
fn runs_of_a_source_are_recognized_in_any_pieces() {
    assert_eq!(STEP.wrapping_mul(INVERSE), 1);
    assert!([0, 1, STEP, u64::MAX].map(mix).map(unmix) == [0, 1, STEP, u64::MAX]);
    let source = pattern(100_000);
    let cuts = [0, 33, 4096, 4111, 65_537, 99_990, 100_000];
    let runs: Vec<_> = cuts.windows(2).map(|cut| &source[cut[0]..cut[1]]).collect();
    let mut covered = Covered::new(source.len());
    covered.add(&[runs[0], runs[2], runs[5]].concat());
    covered.add(&[runs[1], runs[3], runs[4]].concat());
    assert_eq!(covered.verdict(), Ok(()));
    covered.add(runs[2]);
    let damage = covered.verdict().unwrap_err();
    assert!(damage.contains("15 doubled from Some(4096)"), "{damage}");
    let mut covered = Covered::new(source.len());
    covered.add(&[runs[0], &[0; 20], &source[33..]].concat());
    assert!(covered.verdict().unwrap_err().contains("20 invented"));
    let damage = Covered::new(10).verdict().unwrap_err();
    assert!(damage.contains("10 are lost"), "{damage}");
}

/// The offsets of three equal bytes, far from each other, between neighbours that all differ.
fn equal_bytes(source: &[u8]) -> [usize; 3] {
    let is_alone = |at: &usize| source[at - 1] != source[*at] && source[at + 1] != source[*at];
    let mut first = (4096..).filter(is_alone);
    first
        .find_map(|first| {
            let is_same = |at: &usize| is_alone(at) && source[*at] == source[first];
            let second = (first + 4096..first + 8192).find(is_same)?;
            let third = (second + 4096..second + 8192).find(is_same)?;
            let behind = [first, second, third].map(|at| source[at + 1]);
            let before = [first, second, third].map(|at| source[at - 1]);
            let differ = |[a, b, c]: [u8; 3]| a != b && b != c && a != c;
            (differ(behind) && differ(before)).then_some([first, second, third])
        })
        .unwrap()
}

#[test]
fn a_byte_that_belongs_to_either_of_two_runs_is_neither_lost_nor_doubled() {
    let source = pattern(100_000);
    let [first, second, third] = equal_bytes(&source).map(|at| at + 1);
    let mut covered = Covered::new(source.len());
    covered.add(&[&source[..first], &source[second..]].concat());
    covered.add(&source[first..second]);
    assert_eq!(covered.verdict(), Ok(()));
    // Two junctions meet at one offset of the source.
    let mut covered = Covered::new(source.len());
    covered.add(&[&source[..first], &source[second..third]].concat());
    covered.add(&[&source[first..second], &source[third..]].concat());
    assert_eq!(covered.verdict(), Ok(()));
    // Two junctions in one stream, at both ends of one run.
    let mut covered = Covered::new(source.len());
    covered.add(
        &[
            &source[..first],
            &source[second..third],
            &source[first..second],
        ]
        .concat(),
    );
    covered.add(&source[third..]);
    assert_eq!(covered.verdict(), Ok(()));
}

#[test]
fn a_lost_byte_is_not_replaced_by_an_equal_byte_that_arrived_twice() {
    let source = pattern(100_000);
    let [first, second, third] = equal_bytes(&source);
    let expected = |lost: usize, doubled: usize| {
        let doubled = format!("1 doubled from Some({doubled}) on");
        Err(format!(
            "of 100000 bytes 1 are lost from Some({lost}) on, {doubled}, 0 invented"
        ))
    };
    let mut covered = Covered::new(source.len());
    let (before, behind) = (&source[..first], &source[second..]);
    covered.add(&[before, &source[first + 1..=second], behind].concat());
    assert_eq!(covered.verdict(), expected(first, second));
    // The junction may be shifted, which does not replace the lost byte.
    let mut covered = Covered::new(source.len());
    covered.add(&[&source[..first], &source[second..]].concat());
    covered.add(&source[first + 1..second]);
    covered.add(&source[third..=third]);
    assert!(covered.verdict().is_err());
}
