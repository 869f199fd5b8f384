//! The surplus: the tokens above half of what the bucket can save up. Transfers that do not come for
//! their turns leave it, and those that are ahead of their parts may take it.

use std::time::Duration;

use super::nano_rate::parts;
use super::{Held, TokenBucket};

/// A lead is cut to this many equal parts of a burst when a transfer takes of the surplus.
const MAX_LEAD: i128 = 4;

impl TokenBucket {
    /// Makes a transfer wait that has moved more than the others by a quantum, unless these leave
    /// tokens. Returns the most units that it may take now.
    ///
    /// # Errors
    ///
    /// Returns how long to wait until the transfer is no longer ahead of its part.
    pub(super) fn wait_for_others(&mut self, held: &mut Held, share: u64) -> Result<u64, Duration> {
        let n = self.quantum().min(share);
        let quantum = parts(n);
        let lead = self.fair_clock.lead(&mut held.service, self.rate, quantum);
        let ahead = lead.saturating_add(parts(held.tokens));
        let was_paused = self.resume(held);
        if self.n_users == 1 {
            self.fair_clock.advance_by(lead);
            return Ok(share);
        }
        if ahead <= 0 || !was_paused && ahead < quantum {
            return Ok(share);
        }
        let part = parts(share);
        let needed = self.surplus_needed(ahead, part);
        // While it was late, the others may have been held up as well: one loop may serve them all.
        let of_others = part.saturating_mul(i128::from(self.n_hungry));
        let of_others = of_others.min(held.earned_late);
        if self.surplus().saturating_sub(of_others) >= needed {
            self.fair_clock.advance_by(ahead - MAX_LEAD * part);
            return Ok(if self.line.has_waiting() || self.n_paused > 0 {
                share
            } else {
                self.left_of(self.burst(), held.tokens).max(share)
            });
        }
        held.service.is_paused = true;
        self.n_paused += 1;
        // Those that wait too may take it first.
        let turns = part.saturating_mul(i128::from(self.n_paused)) / 4;
        let missing = needed
            .saturating_sub(self.surplus())
            .max(turns.max(self.pause()));
        let others = ahead.saturating_mul(i128::from(self.n_users));
        Err(self.time_to_earn(others.min(missing)))
    }

    /// Returns the surplus that there must be before a transfer that is this far ahead takes some
    /// of it. It rises with the lead, so that transfers share the surplus in whatever order they
    /// ask. `part` is an equal part of a burst: with such a lead it is half of its maximum.
    fn surplus_needed(&self, ahead: i128, part: i128) -> i128 {
        let max = (self.max_surplus() / 2).max(parts(self.quantum()));
        let sixteenths = (ahead.saturating_mul(16) / part).min(1 << 30);
        max / (sixteenths + 16) * sixteenths
    }

    /// Ends the pause of a transfer. Returns whether there was one.
    pub(super) fn resume(&mut self, held: &mut Held) -> bool {
        let was_paused = std::mem::take(&mut held.service.is_paused);
        self.n_paused -= u64::from(was_paused);
        was_paused
    }

    /// Returns the parts beyond half of what can be saved up. Transfers leave them that do not
    /// come for their turns.
    pub(super) fn surplus(&self) -> i128 {
        let max = self.max_surplus();
        self.tokens.saturating_sub(self.most_tokens() - max)
    }

    fn max_surplus(&self) -> i128 {
        let most = self.most_tokens();
        (most - most / 2).max(parts(self.quantum()))
    }
}
