//! Wrong outcomes that are known, with the reason why they stay.

use crate::scenario::{Observed, Scenario};
use crate::strace::Call;

/// Why a wrong outcome stays, if it is known.
pub(super) fn reason(
    scenario: &Scenario,
    observed: &Observed,
    injected: &[Call],
) -> Option<&'static str> {
    if observed.stderr.contains("unexpected error during closedir") {
        return Some("`std::fs::ReadDir` asserts that a directory can be closed");
    }
    if observed.stderr.contains("IO Safety violation") {
        return Some(
            "a debug build asks for the flags of each descriptor that it closes, and takes EBADF for a bug",
        );
    }
    let is_unheard = |call: &Call| call.name == "write" && call.text.contains("EBADF");
    if scenario.is_server() && injected.iter().any(is_unheard) {
        return Some(
            "`std::io::Stdout` says nothing of EBADF, so that no client learns where the server listens",
        );
    }
    None
}
