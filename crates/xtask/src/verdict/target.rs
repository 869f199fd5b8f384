//! The files, pipes and sockets of a scenario that a call was made on.

use std::fmt;
use std::path::Path;

use crate::programs::Program;
use crate::scenario::tree::archive::HARD_LINKS;
use crate::scenario::tree::{COPY, LINK, OTHER_COPY, SOURCE};
use crate::scenario::{Observed, STDOUT, Scenario, Stdin};
use crate::strace::Call;

/// A side of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// An input or output of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) side: Side,
    /// The output's name in [`Scenario::outputs`].
    pub(super) output: Option<&'static str>,
    /// How messages may call it. Empty if that is not known.
    pub(super) names: Vec<String>,
    /// Whether the program wrote to it and owns the descriptor.
    is_written: bool,
    path: String,
}

impl Target {
    /// Whether an error of `close` tells that bytes are lost.
    pub(super) fn is_lost_with_close(&self, observed: &Observed) -> bool {
        self.is_written && !observed.dir().join(&self.path).is_dir()
    }
}

/// The inputs and outputs that a call was made on. Descriptors of the program's own, such as
/// private pipes, are not among them.
pub(super) fn of_call(scenario: &Scenario, observed: &Observed, call: &Call) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    let paths = call.paths(&observed.dir());
    let is_intermediate =
        |path: &Path| is_temporary(observed, path) || is_spool(scenario, observed, path);
    if paths.iter().any(|path| is_intermediate(path)) {
        return targets;
    }
    for path in paths {
        if let Some(target) = of_path(scenario, observed, &path)
            && !targets.contains(&target)
        {
            targets.push(target);
        }
    }
    targets
}

/// Whether a path is that of a temporary file, which is an output first, and then an input.
fn is_temporary(observed: &Observed, path: &Path) -> bool {
    let dir = observed.dir();
    let is_beside_dir = path != dir && path.parent() == dir.parent();
    is_beside_dir && !observed.stdio.iter().any(|stdio| stdio == path)
}

/// Whether a path is that of a file in which `zc-pv -U` stores all bytes before it writes them.
fn is_spool(scenario: &Scenario, observed: &Observed, path: &Path) -> bool {
    let mut pairs = scenario.args.windows(2);
    pairs.any(|pair| pair[0] == "-U" && path == observed.dir().join(pair[1]))
}

fn of_path(scenario: &Scenario, observed: &Observed, path: &Path) -> Option<Target> {
    let path = match path.to_str()? {
        "/proc/self/fd/0" => &observed.stdio[0],
        "/proc/self/fd/1" => &observed.stdio[1],
        _ => path,
    };
    let is_tool = matches!(scenario.program, Program::Tool(_));
    let output = |name: &str| {
        let mut outputs = scenario.outputs.iter().map(|(output, _)| *output);
        outputs.find(|output| *output == name)
    };
    let target = |side, output, names: &[&str], path: &str| Target {
        side,
        output,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        // The examples close files as Rust's standard library does, which ignores errors.
        is_written: side == Side::Output && is_tool,
        path: path.to_owned(),
    };
    if path == observed.stdio[1] {
        let output = output(STDOUT)?;
        let names: &[&str] = if scenario.is_server() {
            &["client", "standard output"]
        } else {
            &[
                "write error",
                "standard output",
                "(stdout)",
                "stdout",
                "sink",
            ]
        };
        return Some(target(Side::Output, Some(output), names, STDOUT));
    }
    if path == observed.stdio[0] && !matches!(scenario.stdin, Stdin::Null) {
        let names = [
            "-",
            "standard input",
            "(stdin)",
            "stdin",
            "read error",
            "source",
        ];
        return Some(target(Side::Input, None, &names, "standard input"));
    }
    let name = path.strip_prefix(observed.dir()).ok()?.to_str()?;
    if let Some(output) = output(name) {
        return Some(target(Side::Output, Some(output), &[name, "sink"], name));
    }
    let files = scenario.files.iter().map(|(file, _)| *file);
    let mut inputs = files.chain(scenario.fifos.iter().map(|(fifo, _)| *fifo));
    if inputs.any(|input| input == name) {
        let names: &[&str] = if is_tool { &[name] } else { &[name, "source"] };
        return Some(target(Side::Input, None, names, name));
    }
    if scenario.program != Program::Tool("zc-dircopy") {
        return None;
    }
    let (tree, below) = name.split_once('/').unwrap_or((name, ""));
    let side = match tree {
        SOURCE => Side::Input,
        COPY if scenario.args.contains(&"--check") => Side::Input,
        COPY | OTHER_COPY => Side::Output,
        _ => return None,
    };
    // A call on a directory may concern any entry of it, and messages do not show the temporary
    // name of a new file.
    let original = observed.dir().join(SOURCE).join(below);
    let is_file = original
        .symlink_metadata()
        .is_ok_and(|found| !found.is_dir());
    let names: &[&str] = match below {
        _ if !is_file => &[],
        // With `-L` the file is copied through the link as well.
        "linked" | "sub/text" if scenario.args.contains(&"-L") => &["linked", "sub/text", LINK],
        "linked" | "sub/text" => &["linked", "sub/text"],
        _ if HARD_LINKS.contains(&below) => &HARD_LINKS,
        _ => &[below],
    };
    // zc-dircopy writes to files without a name, which strace calls by their number. Files with one
    // it reads, and symbolic links it opens as paths.
    let is_unnamed = below
        .rsplit('/')
        .next()
        .is_some_and(|last| last.starts_with('#'));
    let mut target = target(side, None, names, name);
    target.is_written &= is_unnamed;
    Some(target)
}
