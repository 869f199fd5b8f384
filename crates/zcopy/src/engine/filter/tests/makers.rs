//! Rewriters, and one that watches another and what it is shown.

use crate::filter::{Filter, Filtered, Input, Remaining};

/// What a test makes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maker {
    /// The same.
    Same,
    /// Each byte twice, as many as there is room for.
    Twice,
    /// Each byte three times, so many at once.
    Thrice(usize),
    /// Whole lines, one at a time. Of one that is too long, what there is.
    Lines,
    Nothing,
    /// Nothing, and in the end how many bytes there were, in lines of their own.
    Count {
        n: u64,
        has_counted: bool,
    },
    /// It takes nothing, ever.
    Idle,
}

impl Maker {
    /// What it makes of bytes, before the end and there.
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
                let told = format!("{n}\n").repeat(100);
                room[..told.len()].copy_from_slice(told.as_bytes());
                Filtered {
                    consumed: 0,
                    produced: told.len(),
                }
            }
            Self::Idle => Filtered::NEED_MORE,
        }
    }
}

/// A filter that is watched.
pub(super) struct Watched<'a> {
    pub(super) maker: Maker,
    /// How many bytes the sink has been given.
    pub(super) written: &'a dyn Fn() -> usize,
    /// Bytes that it took, of all sources, and that it made.
    pub(super) taken: Vec<u8>,
    pub(super) made: Vec<u8>,
    /// Bytes that were made and that the sink will never get.
    pub(super) lost: usize,
    /// Bytes that it was shown last, and did not take.
    pub(super) left: Vec<u8>,
    /// What was said to it when it asked for more, if it did last.
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
                // It has asked for nothing.
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
