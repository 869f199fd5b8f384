//! Writes messages, the progress and the summary.
//!
//! Errors go to standard error, and so does the progress line if that is a terminal. The summary
//! goes to standard output. With `--json` everything also goes there, one object on each line.

use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::counts::Counts;
use super::damage_map::{Damage, Rest};
use super::write::metadata;

use super::interrupt::Interrupt;
use super::stop_flag::StopFlag;
use super::walk::prescan::Total;
use super::walk::{Cause, WalkError};
use super::write::atomic_file::Exclusivity;
use super::write::limitation::{Limitation, Limitations};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use progress::Gauge;
use summary::{State, Summary};

use console::Console;
use event::Event;
use file_result::FileResult;
use files_under_way::FilesUnderWay;
use lost_attributes::LostAttributes;
use plan::{Plan, PlannedEntry};

pub(crate) mod console;
pub(crate) mod file_result;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod progress_line;
pub(crate) mod several;
pub(crate) mod summary;

mod event;
mod files_under_way;
mod lost_attributes;
mod screen;

/// Which messages are written, and in which format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Also the progress and the summary.
    Normal,
    /// All of it as JSON.
    Json,
}

/// Writes the messages of all threads.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    console: Arc<Console>,
    counts: &'a Counts,
    /// The destination of the run, if there are several.
    destination: Option<PathBuf>,
    limitations: Limitations,
    files: FilesUnderWay,
    lost_attributes: LostAttributes,
}

impl<'a> Reporter<'a> {
    /// Writes to standard error and standard output. From now on a terminal does not stop this
    /// process if it writes in the background.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`FdWriter::on`](crate::common::io::fd_writer::FdWriter::on).
    pub(crate) fn new(verbosity: Verbosity, counts: &'a Counts) -> io::Result<Self> {
        Ok(Self::on(Console::new(verbosity)?, counts))
    }

    /// Writes the messages of the run to one of several destinations.
    pub(crate) fn to(console: &Arc<Console>, counts: &'a Counts, destination: &Path) -> Self {
        Self::with_destination(Arc::clone(console), counts, Some(destination.to_owned()))
    }

    fn on(console: Console, counts: &'a Counts) -> Self {
        Self::with_destination(Arc::new(console), counts, None)
    }

    fn with_destination(
        console: Arc<Console>,
        counts: &'a Counts,
        destination: Option<PathBuf>,
    ) -> Self {
        Self {
            console,
            counts,
            destination,
            limitations: Limitations::default(),
            files: FilesUnderWay::default(),
            lost_attributes: LostAttributes::default(),
        }
    }

    /// Reports and counts an error. The path is from the root.
    pub(crate) fn report_error(&self, path: &Path, error: &anyhow::Error) {
        self.write_error(path, &message::chained(error.chain()));
    }

    /// Reports and counts the missing bytes of a file.
    pub(crate) fn report_damage(&self, path: &Path, damage: &Damage<'_>) {
        self.counts.damaged.add(1);
        self.counts.lost_bytes.add(damage.map.lost_bytes());
        self.write_error(path, &damage.words());
        self.write_event(&Event::Damaged {
            path: or_dot(path).to_string_lossy(),
            lost_bytes: damage.map.lost_bytes(),
            ranges: damage.map.ranges(),
            is_copied: damage.rest == Rest::Copied,
        });
    }

    /// Reports and counts an error of the destination as a whole.
    pub(crate) fn report_destination_error(&self, destination: &Path, error: &anyhow::Error) {
        self.write_error(destination, &message::chained(error.chain()));
    }

    /// Reports and counts an error of the run as a whole.
    pub(crate) fn report_run_error(&self, error: &anyhow::Error) {
        self.counts.failed.add(1);
        message::error(error);
        let path = or_dot("".as_ref()).to_string_lossy();
        let message = &message::chained(error.chain());
        self.write_event(&Event::Error { path, message });
    }

    /// Reports and counts an error of the walk. An unfinished copy in the source is no error.
    pub(crate) fn report_walk_error(&self, error: &WalkError) {
        match error.cause() {
            Cause::Attributes(cause) => {
                if !self.report_lost_attributes(cause) {
                    let message = message::chained(anyhow::Chain::new(cause));
                    self.write_attributes_error(error.path(), &message);
                }
                return;
            }
            Cause::Unfinished => {
                self.report_note(error.path(), &error.cause().to_string());
                return;
            }
            _ => {}
        }
        // The first error of the chain is the path.
        let causes = anyhow::Chain::new(error).skip(1);
        self.write_error(error.path(), &message::chained(causes));
    }

    /// Reports attributes that could not be set. Attributes that the file system never keeps are
    /// reported once, and are no error.
    pub(crate) fn report_metadata_error(&self, path: &Path, error: &metadata::Error) {
        let is_limitation = self.report_lost_attributes(error);
        let message = message::chained(anyhow::Chain::new(error));
        if !is_limitation {
            self.write_attributes_error(path, &message);
        }
        if self.console.verbosity() == Verbosity::Json {
            self.lost_attributes.add(path, message);
        }
    }

    /// Writes and counts an error of the attributes of an entry, which was copied otherwise.
    fn write_attributes_error(&self, path: &Path, message: &str) {
        self.counts.attributes_not_kept.add(1);
        let path = or_dot(path);
        self.write_message(path, message);
        let path = path.to_string_lossy();
        self.write_event(&Event::Attributes { path, message });
    }

    /// Reports attributes that the file system never keeps. Returns whether these are all.
    fn report_lost_attributes(&self, error: &metadata::Error) -> bool {
        let limitations = error.limitations();
        for limitation in limitations {
            self.report_limitation(*limitation);
        }
        !limitations.is_empty()
    }

    /// Writes a message about the destination that is no error.
    pub(crate) fn note_destination(&self, destination: &Path, text: &str) {
        self.write_message(destination, text);
    }

    /// Reports that a signal ended the run early.
    pub(crate) fn report_interrupt(&self, signal: &str) {
        self.console.report_interrupt(signal);
    }

    /// Writes a message about a file that is no error.
    pub(crate) fn note(&self, path: &Path, text: &str) {
        self.write_message(path, text);
    }

    /// Reports once what the file system of the destination cannot do. `--quiet` leaves it out.
    pub(crate) fn report_limitation(&self, limitation: Limitation) {
        if self.limitations.add(limitation) {
            self.report_note("".as_ref(), &limitation.to_string());
        }
    }

    /// Reports what is no error. `--quiet` leaves it out.
    pub(crate) fn report_note(&self, path: &Path, message: &str) {
        if self.console.verbosity() == Verbosity::Quiet {
            return;
        }
        self.write_message(path, message);
        let path = or_dot(path).to_string_lossy();
        self.write_event(&Event::Remark { path, message });
    }

    /// Reports the change of a record that the command line asks for. `--quiet` leaves it out.
    pub(crate) fn report_change(&self, path: &Path, message: &str) {
        if self.console.verbosity() == Verbosity::Quiet {
            return;
        }
        self.write_message(path, message);
        let path = path.to_string_lossy();
        self.write_event(&Event::Remark { path, message });
    }

    /// Reports if a file that another process created may have been replaced.
    pub(crate) fn report_exclusivity(&self, exclusivity: Exclusivity) {
        match exclusivity {
            Exclusivity::Atomic => {}
            Exclusivity::Checked => self.report_limitation(Limitation::ExclusiveNames),
        }
    }

    /// Whether the progress is shown, as [`Console::shows_progress`] decides.
    pub(crate) fn shows_progress(&self) -> bool {
        self.console.shows_progress()
    }

    /// Writes the result of an entry with `--json`. `result` makes it.
    pub(crate) fn report_file(&self, path: &Path, result: impl FnOnce() -> FileResult) {
        if self.console.verbosity() != Verbosity::Json {
            return;
        }
        self.write_event(&Event::File {
            path: path.to_string_lossy(),
            result: &result(),
            attributes_not_kept: self.lost_attributes.take(path),
        });
    }

    /// Writes that an entry was moved, with `--json`. Both paths are from the root of the destination.
    pub(crate) fn report_moved(&self, path: &Path, to: &Path) {
        let (path, to) = (path.to_string_lossy(), to.to_string_lossy());
        self.write_event(&Event::Moved { path, to });
    }

    /// Has the progress line show this file, until [`end_file`](Self::end_file), if there is a line.
    pub(crate) fn begin_file(&self, path: impl FnOnce() -> PathBuf) {
        if self.console.draws_line() {
            self.files.begin(path());
        }
    }

    /// Ends what [`begin_file`](Self::begin_file) began.
    pub(crate) fn end_file(&self, path: &Path) {
        if self.console.draws_line() {
            self.files.end(path);
        }
    }

    /// Shows the progress until the flag is set. The clock starts now.
    pub(crate) fn draw_until(&self, stop: &StopFlag, total: &Total) {
        let mut gauge = Gauge::new(self.counts, total);
        self.console
            .draw_until(stop, |elapsed| self.draw(&mut gauge, elapsed));
    }

    /// Writes the summary, after the terminal has taken all messages, even if it was stopped.
    ///
    /// # Errors
    ///
    /// Standard output cannot be written, or an earlier write failed.
    pub(crate) fn summarize(
        &self,
        elapsed: Duration,
        manifests: &[PathBuf],
        state: State,
    ) -> io::Result<()> {
        self.console.screen().finish();
        let summary = Summary::of(self.counts, state, elapsed, manifests);
        let text = match self.console.verbosity() {
            Verbosity::Quiet => return Ok(()),
            Verbosity::Normal => self.heading() + &summary.words(),
            Verbosity::Json => self.line_of(&Event::Summary(&summary)),
        };
        self.console.stdout().put(text.as_bytes())
    }

    /// Writes the summary of a run that copied nothing, for programs. Others have seen its error.
    ///
    /// # Errors
    ///
    /// Those of [`summarize`](Self::summarize).
    pub(crate) fn summarize_failure(&self, elapsed: Duration, state: State) -> io::Result<()> {
        match self.console.verbosity() {
            Verbosity::Quiet | Verbosity::Normal => Ok(()),
            Verbosity::Json => self.summarize(elapsed, &[], state),
        }
    }

    /// Writes the summary of one of several destinations to which nothing was copied.
    ///
    /// # Errors
    ///
    /// Those of [`summarize`](Self::summarize).
    pub(crate) fn summarize_absence(&self, elapsed: Duration, state: State) -> io::Result<()> {
        if self.console.verbosity() != Verbosity::Normal {
            return self.summarize_failure(elapsed, state);
        }
        self.console.screen().finish();
        let text = self.heading() + "nothing was copied\n";
        self.console.stdout().put(text.as_bytes())
    }

    /// How the run has ended, or would end now.
    pub(crate) fn state(&self, interrupt: &Interrupt) -> State {
        State::new(self.counts, interrupt)
    }

    /// The line above the summary and the plan of one of several destinations.
    fn heading(&self) -> String {
        let destination = self.destination.as_ref();
        destination.map_or_else(String::new, |path| {
            format!("{}:\n", quoted(path.as_os_str()))
        })
    }

    /// Writes which destination the plan that follows is for, if there are several.
    pub(crate) fn begin_plan(&self) {
        if self.console.verbosity() == Verbosity::Normal {
            // A writer that has failed fails again for the totals, which report the error.
            let _ = self.console.stdout().put(self.heading().as_bytes());
        }
    }

    /// Writes what a run would do with an entry.
    pub(crate) fn tell_plan(&self, entry: &PlannedEntry<'_>) {
        let line = match self.console.verbosity() {
            Verbosity::Quiet => return,
            Verbosity::Normal => entry.line(),
            Verbosity::Json => self.line_of(&Event::Planned(entry)),
        };
        // A writer that has failed fails again for the totals, which report the error.
        let _ = self.console.stdout().put(line.as_bytes());
    }

    /// Writes what a run would do in all.
    ///
    /// # Errors
    ///
    /// Standard output cannot be written, or an earlier write failed.
    pub(crate) fn tell_totals(&self, plan: Plan) -> io::Result<()> {
        self.console.screen().finish();
        let text = match self.console.verbosity() {
            Verbosity::Quiet => return Ok(()),
            Verbosity::Normal => plan.words(),
            Verbosity::Json => self.line_of(&Event::Plan(&plan)),
        };
        self.console.stdout().put(text.as_bytes())
    }

    /// Shows the progress once.
    fn draw(&self, gauge: &mut Gauge<'_>, elapsed: Duration) {
        let mut progress = gauge.read(elapsed);
        progress.current = self.files.oldest();
        self.write_event(&Event::Progress(&progress));
        self.console.screen().draw(|columns| progress.line(columns));
    }

    fn write_error(&self, path: &Path, message: &str) {
        self.counts.failed.add(1);
        let path = or_dot(path);
        self.write_message(path, message);
        // JSON has no bytes that are not UTF-8.
        let path = path.to_string_lossy();
        self.write_event(&Event::Error { path, message });
    }

    /// Writes a message after its path, and after the destination if there are several.
    fn write_message(&self, path: &Path, message: &str) {
        let destination = self.destination.as_deref();
        let destination = destination.filter(|destination| !path.starts_with(destination));
        let destination = destination.map_or_else(String::new, |destination| {
            format!("{}: ", quoted(destination.as_os_str()))
        });
        let path = quoted(or_dot(path).as_os_str());
        let mut line = message::program().into_vec();
        line.extend_from_slice(format!(": {destination}{path}: {message}\n").as_bytes());
        self.console.screen().write_message(&line);
    }

    /// Writes an event with `--json`.
    fn write_event(&self, event: &Event<'_>) {
        self.console.write_event(|| self.line_of(event));
    }

    fn line_of(&self, event: &Event<'_>) -> String {
        event.line(self.destination.as_deref())
    }
}

/// The path, or `.` for the root, whose path is empty.
fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

#[cfg(test)]
mod tests;
