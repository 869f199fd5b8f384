//! [`ErrorPolicy`]: reports failures, and decides whether the copy continues.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use rustix::io::Errno;
use zcopy::OnSinkError;

use super::mode::Mode;
use super::output::STANDARD_OUTPUT;
use crate::common::cli::message;
use crate::common::cli::quote::quoted;

/// An output has failed, and the mode ends the program then.
pub(super) struct Abort;

/// Reports failures by the mode of `--output-error`.
pub(super) struct ErrorPolicy {
    mode: Mode,
    has_reported: AtomicBool,
    /// Whether standard output is closed and the first byte of input will be reported as lost.
    stdout_is_closed: AtomicBool,
}

impl ErrorPolicy {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            has_reported: AtomicBool::new(false),
            stdout_is_closed: AtomicBool::new(false),
        }
    }

    /// Returns whether a failure has been reported.
    pub(super) fn has_reported(&self) -> bool {
        self.has_reported.load(Ordering::Relaxed)
    }

    /// Reports a failure that does not end the program.
    pub(super) fn report(&self, error: &anyhow::Error) {
        self.has_reported.store(true, Ordering::Relaxed);
        message::error(error);
    }

    /// Defers the report of a closed standard output until there is a byte to write, as GNU tee
    /// learns it from its first write(2).
    pub(super) fn report_closed_stdout_later(&self) {
        self.stdout_is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`note_input`](Self::note_input) has something to report.
    pub(super) fn waits_for_input(&self) -> bool {
        self.stdout_is_closed.load(Ordering::Relaxed)
    }

    /// Reports a closed standard output, because there is a byte to write.
    pub(super) fn note_input(&self) {
        if self.stdout_is_closed.swap(false, Ordering::Relaxed) {
            let cause = io::Error::from(Errno::BADF);
            self.report(&anyhow!(cause).context(quoted(STANDARD_OUTPUT.as_ref())));
        }
    }

    /// Decides what the library does after an output has failed. Reports the failure if the mode
    /// says so.
    pub(super) fn on_sink_error(&self, name: &OsStr, cause: io::Error) -> OnSinkError {
        if !self.mode.reports(&cause) {
            return OnSinkError::Detach;
        }
        // Every other failure than a closed reader follows a write, and so a byte of input.
        self.note_input();
        self.report(&anyhow!(cause).context(quoted(name)));
        match self.after_error() {
            Err(Abort) => OnSinkError::Stop,
            Ok(()) => OnSinkError::Detach,
        }
    }

    /// Decides whether the program goes on after the failure of an output that was reported.
    pub(super) fn after_error(&self) -> Result<(), Abort> {
        if self.mode.exits() {
            Err(Abort)
        } else {
            Ok(())
        }
    }

    /// Reports an output that failed outside of a transfer, and decides whether the program
    /// continues.
    pub(super) fn output_failed(&self, name: &OsStr, cause: io::Error) -> Result<(), Abort> {
        match self.on_sink_error(name, cause) {
            OnSinkError::Stop => Err(Abort),
            _ => Ok(()),
        }
    }
}
