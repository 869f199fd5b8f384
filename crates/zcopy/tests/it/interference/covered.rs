//! Which bytes of a source arrived, where several readers shared it: each has to arrive exactly once.
//!
//! The source holds [`pattern`](crate::files::pattern), whose words of eight bytes tell where they stand.

use std::ops::Range;

use crate::files::pattern;

/// The step from one word of the pattern to the next, and its inverse modulo 2⁶⁴.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = 0xf1de_83e1_9937_733d;
/// So many bytes hold a whole word wherever they begin.
const WINDOW: usize = 15;
/// More equal bytes than this do not stand in two places of the pattern by accident.
const ACCIDENT: usize = 6;

/// What has arrived of a source.
#[derive(Debug)]
pub(crate) struct Covered {
    source: Vec<u8>,
    runs: Vec<Range<usize>>,
    invented: usize,
}

impl Covered {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            source: pattern(len),
            runs: Vec::new(),
            invented: 0,
        }
    }

    /// Notes what one reader got: runs of the source, one after the other.
    pub(crate) fn add(&mut self, mut got: &[u8]) {
        while !got.is_empty() {
            let Some(run) = self.first_run(got) else {
                self.invented += 1;
                got = &got[1..];
                continue;
            };
            got = &got[run.len()..];
            self.runs.push(run);
        }
    }

    /// The longest run of the source at the beginning of these bytes.
    fn first_run(&self, got: &[u8]) -> Option<Range<usize>> {
        let from = self.place_of(got)?;
        let len = n_equal(got, &self.source[from..]);
        // The next run may begin with bytes that would continue this one by accident: as long as it is recognized there.
        let next = (len.saturating_sub(ACCIDENT).max(1)..len).find(|&at| {
            got.len() > len && self.place_of(&got[at..]).is_some_and(|to| to != from + at)
        });
        Some(from..from + next.unwrap_or(len))
    }

    /// Where these bytes stand in the source.
    fn place_of(&self, got: &[u8]) -> Option<usize> {
        if got.len() < WINDOW {
            let mut places = self.source.windows(got.len());
            return places.position(|place| place == got);
        }
        (0..8).find_map(|at| {
            let word = u64::from_ne_bytes(got[at..at + 8].try_into().ok()?);
            let n = usize::try_from(word.wrapping_mul(INVERSE).wrapping_sub(1)).ok()?;
            let place = n.checked_mul(8)?.checked_sub(at)?;
            let there = self.source.get(place..place + WINDOW)?;
            (there == &got[..WINDOW]).then_some(place)
        })
    }

    /// Whether each byte has arrived once. If not, it says what is wrong.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        let (mut lost, mut doubled) = (Vec::new(), Vec::new());
        let mut runs = self.runs.clone();
        runs.sort_unstable_by_key(|run| run.start);
        let mut end = 0;
        for run in runs {
            if run.start > end {
                lost.push(end..run.start);
            } else if run.start < end {
                doubled.push(run.start..end.min(run.end));
            }
            end = end.max(run.end);
        }
        if end < self.source.len() {
            lost.push(end..self.source.len());
        }
        // Where two runs meet, bytes that stand in both places may count as the last of the one or
        // as the first of the other. Nothing tells them apart.
        lost.retain(|gap| {
            let is_short = gap.len() <= ACCIDENT;
            let same =
                |other: &Range<usize>| self.source[other.clone()] == self.source[gap.clone()];
            let twin = doubled.iter().position(|other| is_short && same(other));
            twin.map(|twin| doubled.swap_remove(twin)).is_none()
        });
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

/// How many bytes at the beginning are the same.
fn n_equal(a: &[u8], b: &[u8]) -> usize {
    // Compared block by block, because a debug build takes its time for each byte.
    let blocks = a.chunks_exact(4096).zip(b.chunks_exact(4096));
    let same = blocks.take_while(|(a, b)| a == b).count() * 4096;
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

#[test]
fn runs_of_a_source_are_recognized_in_any_pieces() {
    assert_eq!(STEP.wrapping_mul(INVERSE), 1);
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
    // The byte before each of these places is the same, and may count as a part of either run.
    let (end, begin) = (4097, 4097 + (8 << 10));
    assert_eq!(source[end - 1], source[begin - 1]);
    let mut covered = Covered::new(source.len());
    covered.add(&[&source[..end], &source[begin..]].concat());
    covered.add(&source[end..begin]);
    assert_eq!(covered.verdict(), Ok(()));
    let damage = Covered::new(10).verdict().unwrap_err();
    assert!(damage.contains("10 are lost"), "{damage}");
}
