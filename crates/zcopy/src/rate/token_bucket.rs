//! A token bucket that limits the rate of one or several transfers. The caller passes the time.
//!
//! A transfer takes tokens before its step and pays with them for the units (bytes or records) that
//! its sink accepts; what is left after the step goes back. So two transfers never move by the same
//! tokens, and together they never move more than the bucket has earned and one burst.
//!
//! A transfer that is refused gets a reservation in a [`Line`]. When it is due, its owner may take
//! tokens; none are set aside for it. So an owner that does not come back delays no other, and all
//! that come back late share one burst.
//!
//! Units beyond the tokens (a message moves whole) become a debt, which delays every reservation.
//!
//! A [`FairClock`] makes the parts equal, however long steps and messages are: a transfer that is
//! ahead by a quantum waits until the others have had as much. It goes on earlier with the surplus
//! that others leave, which is what lies unused beyond half of a burst.

use std::time::Duration;

use super::users::{LastUse, Users};
use fair_clock::{FairClock, Service};
use line::{Line, Reservation};
pub(crate) use nano_rate::NanoRate;
use nano_rate::{UNIT, parts, whole_units};

mod fair_clock;
mod line;
mod nano_rate;
mod surplus;

/// Allows units at a rate, with a burst of at most a tenth of a second's worth.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    rate: NanoRate,
    /// How many parts of a unit may be taken now. Parts lose nothing to rounding at low
    /// rates. Negative after more was spent than taken.
    tokens: i128,
    /// The latest time that the bucket knows.
    last: Duration,
    line: Line,
    fair_clock: FairClock,
    /// The units that transfers have taken and not spent.
    n_held: u64,
    /// The parts of the present debt that lower rates have forgiven. A higher rate restores
    /// them, so that rates that alternate make no debt shorter.
    forgiven: i128,
    /// How many transfers are hungry.
    n_hungry: u64,
    /// How many transfers wait until the others have had as much.
    n_paused: u64,
    users: Users,
    /// How many transfers used the bucket when it was last asked, at least 1.
    n_users: u64,
}

/// The tokens of a bucket that one transfer has.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The tokens that the transfer has taken and not yet spent on units that its sink has
    /// accepted.
    tokens: u64,
    reservation: Option<Reservation>,
    /// The end of the line when the transfer last took tokens that nobody had reserved.
    line_end: i128,
    service: Service,
    /// The units that the sink has accepted since the transfer last took tokens.
    accepted: u64,
    last_use: LastUse,
    /// Whether the transfer was refused last, or has spent all that it took and wanted more.
    is_hungry: bool,
    /// When the transfer was to come back after it was last refused.
    expected: Duration,
    /// The parts of a unit that the bucket has earned since then.
    earned_late: i128,
}

impl Held {
    /// Returns how many units have been taken and not been spent.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// The least that a transfer takes at once, however many use the bucket. It is most of a packet:
/// shorter steps would cost more than the bytes that they move.
const MIN_SHARE: u64 = 1024;

/// The largest quantum: one buffer.
const MAX_QUANTUM: u64 = 256 << 10;

impl TokenBucket {
    /// Creates a bucket, empty at the time `now`.
    pub(crate) fn new(rate: NanoRate, now: Duration) -> Self {
        Self {
            rate,
            tokens: 0,
            last: now,
            line: Line::default(),
            fair_clock: FairClock::default(),
            n_held: 0,
            forgiven: 0,
            n_hungry: 0,
            n_paused: 0,
            users: Users::default(),
            n_users: 1,
        }
    }

    pub(crate) fn rate(&self) -> NanoRate {
        self.rate
    }

    /// Changes the rate, and a debt as [`rescale_debt`] does.
    pub(crate) fn set_rate(&mut self, rate: NanoRate) {
        let old_len = self.reservation_len();
        let old_rate = std::mem::replace(&mut self.rate, rate);
        let debt = self.debt();
        let new_debt = rescale_debt(debt, &mut self.forgiven, old_rate, self.rate);
        let less = debt - new_debt;
        self.tokens = self.tokens.saturating_add(less);
        self.line.add(less);
        if self.rate < old_rate {
            self.line.shorten(new_debt, old_len, self.reservation_len());
        }
    }

    /// Returns the parts that were spent beyond the tokens of the bucket.
    fn debt(&self) -> i128 {
        self.tokens.saturating_neg().max(0)
    }

    /// Returns the length of a reservation of a transfer that wants everything.
    fn reservation_len(&self) -> u64 {
        self.quantum().min(self.even_part().max(MIN_SHARE))
    }

    /// Counts a new transfer, which is about to take its first units, as a user of the bucket.
    pub(crate) fn open(&mut self, held: &mut Held, now: Duration) {
        self.fill(now);
        self.users.note_use(&mut held.last_use, now);
        self.fair_clock.open(&mut held.service);
        held.expected = now;
    }

    /// Takes up to `wanted` units at the time `now` for one of `n_accounts` transfers. Returns how
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
        n_accounts: u64,
    ) -> Result<u64, Duration> {
        self.fill(now);
        let n_users = self.users.note_use(&mut held.last_use, now);
        // Those that have ended count in the second before, but have no account any more.
        self.n_users = n_users.min(n_accounts).max(1);
        held.earned_late = self.rate.earned_in(now.saturating_sub(held.expected));
        self.set_hungry(held, false);
        let taken = self.take_at_last_time(held, wanted, in_flight);
        // A rate above a unit per nanosecond earns what is missing in no time.
        let taken = taken.map_err(|wait| wait.max(Duration::from_nanos(1)));
        if let Err(wait) = taken {
            held.expected = now.saturating_add(wait);
        }
        self.set_hungry(held, taken != Ok(wanted));
        taken
    }

    fn set_hungry(&mut self, held: &mut Held, is_hungry: bool) {
        let was_hungry = std::mem::replace(&mut held.is_hungry, is_hungry);
        self.n_hungry = self.n_hungry + u64::from(is_hungry) - u64::from(was_hungry);
    }

    /// Does what [`take`](Self::take) does at the time for which the bucket was filled last.
    fn take_at_last_time(
        &mut self,
        held: &mut Held,
        wanted: u64,
        in_flight: u64,
    ) -> Result<u64, Duration> {
        let in_flight = in_flight.min(held.tokens);
        let share = self.share(held);
        let quantum = self.quantum().min(share).min(wanted);
        if held.tokens == in_flight {
            self.take_turn(held, share, quantum)?;
        }
        let most = if held.tokens == in_flight {
            self.wait_for_others(held, share)?
        } else {
            share
        };
        let free = held.tokens - in_flight;
        let unreserved = self.line.unreserved(self.tokens);
        let available = unreserved.max(self.surplus());
        if free == 0 && available < parts(quantum) {
            let reservation = self.line.append(self.tokens, quantum);
            held.reservation = Some(reservation);
            return Err(self.time_until(self.line.until_due(&reservation), quantum));
        }
        let taken = whole_units(available).min(most).max(free).min(wanted);
        held.accepted = 0;
        let more = taken.saturating_sub(free);
        if more > 0 && parts(more) <= unreserved {
            self.line.append(self.tokens, more);
            held.line_end = self.line.last_due();
        }
        self.move_to(held, more);
        self.give_back(held, in_flight + taken);
        Ok(taken)
    }

    /// Takes the tokens of the transfer's reservation, if it has one, but no more than its share.
    ///
    /// # Errors
    ///
    /// Returns how long to wait until it is due.
    fn take_turn(&mut self, held: &mut Held, share: u64, quantum: u64) -> Result<(), Duration> {
        held.reservation = held.reservation.and_then(|it| self.line.update(it));
        let Some(reservation) = held.reservation else {
            return Ok(());
        };
        let until_due = self.line.until_due(&reservation);
        if until_due > 0 {
            if self.surplus() >= parts(quantum) {
                return Ok(());
            }
            return Err(self.time_until(until_due, quantum));
        }
        let tokens = reservation.tokens.min(share);
        let missing = parts(tokens).saturating_sub(self.tokens);
        if missing > 0 && until_due > -parts(self.burst()) {
            // Others whose turns were before this one have come late, or tokens were discarded.
            return Err(self.time_to_earn(missing.max(self.pause())));
        }
        held.reservation = None;
        if missing <= 0 {
            self.line.add(parts(reservation.tokens - tokens));
            self.move_to(held, tokens);
        }
        Ok(())
    }

    /// Returns the least that is waited for if many may wait: they need not ask for each unit.
    fn pause(&self) -> i128 {
        parts(self.quantum()) / 4
    }

    /// Moves tokens from the bucket to a transfer.
    fn move_to(&mut self, held: &mut Held, n: u64) {
        self.tokens -= parts(n);
        self.n_held += n;
        held.tokens += n;
    }

    /// Returns the time until the bucket has earned this, or until others have left `n` tokens.
    fn time_until(&self, earned: i128, n: u64) -> Duration {
        let surplus = parts(n).saturating_sub(self.surplus());
        self.time_to_earn(earned.min(surplus))
    }

    /// Pays for `n` units that the sink has accepted. More than were taken become a debt that
    /// delays later units.
    pub(crate) fn spend(&mut self, held: &mut Held, n: u64) {
        let paid = held.tokens.min(n);
        self.go_into_debt(held, n - paid);
        held.tokens -= paid;
        self.n_held -= paid;
        self.fair_clock.note_moved(&mut held.service, parts(n));
        held.accepted = held.accepted.saturating_add(n);
    }

    /// Takes tokens for units that have moved without.
    fn go_into_debt(&mut self, held: &Held, excess: u64) {
        if excess > 0 {
            let message = parts(held.tokens).saturating_add(parts(excess));
            self.tokens = self.tokens.saturating_sub(parts(excess));
            self.line.subtract(parts(excess));
            self.fair_clock
                .extend_lag(&held.service, message, self.debt());
        }
    }

    /// Gives back all tokens but those of `in_flight` units. If these are more, as those of a whole
    /// message are, takes tokens for all of them.
    pub(crate) fn give_back(&mut self, held: &mut Held, in_flight: u64) {
        let excess = in_flight.saturating_sub(held.tokens);
        self.go_into_debt(held, excess);
        held.tokens += excess;
        self.n_held += excess;
        let rest = held.tokens.saturating_sub(in_flight);
        if rest > 0 {
            self.set_hungry(held, false);
        }
        held.tokens -= rest;
        self.n_held -= rest;
        self.tokens = self.tokens.saturating_add(parts(rest));
        let others_wait = self.line.has_waiting();
        if others_wait && held.reservation.is_none() && rest >= self.reservation_len().div_ceil(8) {
            // Its next step belongs to the same turn.
            held.reservation = Some(self.line.due_now(rest));
        } else {
            held.line_end = self.line.give_back(held.line_end, parts(rest));
        }
        self.limit_tokens();
    }

    /// Gives back all tokens, and cancels the reservation.
    pub(crate) fn close(&mut self, held: &mut Held) {
        let reservation = held.reservation.take();
        if let Some(reservation) = reservation.and_then(|it| self.line.update(it)) {
            self.line.cancel(reservation);
        }
        self.set_hungry(held, false);
        self.resume(held);
        self.users.remove(&held.last_use);
        self.give_back(held, 0);
        if let Some(unused) = held.reservation.take() {
            self.line.add(parts(unused.tokens));
        }
    }

    /// Adds what has been earned until `now`. Threads may pass times in another order than they
    /// read them.
    fn fill(&mut self, now: Duration) {
        let earned = self.rate.earned_in(now.saturating_sub(self.last));
        self.last = self.last.max(now);
        let before = self.tokens;
        self.tokens = self.tokens.saturating_add(earned);
        if self.tokens >= 0 {
            self.forgiven = 0;
        }
        self.limit_tokens();
        let kept = self.tokens.saturating_sub(before).clamp(0, earned);
        self.line.earn(earned, kept);
        self.fair_clock.advance(kept, self.n_users);
        self.fair_clock.skip(earned - kept, self.n_users);
    }

    fn limit_tokens(&mut self) {
        self.tokens = self.tokens.min(self.most_tokens());
    }

    /// Returns the most parts that the bucket keeps: with those that transfers hold, they are
    /// at most one burst. Half of a burst always remains, so that nobody waits for those who hold
    /// tokens.
    fn most_tokens(&self) -> i128 {
        let room = self.burst().saturating_sub(self.n_held);
        let least = self.quantum().max(self.burst() / 2);
        if room > least {
            parts(room)
        } else {
            // A part of a unit stays. Otherwise a transfer that takes its quantum late by a moment
            // would make the next one wait for a whole unit.
            parts(least).saturating_add(UNIT - 1)
        }
    }

    /// Returns the tokens of all transfers.
    #[cfg(test)]
    pub(super) fn n_held(&self) -> u64 {
        self.n_held
    }

    fn time_to_earn(&self, parts: i128) -> Duration {
        self.rate.time_to_earn(parts)
    }

    /// Returns the most units that can be saved up.
    fn burst(&self) -> u64 {
        self.rate.units_in(10).max(1)
    }

    /// Returns the fewest units that are worth a step: a fiftieth of a second's worth, but at most
    /// one buffer.
    fn quantum(&self) -> u64 {
        self.rate.units_in(50).clamp(1, MAX_QUANTUM)
    }

    /// Returns the most units that a transfer may have at once: an equal part of a burst. If the
    /// others hold a burst, its sink may stall as theirs do. So it takes few units first, and each
    /// time twice as many as its sink has accepted, until all together hold half of a burst more.
    fn share(&self, held: &Held) -> u64 {
        let even = self.even_part();
        let accepted = held.accepted.saturating_mul(2).min(even);
        let left = self.left_of(self.burst(), held.tokens);
        let half_more = self.burst().saturating_add(self.burst() / 2);
        even.min(left)
            .max(accepted.min(self.left_of(half_more, held.tokens)))
            .max(self.quantum().min(MIN_SHARE))
    }

    fn even_part(&self) -> u64 {
        self.burst() / self.n_users
    }

    /// Returns the units of `n` that the others do not hold.
    fn left_of(&self, n: u64, own: u64) -> u64 {
        n.saturating_sub(self.n_held - own)
    }
}

/// Returns a debt after a change of the rate. At a lower rate it shrinks in proportion, so that it
/// is paid off in the same time as before. At a higher rate it grows by what it has shrunk before,
/// but not more than in proportion, so that rates that alternate forgive nothing.
fn rescale_debt(debt: i128, forgiven: &mut i128, old_rate: NanoRate, rate: NanoRate) -> i128 {
    let scaled = rate.scale(debt, old_rate);
    let new_debt = if rate < old_rate {
        scaled
    } else {
        scaled.clamp(debt, debt.saturating_add(*forgiven))
    };
    *forgiven = forgiven.saturating_add(debt - new_debt);
    new_debt
}

#[cfg(test)]
mod tests;
