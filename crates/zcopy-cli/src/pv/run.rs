//! The run of a transfer, from the command line to the exit status.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use rustix::fs::{FileType, Stat};

use crate::common::cli::message;
use crate::common::digest::Digest;
use crate::common::sys;
use crate::pv::args::Args;
use crate::pv::display::Display;
use crate::pv::display::displayed_transfer::DisplayedTransfer;
use crate::pv::display::event::Phase;
use crate::pv::ending::{Ending, State};
use crate::pv::monitor;
use crate::pv::refusal::Refusal;
use crate::pv::remote::Remote;
use crate::pv::settings::{Form, Settings};
use crate::pv::shared_progress::Position;
use crate::pv::status::Status;
use crate::pv::transfer::Copier;
use crate::pv::transfer::digest::{self, Stream};
use crate::pv::transfer::output::Output;
use crate::pv::watch;

use crate::pv::prepare::{close, objects, prepare, shared_progress, sizes};
/// The exit status after an invalid command line. pv uses the same one for a lack of memory.
pub const MISUSE: u8 = Status::MEMORY.number();

/// Runs what the command line asks for, and reports errors.
#[must_use]
pub fn run(args: &Args, matches: &ArgMatches) -> ExitCode {
    let refused = monitor::refused(args);
    let settings = refused.map_or_else(|| Settings::from_args(args, matches), Err);
    let remote = settings.and_then(|settings| Ok((Remote::from_args(args)?, settings)));
    match remote {
        Ok((Some(remote), settings)) => remote.run(args, settings),
        Ok((None, settings)) if !args.watchfd.is_empty() => watch::follow(args, &settings).into(),
        Ok((None, mut settings)) => {
            // `-R` may ask for a title later, when other threads read the environment.
            sys::title::make_room();
            match settings.monitor.take() {
                Some(monitor) => monitor::run(settings, &monitor).into(),
                None => transfer(settings).into(),
            }
        }
        Err(message) => {
            message::warn(&message);
            MISUSE.into()
        }
    }
}

/// Copies all inputs.
fn transfer(mut settings: Settings) -> Status {
    if settings.inputs.is_empty() {
        settings.inputs.push("-".into());
    }
    // If this fails, later errors report a closed descriptor.
    let _ = sys::hold_closed_descriptors();
    // If the reader of the output leaves, the terminal is tidied up before the process ends.
    let dies_of_sigpipe = !sys::is_ignored(libc::SIGPIPE);
    sys::ignore_sigpipe();

    let objects = match objects(&settings) {
        Ok(objects) => objects,
        Err(refusal) => return refusal.report(&settings, None),
    };
    let prepared = prepare(&settings).and_then(|(cleanup, output)| {
        let sizes = sizes(&settings, &output)?;
        Ok((cleanup, output, sizes))
    });
    let (cleanup, output, sizes) = match prepared {
        Ok(prepared) => prepared,
        Err(refusal) => return refusal.report(&settings, objects),
    };

    let progress = shared_progress(&settings);
    let settings = Arc::new(settings);
    let first = Phase {
        name: match &settings.spool {
            Some(_) => Some("(input)".to_owned()),
            None => settings.name.clone(),
        },
        total: sizes.total,
        bytes: sizes.bytes,
        from: Position::default(),
    };
    let shown = DisplayedTransfer {
        settings: settings.clone(),
        progress: progress.clone(),
        output: output.pipe(),
        cleanup: cleanup.clone(),
        phase: first,
    };
    let (display, handles) = match Display::begin(shown, objects) {
        Ok(display) => display,
        Err(error) => {
            return Refusal::without_display(&error).report(&settings, None);
        }
    };
    let mut copier = Copier::new(
        &settings,
        &progress,
        (&display, &handles),
        &cleanup,
        sizes.limit,
    );
    let taken = match &settings.spool {
        None => copier.copy_inputs(&settings.inputs, &output),
        Some(spool) => copier.copy_through_spool(spool, &settings.inputs, &output),
    };
    let (mut status, is_unread) = (copier.status(), copier.is_unread());
    let mut error = copier.error().map(str::to_owned);
    // A digest of a part would be taken for that of the whole.
    let is_whole = taken.is_continue() && status == Status::GOOD;
    let digest = progress.inspector().digest().map(Stream::finish);
    let digest = digest.filter(|_| is_whole);
    let file = digest_file(&settings, &output, status).map(OsStr::to_owned);
    let closed = close(output, &settings.inputs, &display);
    if let Err(refusal) = closed {
        status.add(refusal.status);
        error.get_or_insert(refusal.message);
    }
    let is_killed = is_unread && dies_of_sigpipe;
    let state = State::at_end(status, is_killed);
    status.add(display.finish(Ending {
        state,
        error: error.filter(|_| state == State::Failed),
        digest: digest.as_ref().map(Digest::to_string),
    }));
    drop(cleanup);
    // With `--json` on standard error the last object has the digest, and its reader expects
    // objects.
    if let Some(digest) = &digest
        && settings.form != Form::Json
    {
        let written = message::line(&digest::line(digest, file.as_deref()));
        status.add(Status::of_written(&written));
    }
    if is_killed {
        sys::raise_default(libc::SIGPIPE);
    }
    status
}

/// Returns the file whose digest is printed: the output or the only input.
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
        // Without -S the file has been read from its beginning to its end.
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
