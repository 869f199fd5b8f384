//! A transfer that is shown, with the handles by which the display stops or changes it.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::event::Phase;
use crate::common::terminal::tty;
use crate::pv::cleanup::Cleanup;
use crate::pv::remote::control::Control;
use crate::pv::settings::{Form, Output, Settings};
use crate::pv::shared_progress::SharedProgress;
use crate::pv::stop::Stop;
use crate::pv::transfer::output_pipe::OutputPipe;

/// A transfer that is shown.
pub(crate) struct DisplayedTransfer {
    pub(crate) settings: Arc<Settings>,
    pub(crate) progress: Arc<SharedProgress>,
    /// The pipe whose unread bytes have not arrived yet.
    pub(crate) output: Option<Arc<OutputPipe>>,
    /// The changes to revert if a signal ends the process. No other transfer shares this.
    pub(crate) cleanup: Arc<Cleanup>,
    pub(crate) phase: Phase,
}

/// The handles by which the display thread stops or changes a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Handles {
    /// Stops the transfer when a signal ends the process.
    pub(crate) stop: Arc<Stop>,
    /// The settings that other processes may change.
    pub(crate) control: Arc<Control>,
    /// Whether the bytes go to the terminal of the display. The display then has to know the
    /// position of each byte.
    pub(crate) shares_terminal: bool,
}

impl Handles {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            stop: Arc::default(),
            control: Arc::new(Control::new(settings.rate_limit.map(NonZeroU64::get))),
            shares_terminal: shares_terminal(settings),
        }
    }
}

/// Returns whether the bytes go to the terminal of the display.
pub(crate) fn shares_terminal(settings: &Settings) -> bool {
    matches!(settings.output, Output::Stdout)
        && settings.form != Form::Quiet
        && tty::is_same(rustix::stdio::stdout(), rustix::stdio::stderr())
}
