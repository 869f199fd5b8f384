//! Runs a command, or all tests, on a kernel that refuses the calls that move bytes without copying
//! them to user space.
//!
//! A seccomp filter answers the calls, as a container's does (`EPERM`) and as a kernel that lacks
//! them (`ENOSYS`). It needs no privileges, and every descendant of the command inherits it.

mod filter;
mod sweep;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, anyhow};
use clap::ValueEnum;

/// The calls that the filter refuses, by their names, with commas between. Tests read it.
const CALLS_VARIABLE: &str = "ZCOPY_WITHOUT";
/// The name of the errno that the filter answers with. Tests read it.
const ERRNO_VARIABLE: &str = "ZCOPY_WITHOUT_ERRNO";

/// The command line of `cargo xtask without`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The errno that refused calls fail with [default: ENOSYS, and with --each both]
    #[arg(long, value_name = "NAME", ignore_case = true)]
    errno: Option<Errno>,
    /// Run the command for each call alone and then for all of them, and print a table
    #[arg(long)]
    each: bool,
    /// The calls to refuse [default: all]
    #[arg(value_name = "CALL", ignore_case = true)]
    calls: Vec<Call>,
    /// The command, built for this machine's own architecture: the filter kills others [default:
    /// the tests of zcopy and zcopy-cli, followed by a table]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A call that can be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Call {
    Splice,
    Tee,
    Sendfile,
    CopyFileRange,
    /// `ioctl(FICLONE)` and `ioctl(FICLONERANGE)`.
    Ficlone,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Splice => "splice",
            Self::Tee => "tee",
            Self::Sendfile => "sendfile",
            Self::CopyFileRange => "copy_file_range",
            Self::Ficlone => "ficlone",
        })
    }
}

/// How a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Errno {
    /// As kernels do that lack the call.
    Enosys,
    /// As sandboxes do.
    Eperm,
}

impl Errno {
    fn number(self) -> i32 {
        match self {
            Self::Enosys => libc::ENOSYS,
            Self::Eperm => libc::EPERM,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Enosys => "ENOSYS",
            Self::Eperm => "EPERM",
        })
    }
}

/// The calls that a filter refuses, and the errno that they fail with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// Each call once, in the order of [`Call`].
    calls: Vec<Call>,
    errno: Errno,
}

impl Refusal {
    /// Refuses all calls if none is named.
    fn new(calls: &[Call], errno: Errno) -> Self {
        let named = |call: &Call| calls.is_empty() || calls.contains(call);
        let calls = Call::value_variants().iter().copied().filter(named);
        Self {
            calls: calls.collect(),
            errno,
        }
    }

    /// Tells the command what is refused.
    fn describe_to(&self, command: &mut Command) {
        command.env(CALLS_VARIABLE, self.names());
        command.env(ERRNO_VARIABLE, self.errno.to_string());
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.calls.iter().map(Call::to_string).collect();
        names.join(",")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.calls.len() == Call::value_variants().len() {
            write!(f, "{} all", self.errno)
        } else {
            write!(f, "{} {}", self.errno, self.names())
        }
    }
}

/// Runs `cargo xtask without`.
///
/// A command that runs once replaces this process.
///
/// # Errors
///
/// Fails if a filter cannot be installed, a command cannot be run, or a command of a table fails.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let refusals = refusals(args);
    match (&args.command[..], &refusals[..]) {
        ([program, rest @ ..], [refusal]) if !args.each => {
            let mut command = Command::new(program);
            command.args(rest);
            refusal.describe_to(&mut command);
            filter::install(refusal)?;
            let error = command.exec();
            Err(anyhow!(error)).with_context(|| format!("cannot run {}", program.display()))
        }
        (command, refusals) => sweep::run(command, refusals),
    }
}

/// The runs that the command line asks for.
fn refusals(args: &Args) -> Vec<Refusal> {
    let errnos: Vec<_> = match args.errno {
        Some(errno) => vec![errno],
        None if args.each => Errno::value_variants().to_vec(),
        None => vec![Errno::Enosys],
    };
    let together = |errno| Refusal::new(&args.calls, errno);
    if !args.each {
        return errnos.into_iter().map(together).collect();
    }
    let each = errnos.into_iter().flat_map(|errno| {
        let all = together(errno);
        let alone = all.calls.clone().into_iter();
        let alone = alone.map(move |call| Refusal::new(&[call], errno));
        let is_another = all.calls.len() > 1;
        alone.chain(is_another.then_some(all))
    });
    each.collect()
}

#[cfg(test)]
mod tests;
