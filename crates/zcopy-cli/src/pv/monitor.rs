//! `-M`: runs a command, and shows how much passes its input, its output or both.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use super::carrier::Limit;
use super::changes::Changes;
use super::display::Display;
use super::ending::{Ending, Refusal, State};
use super::job::{self, Sizes};
use super::objects::Objects;
use super::options::Args;
use super::output::Output;
use super::settings::{self, Form, Monitor, Settings, Side, Sides};
use super::status::Status;
use crate::quote::quoted;
use crate::{exit, sys};
use side::{InputSide, OutputSide, Track};

mod side;

/// Returns why these options do not go together with `-M`.
pub(super) fn refused(args: &Args) -> Option<String> {
    args.monitor.as_ref()?;
    let is_of_both = matches!(args.monitor.as_deref(), Some(side) if side == "both" || side == "2");
    let letter = match (&args.remote, &args.query) {
        (Some(_), _) => Some('R'),
        (None, Some(_)) => Some('Q'),
        (None, None) => None,
    };
    if let Some(letter) = letter {
        return Some(format!(
            "-{letter}: monitor mode cannot be specified with this option"
        ));
    }
    if !args.watchfd.is_empty() {
        return Some("cannot use monitor mode when watching file descriptors".to_owned());
    }
    let option = match args {
        _ if args.store_and_forward.is_some() => "store-and-forward",
        _ if args.per_file => "--per-file",
        _ if is_of_both && args.hash.is_some() => "--hash if both sides are shown",
        _ if is_of_both && args.on_progress.is_some() => "--on-progress if both sides are shown",
        _ => return None,
    };
    Some(format!("monitor mode cannot be used with {option}"))
}

/// Runs the command to its end.
pub(super) fn run(mut settings: Settings, monitor: &Monitor) -> Status {
    // The command reads standard input, directly or by a pipe.
    settings.inputs = vec!["-".into()];
    let _ = sys::hold_closed_descriptors();
    let dies_of_sigpipe = !sys::is_ignored(libc::SIGPIPE);
    sys::ignore_sigpipe();
    let objects = match job::objects(&settings) {
        Ok(objects) => objects,
        Err(refusal) => return refusal.report(&settings, None),
    };
    let started = match start(&settings, monitor) {
        Ok(started) => started,
        Err(refusal) => return refusal.report(&settings, objects),
    };
    let (outcome, digest) = match started.monitor(&settings, monitor, objects) {
        Ok(outcome) => outcome,
        Err(refusal) => return refusal.report(&settings, None),
    };
    if let Some(line) = digest {
        exit::tell(&line);
    }
    if outcome.is_unread && dies_of_sigpipe {
        sys::by_default(libc::SIGPIPE);
    }
    outcome.status
}

/// A command that runs, with the pipes to and from it.
struct Started {
    child: Child,
    changes: Arc<Changes>,
    input: Option<(PipeWriter, Sizes)>,
    /// The pipe from the command, and the place for its bytes.
    output: Option<(PipeReader, Output, Sizes)>,
}

/// The result of one side, or of the whole run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    status: Status,
    error: Option<String>,
    /// Whether the reader of the bytes has gone.
    is_unread: bool,
    /// Whether every byte has arrived.
    is_whole: bool,
}

/// Opens the output and starts the command.
fn start(settings: &Settings, monitor: &Monitor) -> Result<Started, Refusal> {
    let (changes, output) = job::prepare(settings)?;
    let input_sizes = match monitor.sides {
        Sides::Output => Sizes::default(),
        Sides::Input | Sides::Both => {
            let nowhere = Output::open(&settings::Output::Command);
            let nowhere = nowhere.map_err(|error| failed(monitor, &error))?;
            job::sizes(settings, &nowhere)?
        }
    };
    let total = job::given_size(settings)?;
    let output_sizes = Sizes {
        total,
        bytes: None,
        limit: match total {
            Some(total) if settings.stops_at_size => Limit::Total(total),
            _ => Limit::None,
        },
    };
    let (program, arguments) = split(monitor);
    let mut command = Command::new(program);
    command.args(arguments);
    sys::give_signals_back(&mut command);
    let refused = |error: io::Error| failed(monitor, &error);
    let mut input = None;
    if monitor.sides != Sides::Output {
        let (reader, writer) = io::pipe().map_err(refused)?;
        command.stdin(reader);
        input = Some((writer, input_sizes));
    }
    let output = if monitor.sides == Sides::Input {
        command.stdout(match &output {
            Output::File(file, _) => Stdio::from(file.try_clone().map_err(refused)?),
            Output::Nowhere(_) => Stdio::null(),
            Output::Stdout | Output::Command(..) => Stdio::inherit(),
        });
        None
    } else {
        let (reader, writer) = io::pipe().map_err(refused)?;
        command.stdout(writer);
        Some((reader, output, output_sizes))
    };
    // The command's ends of the pipes are closed with `command` here.
    let child = command.spawn().map_err(refused)?;
    Ok(Started {
        child,
        changes,
        input,
        output,
    })
}

/// The program and its arguments.
fn split(monitor: &Monitor) -> (&OsStr, &[OsString]) {
    match &monitor.command[..] {
        [program, arguments @ ..] => (program, arguments),
        [] => (OsStr::new(""), &[]),
    }
}

fn failed(monitor: &Monitor, error: &io::Error) -> Refusal {
    Refusal::of(Status::MONITOR, &quoted(split(monitor).0), error)
}

impl Started {
    /// Moves the bytes of the sides that are monitored, and waits for the command. Returns the line of the digest besides.
    fn monitor(
        mut self,
        settings: &Settings,
        monitor: &Monitor,
        objects: Option<Objects>,
    ) -> Result<(Outcome, Option<Vec<u8>>), Refusal> {
        let name = quoted(split(monitor).0);
        // Each side takes back the flags of its own files.
        let changes = match monitor.sides {
            Sides::Both => Arc::new(Changes::with(None)),
            Sides::Input | Sides::Output => Arc::clone(&self.changes),
        };
        let input = self.input.take().map(|(writer, sizes)| {
            let output = Output::Command(writer, name.clone());
            let settings = of_input(settings, monitor);
            let pipe = output.pipe();
            let track = Track::new(settings, sizes, pipe.clone(), changes);
            (track, InputSide { output, pipe })
        });
        let output = self.output.take().map(|(reader, output, sizes)| {
            let mut settings = settings.clone();
            settings.side = Some(Side::Output);
            settings.own_row |= monitor.sides == Sides::Both && has_rows();
            let track = Track::new(settings, sizes, output.pipe(), Arc::clone(&self.changes));
            (track, OutputSide { reader, output })
        });
        let internal = |error: io::Error| Refusal::of(Status::INTERNAL, "(stderr)", &error);
        let mut outcome = Outcome::default();
        let (display, n_sides, digest) = match (input, output) {
            (Some((track, side)), None) => {
                let (display, handles) =
                    Display::begin(track.shown(), objects).map_err(internal)?;
                outcome = side.carry(&track, &display, &handles);
                display.moved(Side::Input);
                let digest = track.digest(&outcome, None);
                (display, 1, digest)
            }
            (None, Some((track, side))) => {
                let (display, handles) =
                    Display::begin(track.shown(), objects).map_err(internal)?;
                let file = match &side.output {
                    Output::File(_, path) => Some(path.clone()),
                    _ => None,
                };
                outcome = side.carry(&track, split(monitor).0, &display, &handles);
                display.moved(Side::Output);
                let digest = track.digest(&outcome, file.as_deref().map(Path::as_os_str));
                (display, 1, digest)
            }
            (Some((track, side)), Some((output_track, output_side))) => {
                let (display, [handles, output_handles]) =
                    Display::begin_both(track.shown(), output_track.shown(), objects)
                        .map_err(internal)?;
                let outcomes = thread::scope(|scope| {
                    let input = scope.spawn(|| {
                        let outcome = side.carry(&track, &display, &handles);
                        display.moved(Side::Input);
                        outcome
                    });
                    let program = split(monitor).0;
                    let output =
                        output_side.carry(&output_track, program, &display, &output_handles);
                    display.moved(Side::Output);
                    // A panic has been reported.
                    (input.join().unwrap_or_default(), output)
                });
                outcome.add(outcomes.0);
                outcome.add(outcomes.1);
                (display, 2, None)
            }
            (None, None) => return Err(internal(io::ErrorKind::InvalidInput.into())),
        };
        // A command that writes on after the last byte that is wanted fails for that reason alone.
        let is_cut = outcome.is_unread || (settings.stops_at_size && monitor.sides != Sides::Input);
        match self.child.wait() {
            Ok(status) => outcome.add(of_command(status, &name, is_cut, &display)),
            Err(error) => {
                let refusal = Refusal::of(Status::MONITOR, &name, &error);
                display.say(refusal.message.clone());
                outcome.status.add(Status::MONITOR);
                outcome.error.get_or_insert(refusal.message);
            }
        }
        let ending = Ending {
            state: match outcome.status {
                Status::GOOD if !outcome.is_unread => State::Done,
                _ => State::Failed,
            },
            error: outcome.error.clone(),
            digest: digest.as_ref().map(|digest| digest.0.clone()),
        };
        if n_sides == 2 {
            display.side_over(Side::Input, ending.clone());
        }
        display.finish(ending);
        let line = digest.map(|digest| digest.1);
        Ok((outcome, line.filter(|_| settings.form != Form::Json)))
    }
}

/// Returns the result of the command itself.
fn of_command(status: ExitStatus, name: &str, is_cut: bool, display: &Display) -> Outcome {
    let mut outcome = Outcome::default();
    if status.success() || is_cut {
        return outcome;
    }
    if status.signal() == Some(libc::SIGPIPE) {
        // Its output is this process's, and nobody reads it any more.
        outcome.is_unread = true;
        return outcome;
    }
    outcome.status = Status::MONITOR;
    let message = match (status.code(), status.signal()) {
        (Some(code), _) => format!("{name}: exit status {code}"),
        (None, Some(signal)) => format!("{name}: killed by signal {signal}"),
        (None, None) => format!("{name}: {status}"),
    };
    if status.code().is_none() {
        // A command that exits has reported the reason itself.
        display.say(message.clone());
    }
    outcome.error = Some(message);
    outcome
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.status.add(other.status);
        self.is_unread |= other.is_unread;
        if self.error.is_none() {
            self.error = other.error;
        }
    }
}

/// Whether each side may have a row of its own. The terminal's answer about its cursor would be taken for input if that
/// is read from a terminal.
fn has_rows() -> bool {
    !rustix::termios::isatty(rustix::stdio::stdin())
}

/// The settings of the input side.
fn of_input(settings: &Settings, monitor: &Monitor) -> Settings {
    let mut settings = Settings {
        output: settings::Output::Command,
        side: Some(Side::Input),
        ..settings.clone()
    };
    if monitor.sides == Sides::Both {
        let (format, name) = monitor.input.clone();
        settings.reads_and_writes |= format.needs_bytes();
        settings.format = format;
        settings.name = name;
        settings.own_row |= has_rows();
    }
    settings
}
