//! `-R` and `-Q`: one `zc-pv` changes another one, or shows its progress.
//!
//! The caller listens on a socket in a directory of the user, sends `SIGUSR2`, and waits. The other process looks for
//! such sockets, connects to them and reads a request. Until then it has no socket, thread or file for this. Each side
//! checks by `SO_PEERCRED` who the other one is.

use std::process::ExitCode;

use super::options::Args;
use super::settings::{self, Settings};
use super::status::Status;
use crate::exit;
use call::Call;
use message::{Change, Request};

pub(super) use answer::{Incoming, Watchers, answer};
pub(super) use control::Control;
pub(super) use message::{Change as RemoteChange, Request as RemoteRequest, Snapshot};

mod answer;
mod call;
mod control;
mod directory;
mod message;
mod query;

/// What the command line asks another process for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Remote {
    /// `-R`: to change.
    Change(i32),
    /// `-Q`: to tell its progress.
    Query(i32),
}

impl Remote {
    /// Returns what the command line asks another process for, if it does.
    ///
    /// # Errors
    ///
    /// What is wrong with the options, in pv's words.
    pub(super) fn of(args: &Args) -> Result<Option<Self>, String> {
        let change = settings::number("process ID", args.remote.as_deref(), i32::MAX)?;
        let query = settings::number("process ID", args.query.as_deref(), i32::MAX)?;
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

    /// Asks the other process.
    pub(super) fn run(self, args: &Args, settings: Settings) -> ExitCode {
        let outcome = match self {
            Self::Change(pid) => Change::of(args, &settings).and_then(|change| apply(pid, change)),
            Self::Query(pid) => query::show(pid, settings),
        };
        match outcome {
            Ok(status) => status.into(),
            Err(message) => {
                exit::say(&message);
                Status::REMOTE.into()
            }
        }
    }
}

/// Has another process change its settings.
fn apply(pid: i32, change: Change) -> Result<Status, String> {
    let mut call = Call::to(pid, &Request::Change(change))?;
    let mut answer = String::new();
    match call.read_line(&mut answer) {
        Ok(_) if answer.ends_with('\n') => Ok(Status::GOOD),
        _ => Err(call::not_received(pid)),
    }
}
