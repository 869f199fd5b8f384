//! `-R` and `-Q`: changes and queries of another `zc-pv`.
//!
//! The caller listens on a socket in a directory of the user, sends `SIGUSR2`, and waits. The other
//! process finds such sockets, connects to them and reads a request. It has no socket, thread or
//! file for this before the first signal. Each side checks the user of the other one by
//! `SO_PEERCRED`.

use std::process::ExitCode;

use crate::common::cli::message;
use crate::pv::args::Args;
use crate::pv::settings::{self, Settings};
use crate::pv::status::Status;
use call::Call;
use protocol::{Change, Request};

pub(super) mod answer;
mod call;
pub(super) mod control;
mod directory;
pub(super) mod protocol;
mod query;

/// A request to another process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remote {
    /// `-R`: a change of the settings.
    Change(i32),
    /// `-Q`: a query of the progress.
    Query(i32),
}

impl Remote {
    /// Returns the request of the command line, if it has one.
    ///
    /// # Errors
    ///
    /// Returns the error in the options, in the wording of pv.
    pub(crate) fn from_args(args: &Args) -> Result<Option<Self>, String> {
        let change = settings::number("-R", args.remote.as_deref(), i32::MAX)?;
        let query = settings::number("-Q", args.query.as_deref(), i32::MAX)?;
        let (remote, letter, what) = match (change, query) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err("cannot use remote control and remote query together".to_owned());
            }
            (Some(pid), None) => (Self::Change(pid), 'R', "control"),
            (None, Some(pid)) => (Self::Query(pid), 'Q', "query"),
        };
        if !args.watchfd.is_empty() {
            return Err(format!(
                "cannot use remote {what} when watching file descriptors"
            ));
        }
        if !args.files.is_empty() {
            return Err(format!(
                "-{letter}: files cannot be specified with this option"
            ));
        }
        Ok(Some(remote))
    }

    /// Sends the request, and shows the result.
    pub(crate) fn run(self, args: &Args, settings: Settings) -> ExitCode {
        let outcome = match self {
            Self::Change(pid) => {
                Change::from_args(args, &settings).and_then(|change| apply(pid, change))
            }
            Self::Query(pid) => query::show(pid, settings),
        };
        match outcome {
            Ok(status) => status.into(),
            Err(message) => {
                message::warn(&message);
                Status::REMOTE.into()
            }
        }
    }
}

/// Makes another process change its settings.
fn apply(pid: i32, change: Change) -> Result<Status, String> {
    let mut call = Call::to(pid, &Request::Change(change))?;
    let mut answer = String::new();
    match call.read_line(&mut answer) {
        Ok(_) if answer.ends_with('\n') => Ok(Status::GOOD),
        _ => Err(call::not_received(pid)),
    }
}
