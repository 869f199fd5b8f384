//! Filters for tests, and one that checks what it is shown while it calls another.

use crate::filter::{Filter, Filtered, Input, Remaining};

/// A filter for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// Copies the bytes.
    Same,
    /// Writes each byte twice, as far as there is room.
    Twice,
    /// Writes each byte three times, this many bytes at once.
    Thrice(usize),
    /// Copies whole lines, one at a time. A line that is too long is copied in pieces.
    Lines,
    Nothing,
    /// Writes nothing, and at the end the number of bytes in lines of their own.
    Count {
        n: u64,
        has_counted: bool,
    },
    /// Consumes nothing.
    Idle,
}

impl Maker {
    /// Returns the output for all these bytes, including that at the end.
    pub(super) fn makes(self, bytes: &[u8], is_over: bool) -> Vec<u8> {
        let times = match self {
            Self::Same | Self::Lines => 1,
            Self::Twice => 2,
            Self::Thrice(_) => 3,
            Self::Count { .. } if is_over => {
                return format!("{}\n", bytes.len()).repeat(100).into_bytes();
            }
            Self::Nothing | Self::Count { .. } | Self::Idle => 0,
        };
        let mut made = vec![0; bytes.len() * times];
        if times == 1 {
            made.copy_from_slice(bytes);
        } else if times > 1 {
            for (same, byte) in made.chunks_exact_mut(times).zip(bytes) {
                same.fill(*byte);
            }
        }
        made
    }

    fn copy(self, input: &[u8], room: &mut [u8], most: usize) -> Filtered {
        let times = self.makes(b"x", false).len();
        let consumed = input.len().min(room.len() / times).min(most);
        let made = self.makes(&input[..consumed], false);
        room[..made.len()].copy_from_slice(&made);
        Filtered {
            consumed,
            produced: made.len(),
        }
    }
}

impl Filter for Maker {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        let bytes = input.bytes;
        let all = Filtered {
            consumed: bytes.len(),
            produced: 0,
        };
        match self {
            Self::Same | Self::Twice => self.copy(bytes, room, usize::MAX),
            Self::Thrice(most) => {
                let most = *most;
                self.copy(bytes, room, most)
            }
            Self::Lines => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(end) => self.copy(bytes, room, end + 1),
                None if input.remaining == Remaining::More => Filtered::NEED_MORE,
                None => self.copy(bytes, room, usize::MAX),
            },
            Self::Nothing => all,
            Self::Count { n, has_counted } => {
                *n += bytes.len() as u64;
                if !bytes.is_empty() || input.remaining != Remaining::End || *has_counted {
                    return all;
                }
                *has_counted = true;
                let lines = format!("{n}\n").repeat(100);
                room[..lines.len()].copy_from_slice(lines.as_bytes());
                Filtered {
                    consumed: 0,
                    produced: lines.len(),
                }
            }
            Self::Idle => Filtered::NEED_MORE,
        }
    }
}

/// A filter whose calls are checked.
pub(super) struct Watched<'a> {
    pub(super) maker: Maker,
    /// The number of bytes written to the sink.
    pub(super) written: &'a dyn Fn() -> usize,
    /// The bytes that it consumed, of all sources, and that it produced.
    pub(super) taken: Vec<u8>,
    pub(super) made: Vec<u8>,
    /// The number of bytes that were produced and will never be written.
    pub(super) lost: usize,
    /// The bytes that it was shown last and did not consume.
    pub(super) left: Vec<u8>,
    /// The state of the input when it last asked for more, if its last call did.
    pub(super) asked: Option<Remaining>,
    pub(super) has_failed: bool,
}

impl<'a> Watched<'a> {
    pub(super) fn new(maker: Maker, written: &'a dyn Fn() -> usize) -> Self {
        Self {
            maker,
            written,
            taken: Vec::new(),
            made: Vec::new(),
            lost: 0,
            left: Vec::new(),
            asked: Some(Remaining::More),
            has_failed: false,
        }
    }
}

impl Filter for Watched<'_> {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        let Input { bytes, remaining } = input;
        assert!(room.len() >= 64 << 10);
        if !self.has_failed {
            let is_same = bytes.starts_with(&self.left);
            assert!(is_same, "it is shown what it left");
            let has_more = bytes.len() > self.left.len();
            match (self.asked, remaining) {
                // The filter has not asked for more.
                (None, _) => assert!(!has_more && remaining != Remaining::Full),
                (Some(_), Remaining::More) => assert!(has_more, "it is asked again for nothing"),
                (Some(Remaining::More), Remaining::Full) => {
                    assert!(!has_more && bytes.len() >= 64 << 10);
                }
                (Some(before), Remaining::Full) => panic!("{before:?} and then full"),
                (Some(_), Remaining::End) => assert!(!has_more),
            }
            if has_more {
                let delivered = self.made.len() - self.lost;
                assert_eq!((self.written)(), delivered, "more is read than is written");
            }
        }
        self.has_failed = false;
        let filtered = self.maker.filter(input, room);
        self.taken.extend_from_slice(&bytes[..filtered.consumed]);
        self.made.extend_from_slice(&room[..filtered.produced]);
        self.left = bytes[filtered.consumed..].to_vec();
        self.asked = (filtered == Filtered::NEED_MORE).then_some(remaining);
        filtered
    }
}
