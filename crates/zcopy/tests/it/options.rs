//! Options that a test sets in some of its cases only.

use std::time::Duration;

use zcopy::{Repeat, Strategy, Transfer};

/// The builders of a transfer and of a repetition, with options that may be `None`: such an option
/// keeps its default.
pub(crate) trait MaybeOptions: Sized {
    fn maybe_strategy(self, strategy: Option<Strategy>) -> Self;
    fn maybe_tick(self, tick: Option<Duration>) -> Self;
}

impl MaybeOptions for Transfer<'_> {
    fn maybe_strategy(self, strategy: Option<Strategy>) -> Self {
        match strategy {
            Some(strategy) => self.strategy(strategy),
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

impl MaybeOptions for Repeat<'_> {
    fn maybe_strategy(self, strategy: Option<Strategy>) -> Self {
        match strategy {
            Some(strategy) => self.strategy(strategy),
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
