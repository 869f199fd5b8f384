//! Whether a run under a fault was right: exact bytes, or an honest error and an exact prefix.

use std::fs;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::programs::Program;
use crate::scenario::tree::PARTIAL_LOG;
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
    /// The text of `strerror(3)`, of glibc and of musl.
    fn texts(self) -> [String; 2] {
        let text = std::io::Error::from_raw_os_error(self.number).to_string();
        let end = text.find(" (os error").unwrap_or(text.len());
        let of_musl = TEXTS_OF_MUSL.iter().find(|(name, _)| *name == self.name);
        [&text[..end], of_musl.map_or(&text[..end], |(_, text)| text)].map(str::to_owned)
    }
}

/// The texts of musl that are not those of glibc.
const TEXTS_OF_MUSL: &[(&str, &str)] = &[
    ("EADDRINUSE", "Address in use"),
    ("EADDRNOTAVAIL", "Address not available"),
    ("EBUSY", "Resource busy"),
    ("ECONNABORTED", "Connection aborted"),
    ("EDQUOT", "Quota exceeded"),
    ("EIO", "I/O error"),
    ("ELOOP", "Symbolic link loop"),
    ("EMFILE", "No file descriptors available"),
    ("ENAMETOOLONG", "Filename too long"),
    ("ENETUNREACH", "Network unreachable"),
    ("ENOMEM", "Out of memory"),
    ("ENOTCONN", "Socket not connected"),
    ("ENOTTY", "Not a tty"),
    ("EOPNOTSUPP", "Not supported"),
    ("EOVERFLOW", "Value too large for data type"),
    ("ERANGE", "Result not representable"),
    ("ESPIPE", "Invalid seek"),
    ("ETIMEDOUT", "Operation timed out"),
    ("EXDEV", "Cross-device link"),
];

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
    // A call on both sides counts for the side that a message has to name.
    let blamed = errno.map_or_else(Vec::new, |errno| message::blamed(&targets, observed, errno));
    let is_on = |side| {
        if blamed.is_empty() {
            all().any(|target| target.side == side)
        } else {
            blamed.iter().any(|target| target.side == side)
        }
    };
    let (is_input, is_output) = (is_on(Side::Input), is_on(Side::Output));
    for (name, expected) in &scenario.outputs {
        let found = observed.output(name);
        // An output whose reader has left needs no more bytes. Some programs go on with the others.
        let reader_has_left = is_broken_pipe && all().any(|target| target.output == Some(name));
        let strictness = if is_success && !reader_has_left {
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
    wrong.extend(leftovers(scenario, observed));
    if let Some(check) = scenario.check {
        wrong.extend(check(scenario, observed));
    }
    if let Some(errno) = errno {
        let must_go_on = errno.name == "EINTR" && injected.iter().all(moves_bytes);
        if must_go_on && !is_success && observed.is_heard() {
            wrong.push("a signal's interruption ended it".to_owned());
        }
        if !is_success && injected.iter().all(|call| must_fall_back(call, errno)) {
            wrong.push(format!("it does not go on without {}", injected[0].name));
        }
        if scenario.program == Program::Tool("zc-pv")
            && let Some(code) = status.code()
        {
            wrong.extend(missing_transfer_bit(code, injected, &targets));
        }
        if is_success {
            wrong.extend(ignored_data_loss(observed, injected, errno, &targets));
        } else if status.signal().is_none() {
            wrong.extend(message::mistakes(
                scenario, observed, injected, errno, &targets,
            ));
        }
    }
    wrong
}

/// Finds the bit for a failed transfer missing from the status of `zc-pv`.
fn missing_transfer_bit(code: i32, injected: &[Call], targets: &[Vec<Target>]) -> Option<String> {
    const TRANSFER: i32 = 16;
    let mut calls = injected.iter().zip(targets);
    let is_transfer = calls.all(|(call, targets)| moves_bytes(call) && !targets.is_empty());
    let is_missing = is_transfer && code != 0 && code & TRANSFER == 0;
    is_missing.then(|| format!("the transfer failed, and the status is {code}"))
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

/// Whether the file system or the kernel does not know what a call asks for, so that a program has
/// to do it in another way: make a file with a name, or copy where blocks cannot be shared.
fn must_fall_back(call: &Call, errno: Errno) -> bool {
    let (what, errnos): (_, &[&str]) = if call.text.contains("O_TMPFILE") {
        ("O_TMPFILE", &["EOPNOTSUPP", "EINVAL", "ENOSYS", "EISDIR"])
    } else {
        (
            "FICLONE",
            &["EOPNOTSUPP", "EINVAL", "ENOSYS", "ENOTTY", "EXDEV", "EPERM"],
        )
    };
    call.text.contains(what) && errnos.contains(&errno.name)
}

/// Finds files that a program has made and not removed. `zc-dircopy` has rules of its own.
fn leftovers(scenario: &Scenario, observed: &Observed) -> Vec<String> {
    let is_ended = observed
        .status
        .is_some_and(|status| status.signal().is_none());
    let mut injected = observed.injected().into_iter();
    let may_stay = injected.any(|call| call.name.starts_with("unlink"));
    if scenario.program == Program::Tool("zc-dircopy") || !is_ended || may_stay {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(observed.dir()) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let strangers = names.filter(|name| {
        let is_file = scenario.files.iter().any(|(file, _)| *file == name);
        let is_fifo = scenario.fifos.iter().any(|(fifo, _)| *fifo == name);
        let is_named = scenario.args.iter().any(|arg| *arg == name);
        !is_file && !is_fifo && !is_named
    });
    strangers
        .map(|name| format!("{} was left behind", name.display()))
        .collect()
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
    // An input is asked for its first byte where the output is closed, as GNU cat reads it then,
    // and cannot be given back by a cursor that does not move.
    let is_exempt = |call: &Call| call.name == "lseek" || call.text.contains("EBADF");
    if !is_copy || injected.iter().any(is_exempt) {
        return None;
    }
    let arrived = observed.output(name).len() as u64;
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
fn ignored_data_loss(
    observed: &Observed,
    injected: &[Call],
    errno: Errno,
    targets: &[Vec<Target>],
) -> Option<String> {
    let syncs = ["fsync", "fdatasync", "syncfs", "sync_file_range"];
    let mut calls = injected.iter().zip(targets);
    let (lost, _) = calls.find(|(call, targets)| {
        let is_closed = call.name == "close"
            && !is_duplicate_of_pipe(call)
            && targets
                .iter()
                .any(|target| target.is_lost_with_close(observed));
        // A log of progress that does not come to the disk costs a later run time, and no bytes.
        let is_synced = syncs.contains(&&call.name[..]) && !call.text.contains(PARTIAL_LOG);
        is_synced || is_closed
    })?;
    let Call { name, .. } = lost;
    DATA_LOSS
        .contains(&errno.name)
        .then(|| format!("{name} said {}, and the status is a success", errno.name))
}

/// Whether a call closes a duplicate of standard output, which is a pipe. Such a `close` loses
/// nothing: every byte was taken or refused by the write before.
fn is_duplicate_of_pipe(call: &Call) -> bool {
    call.text.contains("<pipe:[") && !call.text.starts_with("1<")
}

#[cfg(test)]
mod tests;
