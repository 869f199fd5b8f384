//! The copies of all inputs to the output, one transfer each.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::fs::{FileType, SeekFrom, Stat};
use zcopy::{Ended, Report, Side};

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::io::same_file;
use crate::pv::cleanup::{Cleanup, DirectFlags};
use crate::pv::display::Display;
use crate::pv::display::displayed_transfer::Handles;
use crate::pv::display::event::Phase;
use crate::pv::settings::{Settings, Spool};
use crate::pv::shared_progress::SharedProgress;
use crate::pv::status::Status;
use crate::pv::transfer::input::{self, Input};
use crate::pv::transfer::inspector::Counted;
use crate::pv::transfer::output::Output;

mod input_transfer;

/// The limit of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Every input is copied to its end.
    #[default]
    None,
    /// This many bytes or records are left to move.
    Total(u64),
    /// The output device has room for this many bytes. An endless input stops there. Any other
    /// input has to fit.
    Room(u64),
}

/// Copies inputs to an output, and stores the errors.
pub(crate) struct Copier<'a> {
    settings: &'a Settings,
    progress: &'a SharedProgress,
    display: &'a Display,
    handles: &'a Handles,
    cleanup: &'a Cleanup,
    limit: Limit,
    status: Status,
    /// The first error message.
    error: Option<String>,
    /// Whether the bytes go to a spool, from which they are copied to the output later.
    is_spooling: bool,
    /// Whether the output's reader has gone. A signal reports this, and no message.
    is_unread: bool,
}

impl<'a> Copier<'a> {
    /// Creates a copier that has copied nothing.
    pub(crate) fn new(
        settings: &'a Settings,
        progress: &'a SharedProgress,
        (display, handles): (&'a Display, &'a Handles),
        cleanup: &'a Cleanup,
        limit: Limit,
    ) -> Self {
        Self {
            settings,
            progress,
            display,
            handles,
            cleanup,
            limit,
            status: Status::GOOD,
            error: None,
            is_spooling: false,
            is_unread: false,
        }
    }

    /// Returns the errors so far as a status.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// Returns the first error message.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Returns whether the output's reader has gone.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Copies every input, and skips those that cannot be opened. Breaks if the output accepts no
    /// more. Behind the size of `-S`, inputs are only opened, as by pv, to report those that cannot
    /// be.
    pub(crate) fn copy_inputs(&mut self, names: &[OsString], output: &Output) -> ControlFlow<()> {
        for name in names {
            let is_complete = self.limit == Limit::Total(0);
            // To open a named pipe could wait for a writer, which would then fail.
            if is_complete && input::status(name).is_ok_and(|stat| is_fifo(&stat)) {
                continue;
            }
            let input = match Input::open(name, self.settings.direct) {
                Ok(input) => input,
                Err(error) => {
                    let cause = message::worded(&error);
                    self.fail(Status::ACCESS, format!("{}: {cause}", quoted(name)));
                    continue;
                }
            };
            if is_complete {
                self.progress.begin_input();
            } else {
                self.copy_input(name, &input, output)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Writes every input to a spool, and then copies the spool to the output. Breaks if either
    /// accepts no more.
    pub(crate) fn copy_through_spool(
        &mut self,
        spool: &Spool,
        names: &[OsString],
        output: &Output,
    ) -> ControlFlow<()> {
        let Some(file) = self.open_spool(spool, names) else {
            return ControlFlow::Break(());
        };
        let spooled = Output::File(file, spool.name().into());
        self.is_spooling = true;
        let filled = self.copy_inputs(names, &spooled);
        self.is_spooling = false;
        self.limit = Limit::None;
        filled?;
        if !self.progress.has_input() {
            return ControlFlow::Continue(());
        }
        let name = spool.name();
        if let Err(error) = rustix::fs::seek(&spooled, SeekFrom::Start(0)) {
            self.spool_failed(spool, &error.into(), Status::TRANSFER);
            return ControlFlow::Break(());
        }
        let from = self.progress.position();
        self.display.phase(Phase {
            name: self.settings.name.clone(),
            total: Some(from.counted),
            bytes: None,
            from,
        });
        self.copy_input(&name, &spooled, output)
    }

    /// Opens and empties the spool. Returns `None` if that fails or would destroy an input.
    fn open_spool(&mut self, spool: &Spool, names: &[OsString]) -> Option<File> {
        let opened = spool.open().and_then(|file| {
            let is_spool = |name: &&OsString| is_same_file(input::status(name), file.as_fd());
            let lost = names.iter().find(is_spool);
            if lost.is_none() {
                spool.empty(&file)?;
            }
            Ok((file, lost))
        });
        match opened {
            Ok((file, None)) => Some(file),
            Ok((_, Some(name))) => {
                self.report_own_output(name);
                None
            }
            Err(error) => {
                self.spool_failed(spool, &error, Status::ACCESS);
                None
            }
        }
    }

    /// Copies one input. Breaks if the output accepts no more.
    pub(crate) fn copy_input(
        &mut self,
        name: &OsStr,
        input: &impl AsFd,
        output: &Output,
    ) -> ControlFlow<()> {
        if is_same_file(rustix::fs::fstat(input), output.as_fd()) {
            self.report_own_output(name);
            return ControlFlow::Continue(());
        }
        self.progress.begin_input();
        let Some(running) = self.handles.stop.begin() else {
            return ControlFlow::Break(());
        };
        let (from, to) = (input.as_fd(), output.as_fd());
        let flags = self.settings.direct.then(|| self.cleanup.direct(from, to));
        let begin = Instant::now();
        let (outcome, counted) = self.run(name, &input, output);
        if self.settings.per_file {
            self.display.end_of_file(name, counted, begin.elapsed());
        }
        drop(running);
        let closed = flags.map_or(Ok(()), DirectFlags::restore);
        if let (Ok(_), Err(error)) = (&outcome, closed) {
            self.write_failed(output, &error);
            return ControlFlow::Break(());
        }
        let error = match outcome {
            Ok(report) if report.ended() == Ended::Stopped => return ControlFlow::Break(()),
            Ok(_) => return ControlFlow::Continue(()),
            Err(error) => error,
        };
        match error.side() {
            Side::Sink => {
                if error.io_error_kind() == io::ErrorKind::BrokenPipe {
                    // If SIGPIPE is ignored, a reader that leaves ends the output, and is no error.
                    self.is_unread = true;
                    let cause = message::worded(&message::cause(&error));
                    let message = format!("{}: write error: {cause}", output.name());
                    self.error.get_or_insert(message);
                } else {
                    self.write_failed(output, &message::cause(&error));
                }
                ControlFlow::Break(())
            }
            Side::Neither if error.is_refused() => {
                self.report_own_output(name);
                ControlFlow::Continue(())
            }
            _ => {
                let cause = message::worded(&message::cause(&error));
                let (status, what) = if message::is_out_of_memory(&error) {
                    (Status::MEMORY, "memory allocation failure".to_owned())
                } else {
                    (Status::TRANSFER, display_name(name))
                };
                self.fail(status, format!("{what}: {cause}"));
                ControlFlow::Continue(())
            }
        }
    }

    /// Reports that the output accepts no more, and the reason.
    fn write_failed(&mut self, output: &Output, error: &io::Error) {
        let cause = message::worded(error);
        let message = format!("{}: write error: {cause}", output.name());
        self.fail(Status::TRANSFER, message);
    }

    /// Runs transfers to the end of the input, a new one after each change that another process
    /// makes. Returns the last result, and the bytes or records of all.
    fn run(
        &mut self,
        name: &OsStr,
        input: &impl AsFd,
        output: &Output,
    ) -> (zcopy::Result<Report>, u64) {
        let control = &self.handles.control;
        let (mut prefix, mut counted) = (Vec::new(), 0);
        loop {
            control.take_change();
            self.apply_size(control.size());
            let outcome = self.transfer(name, input, output, prefix);
            let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
            counted += self.count(name, report);
            let is_to_go_on = report.ended() == Ended::Stopped
                && self.handles.stop.flow().is_continue()
                && control.take_change();
            if !is_to_go_on {
                return (outcome, counted);
            }
            // Bytes that were taken out of a pipe and not delivered come first.
            prefix = report.undelivered().to_vec();
        }
    }

    /// Changes the size at which `-S` stops.
    fn apply_size(&mut self, size: Option<u64>) {
        let is_last_phase = self.settings.spool.is_some() && !self.is_spooling;
        if let Some(size) = size
            && self.settings.stops_at_size
            && !is_last_phase
        {
            let moved = self.progress.position().counted;
            self.limit = Limit::Total(size.saturating_sub(moved));
        }
    }

    /// Adds the result of a transfer, and returns its amount in counted units.
    fn count(&mut self, name: &OsStr, report: &Report) -> u64 {
        self.progress.end_of_input(report.bytes(), report.records());
        let counted = match self.settings.counted {
            Counted::Bytes => report.bytes(),
            Counted::Records(_) => report.records(),
        };
        if let Limit::Total(left) | Limit::Room(left) = &mut self.limit {
            *left = left.saturating_sub(counted);
        }
        if report.skipped_bytes() > 0 {
            self.status.add(Status::TRANSFER);
            let n_bytes = report.skipped_bytes();
            let message = format!("{}: {n_bytes} bytes could not be read", display_name(name));
            self.error.get_or_insert(message);
        }
        counted
    }

    /// Reports an error, and stores it.
    fn fail(&mut self, status: Status, message: String) {
        self.status.add(status);
        self.error.get_or_insert_with(|| message.clone());
        self.display.write_message(message);
    }

    /// Reports an input that is also the output.
    fn report_own_output(&mut self, name: &OsStr) {
        let message = format!("{}: input file is also the output", quoted(name));
        self.fail(Status::INPUT_IS_OUTPUT, message);
    }

    /// Reports an error of the spool.
    fn spool_failed(&mut self, spool: &Spool, error: &io::Error, status: Status) {
        let message = format!("{}: {}", spool.display_name(), message::worded(error));
        self.fail(status, message);
    }

    /// Writes a line about an input, for `--explain`.
    fn explain(&self, name: &OsStr, text: &str) {
        self.display
            .write_message(format!("{}: {text}", quoted(name)));
    }
}

/// Returns the name of an open input for messages.
fn display_name(name: &OsStr) -> String {
    if name == "-" {
        return "(stdin)".to_owned();
    }
    quoted(name)
}

/// Returns whether both are the same file or block device. A copy to itself might never end.
pub(crate) fn is_same_file<E>(input: Result<Stat, E>, output: BorrowedFd<'_>) -> bool {
    let (Ok(input), Ok(output)) = (input, rustix::fs::fstat(output)) else {
        return false;
    };
    let kind = FileType::from_raw_mode(input.st_mode);
    let is_file = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
    is_file && same_file::is_same(&input, &output)
}
/// Returns whether this is a named pipe.
fn is_fifo(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Fifo
}
