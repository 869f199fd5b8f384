//! The events that the display thread receives, and their data.

use std::ffi::OsString;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::signals;
use crate::pv::ending::Ending;
use crate::pv::remote::answer::Incoming;
use crate::pv::settings::Side;
use crate::pv::shared_progress::Position;

/// An event for the display thread.
#[derive(Debug)]
pub(crate) enum Event {
    Signal(signals::Event),
    /// Another phase begins. Its progress starts at zero.
    Phase(Phase),
    /// A message for the user.
    Message {
        text: String,
        /// Never sent to. It is dropped when the message has been written.
        written: SyncSender<()>,
    },
    /// An input has ended.
    EndOfFile(FinishedInput),
    /// A request of another process.
    Remote(Incoming),
    /// The total of the phase has changed. The values are in counted units and in bytes.
    Resize(Option<u64>, Option<u64>),
    /// The last byte has been moved.
    Moved(Side),
    /// One side of a command has ended.
    Over(Side, Ending),
}

impl From<signals::Event> for Event {
    fn from(event: signals::Event) -> Self {
        Self::Signal(event)
    }
}

impl From<Incoming> for Event {
    fn from(incoming: Incoming) -> Self {
        Self::Remote(incoming)
    }
}

/// A part of a transfer that is shown separately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase {
    /// The name, if there is one.
    pub(crate) name: Option<String>,
    /// The total in counted units, if it is known.
    pub(crate) total: Option<u64>,
    /// The total in bytes, if lines are counted and their number is unknown.
    pub(crate) bytes: Option<u64>,
    /// The position at which it begins.
    pub(crate) from: Position,
}

/// An input that has ended.
#[derive(Debug)]
pub(crate) struct FinishedInput {
    pub(crate) name: OsString,
    pub(crate) counted: u64,
    pub(crate) took: Duration,
}
