//! The output of `--check`: results, messages and the progress.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::stdio::stdout;

use super::progress::State;
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::progress::throughput::Throughput;
use crate::dircopy::manifest::check::Progress;
use crate::dircopy::manifest::check::event::Event;
use crate::dircopy::manifest::write::update::RecordChange;
use crate::dircopy::reporter::Verbosity;
use crate::dircopy::reporter::console::{Console, RATE_WINDOW};
use crate::dircopy::stop_flag::StopFlag;

/// Writes the results, messages and progress of a verification.
pub(super) struct CheckOutput {
    console: Console,
    /// Whether standard output is a terminal, so that results must not mix with the progress line.
    stdout_is_terminal: bool,
}

impl CheckOutput {
    /// Opens standard output and standard error, as [`Console::new`] does.
    pub(super) fn new(verbosity: Verbosity) -> io::Result<Self> {
        Ok(Self {
            console: Console::new(verbosity)?,
            stdout_is_terminal: rustix::termios::isatty(stdout()),
        })
    }

    /// Reports an error of a file or a tree.
    pub(super) fn report_walk_error(&self, path: &Path, error: anyhow::Error) {
        let message = message::chained(error.chain());
        message::error(&error.context(quoted(path.as_os_str())));
        self.write_error_event(path, message);
    }

    /// Reports an error of the whole verification.
    pub(super) fn report_error(&self, error: &anyhow::Error) {
        message::error(error);
        self.write_error_event(Path::new("."), message::chained(error.chain()));
    }

    /// Reports a record that was changed. `--quiet` leaves it out.
    pub(super) fn report_change(&self, tree: &Path, path: &[u8], change: RecordChange) {
        let path = Path::new(OsStr::from_bytes(path));
        if self.console.verbosity() != Verbosity::Quiet {
            message::warn(&format!("{}: {change}", quoted(path.as_os_str())));
        }
        let event = Event::Remark {
            tree: tree.to_string_lossy(),
            path: path.to_string_lossy(),
            message: change.to_string(),
        };
        self.console.write_event(|| event.line());
    }

    fn write_error_event(&self, path: &Path, message: String) {
        let path = path.to_string_lossy();
        let event = Event::Error { path, message };
        self.console.write_event(|| event.line());
    }

    pub(super) fn shows_progress(&self) -> bool {
        self.console.shows_progress()
    }

    /// Shows the progress until the flag is set.
    pub(super) fn draw_until(&self, stop: &StopFlag, progress: &Progress) {
        let mut throughput = Throughput::over(RATE_WINDOW);
        self.console.draw_until(stop, |elapsed| {
            throughput.sample(elapsed, progress.bytes());
            let state = State::read(progress, &throughput);
            self.console.write_event(|| state.event(elapsed).line());
            self.console.screen().draw(|columns| state.line(columns));
        });
    }

    /// Returns a writer of results, which never writes into the progress line.
    pub(super) fn results(&self) -> impl Write {
        Results(self)
    }

    /// Returns a writer of messages, which writes above the progress line.
    pub(super) fn messages(&self) -> impl Write {
        Messages(&self.console)
    }
}

struct Results<'a>(&'a CheckOutput);

impl Write for Results<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let console = &self.0.console;
        // The lock keeps the line away until the results have been written.
        let _screen = self.0.stdout_is_terminal.then(|| {
            let mut screen = console.screen();
            screen.remove_line();
            screen
        });
        console.stdout().put(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Messages<'a>(&'a Console);

impl Write for Messages<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.screen().write_message(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
