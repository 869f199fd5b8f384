//! [`Place`]: where the steps of a session are.

#[cfg(feature = "tokio")]
use std::collections::HashMap;
#[cfg(feature = "tokio")]
use std::os::fd::{OwnedFd, RawFd};

use super::{Progressed, Steps};
#[cfg(feature = "tokio")]
use crate::call_error::CallError;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Ended, Report};
#[cfg(feature = "tokio")]
use crate::stop::Stop;
use crate::sys::Linux;

#[cfg(feature = "tokio")]
use super::shared::Shared;

/// Where the steps of a session are.
pub(crate) enum Place<'a> {
    /// In the session.
    Here(Steps<'a, Linux>),
    /// Where a thread takes them while a task waits, with descriptors of their own.
    #[cfg(feature = "tokio")]
    Shared(Shared<'a>),
}

impl Place<'_> {
    pub(super) fn step(&mut self, max: u64) -> Result<Progressed, Error> {
        match self {
            Self::Here(steps) => steps.step(max),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.with(|steps| steps.step(max)),
        }
    }

    pub(super) fn drive(&mut self) -> Result<Ended, Error> {
        match self {
            Self::Here(steps) => steps.drive(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.with(Steps::drive),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Here(steps) => steps.progress(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.progress(),
        }
    }

    /// Returns whether the next step waits for the sink with this index.
    pub(crate) fn is_blocked_on(&self, index: usize) -> bool {
        match self {
            Self::Here(steps) => steps.is_blocked_on(index),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.is_blocked_on(index),
        }
    }

    /// Returns whether the next step follows at once when the reader of this sink closes.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_watching(&self, index: usize) -> bool {
        match self {
            Self::Here(steps) => steps.is_watching(index),
            Self::Shared(shared) => shared.is_watching(index),
        }
    }

    pub(super) fn finish(&mut self) -> Result<Report, Error> {
        match self {
            Self::Here(steps) => steps.finish(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.finish(),
        }
    }

    /// Returns whether a step may wait for a disk.
    #[cfg(feature = "tokio")]
    pub(crate) fn needs_disk(&mut self) -> bool {
        match self {
            Self::Here(steps) => steps.needs_disk(),
            Self::Shared(_) => true,
        }
    }

    /// Returns the caller's `Stop`.
    #[cfg(feature = "tokio")]
    pub(crate) fn stop(&mut self) -> Option<Stop> {
        match self {
            Self::Here(steps) => steps.stop(),
            Self::Shared(shared) => shared.stop(),
        }
    }

    /// Ends the transfer by a failure of the wait between two steps.
    #[cfg(feature = "tokio")]
    pub(crate) fn fail(&mut self, failure: CallError) -> Error {
        match self {
            Self::Here(steps) => steps.fail(failure.into()),
            Self::Shared(shared) => shared.fail(failure.into()),
        }
    }

    /// Puts the steps where a thread can take them, and lets them use these duplicates of their
    /// descriptors.
    #[cfg(feature = "tokio")]
    pub(crate) fn share(&mut self, duplicates: HashMap<RawFd, OwnedFd>) {
        if let Self::Here(_) = self
            && let Self::Here(steps) = std::mem::replace(self, Self::Shared(Shared::default()))
        {
            *self = Self::Shared(Shared::new(steps, duplicates));
        }
    }
}
