//! What the two processes tell each other: objects in JSON, a line each.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exit;
use crate::pv::ending::State;
use crate::pv::format::Shown;
use crate::pv::input;
use crate::pv::options::Args;
use crate::pv::settings::{self, Settings, Size};
use crate::quote::quoted;

/// The most bytes of a line.
pub(super) const MAX_LINE: u64 = 1 << 20;

/// What the caller wants. A process that does not know a request closes the connection.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::pv) enum Request {
    /// Change the settings, and acknowledge that by a line.
    Change(Change),
    /// Send a [`Snapshot`] now, every 100 ms, and at the end.
    Query,
}

/// Settings of the caller's command line. `None` leaves one as it is, but for the format and the name.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::pv) struct Change {
    pub(in crate::pv) shown: Shown,
    /// Takes precedence over `shown`.
    pub(in crate::pv) format: Option<String>,
    pub(in crate::pv) name: Option<String>,
    pub(in crate::pv) extra: Option<String>,
    /// In bytes or lines per second; 0 takes the limit off.
    pub(in crate::pv) rate_limit: Option<u64>,
    /// In bytes or lines; not 0.
    pub(in crate::pv) size: Option<u64>,
    pub(in crate::pv) interval: Option<Duration>,
    pub(in crate::pv) columns: Option<u16>,
    pub(in crate::pv) rows: Option<u16>,
}

impl Change {
    /// Returns what a command line may change.
    ///
    /// # Errors
    ///
    /// What is wrong with it. `settings` come of the same command line, so that only the file of `--size @FILE` can be.
    pub(super) fn of(args: &Args, settings: &Settings) -> Result<Self, String> {
        let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let size = match &settings.size {
            Some(Size::Of(size)) => Some(*size),
            Some(Size::As(path)) => Some(input::size_as(path).map_err(|error| {
                let cause = exit::worded(&error);
                format!("{}: {cause}", quoted(path.as_os_str()))
            })?),
            None => None,
        };
        Ok(Self {
            shown: settings::shown(args, settings.form)?,
            format: args.format.last().map(lossy),
            name: settings.name.clone(),
            extra: args.extra_display.as_ref().map(lossy),
            rate_limit: args
                .rate_limit
                .as_ref()
                .map(|_| settings.rate_limit.map_or(0, NonZeroU64::get)),
            size: size.filter(|size| *size > 0),
            interval: args.interval.as_ref().map(|_| settings.interval),
            columns: settings.columns,
            rows: settings.rows,
        })
    }
}

/// How far a transfer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::pv) struct Snapshot {
    /// How many stages have ended: with `-U` there are two, each of which begins at 0.
    pub(in crate::pv) stage: u64,
    /// Without the time in which the process was stopped.
    pub(in crate::pv) elapsed: Duration,
    /// Whether bytes are counted, and not lines.
    pub(in crate::pv) counts_bytes: bool,
    /// In what is counted.
    pub(in crate::pv) moved: u64,
    pub(in crate::pv) bytes: u64,
    /// In what is counted.
    pub(in crate::pv) total: Option<u64>,
    /// In bytes, where lines are counted and their number is unknown.
    pub(in crate::pv) total_bytes: Option<u64>,
    pub(in crate::pv) state: State,
}
