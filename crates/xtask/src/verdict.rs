//! Whether a run under a fault was right: exact bytes, or an honest error and an exact prefix.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use rustix::process::Signal;

use crate::programs::Program;
use crate::scenario::{Expected, Observed, STDOUT, Scenario, Stdin, UPSTREAM};
use crate::strace::Call;

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

/// Which side of a transfer a call was made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Input,
    Output,
}

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
    if observed.stderr.contains("panicked") {
        wrong.push("it panicked".to_owned());
    }
    let is_broken_pipe = errno.is_some_and(|errno| errno.name == "EPIPE");
    match status.signal() {
        Some(signal)
            if signal == Signal::PIPE.as_raw() && (is_broken_pipe || scenario.is_endless()) => {}
        Some(signal) => wrong.push(format!("signal {signal} ended it")),
        None => {}
    }
    let has_lost_messages = scenario.is_server() && is_mute(observed, injected);
    let is_success = scenario.has_succeeded(observed) && !has_lost_messages;
    let sides = injected
        .iter()
        .flat_map(|call| sides_of(scenario, observed, call));
    let sides: Vec<_> = sides.collect();
    for (name, expected) in &scenario.outputs {
        let found = observed.outputs.get(name).map_or(&[][..], Vec::as_slice);
        // An output whose reader has left is finished with, and some programs go on with the
        // others.
        let is_left = is_broken_pipe && sides.contains(&Side::Output);
        if let Some(text) = compare(expected, found, is_success && !is_left) {
            wrong.push(format!("{name}: {text}"));
        }
    }
    if let Some(check) = scenario.check {
        wrong.extend(check(scenario, observed));
    }
    if let Some(errno) = errno {
        if is_success {
            wrong.extend(silence(scenario, observed, injected, errno, &sides));
        } else if status.signal().is_none() {
            wrong.extend(message(scenario, observed, injected, errno, &sides));
        }
    }
    wrong
}

/// Describes how an output differs from the expected bytes.
fn compare(expected: &Expected, found: &[u8], must_be_whole: bool) -> Option<String> {
    match expected {
        Expected::Inputs(inputs) => {
            let mut rest = found;
            let mut is_whole = true;
            for input in inputs {
                let same = input.iter().zip(rest).take_while(|(a, b)| a == b).count();
                is_whole &= same == input.len();
                rest = &rest[same..];
            }
            let most: usize = inputs.iter().map(Vec::len).sum();
            let (n, same) = (found.len(), found.len() - rest.len());
            if !rest.is_empty() {
                return Some(format!("byte {same} of {n} is wrong; {most} were to come"));
            }
            (must_be_whole && !is_whole).then(|| format!("{n} of {most} bytes, and success"))
        }
        Expected::Repeated(unit, least) => {
            let expected = unit.iter().cycle();
            let same = found
                .iter()
                .zip(expected)
                .take_while(|(a, b)| a == b)
                .count();
            if same < found.len() {
                return Some(format!("byte {same} of {} is wrong", found.len()));
            }
            (must_be_whole && found.len() < *least)
                .then(|| format!("{} of {least} bytes, and success", found.len()))
        }
    }
}

/// Errors that a file system or a device reports, and that nothing may pass over.
const DATA_LOSS: [&str; 3] = ["EIO", "ENOSPC", "EDQUOT"];

/// Finds an error that a successful run should have reported: a `close` or `fsync` of an output
/// tells that bytes are lost. The examples close files as Rust's standard library does, which
/// ignores errors.
fn silence(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    errno: Errno,
    sides: &[Side],
) -> Vec<String> {
    let is_loss = DATA_LOSS.contains(&errno.name);
    let syncs = ["fsync", "fdatasync", "syncfs"];
    let lost = injected.iter().find(|call| {
        let is_tool = matches!(scenario.program, Program::Tool(_));
        let is_closed = call.name == "close" && is_tool && sides.contains(&Side::Output);
        syncs.contains(&&call.name[..]) || is_closed
    });
    match lost {
        Some(call) if is_loss && !observed.stderr.contains(&errno.text()) => {
            vec![format!(
                "{} said {}, and nobody was told",
                call.name, errno.name
            )]
        }
        _ => Vec::new(),
    }
}

/// Finds mistakes in the messages of a run that failed.
fn message(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    errno: Errno,
    sides: &[Side],
) -> Vec<String> {
    let mut wrong = Vec::new();
    if is_mute(observed, injected) {
        return wrong;
    }
    let stderr = &observed.stderr;
    if stderr.trim().is_empty() {
        if errno.name != "EPIPE" {
            wrong.push("it failed without a message".to_owned());
        }
        return wrong;
    }
    let is_from_program = |line: &str| line.starts_with(scenario.program.name());
    if !stderr.lines().any(is_from_program) {
        wrong.push("no message begins with the program's name".to_owned());
    }
    let is_told_otherwise = errno.name == "EPIPE"
        || injected
            .iter()
            .any(|call| is_reworded(scenario, stderr, call, errno));
    if !is_told_otherwise && !stderr.contains(&errno.text()) {
        wrong.push(format!("no message says '{}'", errno.text()));
    }
    // Which of several calls it failed for is not known.
    let [call] = injected else { return wrong };
    let of_input = names_of_input(scenario, observed, call);
    let blamed = match sides {
        [side] => Some(*side),
        // Memory belongs to neither.
        [_, _] if errno.name == "ENOMEM" => None,
        // Only the reading half of a splice into a pipe that is being read can fail.
        [_, _] if writes_to_pipe(observed) && errno.name != "EPIPE" => Some(Side::Input),
        // A program that has to find out which side failed finds that the input can be read.
        [_, _] => Some(Side::Output),
        _ => None,
    };
    match blamed {
        Some(Side::Input) if !of_input.iter().any(|name| names(stderr, name)) => {
            let names = of_input.join(" or ");
            wrong.push(format!("no message names the input ({names})"));
        }
        Some(Side::Output) if !blames_output(scenario, stderr) => {
            wrong.push("no message names the output".to_owned());
        }
        _ => {}
    }
    wrong
}

/// Whether standard output is a pipe.
fn writes_to_pipe(observed: &Observed) -> bool {
    observed.stdio[1].to_string_lossy().starts_with("pipe:")
}

/// Whether messages themselves could not be written.
fn is_mute(observed: &Observed, injected: &[Call]) -> bool {
    let mut descriptors = injected.iter().flat_map(Call::descriptors);
    descriptors.any(|(_, path)| Path::new(path) == observed.stdio[2])
}

/// Whether a program rightly reports something else than this error: what it finds when it looks
/// for the file that is said to exist, or makes the one that is said to be missing; that a path
/// leads out of the directory that it was to stay in; or that `O_DIRECT`, which it could not avoid
/// then, refuses a part of a block.
fn is_reworded(scenario: &Scenario, stderr: &str, call: &Call, errno: Errno) -> bool {
    let avoids_direct = scenario.args.contains(&"-K");
    match errno.name {
        "EEXIST" => true,
        "ENOENT" if stderr.contains("File exists") => true,
        "EXDEV" if call.name == "openat2" => true,
        _ => avoids_direct && stderr.contains("Invalid argument"),
    }
}

fn names(stderr: &str, name: &str) -> bool {
    stderr.lines().any(|line| {
        let bytes = line.as_bytes();
        line.match_indices(name).any(|(at, _)| {
            let before = at.checked_sub(1).map(|at| bytes[at]);
            let after = bytes.get(at + name.len()).copied();
            let is_end = |byte: Option<u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
            is_end(before) && is_end(after)
        })
    })
}

/// How messages may call the input that a call was made on.
fn names_of_input(scenario: &Scenario, observed: &Observed, call: &Call) -> Vec<String> {
    let dir = observed.dir();
    let mut names = Vec::new();
    for (_, path) in call.descriptors() {
        if Path::new(path) == observed.stdio[0] {
            let usual = [
                "-",
                "standard input",
                "'standard input'",
                "(stdin)",
                "stdin",
                "read error",
            ];
            names.extend(usual.map(str::to_owned));
        } else if let Ok(name) = Path::new(path).strip_prefix(&dir) {
            names.push(name.display().to_string());
        }
    }
    if let Program::Example(_) = scenario.program {
        names.push("source".to_owned());
    }
    names
}

/// Whether a message blames an output.
fn blames_output(scenario: &Scenario, stderr: &str) -> bool {
    let usual = [
        "write error",
        "standard output",
        "(stdout)",
        "sink",
        "client",
        "upstream",
        "server",
    ];
    let outputs = scenario.outputs.iter().map(|(name, _)| *name);
    let outputs = outputs.filter(|name| ![STDOUT, UPSTREAM].contains(name));
    usual
        .into_iter()
        .chain(outputs)
        .any(|name| names(stderr, name))
}

/// The sides that a call was made on: none if it was made on descriptors of the program's own.
fn sides_of(scenario: &Scenario, observed: &Observed, call: &Call) -> Vec<Side> {
    let dir = observed.dir();
    let mut sides = Vec::new();
    for (_, path) in call.descriptors() {
        let path = Path::new(path);
        let name = path.strip_prefix(&dir).ok().and_then(Path::to_str);
        let is_input = |name: &str| {
            let files = scenario.files.iter().map(|(name, _)| *name);
            let mut all = files.chain(scenario.fifos.iter().map(|(name, _)| *name));
            all.any(|input| input == name)
        };
        let is_output = |name: &str| scenario.outputs.iter().any(|(output, _)| *output == name);
        let has_stdin = !matches!(scenario.stdin, Stdin::Null);
        let is_stdout = path == observed.stdio[1] && is_output(STDOUT);
        if is_stdout || name.is_some_and(is_output) {
            sides.push(Side::Output);
        } else if (has_stdin && path == observed.stdio[0]) || name.is_some_and(is_input) {
            sides.push(Side::Input);
        }
    }
    sides.dedup();
    sides
}
