//! Counts the records of a transfer, and limits their number or rate. A record is a range of bytes
//! that ends in a delimiter.

use std::time::Duration;

use crate::options::RecordOptions;
use crate::rate::{Account, RateLimiter};
use crate::sys::Kernel;
use count::{count, end_of_nth};

mod count;

/// The records of a transfer that counts them.
///
/// Bytes are counted when the sink has accepted them. With a limit or a rate, the bytes in the
/// buffer are counted earlier, to know whether all may go to the sink; that number is then reused.
#[derive(Debug, Default)]
pub(crate) struct Records {
    delimiter: Option<u8>,
    limit: Option<u64>,
    /// The account at the rate limiter of this transfer alone, or at the caller's. It holds the
    /// records that the rate limit allows and that have not gone to the sink yet.
    account: Option<Account>,
    /// Delimiters among the bytes that the sink has accepted.
    count: u64,
    /// How many bytes at the start of the buffer have been counted, and how many delimiters they
    /// hold.
    counted: Option<(usize, u64)>,
}

/// The unit in which the sink accepts bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A write may end after any byte.
    Stream,
    /// A write is one message of a datagram or seqpacket socket, which goes whole or not at all.
    Message,
}

/// How many of the bytes in the buffer may go to the sink now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// This many bytes, at least 1.
    Bytes(usize),
    /// No bytes until the rate limit allows them.
    Later,
    /// No bytes ever: the message exceeds the limit.
    Never,
}

impl Records {
    /// Creates a count of 0, with a rate limit that starts now.
    pub(crate) fn new<K: Kernel>(kernel: &K, options: RecordOptions) -> Self {
        Self {
            delimiter: options.delimiter(),
            limit: options.limit,
            account: options
                .rate
                .map(|rate| Account::open(RateLimiter::new(rate.get()), kernel.now())),
            ..Self::default()
        }
    }

    /// Uses the caller's rate limiter, if there is one, instead of its own.
    pub(crate) fn share_rate_limiter<K: Kernel>(
        &mut self,
        kernel: &K,
        rate_limiter: Option<RateLimiter>,
    ) {
        if let Some(rate_limiter) = rate_limiter {
            self.account = Some(Account::open(rate_limiter, kernel.now()));
        }
    }

    /// Returns the number of delimiters among the bytes that the sink has accepted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns whether the sink has accepted as many records as the limit allows.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.records_left() == 0
    }

    fn records_left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit - self.count)
    }

    /// Returns how long the rate limit delays the bytes in the buffer, or `None` if some of them
    /// may go now.
    pub(crate) fn pause<K: Kernel>(&mut self, kernel: &K, waiting: &[u8]) -> Option<Duration> {
        let allowed = self.account.as_ref()?.held();
        let wanted = self.count_waiting(waiting).min(self.records_left());
        if wanted <= allowed {
            return None;
        }
        self.account.as_mut()?.take(kernel.now(), wanted, 0).err()
    }

    /// Gives back to the rate limiter what has been taken for records that the sink has not
    /// accepted.
    pub(crate) fn give_back(&mut self) {
        if let Some(account) = &mut self.account {
            account.give_back(0);
        }
    }

    /// Returns how many of the bytes in the buffer may go: all if the limit and the rate limit
    /// allow it, otherwise up to the end of a record. A message goes whole or not at all.
    pub(crate) fn admit(&mut self, waiting: &[u8], framing: Framing) -> Admission {
        let left = self.records_left();
        let allowed = self.account.as_ref().map_or(u64::MAX, Account::held);
        let Some(delimiter) = self.delimiter else {
            return Admission::Bytes(waiting.len());
        };
        // A record has at least one byte, so that the buffer cannot hold more records than bytes.
        if left.min(allowed) > waiting.len() as u64 {
            return Admission::Bytes(waiting.len());
        }
        let n = self.count_waiting(waiting);
        let ends_in_record = waiting.last() == Some(&delimiter);
        let is_within_limit = n < left || n == left && ends_in_record;
        if framing == Framing::Message {
            return match is_within_limit {
                true if n > 0 && allowed == 0 => Admission::Later,
                true => Admission::Bytes(waiting.len()),
                false => Admission::Never,
            };
        }
        if is_within_limit && n <= allowed {
            return Admission::Bytes(waiting.len());
        }
        match left.min(allowed) {
            0 => Admission::Later,
            most => Admission::Bytes(end_of_nth(waiting, delimiter, most)),
        }
    }

    /// Returns whether the bytes in the buffer hold the last record that the limit allows.
    pub(crate) fn is_last_among(&mut self, waiting: &[u8]) -> bool {
        self.limit.is_some() && self.count_waiting(waiting) >= self.records_left()
    }

    /// Counts bytes that the sink has accepted.
    pub(crate) fn accepted(&mut self, bytes: &[u8]) {
        let Some(delimiter) = self.delimiter else {
            return;
        };
        let n = match self.counted {
            Some((len, n)) if len == bytes.len() => n,
            _ => count(bytes, delimiter),
        };
        let rest = |(len, all)| Some((usize::checked_sub(len, bytes.len())?, all - n));
        self.counted = self.counted.and_then(rest).filter(|(len, _)| *len > 0);
        self.count += n;
        if let Some(account) = &mut self.account {
            account.spend(n);
        }
    }

    /// Subtracts `n` zeros at the end that the sink has not accepted after all.
    pub(crate) fn take_back_zeros(&mut self, n: u64) {
        if self.delimiter == Some(0) {
            self.count -= n;
        }
    }

    /// Returns the number of delimiters in the buffer. Counts them again only if more bytes have
    /// arrived.
    fn count_waiting(&mut self, waiting: &[u8]) -> u64 {
        let Some(delimiter) = self.delimiter else {
            return 0;
        };
        match self.counted {
            Some((len, n)) if len == waiting.len() => n,
            _ => {
                let n = count(waiting, delimiter);
                self.counted = Some((waiting.len(), n));
                n
            }
        }
    }
}
