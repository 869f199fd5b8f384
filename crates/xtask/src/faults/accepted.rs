//! Wrong outcomes that are known, with the reason why they stay.

use crate::programs::Program;
use crate::scenario::{Observed, STDOUT, Scenario};
use crate::strace::Call;

/// Why a wrong outcome stays, if it is known.
pub(super) fn reason(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
    wrong: &[String],
) -> Option<&'static str> {
    // A panic leaves what a killed program leaves. It explains no wrong bytes.
    let begins = [
        "it panicked",
        "signal ",
        "it failed without ",
        "the status is neither ",
    ];
    let is_about_panic = |text: &String| {
        text.contains("no message ")
            || text.ends_with(" was left behind")
            || begins.iter().any(|begin| text.starts_with(begin))
    };
    let has_panicked = wrong.iter().all(is_about_panic);
    if has_panicked && observed.stderr.contains("unexpected error during closedir") {
        return Some("`std::fs::ReadDir` asserts that a directory can be closed");
    }
    if has_panicked && observed.stderr.contains("IO Safety violation") {
        return Some(
            "a debug build asks for the flags of each descriptor that it closes, and takes EBADF for a bug",
        );
    }
    let is_unheard = |call: &Call| {
        call.name == "write" && call.text.starts_with("1<") && call.text.contains("EBADF")
    };
    // These print by the standard library. Their output is then short, and nothing else is wrong.
    let prints = ["explain", "hash_while_copying", "relay", "serve_file"];
    let prints = matches!(scenario.program, Program::Example(name) if prints.contains(&name));
    let is_short =
        |text: &String| text.starts_with(STDOUT) && text.ends_with(" bytes, and success");
    if prints && injected.iter().any(is_unheard) && wrong.iter().all(is_short) {
        return Some(
            "`std::io::Stdout` ignores EBADF, so that an example cannot know that its output is lost",
        );
    }
    None
}
