//! [`Line`]: the order in which transfers that had to wait may take tokens.

use std::collections::BTreeMap;

use super::nano_rate::parts;

/// The reservations of a bucket. Each is due when the bucket has earned the tokens of all
/// reservations up to it.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The parts that the bucket has earned or got back, less those that were spent without having
    /// been taken.
    earned: i128,
    /// When the last reservation is due.
    last_due: i128,
    /// The sizes of the cancelled reservations that are not yet due, by their `due`.
    cancelled: BTreeMap<i128, u64>,
    /// How often lower rates have made reservations shorter, and the last of these changes.
    n_rate_cuts: u64,
    rate_cuts: [RateCut; MAX_RATE_CUTS],
}

/// A turn to take tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reservation {
    pub(super) tokens: u64,
    /// The reservation is due when [`Line::earned`] has reached this.
    due: i128,
    /// The rate cuts that `tokens` and `due` take into account.
    n_rate_cuts: u64,
}

/// A change of the rate that makes all reservations shorter by one factor, so that their order
/// stays.
#[derive(Clone, Copy, Debug, Default)]
struct RateCut {
    /// Reservations that were due before this stay as they are.
    from: i128,
    old_len: u64,
    new_len: u64,
}

/// A reservation lapses when the rate has been lowered more often than this since its owner last
/// asked. Owners ask every 100 ms.
const MAX_RATE_CUTS: usize = 16;

/// How many cancelled reservations are noted at most.
const MAX_CANCELLED: usize = 4096;

impl RateCut {
    fn due(&self, due: i128) -> i128 {
        let distance = due.saturating_sub(self.from).max(0);
        due - distance + self.shorten(distance)
    }

    /// Returns what becomes of a distance in the line: 0 where the product overflows.
    fn shorten(&self, distance: i128) -> i128 {
        let product = distance.checked_mul(i128::from(self.new_len));
        product.map_or(0, |product| product / i128::from(self.old_len))
    }

    fn tokens(&self, tokens: u64) -> u64 {
        let scaled = u128::from(tokens) * u128::from(self.new_len) / u128::from(self.old_len);
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }
}

impl Line {
    /// Adds what the bucket has earned in a time. What a full bucket has not kept counts only until
    /// all reservations are due.
    pub(super) fn earn(&mut self, earned: i128, kept: i128) {
        let until_all_due = self.last_due.saturating_sub(self.earned);
        self.add(earned.min(until_all_due).max(kept));
    }

    /// Adds what the bucket has got back. Reservations become due earlier.
    pub(super) fn add(&mut self, earned: i128) {
        self.earned = self.earned.saturating_add(earned);
        self.skip_cancelled();
    }

    /// Returns when the last reservation is due.
    pub(super) fn last_due(&self) -> i128 {
        self.last_due
    }

    /// Gives back parts that were taken when `end` was the end of the line. Returns the new end.
    ///
    /// If nobody has joined the line since, it becomes shorter. Otherwise reservations become due
    /// earlier: that alone, at each step of a high rate, would use up the range of the number.
    pub(super) fn give_back(&mut self, end: i128, rest: i128) -> i128 {
        if end == self.last_due && !self.has_waiting() {
            self.last_due = self.last_due.saturating_sub(rest);
        } else {
            self.add(rest);
        }
        self.last_due
    }

    /// Subtracts what was spent without having been taken. Reservations become due later.
    pub(super) fn subtract(&mut self, spent: i128) {
        self.earned = self.earned.saturating_sub(spent);
    }

    /// Returns whether a reservation is not yet due.
    pub(super) fn has_waiting(&self) -> bool {
        self.earned < self.last_due
    }

    /// Returns how many of the bucket's `tokens` belong to no reservation. The result is negative
    /// while a reservation is not due, or while the bucket is in debt.
    pub(super) fn unreserved(&self, tokens: i128) -> i128 {
        tokens.min(self.earned.saturating_sub(self.last_due))
    }

    /// Returns the parts that the bucket has to earn until the reservation is due: negative
    /// or 0 if it is.
    pub(super) fn until_due(&self, reservation: &Reservation) -> i128 {
        reservation.due.saturating_sub(self.earned)
    }

    /// Reserves `n` units behind all other reservations, and returns the reservation.
    pub(super) fn append(&mut self, tokens: i128, n: u64) -> Reservation {
        let start = self.last_due.max(self.earned.saturating_sub(tokens));
        self.last_due = start.saturating_add(parts(n));
        self.reservation_at(self.last_due, n)
    }

    /// Returns a reservation that is due now. It is for units that its owner had reserved and gives
    /// back.
    pub(super) fn due_now(&self, n: u64) -> Reservation {
        self.reservation_at(self.earned, n)
    }

    fn reservation_at(&self, due: i128, tokens: u64) -> Reservation {
        Reservation {
            tokens,
            due,
            n_rate_cuts: self.n_rate_cuts,
        }
    }

    /// Returns the reservation after all rate cuts, or `None` if it has lapsed.
    pub(super) fn update(&self, mut reservation: Reservation) -> Option<Reservation> {
        let n_missed = self.n_rate_cuts - reservation.n_rate_cuts;
        if n_missed > MAX_RATE_CUTS as u64 {
            return None;
        }
        for index in reservation.n_rate_cuts..self.n_rate_cuts {
            let rate_cut = &self.rate_cuts[slot(index)];
            reservation.due = rate_cut.due(reservation.due);
            reservation.tokens = rate_cut.tokens(reservation.tokens);
        }
        reservation.n_rate_cuts = self.n_rate_cuts;
        Some(reservation)
    }

    /// Makes the reservations shorter, in proportion, that will be due when the bucket has earned
    /// `debt` more parts.
    pub(super) fn shorten(&mut self, debt: i128, old_len: u64, new_len: u64) {
        if new_len >= old_len {
            return;
        }
        let rate_cut = RateCut {
            from: self.earned.saturating_add(debt),
            old_len,
            new_len,
        };
        self.last_due = rate_cut.due(self.last_due);
        for (due, tokens) in std::mem::take(&mut self.cancelled) {
            self.note_cancelled(rate_cut.due(due), rate_cut.tokens(tokens));
        }
        self.rate_cuts[slot(self.n_rate_cuts)] = rate_cut;
        self.n_rate_cuts += 1;
    }

    /// Cancels a reservation. It makes those behind it due earlier, and none in front of it.
    pub(super) fn cancel(&mut self, reservation: Reservation) {
        if reservation.tokens > 0 {
            self.note_cancelled(reservation.due, reservation.tokens);
        }
        while let Some((&due, &tokens)) = self.cancelled.last_key_value()
            && due == self.last_due
        {
            self.cancelled.pop_last();
            self.last_due = due.saturating_sub(parts(tokens));
        }
        self.skip_cancelled();
    }

    /// Notes a cancelled reservation. Several may be due at once after a rate cut.
    /// Beyond a number that bounds the memory, it is forgotten, and those behind it are due later.
    fn note_cancelled(&mut self, due: i128, tokens: u64) {
        if self.cancelled.len() >= MAX_CANCELLED {
            return;
        }
        let noted = self.cancelled.entry(due).or_default();
        *noted = noted.saturating_add(tokens);
    }

    /// Skips the cancelled reservations that are due.
    fn skip_cancelled(&mut self) {
        while let Some((&due, &tokens)) = self.cancelled.first_key_value()
            && due <= self.earned
        {
            self.cancelled.pop_first();
            self.earned = self.earned.saturating_add(parts(tokens));
        }
    }
}

fn slot(n_rate_cuts: u64) -> usize {
    (n_rate_cuts % MAX_RATE_CUTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_reservations_need_bounded_memory() {
        let mut line = Line::default();
        let _waits = line.append(0, 1);
        for _ in 0..3 * MAX_CANCELLED {
            let cancelled = line.append(0, 1);
            let _waits = line.append(0, 1);
            line.cancel(cancelled);
        }
        assert_eq!(line.cancelled.len(), MAX_CANCELLED);
    }

    #[test]
    fn cancelled_reservations_that_a_rate_cut_makes_due_at_once_all_count() {
        let mut line = Line::default();
        let reservations = [(); 4].map(|()| line.append(0, 1));
        for reservation in &reservations[1..3] {
            line.cancel(*reservation);
        }
        // Both are due at the same time from now on.
        line.shorten(0, u64::MAX, 1);
        line.add(parts(1));
        assert!(line.cancelled.is_empty());
        assert_eq!(line.earned, parts(3));
    }
}
