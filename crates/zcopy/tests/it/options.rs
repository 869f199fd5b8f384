//! Options, and further sinks, that a test has in only some of its cases.

use std::os::fd::AsFd;
use std::time::Duration;

use zcopy::{FanOut, Repeat, Report, Strategy, Transfer};

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
impl_maybe_options!([Source] FanOut<'_, Source>);
impl_maybe_options!([] Repeat<'_>);

/// A transfer or a fan-out.
pub(crate) trait Runs: MaybeOptions {
    fn run(self) -> zcopy::Result<Report>;
}

impl<Source: AsFd, Sink: AsFd> Runs for Transfer<'_, Source, Sink> {
    fn run(self) -> zcopy::Result<Report> {
        self.run()
    }
}

impl<Source: AsFd> Runs for FanOut<'_, Source> {
    fn run(self) -> zcopy::Result<Report> {
        self.run()
    }
}

/// Runs a transfer, or, if there are others, the fan-out to its sink and the others.
pub(crate) fn run_also_to<'a, Source: AsFd, Sink: AsFd + Send + 'a, Other: AsFd + Send + 'a>(
    transfer: Transfer<'a, Source, Sink>,
    others: impl IntoIterator<Item = Other>,
) -> zcopy::Result<Report> {
    let mut others = others.into_iter();
    match others.next() {
        Some(other) => others.fold(transfer.also_to(other), FanOut::also_to).run(),
        None => transfer.run(),
    }
}
