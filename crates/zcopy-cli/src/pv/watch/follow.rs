//! A run of `-d`, from the options to the exit status.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::files::{FdTable, Kind, ProcDir};
use super::growing::GrowingFile;
use super::name::name;
use super::target::{Target, targets};
use super::{Process, Row, View, Watch};
use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::progress::clock;
use crate::common::sys;
use crate::pv::args::Args;
use crate::pv::display::format::{Format, Layout, Segment};
use crate::pv::display::json;
use crate::pv::display::objects::{self, Objects};
use crate::pv::display::render::{RenderOptions, render};
use crate::pv::display::screen::{MultiLineScreen, Screen, Setup};
use crate::pv::display::signals::{self, Event, Signals};
use crate::pv::ending::{Ending, State};
use crate::pv::prepare::open_objects;
use crate::pv::prepare::{given_size, pidfile};
use crate::pv::settings::{Form, JsonOutput, Settings};
use crate::pv::status::Status;
use crate::pv::transfer::pidfile::Pidfile;

/// The assumed width of a display without a terminal.
const DEFAULT_WIDTH: usize = 80;

/// Watches the targets of the command line until all are over.
pub(crate) fn follow(args: &Args, settings: &Settings) -> Status {
    let wanted = refused(args).map_or_else(|| targets(&args.watchfd, &args.files), Err);
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(message) => {
            message::warn(&message);
            return Status::MEMORY;
        }
    };
    let prepared = given_size(settings).and_then(|size| Ok((size, pidfile(settings)?)));
    let (size, pidfile) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => {
            message::warn(&refusal.message);
            return refusal.status;
        }
    };
    let mut status = Status::GOOD;
    let mut watched = Vec::new();
    for target in &wanted {
        match open(target, size) {
            Ok(opened) => watched.push((target.clone(), opened)),
            Err(message) => {
                message::warn(&message);
                status.add(Status::ACCESS);
            }
        }
    }
    if watched.is_empty() {
        return status;
    }
    let json = settings.json.as_ref();
    let objects = json.map(|json| open_objects(json, |file| is_watched(file, json, &watched)));
    let objects = match objects.transpose() {
        Ok(objects) => objects,
        Err(refusal) => {
            status.add(refusal.report(settings, None));
            return status;
        }
    };
    match WatchLoop::new(&wanted, watched, settings, size, pidfile, objects) {
        Ok(watch_loop) => status.add(watch_loop.run()),
        Err(error) => {
            message::warn(&format!("(stderr): {}", message::worded(&error)));
            status.add(Status::INTERNAL);
        }
    }
    status
}

/// Returns the reason why objects cannot be written to a file: it is watched.
fn is_watched(file: &File, json: &JsonOutput, watched: &[(Target, Watched)]) -> Option<String> {
    let stat = rustix::fs::fstat(file).ok()?;
    let identity = (stat.st_dev, stat.st_ino);
    let is_watched = watched.iter().any(|(target, watched)| match watched {
        Watched::Process(process) => process.has_open(identity, target.fd()),
        Watched::File(file) => file.identity() == Some(identity),
    });
    is_watched.then(|| format!("{}: file of --json is watched", json.name()))
}

/// Returns the reason why options cannot be combined, in the wording of pv.
fn refused(args: &Args) -> Option<String> {
    let says_where = args.output.is_some() || args.store_and_forward.is_some();
    let says_how = args.line_mode
        || args.null
        || args.rate_limit.is_some()
        || args.buffer_size.is_some()
        || args.stop_at_size
        || args.skip_errors > 0
        || args.error_skip_block.is_some()
        || args.hash.is_some()
        || args.stable
        || args.explain
        || args.per_file
        || args.on_progress.is_some();
    if args.cursor {
        let what = "cannot use cursor positioning when watching file descriptors";
        Some(what.to_owned())
    } else if says_how {
        let what =
            "cannot use line mode or transfer modifier options when watching file descriptors";
        Some(what.to_owned())
    } else if says_where {
        let letter = if args.output.is_some() { 'o' } else { 'U' };
        Some(format!(
            "-{letter}: cannot transfer files when watching file descriptors"
        ))
    } else {
        None
    }
}

/// A process or a file that is watched.
#[derive(Debug)]
enum Watched {
    Process(ProcDir),
    File(GrowingFile),
}

impl Process for Watched {
    fn snapshot(&mut self, only: Option<RawFd>) -> FdTable {
        match self {
            Self::Process(process) => process.snapshot(only),
            Self::File(file) => file.snapshot(only),
        }
    }
}

/// Opens a target, or returns the error.
fn open(target: &Target, size: Option<u64>) -> Result<Watched, String> {
    let pid = match target {
        Target::Process(pid) | Target::Descriptor(pid, _) => *pid,
        Target::File(path) => {
            let name = quoted(path.as_os_str());
            let file = GrowingFile::open(path, size).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => format!("{name}: not a regular file"),
                _ => format!("{name}: {}", message::worded(&error)),
            })?;
            return Ok(Watched::File(file));
        }
    };
    let watched =
        ProcDir::open(pid).map_err(|error| format!("pid {pid}: {}", message::worded(&error)))?;
    if let Some(fd) = target.fd() {
        let file = watched.file(fd);
        let file =
            file.map_err(|error| format!("pid {pid}: fd {fd}: {}", message::worded(&error)))?;
        if file.kind == Kind::Other {
            let path = quoted(file.path.as_os_str());
            let what = "not a regular file or block device";
            return Err(format!("pid {pid}: fd {fd}: {path}: {what}"));
        }
    }
    Ok(Watched::Process(watched))
}

/// A watch with its display.
struct WatchLoop<'a> {
    settings: &'a Settings,
    pidfile: Option<Pidfile>,
    watch: Watch<Watched>,
    screen: MultiLineScreen,
    /// The output for objects, if it is not standard error.
    objects: Option<Objects>,
    format: Format,
    /// Whether rows show the number of the process.
    is_of_several: bool,
    /// The name of the row, if there is only one.
    name: Option<String>,
    /// The working directory. Paths below it are shown relative to it.
    directory: PathBuf,
    begin: Instant,
    /// The time in which this process was stopped.
    stopped: Duration,
}

impl<'a> WatchLoop<'a> {
    /// Creates the loop. Names of rows depend on all wanted targets, even on those that could not
    /// be opened.
    fn new(
        wanted: &[Target],
        watched: Vec<(Target, Watched)>,
        settings: &'a Settings,
        size: Option<u64>,
        pidfile: Option<Pidfile>,
        objects: Option<Objects>,
    ) -> io::Result<Self> {
        let is_lone = matches!(wanted, [Target::Descriptor(..)]);
        let is_of_several = wanted.windows(2).any(|two| two[0].pid() != two[1].pid());
        let screen = Screen::on_stderr(Setup {
            force: settings.force,
            own_row: false,
            columns: settings.columns,
            rows: settings.rows,
            ..Setup::default()
        })?;
        let format = if is_lone {
            settings.format.clone()
        } else {
            named(settings.format.clone())
        };
        Ok(Self {
            settings,
            pidfile,
            watch: Watch::new(watched, settings.window, size),
            screen: MultiLineScreen::on(screen),
            objects,
            format,
            is_of_several,
            name: settings.name.clone().filter(|_| is_lone),
            directory: std::env::current_dir().unwrap_or_default(),
            begin: Instant::now(),
            stopped: Duration::ZERO,
        })
    }

    fn run(mut self) -> Status {
        let (send, events) = mpsc::channel::<Event>();
        let Ok(_signals) = Signals::sent_to(send) else {
            return Status::INTERNAL;
        };
        let mut status = Status::GOOD;
        let first = self.poll(&mut status);
        self.put_objects(&first);
        let is_over = |row: &&Row| row.reading.is_over;
        let ended: Vec<_> = first.rows.iter().filter(is_over).cloned().collect();
        if !ended.is_empty() && self.settings.delay.is_zero() {
            // No later poll has these rows.
            self.show(&ended);
        }
        let mut rows = first.rows;
        let mut due = self.begin + self.settings.interval;
        while !self.watch.is_over() {
            if signals::is_stop_pending() {
                self.stop();
                due = Instant::now();
            }
            let timeout = due.saturating_duration_since(Instant::now());
            match events.recv_timeout(timeout) {
                Ok(Event::Resized) => {
                    self.screen.measure();
                    due = Instant::now();
                }
                Ok(Event::Continued) => self.screen.measure(),
                // There is no transfer to change, and the loop looks for stops before each event.
                Ok(Event::Requested | Event::Pause) => {}
                Ok(Event::Interrupted(signal)) => {
                    self.screen.finish();
                    for row in rows.iter().filter(|row| !row.reading.is_over) {
                        self.put_object(row, Some(&Ending::interrupted()));
                    }
                    status.add(self.close_objects());
                    if signal == libc::SIGQUIT {
                        // The process dumps core.
                        self.pidfile = None;
                        sys::raise_default(signal);
                    }
                    let name = signals::name(signal);
                    self.warn(&format!("interrupted by a signal: {name}"));
                    self.screen.close();
                    status.add(Status::SIGNAL);
                    return status;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let view = self.poll(&mut status);
                    self.put_objects(&view);
                    if self.begin.elapsed() >= self.settings.delay {
                        self.show(&view.rows);
                    }
                    rows = view.rows;
                    due = Instant::now() + self.settings.interval;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.screen.finish();
        status.add(self.close_objects());
        status
    }

    /// Leaves the screen to the shell, and stops the process.
    fn stop(&mut self) {
        self.screen.pause();
        self.stopped += signals::stop();
        self.screen.measure();
    }

    fn poll(&mut self, status: &mut Status) -> View {
        let now = self.begin.elapsed().saturating_sub(self.stopped);
        let view = self.watch.poll(now, &clock::now());
        for (target, error) in &view.hidden {
            let name = match target {
                Target::File(path) => quoted(path.as_os_str()),
                Target::Process(pid) | Target::Descriptor(pid, _) => format!("pid {pid}"),
            };
            self.warn(&format!("{name}: {}", message::worded(error)));
            status.add(Status::ACCESS);
        }
        view
    }

    fn warn(&mut self, message: &str) {
        let program = message::program();
        let message = format!("{}: {message}", program.to_string_lossy());
        self.screen.write_message(&message);
    }

    fn show(&mut self, rows: &[Row]) {
        match self.settings.form {
            Form::Numeric => {
                for line in self.lines(rows) {
                    self.screen.write_message(&line);
                }
            }
            Form::Line if self.screen.screen().is_wanted() => {
                let lines = self.lines(rows);
                self.screen.draw(&lines);
            }
            Form::Line | Form::Json | Form::Quiet => {}
        }
    }

    /// Writes an object for each row, from the first interval and the end of the delay on. The last
    /// object of a row has its end, and is written at any time.
    fn put_objects(&mut self, view: &View) {
        let Settings {
            interval, delay, ..
        } = self.settings;
        let is_early = self.begin.elapsed() < *interval.max(delay);
        for row in &view.rows {
            let is_of = |target: &Target| match target {
                Target::File(_) => row.pid.is_none(),
                target => row.pid.is_some() && row.pid == target.pid(),
            };
            let failed = view.hidden.iter().find(|(target, _)| is_of(target));
            let ending = row.reading.is_over.then(|| Ending {
                state: failed.map_or(State::Done, |_| State::Failed),
                error: failed.map(|(_, error)| message::worded(error)),
                digest: None,
            });
            if ending.is_some() || !is_early {
                self.put_object(row, ending.as_ref());
            }
        }
    }

    /// Writes an object, if objects are wanted. With an ending it is the last one of its row.
    fn put_object(&mut self, row: &Row, ending: Option<&Ending>) {
        if self.settings.form != Form::Json && self.objects.is_none() {
            return;
        }
        let path = row.path.to_string_lossy();
        let line = json::Line::new(&row.reading, Some(&path), row.reading.moved, true, None);
        let line = crate::common::progress::json::line(&match ending {
            Some(ending) => line.ending(ending),
            None => line,
        });
        match &mut self.objects {
            Some(objects) => {
                let message = match ending {
                    Some(_) => objects.put_last(&line),
                    None => objects.put(&line),
                };
                if let Some(message) = message {
                    self.warn(&message);
                }
            }
            None => self.screen.write_message(&line),
        }
    }

    /// Ends the output of objects, and returns [`Status::INTERNAL`] if some are lost.
    fn close_objects(&mut self) -> Status {
        if let Some(message) = self.objects.as_mut().and_then(Objects::close) {
            self.warn(&message);
        }
        self.screen.close();
        let (separate, form) = (self.objects.as_ref(), self.settings.form);
        objects::status(separate, form, self.screen.screen())
    }

    fn lines(&self, rows: &[Row]) -> Vec<String> {
        let lines = rows.iter().map(|row| {
            let mut line = String::new();
            render(
                &self.format,
                &row.reading,
                &self.render_options(row),
                &mut line,
            );
            line
        });
        lines.collect()
    }

    fn render_options(&self, row: &Row) -> RenderOptions {
        let settings = self.settings;
        let screen = self.screen.screen();
        let terminal = screen.capabilities();
        let width = match settings.form {
            Form::Line => usize::from(screen.size().columns),
            _ => settings.columns.map_or(DEFAULT_WIDTH, usize::from),
        };
        let own_name = || name(row, self.is_of_several, width, &self.directory);
        RenderOptions {
            width,
            unit: settings.unit,
            si: settings.si,
            style: settings.style,
            gauge: settings.gauge,
            name: Some(self.name.clone().unwrap_or_else(own_name)),
            utf8: terminal.utf8,
            colour: terminal.colour,
        }
    }
}

/// Puts the name first in a format that has none.
fn named(mut format: Format) -> Format {
    if !format.segments.contains(&Segment::Name) {
        if format.layout != Layout::Joined {
            format.segments.insert(0, Segment::Literal(" ".to_owned()));
        }
        format.segments.insert(0, Segment::Name);
    }
    format
}
