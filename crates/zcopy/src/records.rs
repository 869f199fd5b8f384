//! Records: stretches of bytes that end in a delimiter, counted, limited and paced on their way through the
//! buffer.

use std::time::Duration;

use crate::options::RecordOptions;
use crate::rate::TokenBucket;
use crate::sys::Kernel;
use count::{count, end_of_nth};

mod count;

/// The records of a transfer, where somebody counts them.
///
/// Bytes are counted when the sink has accepted them. With a limit or a rate those in the buffer are counted
/// before, to know whether all may go; then that number serves for both.
#[derive(Debug, Default)]
pub(crate) struct Records {
    delimiter: Option<u8>,
    limit: Option<u64>,
    rate_limiter: Option<TokenBucket>,
    /// What the rate limit allows and has not been used.
    granted: u64,
    /// Delimiters among the bytes that the sink has accepted.
    n: u64,
    /// How many bytes that wait in the buffer have been counted, and the delimiters among them.
    waiting: Option<(usize, u64)>,
}

/// What the sink is given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Any number of bytes.
    Stream,
    /// A message of a datagram or seqpacket socket, which goes whole or not at all.
    Message,
}

/// How many of the bytes that wait may go to the sink now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// So many, at least 1.
    Bytes(usize),
    /// None, until the rate limit allows it.
    Later,
    /// None at all: they are a message, which goes beyond the limit.
    Never,
}

impl Records {
    /// None yet; the rate limit starts now.
    pub(crate) fn new<K: Kernel>(kernel: &K, counting: RecordOptions) -> Self {
        Self {
            delimiter: counting.delimiter(),
            limit: counting.limit,
            rate_limiter: counting
                .rate
                .map(|rate| TokenBucket::new(rate.get(), kernel.now())),
            ..Self::default()
        }
    }

    /// Delimiters among the bytes that the sink has accepted.
    pub(crate) fn count(&self) -> u64 {
        self.n
    }

    /// Whether the last record that is wanted has gone.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.left() == 0
    }

    fn left(&self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit - self.n)
    }

    /// How long the rate limit holds back what waits in the buffer. None if some of it may go.
    pub(crate) fn pause<K: Kernel>(&mut self, kernel: &K, waiting: &[u8]) -> Option<Duration> {
        self.rate_limiter?;
        let wanted = self.count_waiting(waiting).min(self.left());
        if wanted <= self.granted {
            return None;
        }
        match self.rate_limiter.as_mut()?.allow(kernel.now(), wanted) {
            Ok(granted) => {
                self.granted = granted;
                None
            }
            Err(pause) => Some(pause),
        }
    }

    /// How much of what waits in the buffer may go: all if the limit and the rate limit allow it, otherwise up to the end
    /// of a record. A message goes whole or not at all.
    pub(crate) fn admit(&mut self, waiting: &[u8], framing: Framing) -> Admission {
        let left = self.left();
        let granted = self.rate_limiter.map_or(u64::MAX, |_| self.granted);
        let Some(delimiter) = self.delimiter else {
            return Admission::Bytes(waiting.len());
        };
        // A record is at least a byte.
        if left.min(granted) > waiting.len() as u64 {
            return Admission::Bytes(waiting.len());
        }
        let n = self.count_waiting(waiting);
        let ends_in_record = waiting.last() == Some(&delimiter);
        let is_within_limit = n < left || n == left && ends_in_record;
        if framing == Framing::Message {
            return match is_within_limit {
                true if n > 0 && granted == 0 => Admission::Later,
                true => Admission::Bytes(waiting.len()),
                false => Admission::Never,
            };
        }
        if is_within_limit && n <= granted {
            return Admission::Bytes(waiting.len());
        }
        match left.min(granted) {
            0 => Admission::Later,
            most => Admission::Bytes(end_of_nth(waiting, delimiter, most)),
        }
    }

    /// Whether the last record that is wanted is among the bytes that wait.
    pub(crate) fn is_last_among(&mut self, waiting: &[u8]) -> bool {
        self.limit.is_some() && self.count_waiting(waiting) >= self.left()
    }

    /// Accounts for bytes that the sink has accepted.
    pub(crate) fn accepted(&mut self, bytes: &[u8]) {
        let Some(delimiter) = self.delimiter else {
            return;
        };
        let n = match self.waiting {
            Some((len, all)) if len == bytes.len() => all,
            _ => count(bytes, delimiter),
        };
        let rest = |(len, all)| Some((usize::checked_sub(len, bytes.len())?, all - n));
        self.waiting = self.waiting.and_then(rest).filter(|(len, _)| *len > 0);
        self.n += n;
        self.granted = self.granted.saturating_sub(n);
        if let Some(rate_limiter) = &mut self.rate_limiter {
            rate_limiter.spend(n);
        }
    }

    /// Counts the last `n` zeros as not accepted after all.
    pub(crate) fn take_back_zeros(&mut self, n: u64) {
        if self.delimiter == Some(0) {
            self.n -= n;
        }
    }

    /// Counted once, unless more have come.
    fn count_waiting(&mut self, waiting: &[u8]) -> u64 {
        let Some(delimiter) = self.delimiter else {
            return 0;
        };
        match self.waiting {
            Some((len, n)) if len == waiting.len() => n,
            _ => {
                let n = count(waiting, delimiter);
                self.waiting = Some((waiting.len(), n));
                n
            }
        }
    }
}
