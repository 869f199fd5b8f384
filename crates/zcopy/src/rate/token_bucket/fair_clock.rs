//! [`FairClock`]: which transfers have moved more than their equal part.

use super::nano_rate::parts;
use super::{MAX_QUANTUM, NanoRate, rescale_debt};

/// The virtual time of a bucket: the parts of a unit that each transfer would have moved until
/// now, if all users of the bucket had always wanted to move. (This is start-time fair queueing:
/// Goyal, Vin and Cheng, SIGCOMM 1996.)
#[derive(Debug, Default)]
pub(super) struct FairClock {
    now: i128,
    /// The latest `finish` of all transfers.
    latest_finish: i128,
    /// Until the clock reaches `extra_lag_until`, transfers keep `extra_lag` more of their lag: the
    /// debt for a message has stopped all of them.
    extra_lag: i128,
    extra_lag_until: i128,
    /// The least `finish` of the transfers that have asked since tokens were last discarded.
    least_finish: Option<i128>,
}

/// The account of one transfer with the clock.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// The time of the clock at which the transfer has moved no more than its part.
    finish: i128,
    /// The rate at which `finish` was computed, if it was, and what lower rates have forgiven of
    /// the lead.
    rate: Option<NanoRate>,
    forgiven: i128,
    /// Whether the transfer waits until the others have had as much.
    pub(super) is_paused: bool,
}

impl FairClock {
    /// Advances the clock by what `n_users` transfers have earned together, until every transfer is
    /// as far behind as it may be.
    pub(super) fn advance(&mut self, earned: i128, n_users: u64) {
        let part = earned / i128::from(n_users);
        let most_behind = max_lag(parts(MAX_QUANTUM)).saturating_add(self.extra_lag);
        let end = self.latest_finish.saturating_add(most_behind);
        self.now = self.now.saturating_add(part).min(end.max(self.now));
    }

    /// Advances the clock, if `lead` is positive, so that the lead of every transfer is shorter by
    /// that.
    pub(super) fn advance_by(&mut self, lead: i128) {
        self.now = self.now.saturating_add(lead.max(0));
    }

    /// Advances the clock by what a full bucket discards, but not past the transfer that is furthest
    /// behind of those that ask.
    pub(super) fn skip(&mut self, discarded: i128, n_users: u64) {
        if discarded > 0
            && let Some(least_finish) = self.least_finish.take()
        {
            let part = discarded / i128::from(n_users);
            let end = self.now.saturating_add(part).min(least_finish);
            self.now = self.now.max(end);
        }
    }

    /// Begins the account of a new transfer.
    pub(super) fn open(&mut self, service: &mut Service) {
        self.set_finish(service, self.now);
    }

    /// Notes that a transfer has moved.
    pub(super) fn note_moved(&mut self, service: &mut Service, moved: i128) {
        self.set_finish(service, service.finish.saturating_add(moved));
    }

    fn set_finish(&mut self, service: &mut Service, finish: i128) {
        service.finish = finish;
        self.latest_finish = self.latest_finish.max(finish);
    }

    /// Returns how many parts a transfer is ahead of its part. Negative if it is behind.
    ///
    /// A lead shrinks at a lower rate as a debt does. A transfer that is behind by more than two
    /// quanta did not want to move, and loses the rest.
    pub(super) fn lead(&mut self, service: &mut Service, rate: NanoRate, quantum: i128) -> i128 {
        let mut lead = service.finish.saturating_sub(self.now);
        if lead <= 0 {
            service.forgiven = 0;
        } else if let Some(old_rate) = service.rate {
            lead = rescale_debt(lead, &mut service.forgiven, old_rate, rate);
        }
        let extra = if self.now < self.extra_lag_until {
            self.extra_lag
        } else {
            0
        };
        let most_behind = max_lag(quantum).saturating_add(extra);
        lead = lead.max(-most_behind);
        service.rate = Some(rate);
        let finish = self.now.saturating_add(lead);
        self.set_finish(service, finish);
        self.least_finish = Some(self.least_finish.map_or(finish, |least| least.min(finish)));
        lead
    }

    /// Lets the others keep their lag while a transfer pays for a message of `message` parts,
    /// which has brought the bucket into `debt`.
    pub(super) fn extend_lag(&mut self, service: &Service, message: i128, debt: i128) {
        if self.now >= self.extra_lag_until {
            self.extra_lag = 0;
        }
        let paid = service.finish.saturating_add(message);
        self.extra_lag_until = self.extra_lag_until.max(paid);
        self.extra_lag = self.extra_lag.max(debt);
    }
}

/// Returns how far behind a transfer may be that has missed its turns.
fn max_lag(quantum: i128) -> i128 {
    quantum.saturating_mul(2)
}
