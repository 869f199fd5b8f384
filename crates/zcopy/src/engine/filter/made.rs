//! Bytes that were made, and that the sink has not accepted yet.

use std::ops::Range;

use crate::buffer::ALIGNMENT;

/// What is written at once, at most.
const ALL: usize = 256 << 10;

/// What a rewriter is promised to find free.
const LEAST: usize = 64 << 10;

/// Room for what a rewriter makes.
///
/// What it makes bit by bit goes together, so that one line costs no write of its own.
#[derive(Debug)]
pub(crate) struct Made {
    bytes: Vec<u8>,
    /// Where the room begins in `bytes`: on a page, so that it can be written from directly.
    start: usize,
    /// Counted from the start of the room.
    pending: Range<usize>,
}

impl Made {
    pub(crate) fn new() -> Self {
        let bytes = vec![0; ALL + ALIGNMENT - 1];
        Self {
            start: bytes.as_ptr().align_offset(ALIGNMENT),
            bytes,
            pending: 0..0,
        }
    }

    /// What is free behind what is pending.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][self.pending.end..ALL]
    }

    /// Whether there is as much room as a rewriter is promised.
    pub(crate) fn has_room(&self) -> bool {
        ALL - self.pending.end >= LEAST
    }

    /// Says that the first `n` bytes of the room have been made.
    ///
    /// # Panics
    ///
    /// If it is smaller.
    pub(crate) fn add(&mut self, n: usize) {
        assert!(
            n <= ALL - self.pending.end,
            "a rewriter made more than it had room for"
        );
        self.pending.end += n;
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.start..][self.pending.clone()]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Says that the sink has the first `n` pending bytes.
    pub(crate) fn take(&mut self, n: usize) {
        self.pending.start += n;
        if self.is_empty() {
            self.pending = 0..0;
        }
    }

    /// Hands over what is pending.
    pub(crate) fn hand_back(&mut self) -> Vec<u8> {
        let bytes = self.pending().to_vec();
        self.pending = 0..0;
        bytes
    }
}
