//! Mounts that only the run itself sees.
//!
//! They are made in a mount namespace of its own, and are gone with it: whatever removes a scratch
//! directory, even of a test that panics, never finds anything else beneath it.

use std::path::Path;
use std::process::Command;

use super::{Run, run};
use crate::skip::{has_program, is_root};

/// Whether that can be done here; says so if not.
pub(super) fn can_mount() -> bool {
    is_root() && has_program("unshare")
}

/// Runs it where a directory stands at another place too. Both are paths to directories on a disk:
/// `mount` would take a path through `/proc` for where it seems to lead.
#[track_caller]
pub(super) fn run_with_bind(command: &Command, directory: &Path, place: &Path) -> Run {
    assert!(!directory.starts_with("/proc") && directory != Path::new("/"));
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    run(apart(script)
        .arg(directory)
        .arg(place)
        .arg(command.get_program())
        .args(command.get_args()))
}

/// Runs it where another file system is mounted, which has the file `d/inside`.
pub(super) fn run_with_tmpfs(command: &Command, place: &Path) -> Run {
    let script = "mount -t tmpfs -o size=1m none \"$1\" && mkdir \"$1/d\" && echo it > \"$1/d/inside\" && shift && exec \"$@\"";
    run(apart(script)
        .arg(place)
        .arg(command.get_program())
        .args(command.get_args()))
}

/// A shell that runs a script in a mount namespace of its own.
pub(super) fn apart(script: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        script,
        "sh",
    ]);
    unshare
}
