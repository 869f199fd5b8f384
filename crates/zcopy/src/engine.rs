//! The loops that move bytes, and what every one of them answers.
//!
//! A loop never waits for readiness: it says what it waits for, and a driver waits.

use crate::bad_blocks::OnSkip;
use crate::context::Context;
use crate::copy_state::Inspector;
use crate::error::{Error, RunError};
use crate::options::OnSinkError;
use crate::progress::{Observer, Progress};
use crate::report::{Ended, Report, SinkReport};
use crate::side::Side;
use crate::sys::Kernel;
use crate::wait::Wait;

mod fan_out;
mod filter;
mod pair;
mod repeat;

pub(crate) use fan_out::FanOutEngine;
pub(crate) use filter::{FilterEngine, FilterState, Source, read_ahead};
pub(crate) use pair::PairEngine;
pub(crate) use repeat::RepeatEngine;

/// A loop that moves bytes in steps.
pub(crate) trait Engine<'a> {
    type Kernel: Kernel;

    fn context(&mut self) -> &mut Context<'a, Self::Kernel>;

    /// What an observer is told.
    fn progress(&self, blocked: Option<Side>) -> Progress;

    /// Takes one step. After a [`Flow::Wait`] it is called again when the wait is over, and finds in
    /// [`Context::awaited`] what ended it.
    fn advance(&mut self) -> Result<Flow, RunError>;

    /// Fills the ranges that are reserved of a sink, before the transfer stops.
    fn fill_reserved(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Puts all endpoints in order, and says what was done.
    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error>;
}

/// What a loop answers after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It goes on, and the observer is called.
    Continue,
    /// It goes on by another strategy; nothing moved.
    NextStrategy,
    Wait(Wait),
    Ended(Ended),
}

/// The caller's callbacks.
#[derive(Default)]
pub(crate) struct Callbacks<'a> {
    pub(crate) observer: Option<Observer<'a>>,
    pub(crate) inspect: Option<Inspector<'a>>,
    pub(crate) on_skip: Option<OnSkip<'a>>,
}

/// Who decides what becomes of a transfer when a sink fails.
pub(crate) enum SinkPolicy<'a> {
    Always(OnSinkError),
    StepBudget(Box<dyn FnMut(&SinkReport) -> OnSinkError + 'a>),
}

impl SinkPolicy<'_> {
    /// Whether the transfer goes on without this sink.
    pub(crate) fn detaches(&mut self, sink: &SinkReport) -> bool {
        let decision = match self {
            SinkPolicy::Always(decision) => *decision,
            SinkPolicy::StepBudget(budget) => budget(sink),
        };
        decision == OnSinkError::Detach
    }
}
