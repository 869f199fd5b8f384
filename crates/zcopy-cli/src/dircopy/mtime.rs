//! Times of modification, and their granularity in file systems (pure).

use rustix::fs::{Stat, Timespec};

/// A time, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// The last second that fits 32 bits, as in ext3 and XFS without `bigtime`.
pub(crate) const LAST_OF_32_BITS: i64 = i32::MAX as i64;

/// The unit of a file system's times. The file system rounds times down to a multiple of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// This many seconds.
    Seconds(i64),
    /// This many nanoseconds; 1 if every time is kept as it is.
    Nanoseconds(i64),
}

impl Granularity {
    /// All granularities in use, the coarsest first.
    const ALL: [Self; 7] = [
        // FAT.
        Self::Seconds(2),
        // ext3, HFS+, exfat-fuse, SFTP, many other servers.
        Self::Seconds(1),
        // exFAT.
        Self::Nanoseconds(10_000_000),
        // NFS servers.
        Self::Nanoseconds(1_000_000),
        // UDF, Ceph.
        Self::Nanoseconds(1_000),
        // NTFS, SMB.
        Self::Nanoseconds(100),
        Self::Nanoseconds(1),
    ];

    /// The granularity of a file system that kept `set` as `found`. `None` if it did not round
    /// down.
    pub(crate) fn found(set: Time, found: Time) -> Option<Self> {
        // If `set` is a multiple of several granularities, all of them fit. The finest one is the
        // safe answer.
        let mut from_the_finest = Self::ALL.into_iter().rev();
        from_the_finest.find(|granularity| set.floor(*granularity) == found)
    }
}

impl Time {
    /// Whether the time is too late for file systems with 32-bit seconds. Some with more bits
    /// cannot keep it either.
    pub(crate) fn is_beyond_32_bits(self) -> bool {
        self.seconds > LAST_OF_32_BITS
    }

    /// Whether this may be the last time of a file system, kept in place of `later`. A file system
    /// whose 32-bit seconds overflow keeps another time for each second.
    pub(crate) fn is_end_for(self, later: Self) -> bool {
        let difference = later.seconds - self.seconds;
        difference > 2 && difference % (1 << 32) != 0
    }

    /// The time of a file's last modification.
    #[allow(clippy::unnecessary_cast, reason = "not on every processor")]
    pub(crate) fn modified(stat: &Stat) -> Self {
        Self {
            seconds: stat.st_mtime as i64,
            // Below 10⁹.
            nanoseconds: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
        }
    }

    /// The time of the last change of a file's contents or attributes.
    #[allow(clippy::unnecessary_cast, reason = "not on every processor")]
    pub(crate) fn changed(stat: &Stat) -> Self {
        Self {
            seconds: stat.st_ctime as i64,
            // Below 10⁹.
            nanoseconds: i64::try_from(stat.st_ctime_nsec).unwrap_or(0),
        }
    }

    /// This time for `utimensat(2)`.
    #[allow(clippy::useless_conversion, reason = "not on every processor")]
    pub(crate) fn timespec(self) -> Timespec {
        Timespec {
            tv_sec: self.seconds,
            // Below 10⁹.
            tv_nsec: self.nanoseconds.try_into().unwrap_or(0),
        }
    }

    /// This time as a file system with this granularity keeps it.
    pub(crate) fn floor(self, granularity: Granularity) -> Self {
        let Self {
            seconds,
            nanoseconds,
        } = self;
        match granularity {
            Granularity::Seconds(step) => Self {
                seconds: seconds - seconds.rem_euclid(step),
                nanoseconds: 0,
            },
            Granularity::Nanoseconds(step) => Self {
                seconds,
                nanoseconds: nanoseconds - nanoseconds % step,
            },
        }
    }

    /// The coarsest granularity of a file system that can keep this time.
    pub(crate) fn coarsest_granularity(self) -> Granularity {
        let mut from_the_coarsest = Granularity::ALL.into_iter();
        let coarsest = from_the_coarsest.find(|granularity| self.floor(*granularity) == self);
        // Every time is a multiple of one nanosecond.
        coarsest.unwrap_or(Granularity::Nanoseconds(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Time = Time {
        seconds: 1_000_000_001,
        nanoseconds: 123_456_789,
    };

    #[test]
    fn each_granularity_is_told_by_what_it_leaves_of_one_time() {
        for granularity in Granularity::ALL {
            let kept = SET.floor(granularity);
            assert_eq!(Granularity::found(SET, kept), Some(granularity));
            assert_eq!(kept.coarsest_granularity(), granularity);
        }
    }

    #[test]
    fn a_time_that_was_not_rounded_down_tells_no_granularity() {
        for (seconds, nanoseconds) in [(1_000_000_002, 0), (0, 0), (1_000_000_001, 123_457_000)] {
            let found = Time {
                seconds,
                nanoseconds,
            };
            assert_eq!(Granularity::found(SET, found), None);
        }
    }

    #[test]
    fn before_1970_down_is_the_other_way() {
        let time = Time {
            seconds: -3,
            nanoseconds: 5,
        };
        let floor = time.floor(Granularity::Seconds(2));
        assert_eq!((floor.seconds, floor.nanoseconds), (-4, 0));
    }
}
