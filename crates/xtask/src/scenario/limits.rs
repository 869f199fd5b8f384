//! How long a program may take.

use std::time::Duration;

/// The time limits of a program and of its peers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimits {
    multiplier: u32,
}

impl TimeLimits {
    /// The usual limits, multiplied for a slow machine.
    pub(crate) fn multiplied(multiplier: u32) -> Self {
        Self { multiplier }
    }

    /// The time limit of a program. The sweep takes a program that needs longer for one that hangs.
    pub(super) fn wall(self) -> Duration {
        Duration::from_secs(20) * self.multiplier
    }

    /// The limit of a program under the tracer, which kills it before the sweep does.
    pub(crate) fn traced(self) -> Duration {
        Duration::from_secs(15) * self.multiplier
    }

    /// The limit of the program's processor time. `prlimit` sets it.
    pub(super) fn processor(self) -> Duration {
        Duration::from_secs(5) * self.multiplier
    }

    /// How long a client waits for a server that says nothing. It is shorter than a program's time.
    pub(super) fn silence(self) -> Duration {
        Duration::from_secs(10) * self.multiplier
    }
}
