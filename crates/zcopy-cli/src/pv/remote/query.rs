//! `-Q`: shows the progress of another process as if it were this one's.

use std::sync::Arc;

use super::call::{Call, not_received};
use super::message::{Request, Snapshot};
use crate::exit;
use crate::number::Unit;
use crate::pv::changes::Changes;
use crate::pv::display::{Display, Place, Shown, Stage};
use crate::pv::ending::{Ending, State};
use crate::pv::job::open_objects;
use crate::pv::meter::Meter;
use crate::pv::pidfile::Pidfile;
use crate::pv::settings::Settings;
use crate::pv::status::Status;
use crate::pv::witness::{Counted, Witness};
use crate::quote::quoted;
use crate::sys;

/// Shows the progress of a process until that ends.
pub(super) fn show(pid: i32, mut settings: Settings) -> Result<Status, String> {
    let pidfile = settings.pidfile.as_deref().map(Pidfile::at).transpose();
    let pidfile = pidfile.map_err(|error| {
        let path = settings.pidfile.clone().unwrap_or_default();
        format!("{}: {}", quoted(path.as_os_str()), exit::worded(&error))
    })?;
    let mut progress = Progress(Call::to(pid, &Request::Query)?);
    let first = progress.next().ok_or_else(|| not_received(pid))?;
    if !first.counts_bytes {
        settings.counted = Counted::Records(b'\n');
        settings.unit = Unit::Lines;
    } else if settings.unit == Unit::Lines {
        settings.counted = Counted::Bytes;
        settings.unit = Unit::Bytes;
    }
    // No byte comes from here.
    settings.per_file = false;
    sys::ignore_sigpipe();
    let settings = Arc::new(settings);
    let meter = Arc::new(Meter::new(settings.counted, Witness::default()));
    meter.follow(place(&first), first.elapsed);
    let stage = stage(&settings, &first);
    let objects = settings
        .json
        .as_ref()
        .map(|json| open_objects(json, &settings))
        .transpose()
        .map_err(|refusal| refusal.message)?;
    let shown = Shown {
        settings: settings.clone(),
        meter: meter.clone(),
        output: None,
        changes: Arc::new(Changes::with(pidfile)),
        stage,
    };
    let (display, _handles) = Display::begin(shown, objects)
        .map_err(|error| format!("(stderr): {}", exit::worded(&error)))?;
    let mut last = first;
    for snapshot in progress {
        if snapshot.stage != last.stage {
            display.stage(self::stage(&settings, &snapshot));
        } else if (snapshot.total, snapshot.total_bytes) != (last.total, last.total_bytes) {
            display.resize(snapshot.total, snapshot.total_bytes);
        }
        meter.follow(place(&snapshot), snapshot.elapsed);
        last = snapshot;
    }
    display.finish(Ending {
        state: match last.state {
            // It was killed, and could not tell its end.
            State::Running => State::Interrupted,
            ended => ended,
        },
        error: None,
        digest: None,
    });
    Ok(Status::GOOD)
}

/// The snapshots of a process, to its end.
struct Progress(Call);

impl Iterator for Progress {
    type Item = Snapshot;

    fn next(&mut self) -> Option<Snapshot> {
        let mut line = String::new();
        // A process that is killed may end in the middle of a line.
        self.0.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }
}

fn place(snapshot: &Snapshot) -> Place {
    Place {
        bytes: if snapshot.counts_bytes {
            // What has arrived, and not what the output has accepted.
            snapshot.moved
        } else {
            snapshot.bytes
        },
        counted: snapshot.moved,
    }
}

fn stage(settings: &Settings, snapshot: &Snapshot) -> Stage {
    Stage {
        name: settings.name.clone(),
        total: snapshot.total,
        bytes: snapshot.total_bytes,
        from: Place::default(),
    }
}
