//! Options that a test sets in only some of its cases.

use std::os::fd::AsFd;
use std::time::Duration;

use zcopy::{Repeat, Strategy, Transfer};

/// Options of a transfer or a repetition that may be `None`, which keeps the default.
pub(crate) trait MaybeOptions: Sized {
    fn maybe_strategy(self, strategy: Option<Strategy>) -> Self;
    fn maybe_limit(self, bytes: Option<u64>) -> Self;
    fn maybe_rate_limit(self, bytes_per_second: Option<u64>) -> Self;
    fn maybe_tick(self, tick: Option<Duration>) -> Self;
}

macro_rules! impl_maybe_options {
    ([$($ends:ident),*] $builder:ty) => {
        impl<$($ends: AsFd),*> MaybeOptions for $builder {
            fn maybe_strategy(self, strategy: Option<Strategy>) -> Self {
                match strategy {
                    Some(strategy) => self.strategy(strategy),
                    None => self,
                }
            }

            fn maybe_limit(self, bytes: Option<u64>) -> Self {
                match bytes {
                    Some(bytes) => self.limit(bytes),
                    None => self,
                }
            }

            fn maybe_rate_limit(self, bytes_per_second: Option<u64>) -> Self {
                match bytes_per_second {
                    Some(rate) => self.rate_limit(rate),
                    None => self,
                }
            }

            fn maybe_tick(self, tick: Option<Duration>) -> Self {
                match tick {
                    Some(tick) => self.tick(tick),
                    None => self,
                }
            }
        }
    };
}

impl_maybe_options!([Source, Sink] Transfer<'_, Source, Sink>);
impl_maybe_options!([] Repeat<'_>);
