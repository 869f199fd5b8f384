//! The whole of a run: what is opened, moved, shown and closed, in which order.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use rustix::fs::{FileType, Stat};

use super::carrier::{Carrier, Limit, is_same_file};
use super::changes::Changes;
use super::digest::{self, Stream};
use super::display::{Display, Place, Shown, Stage};
use super::ending::{Ending, Refusal, State};
use super::format::Format;
use super::input;
use super::meter::Meter;
use super::monitor;
use super::objects::Objects;
use super::options::Args;
use super::output::Output;
use super::pidfile::Pidfile;
use super::remote::Remote;
use super::settings::{self, Form, JsonOutput, Settings, Size};
use super::status::Status;
use super::watch;
use super::witness::{Counted, Witness};
use crate::digest::Digest;
use crate::quote::quoted;
use crate::{exit, sys};

/// The status after a command line that makes no sense, which pv tells as it tells a lack of memory.
pub const MISUSE: u8 = Status::MEMORY.number();

/// Does what the command line asks for, and complains of what cannot be done.
#[must_use]
pub fn run(args: &Args, matches: &ArgMatches) -> ExitCode {
    let refused = monitor::refused(args);
    let settings = refused.map_or_else(|| Settings::of(args, matches), Err);
    let remote = settings.and_then(|settings| Ok((Remote::of(args)?, settings)));
    match remote {
        Ok((Some(remote), settings)) => remote.run(args, settings),
        Ok((None, settings)) if !args.watchfd.is_empty() => watch::follow(args, &settings).into(),
        Ok((None, mut settings)) => match settings.monitor.take() {
            Some(monitor) => monitor::run(settings, &monitor).into(),
            None => transfer(settings).into(),
        },
        Err(message) => {
            exit::say(&message);
            MISUSE.into()
        }
    }
}

/// Moves all inputs.
fn transfer(mut settings: Settings) -> Status {
    if settings.inputs.is_empty() {
        settings.inputs.push("-".into());
    }
    // Nobody is told more than that a descriptor is closed.
    let _ = sys::hold_closed_descriptors();
    // Whose reader has gone is to leave a tidy terminal.
    let dies_of_sigpipe = !sys::is_ignored(libc::SIGPIPE);
    sys::ignore_sigpipe();

    let objects = match objects(&settings) {
        Ok(objects) => objects,
        Err(refusal) => return refusal.report(&settings, None),
    };
    let prepared = prepare(&settings).and_then(|(changes, output)| {
        let sizes = sizes(&settings, &output)?;
        Ok((changes, output, sizes))
    });
    let (changes, output, sizes) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => return refusal.report(&settings, objects),
    };

    let meter = meter(&settings);
    let settings = Arc::new(settings);
    let first = Stage {
        name: match &settings.spool {
            Some(_) => Some("(input)".to_owned()),
            None => settings.name.clone(),
        },
        total: sizes.total,
        bytes: sizes.bytes,
        from: Place::default(),
    };
    let shown = Shown {
        settings: settings.clone(),
        meter: meter.clone(),
        output: output.pipe(),
        changes: changes.clone(),
        stage: first,
    };
    let (display, handles) = match Display::begin(shown, objects) {
        Ok(display) => display,
        Err(error) => {
            return Refusal::of(Status::INTERNAL, "(stderr)", &error).report(&settings, None);
        }
    };
    let mut carrier = Carrier::new(
        &settings,
        &meter,
        (&display, &handles),
        &changes,
        sizes.limit,
    );
    let taken = match &settings.spool {
        None => carrier.carry_all(&settings.inputs, &output),
        Some(spool) => carrier.carry_through(spool, &settings.inputs, &output),
    };
    let (mut status, is_unread) = (carrier.status(), carrier.is_unread());
    let mut error = carrier.error().map(str::to_owned);
    // The digest of what did not arrive would be taken for that of everything.
    let digest = match taken {
        ControlFlow::Continue(()) => meter.witness().digest().map(Stream::finish),
        ControlFlow::Break(()) => None,
    };
    let file = digest_file(&settings, &output, status).map(OsStr::to_owned);
    let closed = close(output, &settings.inputs, &display);
    if let Err(refusal) = closed {
        status.add(refusal.status);
        error.get_or_insert(refusal.message);
    }
    display.finish(Ending {
        state: match status {
            // Where SIGPIPE is ignored, a reader that has left is no failure of the process.
            Status::GOOD if !is_unread => State::Done,
            _ => State::Failed,
        },
        error,
        digest: digest.as_ref().map(Digest::to_string),
    });
    drop(changes);
    // An object on standard error has it already, and its reader expects objects.
    if let Some(digest) = &digest
        && settings.form != Form::Json
    {
        exit::tell(&digest::line(digest, file.as_deref()));
    }
    if is_unread && dies_of_sigpipe {
        sys::by_default(libc::SIGPIPE);
    }
    status
}

/// Opens the place for objects, and empties a file, unless that is an input or the output.
pub(super) fn open_objects(json: &JsonOutput, settings: &Settings) -> Result<Objects, Refusal> {
    let refused = |error| Refusal::of(Status::ACCESS, &json.name(), &error);
    let objects = Objects::open(json).map_err(refused)?;
    let Some(file) = objects.file() else {
        return Ok(objects);
    };
    let is_same = |name: &OsStr| is_same_file(input::status(name), file.as_fd());
    let message = if let Some(name) = settings.inputs.iter().find(|name| is_same(name)) {
        format!("{}: input file is also the output", quoted(name))
    } else if let settings::Output::File(path) = &settings.output
        && is_same(path.as_os_str())
    {
        format!(
            "{}: file of --json is also the output",
            quoted(path.as_os_str())
        )
    } else {
        if matches!(json, JsonOutput::File(_)) {
            file.set_len(0).map_err(refused)?;
        }
        return Ok(objects);
    };
    Err(Refusal {
        status: Status::INPUT_IS_OUTPUT,
        message,
    })
}

/// Opens the place for objects, if they have one of their own.
pub(super) fn objects(settings: &Settings) -> Result<Option<Objects>, Refusal> {
    let json = settings.json.as_ref();
    json.map(|json| open_objects(json, settings)).transpose()
}

/// The meter of a transfer with these settings.
pub(super) fn meter(settings: &Settings) -> Arc<Meter> {
    let tail_bytes = settings.formats().map(Format::tail_bytes).max();
    let witness = Witness::new(
        tail_bytes.unwrap_or(0),
        settings.formats().any(Format::needs_line),
        settings.hash.map(Stream::new),
    );
    Arc::new(Meter::new(settings.counted, witness))
}

/// Keeps the process's number, and opens the output.
pub(super) fn prepare(settings: &Settings) -> Result<(Arc<Changes>, Output), Refusal> {
    let pidfile = match settings.pidfile.as_deref() {
        Some(path) => Some(
            Pidfile::at(path)
                .map_err(|error| Refusal::of(Status::PIDFILE, &quoted(path.as_os_str()), &error))?,
        ),
        None => None,
    };
    let changes = Arc::new(Changes::with(pidfile));
    let output = Output::open(&settings.output).map_err(|error| {
        let name = match &settings.output {
            settings::Output::File(path) => quoted(path.as_os_str()),
            _ => "(stdout)".to_owned(),
        };
        Refusal::of(Status::ACCESS, &name, &error)
    })?;
    replace(&settings.inputs, &output)?;
    Ok((changes, output))
}

/// The file that the digest is of, if it is of one file.
fn digest_file<'a>(
    settings: &'a Settings,
    output: &'a Output,
    status: Status,
) -> Option<&'a OsStr> {
    let is_file = |stat: rustix::io::Result<Stat>, kinds: &[FileType]| {
        stat.is_ok_and(|stat| kinds.contains(&FileType::from_raw_mode(stat.st_mode)))
    };
    if let Output::File(file, path) = output
        && is_file(rustix::fs::fstat(file), &[FileType::RegularFile])
    {
        return Some(path.as_os_str());
    }
    let kinds = [FileType::RegularFile, FileType::BlockDevice];
    match &settings.inputs[..] {
        // Without -S it has been read from its beginning to its end.
        [name]
            if name != "-"
                && !settings.stops_at_size
                && status == Status::GOOD
                && is_file(rustix::fs::stat(name), &kinds) =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// Empties an output that was named, unless it is one of the inputs.
fn replace(inputs: &[OsString], output: &Output) -> Result<(), Refusal> {
    if !matches!(output, Output::File(..)) {
        return Ok(());
    }
    for name in inputs {
        if is_same_file(input::status(name), output.as_fd()) {
            return Err(Refusal {
                status: Status::INPUT_IS_OUTPUT,
                message: format!("{}: input file is also the output", quoted(name)),
            });
        }
    }
    output
        .replace()
        .map_err(|error| Refusal::of(Status::ACCESS, &output.name(), &error))
}

/// How much there will be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// In what is counted.
    pub(super) total: Option<u64>,
    /// In bytes, where the lines are not known.
    pub(super) bytes: Option<u64>,
    pub(super) limit: Limit,
}

/// Returns the size that the user has given.
pub(super) fn given_size(settings: &Settings) -> Result<Option<u64>, Refusal> {
    let given = match &settings.size {
        Some(Size::Of(size)) => Some(*size),
        Some(Size::As(path)) => match input::size_as(path) {
            Ok(size) => Some(size),
            Err(error) => {
                let name = quoted(path.as_os_str());
                return Err(Refusal::of(Status::MEMORY, &name, &error));
            }
        },
        None => None,
    };
    Ok(given.filter(|size| *size > 0))
}

/// How much there will be, and how much may be moved at most.
pub(super) fn sizes(settings: &Settings, output: &Output) -> Result<Sizes, Refusal> {
    let given = given_size(settings)?;
    if let (None, Counted::Records(_)) = (given, settings.counted) {
        // How many lines there are is known when all have been read; how far it is, by the bytes.
        return Ok(Sizes {
            bytes: input::total(&settings.inputs),
            ..Sizes::default()
        });
    }
    if let Some(total) = given.or_else(|| input::total(&settings.inputs)) {
        return Ok(Sizes {
            total: Some(total),
            limit: if settings.stops_at_size {
                Limit::Total(total)
            } else {
                Limit::None
            },
            bytes: None,
        });
    }
    // An output device is filled from where it stands.
    let is_device = output.is(FileType::BlockDevice);
    let room = is_device
        .then(|| input::remaining(output.as_fd()))
        .flatten();
    Ok(Sizes {
        total: room,
        limit: match room {
            Some(room) if settings.stops_at_size => Limit::Total(room),
            Some(room) => Limit::Room(room),
            None => Limit::None,
        },
        bytes: None,
    })
}

/// Closes what was written to, where an error may be told at last.
///
/// # Errors
///
/// The first one. All have been reported.
pub(super) fn close(output: Output, inputs: &[OsString], display: &Display) -> Result<(), Refusal> {
    let mut outcome = Ok(());
    let mut note = |name: &str, closed: std::io::Result<()>| {
        if let Err(error) = closed {
            let refusal = Refusal::of(Status::INTERNAL, name, &error);
            display.say(refusal.message.clone());
            if outcome.is_ok() {
                outcome = Err(refusal);
            }
        }
    };
    if inputs.iter().any(|name| name == "-") {
        note("(stdin)", sys::close_stdin());
    }
    let name = output.name();
    note(&name, output.close());
    // The thread that draws may still open files, which are not to stand there.
    let _ = sys::hold_closed_descriptors();
    outcome
}
