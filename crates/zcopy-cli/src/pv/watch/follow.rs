//! A run of `-d`: who is found, looked at and shown, in which order.

use std::io;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::files::{Held, Kind, Sight};
use super::growing::GrowingFile;
use super::name::name;
use super::target::{Target, targets};
use super::{Process, Row, View, Watch};
use crate::pv::ending::{Ending, State};
use crate::pv::format::{Format, Layout, Piece};
use crate::pv::json;
use crate::pv::objects::Objects;
use crate::pv::options::Args;
use crate::pv::pidfile::Pidfile;
use crate::pv::render::{Look, render};
use crate::pv::screen::{Screen, Setup, Several};
use crate::pv::settings::{Form, JsonOutput, Settings, Size};
use crate::pv::signals::{self, Event, Signals};
use crate::pv::status::Status;
use crate::quote::quoted;
use crate::{exit, sys, time};

/// How wide the display is taken for where there is none.
const USUAL_WIDTH: usize = 80;

/// Watches whoever the command line names until there is nothing more to see.
pub(in crate::pv) fn follow(args: &Args, settings: &Settings) -> Status {
    let wanted = refused(args).map_or_else(|| targets(&args.watchfd, &args.files), Err);
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(message) => {
            exit::say(&message);
            return Status::MEMORY;
        }
    };
    let pidfile = match settings.pidfile.as_deref().map(Pidfile::at).transpose() {
        Ok(pidfile) => pidfile,
        Err(error) => {
            let path = settings.pidfile.clone().unwrap_or_default();
            let error = exit::worded(&error);
            exit::say(&format!("{}: {error}", quoted(path.as_os_str())));
            return Status::PIDFILE;
        }
    };
    let mut status = Status::GOOD;
    let mut held = Vec::new();
    let size = given_size(settings);
    for target in &wanted {
        match hold(target, size) {
            Ok(watched) => held.push((target.clone(), watched)),
            Err(message) => {
                exit::say(&message);
                status.add(Status::ACCESS);
            }
        }
    }
    if held.is_empty() {
        return status;
    }
    let objects = match settings.json.as_ref().map(open_objects).transpose() {
        Ok(objects) => objects,
        Err(message) => {
            exit::say(&message);
            status.add(Status::ACCESS);
            return status;
        }
    };
    match Follower::of(&wanted, held, settings, pidfile, objects) {
        Ok(follower) => status.add(follower.run()),
        Err(error) => {
            exit::say(&format!("(stderr): {}", exit::worded(&error)));
            status.add(Status::INTERNAL);
        }
    }
    status
}

/// Opens the place for objects, and empties a file.
fn open_objects(json: &JsonOutput) -> Result<Objects, String> {
    let refused = |error| format!("{}: {}", json.name(), exit::worded(&error));
    let objects = Objects::open(json).map_err(refused)?;
    if let (JsonOutput::File(_), Some(file)) = (json, objects.file()) {
        file.set_len(0).map_err(refused)?;
    }
    Ok(objects)
}

/// Why these options do not go together, in pv's words.
fn refused(args: &Args) -> Option<String> {
    let says_where = args.output.is_some() || args.store_and_forward.is_some();
    let says_how = args.line_mode
        || args.null
        || args.rate_limit.is_some()
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
    Process(Held),
    File(GrowingFile),
}

impl Process for Watched {
    fn sight(&mut self, only: Option<RawFd>) -> Sight {
        match self {
            Self::Process(process) => process.sight(only),
            Self::File(file) => file.sight(only),
        }
    }
}

/// The size that the user has given.
fn given_size(settings: &Settings) -> Option<u64> {
    match settings.size {
        Some(Size::Of(size)) => Some(size).filter(|size| *size > 0),
        _ => None,
    }
}

/// Holds on to one that is wanted, or says why not.
fn hold(target: &Target, size: Option<u64>) -> Result<Watched, String> {
    let pid = match target {
        Target::Process(pid) | Target::Descriptor(pid, _) => *pid,
        Target::File(path) => {
            let name = quoted(path.as_os_str());
            let file = GrowingFile::open(path, size).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => format!("{name}: not a regular file"),
                _ => format!("{name}: {}", exit::worded(&error)),
            })?;
            return Ok(Watched::File(file));
        }
    };
    let held = Held::on(pid).map_err(|error| format!("pid {pid}: {}", exit::worded(&error)))?;
    if let Some(fd) = target.fd() {
        let file = held.file(fd);
        let file = file.map_err(|error| format!("pid {pid}: fd {fd}: {}", exit::worded(&error)))?;
        if file.kind == Kind::Other {
            let path = quoted(file.path.as_os_str());
            let what = "not a regular file or block device";
            return Err(format!("pid {pid}: fd {fd}: {path}: {what}"));
        }
    }
    Ok(Watched::Process(held))
}

/// A watch that is shown.
struct Follower<'a> {
    settings: &'a Settings,
    pidfile: Option<Pidfile>,
    watch: Watch<Watched>,
    screen: Several,
    /// Where objects go, if not to standard error.
    objects: Option<Objects>,
    format: Format,
    /// Whether a row has to say whose it is.
    is_of_several: bool,
    /// The name of a lone descriptor's row.
    name: Option<String>,
    /// Where we are: paths are shown from there.
    directory: PathBuf,
    begin: Instant,
    /// Time in which this process was stopped.
    stopped: Duration,
}

impl<'a> Follower<'a> {
    /// Rows have the names that they would have if all that are wanted had been found.
    fn of(
        wanted: &[Target],
        held: Vec<(Target, Watched)>,
        settings: &'a Settings,
        pidfile: Option<Pidfile>,
        objects: Option<Objects>,
    ) -> io::Result<Self> {
        let is_lone = matches!(wanted, [Target::Descriptor(..)]);
        let is_of_several = wanted.windows(2).any(|two| two[0].pid() != two[1].pid());
        let size = given_size(settings);
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
            watch: Watch::of(held, settings.window, size),
            screen: Several::on(screen),
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
        let mut rows = self.look(&mut status).rows;
        let mut due = self.begin + self.settings.interval;
        while !self.watch.is_over() {
            let timeout = due.saturating_duration_since(Instant::now());
            match events.recv_timeout(timeout) {
                Ok(Event::Resized) => {
                    self.screen.measure();
                    due = Instant::now();
                }
                Ok(Event::Continued) => self.screen.measure(),
                // There is no transfer to change.
                Ok(Event::Requested) => {}
                Ok(Event::Pause) => {
                    self.screen.pause();
                    self.stopped += signals::stop();
                    self.screen.measure();
                    due = Instant::now();
                }
                Ok(Event::Interrupted(signal)) => {
                    self.screen.finish();
                    for row in rows.iter().filter(|row| !row.reading.is_over) {
                        self.put_object(row, Some(&Ending::interrupted()));
                    }
                    if signal == libc::SIGQUIT {
                        // Whoever wants to look at a core gets one.
                        self.pidfile = None;
                        sys::by_default(signal);
                    }
                    let name = signals::name(signal);
                    self.say(&format!("interrupted by a signal: {name}"));
                    self.screen.close();
                    status.add(Status::SIGNAL);
                    return status;
                }
                Err(RecvTimeoutError::Timeout) => {
                    let view = self.look(&mut status);
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
        status
    }

    fn look(&mut self, status: &mut Status) -> View {
        let now = self.begin.elapsed().saturating_sub(self.stopped);
        let view = self.watch.look(now, &time::now());
        for (target, error) in &view.hidden {
            let name = match target {
                Target::File(path) => quoted(path.as_os_str()),
                Target::Process(pid) | Target::Descriptor(pid, _) => format!("pid {pid}"),
            };
            self.say(&format!("{name}: {}", exit::worded(error)));
            status.add(Status::ACCESS);
        }
        view
    }

    fn say(&mut self, message: &str) {
        let program = exit::program();
        let message = format!("{}: {message}", program.to_string_lossy());
        self.screen.say(&message);
    }

    fn show(&mut self, rows: &[Row]) {
        match self.settings.form {
            Form::Numeric => {
                for line in self.lines(rows) {
                    self.screen.say(&line);
                }
            }
            Form::Line if self.screen.screen().is_wanted() => {
                let lines = self.lines(rows);
                self.screen.draw(&lines);
            }
            Form::Line | Form::Json | Form::Quiet => {}
        }
    }

    /// Writes an object for each row. The last one of a row tells how it ended, even before the delay is over.
    fn put_objects(&mut self, view: &View) {
        let is_early = self.begin.elapsed() < self.settings.delay;
        for row in &view.rows {
            let is_of = |target: &Target| match target {
                Target::File(_) => row.pid.is_none(),
                target => row.pid.is_some() && row.pid == target.pid(),
            };
            let failed = view.hidden.iter().find(|(target, _)| is_of(target));
            let ending = row.reading.is_over.then(|| Ending {
                state: failed.map_or(State::Done, |_| State::Failed),
                error: failed.map(|(_, error)| exit::worded(error)),
                digest: None,
            });
            if ending.is_some() || !is_early {
                self.put_object(row, ending.as_ref());
            }
        }
    }

    /// Writes an object, if objects are wanted. It is the last one of its row if it has an ending.
    fn put_object(&mut self, row: &Row, ending: Option<&Ending>) {
        if self.settings.form != Form::Json && self.objects.is_none() {
            return;
        }
        let path = row.path.to_string_lossy();
        let line = json::Line::of(&row.reading, Some(&path), row.reading.moved, true, None);
        let line = crate::json::line(&match ending {
            Some(ending) => line.ending(ending),
            None => line,
        });
        match &mut self.objects {
            Some(objects) => {
                let written = match ending {
                    Some(_) => objects.put_last(&line),
                    None => objects.put(&line),
                };
                if let Err(error) = written {
                    let name = objects.name();
                    let message = format!("{name}: write error: {}", exit::worded(&error));
                    self.say(&message);
                }
            }
            None => self.screen.say(&line),
        }
    }

    fn lines(&self, rows: &[Row]) -> Vec<String> {
        let lines = rows.iter().map(|row| {
            let mut line = String::new();
            render(&self.format, &row.reading, &self.look_of(row), &mut line);
            line
        });
        lines.collect()
    }

    fn look_of(&self, row: &Row) -> Look {
        let settings = self.settings;
        let screen = self.screen.screen();
        let terminal = screen.look();
        let width = match settings.form {
            Form::Line => usize::from(screen.size().columns),
            _ => settings.columns.map_or(USUAL_WIDTH, usize::from),
        };
        let own_name = || name(row, self.is_of_several, width, &self.directory);
        Look {
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

/// The format with a name in front, unless it says where the name is to be.
fn named(mut format: Format) -> Format {
    if !format.pieces.contains(&Piece::Name) {
        if format.layout != Layout::Joined {
            format.pieces.insert(0, Piece::Literal(" ".to_owned()));
        }
        format.pieces.insert(0, Piece::Name);
    }
    format
}
