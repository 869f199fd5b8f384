//! [`SessionSteps`]: where the steps of a session are.

#[cfg(feature = "tokio")]
use std::collections::HashMap;
#[cfg(feature = "tokio")]
use std::os::fd::{OwnedFd, RawFd};

use super::{Progressed, Steps};
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Ended, Report};
use crate::sys::Linux;
use crate::wait::Event;

#[cfg(feature = "tokio")]
use super::shared::Shared;

/// Where the steps of a session are.
pub(crate) enum SessionSteps<'a> {
    /// In the session.
    Own(Steps<'a, Linux>),
    /// Where a thread takes them while a task waits, with descriptors of their own.
    #[cfg(feature = "tokio")]
    Shared(Shared<'a>),
}

impl SessionSteps<'_> {
    pub(super) fn step(&mut self, max: u64) -> Result<Progressed, Error> {
        match self {
            Self::Own(steps) => steps.step(max),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.with(|steps| steps.step(max)),
        }
    }

    pub(super) fn drive(&mut self) -> Result<Ended, Error> {
        match self {
            Self::Own(steps) => steps.drive(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.with(Steps::drive),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Own(steps) => steps.progress(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.progress(),
        }
    }

    /// Returns the event that the next step awaits at the sink with this index.
    pub(crate) fn awaited_event(&self, index: usize) -> Option<Event> {
        match self {
            Self::Own(steps) => steps.awaited_event(index),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.awaited_event(index),
        }
    }

    pub(super) fn finish(&mut self) -> Result<Report, Error> {
        match self {
            Self::Own(steps) => steps.finish(),
            #[cfg(feature = "tokio")]
            Self::Shared(shared) => shared.finish(),
        }
    }

    /// Returns whether a step may wait for a disk.
    #[cfg(feature = "tokio")]
    pub(crate) fn needs_disk(&mut self) -> bool {
        match self {
            Self::Own(steps) => steps.needs_disk(),
            Self::Shared(_) => true,
        }
    }

    /// Puts the steps where a thread can take them, and lets them use these duplicates of their
    /// descriptors.
    #[cfg(feature = "tokio")]
    pub(crate) fn share(&mut self, duplicates: HashMap<RawFd, OwnedFd>) {
        if let Self::Own(_) = self
            && let Self::Own(steps) = std::mem::replace(self, Self::Shared(Shared::default()))
        {
            *self = Self::Shared(Shared::new(steps, duplicates));
        }
    }
}
