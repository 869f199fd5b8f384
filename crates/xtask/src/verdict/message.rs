//! Whether the messages of a run that failed name the error, the side and the file.

use super::Errno;
use super::target::{Side, Target};
use crate::programs::Program;
use crate::scenario::{Observed, Scenario};
use crate::strace::Call;

/// Finds mistakes in the messages of a run that failed.
pub(super) fn mistakes(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    errno: Errno,
    targets: &[Vec<Target>],
) -> Vec<String> {
    let mut wrong = Vec::new();
    if !observed.is_heard() {
        return wrong;
    }
    if scenario.archive.is_some() && injected.iter().any(Call::denies_any_path) {
        // The program rightly takes the file for missing, which need not be a failure.
        return wrong;
    }
    if scenario.archive.is_some() && injected.iter().all(|call| call.name == "flock") {
        // The run waits, or goes on without a lock. It fails because a file of the archive is
        // damaged.
        return wrong;
    }
    let examines = |call: &Call| ["newfstatat", "statx"].contains(&&*call.name);
    if scenario.archive.is_some()
        && scenario.args.contains(&"--check")
        && injected.iter().all(examines)
    {
        // The size of a file that is counted for the display, and its time of change, can be done
        // without. The lines of standard output are judged by themselves.
        return wrong;
    }
    let stderr = &observed.stderr;
    if stderr.trim().is_empty() {
        if errno.name != "EPIPE" {
            wrong.push("it failed without a message".to_owned());
        }
        return wrong;
    }
    let program = scenario.program.name();
    let lines = || {
        let lines = stderr.split(['\n', '\r']);
        lines.filter(|line| line.starts_with(program))
    };
    if lines().next().is_none() {
        wrong.push("no message begins with the program's name".to_owned());
    }
    let is_told_otherwise = errno.name == "EPIPE"
        || injected
            .iter()
            .any(|call| is_reworded(scenario, stderr, call, errno));
    let texts = errno.texts();
    let tells_error =
        |line: &str| is_told_otherwise || texts.iter().any(|text| line.contains(text));
    if !stderr.lines().any(tells_error) {
        wrong.push(format!("no message says '{}'", texts[0]));
    }
    let blamed = blamed(targets, observed, errno);
    let is_dircopy = scenario.program == Program::Tool("zc-dircopy");
    let side = only_side(targets).filter(|_| is_dircopy);
    let tells_side = |line: &str| side.is_none_or(|side| may_concern(line, side));
    let names_target = |line: &str| {
        let mut names = blamed.iter().flat_map(|target| &target.names);
        names.any(|name| names_file(line, name))
    };
    // A message may call a file without a name anything.
    let is_nameless = blamed.is_empty() || blamed.iter().any(|target| target.names.is_empty());
    let tells_target = |line: &str| is_nameless || names_target(line);
    if let Some(side) = blamed.first().map(|target| target.side).or(side)
        && !lines().any(|line| tells_error(line) && tells_side(line) && tells_target(line))
    {
        let names = blamed.first().map(|target| target.names.join(" or "));
        let names = names.unwrap_or_default();
        wrong.push(format!("no message blames the {side} ({names})"));
    }
    wrong
}

/// The inputs and outputs of which a message has to name one. None if the calls leave it open.
pub(super) fn blamed<'a>(
    targets: &'a [Vec<Target>],
    observed: &Observed,
    errno: Errno,
) -> Vec<&'a Target> {
    let Some((first, others)) = targets.split_first() else {
        return Vec::new();
    };
    match &first[..] {
        // A program may do without the answer of some of the calls, and fail at another one.
        [_] if others.iter().all(|targets| targets.len() == 1) => {
            targets.iter().flatten().collect()
        }
        // Memory belongs to neither.
        [_, _] if errno.name == "ENOMEM" => Vec::new(),
        [a, b] if a.side != b.side && others.iter().all(|targets| targets == first) => {
            // Only the reading half of a splice into a pipe that is being read can fail. Else a
            // program that has to find out which side failed finds that the input can be read.
            let is_pipe = observed.stdio[1].to_string_lossy().starts_with("pipe:");
            let side = if is_pipe && errno.name != "EPIPE" {
                Side::Input
            } else {
                Side::Output
            };
            let ends = [a, b].into_iter();
            ends.filter(|target| target.side == side).collect()
        }
        _ => Vec::new(),
    }
}

/// The side of all targets, if they share one. `None` if a call was made on no target: such a call
/// may be the one that a message tells about.
fn only_side(targets: &[Vec<Target>]) -> Option<Side> {
    if targets.iter().any(Vec::is_empty) {
        return None;
    }
    let mut sides = targets.iter().flatten().map(|target| target.side);
    let first = sides.next()?;
    sides.all(|side| side == first).then_some(first)
}

/// Whether a message of `zc-dircopy` can describe a failure on this side.
fn may_concern(line: &str, side: Side) -> bool {
    let of_other_side: &[&str] = match side {
        Side::Input => &["its copy", "cannot use destination directory"],
        Side::Output => &[
            ": cannot read: ",
            ": cannot open: ",
            ": cannot stat: ",
            ": cannot open directory: ",
            ": cannot read directory: ",
        ],
    };
    !of_other_side.iter().any(|text| line.contains(text))
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
        // glibc says EAGAIN, whatever the kernel says.
        _ if call.name.starts_with("clone") => true,
        _ => avoids_direct && stderr.contains("Invalid argument"),
    }
}

/// Whether a message names a file: as a word of its own, and not as the article in "Is a
/// directory".
fn names_file(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let begins = [
            ": ", "'", "\"", "(", "/", "from ", "to ", "the ", "closing ",
        ];
        let begins = before.is_empty() || begins.iter().any(|end| before.ends_with(end));
        begins && !after.starts_with(|c: char| c.is_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_part_of_another_and_no_article() {
        assert!(names_file("zc-cat: a: Input/output error", "a"));
        assert!(names_file("zc-tee: 'a': Input/output error", "a"));
        assert!(!names_file("zc-cat: b: Is a directory", "a"));
        assert!(!names_file("zc-cat: ab: Input/output error", "a"));
        assert!(!names_file("zc-cat: ba: Input/output error", "a"));
    }
}
