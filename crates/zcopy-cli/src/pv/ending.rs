//! The end of a transfer, as programs see it.

use serde::{Deserialize, Serialize};

use crate::pv::status::Status;

/// The state of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    /// The exit status is 0.
    Done,
    Failed,
    /// A signal ended the transfer.
    Interrupted,
}

impl State {
    /// Returns the state at the end of a transfer that no signal has interrupted. If SIGPIPE is
    /// ignored, a reader that leaves kills nothing, and the exit status is 0.
    pub(crate) fn at_end(status: Status, is_killed_by_sigpipe: bool) -> Self {
        match status {
            Status::GOOD if !is_killed_by_sigpipe => Self::Done,
            _ => Self::Failed,
        }
    }

    /// Returns the name of the state.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The state and the result of a transfer at its end.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) state: State,
    /// The first error message.
    pub(crate) error: Option<String>,
    /// The digest of all bytes, if one is wanted and all bytes have arrived.
    pub(crate) digest: Option<String>,
}

impl Ending {
    /// Creates the ending of a transfer that a signal ended.
    pub(crate) fn interrupted() -> Self {
        Self {
            state: State::Interrupted,
            error: None,
            digest: None,
        }
    }
}
