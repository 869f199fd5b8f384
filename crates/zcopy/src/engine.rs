//! The engines, which move bytes, and the trait that lets one driver run them all.
//!
//! An engine never sleeps in `poll(2)`. A byte whose sink answers `EAGAIN` follows this path: the
//! step returns [`Step::Blocked`](crate::step::Step::Blocked), the engine lists the sink in
//! [`Context::awaited`] and returns [`Flow::Wait`], the driver ([`crate::drive`]) polls what is
//! listed, and calls [`Engine::advance`] again, which repeats the step. The byte itself stays in
//! the source, or in the buffer or private pipe of [`CopyState`](crate::copy_state::CopyState).

use crate::bad_blocks::OnSkip;
use crate::context::Context;
use crate::copy_state::Inspector;
#[cfg(feature = "tokio")]
use crate::endpoint::Endpoint;
use crate::error::{Error, RunError};
use crate::options::OnSinkError;
use crate::progress::{Observer, Progress};
use crate::report::{Ended, Report, SinkReport};
use crate::side::Side;
use crate::sys::Kernel;
use crate::wait::Wait;

mod fan_out;
mod filter;
mod io;
mod pair;
mod repeat;

pub(crate) use fan_out::FanOutEngine;
pub(crate) use filter::{FilterEngine, FilterState, Source, read_ahead};
pub(crate) use io::{CallersEnd, CallersReader, CallersWriter, IoEngine};
pub(crate) use pair::PairEngine;
pub(crate) use repeat::RepeatEngine;

/// An engine moves bytes in steps.
pub(crate) trait Engine<'a> {
    type Kernel: Kernel;

    fn context(&mut self) -> &mut Context<'a, Self::Kernel>;

    /// Returns the state of the transfer for an observer; `blocked` is the side that is waited for.
    fn progress(&self, blocked: Option<Side>) -> Progress;

    /// Calls `visit` for each endpoint. Only for engines that sessions have.
    #[cfg(feature = "tokio")]
    fn for_each_endpoint(&mut self, _visit: &mut dyn FnMut(Side, &mut Endpoint<'a>)) {}

    /// Takes one step. After a [`Flow::Wait`] the driver calls it again when the wait is over, and
    /// [`Context::awaited`] then holds the result of the wait.
    fn advance(&mut self) -> Result<Flow, RunError>;

    /// Fills the range that is reserved in a sink, before a stopped transfer ends.
    fn fill_reserved(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Gives back memory and descriptors while no byte is in flight; the next bytes take new ones.
    fn rest(&mut self) {}

    /// Releases reservations, closes reopened files and returns the report.
    fn finish(&mut self, outcome: Result<Ended, RunError>) -> Result<Report, Error>;
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Bytes may have moved, or a call is to be repeated: the driver calls the observer, if there
    /// is one, and then [`Engine::advance`].
    Observe,
    /// The sink received nothing: bytes wait in the buffer or private pipe, or another strategy has
    /// its turn. The driver calls [`Engine::advance`] at once, without a call to the observer.
    Advance,
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

/// What happens to the transfer when a sink fails.
pub(crate) enum SinkPolicy<'a> {
    Always(OnSinkError),
    Ask(Box<dyn FnMut(&SinkReport) -> OnSinkError + Send + 'a>),
}

impl SinkPolicy<'_> {
    /// Returns true if the transfer goes on without this sink.
    pub(crate) fn detaches(&mut self, sink: &SinkReport) -> bool {
        let decision = match self {
            SinkPolicy::Always(decision) => *decision,
            SinkPolicy::Ask(decide) => decide(sink),
        };
        decision == OnSinkError::Detach
    }
}
