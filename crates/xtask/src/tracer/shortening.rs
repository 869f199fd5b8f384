//! Which calls get a lower count, and how low.

use std::fmt;
use std::str::FromStr;

use super::Call;

/// Files with `O_DIRECT` accept multiples of this many bytes on every file system that is tested.
const BLOCK: u64 = 4096;

/// Which calls get a lower count, and how low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortening {
    /// The system call.
    pub(crate) call: Call,
    /// Which one is the first, counted from 1 over all processes and threads of the program.
    pub(crate) first: u32,
    pub(crate) extent: Extent,
    pub(crate) amount: Amount,
}

/// How many calls get a lower count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first one alone.
    Once,
    /// The first one and those that follow, up to [`Extent::MOST`].
    FromThen,
}

/// The count that a call gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// 1 byte.
    One,
    /// Half of the count, rounded down, and at least 1.
    Half,
    /// The count less 1.
    AllButOne,
    /// This many bytes.
    Bytes(u64),
}

impl Extent {
    /// After this many calls the tracer lowers no more, so that a run byte by byte ends in time.
    pub(crate) const MOST: u32 = 4096;
}

impl Shortening {
    /// Whether the `n`th call gets a lower count.
    pub(crate) fn includes(&self, n: u32) -> bool {
        match self.extent {
            Extent::Once => n == self.first,
            Extent::FromThen => (self.first..self.first.saturating_add(Extent::MOST)).contains(&n),
        }
    }
}

impl Amount {
    /// Returns the lower count. `None` if `count` cannot be lower.
    ///
    /// With `whole_blocks` the answer is a multiple of 4,096, at least one block.
    pub(crate) fn of(self, count: u64, whole_blocks: bool) -> Option<u64> {
        let lower = match self {
            Amount::One => 1,
            Amount::Half => (count / 2).max(1),
            Amount::AllButOne => count.saturating_sub(1),
            Amount::Bytes(bytes) => bytes,
        };
        let lower = if whole_blocks {
            (lower / BLOCK).max(1) * BLOCK
        } else {
            lower
        };
        (lower > 0 && lower < count).then_some(lower)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::One => f.write_str("one"),
            Amount::Half => f.write_str("half"),
            Amount::AllButOne => f.write_str("all-but-one"),
            Amount::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        match text {
            "one" => Ok(Amount::One),
            "half" => Ok(Amount::Half),
            "all-but-one" => Ok(Amount::AllButOne),
            number => match number.parse() {
                Ok(bytes) if bytes > 0 => Ok(Amount::Bytes(bytes)),
                _ => Err("neither one, half, all-but-one nor a number of bytes".to_owned()),
            },
        }
    }
}

/// As the options that repeat it.
impl fmt::Display for Shortening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortening {
            call,
            first,
            amount,
            ..
        } = self;
        write!(f, "--call {call} --when {first} --amount {amount}")?;
        match self.extent {
            Extent::Once => Ok(()),
            Extent::FromThen => f.write_str(" --on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_count_is_at_least_1_and_less_than_the_count() {
        assert_eq!(Amount::One.of(2, false), Some(1));
        assert_eq!(Amount::Half.of(3, false), Some(1));
        assert_eq!(Amount::AllButOne.of(3, false), Some(2));
        assert_eq!(Amount::Bytes(5).of(6, false), Some(5));
        for amount in [
            Amount::One,
            Amount::Half,
            Amount::AllButOne,
            Amount::Bytes(5),
        ] {
            assert_eq!(amount.of(1, false), None);
            assert_eq!(amount.of(0, false), None);
        }
        assert_eq!(Amount::Bytes(5).of(5, false), None);
    }

    #[test]
    fn a_lower_count_of_whole_blocks_is_a_multiple_of_4096() {
        assert_eq!(Amount::One.of(8192, true), Some(4096));
        assert_eq!(Amount::Half.of(20_000, true), Some(8192));
        assert_eq!(Amount::AllButOne.of(8192, true), Some(4096));
        assert_eq!(Amount::One.of(4096, true), None);
    }

    #[test]
    fn a_shortening_reads_as_the_options_that_repeat_it() {
        let shortening = Shortening {
            call: Call::CopyFileRange,
            first: 3,
            extent: Extent::FromThen,
            amount: Amount::AllButOne,
        };
        assert_eq!(
            shortening.to_string(),
            "--call copy_file_range --when 3 --amount all-but-one --on"
        );
    }
}
