//! The start and the end of a transfer: the output, the sizes, and closing descriptors.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::common::cli::quote::quoted;
use crate::common::sys;
use crate::pv::cleanup::Cleanup;
use crate::pv::display::Display;
use crate::pv::display::format::Format;
use crate::pv::display::objects::Objects;
use crate::pv::refusal::Refusal;
use crate::pv::settings::{self, JsonOutput, Settings, Size, Spool};
use crate::pv::shared_progress::SharedProgress;
use crate::pv::status::Status;
use crate::pv::transfer::digest::Stream;
use crate::pv::transfer::input;
use crate::pv::transfer::inspector::{Counted, Inspector};
use crate::pv::transfer::output::Output;
use crate::pv::transfer::pidfile::Pidfile;
use crate::pv::transfer::{Limit, is_same_file};

/// Opens the output for objects, and truncates a file. Standard error must not lead to the same
/// file. `refuse` returns the reason if the program uses the file in another way.
///
/// # Errors
///
/// Returns an error if the file is used in another way, or cannot be opened or truncated.
pub(crate) fn open_objects(
    json: &JsonOutput,
    refuse: impl FnOnce(&File) -> Option<String>,
) -> Result<Objects, Refusal> {
    let refused = |error| Refusal::new(Status::ACCESS, &json.name(), &error);
    let objects = Objects::open(json).map_err(refused)?;
    if let Some(file) = objects.file() {
        let is_stderr = is_same_file(rustix::fs::fstat(rustix::stdio::stderr()), file.as_fd());
        let of_stderr =
            || is_stderr.then(|| format!("{}: file of --json is also standard error", json.name()));
        if let Some(message) = refuse(file).or_else(of_stderr) {
            return Err(Refusal {
                status: Status::INPUT_IS_OUTPUT,
                message,
            });
        }
        if matches!(json, JsonOutput::File(_)) {
            file.set_len(0).map_err(refused)?;
        }
    }
    Ok(objects)
}

/// Returns the reason why objects cannot be written to a file: the transfer reads or writes it.
fn used_by_transfer(file: &File, json: &JsonOutput, settings: &Settings) -> Option<String> {
    let is_input = |name: &&OsString| is_same_file(input::status(name), file.as_fd());
    if let Some(name) = settings.inputs.iter().find(is_input) {
        return Some(format!("{}: input file is also the output", quoted(name)));
    }
    let (output, name) = match &settings.output {
        settings::Output::File(path) | settings::Output::Discard(Some(path)) => {
            (rustix::fs::stat(path), quoted(path.as_os_str()))
        }
        settings::Output::Stdout => (rustix::fs::fstat(rustix::stdio::stdout()), json.name()),
        settings::Output::Discard(None) | settings::Output::Command => {
            (Err(Errno::NOENT), json.name())
        }
    };
    if is_same_file(output, file.as_fd()) {
        return Some(format!("{name}: file of --json is also the output"));
    }
    match &settings.spool {
        Some(Spool::File(path)) if is_same_file(rustix::fs::stat(path), file.as_fd()) => Some(
            format!("{}: file of --json is also that of -U", json.name()),
        ),
        _ => None,
    }
}

/// Opens the separate output for objects, if there is one.
pub(crate) fn objects(settings: &Settings) -> Result<Option<Objects>, Refusal> {
    let json = settings.json.as_ref();
    json.map(|json| open_objects(json, |file| used_by_transfer(file, json, settings)))
        .transpose()
}

/// Creates the shared progress of a transfer with these settings.
pub(crate) fn shared_progress(settings: &Settings) -> Arc<SharedProgress> {
    let tail_bytes = settings.formats().map(Format::tail_bytes).max();
    let inspector = Inspector::new(
        tail_bytes.unwrap_or(0),
        settings.formats().any(Format::needs_line),
        settings.hash.map(Stream::new),
    );
    Arc::new(SharedProgress::new(settings.counted, inspector))
}

/// Writes the file of `-P`, if there is one.
pub(crate) fn pidfile(settings: &Settings) -> Result<Option<Pidfile>, Refusal> {
    let create = |path: &std::path::PathBuf| {
        let refused = |error| Refusal::new(Status::PIDFILE, &quoted(path.as_os_str()), &error);
        Pidfile::create(path).map_err(refused)
    };
    settings.pidfile.as_ref().map(create).transpose()
}

/// Writes the pidfile, and opens the output.
pub(crate) fn prepare(settings: &Settings) -> Result<(Arc<Cleanup>, Output), Refusal> {
    let cleanup = Arc::new(Cleanup::new(pidfile(settings)?));
    if let settings::Output::Discard(Some(path)) = &settings.output {
        let file = open(&settings::Output::File(path.clone()))?;
        replace(&settings.inputs, &file)?;
    }
    let output = open(&settings.output)?;
    replace(&settings.inputs, &output)?;
    Ok((cleanup, output))
}

fn open(output: &settings::Output) -> Result<Output, Refusal> {
    Output::open(output).map_err(|error| {
        let name = match output {
            settings::Output::File(path) => quoted(path.as_os_str()),
            _ => "(stdout)".to_owned(),
        };
        Refusal::new(Status::ACCESS, &name, &error)
    })
}

/// Truncates a named output, unless it is one of the inputs.
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
        .map_err(|error| Refusal::new(Status::ACCESS, &output.name(), &error))
}

/// The sizes of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    /// The total in counted units.
    pub(crate) total: Option<u64>,
    /// The total in bytes, if the number of lines is unknown.
    pub(crate) bytes: Option<u64>,
    pub(crate) limit: Limit,
}

/// Returns the size that the user has given.
pub(crate) fn given_size(settings: &Settings) -> Result<Option<u64>, Refusal> {
    let given = match &settings.size {
        Some(Size::Exact(size)) => Some(*size),
        Some(Size::SameAs(path)) => match input::size_as(path) {
            Ok(size) => Some(size),
            Err(error) => {
                let name = quoted(path.as_os_str());
                return Err(Refusal::new(Status::MEMORY, &name, &error));
            }
        },
        None => None,
    };
    Ok(given.filter(|size| *size > 0))
}

/// Returns the total size, and the limit of the transfer.
pub(crate) fn sizes(settings: &Settings, output: &Output) -> Result<Sizes, Refusal> {
    let given = given_size(settings)?;
    if let (None, Counted::Records(_)) = (given, settings.counted) {
        // The number of lines is known only at the end. The progress is that in bytes.
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
    // An output device is filled from its cursor.
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

/// Closes the output and standard input, because some errors are reported only then.
///
/// # Errors
///
/// Returns the first error. All have been reported.
pub(crate) fn close(output: Output, inputs: &[OsString], display: &Display) -> Result<(), Refusal> {
    let mut outcome = Ok(());
    let mut note = |name: &str, closed: std::io::Result<()>| {
        if let Err(error) = closed {
            let refusal = Refusal::new(Status::INTERNAL, name, &error);
            display.write_message(refusal.message.clone());
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
    // The display thread may still open files, which must not get these numbers.
    let _ = sys::hold_closed_descriptors();
    outcome
}
