//! One run of a program under ptrace(2).
//!
//! The tracer counts calls over all processes and threads of the program together. It leaves out
//! what comes before `main`: the calls of the dynamic loader, and the reads of `/proc/self/maps` by
//! which Rust's runtime looks for the stack. So the first call of each name is the program's.
//!
//! Two kinds of descriptor are special:
//!
//! - Files with `O_DIRECT` refuse counts that are not whole blocks. Their counts are lowered to a
//!   multiple of 4,096, or left alone.
//! - Events (`eventfd`, `signalfd` and others in `anon_inode`) refuse short counts. They are left
//!   alone.
//!
//! A short read of a datagram or a packet loses the rest of it, and is no short count. Do not trace
//! programs that read these. Signals that stop a program, such as `SIGTSTP`, have no effect here.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::process::Command;
use std::time::Duration;

pub(crate) use call::Call;
pub(crate) use command::{TracedCommand, n_calls};
pub(crate) use intervention::Intervention;
pub(crate) use shortening::{Amount, Extent, Shortening};

mod call;
mod command;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod count;
mod intervention;
mod shortening;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod tracees;

/// The results of a traced program.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) ending: Ending,
    /// The calls whose count was lowered, as they returned.
    pub(crate) shortened: Vec<Shortened>,
    /// How many counts were to be lowered but could not be: one block of a file with `O_DIRECT`, or
    /// an event.
    pub(crate) left_alone: u32,
    /// The results of each call, in the order of their entries. Errors are negative.
    pub(crate) results: BTreeMap<Call, Vec<i64>>,
    /// The number of calls that all threads together have entered.
    pub(crate) n_calls: u32,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With this status.
    Exited(i32),
    /// By the signal with this number.
    Killed(i32),
    /// It ran longer than the limit, and the tracer killed it.
    Hung,
}

/// A call whose count was lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(crate) call: Call,
    /// The descriptors and what they are, such as `3 (pipe:[1234])`.
    pub(crate) fds: String,
    /// The count that the program asked for.
    pub(crate) from: u64,
    /// The count that the kernel saw.
    pub(crate) to: u64,
    /// The result of the call. Errors are negative.
    pub(crate) result: i64,
}

impl Traced {
    /// Whether the count of a call was lowered.
    pub(crate) fn is_reached(&self) -> bool {
        !self.shortened.is_empty()
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "exited with status {status}"),
            Ending::Killed(signal) => write!(f, "killed by signal {signal}"),
            Ending::Hung => f.write_str("hung, and was killed"),
        }
    }
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortened {
            call,
            fds,
            from,
            to,
            result,
        } = self;
        write!(f, "{call} {fds}: {from} lowered to {to}, returned {result}")
    }
}

/// A command that [`run`] can trace. Arguments, standard streams and the environment are the
/// caller's.
///
/// A shell stops itself, so that the tracer can attach before the program begins. This needs no
/// `unsafe` code between fork(2) and execve(2).
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", r#"kill -STOP $$; exec "$@""#, "sh"]);
    command.arg(program);
    command
}

/// Runs a command made by [`command()`] to its end, and intervenes.
///
/// When this returns, all processes of the program have ended: the tracer kills those that run
/// longer than `limit`, and the kernel kills them if the tracer dies.
///
/// # Errors
///
/// The command cannot be run or traced.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
pub(crate) fn run(
    command: Command,
    intervention: Option<Intervention>,
    limit: Duration,
) -> anyhow::Result<Traced> {
    // A thread of its own waits for its own children alone. Other threads may trace meanwhile.
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| tracees::trace(command, intervention, limit));
        tracer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Fails: the tracer knows the registers of one kind of machine.
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")))]
pub(crate) fn run(_: Command, _: Option<Intervention>, _: Duration) -> anyhow::Result<Traced> {
    anyhow::bail!("programs are traced on x86_64 Linux with glibc only")
}
