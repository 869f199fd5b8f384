//! A token bucket that limits the rate of one or several transfers. The caller passes the time.
//!
//! A transfer takes tokens before its step and pays with them for the units (bytes or records) that
//! its sink accepts; what is left after the step goes back. So two transfers never move by the same
//! tokens, and together they never move more than the bucket has earned and one burst.
//!
//! A transfer that is refused gets a reservation behind those of all others. It is due when the
//! bucket has earned the tokens of all reservations up to it. So no transfer starves. A due
//! reservation is a turn, not a stock: its owner still takes its tokens from the bucket. So owners
//! that do not come back delay no other, and have no more than one burst together when they do.
//! Those who cancel a reservation make the ones behind it due earlier, and none in front of it.
//!
//! Units beyond the tokens (a message moves whole) delay every reservation. Their transfer passes
//! its next turns on, for as many units, to those who wait and come in time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::users::{LastUse, Users};

/// Allows `rate` units per second, with a burst of at most a tenth of a second's worth.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: u64,
    /// How many billionths of a unit may be taken now. Billionths lose nothing to rounding at low
    /// rates. Negative after more was spent than taken.
    tokens: i128,
    /// The latest time that the bucket knows.
    last: Duration,
    /// The billionths that the bucket has earned or got back, including those beyond a burst, less
    /// those that were spent without having been taken. Reservations are due by this number.
    earned: i128,
    /// When the last reservation is due.
    line_end: i128,
    /// The sizes of the cancelled reservations that are not yet due, by their `due`.
    cancelled: BTreeMap<i128, u64>,
    /// The units that transfers have taken and not spent.
    n_held: u64,
    /// How many transfers have a reservation.
    n_waiting: u64,
    /// How often the bucket has discarded all reservations.
    generation: u64,
    users: Users,
}

/// The tokens of a bucket that one transfer has.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The tokens that the transfer has taken and not yet spent on units that its sink has
    /// accepted.
    tokens: u64,
    reservation: Option<Reservation>,
    /// The units of the largest step that the transfer has moved beyond its tokens, and for which
    /// it has passed no turn on.
    debt: u64,
    /// The generation of the bucket in which the debt was made.
    debt_generation: u64,
    last_use: LastUse,
}

impl Held {
    /// Returns how many units have been taken and not been spent.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// A turn to take tokens.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    tokens: u64,
    /// The reservation is due when [`TokenBucket::earned`] has reached this.
    due: i128,
    generation: u64,
}

const BILLION: i128 = 1_000_000_000;

/// The least that a transfer takes at once, however many use the bucket. It is most of a packet:
/// shorter steps would cost more than the bytes that they move.
const MIN_SHARE: u64 = 1024;

impl TokenBucket {
    /// Creates a bucket for `rate` units per second, empty at the time `now`.
    pub(crate) fn new(rate: u64, now: Duration) -> Self {
        Self {
            rate: rate.max(1),
            tokens: 0,
            last: now,
            earned: 0,
            line_end: 0,
            cancelled: BTreeMap::new(),
            n_held: 0,
            n_waiting: 0,
            generation: 0,
            users: Users::default(),
        }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    /// Changes the rate. At a lower rate a debt shrinks in proportion, so that it is paid off in
    /// the same time as before. At a higher rate it stays the same, and is paid off sooner.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        let rate = rate.max(1);
        if rate < self.rate {
            // The reservations are for the old rate. The transfers get new ones.
            self.generation += 1;
            self.n_waiting = 0;
            self.cancelled.clear();
            self.line_end = self.earned.saturating_sub(self.tokens.max(0));
            if self.tokens < 0 {
                let scaled = self.tokens.checked_mul(i128::from(rate));
                self.tokens = scaled.map_or(0, |scaled| scaled / i128::from(self.rate));
            }
        }
        self.rate = rate;
    }

    /// Counts a new transfer, which is about to take its first units, as a user of the bucket.
    pub(crate) fn enter(&mut self, held: &mut Held, now: Duration) {
        self.users.note_use(&mut held.last_use, now);
    }

    /// Takes up to `wanted` units at the time `now` for one of `n_holders` transfers. Returns how
    /// many units the transfer may take from its source now, at most `wanted`.
    ///
    /// `in_flight` of its tokens belong to units that have left the source and that the sink has
    /// not accepted.
    ///
    /// # Errors
    ///
    /// Returns how long to wait until the transfer's turn.
    pub(crate) fn take(
        &mut self,
        held: &mut Held,
        now: Duration,
        wanted: u64,
        in_flight: u64,
        n_holders: u64,
    ) -> Result<u64, Duration> {
        self.fill(now);
        // Of transfers that follow each other only one has an account at a time.
        let n_users = self.users.note_use(&mut held.last_use, now).min(n_holders);
        let in_flight = in_flight.min(held.tokens);
        let share = self.share(n_users, held.tokens);
        let quantum = self.quantum().min(share).min(wanted);
        if held.tokens == in_flight {
            self.take_turn(held, share)?;
        }
        let free = held.tokens - in_flight;
        let unreserved = self.unreserved();
        if free == 0 && unreserved < billionths(quantum) {
            return Err(self.reserve(held, quantum));
        }
        let whole = u64::try_from(unreserved.max(0) / BILLION).unwrap_or(u64::MAX);
        let taken = free.saturating_add(whole).min(share.max(free)).min(wanted);
        self.take_unreserved(held, taken.saturating_sub(free));
        self.give_back(held, in_flight + taken);
        Ok(taken)
    }

    /// Takes the tokens of the transfer's reservation, if it has one, but no more than its share.
    ///
    /// # Errors
    ///
    /// Returns how long to wait until it is due.
    fn take_turn(&mut self, held: &mut Held, share: u64) -> Result<(), Duration> {
        let is_valid = |it: &Reservation| it.generation == self.generation;
        let Some(reservation) = held.reservation.filter(is_valid) else {
            held.reservation = None;
            return Ok(());
        };
        if self.earned < reservation.due {
            return Err(self.time_to_earn(reservation.due.saturating_sub(self.earned)));
        }
        let tokens = reservation.tokens.min(share);
        let missing = billionths(tokens).saturating_sub(self.tokens);
        if missing > 0 {
            // Others whose turns were before this one have come late, or tokens were discarded.
            let overdue = self.earned.saturating_sub(reservation.due);
            if overdue < billionths(self.burst()) {
                return Err(self.time_to_earn(missing));
            }
            held.reservation = None;
            self.n_waiting -= 1;
            return Ok(());
        }
        held.reservation = None;
        self.n_waiting -= 1;
        self.forgive_debt_if_alone(held);
        let passed_on = held.debt.min(tokens);
        held.debt -= passed_on;
        let taken = tokens - passed_on;
        let left = reservation.tokens - taken;
        self.earned = self.earned.saturating_add(billionths(left));
        self.tokens -= billionths(taken);
        self.n_held += taken;
        held.tokens += taken;
        Ok(())
    }

    /// Takes tokens that nobody has reserved.
    fn take_unreserved(&mut self, held: &mut Held, n: u64) {
        if n > 0 {
            let start = self.line_start();
            self.line_end = start.saturating_add(billionths(n));
            self.tokens -= billionths(n);
            self.n_held += n;
            held.tokens += n;
            self.forgive_debt_if_alone(held);
        }
    }

    /// Forgets the debt of a transfer if no other waits, or if the rate has been lowered since.
    fn forgive_debt_if_alone(&self, held: &mut Held) {
        if self.n_waiting == 0 || held.debt_generation != self.generation {
            held.debt = 0;
        }
    }

    /// Reserves tokens behind all other reservations. Returns the time until they are due.
    fn reserve(&mut self, held: &mut Held, tokens: u64) -> Duration {
        let due = self.line_start().saturating_add(billionths(tokens));
        self.line_end = due;
        self.n_waiting += 1;
        held.reservation = Some(Reservation {
            tokens,
            due,
            generation: self.generation,
        });
        self.time_to_earn(due.saturating_sub(self.earned))
    }

    /// Returns when a reservation of no tokens would be due.
    fn line_start(&self) -> i128 {
        self.line_end.max(self.earned.saturating_sub(self.tokens))
    }

    /// Returns the billionths that nobody has reserved. Negative while a reservation is not due or
    /// the bucket is in debt.
    fn unreserved(&self) -> i128 {
        self.tokens.min(self.earned.saturating_sub(self.line_end))
    }

    /// Pays for `n` units that the sink has accepted. More than were taken become a debt that delays
    /// later units.
    pub(crate) fn spend(&mut self, held: &mut Held, n: u64) {
        let paid = held.tokens.min(n);
        held.tokens -= paid;
        self.n_held -= paid;
        self.charge(held, n - paid);
    }

    /// Takes tokens for units that have moved without.
    fn charge(&mut self, held: &mut Held, excess: u64) {
        if excess > 0 {
            held.debt = held.debt.max(excess);
            held.debt_generation = self.generation;
            self.tokens = self.tokens.saturating_sub(billionths(excess));
            self.earned = self.earned.saturating_sub(billionths(excess));
        }
    }

    /// Gives back all tokens but those of `in_flight` units. If these are more, as those of a whole
    /// message are, takes tokens for all of them.
    pub(crate) fn give_back(&mut self, held: &mut Held, in_flight: u64) {
        let excess = in_flight.saturating_sub(held.tokens);
        self.charge(held, excess);
        held.tokens += excess;
        self.n_held += excess;
        let rest = held.tokens.saturating_sub(in_flight);
        held.tokens -= rest;
        self.n_held -= rest;
        self.earned = self.earned.saturating_add(billionths(rest));
        self.tokens = self.tokens.saturating_add(billionths(rest));
        self.bound();
    }

    /// Gives back all tokens, and cancels the reservation.
    pub(crate) fn give_back_all(&mut self, held: &mut Held) {
        let is_valid = |it: &Reservation| it.generation == self.generation;
        if let Some(reservation) = held.reservation.take().filter(is_valid) {
            self.n_waiting -= 1;
            if reservation.tokens > 0 {
                self.cancelled.insert(reservation.due, reservation.tokens);
            }
            self.shorten_line();
            self.skip_cancelled();
        }
        self.give_back(held, 0);
    }

    /// Removes cancelled reservations from the end of the line.
    fn shorten_line(&mut self) {
        while let Some((&due, &tokens)) = self.cancelled.last_key_value()
            && due == self.line_end
        {
            self.cancelled.pop_last();
            self.line_end = due.saturating_sub(billionths(tokens));
        }
    }

    /// Skips the cancelled reservations that are due. Each makes the reservations behind it due
    /// earlier, and none in front of it.
    fn skip_cancelled(&mut self) {
        while let Some((&due, &tokens)) = self.cancelled.first_key_value()
            && due <= self.earned
        {
            self.cancelled.pop_first();
            self.earned = self.earned.saturating_add(billionths(tokens));
        }
    }

    /// Adds what has been earned until `now`. Threads may pass times in another order than they
    /// read them.
    fn fill(&mut self, now: Duration) {
        let since = now.saturating_sub(self.last).as_nanos();
        let earned =
            i128::try_from(since.saturating_mul(u128::from(self.rate))).unwrap_or(i128::MAX);
        self.last = self.last.max(now);
        self.earned = self.earned.saturating_add(earned);
        self.tokens = self.tokens.saturating_add(earned);
        self.bound();
        self.skip_cancelled();
    }

    /// Limits the tokens of the bucket so that, with those that transfers hold, they are at most
    /// one burst. It leaves at least a quantum, so that nobody waits for those who hold them.
    fn bound(&mut self) {
        let room = self.burst().saturating_sub(self.n_held);
        let least = self.quantum().min(self.burst());
        let most = if room > least {
            billionths(room)
        } else {
            // A part of a unit stays. Otherwise a transfer that takes its quantum late by a moment
            // would make the next one wait for a whole unit.
            billionths(least).saturating_add(BILLION - 1)
        };
        self.tokens = self.tokens.min(most);
    }

    /// Returns the tokens of all transfers.
    #[cfg(test)]
    pub(super) fn n_held(&self) -> u64 {
        self.n_held
    }

    fn time_to_earn(&self, billionths: i128) -> Duration {
        let nanos = billionths.unsigned_abs().div_ceil(u128::from(self.rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the most units that can be saved up.
    fn burst(&self) -> u64 {
        (self.rate / 10).max(1)
    }

    /// Returns the fewest units that are worth a step: a fiftieth of a second's worth, but at most
    /// one buffer.
    fn quantum(&self) -> u64 {
        (self.rate / 50).clamp(1, 256 << 10)
    }

    /// Returns the most units that one of `n_users` transfers may have at once, if it has `own`
    /// already: an equal part of a burst, and no more than the others have left of it.
    fn share(&self, n_users: u64, own: u64) -> u64 {
        let even = self.burst() / n_users.max(1);
        let left = self.burst().saturating_sub(self.n_held - own);
        even.min(left).max(self.quantum().min(MIN_SHARE))
    }
}

fn billionths(units: u64) -> i128 {
    i128::from(units) * BILLION
}

#[cfg(test)]
mod tests;
