//! `-M`: a command whose input, output or both are shown.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::common::sys;
use crate::common::threads;
use crate::pv::args::Args;
use crate::pv::cleanup::Cleanup;
use crate::pv::display::Display;
use crate::pv::display::objects::Objects;
use crate::pv::ending::{Ending, State};
use crate::pv::prepare;
use crate::pv::prepare::Sizes;
use crate::pv::refusal::Refusal;
use crate::pv::settings::{self, Form, Monitor, Settings, Side, Sides};
use crate::pv::status::Status;
use crate::pv::transfer::Limit;
use crate::pv::transfer::output::Output;
use side::{InputSide, OutputSide, SideTransfer};

mod side;

/// Returns the reason why the options cannot be used with `-M`.
pub(crate) fn refused(args: &Args) -> Option<String> {
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
pub(crate) fn run(mut settings: Settings, monitor: &Monitor) -> Status {
    // The command reads standard input, directly or through a pipe.
    settings.inputs = vec!["-".into()];
    let _ = sys::hold_closed_descriptors();
    let dies_of_sigpipe = !sys::is_ignored(libc::SIGPIPE);
    sys::ignore_sigpipe();
    let objects = match prepare::objects(&settings) {
        Ok(objects) => objects,
        Err(refusal) => return refusal.report(&settings, None),
    };
    let started = match start(&settings, monitor) {
        Ok(started) => started,
        Err(refusal) => return refusal.report(&settings, objects),
    };
    let (mut outcome, digest) = match started.monitor(&settings, monitor, objects, dies_of_sigpipe)
    {
        Ok(outcome) => outcome,
        Err(refusal) => return refusal.report(&settings, None),
    };
    if let Some(line) = digest {
        outcome
            .status
            .add(Status::of_written(&message::line(&line)));
    }
    if outcome.is_unread && dies_of_sigpipe {
        sys::raise_default(libc::SIGPIPE);
    }
    outcome.status
}

/// A running command, and the pipes to and from it.
struct RunningCommand {
    child: Child,
    cleanup: Arc<Cleanup>,
    input: Option<(PipeWriter, Sizes)>,
    /// The pipe from the command, and the output for its bytes.
    output: Option<(PipeReader, Output, Sizes)>,
}

/// The result of one side, or of the whole run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    status: Status,
    error: Option<String>,
    /// Whether the reader of the output has gone.
    is_unread: bool,
    /// Whether every byte has arrived.
    is_whole: bool,
}

/// The result of the sides, before the command has ended.
struct CopiedSides {
    outcome: Outcome,
    /// Whether the output of the command was not read to its end.
    is_output_cut: bool,
    display: Display,
    /// The digest in hexadecimal digits, and the line with it.
    digest: Option<(String, Vec<u8>)>,
}

/// Opens the output and starts the command.
fn start(settings: &Settings, monitor: &Monitor) -> Result<RunningCommand, Refusal> {
    let (cleanup, output) = prepare::prepare(settings)?;
    let input_sizes = match monitor.sides {
        Sides::Output => Sizes::default(),
        Sides::Input | Sides::Both => {
            let nowhere = Output::open(&settings::Output::Command);
            let nowhere = nowhere.map_err(|error| failed(monitor, &error))?;
            prepare::sizes(settings, &nowhere)?
        }
    };
    let total = prepare::given_size(settings)?;
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
            Output::Discard(_) => Stdio::null(),
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
    Ok(RunningCommand {
        child,
        cleanup,
        input,
        output,
    })
}

/// Splits the command into the program and its arguments.
fn split(monitor: &Monitor) -> (&OsStr, &[OsString]) {
    match &monitor.command[..] {
        [program, arguments @ ..] => (program, arguments),
        [] => (OsStr::new(""), &[]),
    }
}

fn failed(monitor: &Monitor, error: &io::Error) -> Refusal {
    Refusal::new(Status::MONITOR, &quoted(split(monitor).0), error)
}

impl RunningCommand {
    /// Copies the bytes of the monitored sides, and waits for the command. Also returns the line of
    /// the digest. If the display or a thread cannot start, the command is killed.
    fn monitor(
        mut self,
        settings: &Settings,
        monitor: &Monitor,
        objects: Option<Objects>,
        dies_of_sigpipe: bool,
    ) -> Result<(Outcome, Option<Vec<u8>>), Refusal> {
        let name = quoted(split(monitor).0);
        let copied = match self.copy_sides(settings, monitor, objects, &name) {
            Ok(copied) => copied,
            Err(refusal) => {
                // If this fails, the command has ended.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(refusal);
            }
        };
        let (mut outcome, display, digest) = (copied.outcome, copied.display, copied.digest);
        // The command may fail because its output was not read to the end.
        let is_cut =
            copied.is_output_cut || (settings.stops_at_size && monitor.sides != Sides::Input);
        match self.child.wait() {
            Ok(status) => outcome.add(command_outcome(status, &name, is_cut, &display)),
            Err(error) => {
                let refusal = Refusal::new(Status::MONITOR, &name, &error);
                display.write_message(refusal.message.clone());
                outcome.status.add(Status::MONITOR);
                outcome.error.get_or_insert(refusal.message);
            }
        }
        let state = State::at_end(outcome.status, outcome.is_unread && dies_of_sigpipe);
        let ending = Ending {
            state,
            error: outcome.error.clone().filter(|_| state == State::Failed),
            digest: digest.as_ref().map(|digest| digest.0.clone()),
        };
        if monitor.sides == Sides::Both {
            display.side_over(Side::Input, ending.clone());
        }
        outcome.status.add(display.finish(ending));
        let line = digest.map(|digest| digest.1);
        Ok((outcome, line.filter(|_| settings.form != Form::Json)))
    }

    /// Copies the bytes of the monitored sides.
    ///
    /// # Errors
    ///
    /// The display cannot start.
    fn copy_sides(
        &mut self,
        settings: &Settings,
        monitor: &Monitor,
        objects: Option<Objects>,
        name: &str,
    ) -> Result<CopiedSides, Refusal> {
        // Each side removes the flags of its own files.
        let cleanup = match monitor.sides {
            Sides::Both => Arc::new(Cleanup::new(None)),
            Sides::Input | Sides::Output => Arc::clone(&self.cleanup),
        };
        let input = self.input.take().map(|(writer, sizes)| {
            let output = Output::Command(writer, name.to_owned());
            let settings = input_settings(settings, monitor);
            let pipe = output.pipe();
            let side = SideTransfer::new(settings, sizes, pipe.clone(), cleanup);
            (side, InputSide { output, pipe })
        });
        let output = self.output.take().map(|(reader, output, sizes)| {
            let mut settings = settings.clone();
            settings.side = Some(Side::Output);
            settings.own_row |= monitor.sides == Sides::Both && has_rows();
            let side = SideTransfer::new(settings, sizes, output.pipe(), Arc::clone(&self.cleanup));
            (side, OutputSide { reader, output })
        });
        let internal = |error: io::Error| Refusal::without_display(&error);
        let mut outcome = Outcome::default();
        let mut is_output_cut = false;
        let (display, digest) = match (input, output) {
            (Some((side, input)), None) => {
                let (display, handles) =
                    Display::begin(side.displayed_transfer(), objects).map_err(internal)?;
                outcome = input.copy_input(&side, &display, &handles);
                display.moved(Side::Input);
                let digest = side.digest(&outcome, None);
                (display, digest)
            }
            (None, Some((side, output))) => {
                let (display, handles) =
                    Display::begin(side.displayed_transfer(), objects).map_err(internal)?;
                let file = match &output.output {
                    Output::File(_, path) => Some(path.clone()),
                    _ => None,
                };
                outcome = output.copy_input(&side, split(monitor).0, &display, &handles);
                is_output_cut = !outcome.is_whole;
                display.moved(Side::Output);
                let digest = side.digest(&outcome, file.as_deref().map(Path::as_os_str));
                (display, digest)
            }
            (Some((input_side, input)), Some((output_side, output))) => {
                let (display, [handles, output_handles]) = Display::begin_both(
                    input_side.displayed_transfer(),
                    output_side.displayed_transfer(),
                    objects,
                )
                .map_err(internal)?;
                let outcomes = thread::scope(|scope| {
                    let copy_input = || {
                        let outcome = input.copy_input(&input_side, &display, &handles);
                        display.moved(Side::Input);
                        outcome
                    };
                    let input = threads::spawn_scoped(scope, copy_input)?;
                    let program = split(monitor).0;
                    let output =
                        output.copy_input(&output_side, program, &display, &output_handles);
                    display.moved(Side::Output);
                    // A panic has been reported.
                    Ok((input.join().unwrap_or_default(), output))
                });
                let outcomes = match outcomes {
                    Ok(outcomes) => outcomes,
                    Err(error) => {
                        let what = "cannot start a thread";
                        let refusal = Refusal::new(Status::INTERNAL, what, &error);
                        display.write_message(refusal.message.clone());
                        // Nothing is copied. If this fails, the command has ended.
                        let _ = self.child.kill();
                        let refused = Outcome {
                            status: refusal.status,
                            error: Some(refusal.message),
                            ..Outcome::default()
                        };
                        (refused, Outcome::default())
                    }
                };
                is_output_cut = !outcomes.1.is_whole;
                outcome.add(outcomes.0);
                outcome.add(outcomes.1);
                (display, None)
            }
            (None, None) => return Err(internal(io::ErrorKind::InvalidInput.into())),
        };
        Ok(CopiedSides {
            outcome,
            is_output_cut,
            display,
            digest,
        })
    }
}

/// Returns the result of the command itself.
fn command_outcome(status: ExitStatus, name: &str, is_cut: bool, display: &Display) -> Outcome {
    let mut outcome = Outcome::default();
    if status.success() || is_cut {
        return outcome;
    }
    if status.signal() == Some(libc::SIGPIPE) {
        // The reader of this process's output has gone.
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
        display.write_message(message.clone());
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

/// Returns whether each side may have a row of its own. If standard input is a terminal, its answer
/// to a query would be taken for input.
fn has_rows() -> bool {
    !rustix::termios::isatty(rustix::stdio::stdin())
}

/// Returns the settings of the input side.
fn input_settings(settings: &Settings, monitor: &Monitor) -> Settings {
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
