//! The clock of a transfer: when its observer is due, and when its pace allows more.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::options::Options;
use crate::pace::Pace;
use crate::progress::{Observer, Progress};
use crate::sys::{Errno, Kernel};

/// Calls the observer, and sleeps for the pace.
///
/// It is asked for the time only where a tick or a rate limit needs it.
pub(crate) struct Clock<'a> {
    observer: Option<Observer<'a>>,
    tick: Option<Duration>,
    /// When the observer was last called; kept for the tick alone.
    observed_at: Duration,
    /// Whether a signal has interrupted a wait since then.
    is_interrupted: bool,
    pace: Option<Keeping<'a>>,
}

/// Whose pace is kept.
enum Keeping<'a> {
    Own(Pace),
    Shared(&'a Pace),
}

impl<'a> Clock<'a> {
    /// A clock that starts now.
    pub(crate) fn new<K: Kernel>(
        kernel: &K,
        options: &Options,
        observer: Option<Observer<'a>>,
    ) -> Self {
        let is_needed = options.rate_limit.is_some() || options.tick.is_some();
        let now = if is_needed {
            kernel.now()
        } else {
            Duration::ZERO
        };
        Self {
            observer,
            tick: options.tick,
            observed_at: now,
            is_interrupted: false,
            pace: options.rate_limit.map(|rate| {
                let pace = Pace::new(rate.get());
                pace.begin(now);
                Keeping::Own(pace)
            }),
        }
    }

    /// Has it keep the caller's pace, if there is one, rather than one of its own.
    pub(crate) fn keep<K: Kernel>(&mut self, kernel: &K, pace: Option<&'a Pace>) {
        if let Some(pace) = pace {
            pace.begin(kernel.now());
            self.pace = Some(Keeping::Shared(pace));
        }
    }

    fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref().map(|pace| match pace {
            Keeping::Own(pace) => pace,
            Keeping::Shared(pace) => pace,
        })
    }

    /// Whether somebody wants to be told the time while nothing moves, so that no call may sleep.
    pub(crate) fn ticks(&self) -> bool {
        self.tick.is_some()
    }

    /// The time, if a wait that begins now is going to be measured.
    pub(crate) fn start_of_wait<K: Kernel>(&self, kernel: &K) -> Duration {
        if self.ticks() {
            kernel.now()
        } else {
            Duration::ZERO
        }
    }

    /// The time left until the observer is due; zero if it is.
    pub(crate) fn until_tick<K: Kernel>(&self, kernel: &K) -> Option<Duration> {
        let tick = self.tick?;
        let since = kernel.now().saturating_sub(self.observed_at);
        Some(tick.saturating_sub(since))
    }

    /// Has the observer called when this wait has ended, which a signal has interrupted: its handler may have told the
    /// observer something.
    pub(crate) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Shows the observer how far the transfer has come.
    pub(crate) fn observe<K: Kernel>(
        &mut self,
        kernel: &K,
        progress: &Progress,
    ) -> ControlFlow<()> {
        self.is_interrupted = false;
        if self.ticks() {
            self.observed_at = kernel.now();
        }
        match &mut self.observer {
            Some(observer) => observer(progress),
            None => ControlFlow::Continue(()),
        }
    }

    /// The same, if it is due.
    pub(crate) fn observe_if_due<K: Kernel>(
        &mut self,
        kernel: &K,
        progress: &Progress,
    ) -> ControlFlow<()> {
        let is_tick = |left: Duration| left.is_zero();
        if self.is_interrupted || self.until_tick(kernel).is_some_and(is_tick) {
            return self.observe(kernel, progress);
        }
        ControlFlow::Continue(())
    }

    /// How many of the `wanted` bytes the pace allows now, after waiting until it allows some. The
    /// observer is shown `progress` at every tick meanwhile.
    pub(crate) fn allowance<K: Kernel>(
        &mut self,
        kernel: &K,
        wanted: u64,
        progress: &Progress,
    ) -> ControlFlow<(), u64> {
        loop {
            let Some(pace) = self.pace() else {
                return ControlFlow::Continue(wanted);
            };
            match pace.allow(kernel.now(), wanted) {
                Ok(allowed) => return ControlFlow::Continue(wanted.min(allowed)),
                // Whoever is observing may change the rate.
                Err(pause) => self.nap(kernel, pause, progress)?,
            }
        }
    }

    /// Notes that `n` bytes were moved.
    pub(crate) fn spend(&self, n: u64) {
        if let Some(pace) = self.pace() {
            pace.spend(n);
        }
    }

    /// Sleeps, and shows the observer `progress` at every tick meanwhile.
    pub(crate) fn pause<K: Kernel>(
        &mut self,
        kernel: &K,
        pause: Duration,
        progress: &Progress,
    ) -> ControlFlow<()> {
        let end = kernel.now() + pause;
        loop {
            let left = end.saturating_sub(kernel.now());
            if left.is_zero() {
                return ControlFlow::Continue(());
            }
            self.nap(kernel, left, progress)?;
        }
    }

    /// Sleeps so long, or until the next tick, of which the observer is told.
    fn nap<K: Kernel>(
        &mut self,
        kernel: &K,
        left: Duration,
        progress: &Progress,
    ) -> ControlFlow<()> {
        let timeout = self.until_tick(kernel).map_or(left, |tick| tick.min(left));
        // Whatever ends the sleep, the clock decides.
        if kernel.poll(&mut [], Some(timeout)) == Err(Errno::INTR) {
            self.interrupt();
        }
        self.observe_if_due(kernel, progress)
    }
}
