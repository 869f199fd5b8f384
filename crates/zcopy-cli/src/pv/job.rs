//! The whole of a run: what is opened, moved, shown and closed, in which order.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use rustix::fs::FileType;

use super::carrier::{Carrier, Limit, is_same_file};
use super::changes::Changes;
use super::digest::{self, Stream};
use super::display::{Display, Place, Stage};
use super::format::Format;
use super::input;
use super::meter::Meter;
use super::options::Args;
use super::output::Output;
use super::pidfile::Pidfile;
use super::settings::{self, Settings, Size};
use super::status::Status;
use super::watch;
use super::witness::{Counted, Witness};
use crate::quote::quoted;
use crate::{exit, sys};

/// The status after a command line that makes no sense, which pv tells as it tells a lack of memory.
pub const MISUSE: u8 = Status::MEMORY.number();

/// Does what the command line asks for, and complains of what cannot be done.
#[must_use]
pub fn run(args: &Args, matches: &ArgMatches) -> ExitCode {
    match Settings::of(args, matches) {
        Ok(settings) if !args.watchfd.is_empty() => watch::follow(args, &settings).into(),
        Ok(settings) => transfer(settings).into(),
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

    let pidfile = match settings.pidfile.as_deref().map(Pidfile::at) {
        Some(Ok(pidfile)) => Some(pidfile),
        Some(Err(error)) => {
            let path = settings.pidfile.unwrap_or_default();
            complain(&quoted(path.as_os_str()), &error);
            return Status::PIDFILE;
        }
        None => None,
    };
    let changes = Arc::new(Changes::with(pidfile));
    let output = match Output::open(&settings.output) {
        Ok(output) => output,
        Err(error) => {
            let name = match &settings.output {
                settings::Output::File(path) => quoted(path.as_os_str()),
                _ => "(stdout)".to_owned(),
            };
            complain(&name, &error);
            return Status::ACCESS;
        }
    };
    if let Some(status) = replace(&settings.inputs, &output) {
        return status;
    }
    let sizes = match sizes(&settings, &output) {
        Ok(sizes) => sizes,
        Err(status) => return status,
    };

    let digest = settings.hash.map(Stream::new);
    let tail_bytes = settings.formats().map(Format::tail_bytes).max();
    let witness = Witness::new(
        tail_bytes.unwrap_or(0),
        settings.formats().any(Format::needs_line),
        digest,
    );
    let meter = Arc::new(Meter::new(settings.counted, witness));
    let settings = Arc::new(settings);
    let pipe = output
        .is(FileType::Fifo)
        .then(|| output.as_fd().try_clone_to_owned());
    let first = Stage {
        name: match &settings.spool {
            Some(_) => Some("(input)".to_owned()),
            None => settings.name.clone(),
        },
        total: sizes.total,
        bytes: sizes.bytes,
        from: Place::default(),
    };
    let display = Display::begin(
        &settings,
        &meter,
        pipe.and_then(Result::ok),
        &changes,
        first,
    );
    let display = match display {
        Ok(display) => display,
        Err(error) => {
            complain("(stderr)", &error);
            return Status::INTERNAL;
        }
    };
    let mut carrier = Carrier::new(&settings, &meter, &display, &changes, sizes.limit);
    let taken = match &settings.spool {
        None => carrier.carry_all(&settings.inputs, &output),
        Some(spool) => carrier.carry_through(spool, &settings.inputs, &output),
    };
    let (mut status, is_unread) = (carrier.status(), carrier.is_unread());
    display.finish();
    drop(changes);
    // Of what did not arrive nobody wants the digest.
    if taken.is_continue()
        && let Some(digest) = meter.witness().digest()
    {
        exit::tell(&digest::line(digest));
    }
    status.add(close(output, &settings.inputs));
    if is_unread && dies_of_sigpipe {
        sys::by_default(libc::SIGPIPE);
    }
    status
}

/// Empties an output that was named, unless it is one of the inputs.
fn replace(inputs: &[OsString], output: &Output) -> Option<Status> {
    if !matches!(output, Output::File(..)) {
        return None;
    }
    for name in inputs {
        if is_same_file(input::status(name), output.as_fd()) {
            exit::say(&format!("{}: input file is also the output", quoted(name)));
            return Some(Status::INPUT_IS_OUTPUT);
        }
    }
    let error = output.replace().err()?;
    complain(&output.name(), &error);
    Some(Status::ACCESS)
}

/// How much there will be.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    /// In what is counted.
    total: Option<u64>,
    /// In bytes, where the lines are not known.
    bytes: Option<u64>,
    limit: Limit,
}

/// How much there will be, and how much may be moved at most.
fn sizes(settings: &Settings, output: &Output) -> Result<Sizes, Status> {
    let given = match &settings.size {
        Some(Size::Of(size)) => Some(*size),
        Some(Size::As(path)) => match input::size_as(path) {
            Ok(size) => Some(size),
            Err(error) => {
                complain(&quoted(path.as_os_str()), &error);
                return Err(Status::MEMORY);
            }
        },
        None => None,
    };
    let given = given.filter(|size| *size > 0);
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
fn close(output: Output, inputs: &[OsString]) -> Status {
    let mut status = Status::GOOD;
    if inputs.iter().any(|name| name == "-")
        && let Err(error) = sys::close_stdin()
    {
        complain("(stdin)", &error);
        status.add(Status::INTERNAL);
    }
    let name = output.name();
    if let Err(error) = output.close() {
        complain(&name, &error);
        status.add(Status::INTERNAL);
    }
    status
}

fn complain(name: &str, error: &std::io::Error) {
    exit::say(&format!("{name}: {}", exit::worded(error)));
}
