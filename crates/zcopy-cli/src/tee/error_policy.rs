//! What goes wrong on the way, said when it happens.

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use rustix::io::Errno;
use zcopy::OnSinkError;

use super::Mode;
use super::output::STANDARD_OUTPUT;
use crate::exit;
use crate::quote::quoted;

/// All is to end at once: an output has failed, and the mode wants it so.
pub(super) struct Abandoned;

/// What has been complained about.
pub(super) struct Troubles {
    mode: Mode,
    any: AtomicBool,
    /// Whether standard output is going to refuse the first byte that comes.
    stdout_is_mute: AtomicBool,
}

impl Troubles {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            any: AtomicBool::new(false),
            stdout_is_mute: AtomicBool::new(false),
        }
    }

    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Complains, and all goes on.
    pub(super) fn complain(&self, error: &anyhow::Error) {
        self.any.store(true, Ordering::Relaxed);
        exit::complain(error);
    }

    /// Has standard output complained about as soon as there is something to write, and not before: who
    /// has nothing to write never learns that it is closed.
    pub(super) fn expect_of_stdout(&self) {
        self.stdout_is_mute.store(true, Ordering::Relaxed);
    }

    /// Whether it matters when the first byte comes.
    pub(super) fn expects_bytes(&self) -> bool {
        self.stdout_is_mute.load(Ordering::Relaxed)
    }

    /// There is something to write.
    pub(super) fn bytes_have_come(&self) {
        if self.stdout_is_mute.swap(false, Ordering::Relaxed) {
            let cause = io::Error::from(Errno::BADF);
            self.complain(&anyhow!(cause).context(quoted(STANDARD_OUTPUT.as_ref())));
        }
    }

    /// An output has failed, or could not be opened: whether the others go on.
    pub(super) fn of_output(&self, name: &OsStr, cause: io::Error) -> OnSinkError {
        if !self.mode.diagnoses(&cause) {
            return OnSinkError::Detach;
        }
        // Only a reader that has gone is found out before.
        self.bytes_have_come();
        self.complain(&anyhow!(cause).context(quoted(name)));
        match self.ends_all() {
            Err(Abandoned) => OnSinkError::Stop,
            Ok(()) => OnSinkError::Detach,
        }
    }

    /// What a failure of an output means that has been complained about.
    pub(super) fn ends_all(&self) -> Result<(), Abandoned> {
        if self.mode.exits() {
            Err(Abandoned)
        } else {
            Ok(())
        }
    }

    /// The same, where it is not the library that asks.
    pub(super) fn lose(&self, name: &OsStr, cause: io::Error) -> Result<(), Abandoned> {
        match self.of_output(name, cause) {
            OnSinkError::Stop => Err(Abandoned),
            _ => Ok(()),
        }
    }
}
