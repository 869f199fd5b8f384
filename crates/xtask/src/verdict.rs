//! Whether a run under a fault was right: exact bytes, or an honest error and an exact prefix.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::programs::Program;
use crate::scenario::{Expected, Observed, STDOUT, Scenario, Stdin, Stdout};
use crate::strace::Call;
use bytes::Strictness;
use target::{Side, Target};

mod bytes;
mod message;
mod target;

/// The error that was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno {
    /// Its name, such as `EIO`.
    pub(crate) name: &'static str,
    pub(crate) number: i32,
}

impl Errno {
    /// The text of `strerror(3)`.
    fn text(self) -> String {
        let text = std::io::Error::from_raw_os_error(self.number).to_string();
        let end = text.find(" (os error").unwrap_or(text.len());
        text[..end].to_owned()
    }
}

/// The status of a Rust program whose main thread has panicked.
const PANICKED: i32 = 101;

/// Lists what is wrong with a run, in which `injected` calls were made to fail with `errno`.
pub(crate) fn judge(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    errno: Option<Errno>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let Some(status) = observed.status else {
        return vec!["it did not end".to_owned()];
    };
    // Where messages cannot be written, the status alone tells of a panic.
    if observed.stderr.contains("panicked") || status.code() == Some(PANICKED) {
        wrong.push("it panicked".to_owned());
    }
    let is_broken_pipe = errno.is_some_and(|errno| errno.name == "EPIPE");
    match status.signal() {
        Some(signal)
            if signal == Signal::PIPE.as_raw() && (is_broken_pipe || scenario.is_endless()) => {}
        Some(signal) => wrong.push(format!("signal {signal} ended it")),
        None => {}
    }
    let has_lost_messages = scenario.is_server() && !observed.is_heard();
    let is_success = scenario.has_succeeded(observed) && !has_lost_messages;
    let targets: Vec<_> = injected
        .iter()
        .map(|call| target::of_call(scenario, observed, call))
        .collect();
    let all = || targets.iter().flatten();
    let is_output = all().any(|target| target.side == Side::Output);
    let is_input = all().any(|target| target.side == Side::Input);
    for (name, expected) in &scenario.outputs {
        let found = observed.outputs.get(name).map_or(&[][..], Vec::as_slice);
        // An output whose reader has left is finished with, and some programs go on with the
        // others.
        let is_left = is_broken_pipe && all().any(|target| target.output == Some(name));
        let strictness = if is_success && !is_left {
            Strictness::Whole
        } else if is_output && !is_input {
            Strictness::Prefix
        } else {
            Strictness::PrefixOfEach
        };
        // A run that failed early has left what was there.
        let is_untouched = !is_success && old_file(scenario, name) == Some(found);
        if !is_untouched && let Some(text) = bytes::compare(expected, found, strictness) {
            wrong.push(format!("{name}: {text}"));
        }
        if !found.starts_with(old_contents(scenario, name)) {
            wrong.push(format!("{name}: bytes that were there before are gone"));
        }
    }
    if !is_success && is_output && !is_input {
        wrong.extend(lost_input(scenario, observed, injected));
    }
    if let Some(check) = scenario.check {
        wrong.extend(check(scenario, observed));
    }
    if let Some(errno) = errno {
        let must_go_on = errno.name == "EINTR" && injected.iter().all(moves_bytes);
        if must_go_on && !is_success && observed.is_heard() {
            wrong.push("a signal's interruption ended it".to_owned());
        }
        if !is_success && injected.iter().all(|call| is_optional(call, errno)) {
            wrong.push("it does not go on without a file that has no name".to_owned());
        }
        if scenario.program == Program::Tool("zc-pv")
            && let Some(code) = status.code()
        {
            wrong.extend(lacking_bit(code, injected, &targets));
        }
        if is_success {
            wrong.extend(silence(observed, injected, errno, &targets));
        } else if status.signal().is_none() {
            wrong.extend(message::mistakes(
                scenario, observed, injected, errno, &targets,
            ));
        }
    }
    wrong
}

/// Finds the bit for a failed transfer missing from the status of `zc-pv`.
fn lacking_bit(code: i32, injected: &[Call], targets: &[Vec<Target>]) -> Option<String> {
    const TRANSFER: i32 = 16;
    let mut calls = injected.iter().zip(targets);
    let is_transfer = calls.all(|(call, targets)| moves_bytes(call) && !targets.is_empty());
    let is_lacking = is_transfer && code != 0 && code & TRANSFER == 0;
    is_lacking.then(|| format!("the transfer failed, and the status is {code}"))
}

/// Whether a call moves bytes, and is to be made again after a signal has interrupted it.
fn moves_bytes(call: &Call) -> bool {
    let names = [
        "splice",
        "tee",
        "sendfile",
        "copy_file_range",
        "read",
        "write",
        "pread64",
        "pwrite64",
        "preadv2",
        "pwritev2",
        "recvfrom",
        "sendto",
    ];
    names.contains(&&call.name[..])
}

/// Whether the file system does not know files without a name, so that a program has to make one
/// that has a name.
fn is_optional(call: &Call, errno: Errno) -> bool {
    let refusals = ["EOPNOTSUPP", "EINVAL", "ENOSYS", "EISDIR"];
    call.text.contains("O_TMPFILE") && refusals.contains(&errno.name)
}

/// Finds bytes that the only output did not take, and that the next reader of standard input does
/// not get.
fn lost_input(scenario: &Scenario, observed: &Observed, injected: &[Call]) -> Option<String> {
    let [(name, Expected::Inputs(inputs))] = &scenario.outputs[..] else {
        return None;
    };
    let Stdin::File { bytes, cursor } = &scenario.stdin else {
        return None;
    };
    let rest = &bytes[usize::try_from(*cursor).ok()?..];
    let is_copy = inputs.len() == 1 && rest.starts_with(&inputs[0]);
    // An input is asked for its first byte where the output is closed, as GNU cat reads it then, and
    // cannot be given back by a cursor that does not move.
    let is_exempt = |call: &Call| call.name == "lseek" || call.text.contains("EBADF");
    if !is_copy || injected.iter().any(is_exempt) {
        return None;
    }
    let arrived = observed.outputs.get(name).map_or(0, Vec::len) as u64;
    let (found, expected) = (observed.cursor?, cursor + arrived);
    (found != expected).then(|| format!("{arrived} bytes arrived, and the cursor is at {found}"))
}

/// The bytes of an output that a program appends to.
fn old_contents<'a>(scenario: &'a Scenario, name: &str) -> &'a [u8] {
    let appends = scenario.args.contains(&"-a");
    match &scenario.stdout {
        Stdout::Append(old) if name == STDOUT => old,
        _ => old_file(scenario, name).filter(|_| appends).unwrap_or(&[]),
    }
}

/// The bytes of an output file that stood there before the run.
fn old_file<'a>(scenario: &'a Scenario, name: &str) -> Option<&'a [u8]> {
    let old = scenario.files.iter().find(|(file, _)| *file == name);
    old.map(|(_, bytes)| &bytes[..])
}

/// Errors that a file system or a device reports, and that nothing may pass over.
const DATA_LOSS: [&str; 3] = ["EIO", "ENOSPC", "EDQUOT"];

/// Finds an error for which a successful run should have failed: a `close` or `fsync` of an output
/// tells that bytes are lost.
fn silence(
    observed: &Observed,
    injected: &[Call],
    errno: Errno,
    targets: &[Vec<Target>],
) -> Option<String> {
    let syncs = ["fsync", "fdatasync", "syncfs", "sync_file_range"];
    let mut calls = injected.iter().zip(targets);
    let (lost, _) = calls.find(|(call, targets)| {
        let is_closed = call.name == "close"
            && targets
                .iter()
                .any(|target| target.is_lost_with_close(observed));
        syncs.contains(&&call.name[..]) || is_closed
    })?;
    let Call { name, .. } = lost;
    DATA_LOSS
        .contains(&errno.name)
        .then(|| format!("{name} said {}, and the status is a success", errno.name))
}

#[cfg(test)]
mod tests;
