//! [`Users`]: how many transfers have used a bucket lately.

use std::time::Duration;

/// Counts the transfers that have asked a bucket for tokens in this second, or those in the second
/// before if they were more.
///
/// A transfer that waits for its ends asks for none. If it counted, the others would take smaller
/// shares, and their shorter steps would cost more than the bytes that they move.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// The second that is counted now.
    second: u64,
    n_now: u64,
    n_before: u64,
}

/// The last second in which one transfer was counted.
#[derive(Debug, Default)]
pub(super) struct LastUse(Option<u64>);

impl Users {
    /// Notes that a transfer asks at the time `now`. Returns the number of users, at least 1.
    pub(super) fn note_use(&mut self, last_use: &mut LastUse, now: Duration) -> u64 {
        let second = now.as_secs();
        // Threads may pass times in another order than they read them.
        if second > self.second {
            let follows = second == self.second + 1;
            self.n_before = if follows { self.n_now } else { 0 };
            self.n_now = 0;
            self.second = second;
        }
        if last_use.0 != Some(self.second) {
            last_use.0 = Some(self.second);
            self.n_now += 1;
        }
        self.n_now.max(self.n_before)
    }

    /// Stops counting a transfer that has ended: the one that follows it counts instead.
    pub(super) fn remove(&mut self, last_use: &LastUse) {
        match last_use.0 {
            Some(second) if second == self.second => self.n_now = self.n_now.saturating_sub(1),
            Some(second) if second + 1 == self.second => {
                self.n_before = self.n_before.saturating_sub(1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_count_that_asked_in_this_second_or_in_the_one_before() {
        let mut users = Users::default();
        let mut last_uses: [LastUse; 3] = Default::default();
        let mut count = |index: usize, millis| {
            let now = Duration::from_millis(millis);
            users.note_use(&mut last_uses[index], now)
        };
        assert_eq!(count(0, 5_000), 1);
        assert_eq!(
            (count(0, 5_001), count(1, 5_900), count(2, 5_999)),
            (1, 2, 3)
        );
        assert_eq!(
            (count(0, 6_000), count(0, 6_999)),
            (3, 3),
            "the second before counts"
        );
        assert_eq!(
            (count(0, 7_000), count(1, 7_001)),
            (1, 2),
            "two were idle for a second"
        );
        assert_eq!(
            count(2, 6_999),
            3,
            "a time that comes late counts as the latest one"
        );
        assert_eq!(count(1, 10_000), 1);
    }
}
