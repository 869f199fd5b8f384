//! Standard output and standard error, with a progress line.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Verbosity;
use super::screen::Screen;
use crate::common::cli::message;
use crate::common::io::fd_writer::FdWriter;
use crate::common::sys;
use crate::common::terminal::capabilities::Capabilities;
use crate::dircopy::stop_flag::StopFlag;

/// How often the progress line is drawn on a terminal.
const FRAME_INTERVAL: Duration = Duration::from_millis(200);

/// How often `--json` writes the progress. Programs may keep all of it.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);

/// The progress is averaged over this time: long enough for a rate that can be read, short enough
/// for one that is current.
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Standard output for results and events, and standard error for messages with a progress line
/// below them.
#[derive(Debug)]
pub(crate) struct Console {
    verbosity: Verbosity,
    has_line: bool,
    screen: Mutex<Screen>,
    stdout: Mutex<FdWriter>,
}

impl Console {
    /// Opens both. From now on a terminal does not stop this process if it writes in the
    /// background.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FdWriter::on`].
    pub(crate) fn new(verbosity: Verbosity) -> io::Result<Self> {
        sys::ignore_sigttou();
        Self::on(
            verbosity,
            rustix::stdio::stdout(),
            rustix::stdio::stderr(),
            Capabilities::from_env(),
        )
    }

    /// Writes to these descriptors.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FdWriter::on`].
    pub(super) fn on(
        verbosity: Verbosity,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
        capabilities: Capabilities,
    ) -> io::Result<Self> {
        let screen = match verbosity {
            Verbosity::Normal => Screen::on(stderr, capabilities)?,
            Verbosity::Quiet | Verbosity::Json => Screen::without_line(stderr)?,
        };
        Ok(Self {
            verbosity,
            has_line: screen.has_line(),
            screen: Mutex::new(screen),
            stdout: Mutex::new(FdWriter::on(stdout)?),
        })
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Whether the progress is shown: as JSON, or on a terminal if this process was in its
    /// foreground when the run began.
    pub(crate) fn shows_progress(&self) -> bool {
        self.verbosity == Verbosity::Json || self.has_line
    }

    /// Whether there is a progress line. It takes no lock.
    pub(crate) fn draws_line(&self) -> bool {
        self.has_line
    }

    /// Calls `draw` with the time since the start, again and again until the flag is set, if the
    /// progress is shown. Then removes the progress line.
    pub(crate) fn draw_until(&self, stop: &StopFlag, mut draw: impl FnMut(Duration)) {
        if !self.shows_progress() {
            return;
        }
        let interval = if self.verbosity == Verbosity::Json {
            EVENT_INTERVAL
        } else {
            FRAME_INTERVAL
        };
        let start = Instant::now();
        while !stop.wait(interval) {
            draw(start.elapsed());
        }
        self.screen().remove_line();
    }

    /// Writes an event with `--json`. `line` makes its line.
    pub(crate) fn write_event(&self, line: impl FnOnce() -> String) {
        if self.verbosity == Verbosity::Json {
            // A writer that has failed fails again for the summary, which reports the error.
            let _ = self.stdout().put(line().as_bytes());
        }
    }

    /// Reports that a signal ended the run early.
    pub(crate) fn report_interrupt(&self, signal: &str) {
        let mut line = message::program().into_vec();
        let text = format!(": interrupted by {signal}; the next run copies the rest\n");
        line.extend_from_slice(text.as_bytes());
        self.screen().write_message(&line);
    }

    pub(crate) fn screen(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stdout(&self) -> MutexGuard<'_, FdWriter> {
        self.stdout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
