//! Every input in turn, by one transfer each.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, SeekFrom, Stat};
use zcopy::{Ended, Report, Side, SkipErrors, Sparse, Strategy, SyncData, Transfer};

use super::changes::{Changes, DirectFlags};
use super::display::{Display, Handles, Stage};
use super::input::{self, Input};
use super::meter::Meter;
use super::output::Output;
use super::settings::{Settings, Skip, Spool};
use super::status::Status;
use super::witness::Counted;
use crate::exit;
use crate::quote::quoted;

/// How often a transfer looks up while it moves nothing, so that what is shown is as fine as that.
const TICK: Duration = Duration::from_millis(100);

/// How much may be moved at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Every input is moved to its end.
    #[default]
    None,
    /// This many bytes or records are left to move.
    Total(u64),
    /// The output device has room for this many bytes. An endless input stops there; any other input has to fit.
    Room(u64),
}

/// Moves inputs to an output, and remembers what went wrong.
pub(crate) struct Carrier<'a> {
    settings: &'a Settings,
    meter: &'a Meter,
    display: &'a Display,
    handles: &'a Handles,
    changes: &'a Changes,
    limit: Limit,
    status: Status,
    /// The first message about what went wrong.
    error: Option<String>,
    /// Whether the bytes go to a spool, and pass here once more.
    is_spooling: bool,
    /// Whether the output's reader has gone, which is told by a signal and not by a message.
    is_unread: bool,
}

impl<'a> Carrier<'a> {
    /// A carrier that has moved nothing yet.
    pub(crate) fn new(
        settings: &'a Settings,
        meter: &'a Meter,
        (display, handles): (&'a Display, &'a Handles),
        changes: &'a Changes,
        limit: Limit,
    ) -> Self {
        Self {
            settings,
            meter,
            display,
            handles,
            changes,
            limit,
            status: Status::GOOD,
            error: None,
            is_spooling: false,
            is_unread: false,
        }
    }

    /// What went wrong so far.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// The first message about what went wrong.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Whether the output's reader has gone.
    pub(crate) fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Moves every input, and skips those that cannot be opened. A break says that the output takes no more.
    pub(crate) fn carry_all(&mut self, names: &[OsString], output: &Output) -> ControlFlow<()> {
        for name in names {
            if self.limit == Limit::Total(0) {
                break;
            }
            let input = match Input::open(name, self.settings.direct) {
                Ok(input) => input,
                Err(error) => {
                    let cause = exit::worded(&error);
                    self.fail(Status::ACCESS, format!("{}: {cause}", quoted(name)));
                    continue;
                }
            };
            self.carry(name, &input, output)?;
        }
        ControlFlow::Continue(())
    }

    /// Writes every input into a spool, and when the last byte has come, on to the output. A break says that
    /// one of them took no more.
    pub(crate) fn carry_through(
        &mut self,
        spool: &Spool,
        names: &[OsString],
        output: &Output,
    ) -> ControlFlow<()> {
        let Some(file) = self.opened(spool, names) else {
            return ControlFlow::Break(());
        };
        let spooled = Output::File(file, spool.name().into());
        self.is_spooling = true;
        let filled = self.carry_all(names, &spooled);
        self.is_spooling = false;
        self.limit = Limit::None;
        filled?;
        let name = spool.name();
        if let Err(error) = rustix::fs::seek(&spooled, SeekFrom::Start(0)) {
            self.spool_failed(spool, &error.into(), Status::TRANSFER);
            return ControlFlow::Break(());
        }
        let from = self.meter.place();
        self.display.stage(Stage {
            name: self.settings.name.clone(),
            total: Some(from.counted),
            bytes: None,
            from,
        });
        self.carry(&name, &spooled, output)
    }

    /// The spool, open and empty, unless that fails or would destroy an input.
    fn opened(&mut self, spool: &Spool, names: &[OsString]) -> Option<File> {
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
                self.is_own_output(name);
                None
            }
            Err(error) => {
                self.spool_failed(spool, &error, Status::ACCESS);
                None
            }
        }
    }

    /// Moves one input. A break says that the output takes no more.
    pub(crate) fn carry(
        &mut self,
        name: &OsStr,
        input: &impl AsFd,
        output: &Output,
    ) -> ControlFlow<()> {
        if is_same_file(rustix::fs::fstat(input), output.as_fd()) {
            self.is_own_output(name);
            return ControlFlow::Continue(());
        }
        let Some(running) = self.handles.stop.begin() else {
            return ControlFlow::Break(());
        };
        let (from, to) = (input.as_fd(), output.as_fd());
        let flags = self.settings.direct.then(|| self.changes.direct(from, to));
        let begin = Instant::now();
        let (outcome, counted) = self.run(name, &input, output);
        if self.settings.per_file {
            self.display.end_of_file(name, counted, begin.elapsed());
        }
        drop(running);
        let closed = flags.map_or(Ok(()), DirectFlags::take_back);
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
                    // Where SIGPIPE is ignored, a reader that leaves is the end, and no failure.
                    self.is_unread = true;
                    let cause = exit::worded(&exit::cause(&error));
                    let message = format!("{}: write error: {cause}", output.name());
                    self.error.get_or_insert(message);
                } else {
                    self.write_failed(output, &exit::cause(&error));
                }
                ControlFlow::Break(())
            }
            Side::Neither if error.is_refused() => {
                self.is_own_output(name);
                ControlFlow::Continue(())
            }
            _ => {
                let cause = exit::worded(&exit::cause(&error));
                self.fail(Status::TRANSFER, format!("{}: {cause}", read_as(name)));
                ControlFlow::Continue(())
            }
        }
    }

    /// Says that the output took no more, and why.
    fn write_failed(&mut self, output: &Output, error: &io::Error) {
        let cause = exit::worded(error);
        let message = format!("{}: write error: {cause}", output.name());
        self.fail(Status::TRANSFER, message);
    }

    /// Runs transfers, one after each change that another process makes, to the end of the input. Returns how that came,
    /// and the bytes or records of all of them.
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
            self.take_size(control.size());
            let outcome = self.transfer(name, input, output, prefix);
            let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
            counted += self.count(name, report);
            let is_to_go_on = report.ended() == Ended::Stopped
                && self.handles.stop.flow().is_continue()
                && control.take_change();
            if !is_to_go_on {
                return (outcome, counted);
            }
            // What was taken out of a pipe and not delivered comes first.
            prefix = report.undelivered().to_vec();
        }
    }

    /// Has `-S` stop at another size.
    fn take_size(&mut self, size: Option<u64>) {
        let is_last_stage = self.settings.spool.is_some() && !self.is_spooling;
        if let Some(size) = size
            && self.settings.stops_at_size
            && !is_last_stage
        {
            let moved = self.meter.place().counted;
            self.limit = Limit::Total(size.saturating_sub(moved));
        }
    }

    /// Runs the transfer that the settings ask for, with these bytes in front of the input.
    fn transfer(
        &self,
        name: &OsStr,
        input: &impl AsFd,
        output: &Output,
        prefix: Vec<u8>,
    ) -> zcopy::Result<Report> {
        let settings = self.settings;
        let n_prefix = prefix.len() as u64;
        let mut transfer = Transfer::new(input, output)
            .stable(settings.stable)
            .prefix(prefix);
        match (settings.counted, self.limit_of(input.as_fd())) {
            // The limit is one of the input alone.
            (Counted::Bytes, Some(left)) => {
                transfer = transfer.limit(left.saturating_sub(n_prefix));
            }
            (Counted::Bytes, None) => {}
            (Counted::Records(delimiter), left) => {
                transfer = transfer.records(delimiter);
                if let Some(left) = left {
                    transfer = transfer.record_limit(left);
                }
            }
        }
        let control = &self.handles.control;
        match (control.limiter(), settings.counted) {
            (Some(limiter), Counted::Bytes) => transfer = transfer.rate_limit(limiter),
            (Some(limiter), Counted::Records(_)) => transfer = transfer.record_rate_limit(limiter),
            (None, _) => {}
        }
        if settings.reads_and_writes {
            transfer = transfer.strategy(Strategy::Buffered);
        }
        if settings.sparse {
            transfer = transfer.sparse(Sparse::Detect);
        }
        if settings.syncs {
            transfer = transfer.sync_data(SyncData::EachStep);
        }
        if let Some(size) = settings.buffer_size {
            transfer = transfer.buffer_size(size);
        }
        if let Some(size) = settings.pipe_size {
            transfer = transfer.pipe_size(size);
        }
        transfer = match settings.skip {
            Skip::Never => transfer,
            Skip::AndTellAll(block) | Skip::AndTellOnce(block) => {
                transfer.skip_errors(match block {
                    Some(block) => SkipErrors::Block(block),
                    None => SkipErrors::Adaptive,
                })
            }
        };
        let (source, mut is_told) = (read_as(name), false);
        if settings.skip != Skip::Never {
            transfer = transfer.on_skip(move |skipped| {
                if !is_told {
                    is_told = true;
                    let error = exit::worded(&skipped.error());
                    self.display
                        .say(format!("{source}: warning: read errors detected: {error}"));
                }
                if matches!(settings.skip, Skip::AndTellAll(_)) {
                    let (from, len) = (skipped.offset(), skipped.bytes());
                    let to = from + len;
                    self.display.say(format!(
                        "{source}: skipped past read error: {from} - {to} ({len} B)"
                    ));
                }
            });
        }
        let shares = self.handles.shares_terminal;
        if !self.is_spooling && (shares || self.meter.witness().is_needed()) {
            transfer = transfer.inspect(|bytes| {
                self.meter.pass(bytes.len());
                self.meter.witness().see(bytes);
            });
        }
        if settings.is_watched() {
            transfer = transfer.tick(TICK);
        }
        transfer = transfer.observe(move |progress| {
            // Another process may ask at any time, even if nothing is shown.
            self.meter.note(progress);
            if control.is_changed() {
                return ControlFlow::Break(());
            }
            self.handles.stop.flow()
        });
        if settings.explains {
            self.say(name, &transfer.plan()?.to_string());
        }
        let outcome = transfer.run();
        if settings.explains {
            let report = outcome.as_ref().unwrap_or_else(zcopy::Error::report);
            self.say(name, &format!("{report:#}"));
        }
        outcome
    }

    /// How many bytes or records of this input may be moved.
    fn limit_of(&self, input: BorrowedFd<'_>) -> Option<u64> {
        match self.limit {
            Limit::None => None,
            Limit::Total(left) => Some(left),
            Limit::Room(left) => input::is_endless(input).then_some(left),
        }
    }

    /// Takes note of what a transfer has moved, and returns it in what is counted.
    fn count(&mut self, name: &OsStr, report: &Report) -> u64 {
        self.meter.end_of_input(report.bytes(), report.records());
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
            let message = format!("{}: {n_bytes} bytes could not be read", read_as(name));
            self.error.get_or_insert(message);
        }
        counted
    }

    /// Says what went wrong, and remembers it.
    fn fail(&mut self, status: Status, message: String) {
        self.status.add(status);
        self.error.get_or_insert_with(|| message.clone());
        self.display.say(message);
    }

    fn is_own_output(&mut self, name: &OsStr) {
        let message = format!("{}: input file is also the output", quoted(name));
        self.fail(Status::INPUT_IS_OUTPUT, message);
    }

    fn spool_failed(&mut self, spool: &Spool, error: &io::Error, status: Status) {
        let message = format!("{}: {}", spool.worded(), exit::worded(error));
        self.fail(status, message);
    }

    fn say(&self, name: &OsStr, what: &str) {
        self.display.say(format!("{}: {what}", quoted(name)));
    }
}

/// What messages call an input that has been opened.
fn read_as(name: &OsStr) -> String {
    if name == "-" {
        return "(stdin)".to_owned();
    }
    quoted(name)
}

/// Whether both are one file on a disk, of which reading would never end.
pub(crate) fn is_same_file<E>(input: Result<Stat, E>, output: BorrowedFd<'_>) -> bool {
    let (Ok(input), Ok(output)) = (input, rustix::fs::fstat(output)) else {
        return false;
    };
    let kind = FileType::from_raw_mode(input.st_mode);
    let is_file = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
    is_file && (input.st_dev, input.st_ino) == (output.st_dev, output.st_ino)
}
