//! How a transfer ends, for programs.

use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hook::{Hook, HookEnv};
use super::json;
use super::objects::Objects;
use super::reading::Reading;
use super::settings::{Form, Settings};
use super::status::Status;
use super::witness::Counted;
use crate::exit;

/// How often to look whether the command of a refused transfer is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Whether a transfer runs, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Running,
    /// Every input has been moved, and the exit status is 0.
    Done,
    Failed,
    /// A signal ended it.
    Interrupted,
}

impl State {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How a transfer ended.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) state: State,
    /// The first message about what failed.
    pub(crate) error: Option<String>,
    /// The digest of all bytes, if one is wanted and all of them have arrived.
    pub(crate) digest: Option<String>,
}

impl Ending {
    /// A signal has ended the transfer.
    pub(crate) fn interrupted() -> Self {
        Self {
            state: State::Interrupted,
            error: None,
            digest: None,
        }
    }
}

/// Why a transfer does not begin.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Refusal {
    /// A refusal because of what the kernel says about a file.
    pub(crate) fn of(status: Status, name: &str, error: &std::io::Error) -> Self {
        Self {
            status,
            message: format!("{name}: {}", exit::worded(error)),
        }
    }

    /// Reports it to standard error, in a last object, and to the command of `--on-progress`.
    pub(crate) fn report(self, settings: &Settings, objects: Option<Objects>) -> Status {
        exit::say(&self.message);
        let reading = Reading {
            is_over: true,
            ..Reading::before(jiff::Zoned::default(), None)
        };
        let ending = Ending {
            state: State::Failed,
            error: Some(self.message),
            digest: None,
        };
        let counts_bytes = settings.counted == Counted::Bytes;
        let name = settings.name.as_deref();
        let line = json::Line::of(&reading, name, 0, counts_bytes, None).ending(&ending);
        let line = crate::json::line(&line);
        if let Some(mut objects) = objects {
            // The transfer has failed anyway.
            let _ = objects.put_last(&line);
        } else if settings.form == Form::Json {
            exit::tell(line.as_bytes());
        }
        if let Some(hook) = &settings.hook {
            let hook = Hook::new(hook.command.clone(), hook.every);
            let wait = || {
                thread::sleep(POLL_INTERVAL);
                true
            };
            if let Err(error) = hook.finish(HookEnv::of(&reading, ending.state), wait) {
                exit::say(&format!("sh: {error}"));
            }
        }
        self.status
    }
}
