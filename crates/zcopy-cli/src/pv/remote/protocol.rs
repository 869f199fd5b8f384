//! The protocol between the two processes: objects in JSON, one per line.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::common::cli::message;
use crate::common::cli::quote::quoted;
use crate::pv::args::Args;
use crate::pv::display::format::Switches;
use crate::pv::ending::State;
use crate::pv::settings::{self, Settings, Size};
use crate::pv::transfer::input;

/// The longest line in bytes.
pub(super) const MAX_LINE: u64 = 1 << 20;

/// The request of a caller. A process that does not know a request closes the connection.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Change the settings, and acknowledge that by a line.
    Change(Change),
    /// Send a [`Snapshot`] now, every 100 ms, and at the end.
    Query,
}

/// The settings of the caller's command line. `None` leaves a setting unchanged, except for the
/// format and the name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) switches: Switches,
    /// Takes precedence over `switches`.
    pub(crate) format: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) extra: Option<String>,
    /// In thousandths of a byte or line per second. 0 removes the limit.
    pub(crate) rate_limit: Option<u64>,
    /// In bytes or lines. Never 0.
    pub(crate) size: Option<u64>,
    pub(crate) interval: Option<Duration>,
    pub(crate) columns: Option<u16>,
    pub(crate) rows: Option<u16>,
}

impl Change {
    /// Returns the changes of a command line.
    ///
    /// # Errors
    ///
    /// Returns the error of a file of `--size @FILE`. All other options have been checked for
    /// `settings`.
    pub(super) fn from_args(args: &Args, settings: &Settings) -> Result<Self, String> {
        let lossy = |text: &std::ffi::OsString| text.to_string_lossy().into_owned();
        let size = match &settings.size {
            Some(Size::Exact(size)) => Some(*size),
            Some(Size::SameAs(path)) => Some(input::size_as(path).map_err(|error| {
                let cause = message::worded(&error);
                format!("{}: {cause}", quoted(path.as_os_str()))
            })?),
            None => None,
        };
        Ok(Self {
            switches: settings::switches(args, settings.form)?,
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

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The number of phases that have ended. `-U` has two, each of which begins at 0.
    pub(crate) phase: u64,
    /// The elapsed time, without the time in which the process was stopped.
    pub(crate) elapsed: Duration,
    /// Whether bytes are counted, or lines.
    pub(crate) counts_bytes: bool,
    /// In counted units.
    pub(crate) moved: u64,
    pub(crate) bytes: u64,
    /// In counted units.
    pub(crate) total: Option<u64>,
    /// In bytes, if lines are counted and their number is unknown.
    pub(crate) total_bytes: Option<u64>,
    pub(crate) state: State,
}
