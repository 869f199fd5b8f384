//! `-Q`: the display of another process's progress.

use std::fs::File;
use std::sync::Arc;

use super::call::{Call, not_received};
use super::protocol::{Request, Snapshot};
use crate::common::cli::message;
use crate::common::progress::units::Unit;
use crate::common::sys;
use crate::pv::cleanup::Cleanup;
use crate::pv::display::Display;
use crate::pv::display::displayed_transfer::DisplayedTransfer;
use crate::pv::display::event::Phase;
use crate::pv::ending::{Ending, State};
use crate::pv::prepare::open_objects;
use crate::pv::prepare::pidfile;
use crate::pv::settings::{JsonOutput, Settings};
use crate::pv::shared_progress::{Position, SharedProgress};
use crate::pv::status::Status;
use crate::pv::transfer::inspector::{Counted, Inspector};
use crate::pv::watch::files::ProcDir;

/// Shows the progress of a process until it ends.
pub(super) fn show(pid: i32, mut settings: Settings) -> Result<Status, String> {
    let pidfile = pidfile(&settings).map_err(|refusal| refusal.message)?;
    let mut snapshots = Snapshots(Call::to(pid, &Request::Query)?);
    let first = snapshots.next().ok_or_else(|| not_received(pid))?;
    if !first.counts_bytes {
        settings.counted = Counted::Records(b'\n');
        settings.unit = Unit::Lines;
    } else if settings.unit == Unit::Lines {
        settings.counted = Counted::Bytes;
        settings.unit = Unit::Bytes;
    }
    // This process moves no inputs.
    settings.per_file = false;
    sys::ignore_sigpipe();
    let settings = Arc::new(settings);
    let progress = Arc::new(SharedProgress::new(settings.counted, Inspector::default()));
    progress.follow(position(&first), first.elapsed);
    let phase = phase(&settings, &first);
    let json = settings.json.as_ref();
    let opened = json.map(|json| open_objects(json, |file| used_by(pid, file, json)));
    let objects = match opened.transpose() {
        Ok(objects) => objects,
        Err(refusal) => return Ok(refusal.report(&settings, None)),
    };
    let shown = DisplayedTransfer {
        settings: settings.clone(),
        progress: progress.clone(),
        output: None,
        cleanup: Arc::new(Cleanup::new(pidfile)),
        phase,
    };
    let (display, _handles) = Display::begin(shown, objects)
        .map_err(|error| format!("(stderr): {}", message::worded(&error)))?;
    let mut last = first;
    for snapshot in snapshots {
        if snapshot.phase != last.phase {
            display.phase(self::phase(&settings, &snapshot));
        } else if (snapshot.total, snapshot.total_bytes) != (last.total, last.total_bytes) {
            display.resize(snapshot.total, snapshot.total_bytes);
        }
        progress.follow(position(&snapshot), snapshot.elapsed);
        last = snapshot;
    }
    let status = display.finish(Ending {
        state: match last.state {
            // The process was killed before it could report its end.
            State::Running => State::Interrupted,
            ended => ended,
        },
        error: None,
        digest: None,
    });
    Ok(status)
}

/// An iterator over the snapshots of a process.
struct Snapshots(Call);

impl Iterator for Snapshots {
    type Item = Snapshot;

    fn next(&mut self) -> Option<Snapshot> {
        let mut line = String::new();
        // A killed process may end in the middle of a line.
        self.0.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

fn position(snapshot: &Snapshot) -> Position {
    Position {
        bytes: if snapshot.counts_bytes {
            // The bytes that have arrived, instead of those that the output has accepted.
            snapshot.moved
        } else {
            snapshot.bytes
        },
        counted: snapshot.moved,
    }
}

fn phase(settings: &Settings, snapshot: &Snapshot) -> Phase {
    Phase {
        name: settings.name.clone(),
        total: snapshot.total,
        bytes: snapshot.total_bytes,
        from: Position::default(),
    }
}

/// Returns an error message if the process has the file open to which the JSON objects would be
/// written.
fn used_by(pid: i32, file: &File, json: &JsonOutput) -> Option<String> {
    let stat = rustix::fs::fstat(file).ok()?;
    let process = ProcDir::open(pid).ok()?;
    let is_open = process.has_open((stat.st_dev, stat.st_ino), None);
    is_open.then(|| format!("{}: process {pid} has the file of --json open", json.name()))
}
