//! Refusal of a transfer before it begins.

use std::thread;
use std::time::Duration;

use crate::common::cli::message;
use crate::pv::display::json;
use crate::pv::display::objects::Objects;
use crate::pv::display::on_progress::{Hook, HookEnv};
use crate::pv::display::reading::Reading;
use crate::pv::ending::{Ending, State};
use crate::pv::settings::{Form, Settings};
use crate::pv::status::Status;
use crate::pv::transfer::inspector::Counted;

/// The interval of checks whether the command of a refused transfer has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The reason why a transfer does not begin.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    pub(crate) message: String,
}

impl Refusal {
    /// Creates a refusal from an error of the kernel about a file.
    pub(crate) fn new(status: Status, name: &str, error: &std::io::Error) -> Self {
        Self {
            status,
            message: format!("{name}: {}", message::worded(error)),
        }
    }

    /// Creates a refusal because the threads of the display cannot be started.
    pub(crate) fn without_display(error: &std::io::Error) -> Self {
        Self {
            status: Status::INTERNAL,
            message: format!("cannot start the display: {}", message::worded(error)),
        }
    }

    /// Reports the refusal to standard error, in a last object, and to the command of
    /// `--on-progress`.
    pub(crate) fn report(self, settings: &Settings, objects: Option<Objects>) -> Status {
        message::warn(&self.message);
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
        let line = json::Line::new(&reading, name, 0, counts_bytes, None).ending(&ending);
        let line = crate::common::progress::json::line(&line);
        if let Some(mut objects) = objects {
            let failed = objects.put_last(&line);
            let lost = objects.close();
            if let Some(message) = failed.or(lost) {
                message::warn(&message);
            }
        } else if settings.form == Form::Json {
            // The status tells of a failure in any case.
            let _ = message::line(line.as_bytes());
        }
        if let Some(hook) = &settings.hook {
            let hook = Hook::new(hook.command.clone(), hook.every);
            let wait = || {
                thread::sleep(POLL_INTERVAL);
                true
            };
            if let Err(error) = hook.finish(HookEnv::new(&reading, ending.state), wait) {
                message::warn(&format!("sh: {error}"));
            }
        }
        self.status
    }
}
