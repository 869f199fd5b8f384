//! Random numbers for tests that run on the real kernel.

/// A generator of random numbers (xorshift64*).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator that draws the same numbers for the same seed.
    pub(crate) fn new(seed: u64) -> Self {
        // The multiplication spreads neighbouring seeds. The lowest bit keeps the state from being
        // 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// An index below `n`.
    pub(crate) fn below_len(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True with probability 1/n.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these values.
    pub(crate) fn pick<'a, T>(&mut self, values: &'a [T]) -> &'a T {
        &values[self.below_len(values.len())]
    }
}
